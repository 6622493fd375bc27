//! The time that a call has used. It stands still while a person is asked, in this call or in one that it makes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sync::Lock;

/// The clock of one call.
#[derive(Debug)]
pub(crate) struct CallClock {
    time: Lock<Time>,
    /// A question was put, or the last one was answered.
    changed: Notify,
    /// The clock of the call that makes this one.
    outer: Option<Arc<CallClock>>,
}

#[derive(Debug)]
struct Time {
    /// The time used until the clock was last stopped.
    used: Duration,
    /// The moment since which it runs.
    since: Instant,
    /// The number of questions that wait for an answer.
    questions: usize,
}

impl CallClock {
    pub(super) fn new(outer: Option<Arc<Self>>) -> Self {
        let time = Time { used: Duration::ZERO, since: Instant::now(), questions: 0 };
        Self { time: Lock::new(time), changed: Notify::new(), outer }
    }

    /// Starts the time anew: the call begins to run.
    pub(super) fn restart(&self) {
        let mut time = self.time.lock();
        (time.used, time.since) = (Duration::ZERO, Instant::now());
    }

    /// Stops this clock and those of the calls around it until the guard is dropped.
    pub(crate) fn asking(self: &Arc<Self>) -> Asking {
        for clock in self.chain() {
            let mut time = clock.time.lock();
            if time.questions == 0 {
                let more = time.since.elapsed();
                time.used += more;
            }
            time.questions += 1;
            drop(time);
            clock.changed.notify_waiters();
        }
        Asking(self.clone())
    }

    /// Ends when the call has used its time.
    pub(super) async fn expired(&self, limit: Duration) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening begins before looking, so that nothing is missed in between.
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

    /// The time that is left; `None` while the clock stands still.
    fn left(&self, limit: Duration) -> Option<Duration> {
        let time = self.time.lock();
        let used = time.used + time.since.elapsed();
        (time.questions == 0).then(|| limit.saturating_sub(used))
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |clock| clock.outer.as_deref())
    }
}

/// A question that waits for an answer. The clocks go on when it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(Arc<CallClock>);

impl Drop for Asking {
    fn drop(&mut self) {
        for clock in self.0.chain() {
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
    async fn a_question_stops_the_clocks_of_all_calls_around_it() {
        let outer = Arc::new(CallClock::new(None));
        let inner = Arc::new(CallClock::new(Some(outer.clone())));
        advance(4).await;
        let (one, two) = (inner.asking(), outer.asking());
        advance(100).await;
        assert_eq!((inner.left(LIMIT), outer.left(LIMIT)), (None, None));
        drop(two);
        assert_eq!(outer.left(LIMIT), None, "one is open still");
        drop(one);
        advance(1).await;
        assert_eq!(outer.left(LIMIT), Some(Duration::from_secs(5)));
        assert_eq!(inner.left(LIMIT), Some(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn time_expires_once_nobody_is_asked() {
        let clock = Arc::new(CallClock::new(None));
        let began = Instant::now();
        let asking = clock.asking();
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.expired(LIMIT).await }
        });
        advance(60).await;
        assert!(!waiting.is_finished());
        drop(asking);
        waiting.await.expect("it ends");
        assert_eq!(began.elapsed().as_secs(), 70);
    }
}
