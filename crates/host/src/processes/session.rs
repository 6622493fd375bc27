//! State that the programs of one session share: a directory for temporary files, and a loopback interface.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::SessionId;
use windlass_sandbox::SessionNamespaces;

use crate::temporary::{TemporaryDirectories, TemporaryDirectory};

/// First port on which a proxy listens for a program.
const FIRST_PORT: u16 = 3128;

/// Maximum sessions whose loopback interface is kept. Programs of older ones get a new interface.
const MAX_SESSIONS: usize = 256;

/// The sessions that have started programs.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Option<SessionId>, Arc<SessionShared>>>);

/// State that the programs of one session share.
#[derive(Debug)]
pub(super) struct SessionShared {
    /// Directory that its programs see as `/tmp`.
    pub(super) temporary: TemporaryDirectory,
    namespaces: Mutex<Option<Arc<SessionNamespaces>>>,
    next_port: AtomicU16,
}

impl Sessions {
    /// Returns the shared state of a session, and creates it if it is new.
    pub(super) fn get(
        &self,
        id: Option<&SessionId>,
        directories: &TemporaryDirectories,
    ) -> io::Result<Arc<SessionShared>> {
        let mut sessions = lock(&self.0);
        if let Some(known) = sessions.get(&id.cloned()) {
            return Ok(known.clone());
        }
        if sessions.len() >= MAX_SESSIONS {
            sessions.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = Arc::new(SessionShared {
            temporary: directories.open(id)?,
            namespaces: Mutex::default(),
            next_port: AtomicU16::new(FIRST_PORT),
        });
        sessions.insert(id.cloned(), places.clone());
        Ok(places)
    }
}

impl SessionShared {
    /// Joins the session's namespaces for one more program. The first program creates them, and others wait until it has.
    pub(super) fn join(&self) -> Membership<'_> {
        let namespaces = lock(&self.namespaces);
        match namespaces.clone() {
            Some(known) => Membership { known: Some(known), first: None },
            None => Membership { known: None, first: Some(namespaces) },
        }
    }

    /// Returns a port of the loopback interface for one more proxy.
    pub(super) fn port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed).max(FIRST_PORT)
    }
}

/// A program's membership in the namespaces of its session: it joins them, or is the first and creates them.
pub(super) struct Membership<'a> {
    known: Option<Arc<SessionNamespaces>>,
    first: Option<MutexGuard<'a, Option<Arc<SessionNamespaces>>>>,
}

impl Membership<'_> {
    /// Returns the namespaces to join; `None` for the first program.
    pub(super) fn namespaces(&self) -> Option<&SessionNamespaces> {
        self.known.as_deref()
    }

    /// Keeps the namespaces that the first program has created for the others.
    pub(super) fn keep(self, made: Option<SessionNamespaces>) {
        if let Some(mut first) = self.first {
            *first = made.map(Arc::new);
        }
    }
}

/// Locks a mutex, even a poisoned one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
