//! The `/tmp` of a session, as the path resolver of its file tools reaches it.
//!
//! Everything below it is looked up from a handle on the session's directory. So neither a name nor a link leads into the machine's
//! own `/tmp`, and `..` does not lead out of the session's directory.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use windlass_core::{SESSION_TMP, SessionId};

use crate::temporary::{TemporaryDirectories, TemporaryDirectory};

/// The `/tmp` of one session. Its directory is created on first use.
#[derive(Debug)]
pub(crate) struct SessionTmp {
    pub(crate) session: SessionId,
    directories: Arc<TemporaryDirectories>,
    opened: OnceLock<TemporaryDirectory>,
}

impl SessionTmp {
    pub(crate) fn new(directories: Arc<TemporaryDirectories>, session: SessionId) -> Self {
        Self { session, directories, opened: OnceLock::new() }
    }

    /// Returns the handle of the session's directory and the path relative to it, for an absolute path that begins with one of the
    /// names of `/tmp`. Fails for any other path.
    pub(crate) fn handle_and_path<'p>(
        &self,
        path: &'p Path,
    ) -> Result<(BorrowedFd<'_>, &'p Path), Errno> {
        let below = SESSION_TMP.iter().find_map(|name| path.strip_prefix(name).ok());
        Ok((self.handle()?, below.ok_or(Errno::ACCESS)?))
    }

    /// Returns the handle of the session's directory, which is created on first use.
    fn handle(&self) -> Result<BorrowedFd<'_>, Errno> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.handle.as_fd());
        }
        let opened = self.directories.open(Some(&self.session));
        let opened = opened.map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::IO))?;
        Ok(self.opened.get_or_init(|| opened).handle.as_fd())
    }
}
