//! What a proxy remembers: how much passed, who was refused, and of each connection when a byte last passed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::Meter;

/// How many refusals are kept; a program that looks for a gap must not fill our memory.
const MAX_REFUSED: usize = 32;

/// How much went through a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections to hosts.
    pub connections: u64,
    /// Bytes from the program.
    pub sent: u64,
    /// Bytes to the program.
    pub received: u64,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    meter: Option<Arc<dyn Meter>>,
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    refused: Mutex<Refused>,
}

#[derive(Debug, Default)]
struct Refused {
    kept: Vec<RefusedHost>,
    more: bool,
}

/// A host that the program wanted to reach and must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedHost {
    /// The host and port.
    pub target: String,
    /// The reason, if it is another one than that the host is not listed.
    pub reason: Option<String>,
}

impl RefusedHost {
    /// The rule that would let the program reach it: without a port it stands for 80 and 443.
    pub fn rule(&self) -> String {
        let target = self.target.as_str();
        let usual = [":80", ":443"].iter().find_map(|port| target.strip_suffix(port));
        usual.unwrap_or(target).to_owned()
    }
}

impl fmt::Display for RefusedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "not reached: {} ({reason})", self.target),
            None => write!(
                f,
                "not reached: {} is not among the hosts that this command may reach",
                self.target
            ),
        }
    }
}

/// Which way bytes go, seen from the program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Out,
    In,
}

impl Record {
    pub(super) fn new(meter: Option<Arc<dyn Meter>>) -> Self {
        Self { meter, ..Self::default() }
    }

    /// Whether more may pass now that this has.
    pub(super) fn may_pass_on(&self, bytes: u64) -> bool {
        self.meter.as_ref().is_none_or(|meter| meter.pass(bytes))
    }

    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, refusal: RefusedHost) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.kept.contains(&refusal) {
            return;
        }
        if refused.kept.len() < MAX_REFUSED {
            refused.kept.push(refusal);
        } else {
            refused.more = true;
        }
    }

    /// The refusals, each once, and whether there were more than are kept.
    pub(super) fn refused(&self) -> (Vec<RefusedHost>, bool) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        (refused.kept.clone(), refused.more)
    }

    pub(super) fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: read(&self.connections),
            sent: read(&self.sent),
            received: read(&self.received),
        }
    }
}

/// The pulse of one connection: it beats with every byte, in either direction.
#[derive(Debug)]
pub(super) struct Pulse<'a> {
    record: &'a Record,
    limit: Duration,
    started: Instant,
    /// Milliseconds after the start.
    last: AtomicU64,
    /// Told when no more may pass.
    enough: Notify,
}

impl<'a> Pulse<'a> {
    pub(super) fn new(record: &'a Record, limit: Duration) -> Self {
        Self {
            record,
            limit,
            started: Instant::now(),
            last: AtomicU64::new(0),
            enough: Notify::new(),
        }
    }

    /// Whether more may pass.
    pub(super) fn beat(&self, way: Way, bytes: usize) -> bool {
        let counter = match way {
            Way::Out => &self.record.sent,
            Way::In => &self.record.received,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        let may_pass_on = self.record.may_pass_on(bytes as u64);
        if !may_pass_on {
            self.enough.notify_one();
        }
        may_pass_on
    }

    /// Waits until nothing has passed for as long as is allowed, or more has than is.
    pub(super) async fn stopped(&self) {
        tokio::select! {
            () = self.enough.notified() => {}
            () = self.idle() => {}
        }
    }

    async fn idle(&self) {
        loop {
            let last = self.started + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= self.limit {
                return;
            }
            sleep_until(last + self.limit).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(target: &str) -> RefusedHost {
        RefusedHost { target: target.to_owned(), reason: None }
    }

    #[test]
    fn the_rule_for_a_refused_host() {
        for (target, rule) in [
            ("docs.rs:443", "docs.rs"),
            ("docs.rs:80", "docs.rs"),
            ("docs.rs:8080", "docs.rs:8080"),
            ("[2001:db8::1]:443", "[2001:db8::1]"),
        ] {
            assert_eq!(refusal(target).rule(), rule);
        }
    }

    #[test]
    fn refusals_are_kept_once_and_not_without_end() {
        let record = Record::default();
        for _ in 0..2 {
            for number in 0..MAX_REFUSED {
                record.refuse(refusal(&format!("{number}.example:443")));
            }
        }
        let (kept, more) = record.refused();
        assert_eq!((kept.len(), more), (MAX_REFUSED, false));
        assert_eq!(kept.first(), Some(&refusal("0.example:443")));
        record.refuse(refusal("last.example:443"));
        assert_eq!(record.refused(), (kept, true));
    }
}
