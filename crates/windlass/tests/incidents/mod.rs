//! Re-enacts public incidents of similar systems: one test or more for each, by its number in our list of guarantees, if the library can
//! show the root cause. Tests that need the binary are in `crates/cli/tests/incidents/`.
//!
//! Each test re-enacts the cause, not the product. If it is cheap, the test also shows that the attack works without protection, so that
//! a test which proves nothing fails.
//!
//! | incident | part that is not re-enacted, and the reason |
//! |---|---|
//! | I-45 | the endpoint without authentication: there is no HTTP server. The socket that we do have is in `cli` |
//! | I-46 | `Host` and `Origin`: there is no HTTP server. That nothing listens is in `cli` |
//! | I-47 | the shell endpoint with open CORS: the same |
//! | I-48 | WebSockets and tokens: the same. That a client cannot declare its own rights is in `cli` |
//! | I-50 | redirects of `web_fetch`: there is no such tool. Names by whole labels are here |
//! | I-53 | the web page that loads images: there is none. That we fetch nothing ourselves is here |
//! | I-55 | the address that an MCP server sends: there is no MCP client. Arguments of command tools are here |
//! | I-57 | MCP servers by `npx -y`: there is no MCP client. Command tools as they were trusted are here and in `cli` |

mod commands;
mod files;
mod outsider;
mod peers;
mod reliability;
mod trust;

use serde_json::{Value, json};
use windlass::policy::Decision;
use windlass::process::{Confinement, ProcessSettings, SandboxLevel};
use windlass::{Builder, Mode, ToolCall};

use crate::support::TestWorkspace;

/// Creates a workspace with these allow rules in the mode `ask`, without an attendant.
fn workspace_in_mode_ask(files: &[(&str, &str)], rules: &[&str]) -> TestWorkspace {
    workspace_in_mode(Mode::Ask, files, rules)
}

/// Creates a workspace with these allow rules in another mode, without an attendant.
fn workspace_in_mode(mode: Mode, files: &[(&str, &str)], rules: &[&str]) -> TestWorkspace {
    TestWorkspace::with_builder(files, |builder| with_rules(builder, mode, rules))
}

/// The same with a workspace that is not below `/tmp`, so that files beside it are outside of it.
fn workspace_outside_tmp(mode: Mode, files: &[(&str, &str)], rules: &[&str]) -> TestWorkspace {
    TestWorkspace::outside_tmp(files, |builder| with_rules(builder, mode, rules))
}

fn with_rules(builder: Builder, mode: Mode, rules: &[&str]) -> Builder {
    let allow = |builder: Builder, rule: &&str| builder.allow(rule.parse().unwrap());
    rules.iter().fold(builder.mode(mode), allow)
}

/// Returns process settings with this sandbox level and the default network: none.
fn at_level(level: SandboxLevel) -> ProcessSettings {
    let confinement = Confinement { level, ..Confinement::default() };
    ProcessSettings { confinement, ..ProcessSettings::default() }
}

/// Returns the decision about a call, without running it.
async fn decide(test: &TestWorkspace, tool: &str, input: Value) -> Decision {
    let call = ToolCall::new(tool, input);
    test.windlass.engine().explain(&test.session, call).await.unwrap().decision()
}

/// Returns the arguments of `bash` for a command.
fn bash_arguments(command: &str) -> Value {
    json!({"command": command})
}

/// Creates a directory outside of every workspace that commands in the sandbox see. One in `/tmp` they would not see, because they have
/// their own `/tmp`.
fn directory_outside_tmp() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Number of incidents in the list.
const INCIDENTS: usize = 64;

#[test]
fn every_incident_has_a_test() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/incidents", "../cli/tests/incidents"].map(|folder| here.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let text: String =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for number in 1..=INCIDENTS {
        assert!(text.contains(&format!("fn i_{number:02}_")), "I-{number:02} has no test");
    }
}
