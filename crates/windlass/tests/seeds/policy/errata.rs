//! Errata's disabled tools and lists of tools: an unset list means all, an empty one none. Their storage is tested with the command line,
//! which has the configuration.

use std::sync::Arc;

use serde_json::json;
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate, Role};
use windlass::{Mode, Outcome, Session, Windlass};

use super::{TestDirectories, call, session};
use crate::support::text;

fn with(predicate: Predicate) -> Arc<Session> {
    Arc::new(Session::new(SessionId::new("s")).narrow(predicate))
}

async fn names(windlass: &Windlass, session: &Arc<Session>) -> Vec<String> {
    windlass.tools(session).await.into_iter().map(|spec| spec.name.to_string()).collect()
}

#[tokio::test]
async fn errata_allow_list_unset_is_all_and_empty_is_none() {
    let directories = TestDirectories::new();
    let windlass = directories.builder("work").mode(Mode::Yolo).build().unwrap();
    let all = names(&windlass, &session("s")).await;
    assert_eq!(names(&windlass, &with(Predicate::All)).await, all);
    assert!(all.len() > 10, "{all:?}");
    assert!(names(&windlass, &with(Predicate::allow(Vec::<String>::new()))).await.is_empty());
    assert_eq!(names(&windlass, &with(Predicate::allow(["list", "read"]))).await, ["read", "list"]);
    let disabled = names(&windlass, &with(Predicate::deny(["bash"]))).await;
    assert_eq!(disabled.len(), all.len() - 1);
}

/// 3C-2: an unlisted tool ran if a model named it.
#[tokio::test]
async fn errata_3c_2_unlisted_tool_is_not_run() {
    let directories = TestDirectories::new();
    let windlass = directories.builder("work").mode(Mode::Yolo).build().unwrap();
    for predicate in [
        Predicate::None,
        Predicate::allow(Vec::<String>::new()),
        Predicate::allow(["read"]),
        Predicate::deny(["write", "bash"]),
        Role::Explorer.predicate(),
        Predicate::allow(["write", "bash"]).and(Predicate::deny(["write", "bash"])),
    ] {
        let session = with(predicate.clone());
        for (tool, input) in [
            ("write", json!({"path": "a", "content": "x\n"})),
            ("bash", json!({"command": "touch a"})),
        ] {
            let result = call(&windlass, &session, tool, input).await;
            assert_ne!(result.outcome, Outcome::Ok, "{predicate:?} {tool}: {}", text(&result));
            assert!(!directories.path("work/a").exists(), "{predicate:?} {tool}");
        }
    }
}

/// 3C-8: a role enabled disabled tools again, and an unknown role had all rights.
#[tokio::test]
async fn errata_3c_8_role_does_not_enable_disabled_tools() {
    let directories = TestDirectories::new();
    let windlass = directories.builder("work").mode(Mode::Yolo).build().unwrap();
    let parent = Session::new(SessionId::new("s")).narrow(Predicate::deny(["bash", "grep"]));
    for role in [Role::Explorer, Role::Planner, Role::Coder] {
        let child = parent.child(SessionId::new("c"), role.predicate(), &Overrides::default());
        let child = Arc::new(child);
        let names = names(&windlass, &child).await;
        assert!(!names.iter().any(|name| name == "bash" || name == "grep"), "{role:?}: {names:?}");
        let result = call(&windlass, &child, "bash", json!({"command": "touch a"})).await;
        assert_ne!(result.outcome, Outcome::Ok, "{role:?}");
    }
    assert!("superuser".parse::<Role>().is_err());
}
