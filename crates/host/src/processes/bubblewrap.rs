//! A namespace of users that bubblewrap has made.
//!
//! Some machines let only programs that they know make one, and bubblewrap is among those wherever it is installed. No more than that
//! is asked of it: the view, the stage and all else are made by us within that namespace, so that nothing holds less.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use windlass_core::Program;
use windlass_sandbox::{Launch, Limits};

use super::environment::USUAL_PATH;
use super::program;
use super::refusal::Refusal;

/// How long bubblewrap may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of what it says, so much is looked at.
const MOST: u64 = 4096;

/// Says who it is once it is in the namespace, and stays until nobody listens.
const HOLDER: [&str; 9] =
    ["bwrap", "--unshare-user", "--dev-bind", "/", "/", "--", "/bin/sh", "-c", "echo $$; read end"];

/// That namespace, made when it is first asked for; or why it could not be.
pub(super) fn users(workspace: &Path) -> Result<BorrowedFd<'static>, String> {
    static USERS: OnceLock<Result<File, String>> = OnceLock::new();
    let made = USERS.get_or_init(|| make(workspace));
    made.as_ref().map(File::as_fd).map_err(Clone::clone)
}

fn make(workspace: &Path) -> Result<File, String> {
    let words = HOLDER.map(Into::into).to_vec();
    let (program, arguments) =
        program::find(&Program::Words(words), workspace).map_err(|refusal| match refusal {
            Refusal::Program(_) => "bubblewrap is not installed".to_owned(),
            other => format!("{other:?}"),
        })?;
    let machine = |error: io::Error| format!("bubblewrap could not be run: {error}");
    let (stdin, end) = io::pipe().map_err(machine)?;
    let (said, output) = io::pipe().map_err(machine)?;
    let holder = windlass_sandbox::launch(&Launch {
        program,
        arguments,
        environment: vec![format!("PATH={USUAL_PATH}").into()],
        directory: "/".into(),
        stdin: Some(stdin.as_fd()),
        output: output.as_fd(),
        errors: None,
        terminal: false,
        view: None,
        users: None,
        session: None,
        fence: None,
        limits: Limits::default(),
        group: None,
    })
    .map_err(|error| format!("bubblewrap could not be run: {error}"))?;
    drop((stdin, output));
    let line = first_line(said.into()).map_err(machine)?;
    let made = line
        .trim()
        .parse()
        .map_err(|_| format!("bubblewrap made no namespace: {}", line.trim()))
        .and_then(open);
    // It is not needed any more: who holds the namespace keeps it.
    drop((end, holder));
    made
}

/// What it says first; all that it says if that is less.
fn first_line(said: OwnedFd) -> io::Result<String> {
    let mut said = File::from(said).take(MOST);
    let (mut line, start) = (Vec::new(), Instant::now());
    loop {
        let left = PATIENCE.saturating_sub(start.elapsed());
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

/// The namespace of a process, if it is another than ours.
fn open(holder: u32) -> Result<File, String> {
    let path = format!("/proc/{holder}/ns/user");
    let made = File::open(&path).map_err(|error| format!("{path} could not be opened: {error}"))?;
    let number = |file: io::Result<std::fs::Metadata>| file.map(|found| found.ino()).ok();
    if number(made.metadata()) == number(std::fs::metadata("/proc/self/ns/user")) {
        return Err("bubblewrap made no namespace of its own".to_owned());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_already_is_none_that_was_made() {
        assert!(open(std::process::id()).unwrap_err().contains("no namespace of its own"));
        assert!(open(0).unwrap_err().contains("/proc/0/ns/user could not be opened"));
    }

    #[test]
    fn the_first_line_is_what_counts() {
        for (said, heard) in [("12\nmore", "12\nmore"), ("no end", "no end"), ("", "")] {
            let (read, mut write) = io::pipe().unwrap();
            io::Write::write_all(&mut write, said.as_bytes()).unwrap();
            drop(write);
            assert_eq!(first_line(read.into()).unwrap(), heard);
        }
    }
}
