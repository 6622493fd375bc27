//! `list_tree`: shows the entries of a directory as an indented tree with sizes.

mod shares;
mod tree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Content, Context, EffectKinds, Effects, Entry, FileKind, Output, Tool, ToolDetails, ToolError,
    Visitor, Walk, WalkSettings, quote,
};

use crate::format::{self, Notes, Root};
use crate::parameter_defaults::{five_hundred, here};
use tree::{NodeKind, Tree, TreeLevel};

/// Largest permitted value of `limit`.
const MAX_LIMIT: usize = 10_000;

/// The `list` tool.
pub(crate) struct List;

/// Show a directory as a tree with sizes, without ignored files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Directory to list.
    #[serde(default = "here")]
    path: PathBuf,
    /// Number of levels.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 10))]
    depth: usize,
    /// Include ignored files.
    #[serde(default)]
    all: bool,
    /// Maximum number of entries, shared fairly among directories.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    limit: usize,
}

/// Returns the default of `depth`.
fn two() -> usize {
    2
}

impl Tool for List {
    const NAME: &'static str = "list";
    const KINDS: EffectKinds = EffectKinds::READ;
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("List a directory")
    }

    fn effects(&self, args: &Args) -> Effects {
        Effects::read_tree(&args.path)
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        cx.blocking(move |cx| list_tree(cx, &args)).await?
    }
}

/// Walks the directory once for each level, and draws the tree.
fn list_tree(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let root = Root::of(cx, &args.path)?;
    let name = root.show(Path::new(""));
    let mut tree = Tree::new(args.limit);
    let mut notes = Notes::default();
    for depth in 1..=args.depth {
        let found = Mutex::new(WalkResult { level: tree.next_level(), file: None });
        let report = cx.files().walk(&args.path, settings(depth, args.all), &|| {
            Box::new(LevelCollector { tree: &tree, depth, found: &found })
        })?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(what) = found.file {
            return Ok(output_of(format!("{name} is not a directory: {what}"), 1, false));
        }
        tree.add(found.level);
        // Each walk reports again the entries that the one before could not read.
        notes = Notes::from(report);
        if tree.is_complete() {
            break;
        }
    }
    let mut output = if tree.is_empty() && notes.is_empty() {
        output_of(describe_empty(cx, args, &name)?, 0, false)
    } else {
        draw_output(&tree, args.limit)
    };
    if let Some(Content::Text { text }) = output.content.first_mut() {
        notes.push_to(text, &root);
    }
    Ok(output)
}

/// Returns walk settings with a single thread, so that entries come in the order of their names.
fn settings(max_depth: usize, all: bool) -> WalkSettings {
    WalkSettings { max_depth, ignore_files: !all, threads: 1 }
}

/// Returns an output with its metadata.
fn output_of(text: String, count: usize, truncated: bool) -> Output {
    Output::text(text).with("count", count).with("truncated", truncated)
}

/// Returns the tree as output, with a remark if entries are left out.
fn draw_output(tree: &Tree, limit: usize) -> Output {
    let mut drawing = tree.draw();
    if drawing.truncated {
        let raise = match limit {
            MAX_LIMIT.. => String::new(),
            _ => format!(", or raise `limit` (now {limit}, at most {MAX_LIMIT})"),
        };
        let how = format!("[cut at `…`: list that directory by its path{raise}]");
        format::push_line(&mut drawing.text, &how);
    }
    output_of(drawing.text, drawing.count, drawing.truncated)
}

/// Says whether a directory has no entries or only ignored ones.
fn describe_empty(cx: &Context, args: &Args, name: &str) -> Result<String, ToolError> {
    if args.all {
        return Ok(format!("{name} is empty"));
    }
    let entries = Mutex::new(0);
    cx.files()
        .walk(&args.path, settings(1, true), &|| Box::new(EntryCounter { entries: &entries }))?;
    Ok(match entries.into_inner().unwrap_or_else(PoisonError::into_inner) {
        0 => format!("{name} is empty"),
        entries => format!(
            "all of {name} is ignored: {}; `all:true` shows them",
            format::count(entries, "entry", "entries")
        ),
    })
}

/// Counts entries.
struct EntryCounter<'a> {
    entries: &'a Mutex<usize>,
}

impl Visitor for EntryCounter<'_> {
    fn visit(&mut self, _: &Entry<'_>) -> Walk {
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Walk::Continue
    }
}

/// The result of one walk.
struct WalkResult {
    level: TreeLevel,
    /// Description of the root, if it is not a directory.
    file: Option<String>,
}

/// Collects the entries at one depth, in the directories that are shown.
struct LevelCollector<'a> {
    tree: &'a Tree,
    depth: usize,
    found: &'a Mutex<WalkResult>,
}

impl Visitor for LevelCollector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = entry.path.file_name() else {
            found.file = Some(match entry.opener.stat() {
                Ok(stat) if stat.kind == FileKind::File => {
                    format!("a file of {}", format::size(stat.len))
                }
                _ => entry.kind.to_string(),
            });
            return Walk::Stop;
        };
        if entry.depth < self.depth {
            let is_shown = self.tree.has_directory(entry.path);
            return if is_shown { Walk::Continue } else { Walk::Skip };
        }
        found.level.add(entry.path, || (show_name(name), node_kind(entry)));
        Walk::Skip
    }
}

/// Returns a name as it can be pasted into a command.
fn show_name(name: &OsStr) -> String {
    quote::path(Path::new(name)).into_owned()
}

/// Returns the kind of an entry for the tree.
fn node_kind(entry: &Entry<'_>) -> NodeKind {
    match entry.kind {
        FileKind::Directory => NodeKind::Directory,
        _ => NodeKind::Other(describe(entry)),
    }
}

/// Describes an entry that is not a directory: size, symbolic link, or kind.
fn describe(entry: &Entry<'_>) -> String {
    match entry.kind {
        FileKind::File => match entry.opener.stat() {
            Ok(stat) => format!("({})", format::size(stat.len)),
            Err(error) => format!("({})", error.kind),
        },
        FileKind::Symlink => "-> (symbolic link)".into(),
        other => format!("({})", other.to_string().trim_start_matches("a ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use windlass_core::Outcome;

    use crate::testing::{InterceptingHost, Workspace};

    const TREE: &[(&str, &str)] = &[
        ("b.txt", "12345"),
        ("a/one.rs", ""),
        ("a/deep/two.rs", ""),
        ("a/deep/deeper/three.rs", ""),
        ("empty/", ""),
        (".gitignore", "target\n"),
        ("target/x", ""),
        (".git/config", ""),
    ];

    fn check(files: &[(&str, &str)], input: Value, expected: &str) {
        let shown = input.to_string();
        assert_eq!(Workspace::new(files).text("list", input), expected, "{shown}");
    }

    #[test]
    fn every_parameter() {
        for (input, expected) in [
            (json!({}), ".gitignore (7 B)\na/\n  deep/\n  one.rs (0 B)\nb.txt (5 B)\nempty/"),
            (json!({"depth": 1}), ".gitignore (7 B)\na/\nb.txt (5 B)\nempty/"),
            (
                json!({"depth": 3}),
                ".gitignore (7 B)\na/\n  deep/\n    deeper/\n    two.rs (0 B)\n  one.rs (0 B)\nb.txt (5 B)\nempty/",
            ),
            (json!({"path": "a", "depth": "1"}), "deep/\none.rs (0 B)"),
            (
                json!({"all": true, "depth": 1}),
                ".gitignore (7 B)\na/\nb.txt (5 B)\nempty/\ntarget/",
            ),
            (json!({"path": "empty"}), "empty is empty"),
            (json!({"path": "target"}), "x (0 B)"),
            (json!({"path": "b.txt"}), "b.txt is not a directory: a file of 5 B"),
            (
                json!({"limit": 2}),
                ".gitignore (7 B)\na/\n  … 2 more\n… 2 more\n[cut at `…`: list that directory by its path, or raise `limit` (now 2, at most 10000)]",
            ),
        ] {
            check(TREE, input, expected);
        }
    }

    #[test]
    fn metadata_matches_the_text() {
        let workspace = Workspace::new(TREE);
        for (input, count, truncated) in [
            (json!({}), 6, false),
            (json!({"limit": 6}), 6, false),
            (json!({"limit": 5}), 5, true),
            (json!({"limit": 2}), 2, true),
            (json!({"path": "empty"}), 0, false),
            (json!({"path": "b.txt"}), 1, false),
        ] {
            let metadata = workspace.call("list", input.clone()).output.metadata;
            let facts = [&metadata["count"], &metadata["truncated"]];
            assert_eq!(facts, [&json!(count), &json!(truncated)], "{input}");
        }
    }

    #[test]
    fn lines_left_after_the_first_level_are_shared() {
        let names: Vec<String> =
            (0..60).map(|at| format!("{}/{at:02}", if at % 2 == 0 { "a" } else { "b" })).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.extend([("c/1", ""), ("d", "")]);
        let workspace = Workspace::new(&files);
        for (limit, expected) in [
            (
                9,
                "a/\n  00 (0 B)\n  02 (0 B)\n  … 28 more\n\
                 b/\n  01 (0 B)\n  03 (0 B)\n  … 28 more\nc/\n  1 (0 B)\nd (0 B)",
            ),
            (5, "a/\n  00 (0 B)\n  … 29 more\nb/\n  … 30 more\nc/\n  … 1 more\nd (0 B)"),
            (3, "a/\n  … 30 more\nb/\n  … 30 more\nc/\n  … 1 more\n… 1 more"),
        ] {
            let result = workspace.call("list", json!({"limit": limit}));
            let text = result.output.to_text();
            assert_eq!(
                text.lines().rev().skip(1).collect::<Vec<_>>(),
                expected.lines().rev().collect::<Vec<_>>()
            );
            let metadata = result.output.metadata;
            assert_eq!([&metadata["count"], &metadata["truncated"]], [&json!(limit), &json!(true)]);
        }
    }

    #[test]
    fn directories_that_are_not_shown_are_not_read() {
        let mut files = vec![];
        let names: Vec<String> = (0..30)
            .flat_map(|at| (0..30).map(move |below| format!("{at:02}/{below:02}/x/y")))
            .collect();
        files.extend(names.iter().map(|name| (name.as_str(), "")));
        let listed = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&listed);
        let workspace = Workspace::on(&files, |local| {
            InterceptingHost::observing_visits(local, move |path| {
                seen.lock().unwrap().insert(path.parent().unwrap().to_owned());
            })
        });
        let result = workspace.call("list", json!({"limit": 40, "depth": 10}));
        assert_eq!(result.output.metadata["count"], json!(40));
        // The root, and the shown directories.
        assert_eq!(listed.lock().unwrap().len(), 41);
    }

    #[test]
    fn empty_directory_differs_from_an_ignored_one() {
        let files = [("a/.gitignore", "*\n"), ("a/x", ""), ("a/y", "")];
        check(
            &files,
            json!({"path": "a"}),
            "all of a is ignored: 3 entries; `all:true` shows them",
        );
        check(&[], json!({}), ". is empty");
    }

    #[test]
    fn an_unreadable_directory_is_a_note() {
        let files = [("a/x", ""), ("shut/y", "")];
        let workspace = Workspace::on(&files, |local| InterceptingHost::locked(local, &["shut"]));
        assert_eq!(
            workspace.text("list", json!({})),
            "a/\n  x (0 B)\nshut/\n[left out: shut: the file system's permissions do not allow it]"
        );
    }

    #[test]
    fn missing_path_is_an_error() {
        let workspace = Workspace::new(TREE);
        let result = workspace.call("list", json!({"path": "b.tx"}));
        assert_eq!(result.outcome, Outcome::Error);
        let text = result.output.to_text();
        assert!(text.contains("no such file") && text.contains("`b.txt`"), "{text}");
        for path in ["/etc", "..", "a/../.."] {
            let result = workspace.call("list", json!({"path": path}));
            assert_eq!(result.outcome, Outcome::Denied, "{path}: {}", result.output.to_text());
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let workspace = Workspace::new(TREE);
        for (input, expected) in [
            (json!({"depth": 0}), "depth is 0; it must be between 1 and 10"),
            (json!({"depth": 11}), "depth is 11"),
            (json!({"limit": 0}), "limit is 0; it must be between 1 and 10000"),
            (json!({"paths": "a"}), "did you mean `path`?"),
        ] {
            let result = workspace.call("list", input.clone());
            assert_eq!(result.code, Some("invalid_args"), "{input}");
            let text = result.output.to_text();
            assert!(text.contains(expected), "{input}: {text}");
        }
    }

    #[test]
    fn h15_secrets_have_no_names() {
        let files =
            [(".env", "x"), (".ssh/id_rsa", ""), (".aiexclude", "p\n"), ("p/x", ""), ("a", "")];
        check(&files, json!({"all": true}), ".aiexclude (2 B)\na (0 B)");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "lays out what no tool can make")]
    fn names_and_things_of_any_kind() {
        let workspace = Workspace::new(&[(r"$'caf\xe9'", ""), (r"$'a\x1b[1m'", "")]);
        std::os::unix::fs::symlink("/etc", workspace.path("link")).unwrap();
        let made =
            std::process::Command::new("mkfifo").arg(workspace.path("pipe")).status().unwrap();
        assert!(made.success());
        let socket = std::os::unix::net::UnixListener::bind(workspace.path("socket")).unwrap();
        assert_eq!(
            workspace.text("list", json!({})),
            "$'a\\x1b[1m' (0 B)\n$'caf\\xe9' (0 B)\nlink -> (symbolic link)\npipe (FIFO)\nsocket (socket)"
        );
        drop(socket);
    }
}
