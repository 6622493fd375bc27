//! State that all tasks of a connection share.

use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{sleep, timeout};

use crate::elicitation::ClientRequests;
use crate::end_signal::EndSignal;
use crate::in_flight::InFlight;
use crate::outgoing::Outgoing;

/// Maximum time for stopped calls to end, and again for the client to take the last responses.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection to a client.
pub(crate) struct Connection {
    pub(crate) in_flight: InFlight,
    pub(crate) outgoing: Outgoing,
    pub(crate) input_ended: EndSignal,
    /// Requests of this server to the client.
    pub(crate) asked: ClientRequests,
}

impl Connection {
    pub(crate) fn new(
        output: impl AsyncWrite + Send + Unpin + 'static,
        most_in_flight: usize,
    ) -> Self {
        Self {
            in_flight: InFlight::new(most_in_flight),
            outgoing: Outgoing::new(output),
            input_ended: EndSignal::default(),
            asked: ClientRequests::default(),
        }
    }

    /// Ends the connection after the input has ended: waits at most `grace` for running calls, not at all if the client is gone,
    /// and then stops them.
    pub(crate) async fn finish(&self, grace: Duration) {
        tokio::select! {
            biased;
            () = self.in_flight.wait_until_empty() => {}
            () = self.outgoing.ended().wait() => {}
            () = sleep(grace) => {}
        }
        self.in_flight.stop_all();
        // A call that does not stop in this time is abandoned: its end is recorded when the journal is opened again.
        drop(timeout(SHUTDOWN_TIMEOUT, self.in_flight.wait_until_empty()).await);
        drop(timeout(SHUTDOWN_TIMEOUT, self.outgoing.flush()).await);
    }
}
