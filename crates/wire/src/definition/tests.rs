//! Definitions of ordinary and of unusual tools, checked against the rules of each format.

use proptest::prelude::*;

use super::*;
use crate::check_definition;
use windlass_core::{EffectKinds, ToolDetails, testing::MockTool};

fn spec(name: &str, schema: Value) -> ToolSpec {
    let description = format!("What {name} does. ").repeat(60);
    ToolSpec::new(name.to_owned(), description, schema, EffectKinds::READ | EffectKinds::NET)
        .with_about(ToolDetails::titled("A title"))
}

/// Tools with realistic schemas, each with something that at least one provider refuses.
fn specs() -> Vec<ToolSpec> {
    vec![
        spec("nothing", json!({"type": "object", "properties": {}})),
        spec("untyped", json!(true)),
        spec(
            "plain",
            json!({"type": "object", "additionalProperties": false, "required": ["path", "gone"],
            "properties": {
                "path": {"type": "string", "description": "Which.", "format": "uri", "minLength": 1},
                "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100, "default": 5, "format": "uint32"},
                "mode": {"enum": ["a", "b", "", null]},
                "level": {"enum": [1, 2]},
                "kind": {"const": "x"},
                "ratio": {"type": ["number", "null"], "exclusiveMaximum": 1.5},
                "either": {"type": ["string", "integer"], "minLength": 2, "minimum": 1, "description": "Which one."},
                "tags": {"type": "array"},
                "map": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Anything."},
                "any": {},
                "yes": true,
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"const": 5}]},
                "old_pair": {"type": "array", "items": [{"type": "string"}]},
            }}),
        ),
        spec(
            "combined",
            json!({"type": "object", "properties": {
            "target": {"description": "Where.", "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Name"}}, {"type": "null"}]},
            "shape": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
                                {"type": "object", "properties": {"kind": {"const": "dot"}}, "required": ["kind"]}]},
            "all": {"allOf": [{"$ref": "#/$defs/Name"}, {"minLength": 3}]},
            "maybe": {"anyOf": [{"oneOf": [{"$ref": "#/$defs/Name"}]}, {"type": "null"}], "default": null},
            "narrowed": {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
            "not": {"type": "string", "not": {"const": "x"}},
        }, "$defs": {"Name": {"type": "string", "pattern": "^[a-z]+$"}}}),
        ),
        spec(
            "alternatives",
            json!({"oneOf": [
            {"type": "object", "properties": {"action": {"const": "open"}, "path": {"type": "string"}}, "required": ["action", "path"]},
            {"type": "object", "properties": {"action": {"const": "close"}, "path": {"type": "integer"}}, "required": ["action"]}]}),
        ),
        spec(
            "tree",
            json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": {"type": "object", "properties": {"name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}}),
        ),
        spec(
            "names",
            json!({"type": "object", "required": ["type"], "properties": {
            "type": {"type": "string"}, "properties": {"type": "string"}, "required": {"type": "boolean"},
            "$ref": {"type": "string"}, "enum": {"type": "array", "items": {"type": "string"}}}}),
        ),
    ]
}

#[test]
fn definitions_pass_the_check_of_their_format() {
    for spec in specs() {
        for format in Format::ALL {
            let definition = definition(format, &spec);
            check_definition(format, &definition).unwrap_or_else(|broken| {
                panic!("{} {format:?} {broken}\n{definition:#}", spec.name)
            });
        }
    }
}

#[test]
fn the_same_tools_give_the_same_bytes() {
    let specs = specs();
    for format in Format::ALL {
        let once = definitions(format, &specs).to_string();
        assert_eq!(once, definitions(format, &self::specs()).to_string());
    }
}

#[test]
fn lists_have_the_shape_of_their_format() {
    let tool = windlass_core::ToolHandle::from(MockTool::named("deploy"));
    let specs = [tool.spec()];
    let declaration = json!({"name": "deploy", "description": "A tool for tests."});
    let schema = json!({"type": "object", "properties": {}});
    assert_eq!(definitions(Format::Gemini, &specs), json!({"functionDeclarations": [declaration]}));
    assert_eq!(
        definitions(Format::Anthropic, &specs),
        json!([{"name": "deploy", "description": "A tool for tests.", "input_schema": schema}]),
    );
    assert_eq!(
        definitions(Format::OpenAiChat, &specs),
        json!([{"type": "function", "function":
            {"name": "deploy", "description": "A tool for tests.", "parameters": schema}}]),
    );
    assert_eq!(
        definitions(Format::OpenAiResponses, &specs),
        json!([{"type": "function", "name": "deploy", "description": "A tool for tests.",
            "parameters": schema, "strict": false}]),
    );
}

/// Random schemas.
fn any_schema() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("string"),
        Just("integer"),
        Just("object"),
        Just("array"),
        Just("null"),
        Just("odd")
    ];
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/properties/a"})),
        Just(json!({"enum": ["a", 1, null]})),
        Just(json!({"const": {"a": 1}})),
        name.clone().prop_map(|name| json!({"type": name, "description": "x"})),
        (name.clone(), name).prop_map(|(one, other)| json!({"type": [one, other], "minimum": 1})),
    ];
    leaf.prop_recursive(4, 32, 3, |inner| {
        let keyword = prop::sample::select(vec!["anyOf", "oneOf", "allOf", "items", "prefixItems"]);
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (keyword, list).prop_map(|(keyword, list)| json!({keyword: list})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| {
                json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a", "c"]})
            }),
            (inner.clone(), inner)
                .prop_map(|(a, b)| json!({"anyOf": [a], "items": b, "nullable": true})),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_is_reduced_to_an_accepted_one(schema in any_schema()) {
        let spec = spec("odd", schema);
        for format in Format::ALL {
            let definition = definition(format, &spec);
            prop_assert_eq!(check_definition(format, &definition), Ok(()), "{:?} {:#}", format, definition);
        }
    }
}
