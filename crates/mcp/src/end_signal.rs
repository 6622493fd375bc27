//! The end of one direction of a connection: signalled once, with the error if there was one.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Signal that one direction of a connection has ended.
#[derive(Default)]
pub(crate) struct EndSignal {
    failure: Mutex<Option<io::Error>>,
    token: CancellationToken,
}

impl EndSignal {
    /// Signals the end. Keeps the first error.
    pub(crate) fn signal(&self, failure: Option<io::Error>) {
        if let Some(error) = failure {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.token.cancel();
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Takes the error that ended the direction, if there was one.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
