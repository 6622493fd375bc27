//! Records the traffic and the refused hosts of a proxy, and watches each connection for idleness and the budget.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::TrafficMeter;

/// Maximum refusals that are kept, so that a program that tries many hosts cannot fill the memory.
const MAX_REFUSED: usize = 32;

/// Amount of traffic through a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections to hosts.
    pub connections: u64,
    /// Bytes from the program.
    pub sent: u64,
    /// Bytes to the program.
    pub received: u64,
}

/// Traffic and refusals of a proxy.
#[derive(Debug, Default)]
pub(super) struct Record {
    meter: Option<Arc<dyn TrafficMeter>>,
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    refused: Mutex<RefusedHosts>,
}

/// Refused hosts, up to [`MAX_REFUSED`], and whether there were more.
#[derive(Debug, Default)]
struct RefusedHosts {
    kept: Vec<RefusedHost>,
    more: bool,
}

/// A host that the program tried to reach and must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedHost {
    /// The host and port.
    pub target: String,
    /// The reason, if it is not just that the host is not listed.
    pub reason: Option<String>,
}

impl RefusedHost {
    /// Returns the rule that would let the program reach it. A rule without a port stands for 80 and 443.
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

/// Direction of bytes, seen from the program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Out,
    In,
}

impl Record {
    pub(super) fn new(meter: Option<Arc<dyn TrafficMeter>>) -> Self {
        Self { meter, ..Self::default() }
    }

    /// Counts bytes against the budget, and returns whether more may pass.
    pub(super) fn count_against_budget(&self, bytes: u64) -> bool {
        self.meter.as_ref().is_none_or(|meter| meter.pass(bytes))
    }

    /// Counts a connection.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a refusal, each only once.
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

    /// Returns the refusals, and whether there were more than are kept.
    pub(super) fn refused(&self) -> (Vec<RefusedHost>, bool) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        (refused.kept.clone(), refused.more)
    }

    /// Returns the traffic so far.
    pub(super) fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: read(&self.connections),
            sent: read(&self.sent),
            received: read(&self.received),
        }
    }
}

/// Watches one connection: counts its bytes, and notices when it is idle or the budget is spent.
#[derive(Debug)]
pub(super) struct TrafficMonitor<'a> {
    record: &'a Record,
    limit: Duration,
    started: Instant,
    /// Time of the last byte, in milliseconds after the start.
    last: AtomicU64,
    /// Notified when the budget is spent.
    over_budget: Notify,
}

impl<'a> TrafficMonitor<'a> {
    pub(super) fn new(record: &'a Record, limit: Duration) -> Self {
        Self {
            record,
            limit,
            started: Instant::now(),
            last: AtomicU64::new(0),
            over_budget: Notify::new(),
        }
    }

    /// Counts bytes, and returns whether more may pass.
    pub(super) fn count(&self, direction: Direction, bytes: usize) -> bool {
        let counter = match direction {
            Direction::Out => &self.record.sent,
            Direction::In => &self.record.received,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        let may_continue = self.record.count_against_budget(bytes as u64);
        if !may_continue {
            self.over_budget.notify_one();
        }
        may_continue
    }

    /// Waits until the connection was idle for too long, or the budget is spent.
    pub(super) async fn idle_or_over_budget(&self) {
        tokio::select! {
            () = self.over_budget.notified() => {}
            () = self.idle() => {}
        }
    }

    /// Waits until no byte has passed for the time limit.
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
    fn rule_for_a_refused_host() {
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
    fn refusals_are_kept_once_and_up_to_a_limit() {
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
