//! Sends output and progress of a running call as progress notifications, only to a client that gave a token for them.
//!
//! It subscribes to output and progress only. These events are not in the journal, so a subscriber costs the journal nothing.

use std::sync::Arc;

use rmcp::model::{
    ProgressNotification, ProgressNotificationParam, ProgressToken, ServerJsonRpcMessage,
    ServerNotification,
};
use windlass_core::{
    CallId, CallResult, Engine, Event, EventFilter, EventKind, Session, Subscription,
};

use crate::connection::Connection;

/// Sends the progress of one call to its client.
pub(crate) struct ProgressReporter {
    events: Subscription,
    connection: Arc<Connection>,
    token: ProgressToken,
    number: ProgressNumber,
}

/// The next notification to send.
enum ProgressUpdate {
    Output(String),
    Progress { done: u64, total: Option<u64>, message: Arc<str> },
}

impl ProgressReporter {
    /// Subscribes before the call begins, so that no event is missed.
    pub(crate) fn new(
        engine: &Engine,
        session: &Session,
        connection: Arc<Connection>,
        token: ProgressToken,
    ) -> Self {
        let events = engine.subscribe_to(EventFilter::session(session.id()).only_live());
        Self { events, connection, token, number: ProgressNumber::default() }
    }

    /// Waits for the end of the call and sends its events until then.
    pub(crate) async fn follow(
        mut self,
        call: &CallId,
        running: impl Future<Output = CallResult>,
    ) -> CallResult {
        self.events.narrow_to(call);
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                result = &mut running => {
                    self.report(None).await;
                    return result;
                }
                event = self.events.next() => self.report(Some(event)).await,
            }
        }
    }

    /// Sends this event and those queued behind it. Joins consecutive output into one notification, and skips progress reports that
    /// are followed by a later one.
    async fn report(&mut self, first: Option<Event>) {
        let mut news: Option<ProgressUpdate> = None;
        let mut next = first.or_else(|| self.events.try_next());
        while let Some(event) = next {
            news = match (news, update_of(event)) {
                (news, None) => news,
                (Some(ProgressUpdate::Output(mut text)), Some(ProgressUpdate::Output(more))) => {
                    text.push_str(&more);
                    Some(ProgressUpdate::Output(text))
                }
                (Some(output @ ProgressUpdate::Output(_)), later) => {
                    self.put(output);
                    later
                }
                (
                    Some(progress @ ProgressUpdate::Progress { .. }),
                    Some(later @ ProgressUpdate::Output(_)),
                ) => {
                    self.put(progress);
                    Some(later)
                }
                (_, later) => later,
            };
            next = self.events.try_next();
        }
        if let Some(news) = news {
            self.put(news);
            self.connection.outgoing.wait_for_room().await;
        }
    }

    /// Queues one progress notification.
    fn put(&mut self, news: ProgressUpdate) {
        let (progress, total, message) = match news {
            ProgressUpdate::Output(text) => (self.number.after_output(text.len()), None, text),
            ProgressUpdate::Progress { done, total, message } => {
                let (progress, total) = self.number.after_report(done, total);
                (progress, total, message.to_string())
            }
        };
        let mut told = ProgressNotificationParam::new(self.token.clone(), progress);
        told.total = total;
        told.message = Some(message).filter(|message| !message.is_empty());
        let told = ServerNotification::from(ProgressNotification::new(told));
        self.connection.outgoing.queue(&ServerJsonRpcMessage::notification(told));
    }
}

/// Converts an event to a notification; `None` for other events.
fn update_of(event: Event) -> Option<ProgressUpdate> {
    match event.kind {
        EventKind::Output { delta } => Some(ProgressUpdate::Output(delta.to_string())),
        EventKind::Progress { done, total, message } => {
            Some(ProgressUpdate::Progress { done, total, message })
        }
        _ => None,
    }
}

/// The `progress` number of notifications, which must always increase: the number that the call reports, or else the bytes of
/// output so far.
#[derive(Default)]
struct ProgressNumber {
    last: Option<f64>,
    reported: bool,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a number for people; the last digits do not matter"
)]
impl ProgressNumber {
    /// Returns the number after further bytes of output.
    fn after_output(&mut self, bytes: usize) -> f64 {
        let bytes = if self.reported { 0.0 } else { bytes as f64 };
        self.grow_to(self.last.unwrap_or(0.0) + bytes)
    }

    /// Returns number and total after a report of the call.
    fn after_report(&mut self, done: u64, total: Option<u64>) -> (f64, Option<f64>) {
        self.reported = true;
        let number = self.grow_to(done as f64);
        (number, total.map(|total| total as f64).filter(|total| number <= *total))
    }

    /// Returns the number, or a slightly larger one than the last if it did not increase.
    fn grow_to(&mut self, number: f64) -> f64 {
        let number = match self.last {
            Some(last) if number <= last => last.next_up(),
            _ => number,
        };
        self.last = Some(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn progress_numbers_are_reported_numbers_or_bytes() {
        let mut number = ProgressNumber::default();
        assert_eq!(number.after_report(0, Some(2)), (0.0, Some(2.0)));
        assert_eq!(number.after_report(1, Some(2)), (1.0, Some(2.0)));
        assert!(number.after_output(500) < 1.1);
        assert_eq!(number.after_report(2, Some(2)), (2.0, Some(2.0)));
        assert_eq!(number.after_report(2, Some(2)).1, None, "more than the total");
        let mut number = ProgressNumber::default();
        assert_eq!((number.after_output(3), number.after_output(4)), (3.0, 7.0));
    }

    proptest! {
        #[test]
        fn progress_numbers_always_increase(steps in prop::collection::vec((any::<bool>(), 0_u32..5), 0..50)) {
            let mut number = ProgressNumber::default();
            let mut last = f64::NEG_INFINITY;
            for (reported, step) in steps {
                let next = if reported {
                    number.after_report(u64::from(step), None).0
                } else {
                    number.after_output(step as usize)
                };
                prop_assert!(next > last);
                last = next;
            }
        }
    }
}
