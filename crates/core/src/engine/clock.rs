//! The time that a call has used. It stops while a person is asked, in this call or in one that it makes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sync::Lock;

/// The clock of one call.
#[derive(Debug)]
pub(crate) struct CallClock {
    time: Lock<TimeUsed>,
    /// Notified when a question is asked and when the last one is answered.
    changed: Notify,
    /// The clock of the call that makes this one.
    outer: Option<Arc<CallClock>>,
}

/// Used time of a call, and its open questions.
#[derive(Debug)]
struct TimeUsed {
    /// The time used until the clock was last stopped.
    used: Duration,
    /// Time of the last start of the clock.
    since: Instant,
    /// The number of questions that wait for an answer.
    questions: usize,
}

impl CallClock {
    pub(super) fn new(outer: Option<Arc<Self>>) -> Self {
        let time = TimeUsed { used: Duration::ZERO, since: Instant::now(), questions: 0 };
        Self { time: Lock::new(time), changed: Notify::new(), outer }
    }

    /// Sets the used time to zero, because the call begins to run.
    pub(super) fn restart(&self) {
        let mut time = self.time.lock();
        (time.used, time.since) = (Duration::ZERO, Instant::now());
    }

    /// Stops this clock and the clocks of the calls around it until the returned guard is dropped.
    pub(crate) fn pause_while_asking(self: &Arc<Self>) -> ClockPause {
        for clock in self.with_outer_clocks() {
            let mut time = clock.time.lock();
            if time.questions == 0 {
                let more = time.since.elapsed();
                time.used += more;
            }
            time.questions += 1;
            drop(time);
            clock.changed.notify_waiters();
        }
        ClockPause(self.clone())
    }

    /// Completes when the call has used its time.
    pub(super) async fn expired(&self, limit: Duration) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers for notifications before it reads the time, so that no change is missed in between.
            changed.as_mut().enable();
            match self.left(limit) {
                None => changed.await,
                Some(Duration::ZERO) => return,
                Some(left) => {
                    tokio::select! {
                        () = tokio::time::sleep(left) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// Returns the time that is left, or `None` while the clock is stopped.
    fn left(&self, limit: Duration) -> Option<Duration> {
        let time = self.time.lock();
        let used = time.used + time.since.elapsed();
        (time.questions == 0).then(|| limit.saturating_sub(used))
    }

    /// Returns this clock and the clocks of the calls around it.
    fn with_outer_clocks(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |clock| clock.outer.as_deref())
    }
}

/// Keeps the clocks stopped while a person is asked. They go on when it is dropped.
#[derive(Debug)]
pub(crate) struct ClockPause(Arc<CallClock>);

impl Drop for ClockPause {
    fn drop(&mut self) {
        for clock in self.0.with_outer_clocks() {
            let mut time = clock.time.lock();
            time.questions -= 1;
            if time.questions == 0 {
                time.since = Instant::now();
            }
            drop(time);
            clock.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn advance(seconds: u64) -> impl Future<Output = ()> {
        tokio::time::advance(Duration::from_secs(seconds))
    }

    #[tokio::test(start_paused = true)]
    async fn question_stops_the_clocks_of_all_calls_around_it() {
        let outer = Arc::new(CallClock::new(None));
        let inner = Arc::new(CallClock::new(Some(outer.clone())));
        advance(4).await;
        let (one, two) = (inner.pause_while_asking(), outer.pause_while_asking());
        advance(100).await;
        assert_eq!((inner.left(LIMIT), outer.left(LIMIT)), (None, None));
        drop(two);
        assert_eq!(outer.left(LIMIT), None, "one question is still open");
        drop(one);
        advance(1).await;
        assert_eq!(outer.left(LIMIT), Some(Duration::from_secs(5)));
        assert_eq!(inner.left(LIMIT), Some(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn time_expires_once_the_question_is_answered() {
        let clock = Arc::new(CallClock::new(None));
        let began = Instant::now();
        let pause = clock.pause_while_asking();
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.expired(LIMIT).await }
        });
        advance(60).await;
        assert!(!waiting.is_finished());
        drop(pause);
        waiting.await.expect("it ends");
        assert_eq!(began.elapsed().as_secs(), 70);
    }
}
