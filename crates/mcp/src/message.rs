//! Parses one line into a message.
//!
//! Parameters are parsed according to their method, so that an error can name the method. A method that this server does not offer
//! becomes a request with an unknown method; a notification that changes nothing becomes [`Message::Nothing`].

use std::borrow::Cow;

use rmcp::model::{
    CancelledNotificationParam, ClientRequest, CustomRequest, DiscoverRequestParams, ErrorData,
    GetMeta, InitializeRequestParams, JsonObject, PaginatedRequestParams, PingRequest, Request,
    RequestId, RequestMetaObject, RequestOptionalParam, RequestParamsMeta,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::calls::CallRequest;
use crate::elicitation::{ClientError, ClientResponse};

/// A parsed line.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are requests, and none is kept")]
pub(crate) enum Message {
    /// `tools/call`, with the metadata of the request.
    CallRequest(RequestId, CallRequest, RequestMetaObject),
    Request(RequestId, ClientRequest),
    /// The client no longer wants the response to this request.
    Cancelled(RequestId),
    /// The client's response to a request of this server.
    ClientResponse(RequestId, ClientResponse),
    /// Nothing to do: an empty line, a notification that changes nothing, a response without an id.
    Nothing,
    Refused(Option<RequestId>, ErrorData),
}

/// The fields of JSON-RPC; all others are ignored.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<LineText<'a>>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<LineText<'a>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    error: Option<&'a RawValue>,
}

/// Text that is borrowed from the line, or owned if it has escapes. (Inside an `Option`, `serde` would copy every `Cow`.)
#[derive(Deserialize)]
struct LineText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Deserializes a field that is present, even if it is `null`.
fn deserialize_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Message {
    /// Parses one line.
    pub(crate) fn read(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        match line.first() {
            None => Self::Nothing,
            Some(b'[') => Self::Refused(None, not_a_batch()),
            Some(_) => match serde_json::from_slice::<Envelope<'_>>(line) {
                Ok(envelope) => envelope.into_message(),
                Err(error) => Self::Refused(None, unreadable(&error)),
            },
        }
    }
}

impl Envelope<'_> {
    /// Classifies the fields as a request, a notification or a response.
    fn into_message(self) -> Message {
        let id = match self.id.map(|id| serde_json::from_str::<RequestId>(id.get())) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => {
                return Message::Refused(
                    None,
                    invalid("the `id` must be a text or a whole number"),
                );
            }
        };
        if self.jsonrpc.as_ref().map(|LineText(version)| &**version) != Some("2.0") {
            return Message::Refused(id, invalid("`jsonrpc` must be \"2.0\""));
        }
        // Some libraries send `"error": null` next to a result.
        let error = self.error.filter(|error| self.result.is_none() || error.get() != "null");
        let answers = usize::from(self.result.is_some() || error.is_some());
        match (self.method, id, answers) {
            (Some(LineText(method)), Some(id), 0) => request(id.clone(), &method, self.params)
                .unwrap_or_else(|error| Message::Refused(Some(id), error)),
            (Some(LineText(method)), None, 0) => notification(&method, self.params),
            (None, Some(id), 1) => Message::ClientResponse(id, client_response(self.result, error)),
            (None, None, 1) => Message::Nothing,
            (_, id, _) => Message::Refused(id, invalid("it is neither a request nor an answer")),
        }
    }
}

/// Converts the client's response to a request of this server.
fn client_response(result: Option<&RawValue>, error: Option<&RawValue>) -> ClientResponse {
    #[derive(Deserialize)]
    struct Fault {
        message: String,
    }
    match (result, error) {
        (Some(_), Some(_)) => Err(ClientError::ResultAndError),
        (Some(result), None) => Ok(result.get().to_owned()),
        (None, Some(error)) => Err(serde_json::from_str::<Fault>(error.get())
            .map_or_else(ClientError::UnreadableError, |fault| {
                ClientError::Refused(fault.message)
            })),
        (None, None) => Err(ClientError::NoAnswer),
    }
}

/// Parses a request according to its method.
fn request(id: RequestId, method: &str, params: Option<&RawValue>) -> Result<Message, ErrorData> {
    let params = Params { method, text: params.map_or("{}", RawValue::get) };
    let request = match method {
        "tools/call" => return call(id, &params),
        "tools/list" => {
            let (params, meta) = params.read_with_meta::<PaginatedRequestParams>()?;
            let request = RequestOptionalParam::with_param(params);
            with_meta(ClientRequest::ListToolsRequest(request), meta)
        }
        "initialize" => {
            let (params, meta) = params.read_with_meta::<InitializeRequestParams>()?;
            with_meta(ClientRequest::InitializeRequest(Request::new(params)), meta)
        }
        "server/discover" => {
            let request = Request::new(DiscoverRequestParams {});
            with_meta(ClientRequest::DiscoverRequest(request), params.read_meta()?)
        }
        "ping" => {
            with_meta(ClientRequest::PingRequest(PingRequest::default()), params.read_meta()?)
        }
        // Parameters are ignored: the response is the same for all of them.
        unknown => ClientRequest::CustomRequest(CustomRequest::new(unknown, None)),
    };
    Ok(Message::Request(id, request))
}

/// Parses a `tools/call` request.
fn call(id: RequestId, params: &Params<'_>) -> Result<Message, ErrorData> {
    #[derive(Deserialize)]
    struct Fields {
        name: String,
        arguments: Option<JsonObject>,
        #[serde(rename = "_meta")]
        meta: Option<RequestMetaObject>,
    }
    let Fields { name, arguments, meta } = params.read()?;
    let meta = meta.unwrap_or_default();
    let arguments = arguments.unwrap_or_default();
    let call = CallRequest { tool: name, arguments, progress: meta.get_progress_token() };
    Ok(Message::CallRequest(id, call, meta))
}

/// Sets the metadata of a request.
fn with_meta(mut request: ClientRequest, meta: Option<RequestMetaObject>) -> ClientRequest {
    if let Some(meta) = meta {
        *request.get_meta_mut() = meta;
    }
    request
}

/// Parses a notification. Only a cancellation has an effect here. Notifications get no response, so an invalid one is dropped.
fn notification(method: &str, params: Option<&RawValue>) -> Message {
    if method != "notifications/cancelled" {
        return Message::Nothing;
    }
    params
        .and_then(|params| serde_json::from_str::<CancelledNotificationParam>(params.get()).ok())
        .and_then(|params| params.request_id)
        .map_or(Message::Nothing, Message::Cancelled)
}

/// The unparsed parameters of a request.
struct Params<'a> {
    method: &'a str,
    text: &'a str,
}

impl Params<'_> {
    /// Parses the parameters.
    fn read<P: DeserializeOwned>(&self) -> Result<P, ErrorData> {
        // Serde would accept an array as the fields in their order.
        if !self.text.starts_with('{') {
            return Err(self.invalid_params("they must be an object"));
        }
        serde_json::from_str(self.text).map_err(|error| self.invalid_params(&error.to_string()))
    }

    /// Parses the parameters, and takes their metadata.
    fn read_with_meta<P: DeserializeOwned + RequestParamsMeta>(
        &self,
    ) -> Result<(P, Option<RequestMetaObject>), ErrorData> {
        let mut params: P = self.read()?;
        let meta = params.meta_mut().take();
        Ok((params, meta))
    }

    /// Parses only the metadata of the parameters.
    fn read_meta(&self) -> Result<Option<RequestMetaObject>, ErrorData> {
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "_meta")]
            meta: Option<RequestMetaObject>,
        }
        Ok(self.read::<Meta>()?.meta)
    }

    /// Makes the error of invalid parameters.
    fn invalid_params(&self, why: &str) -> ErrorData {
        let text = format!("the parameters of `{}` do not fit: {why}", self.method);
        ErrorData::invalid_params(text, None)
    }
}

/// Converts a JSON error to an error of the protocol.
fn unreadable(error: &serde_json::Error) -> ErrorData {
    match error.classify() {
        Category::Data => invalid(&error.to_string()),
        _ => ErrorData::parse_error(format!("the line is not JSON: {error}"), None),
    }
}

/// Makes the error of a message that violates JSON-RPC.
fn invalid(why: &str) -> ErrorData {
    ErrorData::invalid_request(format!("the message is not JSON-RPC 2.0: {why}"), None)
}

/// Makes the error of a batch, which MCP no longer has.
fn not_a_batch() -> ErrorData {
    let text =
        "batches are not part of MCP since 2025-06-18; send each message on a line of its own";
    ErrorData::invalid_request(text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes the message of a line in short.
    fn short(line: &str) -> String {
        match Message::read(line.as_bytes()) {
            Message::Request(id, request) => format!("{id}: {}", request.method()),
            Message::CallRequest(id, call, _) => format!("{id}: call {}", call.tool),
            Message::Cancelled(id) => format!("cancelled {id}"),
            Message::ClientResponse(id, answered) => {
                let answered = answered.map_err(|error| error.to_string());
                format!("{id}: answered {answered:?}")
            }
            Message::Nothing => "nothing".into(),
            Message::Refused(id, error) => {
                let id = id.map_or("?".into(), |id| id.to_string());
                format!("{id}: {} {}", error.code.0, error.message)
            }
        }
    }

    #[test]
    fn lines_are_parsed_to_messages() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"#;
        let cases = [
            ("", "nothing"),
            (" \r", "nothing"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "a: ping"),
            (r#" {"jsonrpc":"2.0","id":1.0,"method":"tools\/list","more":1} "#, "1: tools/list"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#, "1: prompts/list"),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "nothing"),
            (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#, "nothing"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"notifications/x"}"#, "1: notifications/x"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "1: answered Ok(\"null\")"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "1: answered Err(\"missing field"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}"#, "1: answered Err(\"no\")"),
            (r#"{"jsonrpc":"2.0","result":1}"#, "nothing"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
                "cancelled 7",
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, "nothing"),
            ("[]", "?: -32600 batches are not part"),
            ("{", "?: -32700 the line is not JSON: EOF"),
            ("\u{0}", "?: -32700 the line is not JSON"),
            (r#""text""#, "?: -32600 the message is not JSON-RPC 2.0"),
            ("{}", "?: -32600 the message is not JSON-RPC 2.0: `jsonrpc`"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "1: -32600 "),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                "?: -32600 the message is not JSON-RPC 2.0: the `id`",
            ),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "?: -32600 "),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "?: -32600 "),
            (
                r#"{"jsonrpc":"2.0","id":1}"#,
                "1: -32600 the message is not JSON-RPC 2.0: it is neither",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":1}"#, "1: -32600 "),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#,
                "1: -32602 the parameters of `ping`",
            ),
            (&format!(r#"{call}{{"name":"x"}}}}"#), "1: call x"),
            (
                &format!("{call}{{}}}}"),
                "1: -32602 the parameters of `tools/call` do not fit: missing field `name`",
            ),
            (
                &format!(r#"{call}["x"]}}"#),
                "1: -32602 the parameters of `tools/call` do not fit: they must be",
            ),
            (&format!(r#"{call}{{"name":7}}}}"#), "1: -32602 "),
            (&format!(r#"{call}{{"name":"x","arguments":[]}}}}"#), "1: -32602 "),
            (
                &format!(
                    r#"{call}{{"name":"x","arguments":{{"a":{}1{}}}}}}}"#,
                    "[".repeat(10_000),
                    "]".repeat(10_000)
                ),
                "1: -32602 the parameters of `tools/call` do not fit: recursion limit",
            ),
        ];
        for (line, expected) in cases {
            let found = short(line);
            let shown: String = line.chars().take(80).collect();
            assert!(found.starts_with(expected), "{shown}: {found}");
        }
    }

    #[test]
    fn invalid_utf_8_is_refused() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}";
        assert!(matches!(Message::read(line), Message::Refused(None, _)));
    }
}
