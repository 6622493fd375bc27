//! What everybody who serves a connection shares.

use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{sleep, timeout};

use crate::elicitation::Asked;
use crate::ended::Ended;
use crate::in_flight::InFlight;
use crate::outgoing::Outgoing;

/// How long calls that were stopped may take to end, and the client to take the last answers.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// One connection to a client.
pub(crate) struct Connection {
    pub(crate) in_flight: InFlight,
    pub(crate) outgoing: Outgoing,
    pub(crate) input_ended: Ended,
    /// What this server asks the client.
    pub(crate) asked: Asked,
}

impl Connection {
    pub(crate) fn new(
        output: impl AsyncWrite + Send + Unpin + 'static,
        most_in_flight: usize,
    ) -> Self {
        Self {
            in_flight: InFlight::new(most_in_flight),
            outgoing: Outgoing::new(output),
            input_ended: Ended::default(),
            asked: Asked::default(),
        }
    }

    /// Lets calls end that still run when nothing more can come: some time by themselves, none if the client is gone, and then
    /// they are stopped.
    pub(crate) async fn wind_up(&self, grace: Duration) {
        tokio::select! {
            biased;
            () = self.in_flight.emptied() => {}
            () = self.outgoing.ended().wait() => {}
            () = sleep(grace) => {}
        }
        self.in_flight.stop_all();
        // A call that cannot be stopped in this time is left behind: its end comes on record when the journal is opened again.
        drop(timeout(LAST_WAIT, self.in_flight.emptied()).await);
        drop(timeout(LAST_WAIT, self.outgoing.flush()).await);
    }
}
