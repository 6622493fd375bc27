//! The requests that wait for their answer, by the client's ids.
//!
//! An id is taken until its answer has passed, also when the request was cancelled and the answer is dropped: so no answer can
//! be taken for that to another request of the same id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::Notify;

/// The table.
pub(crate) struct InFlight {
    most: usize,
    requests: Mutex<HashMap<RequestId, Arc<Request>>>,
    /// Told whenever an answer has passed.
    ended: Notify,
}

/// One request, shared with whoever carries it out.
#[derive(Debug, Default)]
pub(crate) struct Request {
    stop: Notify,
    cancelled: AtomicBool,
}

impl Request {
    /// Waits until the request should be given up.
    pub(crate) async fn stop_asked(&self) {
        self.stop.notified().await;
    }

    /// Whether the client still wants the answer.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.cancelled.load(Ordering::Relaxed)
    }
}

/// Why a request is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    IdInUse,
    TooMany,
}

impl InFlight {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, requests: Mutex::default(), ended: Notify::new() }
    }

    /// A request has come.
    pub(crate) fn begin(&self, id: &RequestId) -> Result<Arc<Request>, Refusal> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return Err(Refusal::IdInUse);
        }
        if requests.len() >= self.most {
            return Err(Refusal::TooMany);
        }
        let request = Arc::<Request>::default();
        requests.insert(id.clone(), request.clone());
        Ok(request)
    }

    /// The client does not want the answer any more. One that is not in flight was answered already, or never was: no fault.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.requests().get(id) {
            request.cancelled.store(true, Ordering::Relaxed);
            request.stop.notify_one();
        }
    }

    /// The answer has passed, or is dropped; `true` if the client wants it.
    pub(crate) fn end(&self, id: &RequestId) -> bool {
        let request = self.requests().remove(id);
        self.ended.notify_waiters();
        request.is_some_and(|request| request.is_wanted())
    }

    /// Stops every request. Their answers are sent as long as somebody listens.
    pub(crate) fn stop_all(&self) {
        for request in self.requests().values() {
            request.stop.notify_one();
        }
    }

    /// Waits until nothing is in flight.
    pub(crate) async fn emptied(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Listening begins before looking, so that nothing is missed in between.
            ended.as_mut().enable();
            if self.requests().is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Request>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_id_is_taken_until_its_answer_has_passed() {
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let table = InFlight::new(2);
        let request = table.begin(&one).unwrap();
        assert!(table.begin(&two).is_ok(), "a text is another id than a number");
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert_eq!(table.begin(&RequestId::Number(3)).unwrap_err(), Refusal::TooMany);
        table.cancel(&RequestId::Number(7));
        table.cancel(&one);
        request.stop_asked().await;
        assert!(!request.is_wanted());
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert!(!table.end(&one), "cancelled");
        assert!(table.end(&two));
        assert!(!table.end(&two), "answered already");
        table.emptied().await;
        assert!(table.begin(&one).is_ok());
    }
}
