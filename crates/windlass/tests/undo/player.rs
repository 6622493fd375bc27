//! Plays a random session: all kinds of calls that change files, calls that fail, and `undo`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass::changes::CheckpointQuery;
use windlass::session::CallId;
use windlass::{Outcome, Session, ToolCall, quote};

use crate::support::{Random, TestWorkspace, Tree, text};

/// A session that is being played.
pub(super) struct Player<'p> {
    pub(super) test: &'p TestWorkspace,
    pub(super) session: Arc<Session>,
    pub(super) random: &'p mut Random,
    /// Each call whose changes are in effect, with the tree before it.
    pub(super) stack: Vec<(CallId, Tree)>,
    /// All calls so far, for the message of a failure.
    pub(super) log: Vec<String>,
}

impl<'p> Player<'p> {
    pub(super) fn new(test: &'p TestWorkspace, random: &'p mut Random) -> Self {
        let session = test.windlass.new_session();
        Self { test, session, random, stack: Vec::new(), log: Vec::new() }
    }

    pub(super) async fn play(&mut self, calls: usize) {
        let mut tree = self.test.tree();
        for _ in 0..calls {
            let (tool, input) = self.choose(&tree);
            tree = self.make(tree, tool, input).await;
        }
    }

    /// Makes a call. Returns the tree after it.
    async fn make(&mut self, before: Tree, tool: &str, input: Value) -> Tree {
        if matches!(tool, "write" | "edit") && self.random.below(4) > 0 {
            let look = ToolCall::new("read", json!({"path": input["path"]}));
            self.test.windlass.call(&self.session, look).await;
        }
        self.log.push(format!("{tool} {input}"));
        let result = self.test.windlass.call(&self.session, ToolCall::new(tool, input)).await;
        self.log.push(format!(
            "  {} {:?}: {}",
            result.call,
            result.outcome,
            first_line(&text(&result))
        ));
        let now = self.test.tree();
        if result.outcome != Outcome::Ok {
            before.assert_same(
                &now,
                &self.failure_message("a call that failed left something behind"),
            );
            return now;
        }
        if tool == "undo" {
            let (_, then) = self.stack.pop().expect("something was undone");
            then.assert_same(&now, &self.failure_message("undo did not bring back what was there"));
            return now;
        }
        if before != now {
            self.stack.push((result.call, before));
        }
        now
    }

    /// Checks that the history has exactly the calls whose changes are in effect: no failed call, and no call twice.
    pub(super) fn check_record(&self) {
        let query = CheckpointQuery::Session(self.session.id().clone());
        let found = self.test.windlass.history().checkpoints(&query).expect("a history");
        let mut recorded: Vec<&CallId> = found
            .iter()
            .filter(|one| one.can_be_undone() && !one.origin.is_undo())
            .map(|one| &one.origin.call)
            .collect();
        recorded.reverse();
        let made: Vec<&CallId> = self.stack.iter().map(|(call, _)| call).collect();
        assert_eq!(recorded, made, "{}", self.failure_message("the record is not what happened"));
    }

    /// Returns a failure message with all calls so far.
    pub(super) fn failure_message(&self, what: &str) -> String {
        format!("{what}, after\n{}", self.log.join("\n"))
    }

    fn choose(&mut self, tree: &Tree) -> (&'static str, Value) {
        loop {
            let chosen = match self.random.below(14) {
                0 => Some(("write", self.create(tree))),
                1 | 2 => self.overwrite(tree).map(|input| ("write", input)),
                3 => self.append(tree).map(|input| ("write", input)),
                4 | 5 => self.edit(tree).map(|input| ("edit", input)),
                6 | 7 => self.patch(tree).map(|input| ("patch", input)),
                8..=10 => self.delta(tree).map(|input| ("delta", input)),
                11 | 12 => (!self.stack.is_empty()).then(|| ("undo", json!({}))),
                _ => self.failing(tree),
            };
            if let Some(chosen) = chosen {
                return chosen;
            }
        }
    }

    /// Returns a new name, sometimes in missing directories, sometimes not in UTF-8.
    fn new_name(&mut self, tree: &Tree) -> PathBuf {
        let inside = [PathBuf::new(), "new".into(), "new/deeper".into()];
        let directories = [tree.directories(), inside.to_vec()].concat();
        loop {
            let directory = self.random.pick(&directories).expect("there is one");
            let number = self.random.below(1_000);
            let path = match self.random.below(6) {
                0 => directory.join(format!("caf\u{e9}{number}")),
                1 => directory.join(OsStr::from_bytes(&[b'n', 0xff, self.random.byte() | 0x80])),
                2 => directory.join(format!("a b {number}.log")),
                _ => directory.join(format!("n{number}.txt")),
            };
            if !tree.has(&path)
                && !path.ancestors().skip(1).any(|above| tree.bytes(above).is_some())
            {
                return path;
            }
        }
    }

    fn content(&mut self) -> String {
        let ending = self.random.pick(&["\n", "\n", "\r\n"]).expect("one");
        let lines = self.random.below(8);
        let lines: Vec<String> =
            (0..lines).map(|_| format!("line {}{ending}", self.random.below(50))).collect();
        let mut content = lines.concat();
        if self.random.one_in(4) {
            content.push_str("no newline at the end: é日");
        }
        content
    }

    fn create(&mut self, tree: &Tree) -> Value {
        let (path, content) = (self.new_name(tree), self.content());
        json!({"path": quoted(&path), "content": content, "mode": "create"})
    }

    fn overwrite(&mut self, tree: &Tree) -> Option<Value> {
        let path = self.random.pick(&[tree.files(), tree.symlinks()].concat())?;
        Some(json!({"path": quoted(&path), "content": self.content()}))
    }

    fn append(&mut self, tree: &Tree) -> Option<Value> {
        let path = self.random.pick(&tree.files())?;
        Some(json!({"path": quoted(&path), "content": self.content(), "mode": "append"}))
    }

    fn edit(&mut self, tree: &Tree) -> Option<Value> {
        let path = self.random.pick(&tree.files())?;
        let content = String::from_utf8(tree.bytes(&path)?.to_vec()).ok()?;
        let lines: Vec<&str> = content.lines().filter(|line| !line.is_empty()).collect();
        let old = self.random.pick(&lines)?;
        let new = format!("edited {}", self.random.below(1_000));
        Some(
            json!({"path": quoted(&path), "old_string": old, "new_string": new, "replace_all": true}),
        )
    }

    /// Returns a patch that adds, changes, moves and deletes several files.
    fn patch(&mut self, tree: &Tree) -> Option<Value> {
        let mut files: Vec<PathBuf> = tree.files();
        files.retain(|path| is_plain(path) && tree.bytes(path).is_some_and(is_plain_text));
        let mut sections: Vec<String> = Vec::new();
        for _ in 0..=self.random.below(3) {
            let new = self.new_name(tree);
            let new = quoted(&new);
            let is_free =
                is_plain(Path::new(&new)) && !sections.iter().any(|one| one.contains(&new));
            let section = match self.random.below(4) {
                0 => is_free.then(|| format!("*** Add File: {new}\n+new\n+file\n")),
                kind => self.random.pick(&files).map(|path| {
                    files.retain(|other| *other != path);
                    let to = Some(&*new).filter(|_| is_free && kind == 2);
                    self.patch_of(tree, &path, kind == 1, to)
                }),
            };
            sections.extend(section);
        }
        let patch = format!("*** Begin Patch\n{}*** End Patch\n", sections.concat());
        (!sections.is_empty()).then(|| json!({"patch": patch}))
    }

    /// Returns the part of a patch for one file.
    fn patch_of(&mut self, tree: &Tree, path: &Path, is_gone: bool, to: Option<&str>) -> String {
        let name = path.display();
        if is_gone {
            return format!("*** Delete File: {name}\n");
        }
        let content = tree.bytes(path).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let first = content.and_then(|text| text.lines().next()).unwrap_or_default();
        let moved = to.map(|to| format!("*** Move to: {to}\n")).unwrap_or_default();
        let new = self.random.below(1_000);
        format!("*** Update File: {name}\n{moved}@@\n-{first}\n+patched {new}\n")
    }

    /// Returns changes that no tool makes but a process may.
    fn delta(&mut self, tree: &Tree) -> Option<Value> {
        let mut changes = Vec::new();
        let mut taken: Vec<PathBuf> = Vec::new();
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            let Some(more) = self.change(tree) else { continue };
            let paths: Vec<PathBuf> = more
                .iter()
                .flat_map(|change| [&change["path"], &change["from"], &change["with"]])
                .filter_map(|path| path.as_str().map(quote::unpath))
                .collect();
            // A delta has one final state for each file.
            let paths: Vec<PathBuf> = paths.iter().flat_map(|path| tree.all_names(path)).collect();
            let overlap = |path: &PathBuf| {
                taken.iter().any(|other| path.starts_with(other) || other.starts_with(path))
            };
            if paths.iter().any(overlap) {
                continue;
            }
            taken.extend(paths);
            changes.extend(more);
        }
        (!changes.is_empty()).then(|| json!({"changes": changes}))
    }

    fn change(&mut self, tree: &Tree) -> Option<Vec<Value>> {
        let new = self.new_name(tree);
        let new = quoted(&new);
        let any_file = self.random.pick(&tree.files());
        Some(match self.random.below(13) {
            0 => vec![json!({"path": new, "to": "symlink", "target": "somewhere/else"})],
            1 => {
                let link = self.random.pick(&tree.symlinks())?;
                let target = format!("another/{}", self.random.below(1_000));
                vec![json!({"path": quoted(&link), "to": "symlink", "target": target})]
            }
            2 => {
                let link = self.random.pick(&tree.symlinks())?;
                vec![json!({"path": quoted(&link), "to": "file", "content": "was a link\n"})]
            }
            3 => vec![
                json!({"path": new, "to": "directory", "mode": 0o750}),
                json!({"path": format!("{new}/inside"), "to": "file", "content": "x", "mode": 0o755}),
            ]
            .into_iter()
            .take(if new.starts_with('$') { 1 } else { 2 })
            .collect(),
            4 => {
                let file = any_file?;
                let modes = [0o600, 0o755, 0o640, 0o444].map(Some);
                let mode = self.random.pick(&modes).filter(|mode| *mode != tree.mode(&file))?;
                vec![json!({"path": quoted(&file), "to": "mode", "mode": mode})]
            }
            5 => {
                let directory = self.random.pick(&tree.directories())?;
                let modes = [0o700, 0o750, 0o755].map(Some);
                let mode = self.random.pick(&modes).filter(|mode| *mode != tree.mode(&directory))?;
                vec![json!({"path": quoted(&directory), "to": "mode", "mode": mode})]
            }
            6 => {
                let name = self.random.pick(&tree.linked_files())?;
                vec![json!({"path": quoted(&name), "to": "nothing"})]
            }
            7 => vec![json!({"path": new, "to": "linked", "with": quoted(&any_file?)})],
            8 => vec![json!({"path": quoted(&any_file?), "to": "nothing"})],
            9 => vec![json!({"path": quoted(&any_file?), "to": "symlink", "target": "was/a/file"})],
            10 => vec![json!({"path": new, "to": "moved", "from": quoted(&any_file?)})],
            11 => {
                let content = "moved and written\n";
                vec![json!({"path": new, "to": "moved", "from": quoted(&any_file?), "content": content})]
            }
            _ => {
                // In the order of `rm -r`.
                let directory = self.random.pick(&tree.directories())?;
                let mut all = tree.below(&directory);
                all.push(directory);
                all.iter().map(|path| json!({"path": quoted(path), "to": "nothing"})).collect()
            }
        })
    }

    /// Returns a call that must fail: a missing file, or a patch that fails in the middle.
    fn failing(&mut self, tree: &Tree) -> Option<(&'static str, Value)> {
        let path = self.random.pick(&tree.files())?;
        let name = quoted(&path);
        Some(match self.random.below(4) {
            0 => ("edit", json!({"path": name, "old_string": "it is not there", "new_string": ""})),
            1 => ("write", json!({"path": name, "content": "x", "mode": "create"})),
            2 => (
                "patch",
                json!({"patch": format!(
                    "*** Begin Patch\n*** Add File: left/behind\n+x\n*** Update File: {}\n@@\n-nowhere\n+x\n*** End Patch",
                    path.display()
                )}),
            ),
            _ => (
                "delta",
                json!({"changes": [
                    {"path": "left/behind", "to": "file", "content": "x"},
                    {"path": name, "to": "file", "content": "x", "stale": true},
                ]}),
            ),
        })
    }
}

/// Formats a path as tools accept it.
pub(super) fn quoted(path: &Path) -> String {
    quote::path(path).into_owned()
}

/// Returns whether a patch can contain this path unquoted.
fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|name| quoted(path) == name && !name.contains(' '))
}

fn is_plain_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(['\0', '\r']) && text.contains('\n'))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
