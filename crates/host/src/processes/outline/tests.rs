//! Reasons from outlines of small views in a temporary directory.

use std::time::SystemTime;

use windlass_core::{Mode, Policy};

use super::*;

fn put(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

fn outline(root: &Path) -> ViewOutline {
    let workspace = root.join("w");
    let part = |at: &str, source: &str, is_writable| ViewPart {
        at: root.join(at),
        source: (!source.is_empty()).then(|| root.join(source)),
        is_writable,
    };
    let policy = Policy::new(Mode::Ask).deny("read denied/**".parse().unwrap());
    let now = SystemTime::UNIX_EPOCH;
    ViewOutline {
        rights: Arc::new(FileRights::new(policy.into(), workspace.clone(), now)),
        state: root.join("state"),
        directory: workspace.join("sub"),
        home: Some(root.join("home")),
        parts: vec![
            part("home", "own", true),
            part("system", "system", false),
            part("empty", "", false),
            part("one", "one", true),
            part("w", "w", true),
        ],
        masked: vec![workspace.join(".env"), workspace.join("denied")],
        shown_alone: vec![root.join("one/file")],
        protected: vec![workspace.join(".git/hooks")],
        workspace,
    }
}

#[test]
fn reasons_follow_from_the_parts_of_the_view() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for file in [
        "w/.env",
        "w/sub/x",
        "w/denied/x",
        "w/.git/hooks/x",
        "home/data",
        "own/known",
        "system/tool",
        "empty/file",
        "one/file",
        "one/other",
        "one/deep/other",
        "state/x",
    ] {
        put(&root.join(file));
    }
    std::os::unix::fs::symlink(root.join("empty"), root.join("w/sub/link")).unwrap();
    let outline = outline(&root);
    for (path, read, write) in [
        ("x", "", ""),
        ("nowhere", "", ""),
        ("../.env", "masked", "masked"),
        ("../denied/x", "masked", "masked"),
        ("../denied/nowhere", "masked", "masked"),
        ("../.git/hooks/x", "", "read-only"),
        ("link/file", "outside", "outside"),
        ("link/nowhere", "", "outside"),
        ("~/data", "outside", "outside"),
        ("~/known", "", ""),
        ("~/nowhere", "", ""),
        ("~/.ssh/config", "outside", "outside"),
        ("~/.config/gh/hosts.yml", "outside", "outside"),
        ("ROOT/state/x", "outside", "outside"),
        ("ROOT/state/nowhere", "outside", "outside"),
        ("ROOT/system/tool", "", "read-only"),
        ("ROOT/system/new", "", "read-only"),
        ("ROOT/empty/file", "outside", "outside"),
        ("ROOT/nowhere/file", "", ""),
        ("ROOT/one/file", "", ""),
        ("ROOT/one/other", "outside", "outside"),
        ("ROOT/one/deep/other", "outside", "outside"),
        ("/proc/self/nowhere", "", "system"),
        ("/usr/windlass-nowhere", "", "system"),
    ] {
        let spelled = path.replace("ROOT", root.to_str().unwrap());
        let reason = |used| {
            let absence = outline.explain(Path::new(&spelled), used);
            absence.map_or("", |absence| absence.name())
        };
        assert_eq!((reason(PathUse::Read), reason(PathUse::Write)), (read, write), "{path}");
    }
}

#[test]
fn links_in_a_circle_end() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("w/sub")).unwrap();
    std::os::unix::fs::symlink("b", root.join("w/sub/a")).unwrap();
    std::os::unix::fs::symlink("a", root.join("w/sub/b")).unwrap();
    assert_eq!(outline(&root).explain(Path::new("a/x"), PathUse::Read), None);
}
