//! A connection with its limits: bytes are counted, and every wait has an end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use windlass_core::{HttpLimits, HttpUrl, Meter, ToolError};

use super::failed;

/// The bytes that are read at a time.
const PIECE: usize = 16 << 10;

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    url: HttpUrl,
    pub(super) limits: HttpLimits,
    meter: Arc<dyn Meter>,
    began: Instant,
    /// Read and not yet used, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// The bytes of heads and trailers so far.
    pub(super) header_bytes: usize,
}

impl Wire {
    pub(super) fn new(
        stream: TcpStream,
        url: HttpUrl,
        limits: HttpLimits,
        meter: Arc<dyn Meter>,
    ) -> Self {
        let began = Instant::now();
        Self { stream, url, limits, meter, began, buffer: Vec::new(), at: 0, header_bytes: 0 }
    }

    pub(super) fn failed(&self, why: &str) -> ToolError {
        failed(&self.url, why)
    }

    /// The bytes that are there, unused.
    pub(super) fn ready(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Uses bytes that are there.
    pub(super) fn take(&mut self, count: usize) {
        self.at = (self.at + count).min(self.buffer.len());
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
    }

    /// Waits for more bytes; `false` at the end of the connection.
    pub(super) async fn fill(&mut self) -> Result<bool, ToolError> {
        let time = self.time_left()?;
        drop(self.buffer.drain(..self.at));
        self.at = 0;
        let mut piece = (&mut self.stream).take(PIECE as u64);
        self.buffer.reserve(PIECE);
        let read = timeout(time, piece.read_buf(&mut self.buffer)).await;
        let count = match read {
            Err(_) => return Err(self.too_slow()),
            Ok(Err(error)) => return Err(self.failed(&format!("the connection was cut: {error}"))),
            Ok(Ok(count)) => count,
        };
        self.count(count)?;
        Ok(count > 0)
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), ToolError> {
        for piece in bytes.chunks(PIECE) {
            let time = self.time_left()?;
            match timeout(time, self.stream.write_all(piece)).await {
                Err(_) => return Err(self.too_slow()),
                Ok(Err(error)) => {
                    return Err(self.failed(&format!("the connection was cut: {error}")));
                }
                Ok(Ok(())) => self.count(piece.len())?,
            }
        }
        Ok(())
    }

    fn count(&self, bytes: usize) -> Result<(), ToolError> {
        if self.meter.pass(bytes as u64) {
            return Ok(());
        }
        Err(ToolError::busy(format!(
            "{} was not read to its end: the session may move no more bytes over the network",
            self.url
        )))
    }

    /// The time for the next wait.
    fn time_left(&self) -> Result<Duration, ToolError> {
        let left = self.limits.total_time.saturating_sub(self.began.elapsed());
        if left.is_zero() { Err(self.too_slow()) } else { Ok(left.min(self.limits.idle_time)) }
    }

    fn too_slow(&self) -> ToolError {
        let (limits, took) = (&self.limits, self.began.elapsed());
        if took >= limits.total_time {
            let limit = limits.total_time.as_secs_f64();
            return self.failed(&format!("it was not there within {limit} s"));
        }
        self.failed(&format!("nothing came for {} s", limits.idle_time.as_secs_f64()))
    }
}
