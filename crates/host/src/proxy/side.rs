//! One side of a connection: what it says, through a buffer, and what it is told.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::record::{Pulse, Way};

/// Bytes that are moved at once.
const BUFFER: usize = 32 << 10;

/// How long, and for how many bytes, a client is heard out before its connection is closed.
const FAREWELL: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

#[derive(Debug)]
pub(super) struct Side {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

impl Side {
    pub(super) fn new(stream: TcpStream) -> Self {
        // A tunnel adds no delay of its own; where that cannot be told to the kernel it is slower, not wrong.
        drop(stream.set_nodelay(true));
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::with_capacity(BUFFER, reader), writer }
    }

    /// Waits for the first byte and leaves it where it is.
    pub(super) async fn first_byte(&mut self) -> Option<u8> {
        self.reader.fill_buf().await.ok()?.first().copied()
    }

    /// Says a last word and closes. What the other side still sends is read and forgotten for a moment: closing on unread bytes
    /// resets a connection, and the last word could be lost with it.
    pub(super) async fn end_with(mut self, last_word: &[u8]) {
        let farewell = async {
            self.writer.write_all(last_word).await?;
            self.writer.shutdown().await?;
            let mut left = FAREWELL.1;
            loop {
                let read = self.reader.fill_buf().await?.len();
                if read == 0 || read > left {
                    return Ok::<(), io::Error>(());
                }
                left -= read;
                self.reader.consume(read);
            }
        };
        drop(timeout(FAREWELL.0, farewell).await);
    }

    /// Closes without a farewell, so that the other side does not take what was cut off for a whole.
    pub(super) fn reset(self) {
        drop(self.writer.as_ref().set_zero_linger());
        // Dropped, this half would say politely that all is said.
        self.writer.forget();
    }
}

/// Why bytes are no longer moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All is said.
    Said,
    /// Nobody hears it. That is no error: who does not listen may still have something to say.
    Unheard,
}

/// Moves bytes until there are no more.
pub(super) async fn pump(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut OwnedWriteHalf,
    pulse: &Pulse<'_>,
    way: Way,
) -> io::Result<End> {
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(End::Said);
        }
        match to.write(bytes).await {
            Ok(0) | Err(_) => return Ok(End::Unheard),
            Ok(written) => {
                from.consume(written);
                // Whoever always has more to move does not let go until it is told here.
                if !pulse.beat(way, written) {
                    return Err(io::Error::other("more than may pass"));
                }
            }
        }
    }
}

/// Says something of our own.
pub(super) async fn say(bytes: &[u8], to: &mut OwnedWriteHalf, pulse: &Pulse<'_>, way: Way) -> End {
    match to.write_all(bytes).await {
        Ok(()) => {
            // It is little, and what follows is told.
            let _: bool = pulse.beat(way, bytes.len());
            End::Said
        }
        Err(_) => End::Unheard,
    }
}
