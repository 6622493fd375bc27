//! The transport between the byte streams and the tasks that respond: reads and writes lines, and keeps the table of requests in
//! flight.
//!
//! It implements the transport of `rmcp`. Invalid messages are answered here and never reach `rmcp`; neither do calls and
//! cancellations.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetMeta,
    JsonRpcMessage, RequestId, RequestMetaObject, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;

use crate::calls::{CallRequest, CallRunner};
use crate::connection::Connection;
use crate::in_flight::{Refusal, RequestState};
use crate::lifecycle::Lifecycle;
use crate::lines::{Line, Lines};
use crate::message::Message;

/// Error code for too many requests. JSON-RPC reserves this code for servers.
const TOO_MANY: ErrorCode = ErrorCode(-32000);

/// The transport of one connection.
pub(crate) struct LineTransport<R> {
    lines: Lines<R>,
    connection: Arc<Connection>,
    calls: Arc<CallRunner>,
    /// True after `initialize`: from then on requests need not name their protocol version.
    initialized: bool,
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if self.is_wanted(&message) {
            self.connection.outgoing.queue(&message);
        }
        std::future::ready(Ok(()))
    }

    /// Receives the next message for `rmcp`. The future must be safe to drop, since `rmcp` drops it whenever it has something to
    /// send.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.connection.outgoing.wait_for_room().await;
            let line = tokio::select! {
                biased;
                () = self.connection.outgoing.ended().wait() => Ok(None),
                line = self.lines.next() => line,
            };
            let message = match line {
                Ok(Some(Line::Whole(line))) => Message::read(line),
                Ok(Some(Line::TooLong)) => Message::Refused(None, too_long(self.lines.longest())),
                ending => {
                    self.connection.input_ended.signal(ending.err());
                    return None;
                }
            };
            if let Some(request) = self.handle_message(message) {
                return Some(request);
            }
        }
    }

    /// Does nothing: calls may continue after `rmcp` has finished.
    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> LineTransport<R> {
    pub(crate) fn new(
        lines: Lines<R>,
        connection: Arc<Connection>,
        calls: Arc<CallRunner>,
    ) -> Self {
        Self { lines, connection, calls, initialized: false }
    }

    /// Returns whether a message is to be sent: the response to a cancelled request is dropped.
    fn is_wanted(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.is_none_or(|id| self.connection.in_flight.end(id))
    }

    /// Handles a message. Returns it if it is for `rmcp`.
    fn handle_message(&mut self, message: Message) -> Option<ClientJsonRpcMessage> {
        match message {
            Message::CallRequest(id, call, meta) => self.begin_call(id, call, &meta),
            Message::Request(id, request) => return self.begin_request(id, request),
            Message::Cancelled(id) => self.connection.in_flight.cancel(&id),
            Message::ClientResponse(id, answered) => self.connection.asked.answer(&id, answered),
            Message::Nothing => {}
            Message::Refused(id, error) => self.refuse(id, error),
        }
        None
    }

    /// Starts a call, or refuses it.
    fn begin_call(&mut self, id: RequestId, call: CallRequest, meta: &RequestMetaObject) {
        match Lifecycle::of_request(meta, self.initialized) {
            Ok(lifecycle) => {
                if let Some(request) = self.begin(&id) {
                    self.calls.begin(id, call, lifecycle, request);
                }
            }
            Err(error) => self.refuse(Some(id), error),
        }
    }

    /// Registers a request for `rmcp`, or refuses it.
    fn begin_request(
        &mut self,
        id: RequestId,
        request: ClientRequest,
    ) -> Option<ClientJsonRpcMessage> {
        let opening = match &request {
            ClientRequest::InitializeRequest(initialize) => {
                self.initialized = true;
                self.connection.asked.set_can_elicit(can_elicit(&initialize.params.capabilities));
                true
            }
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => true,
            _ => false,
        };
        if !opening && let Err(error) = Lifecycle::of_request(request.get_meta(), self.initialized)
        {
            self.refuse(Some(id), error);
            return None;
        }
        self.begin(&id).map(|_| ClientJsonRpcMessage::request(request, id))
    }

    /// Reserves the id. Refuses the request if that fails.
    fn begin(&mut self, id: &RequestId) -> Option<Arc<RequestState>> {
        match self.connection.in_flight.begin(id) {
            Ok(request) => return Some(request),
            // Without the id: a response with it would be taken for that to the first request.
            Err(Refusal::IdInUse) => self.refuse(None, id_in_use(id)),
            Err(Refusal::TooMany) => self.refuse(Some(id.clone()), too_many()),
        }
        None
    }

    /// Queues an error response.
    fn refuse(&mut self, id: Option<RequestId>, error: ErrorData) {
        self.connection.outgoing.queue(&ServerJsonRpcMessage::error(error, id));
    }
}

/// Returns whether a client can show forms. An `elicitation` capability without details means forms.
fn can_elicit(client: &ClientCapabilities) -> bool {
    let elicitation = client.elicitation.as_ref();
    elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// Makes the error about a message that is too long.
fn too_long(longest: usize) -> ErrorData {
    let text = format!("the message is longer than {longest} bytes and was skipped");
    ErrorData::invalid_request(text, None)
}

/// Makes the error about a request whose id is in use.
fn id_in_use(id: &RequestId) -> ErrorData {
    let text =
        format!("the id `{id}` belongs to a request that is not answered yet; use a new one");
    ErrorData::invalid_request(text, None)
}

/// Makes the error about too many requests at a time.
fn too_many() -> ErrorData {
    let text = "too many requests wait for their answers; send more when some have come";
    ErrorData::new(TOO_MANY, text, None)
}
