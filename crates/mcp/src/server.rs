//! The methods of MCP except `tools/call`, implemented with the engine.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CustomRequest, CustomResult, ErrorCode, ErrorData, InitializeRequestParams,
    InitializeResult, ListToolsResult, PaginatedRequestParams, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use windlass_core::{Engine, Session, quote};

use crate::content::{self, Signature};
use crate::lifecycle::Lifecycle;

/// Time for which a client may cache the list of tools.
const LIST_TTL_MS: u64 = 5 * 60 * 1000;

/// Serves one session of an engine.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) session: Arc<Session>,
    pub(crate) config: ServerConfig,
    pub(crate) signature: Signature,
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
        // From here on responses follow the agreed version, not the requested one.
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
        if Lifecycle::of_version(context.protocol_version().as_ref()) == Lifecycle::Stateless {
            // The list depends on the session.
            list = list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
            self.signature.put_on(&mut list.meta);
        }
        Ok(list)
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
