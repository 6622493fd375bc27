//! Gemini: `functionCall` and `functionResponse` parts.
//!
//! A response is `output` or `error`: a single text as it is, anything else as a list. Images are parts of the response; between
//! texts, the list has `{"image": 1}` in their place.

use serde_json::{Map, Value, json};

use super::{Format, RequestedCall, SchemaKeywords, object, subset};
use windlass_core::{CallResult, Content, ToolSpec};

/// Takes a `functionCall`; `None` for anything else.
pub(super) fn take_call(map: &mut Map<String, Value>) -> Option<RequestedCall> {
    let key = ["functionCall", "function_call"].into_iter().find(|key| map.contains_key(*key))?;
    let call = map.get_mut(key)?.as_object_mut()?;
    Some(RequestedCall::new(
        Format::Gemini,
        call.remove("id"),
        call.remove("name"),
        call.remove("args"),
    ))
}

/// Makes a `functionCall`.
pub(super) fn call(name: &str, input: &Value) -> Value {
    json!({"functionCall": {"name": name, "args": input}})
}

/// Makes a `functionResponse`.
pub(super) fn reply(result: &CallResult, is_error: bool) -> Value {
    let mut response = Map::new();
    if let Some(id) = &result.tool_use_id {
        response.insert("id".into(), id.as_str().into());
    }
    response.insert("name".into(), result.tool.as_str().into());
    let key = if is_error { "error" } else { "output" };
    response.insert("response".into(), object([(key, response_texts(&result.output.content))]));
    let images: Vec<Value> = result.output.content.iter().filter_map(inline_data).collect();
    if !images.is_empty() {
        response.insert("parts".into(), images.into());
    }
    object([("functionResponse", response.into())])
}

/// Makes the part of an image or audio.
fn inline_data(content: &Content) -> Option<Value> {
    match content {
        Content::Image { media_type, data } | Content::Audio { media_type, data } => {
            let blob =
                object([("mimeType", media_type.as_str().into()), ("data", data.as_str().into())]);
            Some(object([("inlineData", blob)]))
        }
        _ => None,
    }
}

/// Returns the texts of a response: one text if it comes before all images, otherwise a list with a placeholder for each image.
fn response_texts(content: &[Content]) -> Value {
    let is_picture = |content: &&Content| inline_data(content).is_some();
    let pieces: Vec<&Content> =
        content.iter().filter(|content| content.as_text() != Some("")).collect();
    let (text, rest) = match pieces.split_first() {
        Some((first, rest)) if !is_picture(first) => (first.shown(), rest),
        _ => ("".into(), pieces.as_slice()),
    };
    if rest.iter().all(is_picture) {
        return text.into();
    }
    let mut images = 0;
    let piece = |content: &&Content| {
        if is_picture(content) {
            images += 1;
            json!({"image": images})
        } else {
            content.shown().into()
        }
    };
    pieces.iter().map(piece).collect()
}

/// Reads content and error flag of a `functionResponse`. A response with keys other than `output` or `error` is kept as data.
pub(super) fn read_response(function: &mut Map<String, Value>) -> (Vec<Content>, bool) {
    let parts = match function.remove("parts") {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    let mut images: Vec<Option<Content>> = parts.iter().map(read_image).collect();
    let mut response = function.remove("response").unwrap_or_default();
    let is_error = response.get("error").is_some_and(|error| !error.is_null());
    let texts = match response.as_object_mut() {
        Some(map) if map.len() == 1 => map.remove("output").or_else(|| map.remove("error")),
        _ => None,
    };
    let mut content = read_texts(texts.unwrap_or(response), &mut images);
    content.extend(images.into_iter().flatten());
    (content, is_error)
}

/// Reads an image or an audio clip from a response part.
fn read_image(part: &Value) -> Option<Content> {
    let blob = part.get("inlineData").or_else(|| part.get("inline_data"))?;
    let media_type = blob.get("mimeType").or_else(|| blob.get("mime_type"))?.as_str()?;
    let data = blob.get("data")?.as_str()?;
    let (media_type, data) = (media_type.to_owned(), data.to_owned());
    Some(if media_type.starts_with("audio/") {
        Content::Audio { media_type, data }
    } else {
        Content::Image { media_type, data }
    })
}

/// Reads the texts of a response, with images in their places.
fn read_texts(texts: Value, images: &mut [Option<Content>]) -> Vec<Content> {
    match texts {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![Content::Text { text }],
        Value::Array(pieces)
            if pieces.iter().all(|piece| piece.is_string() || image_index(piece).is_some()) =>
        {
            pieces.iter().filter_map(|piece| read_piece(piece, images)).collect()
        }
        other => vec![Content::Json { value: other }],
    }
}

/// Reads a list item: a text, or a reference to an image, which is taken out of `images`.
fn read_piece(piece: &Value, images: &mut [Option<Content>]) -> Option<Content> {
    match image_index(piece) {
        Some(at) => images.get_mut(at)?.take(),
        None => piece.as_str().map(Content::text),
    }
}

/// Returns the index of the image that a list item refers to.
fn image_index(piece: &Value) -> Option<usize> {
    let number = piece.get("image")?.as_u64()?;
    usize::try_from(number.checked_sub(1)?).ok()
}

/// Makes a declaration. Without parameters it has no `parameters` at all, since an empty object is refused.
pub(super) fn definition(spec: &ToolSpec) -> Value {
    let mut declaration = json!({"name": spec.name, "description": spec.description});
    let parameters = subset(&spec.input_schema, SchemaKeywords::GEMINI);
    let has_some =
        parameters.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if let (true, Some(map)) = (has_some, declaration.as_object_mut()) {
        map.insert("parameters".into(), parameters);
    }
    declaration
}
