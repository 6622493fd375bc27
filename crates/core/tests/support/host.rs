//! A host whose files have fingerprints and no content: enough for tests of changed files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::testing::FixedClock;
use windlass_core::{
    Alteration, Altered, Attributes, Clock, FileError, FileErrorKind, FileKind, Files, Fingerprint,
    FoundBody, FoundEntry, Host, OpenFile, Resolved, SessionId, Stat, TargetState, Visitor,
    WalkOptions, WalkReport, normalize,
};

/// A host with files in `/w` that have a modification time and no content. It is 1,000 s after 1970.
pub(crate) struct MapHost {
    clock: FixedClock,
    modified: Mutex<HashMap<PathBuf, i64>>,
    excluded: Option<PathBuf>,
    session: Option<SessionId>,
    sessions: Vec<Arc<MapHost>>,
}

impl MapHost {
    /// Makes a host with these files, last modified 1 ns after 1970.
    pub(crate) fn with<const N: usize>(names: [&str; N]) -> Self {
        let modified = names.map(|name| (Path::new("/w").join(name), 1)).into();
        Self {
            clock: FixedClock::at(1_000),
            modified: Mutex::new(modified),
            excluded: None,
            session: None,
            sessions: Vec::new(),
        }
    }

    /// Hides this file by an `.aiexclude`.
    pub(crate) fn hiding(mut self, name: &str) -> Self {
        self.excluded = Some(Path::new("/w").join(name));
        self
    }

    /// Gives a session a view of its own, with these files.
    pub(crate) fn with_session<const N: usize>(mut self, id: &str, names: [&str; N]) -> Self {
        let session = Some(SessionId::new(id));
        self.sessions.push(Arc::new(Self { session, ..Self::with(names) }));
        self
    }

    /// Sets the modification time of a file, in nanoseconds after 1970.
    pub(crate) fn touch(&self, name: &str, at: i64) {
        self.modified.lock().unwrap().insert(Path::new("/w").join(name), at);
    }

    /// Advances the clock.
    pub(crate) fn wait(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Returns the error of an operation that this host does not have.
    fn unsupported<T>(path: &Resolved) -> Result<T, FileError> {
        Err(FileError::new("open", &path.path, FileErrorKind::Permission))
    }
}

impl Host for MapHost {
    fn files(&self) -> &dyn Files {
        self
    }

    fn session_files(&self, session: &SessionId) -> Option<Arc<dyn Files>> {
        let own = self.sessions.iter().find(|own| own.session.as_ref() == Some(session))?;
        Some(own.clone())
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}

impl Files for MapHost {
    fn workspace(&self) -> &Path {
        Path::new("/w")
    }

    fn session_tmp(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        let path = normalize(&Path::new("/w").join(path));
        let inside = path.strip_prefix("/w").ok().map(Path::to_owned);
        let exists = self.modified.lock().unwrap().contains_key(&path);
        Ok(Resolved { path, inside, exists })
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        let modified = self.modified.lock().unwrap().get(&path.path).copied();
        let modified = if path.path == Path::new("/w") { Some(1) } else { modified };
        let modified = modified
            .ok_or_else(|| FileError::new("look at", &path.path, FileErrorKind::NotFound))?;
        let fingerprint = Fingerprint { device: 1, inode: 1, len: 1, modified, changed: modified };
        Ok(Stat { kind: FileKind::File, len: 1, mode: 0o644, links: 1, fingerprint })
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        Self::unsupported(path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        _: &WalkOptions<'a>,
        _: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        Self::unsupported(root)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        let Ok(stat) = self.stat(path) else { return Ok(None) };
        let body = FoundBody::Symlink(path.path.clone());
        Ok(Some(FoundEntry { stat, attributes: Attributes::default(), body }))
    }

    /// Moves and removes files. Fails for other alterations, since files have no content.
    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        let gone = || FileError::new("change", &path.path, FileErrorKind::NotFound);
        match alteration.to {
            TargetState::Nothing => {
                self.modified.lock().unwrap().remove(&path.path).ok_or_else(gone)?;
                Ok(Altered { stat: None, in_place: false })
            }
            TargetState::Moved { from, .. } => {
                let mut modified = self.modified.lock().unwrap();
                let age = modified.remove(&from.path).ok_or_else(gone)?;
                modified.insert(path.path.clone(), age);
                drop(modified);
                Ok(Altered { stat: Some(self.stat(path)?), in_place: false })
            }
            _ => Self::unsupported(path),
        }
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        let hidden = self.excluded.as_ref() == Some(&path.path);
        Ok(hidden.then(|| PathBuf::from("/w/.aiexclude")))
    }

    fn nearest(&self, _: &Path) -> Option<PathBuf> {
        None
    }
}
