//! Checks the dependencies between our crates against a list.
//!
//! The list keeps the crates separate: siblings do not depend on each other. Engines are put together in `hub`, and
//! everything meets in `cli` only. Development dependencies are free; they reach no user.

use anyhow::{Context, Result};
use serde_json::Value;

/// Each of our packages with those of ours that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("windlass-core", &[]),
    ("windlass-sandbox", &[]),
    ("windlass-host", &["windlass-core", "windlass-sandbox"]),
    ("windlass-tools", &["windlass-core"]),
    ("windlass-store", &["windlass-core"]),
    ("windlass-mcp", &["windlass-core"]),
    ("windlass-wire", &["windlass-core"]),
    ("windlass-agent", &["windlass-core"]),
    ("windlass-server", &["windlass-core"]),
    ("windlass-hooks", &["windlass-core", "windlass-host"]),
    (
        "windlass",
        &[
            "windlass-core",
            "windlass-hooks",
            "windlass-host",
            "windlass-store",
            "windlass-tools",
            "windlass-wire",
        ],
    ),
    ("windlass-hub", &["windlass"]),
    (
        "windlass-cli",
        &["windlass", "windlass-agent", "windlass-hub", "windlass-mcp", "windlass-server"],
    ),
    ("xtask", &["windlass"]), // Optional, for `engine_overhead` alone.
];

/// The edges in `cargo metadata --no-deps` that are not in the list.
pub(super) fn find(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.context("`cargo metadata` gave no packages")?;
    let names: Vec<&str> = packages.iter().map(name).collect();
    Ok(packages.iter().flat_map(|package| forbidden(package, &names)).collect())
}

fn forbidden(package: &Value, ours: &[&str]) -> Vec<String> {
    let from = name(package);
    let Some((_, allowed)) = ALLOWED.iter().find(|(allowed, _)| *allowed == from) else {
        return vec![format!("{from} is not in the list in xtask/src/tidy/edges.rs")];
    };
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let normal = dependencies.into_iter().flatten().filter(|edge| !is_for_development(edge));
    normal
        .map(name)
        .filter(|to| ours.contains(to) && !allowed.contains(to))
        .map(|to| format!("{from} must not depend on {to}"))
        .collect()
}

fn name(package: &Value) -> &str {
    package.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn is_for_development(dependency: &Value) -> bool {
    dependency.get("kind").and_then(Value::as_str) == Some("dev")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(package: &str, dependencies: &Value, expected: &[&str]) {
        let others = ["windlass-core", "windlass-host", "windlass-sandbox"];
        let others = others.iter().filter(|name| **name != package);
        let mut packages: Vec<Value> = others.map(|name| json!({"name": name})).collect();
        packages.push(json!({"name": package, "dependencies": dependencies}));
        assert_eq!(find(&json!({"packages": packages})).unwrap(), expected, "{package}");
    }

    #[test]
    fn edges_are_compared_with_the_list() {
        let core = json!({"name": "windlass-core", "kind": null});
        let host = json!({"name": "windlass-host", "kind": null});
        let host_in_tests = json!({"name": "windlass-host", "kind": "dev"});
        let serde = json!({"name": "serde", "kind": null});
        check("windlass-tools", &json!([core, serde, host_in_tests]), &[]);
        check(
            "windlass-tools",
            &json!([host]),
            &["windlass-tools must not depend on windlass-host"],
        );
        check("windlass-core", &json!([host]), &["windlass-core must not depend on windlass-host"]);
        check("windlass", &json!([core, host]), &[]);
        check("windlass-cli", &json!([core]), &["windlass-cli must not depend on windlass-core"]);
        check(
            "windlass-web",
            &json!([]),
            &["windlass-web is not in the list in xtask/src/tidy/edges.rs"],
        );
    }

    #[test]
    fn the_list_has_no_cycle() {
        fn depth(name: &str, seen: usize) -> usize {
            assert!(seen <= ALLOWED.len(), "a cycle through {name}");
            let (_, edges) = ALLOWED.iter().find(|(from, _)| *from == name).unwrap();
            edges.iter().map(|to| depth(to, seen + 1)).max().unwrap_or(seen)
        }
        for (name, _) in ALLOWED {
            depth(name, 0);
        }
    }
}
