//! Between the byte streams and those who answer: lines in, lines out, and the table of requests in flight between them.
//!
//! For `rmcp` this is a transport. What cannot be a request is answered here and never reaches it; calls and cancellations do not
//! either.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage, RequestId,
    RequestMetaObject, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;

use crate::calls::{Call, Calls};
use crate::ended::Ended;
use crate::in_flight::{InFlight, Refusal, Request};
use crate::lines::{Line, Lines};
use crate::message::Message;
use crate::outgoing::Outgoing;
use crate::wire::Wire;

/// JSON-RPC leaves this code to servers.
const TOO_MANY: ErrorCode = ErrorCode(-32000);

/// One connection.
pub(crate) struct LineTransport<R> {
    pub(crate) lines: Lines<R>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) outgoing: Arc<Outgoing>,
    /// The longest line, for the refusal of a longer one.
    pub(crate) longest: usize,
    /// `initialize` has come: from then on requests need not say which protocol they speak.
    pub(crate) initialized: bool,
    /// Told when nothing more can come.
    pub(crate) ended: Arc<Ended>,
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if self.is_wanted(&message) {
            self.outgoing.put(&message);
        }
        std::future::ready(Ok(()))
    }

    /// May be dropped while it waits, and is, whenever `rmcp` has something to send.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.outgoing.make_room().await;
            let line = tokio::select! {
                biased;
                () = self.outgoing.ended().wait() => Ok(None),
                line = self.lines.next() => line,
            };
            let message = match line {
                Ok(Some(Line::Whole(line))) => Message::read(line),
                Ok(Some(Line::TooLong)) => Message::Refused(None, too_long(self.longest)),
                ending => {
                    self.ended.tell(ending.err());
                    return None;
                }
            };
            if let Some(request) = self.take(message) {
                return Some(request);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing.flush().await
    }
}

impl<R> LineTransport<R> {
    /// Whether anybody wants what is sent: an answer to a cancelled request is dropped.
    fn is_wanted(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.is_none_or(|id| self.in_flight.end(id))
    }

    /// Does what a message asks for; what is left is for `rmcp`.
    fn take(&mut self, message: Message) -> Option<ClientJsonRpcMessage> {
        match message {
            Message::Call(id, call, meta) => self.begin_call(id, call, &meta),
            Message::Request(id, request) => return self.begin_request(id, request),
            Message::Cancelled(id) => self.in_flight.cancel(&id),
            Message::Nothing => {}
            Message::Refused(id, error) => self.refuse(id, error),
        }
        None
    }

    fn begin_call(&mut self, id: RequestId, call: Call, meta: &RequestMetaObject) {
        match Wire::of_request(meta, self.initialized) {
            Ok(wire) => {
                if let Some(request) = self.begin(&id) {
                    self.calls.begin(id, call, wire, request);
                }
            }
            Err(error) => self.refuse(Some(id), error),
        }
    }

    fn begin_request(
        &mut self,
        id: RequestId,
        request: ClientRequest,
    ) -> Option<ClientJsonRpcMessage> {
        let opening = match &request {
            ClientRequest::InitializeRequest(_) => {
                self.initialized = true;
                true
            }
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => true,
            _ => false,
        };
        if !opening && let Err(error) = Wire::of_request(request.get_meta(), self.initialized) {
            self.refuse(Some(id), error);
            return None;
        }
        self.begin(&id).map(|_| ClientJsonRpcMessage::request(request, id))
    }

    /// Takes the id; none if it cannot be had.
    fn begin(&mut self, id: &RequestId) -> Option<Arc<Request>> {
        match self.in_flight.begin(id) {
            Ok(request) => return Some(request),
            // Without the id: an answer that carries it would be taken for that to the first request.
            Err(Refusal::IdInUse) => self.refuse(None, id_in_use(id)),
            Err(Refusal::TooMany) => self.refuse(Some(id.clone()), too_many()),
        }
        None
    }

    fn refuse(&mut self, id: Option<RequestId>, error: ErrorData) {
        self.outgoing.put(&ServerJsonRpcMessage::error(error, id));
    }
}

fn too_long(longest: usize) -> ErrorData {
    let text = format!("the message is longer than {longest} bytes and was skipped");
    ErrorData::invalid_request(text, None)
}

fn id_in_use(id: &RequestId) -> ErrorData {
    let text =
        format!("the id `{id}` belongs to a request that is not answered yet; use a new one");
    ErrorData::invalid_request(text, None)
}

fn too_many() -> ErrorData {
    let text = "too many requests wait for their answers; send more when some have come";
    ErrorData::new(TOO_MANY, text, None)
}
