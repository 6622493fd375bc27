//! Runs programs on a mounted stage, for tests of the reported changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_core::{Attributes, ChangedTo, ProcessChange};

use crate::Stage;

/// Script that mounts the stage over the workspace, in its own namespace, and runs a program there.
const ON_STAGE: &str = r#"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK,userxattr" "$LOWER" || exit 99
cd "$LOWER" || exit 99
exec sh -c "$PROGRAM"
"#;

/// Runs a shell script on a stage. Fails the test if the stage cannot be mounted or the script fails.
pub(crate) fn run(stage: &Stage, workspace: &Path, program: &str) {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", ON_STAGE])
        .env("LOWER", workspace.join("").as_os_str().to_str().unwrap().trim_end_matches('/'))
        .env("UPPER", stage.upper())
        .env("WORK", stage.work())
        .env("PROGRAM", program)
        .output()
        .expect("`unshare` of util-linux is needed to mount a stage");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program}: {} (99: no overlay could be mounted in a user namespace, which these tests need): {said}",
        output.status,
    );
}

/// Describes a reported change in one line.
pub(crate) fn told(change: &ProcessChange, workspace: &Path) -> String {
    let inside = |path: &Path| path.strip_prefix(workspace).unwrap().to_string_lossy().into_owned();
    let sign = if change.before.is_some() { '~' } else { '+' };
    let path = inside(&change.path);
    match &change.to {
        ChangedTo::Nothing => format!("- {path}"),
        ChangedTo::File(content, attributes) => {
            assert!(attributes.modified.is_some());
            let mut text = String::new();
            if !content.as_os_str().is_empty() {
                text = format!(" {}", String::from_utf8_lossy(&fs::read(content).unwrap()));
            }
            format!("{sign} {path}{}{text}", shown(attributes))
        }
        ChangedTo::Attributes(attributes) => {
            let modified = if attributes.modified.is_some() { " modified" } else { "" };
            format!("a {path}{}{modified}", shown(attributes))
        }
        ChangedTo::Linked(with) => format!("{sign} {path} = {}", inside(with)),
        ChangedTo::Symlink(target, _) => format!("{sign} {path} -> {}", target.display()),
        ChangedTo::Directory(attributes) => format!("{sign} {path}/{}", shown(attributes)),
    }
}

fn shown(attributes: &Attributes) -> String {
    let mode = attributes.mode.map_or_else(String::new, |mode| format!(" {mode:o}"));
    let extended = attributes
        .extended
        .iter()
        .flatten()
        .map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
    mode + &extended.collect::<String>()
}

/// Describes everything in a tree except time stamps, one line for each entry.
pub(crate) fn described(root: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut lines = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let inside = path.strip_prefix(root).unwrap();
            lines.push(if metadata.is_dir() {
                waiting.push(path.clone());
                format!("{}/ {mode:o}", inside.display())
            } else if metadata.is_symlink() {
                format!("{} -> {}", inside.display(), fs::read_link(&path).unwrap().display())
            } else {
                format!("{} {mode:o} {:?}", inside.display(), fs::read(&path).unwrap())
            });
        }
    }
    lines.sort();
    lines
}
