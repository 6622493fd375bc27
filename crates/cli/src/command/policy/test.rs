//! `windlass policy test`: checks the examples in policy files against the decisions of the engine.

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

/// An example of a policy file: a call and its expected decision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    tool: String,
    #[serde(default)]
    input: toml::Table,
    expect: Decision,
    /// The expected rule: as `policy explain` names it, or its beginning up to a colon (`hard deny`).
    rule: Option<String>,
}

/// The decision about an example, and whether it is the expected one.
struct ExampleResult {
    got: String,
    rule: String,
    passed: bool,
}

/// Checks the examples of all files and prints failures and counts. Exit code 1 if one failed.
pub(super) fn run(global: &Global, files: &[PathBuf]) -> Result<ExitCode> {
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for file in files {
        for (number, example, result) in check_file(global, file)? {
            if result.passed {
                passed += 1;
            } else {
                failed += 1;
            }
            print_example(global, file, number, &example, &result)?;
        }
    }
    if global.json {
        terminal::print_json(&json!({"passed": passed, "failed": failed}))?;
    } else {
        terminal::print(&format!("{passed} passed, {failed} failed\n"))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Checks the examples of a file. Only the file and the command line count, so that its examples mean the same on every machine.
fn check_file(global: &Global, file: &Path) -> Result<Vec<(usize, Example, ExampleResult)>> {
    let mut config = Config::of_file(file)?;
    let examples = examples(&config, file)?;
    let hub = setup::hub(global)?;
    hub.add_overrides(&mut config)?;
    block_on(async {
        let windlass = hub.open_with(&global.workspace, config)?;
        let session = windlass.session(setup::session_options(global))?;
        let mut results = Vec::new();
        for (at, example) in examples.into_iter().enumerate() {
            let call = ToolCall::new(example.tool.clone(), input(&example));
            let outcome = match decide(&windlass, &session, call).await {
                Ok(decided) => compare(&example, decided.decision, decided.rule),
                Err(error) => ExampleResult {
                    got: "an error".to_owned(),
                    rule: error.to_string(),
                    passed: false,
                },
            };
            results.push((at + 1, example, outcome));
        }
        Ok(results)
    })?
}

/// Parses the examples of a file; fails if there are none.
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

/// Returns the arguments of an example's call as JSON.
fn input(example: &Example) -> Value {
    serde_json::to_value(&example.input).unwrap_or_default()
}

/// Compares a decision with an example.
fn compare(example: &Example, decision: Decision, rule: String) -> ExampleResult {
    let is_rule = |expected: &String| {
        let rest = rule.strip_prefix(expected.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let passed = decision == example.expect && example.rule.as_ref().is_none_or(is_rule);
    ExampleResult { got: decision_word(decision).to_owned(), rule, passed }
}

/// Returns the decision as files spell it.
fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

/// Prints an example that failed; with `--json`, every example.
fn print_example(
    global: &Global,
    file: &Path,
    number: usize,
    example: &Example,
    result: &ExampleResult,
) -> Result<()> {
    let name = quote::path(file);
    let ExampleResult { got, rule, passed } = result;
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
    let (tool, input) = (&example.tool, log::one_line(&input(example)));
    let expect = decision_word(example.expect);
    terminal::print(&format!(
        "{name}: example {number}, {tool} {input}: expected {expect}{by}, got {got} by `{rule}`\n"
    ))
}
