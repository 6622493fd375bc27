//! What went wrong in systems like this one, done to ours: one test or more for each public incident, by its number in our list of
//! guarantees, where the root cause can be shown with the library. What needs the binary is in `crates/cli/tests/incidents/`.
//!
//! Each test re-enacts the cause, not the product. Where it is cheap, the attack is shown to work where nothing is in its way, so
//! that a test which shows nothing fails.
//!
//! | incident | what of it is not re-enacted, and why |
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
use windlass::process::{Confinement, Level, ProcessSettings};
use windlass::{Builder, Mode, ToolCall};

use crate::support::Place;

/// A workspace in which these rules allow, everything else asks, and nobody is there to answer.
fn asking(files: &[(&str, &str)], rules: &[&str]) -> Place {
    in_mode(Mode::Ask, files, rules)
}

/// The same in another mode.
fn in_mode(mode: Mode, files: &[(&str, &str)], rules: &[&str]) -> Place {
    Place::built(files, |builder| ruled(builder, mode, rules))
}

/// The same with a workspace that is not below `/tmp`, so that what is beside it is outside of it.
fn beside_others(mode: Mode, files: &[(&str, &str)], rules: &[&str]) -> Place {
    Place::in_sight(files, |builder| ruled(builder, mode, rules))
}

fn ruled(builder: Builder, mode: Mode, rules: &[&str]) -> Builder {
    let allow = |builder: Builder, rule: &&str| builder.allow(rule.parse().unwrap());
    rules.iter().fold(builder.mode(mode), allow)
}

/// Programs at this level, with the network that is usual: none.
fn at_level(level: Level) -> ProcessSettings {
    let confinement = Confinement { level, ..Confinement::default() };
    ProcessSettings { confinement, ..ProcessSettings::default() }
}

/// What would be decided about a call.
async fn decided(place: &Place, tool: &str, input: Value) -> Decision {
    let call = ToolCall::new(tool, input);
    place.windlass.engine().explain(&place.session, call).await.unwrap().decision()
}

/// A command for the shell.
fn shell(command: &str) -> Value {
    json!({"command": command})
}

/// A directory outside of every workspace that confined programs see: they have a `/tmp` of their own.
fn in_sight() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// How many incidents the list has.
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
