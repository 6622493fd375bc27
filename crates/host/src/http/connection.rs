//! A connection with limits: every byte is counted, and every wait has an end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use windlass_core::{HttpLimits, HttpUrl, ToolError, TrafficMeter};

use super::failed;

/// Bytes that are read or written at a time.
const MAX_BYTES_PER_READ: usize = 16 << 10;

/// A connection to the host of a URL.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    url: HttpUrl,
    pub(super) limits: HttpLimits,
    meter: Arc<dyn TrafficMeter>,
    started: Instant,
    /// Bytes that were read; those before `used` are used.
    buffer: Vec<u8>,
    used: usize,
    /// Bytes of heads and trailers so far.
    pub(super) header_bytes: usize,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        url: HttpUrl,
        limits: HttpLimits,
        meter: Arc<dyn TrafficMeter>,
    ) -> Self {
        let started = Instant::now();
        Self { stream, url, limits, meter, started, buffer: Vec::new(), used: 0, header_bytes: 0 }
    }

    /// Returns the error that the URL could not be fetched.
    pub(super) fn failed(&self, why: &str) -> ToolError {
        failed(&self.url, why)
    }

    /// Returns the bytes that were read and not used.
    pub(super) fn unused(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Marks the first `count` unused bytes as used.
    pub(super) fn use_bytes(&mut self, count: usize) {
        self.used = (self.used + count).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Waits for more bytes and adds them to the buffer; `false` at the end of the connection.
    pub(super) async fn read_more(&mut self) -> Result<bool, ToolError> {
        let time = self.time_left()?;
        drop(self.buffer.drain(..self.used));
        self.used = 0;
        let mut piece = (&mut self.stream).take(MAX_BYTES_PER_READ as u64);
        self.buffer.reserve(MAX_BYTES_PER_READ);
        let read = timeout(time, piece.read_buf(&mut self.buffer)).await;
        let count = match read {
            Err(_) => return Err(self.too_slow()),
            Ok(Err(error)) => return Err(self.failed(&format!("the connection was cut: {error}"))),
            Ok(Ok(count)) => count,
        };
        self.count(count)?;
        Ok(count > 0)
    }

    /// Writes all bytes.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), ToolError> {
        for piece in bytes.chunks(MAX_BYTES_PER_READ) {
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

    /// Counts bytes; fails once the session's budget for the network is spent.
    fn count(&self, bytes: usize) -> Result<(), ToolError> {
        if self.meter.pass(bytes as u64) {
            return Ok(());
        }
        Err(ToolError::busy(format!(
            "{} was not read to its end: the session may move no more bytes over the network",
            self.url
        )))
    }

    /// Returns the time limit for the next wait; fails if the total time is over.
    fn time_left(&self) -> Result<Duration, ToolError> {
        let left = self.limits.total_time.saturating_sub(self.started.elapsed());
        if left.is_zero() { Err(self.too_slow()) } else { Ok(left.min(self.limits.idle_time)) }
    }

    /// Returns the error for a response that was too slow.
    fn too_slow(&self) -> ToolError {
        let (limits, took) = (&self.limits, self.started.elapsed());
        if took >= limits.total_time {
            let limit = limits.total_time.as_secs_f64();
            return self.failed(&format!("it was not there within {limit} s"));
        }
        self.failed(&format!("nothing came for {} s", limits.idle_time.as_secs_f64()))
    }
}
