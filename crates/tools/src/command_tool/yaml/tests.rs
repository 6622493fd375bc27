//! Tests of the YAML that is parsed and that is refused, with positions, and properties for all texts.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::parse;

fn check(block: &str, expected: &Value) {
    match parse(block) {
        Ok(node) => assert_eq!(node.to_json(), *expected, "{block}"),
        Err(error) => panic!("{error}\n{block}"),
    }
}

/// Checks the position and text of an error. The block begins on line 2 of the file.
fn refused(block: &str, line: usize, column: usize, why: &str) {
    let error = parse(block).map(|node| node.to_json().to_string()).expect_err(block);
    assert!(error.message.contains(why), "{error}\n{block}");
    assert_eq!((error.line, error.column), (line, column), "{error}\n{block}");
}

#[test]
fn single_values_are_parsed() {
    for (written, expected) in [
        ("", json!(null)),
        ("~", json!(null)),
        ("null", json!(null)),
        ("true", json!(true)),
        ("False", json!(false)),
        ("12", json!(12)),
        ("-1.5e3", json!(-1500.0)),
        ("hello there", json!("hello there")),
        ("a: b".replace(": ", ":").as_str(), json!("a:b")),
        ("http://example.org/#top", json!("http://example.org/#top")),
        ("one # two", json!("one")),
        ("one#two", json!("one#two")),
        ("# nothing", json!(null)),
        ("-x", json!("-x")),
        ("1.2.3", json!("1.2.3")),
        ("2026-01-31", json!("2026-01-31")),
        ("3 apples", json!("3 apples")),
        ("a, b] }", json!("a, b] }")),
        ("'it''s'", json!("it's")),
        (r#"'a "b" \n'"#, json!(r#"a "b" \n"#)),
        (r#""a\tb\n\"c\" \\ \x41é 😀 \U0001F600\/""#, json!("a\tb\n\"c\" \\ Aé 😀 😀/")),
        ("\"x\" # y", json!("x")),
        ("'#'", json!("#")),
        ("grüße", json!("grüße")),
    ] {
        check(&format!("k: {written}\n"), &json!({"k": expected}));
        check(&format!("l:\n- x\n- {written}"), &json!({"l": ["x", expected]}));
    }
}

#[test]
fn maps_and_lists_are_parsed() {
    for (block, expected) in [
        ("", json!({})),
        ("\n# nothing\n\n", json!({})),
        ("a: 1\nb: 2\n", json!({"a": 1, "b": 2})),
        ("a:\n  b:\n    c: 1\n  d: 2\ne: 3", json!({"a": {"b": {"c": 1}, "d": 2}, "e": 3})),
        ("a:\n - 1\n - 2\nb: 3", json!({"a": [1, 2], "b": 3})),
        ("a:\n- 1\n-\n- 2\nb: 3", json!({"a": [1, null, 2], "b": 3})),
        ("a:\n- x: 1\n  y: 2\n- z: 3", json!({"a": [{"x": 1, "y": 2}, {"z": 3}]})),
        ("a:\n- - 1\n  - 2\n- - 3", json!({"a": [[1, 2], [3]]})),
        ("a:\n-\n  x: 1\n-   y: 2\n    z: 3", json!({"a": [{"x": 1}, {"y": 2, "z": 3}]})),
        ("a:\n- x:\n  - 1\n  y: 2", json!({"a": [{"x": [1], "y": 2}]})),
        ("a:\n\n  # note\n  b: 1 # one\n\n# end", json!({"a": {"b": 1}})),
        (
            "\"a b\": 1\n'c: d': 2\ne f: 3\n$id: 4\n-x: 5",
            json!({"a b": 1, "c: d": 2, "e f": 3, "$id": 4, "-x": 5}),
        ),
        ("a:\nb:\n", json!({"a": null, "b": null})),
        ("a :  1", json!({"a": 1})),
    ] {
        check(block, &expected);
    }
}

#[test]
fn values_in_brackets_are_parsed() {
    for (written, expected) in [
        ("[]", json!([])),
        ("{}", json!({})),
        ("[read, net]", json!(["read", "net"])),
        ("[ read , 'a, b', \"c]\", 1, true, ]", json!(["read", "a, b", "c]", 1, true])),
        ("{a: 1, b: [x, {c: d}], \"e\":2}", json!({"a": 1, "b": ["x", {"c": "d"}], "e": 2})),
        (
            r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            "{\n  \"a\": 1, # one\n\n  # two\n  \"b\": [\n    2,\n    3\n  ]\n}",
            json!({"a": 1, "b": [2, 3]}),
        ),
        ("[a:b, http://x/y]", json!(["a:b", "http://x/y"])),
    ] {
        check(&format!("k: {written}"), &json!({"k": expected}));
        check(&format!("k: {written} # end\nl: 1"), &json!({"k": expected, "l": 1}));
        check(&format!("k:\n- {written}"), &json!({"k": [expected]}));
    }
}

#[test]
fn block_texts_are_parsed() {
    for (block, expected) in [
        ("k: |\n  one\n  two\n", "one\ntwo\n"),
        ("k: |-\n  one\n  two\n\n", "one\ntwo"),
        ("k: |+\n  one\n\n\nl: 1", "one\n\n\n"),
        ("k: | # note\n  one\n    two\n\n  # three\nl: 1", "one\n  two\n\n# three\n"),
        ("k: |\n\n  one\n", "\none\n"),
        ("k: |\n      one\n      \ttwo\n", "one\n\ttwo\n"),
        ("k: |\n  a: b\n  - c\n  \"\n", "a: b\n- c\n\"\n"),
        ("k: |\nl: 1", ""),
        ("k: >\n  one\n  two\n\n  three\n", "one two\nthree\n"),
        ("k: >-\n  one\n\n\n  two\n    three\n  four\n", "one\n\ntwo\n  three\nfour"),
        ("k: >+\n  one\n\n", "one\n\n"),
    ] {
        let node = parse(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        assert_eq!(node.to_json()["k"], *expected, "{block}");
    }
    check("k:\n- |\n  one\n- two", &json!({"k": ["one\n", "two"]}));
    check(
        "k:\n  - a: >-\n      one\n      two\n    b: 1",
        &json!({"k": [{"a": "one two", "b": 1}]}),
    );
}

#[test]
fn unsupported_yaml_is_refused_with_its_position() {
    for (block, line, column, why) in [
        ("  a: 1", 2, 3, "indented"),
        ("a: 1\n  b: 2", 3, 3, "belongs to nothing"),
        ("a:\n    b: 1\n  c: 2", 4, 3, "belongs to nothing"),
        ("a:\n\tb: 1", 3, 1, "tab"),
        ("a: 1\na: 2", 3, 1, "there already, on line 2"),
        ("a: {b: 1, b: 2}", 2, 11, "there already"),
        ("a\n", 2, 1, "not `key: value`"),
        ("a:1", 2, 1, "followed by a space"),
        ("a = 1", 2, 1, "TOML"),
        ("- a", 2, 1, "where a key is expected"),
        ("a: 1\n- b", 3, 1, "where a key is expected"),
        ("a:\n  b\n", 3, 3, "on a line of its own"),
        ("a: - b", 2, 4, "on the line below"),
        ("a: b: c", 2, 5, "in quotes"),
        ("a: b\n  c", 3, 3, "belongs to nothing"),
        ("a: \"b", 2, 4, "no quote ends"),
        ("a: 'b", 2, 4, "no quote ends"),
        ("a: \"b\" c", 2, 8, "behind this value"),
        ("a: \"b\"#c", 2, 7, "behind this value"),
        (r#"a: "x\q""#, 2, 6, "written like this"),
        (r#"a: "\ud83d""#, 2, 5, "written like this"),
        (r#"a: "é\xZZ""#, 2, 6, "written like this"),
        ("a: &x 1", 2, 4, "anchors"),
        ("a: *x", 2, 4, "aliases"),
        ("a: !!str 1", 2, 4, "tags"),
        ("a: `x`", 2, 4, "backtick"),
        ("a: 1\n--- b: 1", 3, 1, "not known"),
        ("... a: 1", 2, 1, "not known"),
        ("a: [?b]", 2, 5, "in quotes"),
        ("a: [:b]", 2, 5, "in quotes"),
        ("<<: x", 2, 1, "not known"),
        ("? a", 2, 1, "not known"),
        ("a: yes", 2, 4, "a truth to some"),
        ("a: [x, No]", 2, 8, "a truth to some"),
        ("a: 0755", 2, 4, "a number to some"),
        ("a: 0x1f", 2, 4, "a number to some"),
        ("a: +1", 2, 4, "a number to some"),
        ("a: .5", 2, 4, "a number to some"),
        ("a: 1_000", 2, 4, "a number to some"),
        ("a: 12:30", 2, 4, "a number to some"),
        ("a: .inf", 2, 4, "a number to some"),
        ("a: [b", 2, 4, "no bracket closes"),
        ("a: [b\nc: 1", 3, 1, "`,` or `]`"),
        ("a: [b c: d]", 2, 8, "`,` or `]`"),
        ("a: [,]", 2, 5, "a value is missing"),
        ("a: {b}", 2, 6, "a colon is expected"),
        ("a: {b:c}", 2, 8, "a colon is expected"),
        ("a: {b: }", 2, 8, "a value is missing"),
        ("a: [b] c", 2, 8, "behind this value"),
        ("a: [b:]", 2, 5, "in quotes"),
        ("a: | b", 2, 4, "the line ends"),
        ("a: |2\n  b", 2, 4, "the line ends"),
        ("a: |\n    b\n  c", 4, 3, "indented less"),
        ("a: |\n      \n  b", 4, 3, "indented less"),
        ("ä: ö: ü", 2, 5, "in quotes"),
    ] {
        refused(block, line, column, why);
    }
    let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
    refused(&deep, 2, 36, "nested more than 32 deep");
    let deep =
        (0..40).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<Vec<_>>().concat();
    refused(&deep, 35, 34, "nested more than 32 deep");
}

/// Generates a JSON value of any size.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| Value::from(number)),
        "[ -~\u{e9}\u{1f600}]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[ -~]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Writes a value as indented YAML; single values and empty lists and maps are JSON.
fn indented_yaml(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let lines: Vec<String> = match value {
        Value::Object(map) if !map.is_empty() => {
            let line = |(key, value): (&String, &Value)| {
                format!("\n{pad}{}:{}", Value::from(key.as_str()), indented_yaml(value, indent + 2))
            };
            map.iter().map(line).collect()
        }
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .map(|item| format!("\n{pad}-{}", indented_yaml(item, indent + 1)))
            .collect(),
        single => vec![format!(" {single}")],
    };
    lines.concat()
}

proptest! {
    #[test]
    fn json_is_parsed_unchanged(value in value()) {
        let compact = parse(&format!("k: {value}")).unwrap();
        prop_assert_eq!(&compact.to_json()["k"], &value);
        let pretty = parse(&format!("k: {value:#}\nl: 1")).unwrap();
        prop_assert_eq!(&pretty.to_json()["k"], &value);
    }

    #[test]
    fn indented_yaml_is_parsed(value in value()) {
        let text = format!("k:{}", indented_yaml(&value, 1));
        let read = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(&read.to_json()["k"], &value, "{}", text);
    }

    #[test]
    fn lines_of_block_texts_are_kept(lines in prop::collection::vec("[!-~]?[ -~]{0,10}", 1..6)) {
        let text = lines.join("\n");
        prop_assume!(text.trim_end_matches('\n') == text && lines.iter().any(|line| !line.trim().is_empty()));
        prop_assume!(!lines.iter().find(|line| !line.is_empty()).unwrap().starts_with(' '));
        let block = format!("\n{text}").replace('\n', "\n  ");
        let read = parse(&format!("k: |-{block}")).unwrap();
        prop_assert_eq!(&read.to_json()["k"], &text);
    }

    #[test]
    fn no_block_makes_the_parser_panic(block in "([a-z\"'#|>:\\-\\[\\]{},&*!?%\\\\ \t\r\n]|\\PC|\\\\u[0-9a-f]{4}|: |- |\n  ){0,60}") {
        drop(parse(&block));
    }
}
