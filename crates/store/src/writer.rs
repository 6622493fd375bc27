//! The writer of a process: it appends queued records to a spool, which it takes with the first record.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use windlass_core::{JournalError, Record, SessionId};

use crate::StoreError;
use crate::drain::Drain;
use crate::frame::Frame;
use crate::last_record_anchor::LastRecordAnchor;
use crate::spool::Spool;
use crate::tables::Announcement;
use crate::timestamp::to_nanos;
use crate::writer_slots::WriterSlots;

/// A record to write, and the channel for the result.
#[derive(Debug)]
pub(crate) struct QueuedRecord {
    pub(crate) record: Record,
    pub(crate) waiter: oneshot::Sender<Result<(), JournalError>>,
}

/// A session that waits to be written with the next record.
#[derive(Debug)]
pub(crate) struct QueuedSession {
    pub(crate) at: i64,
    pub(crate) session: SessionId,
    pub(crate) workspace: String,
    pub(crate) parent: Option<SessionId>,
    /// The principal as JSON, if it is not the person of this machine.
    pub(crate) principal: Option<String>,
}

impl QueuedSession {
    /// The frame that announces the session.
    fn frame(&self) -> Frame<'_> {
        Frame::Announced(Announcement {
            at: self.at,
            session: self.session.as_str(),
            workspace: &self.workspace,
            parent: self.parent.as_ref().map(SessionId::as_str),
            principal: self.principal.as_deref(),
        })
    }
}

/// A spool and the settings of writing.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Sessions to announce with the next record.
    pub(crate) sessions: Vec<QueuedSession>,
    slots: WriterSlots,
    clock: fn() -> SystemTime,
    process: u32,
    /// The spool, taken by the first write.
    spool: Option<Spool>,
    /// This process has written a `Taken` frame to the spool.
    has_written_taken: bool,
    /// The bytes that the spool may grow between two drains.
    limit: u64,
    /// The size at which the spool is to be drained.
    drain_at: u64,
    /// The last written record, without its body.
    last: Option<Record>,
}

impl Writer {
    /// A drain of at most this many bytes may run while callers wait for the writer.
    const MAX_BLOCKING_DRAIN_BYTES: u64 = 16 << 10;
    /// A spool of this length is drained and emptied even while callers wait.
    const MAX_SPOOL_BYTES: u64 = 64 << 20;

    pub(crate) fn new(slots: WriterSlots, clock: fn() -> SystemTime, limit: u64) -> Self {
        Self {
            sessions: Vec::new(),
            slots,
            clock,
            process: std::process::id(),
            spool: None,
            has_written_taken: false,
            limit,
            drain_at: limit,
            last: None,
        }
    }

    /// Writes the last-record anchor beside the outside anchor. A failure is ignored: the journal works without it.
    pub(crate) fn write_last_record_anchor(&self, anchor: Option<&Path>) {
        if let (Some(last), Some(anchor)) = (&self.last, anchor) {
            drop(LastRecordAnchor::of(last).write(&LastRecordAnchor::path(anchor)));
        }
    }

    /// Appends the queued sessions and these records to the spool, all or none.
    pub(crate) fn write(&mut self, records: &[QueuedRecord]) -> Result<(), StoreError> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::take(&self.slots)?),
        };
        let taken =
            (!self.has_written_taken).then(|| Frame::Taken { at: to_nanos((self.clock)()) });
        let record_frames = records.iter().map(|item| Frame::of(&item.record, self.process));
        let frames = taken
            .into_iter()
            .chain(self.sessions.iter().map(QueuedSession::frame))
            .chain(record_frames);
        spool.append(frames).map_err(|why| {
            StoreError::file("write to", &self.slots.file(spool.slot.number), why)
        })?;
        self.has_written_taken = true;
        self.sessions.clear();
        if let Some(QueuedRecord { record, .. }) = records.last() {
            self.last = Some(without_body(record));
        }
        Ok(())
    }

    /// The length of the spool; `None` if this process has written nothing.
    pub(crate) fn spooled_bytes(&self) -> Option<u64> {
        self.spool.as_ref().filter(|_| self.has_written_taken).map(Spool::len)
    }

    /// Returns whether the spool has reached the length at which it should be drained.
    pub(crate) fn is_large(&self) -> bool {
        self.spooled_bytes().is_some_and(|bytes| bytes >= self.drain_at)
    }

    /// Asks for no further drain until as much again has been written.
    pub(crate) fn put_drain_off(&mut self) {
        self.drain_at = self.spooled_bytes().unwrap_or_default() + self.limit;
    }

    /// Drains the bytes written since the last drain, if they are few or the spool is very long, and empties the spool.
    pub(crate) fn empty_spool(&mut self, drain: &mut Drain) -> Result<(), StoreError> {
        let Some(spool) = &mut self.spool else { return Ok(()) };
        let number = spool.slot.number;
        let drained = drain.position(number).map_or(0, |position| position.bytes);
        if spool.len().saturating_sub(drained) <= Self::MAX_BLOCKING_DRAIN_BYTES
            || spool.len() >= Self::MAX_SPOOL_BYTES
        {
            drain.drain_spools(Duration::ZERO)?;
            if let Some(drained) = drain.position(number) {
                spool.empty_if_drained(drained);
            }
        }
        self.put_drain_off();
        Ok(())
    }
}

/// A copy of a record with an empty body.
fn without_body(record: &Record) -> Record {
    let Record { at, kind, .. } = *record;
    let (session, turn) = (record.session.clone(), record.turn.clone());
    let (call, tool) = (record.call.clone(), record.tool.clone());
    Record { at, session, turn, call, tool, kind, body: String::new() }
}
