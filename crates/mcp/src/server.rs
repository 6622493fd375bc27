//! The methods of MCP, each a few lines over the engine.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
    ErrorData, InitializeRequestParams, InitializeResult, ListToolsResult, MetaObject,
    PaginatedRequestParams, ProtocolVersion, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use windlass_core::{CallResult, Engine, Session, ToolCall, quote};

use crate::content;
use crate::in_flight::Stop;
use crate::outgoing::Outgoing;
use crate::progress::Progress;

/// For how long a client may take the list of tools as current.
const LIST_TTL_MS: u64 = 5 * 60 * 1000;

/// Where results say who made them, since 2026-07-28.
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Serves one session of an engine.
pub(crate) struct Server {
    engine: Engine,
    session: Arc<Session>,
    outgoing: Arc<Outgoing>,
    config: ServerConfig,
    /// Who made a result.
    signature: Value,
}

impl Server {
    pub(crate) fn new(
        engine: Engine,
        session: Arc<Session>,
        outgoing: Arc<Outgoing>,
        config: ServerConfig,
    ) -> Self {
        let signature = serde_json::to_value(&config.server_info).unwrap_or_default();
        Self { engine, session, outgoing, config, signature }
    }

    /// Runs a call until it ends or nobody wants it any more; then it is stopped, and comes to its end and on record too.
    async fn run(&self, call: ToolCall, context: &RequestContext<RoleServer>) -> CallResult {
        let progress = context
            .meta
            .get_progress_token()
            .map(|token| Progress::new(&self.engine, self.outgoing.clone(), token));
        let (id, running) = self.engine.start(&self.session, call);
        let ending = async {
            match progress {
                Some(progress) => progress.follow(&id, running).await,
                None => running.await,
            }
        };
        tokio::select! {
            biased;
            result = ending => result,
            never = self.stop_when_asked(&id, context.extensions.get::<Stop>()) => match never {},
        }
    }

    async fn stop_when_asked(
        &self,
        call: &windlass_core::CallId,
        stop: Option<&Stop>,
    ) -> Infallible {
        if let Some(stop) = stop {
            stop.asked().await;
            self.engine.cancel(call);
        }
        std::future::pending().await
    }

    fn sign(&self, meta: &mut Option<MetaObject>, version: Option<&ProtocolVersion>) {
        if stands_alone(version) {
            meta.get_or_insert_default().insert(SERVER_INFO_KEY.into(), self.signature.clone());
        }
    }
}

/// Whether requests stand on their own: the wire of 2026-07-28.
fn stands_alone(version: Option<&ProtocolVersion>) -> bool {
    version.is_some_and(|version| !version.has_initialize())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.config.clone()
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        // From here on answers take the form of the version that was agreed on, not of the one that was asked for.
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            let text = "there is no such cursor: the list of tools is one page";
            return Err(ErrorData::invalid_params(text, None));
        }
        let specs = self.engine.tools(&self.session).await;
        let tools = specs.iter().map(content::tool).collect::<Result<_, _>>()?;
        let mut list = ListToolsResult::with_all_items(tools);
        let version = context.protocol_version();
        if stands_alone(version.as_ref()) {
            // What is listed depends on the session.
            list = list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
        }
        self.sign(&mut list.meta, version.as_ref());
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = ToolCall::new(request.name, arguments);
        let result = self.run(call, &context).await;
        let version = context.protocol_version();
        let mut answer = content::call_result(result, version.as_ref())?;
        self.sign(&mut answer.meta, version.as_ref());
        Ok(answer.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(80).collect();
        let text = format!(
            "there is no method `{}`; this server offers tools/list and tools/call",
            quote::visible(&method)
        );
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, Cow::Owned(text), None))
    }
}
