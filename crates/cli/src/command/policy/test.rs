//! `windlass policy test`: runs the examples that a policy file carries through the engine that would decide.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::policy::Decision;
use windlass::{ToolCall, quote};
use windlass_hub::Config;

use super::decide;
use crate::command::{block_on, log};
use crate::options::Global;
use crate::setup;
use crate::terminal;

/// A call, and what a file says would be decided about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    tool: String,
    #[serde(default)]
    input: toml::Table,
    expect: Decision,
    /// What must decide: as `policy explain` names it, or its beginning up to a colon (`hard deny`).
    rule: Option<String>,
}

/// What was decided about an example.
struct Tried {
    got: String,
    rule: String,
    passed: bool,
}

pub(super) fn run(global: &Global, files: &[PathBuf]) -> Result<ExitCode> {
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for file in files {
        for (number, example, tried) in try_file(global, file)? {
            if tried.passed {
                passed += 1;
            } else {
                failed += 1;
            }
            tell(global, file, number, &example, &tried)?;
        }
    }
    if global.json {
        terminal::print_json(&json!({"passed": passed, "failed": failed}))?;
    } else {
        terminal::print(&format!("{passed} passed, {failed} failed\n"))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// The examples of a file with what was decided. The file stands alone, so that its examples mean the same on every machine.
fn try_file(global: &Global, file: &Path) -> Result<Vec<(usize, Example, Tried)>> {
    let mut config = Config::of_file(file)?;
    let examples = examples(&config, file)?;
    let hub = setup::hub(global)?;
    hub.add_overrides(&mut config)?;
    block_on(async {
        let windlass = hub.open_with(&global.workspace, config)?;
        let session = windlass.session(setup::session_options(global))?;
        let mut tried = Vec::new();
        for (at, example) in examples.into_iter().enumerate() {
            let call = ToolCall::new(example.tool.clone(), input(&example));
            let outcome = match decide(&windlass, &session, call).await {
                Ok(decided) => judged(&example, decided.decision, decided.rule),
                Err(error) => {
                    Tried { got: "an error".to_owned(), rule: error.to_string(), passed: false }
                }
            };
            tried.push((at + 1, example, outcome));
        }
        Ok(tried)
    })?
}

fn examples(config: &Config, file: &Path) -> Result<Vec<Example>> {
    let name = file.display();
    if config.examples().is_empty() {
        bail!(
            "{name} has no examples; write some, such as\n\n[[example]]\ntool = \"bash\"\n\
             input = {{ command = \"git status\" }}\nexpect = \"allow\"\n"
        );
    }
    let example = |(at, value): (usize, &toml::Value)| {
        let parsed: Result<Example, _> = value.clone().try_into();
        parsed.with_context(|| {
            format!(
                "example {} of {name} is not one: it has `tool`, `input`, `expect` and `rule`",
                at + 1
            )
        })
    };
    config.examples().iter().enumerate().map(example).collect()
}

fn input(example: &Example) -> Value {
    serde_json::to_value(&example.input).unwrap_or_default()
}

fn judged(example: &Example, decision: Decision, rule: String) -> Tried {
    let is_rule = |expected: &String| {
        let rest = rule.strip_prefix(expected.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let passed = decision == example.expect && example.rule.as_ref().is_none_or(is_rule);
    Tried { got: word(decision).to_owned(), rule, passed }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn tell(
    global: &Global,
    file: &Path,
    number: usize,
    example: &Example,
    tried: &Tried,
) -> Result<()> {
    let name = quote::path(file);
    let Tried { got, rule, passed } = tried;
    if global.json {
        return terminal::print_json(&json!({
            "file": name, "example": number, "tool": example.tool, "input": input(example),
            "expect": example.expect, "expect_rule": example.rule, "got": got, "rule": rule, "passed": passed,
        }));
    }
    if *passed {
        return Ok(());
    }
    let by = example.rule.as_ref().map(|rule| format!(" by `{rule}`")).unwrap_or_default();
    let (tool, input) = (&example.tool, log::short(&input(example)));
    let expect = word(example.expect);
    terminal::print(&format!(
        "{name}: example {number}, {tool} {input}: expected {expect}{by}, got {got} by `{rule}`\n"
    ))
}
