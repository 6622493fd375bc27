//! The requests that wait for their response, by the client's ids.
//!
//! An id is in use until its response was sent, also if the request was cancelled and the response is dropped: so a response cannot
//! be taken for that to another request with the same id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::Notify;

/// The table of requests in flight.
pub(crate) struct InFlight {
    most: usize,
    requests: Mutex<HashMap<RequestId, Arc<RequestState>>>,
    /// Notified whenever a request has ended.
    ended: Notify,
}

/// State of one request, shared with the task that runs it.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    stop: Notify,
    cancelled: AtomicBool,
}

impl RequestState {
    /// Waits until the request is to be stopped.
    pub(crate) async fn wait_for_stop(&self) {
        self.stop.notified().await;
    }

    /// Returns whether the client still wants the response.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.cancelled.load(Ordering::Relaxed)
    }
}

/// Reason for refusing a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    IdInUse,
    TooMany,
}

impl InFlight {
    /// Creates an empty table for at most this many requests.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, requests: Mutex::default(), ended: Notify::new() }
    }

    /// Adds a request.
    pub(crate) fn begin(&self, id: &RequestId) -> Result<Arc<RequestState>, Refusal> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return Err(Refusal::IdInUse);
        }
        if requests.len() >= self.most {
            return Err(Refusal::TooMany);
        }
        let request = Arc::<RequestState>::default();
        requests.insert(id.clone(), request.clone());
        Ok(request)
    }

    /// Stops a request whose response the client no longer wants. Ignores an unknown id: the response may have been sent already.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.requests().get(id) {
            request.cancelled.store(true, Ordering::Relaxed);
            request.stop.notify_one();
        }
    }

    /// Removes a request when its response is sent or dropped. Returns whether the client wants the response.
    pub(crate) fn end(&self, id: &RequestId) -> bool {
        let request = self.requests().remove(id);
        self.ended.notify_waiters();
        request.is_some_and(|request| request.is_wanted())
    }

    /// Stops every request. Their responses are still sent if the connection is open.
    pub(crate) fn stop_all(&self) {
        for request in self.requests().values() {
            request.stop.notify_one();
        }
    }

    /// Waits until no request is in flight.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Subscribes before the check, so that no notification is missed in between.
            ended.as_mut().enable();
            if self.requests().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Locks the table.
    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<RequestState>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_id_is_in_use_until_its_response_was_sent() {
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let table = InFlight::new(2);
        let request = table.begin(&one).unwrap();
        assert!(table.begin(&two).is_ok(), "a text is another id than a number");
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert_eq!(table.begin(&RequestId::Number(3)).unwrap_err(), Refusal::TooMany);
        table.cancel(&RequestId::Number(7));
        table.cancel(&one);
        request.wait_for_stop().await;
        assert!(!request.is_wanted());
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert!(!table.end(&one), "cancelled");
        assert!(table.end(&two));
        assert!(!table.end(&two), "answered already");
        table.wait_until_empty().await;
        assert!(table.begin(&one).is_ok());
    }
}
