//! Every form of a call, and the call that is read from it.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_core::testing::{EmptyHost, MockTool};
use windlass_core::{Engine, Toolbox};

use super::*;

/// Reads a value and describes each call: format, id, name and arguments, or the error.
fn read(value: &Value) -> Vec<String> {
    let asked = read_calls(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"));
    asked.into_iter().map(shown).collect()
}

fn shown(asked: RequestedCall) -> String {
    let (format, id) = (asked.format.name(), |id: Option<String>| id.unwrap_or("-".into()));
    match asked.call {
        Ok(call) => format!("{format} {} {} {}", id(call.id), call.name, call.input),
        Err(bad) => format!("{format} {} {} !{}", id(bad.id), bad.name, bad.why),
    }
}

fn chat_call(arguments: &Value) -> Value {
    json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}})
}

#[test]
fn every_form_of_a_call_is_recognised() {
    for (given, wanted) in [
        (
            json!({"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}),
            r#"anthropic a read {"path":"x"}"#,
        ),
        (json!({"type": "tool_use", "id": "a", "name": "jobs"}), "anthropic a jobs {}"),
        (chat_call(&json!("{\"path\":\"x\"}")), r#"openai c1 read {"path":"x"}"#),
        (chat_call(&json!("")), "openai c1 read {}"),
        (chat_call(&json!(" \n")), "openai c1 read {}"),
        (chat_call(&json!(null)), "openai c1 read {}"),
        (chat_call(&json!({"path": "x"})), r#"openai c1 read {"path":"x"}"#),
        (json!({"function": {"name": "jobs", "arguments": "{}"}}), "openai - jobs {}"),
        (
            json!({"role": "assistant", "content": null, "function_call": {"name": "read", "arguments": "{}"}}),
            "openai - read {}",
        ),
        (
            json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"}),
            "openai-responses c1 read {}",
        ),
        (
            json!({"functionCall": {"name": "read", "args": {"path": "x"}}}),
            r#"gemini - read {"path":"x"}"#,
        ),
        (
            json!({"functionCall": {"id": "7", "name": "jobs"}, "thoughtSignature": "x"}),
            "gemini 7 jobs {}",
        ),
        (json!({"function_call": {"name": "read", "args": {}}}), "gemini - read {}"),
        (json!({"tool": "read", "input": {"path": "x"}}), r#"json - read {"path":"x"}"#),
        (json!({"id": 7, "name": "read", "args": {}}), "json 7 read {}"),
        (json!({"name": "read", "arguments": "{\"a\":1}"}), r#"json - read {"a":1}"#),
        (json!({"tool": "jobs"}), "json - jobs {}"),
        (json!({"name": "jobs", "id": "a"}), "json a jobs {}"),
    ] {
        assert_eq!(read(&given), [wanted]);
    }
}

#[test]
fn calls_are_found_in_messages_and_in_whole_responses() {
    let block = json!({"type": "tool_use", "id": "a", "name": "jobs", "input": {}});
    let part = json!({"functionCall": {"name": "jobs", "args": {}}});
    let item = json!({"type": "function_call", "call_id": "a", "name": "jobs", "arguments": ""});
    let (anthropic, openai) = ("anthropic a jobs {}", "openai c1 read {}");
    let (responses, gemini) = ("openai-responses a jobs {}", "gemini - jobs {}");
    let text = json!({"type": "text", "text": "I look."});
    for (given, wanted) in [
        (json!([text, block, block]), vec![anthropic, anthropic]),
        (
            json!({"type": "message", "role": "assistant", "content": [text, block]}),
            vec![anthropic],
        ),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [chat_call(&json!("")), chat_call(&json!(""))]}),
            vec![openai, openai],
        ),
        (
            json!({"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [chat_call(&json!(""))]}}]}),
            vec![openai],
        ),
        (
            json!({"object": "response", "output": [{"type": "reasoning", "summary": []}, item, item]}),
            vec![responses, responses],
        ),
        (json!({"role": "model", "parts": [{"text": "I look."}, part]}), vec![gemini]),
        (json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}), vec![gemini]),
        (json!([block, part, item, {"tool": "jobs"}]), {
            vec![anthropic, gemini, responses, "json - jobs {}"]
        }),
    ] {
        assert_eq!(read(&given), wanted, "{given}");
    }
}

#[test]
fn a_malformed_call_is_kept_for_its_response() {
    for (given, wanted) in [
        (
            chat_call(&json!("{\"path\":")),
            "openai c1 read !the arguments are not JSON: EOF while parsing a value at line 1 column 8",
        ),
        (json!({"type": "tool_use", "id": "a"}), "anthropic a  !the call has no `name`"),
        (json!({"functionCall": {"name": 5}}), "gemini -  !the call has no `name`"),
        (
            json!({"tool": "read", "input": "nonsense"}),
            "json - read !the arguments are not JSON: expected ident at line 1 column 2",
        ),
    ] {
        assert_eq!(read(&given), [wanted]);
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(read(&chat_call(&deep.into()))[0].contains("!the arguments are not JSON: recursion"));
}

#[tokio::test]
async fn a_malformed_call_is_refused_by_the_engine_and_answered() {
    let asked = read_calls(chat_call(&json!("{"))).unwrap().remove(0);
    let call = asked.clone().into_call();
    assert_eq!((call.id.as_deref(), call.name.as_str()), (Some("c1"), "read"));
    let mut tools = Toolbox::new();
    tools.add(MockTool::named("read")).unwrap();
    let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    let refused = engine.call(&engine.new_session(), call).await;
    assert_eq!(refused.code, Some("invalid_args"));

    let bad = asked.call.unwrap_err();
    let result = bad.result(CallId::new("c"), SessionId::new("s"), TurnId::new("t"));
    let line = crate::to_line(Format::OpenAiChat, &result);
    assert_eq!((&line["tool_call_id"], &line["outcome"]), (&json!("c1"), &json!("fault")));
    assert_eq!(line["metadata"], json!({"code": "invalid_args", "turn": "t"}));
}

#[test]
fn values_that_are_no_call_are_refused_with_a_reason() {
    for (given, wanted) in [
        (json!(5), "the number 5 is not a tool call"),
        (json!("read"), "a text is not a tool call"),
        (json!({}), "an empty object is not a tool call"),
        (json!({"path": "a", "limit": 1}), "an object with the keys `path`, `limit` is not"),
        (json!([]), "there is no tool call in a list of 0"),
        (json!([{"tool": "a"}, 5]), "item 2 of the list, the number 5, is not a tool call"),
        (json!([[{"tool": "a"}]]), "item 1 of the list, a list of 1, is not a tool call"),
        (json!([{"type": "tool_usage", "name": "a", "input": {}}]), "item 1 of the list, an obj"),
        (json!({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}), {
            "there is no tool call in an object with the keys `role`, `content`"
        }),
        (json!({"role": "user", "content": [{"type": "tool_use", "name": "a"}]}), {
            "an object with the keys `role`, `content` is not"
        }),
        (json!({"type": "tool_result", "content": [{"type": "tool_use", "name": "a"}]}), {
            "an object with the keys `type`, `content` is not"
        }),
        // Definitions have names, too.
        (json!({"name": "read", "description": "…", "input_schema": {}}), "an object with the"),
        (
            json!({"type": "function", "function": {"name": "read", "parameters": {}}}),
            "an object with the keys `type`, `function` is not",
        ),
        (json!({"choices": [{"message": {}}, {"message": {}}]}), "an object with the key"),
    ] {
        let error = read_calls(given.clone()).expect_err(&given.to_string()).to_string();
        assert!(error.starts_with(wanted), "{given}: {error}");
    }
}

#[test]
fn an_item_that_is_no_call_does_not_affect_other_items() {
    let block = json!({"type": "tool_use", "id": "a", "name": "jobs", "input": {}});
    let thinking = json!({"type": "thinking", "thinking": "…", "signature": "x"});
    for (items, wanted) in [
        (json!([block, 5, block]), vec!["a", "item 2 of the list, the number 5, is not", "a"]),
        (json!([thinking, null, block]), vec!["item 2 of the list, null, is not", "a"]),
        (
            json!([{"type": "tool_usage"}, {"type": "text", "text": "x"}]),
            vec!["item 1 of the list, an"],
        ),
    ] {
        let turn = read_turn(items.clone()).unwrap();
        assert_eq!(turn.len(), wanted.len(), "{items}");
        for (item, wanted) in turn.into_iter().zip(wanted) {
            let text = match item {
                Ok(asked) => asked.into_call().id.unwrap(),
                Err(error) => error.to_string(),
            };
            assert!(text.starts_with(wanted), "{items}: {text}");
        }
    }
}

/// Random JSON, without numbers that its text does not preserve exactly.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000i32..1000).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn calls_survive_every_format(
        turn in prop::collection::vec(
            (prop::option::of("[!-~]{1,40}"), "[a-z][a-z0-9_]{0,20}",
             prop::collection::vec((".{0,8}", any_json()), 0..4)),
            1..5,
        ),
        formats in prop::collection::vec(prop::sample::select(Format::ALL.to_vec()), 5),
    ) {
        let calls: Vec<ToolCall> = turn
            .into_iter()
            .map(|(id, name, input)| ToolCall { id, ..ToolCall::new(name, input.into_iter().collect()) })
            .collect();
        let written = calls.iter().zip(&formats).map(|(call, format)| write_call(*format, call));
        let read = read_calls(written.collect()).unwrap();
        let wanted: Vec<RequestedCall> = calls
            .into_iter()
            .zip(formats)
            .map(|(call, format)| RequestedCall { format, call: Ok(call) })
            .collect();
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn reading_never_panics(value in any_json()) {
        drop(read_calls(value.clone()));
        drop(read_calls(json!({"type": "tool_use", "name": value, "input": value})));
        drop(read_calls(json!({"content": value, "output": [value], "parts": value})));
        drop(crate::read_reply(value.clone()));
        drop(crate::read_reply(json!({"role": "tool", "content": value})));
        drop(crate::read_reply(json!({"functionResponse": {"response": value, "parts": [value]}})));
    }
}
