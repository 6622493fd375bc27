//! The requests that wait for their answer, by the client's ids.
//!
//! An id is taken until its answer has passed, also when the request was cancelled and the answer is dropped: so no answer can
//! be taken for that to another request of the same id.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// The table.
pub(crate) struct InFlight {
    most: usize,
    requests: Mutex<HashMap<RequestId, Request>>,
    /// Stops them all.
    all: CancellationToken,
}

struct Request {
    stop: CancellationToken,
    cancelled: bool,
}

/// Comes with a request to whoever carries it out.
#[derive(Debug, Clone)]
pub(crate) struct Stop(CancellationToken);

impl Stop {
    /// Waits until the request should be given up.
    pub(crate) async fn asked(&self) {
        self.0.cancelled().await;
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
        Self { most, requests: Mutex::default(), all: CancellationToken::new() }
    }

    /// A request has come.
    pub(crate) fn begin(&self, id: &RequestId) -> Result<Stop, Refusal> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return Err(Refusal::IdInUse);
        }
        if requests.len() >= self.most {
            return Err(Refusal::TooMany);
        }
        let stop = self.all.child_token();
        requests.insert(id.clone(), Request { stop: stop.clone(), cancelled: false });
        Ok(Stop(stop))
    }

    /// The client does not want the answer any more. One that is not in flight was answered already, or never was: no fault.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.requests().get_mut(id) {
            request.cancelled = true;
            request.stop.cancel();
        }
    }

    /// The answer is there; `true` if the client still wants it.
    pub(crate) fn end(&self, id: &RequestId) -> bool {
        self.requests().remove(id).is_some_and(|request| !request.cancelled)
    }

    /// Stops every request. Their answers are sent as long as somebody listens.
    pub(crate) fn stop_all(&self) {
        self.all.cancel();
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_until_its_answer_has_passed() {
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let table = InFlight::new(2);
        let stop = table.begin(&one).unwrap();
        assert!(table.begin(&two).is_ok(), "a text is another id than a number");
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert_eq!(table.begin(&RequestId::Number(3)).unwrap_err(), Refusal::TooMany);
        table.cancel(&RequestId::Number(7));
        table.cancel(&one);
        assert!(stop.0.is_cancelled());
        assert_eq!(table.begin(&one).unwrap_err(), Refusal::IdInUse);
        assert!(!table.end(&one), "cancelled");
        assert!(table.end(&two));
        assert!(!table.end(&two), "answered already");
        assert!(table.begin(&one).is_ok());
    }
}
