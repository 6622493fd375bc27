//! Tests of the parsed files, their errors and the effects of calls. Runs of command tools are tested in the crate `windlass`.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::testing::{EmptyHost, plan_effects};
use windlass_core::{AnyTool, Backend, Confinement, EffectKinds, NetworkAccess, SandboxLevel};

use super::{Author, CommandDefinition, CommandTool};

const MINIMAL_FRONT_MATTER: &str = "name: greet\ncommand: echo hello\ndescription: Say hello.\n";

fn parse(text: &str) -> CommandDefinition {
    CommandDefinition::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns a YAML file with these lines after the required ones.
fn file_with(lines: &str) -> String {
    format!("---\n{MINIMAL_FRONT_MATTER}{lines}\n---\n")
}

fn tool(lines: &str) -> CommandTool {
    CommandTool::new(parse(&file_with(lines)), Author::Person, &Confinement::default())
}

#[test]
fn yaml_and_toml_give_the_same_definition() {
    let yaml = r#"---
# Front matter.
name: deploy
description: >-
  Bring a version
  to a place.
schema:
  type: object
  properties:
    place: {type: string, enum: [test, live], description: Where to.}
    dry: {type: boolean, default: false}
  required: [place]
env:
  LANG: C
  VERSION: 1.10
command: |
  set -eu
  ./deploy "$ARG_PLACE"
timeout: 2.5
effects:
- write
- net
---
For people.
"#;
    let toml = r#"+++
# Front matter.
name = "deploy"
description = "Bring a version to a place."
timeout = 2.5
effects = ["write", "net"]
command = """
set -eu
./deploy "$ARG_PLACE"
"""

[env]
LANG = "C"
VERSION = 1.10

[schema]
type = "object"
required = ["place"]
[schema.properties]
place = {type = "string", enum = ["test", "live"], description = "Where to."}
dry = {type = "boolean", default = false}
+++
For people.
"#;
    for file in [yaml, toml] {
        for file in [file.to_owned(), file.replace('\n', "\r\n"), format!("\u{feff}{file}")] {
            let definition = parse(&file);
            assert_eq!(definition.name(), "deploy");
            assert_eq!(definition.description(), "Bring a version to a place.");
            assert_eq!(definition.command(), "set -eu\n./deploy \"$ARG_PLACE\"");
            assert_eq!(definition.timeout(), Duration::from_millis(2_500));
            assert_eq!(definition.effects(), Some(EffectKinds::WRITE | EffectKinds::NET));
            let env = [("LANG".into(), "C".into()), ("VERSION".into(), "1.10".into())];
            assert_eq!(definition.env, env);
            assert_eq!(
                definition.schema,
                json!({
                    "type": "object",
                    "properties": {
                        "place": {"type": "string", "enum": ["test", "live"], "description": "Where to."},
                        "dry": {"type": "boolean", "default": false},
                    },
                    "required": ["place"],
                    "additionalProperties": false,
                })
            );
        }
    }
}

#[test]
fn examples_of_the_manual_are_valid() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-tools.md"));
    let fence = "````";
    let examples: Vec<&str> =
        manual.split(fence).filter_map(|part| part.strip_prefix("markdown\n")).collect();
    let names = examples.iter().map(|text| parse(text).name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names, ["changelog", "todos"]);
}

#[test]
fn missing_keys_get_defaults() {
    let definition =
        parse("---\nname: today\ncommand: date\n---\n\nWhich day it is.\n\nIn two parts.\n\n");
    assert_eq!(definition.description(), "Which day it is.\n\nIn two parts.");
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(definition.schema, nothing);
    assert_eq!(definition.timeout(), Duration::from_mins(2));
    assert_eq!((definition.effects(), definition.env.len()), (None, 0));
    let open = parse(&file_with("schema: {additionalProperties: true}"));
    assert_eq!(open.schema["additionalProperties"], json!(true));
    assert_eq!(open.schema["type"], json!("object"));
}

#[test]
fn errors_name_the_problem_and_its_position() {
    let yaml = |line: usize, column, lines: &str, why| (file_with(lines), line + 4, column, why);
    let whole = |text: &str, line, column, why| (text.to_owned(), line, column, why);
    for (text, line, column, why) in [
        whole("", 1, 1, "begins with a line `---`"),
        whole("# A tool\n", 1, 1, "begins with a line `---`"),
        whole("---\nname: a\n", 1, 1, "no second line `---`"),
        whole("+++\nname = 'a'\n---\n", 1, 1, "no second line `+++`"),
        whole("---\n---\n", 1, 1, "`name` is missing"),
        whole("---\nname: a\n---\nText.", 1, 1, "`command` is missing"),
        whole("---\nname: a\ncommand: b\n---\n", 1, 1, "`description` is missing"),
        whole(
            "---\nname: a\ncommand: b\ndescription: ''\n---\n",
            4,
            14,
            "`description` is missing",
        ),
        whole("---\nname: Greet\n---\n", 2, 7, "[a-z][a-z0-9_]*"),
        whole("---\nname: 7\n---\n", 2, 7, "it must be a text"),
        whole("---\nname: bash\n---\n", 2, 7, "a built-in tool"),
        whole("---\nname: read\n---\n", 2, 7, "a built-in tool"),
        whole("---\nname: a\ncommand: ' '\ndescription: c\n---\n", 3, 10, "empty"),
        whole("---\nname: a\ncommand: \"x\\0\"\ndescription: c\n---\n", 3, 10, "NUL"),
        whole("---\nname: a\u{202e}b\n---\n", 2, 8, "cannot be seen (U+202E)"),
        whole("---\nname: a\u{1b}[2Jb\n---\n", 2, 8, "cannot be seen (U+001B)"),
        whole("+++\nname = \"a\"\nname = \"b\"\n+++\n", 3, 1, "duplicate key"),
        whole("+++\nname = \n+++\n", 2, 8, "string values must be quoted"),
        whole("+++\nname = 1979-05-27\n+++\n", 2, 8, "in quotes"),
        whole(
            "+++\nname = \"a\"\ncommand = \"b\"\ndescription = \"c\"\ntimeout = inf\n+++\n",
            5,
            11,
            "not a number",
        ),
        yaml(1, 1, "colour: red", "there is no key `colour`; there are name, "),
        yaml(1, 1, "schemas: {}", "did you mean `schema`?"),
        yaml(1, 1, "parameters: {}", "did you mean `schema`?"),
        yaml(1, 10, "timeout: 0", "more than 0 and at most 3600"),
        yaml(1, 10, "timeout: 3601", "more than 0 and at most 3600"),
        yaml(1, 10, "timeout: long", "more than 0 and at most 3600"),
        yaml(1, 10, "effects: read", "a list of read"),
        yaml(2, 3, "effects:\n- delete", "one of read, write, net, exec"),
        yaml(1, 11, "effects: [write docs/**]", "write `write` alone"),
        yaml(1, 6, "env: []", "a map of names and values"),
        yaml(1, 7, "env: {A-B: 1}", "cannot be the name of a variable"),
        yaml(1, 7, "env: {ARG_X: 1}", "those of the arguments"),
        yaml(1, 10, "env: {A: [1]}", "it must be a text"),
        yaml(1, 9, "schema: []", "a schema is a map"),
        yaml(1, 16, "schema: {type: string}", "must be `object`"),
        yaml(1, 10, "schema: {oneOf: []}", "no place here"),
        yaml(2, 15, "schema:\n  properties: [a]", "it must be a map"),
        yaml(3, 8, "schema:\n  properties:\n    a: string", "a schema is a map"),
        yaml(3, 8, "schema:\n  properties:\n    a: false", "a schema is a map"),
        yaml(4, 7, "schema:\n  properties:\n    a:\n      pattern: x", "`pattern` is not checked"),
        yaml(4, 7, "schema:\n  properties:\n    a:\n      $ref: '#/x'", "write the schema out"),
        yaml(1, 21, "schema: {required: [a]}", "one of `properties`"),
        yaml(1, 33, "schema: {properties: {a: {type: str}}}", "a type is one of"),
        yaml(1, 36, "schema: {properties: {a: {maximum: many}}}", "it must be a number"),
        yaml(1, 9, "schema: {properties: {a-b: {}, a_b: {}}}", "both be the variable ARG_A_B"),
        yaml(2, 1, "timeout: 1\ntimeout: 2", "there already, on line 5"),
    ] {
        let error = CommandDefinition::parse(&text).expect_err(&text);
        assert!(error.message.contains(why), "{error}\n{text}");
        assert_eq!((error.line, error.column), (line, column), "{error}\n{text}");
    }
    let long = format!("---\nname: a\ncommand: b\n---\n{}", "x".repeat(1_025));
    assert!(CommandDefinition::parse(&long).unwrap_err().message.contains("1024 are the most"));
    let large = format!("---\n# {}\n---\n", "x".repeat(70_000));
    assert!(CommandDefinition::parse(&large).unwrap_err().message.contains("larger than 64 KiB"));
}

#[test]
fn required_rights_depend_on_author_and_confinement() {
    let exec = |more: EffectKinds| EffectKinds::EXEC | more;
    let confinement = |level, network| Confinement { level, network, ..Confinement::default() };
    let usual = confinement(SandboxLevel::Workspace, NetworkAccess::None);
    let off = confinement(SandboxLevel::Off, NetworkAccess::None);
    let open = confinement(SandboxLevel::Workspace, NetworkAccess::Full);
    let weaker = Confinement { backend: Backend::Landlock, ..usual.clone() };
    let hosts = confinement(SandboxLevel::ReadOnly, NetworkAccess::Hosts(vec!["docs.rs".into()]));
    for (effects, author, confinement, kinds, access) in [
        ("", Author::Person, &usual, EffectKinds::EXEC, "Staged"),
        ("effects: [exec]", Author::Person, &usual, EffectKinds::EXEC, "Staged"),
        (
            "effects: [read, write]",
            Author::Person,
            &usual,
            exec(EffectKinds::READ | EffectKinds::WRITE),
            "Staged",
        ),
        ("effects: [read]", Author::Person, &usual, EffectKinds::READ, "Read"),
        ("effects: []", Author::Person, &usual, EffectKinds::READ, "Read"),
        ("effects: [read]", Author::Workspace, &usual, exec(EffectKinds::READ), "Read"),
        ("effects: [read]", Author::Person, &off, exec(EffectKinds::READ), "Staged"),
        ("effects: [read]", Author::Person, &weaker, exec(EffectKinds::READ), "Read"),
        ("effects: [read]", Author::Person, &open, exec(EffectKinds::READ), "Read"),
        ("effects: [read]", Author::Person, &hosts, exec(EffectKinds::READ), "Read"),
        ("effects: [net]", Author::Person, &usual, exec(EffectKinds::NET), "Read"),
        ("effects: [read, exec]", Author::Person, &usual, exec(EffectKinds::READ), "Staged"),
    ] {
        let tool = CommandTool::new(parse(&file_with(effects)), author, confinement);
        let case = format!("{effects} {author:?} {confinement}");
        assert_eq!((tool.kinds(), format!("{:?}", tool.access)), (kinds, access.into()), "{case}");
        assert_eq!(tool.spec().kinds, kinds);
        let effects = plan(&tool, json!({})).unwrap();
        let expected = if kinds == EffectKinds::READ { "read /w/**" } else { "exec echo hello" };
        assert_eq!(effects, expected, "{case}");
    }
}

#[test]
fn arguments_become_variables_and_never_a_part_of_the_text() {
    let tool = tool(
        "schema:\n  properties:\n    file-name: {type: string}\n    count: {type: integer, default: 3}\n    deep: {type: object}\n    all: {type: boolean}\nenv: {A: b}",
    );
    for (input, expected) in [
        (json!({}), vec![("A", "b"), ("ARG_COUNT", "3")]),
        (
            json!({"file-name": "'; rm -rf / #\n$(x)", "count": 1.5, "all": true, "deep": {"a": 1}}),
            vec![
                ("A", "b"),
                ("ARG_FILE_NAME", "'; rm -rf / #\n$(x)"),
                ("ARG_COUNT", "1.5"),
                ("ARG_ALL", "true"),
            ],
        ),
        (
            json!({"file-name": null, "other": "x", "count": 1}),
            vec![("A", "b"), ("ARG_COUNT", "1")],
        ),
    ] {
        assert_eq!(variables(&tool, input).unwrap(), expected);
    }
    assert_eq!(plan(&tool, json!({"file-name": "x"})).unwrap(), "exec echo hello");
}

/// Returns the effects of a call, or the reason why it is refused.
fn plan(tool: &CommandTool, input: Value) -> Result<String, String> {
    let effects = plan_effects(&EmptyHost::default(), tool, input);
    effects.map(|effects| effects.to_string()).map_err(|error| error.to_string())
}

fn variables(tool: &CommandTool, input: Value) -> Result<Vec<(&str, &str)>, String> {
    let definition = &tool.definition;
    let Value::Object(mut arguments) = input else { panic!("no object") };
    super::add_defaults(&definition.schema, &mut arguments);
    let given =
        super::variables::for_arguments(&definition.variables, &arguments, definition.command());
    let given = given.map_err(|error| error.to_string())?;
    let all = definition.env.iter().cloned().chain(given);
    // Leaked, so that they can be compared with string literals.
    Ok(all.map(|(name, value)| (&*name.leak(), &*value.leak())).collect())
}

#[test]
fn an_argument_that_cannot_be_a_variable_is_refused_if_named() {
    let file = |command: &str| {
        format!(
            "---\nname: a\ndescription: b\ncommand: {command}\nschema: {{properties: {{x: {{}}, y: {{}}}}}}\n---\n"
        )
    };
    let large = "x".repeat(65 << 10);
    for (command, input, refusal) in [
        ("cat", json!({"x": large}), None),
        ("echo $ARG_Y", json!({"x": large}), None),
        ("echo $ARG_X", json!({"x": large}), Some("`x` is too long")),
        ("echo $ARG_X", json!({"x": "a\0b"}), Some("`x` has a NUL character")),
        ("cat", json!({"x": "a\0b"}), None),
    ] {
        let definition = parse(&file(command));
        let tool = CommandTool::new(definition, Author::Person, &Confinement::default());
        let error = plan(&tool, input).err();
        assert_eq!(error.is_some(), refusal.is_some(), "{command}: {error:?}");
        assert!(error.unwrap_or_default().starts_with(refusal.unwrap_or_default()));
    }
    let many = (0..20).map(|n| format!("p{n}: {{}}, ")).collect::<Vec<_>>().concat();
    let file = format!(
        "---\nname: a\ndescription: b\ncommand: c $ARG_P19\nschema: {{properties: {{{many}}}}}\n---\n"
    );
    let tool = CommandTool::new(parse(&file), Author::Person, &Confinement::default());
    let input: serde_json::Map<_, _> =
        (0..20).map(|n| (format!("p{n}"), Value::from("x".repeat(60_000)))).collect();
    let error = plan(&tool, input.into()).err();
    assert!(error.is_some_and(|error| error.starts_with("`p19` is too long")));
}

proptest! {
    #[test]
    fn no_file_makes_the_parser_panic(
        fence in "---|\\+\\+\\+",
        lines in prop::collection::vec(
            "(name|command|schema|env|timeout|effects|description)(: |:| = |=)(\\PC{0,12}|[0-9.e-]{1,8}|[\\[\\]{}\"',:a ]{0,12})|[ \\-a:]{0,8}|\\PC{0,20}",
            0..10,
        ),
        body in "\\PC{0,20}",
    ) {
        drop(CommandDefinition::parse(&format!("{fence}\n{}\n{fence}\n{body}", lines.join("\n"))));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(---|\\+\\+\\+|\n|.){0,40}") {
        drop(CommandDefinition::parse(&text));
    }

    /// YAML and TOML with the same content give the same definition.
    #[test]
    fn yaml_and_toml_agree(
        description in "[ -~]{1,30}[!-~]",
        timeout in 1u32..3_600,
        env in prop::collection::btree_map("[A-Z]{1,6}", "[ -~]{0,12}", 0..4),
    ) {
        prop_assume!(!description.trim().is_empty());
        let text = |text: &str| Value::from(text).to_string();
        let yaml = env.iter().map(|(name, value)| format!("\n  {name}: {}", text(value))).collect::<Vec<_>>().concat();
        let toml = env.iter().map(|(name, value)| format!("\n{name} = {}", text(value))).collect::<Vec<_>>().concat();
        let description = text(&description);
        let empty = if env.is_empty() { " {}" } else { "" };
        let yaml = parse(&format!("---\nname: a\ncommand: b\ndescription: {description}\ntimeout: {timeout}\nenv:{empty}{yaml}\n---\n"));
        let toml = parse(&format!("+++\nname = 'a'\ncommand = 'b'\ndescription = {description}\ntimeout = {timeout}\n[env]{toml}\n+++\n"));
        prop_assert_eq!(format!("{yaml:?}"), format!("{toml:?}"));
    }
}
