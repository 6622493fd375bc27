//! Messages on their way to the client: one buffer for all tasks.
//!
//! A message is serialized to a line in the buffer at once; a background task writes the buffer. It writes everything that has
//! gathered meanwhile, so responses that are ready together are sent in one piece.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::end_signal::EndSignal;

/// Size of the buffer above which reading and progress wait for the client to take what is queued.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// Maximum capacity that a written batch keeps for the next one.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// Queue and writer of messages to the client.
pub(crate) struct Outgoing {
    waiting: Mutex<Vec<u8>>,
    /// Notified when a message was queued.
    put: Notify,
    writer: tokio::sync::Mutex<Writer>,
    /// Signalled when writing failed: the client is gone.
    ended: EndSignal,
}

/// The output stream, and the batch that is being written to it.
struct Writer {
    output: Box<dyn AsyncWrite + Send + Unpin>,
    batch: Vec<u8>,
    /// Number of bytes of the batch that are written.
    written: usize,
}

impl Outgoing {
    /// Creates a queue of messages for this output.
    pub(crate) fn new(output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self {
            waiting: Mutex::default(),
            put: Notify::new(),
            writer: tokio::sync::Mutex::new(Writer {
                output: Box::new(output),
                batch: Vec::new(),
                written: 0,
            }),
            ended: EndSignal::default(),
        }
    }

    /// Appends a message to the queue.
    pub(crate) fn queue(&self, message: &impl Serialize) {
        let mut waiting = self.waiting();
        let before = waiting.len();
        match serde_json::to_writer(&mut *waiting, message) {
            Ok(()) => waiting.push(b'\n'),
            // Our messages can always be serialized. If one cannot, the others are still sent.
            Err(_) => waiting.truncate(before),
        }
        drop(waiting);
        self.put.notify_one();
    }

    /// Writes queued messages until writing fails.
    pub(crate) async fn write_queued(&self) {
        loop {
            self.put.notified().await;
            if self.flush().await.is_err() {
                return;
            }
        }
    }

    /// Waits, if too much is queued, until the client has taken it.
    pub(crate) async fn wait_for_room(&self) {
        if self.waiting().len() > MAX_QUEUED_BYTES {
            // The end of the connection is handled elsewhere.
            drop(self.flush().await);
        }
    }

    /// Writes everything in the queue. If the future is dropped half-way, the next call writes the rest.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        let mut wrote = false;
        while writer.next_batch(&self.waiting) {
            wrote = true;
            self.noting_failure(writer.write_batch().await)?;
        }
        if wrote {
            self.noting_failure(writer.output.flush().await)?;
        }
        Ok(())
    }

    /// Returns the signal that writing has failed.
    pub(crate) fn ended(&self) -> &EndSignal {
        &self.ended
    }

    /// Locks the bytes that wait to be written.
    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the end of the connection if writing failed.
    fn noting_failure(&self, result: io::Result<()>) -> io::Result<()> {
        result.map_err(|error| {
            let kind = error.kind();
            self.ended.signal(Some(error));
            kind.into()
        })
    }
}

impl Writer {
    /// Takes the queue as the next batch if the last one is written. Returns false if there is nothing to write.
    fn next_batch(&mut self, waiting: &Mutex<Vec<u8>>) -> bool {
        if self.written == self.batch.len() {
            self.written = 0;
            self.batch.clear();
            self.batch.shrink_to(MAX_KEPT_BYTES);
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut self.batch, &mut *waiting);
        }
        !self.batch.is_empty()
    }

    /// Writes the rest of the batch.
    async fn write_batch(&mut self) -> io::Result<()> {
        while let Some(rest) = self.batch.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.output.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.written += count,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use super::*;

    /// A writer that takes a few bytes at a time, and counts the writes.
    #[derive(Clone, Default)]
    struct Slow {
        taken: Arc<Mutex<Vec<u8>>>,
        most: usize,
        writes: Arc<Mutex<usize>>,
    }

    impl Slow {
        fn numbers(&self) -> Vec<u32> {
            let text = String::from_utf8(self.taken.lock().unwrap().clone()).unwrap();
            text.lines().map(|line| line.parse().unwrap()).collect()
        }
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let mut writes = self.writes.lock().unwrap();
            *writes += 1;
            if self.most < 10 && writes.is_multiple_of(2) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let count = bytes.len().min(self.most);
            self.taken.lock().unwrap().extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn messages_that_are_ready_together_are_sent_in_one_write() {
        let slow = Slow { most: usize::MAX, ..Slow::default() };
        let outgoing = Outgoing::new(slow.clone());
        for number in 0..100 {
            outgoing.queue(&number);
        }
        let written = async {
            while slow.numbers().len() < 100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = outgoing.write_queued() => {}
            () = written => {}
        }
        assert_eq!(*slow.writes.lock().unwrap(), 1);
        assert_eq!(slow.numbers(), (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_dropped_flush_loses_no_data() {
        let slow = Slow { most: 3, ..Slow::default() };
        let outgoing = Outgoing::new(slow.clone());
        for number in 1000..1050 {
            outgoing.queue(&number);
            // Polled once, then dropped in the middle of a line.
            let mut flush = Box::pin(outgoing.flush());
            assert!(poll_once(&mut flush).is_pending());
        }
        outgoing.flush().await.unwrap();
        assert_eq!(slow.numbers(), (1000..1050).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_write_error_signals_the_end_and_is_kept() {
        let outgoing = Outgoing::new(Slow { most: 0, ..Slow::default() });
        outgoing.queue(&1);
        assert_eq!(outgoing.flush().await.unwrap_err().kind(), io::ErrorKind::WriteZero);
        outgoing.ended().wait().await;
        assert!(outgoing.ended().take_failure().is_some());
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
