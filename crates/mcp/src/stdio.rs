//! Standard input and output, without helper threads if possible.
//!
//! A client starts a server with pipes or, as Node does, with sockets. The runtime can wait for both itself; anything else (a
//! terminal, a file) is read and written by Tokio's helper threads, which costs two thread switches per message.

use tokio::io::{AsyncRead, AsyncWrite};

/// Opens standard input.
pub(crate) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    #[cfg(target_os = "linux")]
    if let Some(input) = linux::input() {
        return input;
    }
    Box::new(tokio::io::stdin())
}

/// Opens standard output.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    #[cfg(target_os = "linux")]
    if let Some(output) = linux::output() {
        return output;
    }
    Box::new(tokio::io::stdout())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream as StdUnixStream;

    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    // A pipe is opened anew, so that the non-blocking mode applies to our end alone and not to a stream that other processes may
    // share.

    /// Opens standard input for asynchronous reading, if it is a pipe or a Unix socket.
    pub(super) fn input() -> Option<Box<dyn AsyncRead + Send + Unpin>> {
        if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            return Some(Box::new(pipe));
        }
        Some(Box::new(socket(std::io::stdin())?))
    }

    /// Opens standard output for asynchronous writing, if it is a pipe or a Unix socket.
    pub(super) fn output() -> Option<Box<dyn AsyncWrite + Send + Unpin>> {
        if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
            return Some(Box::new(pipe));
        }
        Some(Box::new(socket(std::io::stdout())?))
    }

    /// Returns the stream as a socket, if it is a Unix socket.
    fn socket(stream: impl AsFd) -> Option<UnixStream> {
        let file = std::fs::File::from(stream.as_fd().try_clone_to_owned().ok()?);
        if !file.metadata().ok()?.file_type().is_socket() {
            return None;
        }
        let socket = StdUnixStream::from(OwnedFd::from(file));
        // This call fails for sockets of any other kind.
        socket.local_addr().ok()?;
        socket.set_nonblocking(true).ok()?;
        UnixStream::from_std(socket).ok()
    }
}
