//! Creates a user namespace by bubblewrap.
//!
//! Some machines let only known programs create one, and bubblewrap is among those wherever it is installed. It does nothing else for
//! us: the view, the stage and everything else are created by us within that namespace, so nothing holds less.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use windlass_core::Program;
use windlass_sandbox::{Launch, LaunchError, ResourceLimits};

use super::environment::DEFAULT_PATH;
use super::program;
use super::refusal::Refusal;

/// Maximum time that bubblewrap may take.
const BUBBLEWRAP_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of its output that are read.
const MAX_OUTPUT_BYTES: u64 = 4096;

/// Command that prints its process id once it is in the namespace, and stays until its standard input is closed.
const HOLDER_COMMAND: [&str; 9] =
    ["bwrap", "--unshare-user", "--dev-bind", "/", "/", "--", "/bin/sh", "-c", "echo $$; read end"];

/// Error about a user namespace that bubblewrap could not create.
#[derive(Debug)]
pub(super) enum BubblewrapError {
    NotInstalled,
    /// The program was refused before it was run.
    Refused(Refusal),
    Launch(LaunchError),
    Machine(io::Error),
    /// It printed this instead of a process id.
    Output(String),
    /// The namespace of this path cannot be opened.
    Open(String, io::Error),
    /// The process is still in our own namespace.
    OwnNamespace,
}

impl fmt::Display for BubblewrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("bubblewrap is not installed"),
            Self::Refused(refusal) => write!(f, "{refusal:?}"),
            Self::Launch(error) => write!(f, "bubblewrap could not be run: {error}"),
            Self::Machine(error) => write!(f, "bubblewrap could not be run: {error}"),
            Self::Output(line) => write!(f, "bubblewrap made no namespace: {line}"),
            Self::Open(path, error) => write!(f, "{path} could not be opened: {error}"),
            Self::OwnNamespace => f.write_str("bubblewrap made no namespace of its own"),
        }
    }
}

/// Returns the user namespace of bubblewrap. It is created on first use and kept for the process, because one serves all programs.
pub(super) fn user_namespace(
    workspace: &Path,
) -> Result<BorrowedFd<'static>, &'static BubblewrapError> {
    static USER_NAMESPACE: OnceLock<Result<File, BubblewrapError>> = OnceLock::new();
    USER_NAMESPACE.get_or_init(|| create_namespace(workspace)).as_ref().map(File::as_fd)
}

/// Runs bubblewrap, and opens the namespace of the process that it starts.
fn create_namespace(workspace: &Path) -> Result<File, BubblewrapError> {
    let words = HOLDER_COMMAND.map(Into::into).to_vec();
    let (program, arguments) =
        program::find(&Program::Words(words), workspace).map_err(|refusal| match refusal {
            Refusal::Program(_) => BubblewrapError::NotInstalled,
            other => BubblewrapError::Refused(other),
        })?;
    let machine = BubblewrapError::Machine;
    let (stdin, end) = io::pipe().map_err(machine)?;
    let (said, output) = io::pipe().map_err(machine)?;
    let holder = windlass_sandbox::launch(&Launch {
        program,
        arguments,
        environment: vec![format!("PATH={DEFAULT_PATH}").into()],
        directory: "/".into(),
        stdin: Some(stdin.as_fd()),
        output: output.as_fd(),
        errors: None,
        terminal: false,
        view: None,
        users: None,
        session: None,
        fence: None,
        limits: ResourceLimits::default(),
        group: None,
    })
    .map_err(BubblewrapError::Launch)?;
    drop((stdin, output));
    let line = first_line(said.into()).map_err(machine)?;
    let made = line
        .trim()
        .parse()
        .map_err(|_| BubblewrapError::Output(line.trim().to_owned()))
        .and_then(open_namespace);
    // The process is not needed any more: the open handle keeps the namespace.
    drop((end, holder));
    made
}

/// Reads the output up to the first line end, or to its end.
fn first_line(said: OwnedFd) -> io::Result<String> {
    let mut said = File::from(said).take(MAX_OUTPUT_BYTES);
    let (mut line, start) = (Vec::new(), Instant::now());
    loop {
        let left = BUBBLEWRAP_TIMEOUT.saturating_sub(start.elapsed());
        let mut fds = [PollFd::new(said.get_ref(), PollFlags::IN)];
        if left.is_zero() || poll(&mut fds, Some(&left.try_into().map_err(io::Error::other)?))? == 0
        {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        let mut bytes = [0; 256];
        let read = said.read(&mut bytes)?;
        line.extend(bytes.iter().take(read));
        if read == 0 || line.contains(&b'\n') {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
}

/// Opens the user namespace of a process, and fails if it is our own.
fn open_namespace(holder: u32) -> Result<File, BubblewrapError> {
    let path = format!("/proc/{holder}/ns/user");
    let made = File::open(&path).map_err(|error| BubblewrapError::Open(path, error))?;
    let number = |file: io::Result<std::fs::Metadata>| file.map(|found| found.ino()).ok();
    if number(made.metadata()) == number(std::fs::metadata("/proc/self/ns/user")) {
        return Err(BubblewrapError::OwnNamespace);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_namespace_and_missing_process_are_errors() {
        let error = |holder| open_namespace(holder).unwrap_err().to_string();
        assert!(error(std::process::id()).contains("no namespace of its own"));
        assert!(error(0).contains("/proc/0/ns/user could not be opened"));
    }

    #[test]
    fn output_is_read_up_to_the_first_line_end() {
        for (said, heard) in [("12\nmore", "12\nmore"), ("no end", "no end"), ("", "")] {
            let (read, mut write) = io::pipe().unwrap();
            io::Write::write_all(&mut write, said.as_bytes()).unwrap();
            drop(write);
            assert_eq!(first_line(read.into()).unwrap(), heard);
        }
    }
}
