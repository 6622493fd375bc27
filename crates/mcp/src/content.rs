//! Conversion of results and definitions of the engine to MCP.
//!
//! A response to a call is serialized from types that borrow the result, so that no intermediate copy is built.

use std::borrow::Cow;

use rmcp::model::{ErrorData, Implementation, MetaObject, Tool};
use serde::Serialize;
use serde_json::Value;
use windlass_core::{CallResult, Content, EmbeddedResource, Metadata, ResourceBody, ToolSpec};

use crate::definition::definition;
use crate::lifecycle::Lifecycle;

/// Key in `_meta` under which a result names its server.
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Converts a tool for `tools/list`. The command line prints the same definition, so both are equal.
pub(crate) fn tool(spec: &ToolSpec) -> Result<Tool, ErrorData> {
    serde_json::from_value(definition(spec)).map_err(|error| {
        let text = format!("the tool `{}` cannot be listed: {error}", spec.name);
        ErrorData::internal_error(text, None)
    })
}

/// The server's name and version, for results that do not belong to an initialized connection.
#[derive(Debug, Clone)]
pub(crate) struct Signature(Value);

impl Signature {
    /// Creates the signature of a server.
    pub(crate) fn new(server: &Implementation) -> Self {
        Self(serde_json::to_value(server).unwrap_or_default())
    }

    /// Adds the signature to the metadata of a result.
    pub(crate) fn put_on(&self, meta: &mut Option<MetaObject>) {
        meta.get_or_insert_default().insert(SERVER_INFO_KEY.to_owned(), self.0.clone());
    }
}

/// Response to a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: Vec<ContentBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: ResponseMeta<'a>,
}

/// A content block of MCP.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum ContentBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        data: &'a str,
        mime_type: &'a str,
    },
    Audio {
        data: &'a str,
        mime_type: &'a str,
    },
    Resource {
        resource: EmbeddedBlock<'a>,
    },
    ResourceLink {
        uri: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<&'a str>,
    },
}

/// A resource in a response. It has either text or bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EmbeddedBlock<'a> {
    uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(flatten)]
    body: &'a ResourceBody,
}

/// The `_meta` of a response.
#[derive(Debug, Serialize)]
struct ResponseMeta<'a> {
    #[serde(rename = "windlass/result")]
    facts: ResultFacts<'a>,
    #[serde(
        rename = "io.modelcontextprotocol/serverInfo",
        skip_serializing_if = "Option::is_none"
    )]
    server_info: Option<&'a Value>,
}

/// Facts about a result for which MCP has no field.
#[derive(Debug, Serialize)]
struct ResultFacts<'a> {
    call: &'a str,
    session: &'a str,
    outcome: &'static str,
    metadata: &'a Metadata,
}

impl<'a> ToolResponse<'a> {
    /// Converts a result. An unknown tool is a protocol error, as the specification requires. Every other failure is a result,
    /// because a model sees only those: also invalid arguments, and a denial.
    pub(crate) fn new(
        result: &'a CallResult,
        lifecycle: Lifecycle,
        signature: &'a Signature,
    ) -> Result<Self, ErrorData> {
        if result.code == Some("unknown_tool") {
            return Err(ErrorData::invalid_params(result.output.to_text(), None));
        }
        let is_stateless = lifecycle == Lifecycle::Stateless;
        Ok(Self {
            result_type: is_stateless.then_some("complete"),
            content: result.output.content.iter().map(ContentBlock::new).collect(),
            structured_content: structured_content_of(&result.output.content, lifecycle),
            is_error: result.outcome.is_error(),
            meta: ResponseMeta {
                facts: ResultFacts {
                    call: result.call.as_str(),
                    session: result.session.as_str(),
                    outcome: result.outcome.as_str(),
                    metadata: &result.output.metadata,
                },
                server_info: is_stateless.then_some(&signature.0),
            },
        })
    }
}

impl<'a> ContentBlock<'a> {
    /// Converts a content to a block; JSON becomes text.
    fn new(content: &'a Content) -> Self {
        match content {
            Content::Text { text } => Self::Text { text: text.into() },
            // As text, for clients that do not support structured content.
            Content::Json { value } => Self::Text { text: value.to_string().into() },
            Content::Image { media_type, data } => Self::Image { data, mime_type: media_type },
            Content::Audio { media_type, data } => Self::Audio { data, mime_type: media_type },
            Content::Resource(EmbeddedResource { uri, media_type, body }) => Self::Resource {
                resource: EmbeddedBlock { uri, mime_type: media_type.as_deref(), body },
            },
            Content::ResourceLink { uri, name, media_type } => {
                Self::ResourceLink { uri, name, mime_type: media_type.as_deref() }
            }
        }
    }
}

/// Returns the data of a result, if it has exactly one piece. Before 2026-07-28, only an object is allowed.
fn structured_content_of(contents: &[Content], lifecycle: Lifecycle) -> Option<&Value> {
    let mut values = contents.iter().filter_map(|content| match content {
        Content::Json { value } => Some(value),
        _ => None,
    });
    let value = values.next().filter(|_| values.next().is_none())?;
    (lifecycle == Lifecycle::Stateless || value.is_object()).then_some(value)
}
