use serde_json::Value;

use crate::support::Home;

const FORMATS: [&str; 7] = ["text", "json", "anthropic", "openai", "gemini", "mcp", "markdown"];

#[test]
fn list_has_the_same_bytes_in_every_run() {
    let home = Home::new();
    for format in FORMATS {
        let list = || home.run(&["tools", "--format", format]);
        let first = list();
        assert_eq!(first.code, 0, "{first:?}");
        assert_eq!(first.stdout, list().stdout, "{format}");
    }
}

#[test]
fn the_list_is_short() {
    let ran = Home::new().run(&["tools", "--json"]);
    assert!(ran.stdout.len() < 10_000, "{} bytes", ran.stdout.len());
}

#[test]
fn options_select_the_listed_tools() {
    let home = Home::new();
    let names = |options: &[&str]| -> Vec<String> {
        let mut arguments = vec!["tools", "--json"];
        arguments.extend(options);
        let tools = home.run(&arguments).lines().remove(0);
        tools
            .as_array()
            .expect("a list")
            .iter()
            .map(|tool| tool["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&["--tools", "grep,read"]), ["read", "grep"]);
    assert_eq!(names(&["--tools", ""]), [""; 0]);
    assert!(!names(&["--without", "grep"]).contains(&"grep".to_owned()));
    assert_eq!(names(&["--role", "explorer"]), ["read", "list", "glob", "grep"]);
}

#[test]
fn each_format_obeys_its_providers_rules() {
    let home = Home::new();
    let json = |format: &str| home.run(&["tools", "--format", format]).lines().remove(0);
    let list = |value: &Value| value.as_array().expect("a list").clone();
    for tool in list(&json("anthropic")) {
        check_name(&tool["name"]);
        assert_eq!(tool["input_schema"]["type"], "object");
    }
    for tool in list(&json("openai")) {
        assert_eq!(tool["type"], "function");
        check_name(&tool["function"]["name"]);
        assert_eq!(tool["function"]["parameters"]["type"], "object");
    }
    let gemini = json("gemini");
    let declarations = gemini
        .pointer("/functionDeclarations")
        .or_else(|| gemini.pointer("/0/functionDeclarations"));
    for tool in list(declarations.expect("declarations")) {
        check_name(&tool["name"]);
        assert!(!tool.to_string().contains("additionalProperties"));
    }
    let mcp = json("mcp");
    for tool in list(mcp.get("tools").unwrap_or(&mcp)) {
        check_name(&tool["name"]);
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean());
    }
}

fn check_name(name: &Value) {
    let name = name.as_str().expect("a name");
    assert!((1..=64).contains(&name.len()));
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'));
}
