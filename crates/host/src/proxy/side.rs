//! One side of a proxied connection, with a buffer for reading.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::record::{Direction, TrafficMonitor};

/// Bytes of the read buffer.
const BUFFER_BYTES: usize = 32 << 10;

/// Time and bytes for which a client is still read before its connection is closed.
const LINGER_LIMITS: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

/// The client's or the host's side of a proxied connection.
#[derive(Debug)]
pub(super) struct ConnectionSide {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

impl ConnectionSide {
    pub(super) fn new(stream: TcpStream) -> Self {
        // A tunnel adds no delay of its own; without this option it is slower, not wrong.
        drop(stream.set_nodelay(true));
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, reader), writer }
    }

    /// Waits for the first byte without consuming it. `None` if the connection ended.
    pub(super) async fn first_byte(&mut self) -> Option<u8> {
        self.reader.fill_buf().await.ok()?.first().copied()
    }

    /// Writes the last bytes and closes. Reads and drops what the other side still sends for a moment, because closing with unread bytes
    /// resets the connection, which could lose the last bytes.
    pub(super) async fn close_with(mut self, last_bytes: &[u8]) {
        let linger = async {
            self.writer.write_all(last_bytes).await?;
            self.writer.shutdown().await?;
            let mut left = LINGER_LIMITS.1;
            loop {
                let read = self.reader.fill_buf().await?.len();
                if read == 0 || read > left {
                    return Ok::<(), io::Error>(());
                }
                left -= read;
                self.reader.consume(read);
            }
        };
        drop(timeout(LINGER_LIMITS.0, linger).await);
    }

    /// Resets the connection, so that the other side does not take a truncated stream for a complete one.
    pub(super) fn reset(self) {
        drop(self.writer.as_ref().set_zero_linger());
        // If this half were dropped, it would end the stream in the regular way.
        self.writer.forget();
    }
}

/// Reason why a copy of bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyEnd {
    /// The source ended, and everything was written.
    Complete,
    /// The receiver closed its side. This is not an error, because it may still have something to send.
    ReceiverGone,
}

/// Copies bytes until the source ends, the receiver is gone or the budget is spent.
pub(super) async fn copy_bytes(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    monitor: &TrafficMonitor<'_>,
    direction: Direction,
) -> io::Result<CopyEnd> {
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(CopyEnd::Complete);
        }
        match to.write(bytes).await {
            Ok(0) | Err(_) => return Ok(CopyEnd::ReceiverGone),
            Ok(written) => {
                from.consume(written);
                // The copy may never pause, so the budget is checked here.
                if !monitor.count(direction, written) {
                    return Err(io::Error::other("more than may pass"));
                }
            }
        }
    }
}

/// Writes bytes of the proxy itself, and counts them.
pub(super) async fn write_counted(
    bytes: &[u8],
    to: &mut OwnedWriteHalf,
    monitor: &TrafficMonitor<'_>,
    direction: Direction,
) -> CopyEnd {
    match to.write_all(bytes).await {
        Ok(()) => {
            // These are few bytes; the next copy notices a spent budget.
            let _: bool = monitor.count(direction, bytes.len());
            CopyEnd::Complete
        }
        Err(_) => CopyEnd::ReceiverGone,
    }
}
