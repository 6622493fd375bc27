//! Formats the changes that an approval is about as a diff for a person.

mod moves;
mod summary;

use std::borrow::Cow;
use std::path::Path;

use windlass_core::{ApprovalRequest, BuiltChange, FileChange, GitRecord, git_record, quote};
use windlass_tools::diff::{Diff, DiffFormat, FileVersion, render_file};
use windlass_tools::format_size;

use self::moves::Moves;

/// Maximum number of lines of a diff that are shown with a question; a longer diff is shown as a list of files.
const MAX_SHOWN_LINES: usize = 2_000;
/// Maximum bytes of a diff that are shown with a question: a line can have any length.
const MAX_SHOWN_BYTES: usize = 1 << 20;

/// The changes that an approval is about, as text: every changed line once, also of deleted files, the names of moved and of binary files,
/// and a line for each build directory.
///
/// Control characters and characters that change the direction of text are escaped, so that a terminal cannot be tricked; only the text's
/// own colours act on it.
///
/// ```
/// use windlass::people::{ApprovalRequest, Difference};
/// use windlass::tool::diff::DiffFormat;
/// fn show(request: &ApprovalRequest) -> String {
///     Difference::of(request, &DiffFormat::plain()).shown()
/// }
/// # drop(show);
/// ```
#[derive(Debug, Clone)]
pub struct Difference {
    /// The diff with every changed line.
    pub whole: String,
    /// A line for each file, or a summary by directory if there are many files.
    pub by_file: String,
    /// The command that shows the whole diff, if there is one.
    handle: Option<String>,
}

impl Difference {
    /// Formats the changes of an approval.
    pub fn of(request: &ApprovalRequest, look: &DiffFormat) -> Self {
        let workspace = request.workspace.as_path();
        // A trial's changes are not held, so no command can show them.
        let handle = request.has_run.then(|| format!("windlass policy diff {}", request.id));
        Self::between(&request.changes, &request.built, workspace, look, handle)
    }

    /// Formats changes of files and build directories of a workspace. `handle` is the command that shows the whole diff.
    pub fn between(
        changes: &[FileChange],
        built: &[BuiltChange],
        workspace: &Path,
        look: &DiffFormat,
        handle: Option<String>,
    ) -> Self {
        let (mut whole, mut by_file) = (String::new(), String::new());
        let objects = changes.iter().filter(|change| is_git_object(change)).count();
        let files = || changes.iter().filter(|change| !is_git_object(change));
        let moves = Moves::among(changes);
        for change in files() {
            match moves.line(change, workspace) {
                Some(line) => whole.push_str(&line),
                None => whole.push_str(&changed_lines(change, workspace, look)),
            }
        }
        if changes.len() > summary::MAX_LISTED_FILES {
            by_file =
                summary::summary(changes, workspace, &|change| change_line(change, workspace));
        } else {
            let line = |change: &FileChange| {
                moves.line(change, workspace).unwrap_or_else(|| change_line(change, workspace))
            };
            by_file.extend(files().map(line));
        }
        for one in built {
            let name = relative_name(&one.path, workspace);
            let what = match one.files {
                0 => "files removed, or modes changed".to_owned(),
                files => format!("{}, {}", count_files(files), format_size(one.bytes)),
            };
            // It has no history.
            let line = format!("build directory {name}/: {what}; cannot be undone\n");
            whole.push_str(&line);
            by_file.push_str(&line);
        }
        if objects > 0 {
            let line = format!("git objects: {}\n", count_files(objects as u64));
            whole.push_str(&line);
            by_file.push_str(&line);
        }
        let [whole, by_file] = [whole, by_file].map(|text| quote::undisguised(&text));
        Self { whole, by_file, handle }
    }

    /// Returns whether the whole diff is too long to be shown with a question.
    pub fn is_long(&self) -> bool {
        self.whole.len() > MAX_SHOWN_BYTES || self.whole.lines().count() > MAX_SHOWN_LINES
    }

    /// Returns the whole diff or, if it is too long, the list of files.
    pub fn shown(&self) -> String {
        if !self.is_long() {
            return self.whole.clone();
        }
        let lines = self.whole.lines().count();
        let handle = self.handle.as_ref().map(|handle| format!("; `{handle}` shows them"));
        format!("{}({lines} lines in all{})\n", self.by_file, handle.unwrap_or_default())
    }
}

/// Returns whether a change creates a Git object, which is compressed and named by its hash, or a directory for objects. A link or an
/// executable file is none.
fn is_git_object(change: &FileChange) -> bool {
    let is_plain = || {
        let detail = change.detail.as_deref();
        detail.is_none_or(|detail| detail.starts_with("too long to be shown: "))
    };
    match git_record(&change.path) {
        Some(GitRecord::Object) => change.verb == "create" && is_plain(),
        Some(GitRecord::ObjectDirectory) => change.verb == "make",
        _ => false,
    }
}

/// Formats a path relative to the workspace.
fn relative_name(path: &Path, workspace: &Path) -> String {
    quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned()
}

/// Formats the changed lines of a file, or one line that names the file if there are none to show.
fn changed_lines(change: &FileChange, workspace: &Path, look: &DiffFormat) -> String {
    let (before, after) = (&change.before, &change.after);
    let is_shown = after.is_some() || (before.is_some() && change.verb == "delete");
    if !is_shown {
        return change_line(change, workspace);
    }
    // If the contents are equal, only the mode or another attribute has changed.
    if before == after {
        return change_headline(change, workspace, None);
    }
    let [before, after] = [before, after].map(|content| content.as_deref().map(without_nul));
    let name = change.path.strip_prefix(workspace).unwrap_or(&change.path);
    let before = before.as_deref().map(|content| FileVersion::of(name, content));
    let after = after.as_deref().map(|content| FileVersion::of(name, content));
    let mut report = render_file(before.as_ref(), after.as_ref(), look);
    if let Some(detail) = &change.detail {
        report.headline.extend([", ", &quote::visible(detail)]);
    }
    report.to_string()
}

/// Replaces NUL characters by `\x00` in a valid UTF-8 text. A shell runs a script with NULs, so it must not be shown as a binary file.
fn without_nul(content: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(content) {
        Ok(text) if text.contains('\0') => Cow::Owned(text.replace('\0', "\\x00").into_bytes()),
        _ => Cow::Borrowed(content),
    }
}

/// Formats one line about a file: its change, and the number of added and removed lines.
fn change_line(change: &FileChange, workspace: &Path) -> String {
    let counted = match (text_of(change.before.as_deref()), text_of(change.after.as_deref())) {
        _ if change.before.is_none() && change.after.is_none() => {
            let is_other =
                |detail: &str| !["mode ", "attribute "].iter().any(|it| detail.starts_with(it));
            let is_other = change.detail.as_deref().is_some_and(is_other);
            let has_content = matches!(change.verb, "create" | "change") && !is_other;
            has_content.then(|| "its content is not shown".to_owned())
        }
        (Some(before), Some(after)) => {
            let diff = Diff::between(before, after);
            Some(format!("+{} -{}", diff.added(), diff.removed()))
        }
        _ => {
            let size = |content: &Option<Vec<u8>>| content.as_ref().map_or(0, Vec::len) as u64;
            let [before, after] =
                [&change.before, &change.after].map(|content| format_size(size(content)));
            Some(format!("binary, {before} to {after}"))
        }
    };
    change_headline(change, workspace, counted)
}

/// Returns a content as text; `None` if it is binary. A missing content is an empty text.
fn text_of(content: Option<&[u8]>) -> Option<&str> {
    match content {
        None => Some(""),
        Some(bytes) if bytes.contains(&0) => None,
        Some(bytes) => std::str::from_utf8(bytes).ok(),
    }
}

/// Formats the verb and the name of a changed file, with the counts and the detail in parentheses.
fn change_headline(change: &FileChange, workspace: &Path, counted: Option<String>) -> String {
    let name = relative_name(&change.path, workspace);
    let counted = counted.map(|counted| format!(" ({counted})")).unwrap_or_default();
    format!("{} {name}{counted}{}\n", change.verb, change_detail(change))
}

/// Formats the detail of a change in parentheses; empty if it has none.
fn change_detail(change: &FileChange) -> String {
    let detail = change.detail.as_deref();
    detail.map(|detail| format!(" ({})", quote::visible(detail))).unwrap_or_default()
}

/// Formats a number of files: `1 file`, `2 files`.
fn count_files(files: u64) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(verb: &'static str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileChange {
        let content = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let (before, after) = (content(before), content(after));
        FileChange { path: "/w/a".into(), verb, before, after, detail: None }
    }

    #[test]
    fn build_directories_are_measured_in_the_units_of_every_other_text() {
        for (files, bytes, expected) in [
            (0, 0, "files removed, or modes changed"),
            (1, 812, "1 file, 812 B"),
            (2, 1_989_000, "2 files, 1.8 MiB"),
        ] {
            let built = [BuiltChange { path: "/w/target".into(), files, bytes }];
            let look = DiffFormat::plain();
            let shown = Difference::between(&[], &built, Path::new("/w"), &look, None).shown();
            assert_eq!(shown, format!("build directory target/: {expected}; cannot be undone\n"));
        }
    }

    fn diff_of(changes: &[FileChange]) -> Difference {
        let built = [BuiltChange { path: "/w/target".into(), files: 3, bytes: 45_000 }];
        Difference::between(
            changes,
            &built,
            Path::new("/w"),
            &DiffFormat::plain().whole(),
            Some("x".into()),
        )
    }

    #[test]
    fn git_objects_are_counted_not_shown() {
        let object =
            |path: &str| FileChange { path: path.into(), ..change("create", None, Some(b"x\x01")) };
        let hash = "825dc642cb6eb9a060e54bf8d69288fbee4904";
        let below = |name: &str| format!("/w/.git/objects/{name}");
        let with = |path: &str, detail: &str| FileChange {
            detail: Some(detail.into()),
            ..object(&below(path))
        };
        let loose = format!("ab/{hash}");
        let changes = [
            FileChange { verb: "make", ..object(&below("ab")) },
            object(&below(&loose)),
            with(&format!("pack/pack-4b{hash}.idx"), "too long to be shown: 1 bytes"),
            object(&below("info/alternates")),
            change("create", None, Some(b"new\n")),
        ];
        let shown = diff_of(&changes).shown();
        assert!(shown.contains("git objects: 3 files\n"), "{shown}");
        assert!(shown.contains("info/alternates") && shown.contains("+new"), "{shown}");
        for listed in [
            object(&below("aa")),
            object(&below("aa/evil.sh")),
            with("aa/evil.sh", "mode 755"),
            object(&below("pack/pack-evil.idx")),
            object(&below(&format!("pack/pack-4b{hash}.sh"))),
            object(&below(&format!("ab/{hash}/x"))),
            with(&loose, "mode 755"),
            with(&loose, "a link to /x"),
        ] {
            let shown = diff_of(std::slice::from_ref(&listed)).shown();
            assert!(!shown.contains("git objects"), "{shown}");
            let name = relative_name(&listed.path, Path::new("/w"));
            let detail = listed.detail.unwrap_or_default();
            assert!(shown.contains(&name) && shown.contains(&detail), "{name} {detail}: {shown}");
        }
    }

    #[test]
    fn every_kind_of_change_has_its_line() {
        let long = "x\n".repeat(3_000);
        for (change, expected) in [
            (change("change", Some(b"one\n"), Some(b"two\n")), "-one\n+two\n"),
            (change("create", None, Some(b"new\n")), "+new\n"),
            (
                change("delete", Some(b"one\ntwo\n"), None),
                "deleted a: +0 -2\n@@ -1,2 +0,0 @@\n-one\n-two\n",
            ),
            (change("create", None, None), "create a (its content is not shown)\n"),
            (change("make", None, None), "make a\n"),
            (change("set mode of", Some(b"one\n"), Some(b"one\n")), "set mode of a\n"),
            (change("delete", Some(b"\0\xff"), None), "deleted a: binary, 2 B"),
            (change("create", None, Some(b"rm -r x\0\0\n")), "+rm -r x\\x00\\x00\n"),
        ] {
            let shown = diff_of(std::slice::from_ref(&change)).shown();
            assert!(shown.contains(expected), "{change:?}: {shown}");
            assert!(
                shown.ends_with("build directory target/: 3 files, 43 KiB; cannot be undone\n"),
                "{shown}"
            );
        }
        let shown = diff_of(&[change("create", None, Some(long.as_bytes()))]).shown();
        assert!(shown.starts_with("create a (+3000 -0)\nbuild directory"), "{shown}");
        assert!(shown.contains("`x` shows them"), "{shown}");
        let one_line = "x".repeat(2 << 20);
        let wide = diff_of(&[change("create", None, Some(one_line.as_bytes()))]);
        assert!(wide.shown().starts_with("create a (+1 -0)\nbuild directory"), "{}", wide.by_file);
        assert!(wide.is_long() && wide.whole.contains(&one_line));
        let gone = diff_of(&[change("delete", Some(long.as_bytes()), None)]).shown();
        assert!(gone.starts_with("delete a (+0 -3000)\n"), "{gone}");
    }

    /// Counts of lines are those of contents that were read.
    #[test]
    fn counts_are_shown_only_with_contents() {
        for (verb, detail, expected) in [
            (
                "change",
                Some("too long to be shown: 1 bytes → 2 bytes"),
                "change a (too long to be shown: 1 bytes → 2 bytes)\n",
            ),
            (
                "delete",
                Some("too long to be shown: 1 bytes"),
                "delete a (too long to be shown: 1 bytes)\n",
            ),
            ("change", Some("mode 755"), "change a (its content is not shown) (mode 755)\n"),
            ("change", None, "change a (its content is not shown)\n"),
        ] {
            let detail = detail.map(str::to_owned);
            let shown = diff_of(&[FileChange { detail, ..change(verb, None, None) }]);
            for text in [&shown.whole, &shown.by_file] {
                assert!(text.starts_with(expected), "{expected}: {text}");
            }
        }
    }

    #[test]
    fn moved_file_is_named_without_its_lines() {
        let gone = |path: &str, text: &[u8]| FileChange {
            path: path.into(),
            ..change("delete", Some(text), None)
        };
        let new = |path: &str, text: &[u8]| FileChange {
            path: path.into(),
            ..change("create", None, Some(text))
        };
        let mode = FileChange { detail: Some("mode 755".into()), ..new("/w/new", b"x\n") };
        for (changes, expected) in [
            (vec![gone("/w/old", b"x\n"), new("/w/new", b"x\n")], "moved old -> new\n"),
            (vec![new("/w/a", b"\0\xff"), gone("/w/b", b"\0\xff")], "moved b -> a\n"),
            (vec![gone("/w/old", b"x\n"), mode], "moved old -> new (mode 755)\n"),
            // The same name is the likelier pair.
            (
                vec![gone("/w/b/f", b"x\n"), gone("/w/b/g", b"x\n"), new("/w/g", b"x\n")],
                "deleted b/f: +0 -1\n@@ -1 +0,0 @@\n-x\nmoved b/g -> g\n",
            ),
            (vec![gone("/w/old", b"x\n"), new("/w/new", b"y\n")], "-x\n"),
            (vec![gone("/w/old", b""), new("/w/new", b"")], "deleted old"),
            // A file that git runs or obeys is shown with its lines.
            (vec![gone("/w/old", b"x\n"), new("/w/.git/hooks/h", b"x\n")], "+x\n"),
        ] {
            let shown = diff_of(&changes).shown();
            assert!(shown.contains(expected), "{changes:?}: {shown}");
            let is_moved = expected.contains("moved ");
            assert_eq!(shown.contains("moved "), is_moved, "{changes:?}: {shown}");
            assert!(!is_moved || !shown.contains("+x"), "{changes:?}: {shown}");
        }
        let long = "x\n".repeat(3_000);
        let changes =
            [gone("/w/old", b"x\n"), new("/w/new", b"x\n"), new("/w/long", long.as_bytes())];
        let shown = diff_of(&changes).shown();
        assert!(shown.starts_with("moved old -> new\ncreate long (+3000 -0)\n"), "{shown}");
    }

    #[test]
    fn name_is_quoted_once() {
        let change = FileChange {
            path: "/w/\u{202e}gnp.txt".into(),
            ..change("create", None, Some(b"x\n"))
        };
        let shown = diff_of(&[change]).shown();
        assert!(shown.starts_with("created $'\\xe2\\x80\\xaegnp.txt': +1 -0\n"), "{shown}");
    }

    #[test]
    fn summary_of_many_files_is_short_and_names_deletions_and_links() {
        let many = (0..5_000).map(|number| FileChange {
            path: format!("/w/gen/{}/{number}", number % 7).into(),
            ..change("create", None, Some(b"x\n"))
        });
        let gone = FileChange { path: "/w/src/a".into(), ..change("delete", Some(b"x\n"), None) };
        let link = FileChange {
            path: "/w/l".into(),
            detail: Some("a link to /x".into()),
            ..change("create", None, None)
        };
        let changes: Vec<FileChange> = many.chain([gone, link]).collect();
        let shown = diff_of(&changes).shown();
        assert!(shown.lines().count() < 60, "{shown}");
        for line in [
            "5002 files: create 5001, delete 1\n",
            "  below gen/0/: create 715\n",
            "  below src/: delete 1\n",
            "delete src/a (+0 -1)\n",
            "create l (a link to /x)\n",
            "and 4982 more files\n",
            "`x` shows them",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
}
