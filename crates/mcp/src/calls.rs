//! `tools/call`: from the request to the response.
//!
//! Nearly every request is a call, so calls take a short path: one task, from the line that was read to the line that is written.
//! The path through `rmcp`'s dispatch, with its tasks and channels, costs as much again as the engine's own work. All other methods
//! take that path; there `rmcp` handles protocol versions, here [`Lifecycle`] does.

use std::convert::Infallible;
use std::sync::Arc;

use rmcp::model::{JsonObject, ProgressToken, RequestId, ServerJsonRpcMessage};
use serde::Serialize;
use serde_json::Value;
use windlass_core::{CallId, CallResult, Engine, Session, ToolCall};

use crate::connection::Connection;
use crate::content::{Signature, ToolResponse};
use crate::in_flight::RequestState;
use crate::lifecycle::Lifecycle;
use crate::progress::ProgressReporter;

/// Runs the calls of one connection.
pub(crate) struct CallRunner {
    pub(crate) engine: Engine,
    pub(crate) session: Arc<Session>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) signature: Signature,
}

/// A call that a client requests.
#[derive(Debug)]
pub(crate) struct CallRequest {
    pub(crate) tool: String,
    pub(crate) arguments: JsonObject,
    /// Token for progress notifications, if the client wants them.
    pub(crate) progress: Option<ProgressToken>,
}

impl CallRunner {
    /// Runs a call and sends its response, in a task of its own.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: RequestId,
        call: CallRequest,
        lifecycle: Lifecycle,
        request: Arc<RequestState>,
    ) {
        let calls = self.clone();
        // Boxed, since a runtime moves a future several times before it stores it.
        drop(tokio::spawn(Box::pin(async move {
            let result = calls.run(call, &request).await;
            calls.answer(&id, &result, lifecycle, &request);
        })));
    }

    /// Runs a call to its end. A call that the client cancels is stopped, and its end is recorded like any other.
    async fn run(&self, call: CallRequest, request: &RequestState) -> CallResult {
        let CallRequest { tool, arguments, progress } = call;
        let progress = progress.map(|token| {
            ProgressReporter::new(&self.engine, &self.session, self.connection.clone(), token)
        });
        let call = ToolCall::new(tool, Value::Object(arguments));
        let (id, running) = self.engine.start(&self.session, call);
        let ending = async {
            match progress {
                Some(progress) => Box::pin(progress.follow(&id, running)).await,
                None => running.await,
            }
        };
        tokio::select! {
            biased;
            result = ending => result,
            never = self.stop_when_asked(&id, request) => match never {},
        }
    }

    /// Cancels the call when the client cancels the request. Never completes.
    async fn stop_when_asked(&self, call: &CallId, request: &RequestState) -> Infallible {
        request.wait_for_stop().await;
        self.engine.cancel(call);
        std::future::pending().await
    }

    /// Sends the response, unless the request was cancelled, and ends the request.
    fn answer(
        &self,
        id: &RequestId,
        result: &CallResult,
        lifecycle: Lifecycle,
        request: &RequestState,
    ) {
        let outgoing = &self.connection.outgoing;
        if request.is_wanted() {
            match ToolResponse::new(result, lifecycle, &self.signature) {
                Ok(result) => outgoing.queue(&Response { jsonrpc: "2.0", id, result }),
                Err(error) => outgoing.queue(&ServerJsonRpcMessage::error(error, Some(id.clone()))),
            }
        }
        // Last, because the connection may end when no request is in flight.
        self.connection.in_flight.end(id);
    }
}

/// The JSON-RPC response to a call.
#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: ToolResponse<'a>,
}
