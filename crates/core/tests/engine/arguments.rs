//! Arguments of a model: repaired if they can be read in one way only, otherwise refused with a helpful message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{EffectKinds, Effects, FunctionTool, Outcome, Output};

use crate::support::{Setup, echo};

/// Search for a pattern.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Pattern to look for.
    pattern: String,
    /// Maximum number of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// Ignores case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignore_case: bool,
    /// Directories to search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
}

/// A tool with typed arguments that answers with the arguments as it understood them.
fn search() -> FunctionTool<Args> {
    FunctionTool::new(
        "search",
        EffectKinds::NONE,
        |_: &Args| Effects::none(),
        |_, args: Args| async move { Ok(Output::text(json!(args).to_string())) },
    )
}

/// Calls a tool with this input, and checks the outcome and text.
async fn check(setup: &Setup, tool: &str, input: Value, outcome: Outcome, text: &str) {
    let shown: String = input.to_string().chars().take(80).collect();
    let result = setup.call(tool, input).await;
    assert_eq!((result.outcome, result.output.to_text().as_str()), (outcome, text), "{shown}");
    let code = (outcome == Outcome::Fault).then_some("invalid_args");
    assert_eq!(result.code, code, "{shown}");
}

#[tokio::test]
async fn unambiguous_arguments_are_repaired_and_accepted() {
    let setup = Setup::of([search()]);
    for (given, understood) in [
        (json!({"pattern": "a"}), r#"{"pattern":"a"}"#),
        (json!({"pattern": ""}), r#"{"pattern":""}"#),
        (json!({"pattern": 12}), r#"{"pattern":"12"}"#),
        (json!({"pattern": "a", "limit": "7"}), r#"{"pattern":"a","limit":7}"#),
        (json!({"pattern": "a", "limit": 7.0}), r#"{"pattern":"a","limit":7}"#),
        (json!({"pattern": "a", "limit": null}), r#"{"pattern":"a"}"#),
        (json!({"pattern": "a", "ignore_case": null, "places": null}), r#"{"pattern":"a"}"#),
        (json!({"pattern": "a", "ignore_case": "true"}), r#"{"pattern":"a","ignore_case":true}"#),
        (json!({"pattern": "a", "places": "[\"b\"]"}), r#"{"pattern":"a","places":["b"]}"#),
        (json!("{\"pattern\": \"a\"}"), r#"{"pattern":"a"}"#),
        (json!({"pattern": "a\u{0}b"}), r#"{"pattern":"a\u0000b"}"#),
    ] {
        check(&setup, "search", given, Outcome::Ok, understood).await;
    }
}

#[tokio::test]
async fn wrong_arguments_are_refused_with_the_right_form() {
    let setup = Setup::of([search()]);
    for (given, text) in [
        (json!({}), "`pattern` is missing\npattern: Pattern to look for."),
        (json!(null), "`pattern` is missing\npattern: Pattern to look for."),
        (json!({"pattern": null}), "pattern is null; it must be a string"),
        (json!({"pattern": ["a"]}), "pattern is a list of 1; it must be a string"),
        (
            json!({"patern": "a"}),
            "unknown parameter `patern`; `pattern` is missing\ndid you mean `pattern`?",
        ),
        (
            json!({"pattern": "a", "zzz": 1}),
            "unknown parameter `zzz`\nit takes: pattern, limit, ignore_case, places",
        ),
        (json!({"pattern": "a", "limit": 0}), "limit is 0; it must be between 1 and 100"),
        (json!({"pattern": "a", "limit": "101"}), "limit is 101; it must be between 1 and 100"),
        (json!({"pattern": "a", "limit": -1}), "limit is -1; it must be between 1 and 100"),
        (json!({"pattern": "a", "limit": 1.5}), "limit is 1.5; it must be an integer"),
        (json!({"pattern": "a", "limit": "1e"}), "limit is \"1e\"; it must be an integer"),
        (json!({"pattern": "a", "limit": ""}), "limit is \"\"; it must be an integer"),
        (json!({"pattern": "a", "ignore_case": 1}), "ignore_case is 1; it must be a boolean"),
        (
            json!({"pattern": "a", "places": [["b"]]}),
            "places[0] is a list of 1; it must be a string",
        ),
        (json!([1, 2]), "the arguments are a list of 2\nsend them as one JSON object"),
        (json!(7), "the arguments are 7\nsend them as one JSON object"),
        (json!("[]"), "the arguments are a text\nsend them as one JSON object"),
        (
            json!("{\"pattern\":"),
            "the arguments are a text that is not JSON: EOF while parsing a value at line 1 column 11\nsend them as one JSON object",
        ),
    ] {
        check(&setup, "search", given, Outcome::Fault, text).await;
    }
}

#[tokio::test]
async fn tool_without_parameters_refuses_any() {
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let setup = Setup::of([echo("noop").with_schema(none)]);
    check(&setup, "noop", Value::Null, Outcome::Ok, "{}").await;
    let refused = "unknown parameter `x`\nthis tool takes no parameters";
    check(&setup, "noop", json!({"x": 1}), Outcome::Fault, refused).await;
}

/// Makes `{"x": [[[…1…]]]}` without recursion.
fn nested(depth: usize) -> Value {
    let inner = (0..depth).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    Value::Object([("x".to_owned(), inner)].into_iter().collect())
}

#[tokio::test]
async fn deep_arguments_are_refused_and_not_recorded() {
    let mut setup = Setup::of([echo("echo")]);
    assert_eq!(setup.call("echo", nested(100)).await.output.to_text(), nested(100).to_string());
    let text = "the arguments are nested more than 128 deep";
    for depth in [128, 10_000, 200_000] {
        // Only a program can pass such a value: as JSON text it is refused when it is parsed.
        let result = setup.call("echo", nested(depth)).await;
        assert_eq!((result.code, result.output.to_text().as_str()), (Some("invalid_args"), text));
    }
    assert!(setup.journal.records().iter().all(|record| record.body.len() < 1_000));
    assert_eq!(setup.told().await.len(), 5, "one beginning and four ends");
}

#[tokio::test]
async fn huge_arguments_are_refused_and_not_recorded() {
    let setup = Setup::of([MockTool::named("noop")]);
    for input in [
        json!({"x": "x".repeat(33 << 20)}),
        json!({"x": vec!["x".repeat(1 << 20); 40]}),
        json!({"x".repeat(33 << 20): 1}),
    ] {
        let result = setup.call("noop", input).await;
        assert_eq!(result.code, Some("invalid_args"));
        assert_eq!(result.output.to_text(), "the arguments hold more than 32 MiB of text");
    }
    assert!(setup.journal.records().iter().all(|record| record.body.len() < 1_000));
}
