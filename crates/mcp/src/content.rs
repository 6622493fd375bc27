//! What the engine says, in the words of MCP.

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, MetaObject, ProtocolVersion, Resource, Tool,
};
use serde_json::{Map, Value};
use windlass_core::{CallResult, Content, Spec, wire};

/// Under this key of `_meta` an answer carries what MCP has no field for.
const RESULT_KEY: &str = "windlass/result";

/// A tool as it is listed: as the command line prints it, so that both say the same.
pub(crate) fn tool(spec: &Spec) -> Result<Tool, ErrorData> {
    serde_json::from_value(wire::mcp_definition(spec)).map_err(|error| {
        let text = format!("the tool `{}` cannot be listed: {error}", spec.name);
        ErrorData::internal_error(text, None)
    })
}

/// The answer to a call.
///
/// A tool that is not there is a fault of the request, as the protocol wants it. Everything else that can go wrong is a result,
/// because a model gets to read only those: also arguments that do not fit, and a denial.
pub(crate) fn call_result(
    result: CallResult,
    version: Option<&ProtocolVersion>,
) -> Result<CallToolResult, ErrorData> {
    if result.code == Some("unknown_tool") {
        return Err(ErrorData::invalid_params(result.output.to_text(), None));
    }
    let mut answer = CallToolResult::default();
    answer.is_error = Some(result.outcome.is_error());
    answer.structured_content = structured(&result.output.content, version);
    answer.meta = Some(facts(
        &result.call.to_string(),
        &result.session.to_string(),
        result.outcome.as_str(),
        result.output.metadata,
    ));
    answer.content = result.output.content.into_iter().map(block).collect();
    Ok(answer)
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::text(text),
        Content::Image { media_type, data } => ContentBlock::image(data, media_type),
        // Clients that do not know structured content read it as text.
        Content::Json { value } => ContentBlock::text(value.to_string()),
        Content::ResourceLink { uri, name, media_type } => {
            let mut resource = Resource::new(uri, name);
            resource.mime_type = media_type;
            ContentBlock::resource_link(resource)
        }
    }
}

/// The one piece of data in an answer. Before 2026-07-28 only an object may stand there.
fn structured(contents: &[Content], version: Option<&ProtocolVersion>) -> Option<Value> {
    let mut values = contents.iter().filter_map(|content| match content {
        Content::Json { value } => Some(value),
        _ => None,
    });
    let value = values.next().filter(|_| values.next().is_none())?;
    let any = version.is_some_and(|version| *version >= ProtocolVersion::V_2026_07_28);
    (any || value.is_object()).then(|| value.clone())
}

fn facts(call: &str, session: &str, outcome: &str, metadata: Map<String, Value>) -> MetaObject {
    let mut facts = Map::with_capacity(4);
    facts.insert("call".into(), call.into());
    facts.insert("session".into(), session.into());
    facts.insert("outcome".into(), outcome.into());
    facts.insert("metadata".into(), metadata.into());
    let mut meta = MetaObject::default();
    meta.insert(RESULT_KEY.into(), facts.into());
    meta
}
