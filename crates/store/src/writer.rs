//! What the pen writes with: a spool, taken with the first record.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use windlass_core::{JournalError, Record, SessionId};

use crate::StoreError;
use crate::drain::Drain;
use crate::frame::Frame;
use crate::liveness::Slots;
use crate::spool::Spool;
use crate::tables::Announcement;
use crate::timestamp::to_nanos;
use crate::witness::Witness;

/// One record to write, and who waits for it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) record: Record,
    pub(crate) waiter: oneshot::Sender<Result<(), JournalError>>,
}

/// A session that waits to be written with the next record.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) at: i64,
    pub(crate) session: SessionId,
    pub(crate) workspace: String,
    pub(crate) parent: Option<SessionId>,
    /// The identity behind it as JSON, if it is not the person of this machine.
    pub(crate) principal: Option<String>,
}

impl Beginning {
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

/// The means to write.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Sessions that are not written yet.
    pub(crate) beginnings: Vec<Beginning>,
    slots: Slots,
    clock: fn() -> SystemTime,
    process: u32,
    /// Its spool, once it has something to write.
    spool: Option<Spool>,
    /// Whether the spool says that it is ours.
    has_signed: bool,
    /// How much the spool grows between two drains.
    limit: u64,
    /// The size at which the spool is to be drained.
    drain_at: u64,
    /// The last record that is safe, without its body.
    last: Option<Record>,
}

impl Writer {
    /// What may be drained while others wait for the pen.
    const SMALL: u64 = 16 << 10;
    /// The size at which they have to wait, however much there is to drain.
    const HUGE: u64 = 64 << 20;

    pub(crate) fn new(slots: Slots, clock: fn() -> SystemTime, limit: u64) -> Self {
        Self {
            beginnings: Vec::new(),
            slots,
            clock,
            process: std::process::id(),
            spool: None,
            has_signed: false,
            limit,
            drain_at: limit,
            last: None,
        }
    }

    /// Tells outside of the state which record was the last. Where that fails, the journal goes on without it.
    pub(crate) fn testify(&self, anchor: Option<&Path>) {
        if let (Some(last), Some(anchor)) = (&self.last, anchor) {
            drop(Witness::of(last).write(&Witness::path(anchor)));
        }
    }

    /// Writes all of these, or none.
    pub(crate) fn write(&mut self, items: &[Item]) -> Result<(), StoreError> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::take(&self.slots)?),
        };
        let signature = (!self.has_signed).then(|| Frame::Taken { at: to_nanos((self.clock)()) });
        let records = items.iter().map(|item| Frame::of(&item.record, self.process));
        let frames = signature
            .into_iter()
            .chain(self.beginnings.iter().map(Beginning::frame))
            .chain(records);
        spool.append(frames).map_err(|why| {
            StoreError::file("write to", &self.slots.spool(spool.slot.number), why)
        })?;
        self.has_signed = true;
        self.beginnings.clear();
        if let Some(Item { record, .. }) = items.last() {
            self.last = Some(without_body(record));
        }
        Ok(())
    }

    /// How much there is in the spool; none if nothing was written.
    pub(crate) fn spooled(&self) -> Option<u64> {
        self.spool.as_ref().filter(|_| self.has_signed).map(Spool::len)
    }

    /// Whether the spool should be drained.
    pub(crate) fn is_large(&self) -> bool {
        self.spooled().is_some_and(|bytes| bytes >= self.drain_at)
    }

    /// Asks for no further drain until as much again has been written.
    pub(crate) fn put_drain_off(&mut self) {
        self.drain_at = self.spooled().unwrap_or_default() + self.limit;
    }

    /// Drains what was written since the last time, if that is little, and empties the spool.
    pub(crate) fn empty_spool(&mut self, drain: &mut Drain) -> Result<(), StoreError> {
        let Some(spool) = &mut self.spool else { return Ok(()) };
        let number = spool.slot.number;
        let drained = drain.position(number).map_or(0, |mark| mark.bytes);
        if spool.len().saturating_sub(drained) <= Self::SMALL || spool.len() >= Self::HUGE {
            drain.run(Duration::ZERO)?;
            if let Some(drained) = drain.position(number) {
                spool.empty_if_drained(drained);
            }
        }
        self.put_drain_off();
        Ok(())
    }
}

fn without_body(record: &Record) -> Record {
    let Record { at, kind, .. } = *record;
    let (session, turn) = (record.session.clone(), record.turn.clone());
    let (call, tool) = (record.call.clone(), record.tool.clone());
    Record { at, session, turn, call, tool, kind, body: String::new() }
}
