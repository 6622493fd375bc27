//! What the programs of one session share: a directory for temporary files, and a loopback interface.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::SessionId;
use windlass_sandbox::SessionNamespaces;

use crate::temporary::{TemporaryDirectories, TemporaryDirectory};

/// The first port on which a proxy listens for a program.
const FIRST_PORT: u16 = 3128;

/// Sessions whose loopback interface is kept. Programs of older ones get a new one.
const MOST_SESSIONS: usize = 256;

/// The sessions that have started programs here.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Option<SessionId>, Arc<SharedPlaces>>>);

/// What the programs of one session share.
#[derive(Debug)]
pub(super) struct SharedPlaces {
    /// The directory that is `/tmp` for its programs.
    pub(super) temporary: TemporaryDirectory,
    namespaces: Mutex<Option<Arc<SessionNamespaces>>>,
    next_port: AtomicU16,
}

impl Sessions {
    /// The shared places of a session, made if they are not there.
    pub(super) fn get(
        &self,
        id: Option<&SessionId>,
        directories: &TemporaryDirectories,
    ) -> io::Result<Arc<SharedPlaces>> {
        let mut sessions = lock(&self.0);
        if let Some(known) = sessions.get(&id.cloned()) {
            return Ok(known.clone());
        }
        if sessions.len() >= MOST_SESSIONS {
            sessions.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = Arc::new(SharedPlaces {
            temporary: directories.open(id)?,
            namespaces: Mutex::default(),
            next_port: AtomicU16::new(FIRST_PORT),
        });
        sessions.insert(id.cloned(), places.clone());
        Ok(places)
    }
}

impl SharedPlaces {
    /// The session's namespaces, for one more program. The first one makes them; others wait until it has.
    pub(super) fn join(&self) -> Membership<'_> {
        let namespaces = lock(&self.namespaces);
        match namespaces.clone() {
            Some(known) => Membership { known: Some(known), first: None },
            None => Membership { known: None, first: Some(namespaces) },
        }
    }

    /// A port of the loopback interface for one more listener of ours.
    pub(super) fn port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed).max(FIRST_PORT)
    }
}

/// The part of a program in the namespaces of its session: it joins them, or is the first.
pub(super) struct Membership<'a> {
    known: Option<Arc<SessionNamespaces>>,
    first: Option<MutexGuard<'a, Option<Arc<SessionNamespaces>>>>,
}

impl Membership<'_> {
    pub(super) fn namespaces(&self) -> Option<&SessionNamespaces> {
        self.known.as_deref()
    }

    /// Keeps what the first program has made for the others.
    pub(super) fn keep(self, made: Option<SessionNamespaces>) {
        if let Some(mut first) = self.first {
            *first = made.map(Arc::new);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
