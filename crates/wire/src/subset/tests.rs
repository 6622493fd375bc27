//! The translation of each keyword for each provider.

use super::*;

/// Checks the translation of one parameter.
fn check(rules: SchemaKeywords, parameter: &Value, wanted: &Value) {
    let schema = json!({"type": "object", "properties": {"p": parameter}});
    assert_eq!(&subset(&schema, rules)["properties"]["p"], wanted, "{parameter}");
}

#[test]
fn anthropic_takes_all_but_references() {
    for parameter in [
        json!({"type": ["string", "null"], "format": "uri", "default": null}),
        json!({"oneOf": [{"const": 1}, {"not": {"type": "string"}}]}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "additionalProperties": false, "properties": {"a": {}}}),
        json!({"allOf": [{"minimum": 1}], "if": {}, "then": {}}),
    ] {
        check(SchemaKeywords::ANTHROPIC, &parameter, &parameter);
    }
}

#[test]
fn openai_takes_choices_but_no_other_combination() {
    for (given, wanted) in [
        (
            json!({"oneOf": [{"const": 1}, {"type": "string"}]}),
            json!({"anyOf": [{"const": 1}, {"type": "string"}]}),
        ),
        (
            json!({"allOf": [{"minimum": 1}, {"maximum": 5, "minimum": 3}], "type": "integer"}),
            json!({"type": "integer", "minimum": 1, "maximum": 5}),
        ),
        (
            json!({"allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"allOf": [{"properties": {"b": {}}, "required": ["b", "a"]}]},
            ]}),
            json!({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]}),
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (
            json!({"type": "array", "items": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}),
        ),
        (json!({"not": {"const": 1}}), json!({})),
        (json!(true), json!({})),
    ] {
        check(SchemaKeywords::OPENAI, &given, &wanted);
    }
}

#[test]
fn gemini_takes_openapi() {
    for (given, wanted) in [
        (json!({"const": "x"}), json!({"type": "string", "enum": ["x"]})),
        (
            json!({"enum": [1, 2], "description": "How."}),
            json!({"type": "integer", "description": "How. (one of: 1, 2)"}),
        ),
        (json!({"enum": ["a", null]}), json!({"type": "string", "enum": ["a"], "nullable": true})),
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}),
            json!({"type": "integer", "minimum": 1, "maximum": 8}),
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0.5}),
            json!({"type": "number", "minimum": 0.5}),
        ),
        (
            json!({"type": ["string", "integer", "null"], "minimum": 1, "description": "x"}),
            json!({"anyOf": [
                {"type": "string", "description": "x", "nullable": true},
                {"type": "integer", "minimum": 1},
            ]}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "x"}),
            json!({"type": "string", "description": "x", "nullable": true}),
        ),
        (json!({"anyOf": [{"oneOf": [{"const": "a"}]}]}), json!({"type": "string", "enum": ["a"]})),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "x"}),
            json!({"type": "string", "description": "x (a JSON object, as text)"}),
        ),
        (json!({}), json!({"type": "string", "description": "any JSON, as text"})),
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (
            json!({"type": "array", "items": {"type": "integer", "format": "uint8"}, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "integer"}}),
        ),
        (
            json!({"type": "string", "format": "date-time", "default": null, "title": "T"}),
            json!({"type": "string", "format": "date-time"}),
        ),
        (
            json!({"type": "integer", "default": 5, "description": "How many."}),
            json!({"type": "integer", "description": "How many. (default 5)"}),
        ),
        (json!({"type": "null"}), json!({"type": "string", "nullable": true})),
    ] {
        check(SchemaKeywords::GEMINI, &given, &wanted);
    }
}

#[test]
fn alternatives_at_the_root_become_one_object() {
    let schema = json!({
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "oneOf": [
            {"properties": {"action": {"const": "open"}, "path": {"type": "string"}}, "required": ["action", "path"]},
            {"properties": {"action": {"const": "close"}, "path": {"type": "integer"}}, "required": ["action"]},
        ],
    });
    assert_eq!(
        subset(&schema, SchemaKeywords::ANTHROPIC),
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "action": {"enum": ["open", "close"]},
                "path": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "required": ["name", "action"],
        }),
    );
}

#[test]
fn no_parameters_are_still_an_object() {
    for schema in [json!({}), json!(true), json!({"type": "object"}), json!({"enum": [1]})] {
        for rules in [SchemaKeywords::ANTHROPIC, SchemaKeywords::OPENAI, SchemaKeywords::GEMINI] {
            assert_eq!(subset(&schema, rules), json!({"type": "object", "properties": {}}));
        }
    }
}
