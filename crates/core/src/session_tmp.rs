//! The session's own directory for temporary files, and the paths by which programs and file tools reach it.
//!
//! Programs see it as `/tmp` and `/var/tmp`. [`Files`] of a session map these paths to the same directory; neither can reach the machine's
//! own `/tmp`. The workspace takes precedence: it may be below `/tmp`, and then it and the directories above it are the machine's, while
//! everything else below `/tmp` is the session's.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Files, Host, SessionId};

/// The paths of the directory, the usual one first.
pub const SESSION_TMP: [&str; 2] = ["/tmp", "/var/tmp"];

/// Returns an absolute path relative to the session's directory for temporary files, or `None` if it is not there.
///
/// ```
/// use std::path::Path;
/// use windlass_core::below_session_tmp;
/// let below = |path: &'static str| below_session_tmp(path.as_ref(), "/tmp/project".as_ref());
/// assert_eq!(below("/tmp/note"), Some(Path::new("note")));
/// assert_eq!(below("/var/tmp/note"), Some(Path::new("note")));
/// assert_eq!(below("/tmp/project/note"), None, "it is in the workspace");
/// assert_eq!(below("/tmp"), None, "the workspace is in it");
/// assert_eq!(below("/etc/hosts"), None);
/// ```
pub fn below_session_tmp<'p>(path: &'p Path, workspace: &Path) -> Option<&'p Path> {
    // Called several times for each call, so the first letter decides most cases.
    if matches!(path.as_os_str().as_bytes(), [b'/', first, ..] if !matches!(first, b't' | b'v' | b'.' | b'/'))
    {
        return None;
    }
    let below = SESSION_TMP.iter().find_map(|name| path.strip_prefix(name).ok())?;
    let is_of_workspace = workspace.starts_with(path) || path.starts_with(workspace);
    (!is_of_workspace).then_some(below)
}

/// Returns the usual form of an absolute path: `/tmp/x` for `/var/tmp/x`, if both are the session's.
///
/// ```
/// use std::path::PathBuf;
/// use windlass_core::usual_tmp_path;
/// let usual = |path: &str| usual_tmp_path(path.into(), "/home/ada/project".as_ref());
/// assert_eq!(usual("/var/tmp/a/b"), PathBuf::from("/tmp/a/b"));
/// assert_eq!(usual("/var/log/a"), PathBuf::from("/var/log/a"));
/// ```
pub fn usual_tmp_path(path: PathBuf, workspace: &Path) -> PathBuf {
    let [usual, _] = SESSION_TMP;
    let Some(below) = below_session_tmp(&path, workspace) else { return path };
    // Joining an empty path would add a slash.
    let is_root = below.as_os_str().is_empty();
    let renamed = if is_root { PathBuf::from(usual) } else { Path::new(usual).join(below) };
    if below_session_tmp(&renamed, workspace).is_some() { renamed } else { path }
}

/// The files that the calls of one session work on. Cheap to clone.
#[derive(Clone)]
pub(crate) enum SessionFiles {
    /// Those of the machine, with a `/tmp` of the session.
    OfSession(Arc<dyn Files>),
    /// Those of the machine, the same for all sessions.
    OfMachine(Arc<dyn Host>),
}

impl SessionFiles {
    /// Opens the files of a session.
    pub(crate) fn open(host: &Arc<dyn Host>, session: &SessionId) -> Self {
        match host.session_files(session) {
            Some(files) => Self::OfSession(files),
            None => Self::OfMachine(host.clone()),
        }
    }

    /// Returns the files.
    pub(crate) fn get(&self) -> &dyn Files {
        match self {
            Self::OfSession(files) => &**files,
            Self::OfMachine(host) => host.files(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_takes_precedence_over_tmp() {
        for (workspace, path, below, usual) in [
            ("/w", "/tmp", Some(""), "/tmp"),
            ("/w", "/tmp/a/b", Some("a/b"), "/tmp/a/b"),
            ("/w", "/var/tmp", Some(""), "/tmp"),
            ("/w", "/var/tmp/a", Some("a"), "/tmp/a"),
            ("/w", "/tmpfs/a", None, "/tmpfs/a"),
            ("/w", "/var", None, "/var"),
            ("/", "/tmp/a", None, "/tmp/a"),
            ("/var", "/var/tmp/a", None, "/var/tmp/a"),
            ("/var", "/tmp/a", Some("a"), "/tmp/a"),
            ("/tmp", "/tmp/a", None, "/tmp/a"),
            ("/tmp", "/var/tmp/a", Some("a"), "/var/tmp/a"),
            ("/tmp/x/w", "/tmp/x", None, "/tmp/x"),
            ("/tmp/x/w", "/tmp/x/y", Some("x/y"), "/tmp/x/y"),
            ("/tmp/x/w", "/var/tmp", Some(""), "/var/tmp"),
            ("/tmp/x/w", "/var/tmp/x/w/a", Some("x/w/a"), "/var/tmp/x/w/a"),
            ("/tmp/x/w", "/var/tmp/a", Some("a"), "/tmp/a"),
        ] {
            let (path, workspace) = (Path::new(path), Path::new(workspace));
            assert_eq!(below_session_tmp(path, workspace), below.map(Path::new), "{path:?}");
            assert_eq!(usual_tmp_path(path.to_owned(), workspace), Path::new(usual), "{path:?}");
        }
    }
}
