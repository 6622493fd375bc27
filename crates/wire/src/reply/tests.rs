//! Responses in every format, written and read back.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use windlass_core::{CallId, Outcome, SessionId, TurnId};

fn result(output: Output) -> CallResult {
    CallResult {
        call: CallId::new("c1"),
        session: SessionId::new("s1"),
        parent_call: None,
        turn: TurnId::new("t1"),
        tool_use_id: Some("call_1".into()),
        tool: "read".into(),
        outcome: if output.is_error { Outcome::Error } else { Outcome::Ok },
        output,
        code: None,
        duration: Duration::from_millis(3),
    }
}

fn image() -> Content {
    Content::Image { media_type: "image/png".into(), data: "AAAA".into() }
}

fn output(content: Vec<Content>, is_error: bool) -> Output {
    Output { content, is_error, ..Output::default() }
}

#[test]
fn each_api_gets_its_own_form() {
    let picture = result(output(vec![Content::text("a chart"), image()], false));
    for (format, wanted) in [
        (
            Format::Anthropic,
            json!({"type": "tool_result", "tool_use_id": "call_1", "content": [
                {"type": "text", "text": "a chart"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ], "is_error": false}),
        ),
        (
            Format::OpenAiChat,
            json!({"role": "tool", "tool_call_id": "call_1", "content": [
                {"type": "text", "text": "a chart"},
                {"type": "text", "text": "[image/png, 3 bytes]"},
            ]}),
        ),
        (
            Format::OpenAiResponses,
            json!({"type": "function_call_output", "call_id": "call_1", "output": [
                {"type": "input_text", "text": "a chart"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ]}),
        ),
        (
            Format::Gemini,
            json!({"functionResponse": {"id": "call_1", "name": "read",
                "response": {"output": "a chart"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]}}),
        ),
    ] {
        assert_eq!(to_api(format, &picture), wanted);
    }
}

#[test]
fn audio_and_resources_become_text_if_a_format_cannot_represent_them() {
    let sound = Content::Audio { media_type: "audio/wav".into(), data: "AAAA".into() };
    let page = Content::resource_text("file:///a.md", "# A");
    let answer = result(output(vec![sound, page], false));
    for (format, pointer, wanted) in [
        (Format::Anthropic, "/content/0/text", json!("[audio/wav, 3 bytes]")),
        (Format::Anthropic, "/content/1/text", json!("# A")),
        (Format::OpenAiChat, "/content/1/text", json!("# A")),
        (Format::OpenAiResponses, "/output/0/text", json!("[audio/wav, 3 bytes]")),
        (Format::Gemini, "/functionResponse/parts/0/inlineData/mimeType", json!("audio/wav")),
    ] {
        assert_eq!(to_api(format, &answer).pointer(pointer), Some(&wanted), "{format:?}");
        let reply = read_reply(to_line(format, &answer)).unwrap();
        assert_eq!(reply.output.content, answer.output.content, "{format:?}: a line loses nothing");
    }
}

#[test]
fn each_format_marks_errors_in_its_own_way() {
    let failed = result(Output::error("no such file"));
    for (format, pointer, wanted) in [
        (Format::Plain, "/is_error", json!(true)),
        (Format::Anthropic, "/is_error", json!(true)),
        (Format::OpenAiChat, "/content", json!("Error: no such file")),
        (Format::OpenAiResponses, "/output", json!("Error: no such file")),
        (Format::Gemini, "/functionResponse/response", json!({"error": "no such file"})),
    ] {
        assert_eq!(to_api(format, &failed).pointer(pointer), Some(&wanted), "{format:?}");
    }
    let mut denied = result(Output::text("not allowed"));
    denied.outcome = Outcome::Denied;
    assert_eq!(to_api(Format::OpenAiChat, &denied)["content"], "Error: not allowed");
}

#[test]
fn lines_have_outcome_and_metadata_in_every_format() {
    let mut fault = result(Output::error("no tool `reed`").with("lines", 1));
    (fault.outcome, fault.code) = (Outcome::Fault, Some("unknown_tool"));
    for format in Format::ALL {
        let line = to_line(format, &fault);
        for (key, wanted) in [
            ("outcome", json!("fault")),
            ("metadata", json!({"lines": 1, "code": "unknown_tool", "turn": "t1"})),
            ("call", json!("c1")),
            ("session", json!("s1")),
            ("duration_ms", json!(3)),
        ] {
            assert_eq!(line[key], wanted, "{format:?} {key}");
        }
    }
}

#[test]
fn a_call_without_id_is_answered_with_our_call_id() {
    let mut result = result(Output::text("x"));
    result.tool_use_id = None;
    for (format, pointer, wanted) in [
        (Format::Anthropic, "/tool_use_id", Some("c1")),
        (Format::OpenAiChat, "/tool_call_id", Some("c1")),
        (Format::OpenAiResponses, "/call_id", Some("c1")),
        (Format::Gemini, "/functionResponse/id", None),
    ] {
        let line = to_api(format, &result);
        assert_eq!(line.pointer(pointer).and_then(Value::as_str), wanted, "{format:?}");
    }
}

#[test]
fn the_response_to_a_turn_has_every_image() {
    let results = [
        result(output(vec![Content::text("no chart"), image()], true)),
        result(Output::text("hello")),
    ];
    let block = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let answered = answer(Format::Anthropic, &results);
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0]["content"].as_array().unwrap().len(), 3);
    assert_eq!(answered[0]["content"][0]["content"][1]["text"], "[image/png, 3 bytes]");
    assert_eq!(answered[0]["content"][2], block);

    let answered = answer(Format::OpenAiChat, &results);
    let roles: Vec<&Value> = answered.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["tool", "tool", "user"]);
    assert_eq!(
        answered[2]["content"],
        json!([
            {"type": "text", "text": "Images of the call call_1:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ])
    );
    assert_eq!(answer(Format::OpenAiResponses, &results).len(), 2);
    assert_eq!(answer(Format::Gemini, &results)[0]["parts"].as_array().unwrap().len(), 2);
}

#[test]
fn responses_of_other_programs_are_read_without_loss() {
    let link = Content::ResourceLink {
        uri: "https://example.org/a.png".into(),
        name: "image".into(),
        media_type: None,
    };
    let document = json!({"type": "document", "title": "x"});
    for (given, content, is_error) in [
        (json!({"type": "tool_result", "content": "hi"}), vec![Content::text("hi")], false),
        (json!({"type": "tool_result"}), vec![], false),
        (
            json!({"type": "tool_result", "content": [document]}),
            vec![Content::Json { value: document.clone() }],
            false,
        ),
        (
            json!({"type": "tool_result", "is_error": true, "content": [
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}]}),
            vec![link.clone()],
            true,
        ),
        (
            json!({"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}),
            vec![link],
            false,
        ),
        (
            json!({"functionResponse": {"response": {"temperature": 5}}}),
            vec![Content::Json { value: json!({"temperature": 5}) }],
            false,
        ),
        (
            json!({"functionResponse": {"response": {"error": "x", "code": 5}}}),
            vec![Content::Json { value: json!({"error": "x", "code": 5}) }],
            true,
        ),
        (
            json!({"function_response": {"response": {"output": {"a": 1}}}}),
            vec![Content::Json { value: json!({"a": 1}) }],
            false,
        ),
    ] {
        let reply = read_reply(given.clone()).unwrap();
        assert_eq!(reply.output, output(content, is_error), "{given}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    // Often begins like an error mark.
    ("(Output: |Error: ){0,3}", ".{0,20}").prop_map(|(mark, text)| mark + &text)
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        any_text().prop_map(Content::text),
        any_text().prop_map(Content::text),
        ("image/[a-z]{1,8}", "([A-Za-z0-9+/]{4}){0,8}")
            .prop_map(|(media_type, data)| Content::Image { media_type, data }),
        ("audio/[a-z]{1,8}", "([A-Za-z0-9+/]{4}){0,8}")
            .prop_map(|(media_type, data)| Content::Audio { media_type, data }),
        (".{0,9}", any_text()).prop_map(|(uri, text)| Content::resource_text(uri, text)),
        any::<i64>().prop_map(|number| Content::Json { value: json!({"number": number}) }),
        (".{0,9}", ".{0,9}", prop::option::of(".{0,9}")).prop_map(|(uri, name, media_type)| {
            Content::ResourceLink { uri, name, media_type }
        }),
    ]
}

proptest! {
    #[test]
    fn a_line_is_read_back_unchanged(
        content in prop::collection::vec(any_content(), 0..5),
        is_error: bool,
    ) {
        let wanted = output(content, is_error).with("turn", "t1");
        for format in Format::ALL {
            let reply = read_reply(to_line(format, &result(wanted.clone()))).unwrap();
            prop_assert_eq!(reply.id.as_deref(), Some("call_1"));
            prop_assert_eq!(&reply.output, &wanted, "{:?}", format);
        }
    }

    /// The API form preserves text and images, except those that [`to_api`] cannot represent.
    #[test]
    fn text_and_images_survive_the_api_form(
        content in prop::collection::vec(any_content(), 0..5),
        is_error: bool,
    ) {
        for format in Format::ALL {
            let carried = |content: &Content| match content {
                Content::Text { text } => !text.trim().is_empty(),
                Content::Image { .. } => {
                    format != Format::OpenAiChat && !(format == Format::Anthropic && is_error)
                }
                _ => false,
            };
            let carried: Vec<Content> = content.iter().filter(|c| carried(c)).cloned().collect();
            let wanted = output(carried, is_error);
            let mut reply = read_reply(to_api(format, &result(wanted.clone()))).unwrap();
            reply.output.metadata.clear();
            prop_assert_eq!(&reply.output, &wanted, "{:?}", format);
        }
    }
}
