//! `delta`: a tool that commits changes as a command's delta is committed. It creates links and directories and sets modes, which no
//! built-in tool does.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use windlass::changes::CommitStep;
use windlass::effect::{Effect, PathPattern};
use windlass::files::{
    Attributes, ContentSource, ExpectedState, Fingerprint, Resolved, TargetState,
};
use windlass::testing::MockTool;
use windlass::{Context, EffectKinds, Effects, Output, ToolError, quote};

/// One change. Its path is relative to the workspace and quoted if needed.
#[derive(Deserialize)]
struct Change {
    path: String,
    #[serde(flatten)]
    to: NewState,
    /// True if the expected fingerprint is to be an outdated one.
    #[serde(default)]
    stale: bool,
    /// True if the path is expected to be absent although it exists, as if another process had created it meanwhile.
    #[serde(default)]
    unseen: bool,
}

#[derive(Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
enum NewState {
    File { content: String, mode: Option<u32> },
    Mode { mode: u32 },
    Symlink { target: String },
    Directory { mode: Option<u32> },
    Linked { with: String },
    Moved { from: String, content: Option<String> },
    Nothing,
}

/// Makes the tool `delta`, whose argument `changes` lists the changes.
pub(crate) fn delta() -> MockTool {
    let kinds = EffectKinds::WRITE.with(EffectKinds::DELETE);
    MockTool::named("delta").with_effects(kinds, effects).answering(|cx, input| async move {
        let changes: Vec<Change> =
            serde_json::from_value(input["changes"].clone()).expect("a list of changes");
        cx.blocking(move |cx| commit_changes(cx, &changes)).await?
    })
}

/// Returns the effects of the changes. A link is declared by its directory, because a path of the link itself would stand for its target.
fn effects(input: &Value) -> Effects {
    let changes = input["changes"].as_array().into_iter().flatten();
    let paths = changes.flat_map(|change| [&change["path"], &change["from"]]);
    let reach = |path: &str| {
        let path = quote::unpath(path);
        let mut parts = path.components();
        match (parts.next(), parts.next()) {
            (Some(first), Some(_)) => PathPattern::tree(first.as_os_str()),
            _ => PathPattern::file(&path),
        }
    };
    paths
        .filter_map(Value::as_str)
        .flat_map(|path| [Effect::Write(PathPattern::tree(".")), Effect::Delete(reach(path))])
        .collect()
}

fn commit_changes(cx: &Context, changes: &[Change]) -> Result<Output, ToolError> {
    let workspace = cx.files().resolve(Path::new("."))?.path;
    let resolved = |name: &str| {
        let inside = quote::unpath(name);
        Resolved { path: workspace.join(&inside), inside: Some(inside), exists: true }
    };
    let prepared: Vec<PreparedChange> =
        changes.iter().map(|change| PreparedChange::of(change, &resolved)).collect();
    let steps: Vec<CommitStep<'_>> = prepared.iter().map(PreparedChange::step).collect();
    cx.files().commit(&steps)?;
    Ok(Output::text("done"))
}

/// A change with the values that its commit step borrows.
struct PreparedChange<'c> {
    path: Resolved,
    expect: ExpectedState,
    to: &'c NewState,
    attributes: Attributes,
    other: Option<(Resolved, Fingerprint)>,
    target: PathBuf,
}

impl<'c> PreparedChange<'c> {
    fn of(change: &'c Change, resolved: &dyn Fn(&str) -> Resolved) -> Self {
        let path = resolved(&change.path);
        let mut seen = fingerprint(&path.path).filter(|_| !change.unseen);
        if let Some(seen) = seen.as_mut().filter(|_| change.stale) {
            seen.changed += 1;
        }
        let (mode, other, target) = match &change.to {
            NewState::File { mode, .. } | NewState::Directory { mode } => (*mode, None, None),
            NewState::Mode { mode } => (Some(*mode), None, None),
            NewState::Linked { with: name } | NewState::Moved { from: name, .. } => {
                (None, Some(resolved(name)), None)
            }
            NewState::Symlink { target } => (None, None, Some(quote::unpath(target))),
            NewState::Nothing => (None, None, None),
        };
        let other = other.map(|other| {
            let seen = fingerprint(&other.path).expect("what is linked or moved is there");
            (other, seen)
        });
        Self {
            path,
            expect: seen.map_or(ExpectedState::Absent, ExpectedState::Same),
            to: &change.to,
            attributes: Attributes { mode, ..Attributes::default() },
            other,
            target: target.unwrap_or_default(),
        }
    }

    fn step(&self) -> CommitStep<'_> {
        let attributes = Some(&self.attributes);
        let bytes = |content: &'c str| ContentSource::Bytes(content.as_bytes());
        let mut rewrite = None;
        let to = match (self.to, &self.other) {
            (NewState::File { content, .. }, _) => {
                TargetState::File { content: bytes(content), attributes }
            }
            (NewState::Mode { .. }, _) => TargetState::Attributes(&self.attributes),
            (NewState::Symlink { .. }, _) => TargetState::Symlink(&self.target),
            (NewState::Directory { .. }, _) => TargetState::Directory { attributes },
            (NewState::Linked { .. }, Some((with, seen))) => {
                TargetState::Linked { with, seen: *seen }
            }
            (NewState::Moved { content, .. }, Some((from, seen))) => {
                rewrite = content
                    .as_deref()
                    .map(|content| TargetState::File { content: bytes(content), attributes: None });
                TargetState::Moved { from, seen: *seen }
            }
            _ => TargetState::Nothing,
        };
        CommitStep { rewrite, ..CommitStep::new(self.path.clone(), self.expect, to) }
    }
}

/// Returns the fingerprint of the object at a path, without following links; none if it is absent.
fn fingerprint(path: &Path) -> Option<Fingerprint> {
    let facts = fs::symlink_metadata(path).ok()?;
    Some(Fingerprint {
        device: facts.dev(),
        inode: facts.ino(),
        len: facts.len(),
        modified: facts.mtime() * 1_000_000_000 + facts.mtime_nsec(),
        changed: facts.ctime() * 1_000_000_000 + facts.ctime_nsec(),
    })
}
