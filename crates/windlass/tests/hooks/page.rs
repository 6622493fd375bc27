//! The page about hooks: every example on it is a valid hook file.

use serde_json::json;
use windlass::Outcome;
use windlass::hooks::{HookDefinition, HookShape};
use windlass::tool::Author;

use super::{hooks, test_workspace};
use crate::support::text;

/// Parses the hooks of each example, in the order of the page.
fn examples() -> Vec<Vec<HookDefinition>> {
    let page = include_str!("../../../../docs/hooks.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| hooks(HookShape::Windlass, Author::Person, block)).collect()
}

#[tokio::test]
async fn examples_behave_as_the_page_says() {
    let [removing, generated, late, reminding]: [Vec<HookDefinition>; 4] =
        examples().try_into().expect("four examples");
    let tried = test_workspace(removing);
    let said = tried.call_refused("bash", json!({"command": "rm -rf a.txt"})).await;
    assert!(said.ends_with("says no: remove files one by one"), "{said}");
    tried.call_ok("bash", json!({"command": "cat a.txt"})).await;
    let tried = test_workspace(generated);
    let said = tried.call_refused("write", json!({"path": "generated/x", "content": "x"})).await;
    assert!(said.ends_with("generated/ is made by the build"), "{said}");
    tried.call_ok("write", json!({"path": "other", "content": "x"})).await;
    let result = test_workspace(late).call("bash", json!({"command": "true"})).await;
    let is_late = result.outcome == Outcome::Denied && text(&result).contains("it is late");
    assert!(result.outcome == Outcome::Ok || is_late, "{}", text(&result));
    let result =
        test_workspace(reminding).call_ok("write", json!({"path": "n", "content": "x"})).await;
    assert!(text(&result).ends_with("says: run the tests before you say that it works]"));
}

#[test]
fn every_event_is_on_the_page() {
    let page = include_str!("../../../../docs/hooks.md");
    for (name, _) in windlass::hooks::HookPoint::NAMES {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
