//! Between `rmcp` and the byte streams: lines in, lines out, and the table of requests in flight between them.
//!
//! What cannot be a request is answered here and never reaches the server. Cancellations do not either: the request is stopped by
//! the token that came with it, and its answer is dropped on the way out.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetExtensions, GetMeta,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;

use crate::ended::Ended;
use crate::in_flight::{InFlight, Refusal};
use crate::lines::{Line, Lines};
use crate::message::Message;
use crate::outgoing::Outgoing;

/// JSON-RPC leaves this code to servers.
const TOO_MANY: ErrorCode = ErrorCode(-32000);

/// One connection.
pub(crate) struct LineTransport<R> {
    pub(crate) lines: Lines<R>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) outgoing: Arc<Outgoing>,
    /// The longest line, for the refusal of a longer one.
    pub(crate) longest: usize,
    /// `initialize` has come: from then on requests need not say which protocol they speak.
    pub(crate) initialized: bool,
    /// A refusal is on its way and not written yet.
    pub(crate) unwritten: bool,
    /// Told when nothing more can come.
    pub(crate) ended: Arc<Ended>,
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let put = if self.is_wanted(&message) { self.outgoing.put(&message) } else { Ok(()) };
        let outgoing = self.outgoing.clone();
        async move {
            put?;
            outgoing.flush().await
        }
    }

    /// May be dropped while it waits, and is, whenever an answer is ready.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.unwritten || self.outgoing.is_full() {
                self.outgoing.flush().await.ok()?;
                self.unwritten = false;
            }
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
            if let Some(request) = self.admit(message) {
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

    /// What the server should hear of.
    fn admit(&mut self, message: Message) -> Option<ClientJsonRpcMessage> {
        match message {
            Message::Request(id, request) => self.admit_request(id, request),
            Message::Cancelled(id) => {
                self.in_flight.cancel(&id);
                None
            }
            Message::Nothing => None,
            Message::Refused(id, error) => self.refuse(id, error),
        }
    }

    fn admit_request(
        &mut self,
        id: RequestId,
        mut request: ClientRequest,
    ) -> Option<ClientJsonRpcMessage> {
        if !self.is_open_to(&request) {
            return self.refuse(Some(id), not_initialized(request.method()));
        }
        match self.in_flight.begin(&id) {
            Ok(stop) => {
                request.extensions_mut().insert(stop);
                Some(ClientJsonRpcMessage::request(request, id))
            }
            // Without the id: an answer that carries it would be taken for that to the first request.
            Err(Refusal::IdInUse) => self.refuse(None, id_in_use(&id)),
            Err(Refusal::TooMany) => self.refuse(Some(id), too_many()),
        }
    }

    /// Whether it is known which protocol the request speaks.
    fn is_open_to(&mut self, request: &ClientRequest) -> bool {
        self.initialized |= matches!(request, ClientRequest::InitializeRequest(_));
        self.initialized
            || matches!(request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_))
            || request.get_meta().protocol_version().is_some()
    }

    fn refuse<T>(&mut self, id: Option<RequestId>, error: ErrorData) -> Option<T> {
        self.unwritten |= self.outgoing.put(&ServerJsonRpcMessage::error(error, id)).is_ok();
        None
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

fn not_initialized(method: &str) -> ErrorData {
    let text = format!(
        "`{method}` came before `initialize` and does not say which protocol it speaks; \
         begin with `initialize`, or set io.modelcontextprotocol/protocolVersion in `_meta`"
    );
    ErrorData::invalid_params(text, None)
}
