//! `glob`: lists the files whose names match a pattern, the newest first.
//!
//! The newest files are only known after all matching files are seen, so a walk cannot end at `limit`. Its cost is bounded otherwise: a
//! file that does not match costs no system call, the walk starts below the literal part of the pattern and goes no deeper than the
//! pattern can match, and only the `limit` newest files are kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Content, Context, EffectKinds, Effects, Entry, FileKind, Output, PlanContext, Planned,
    PlannedTool, ToolDetails, ToolError, Visitor, Walk, WalkSettings, quote,
};

use crate::format::{self, Notes, Root};
use crate::parameter_defaults::{five_hundred, here};
use crate::pattern::{self, Pattern};

/// The `glob` tool.
pub(crate) struct Glob;

/// Find files by name, newest first, without ignored files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Glob: `*.rs` (at any depth), `src/**/*.{ts,tsx}` …
    pattern: String,
    /// Directory to search.
    #[serde(default = "here")]
    path: PathBuf,
    /// Include ignored files.
    #[serde(default)]
    all: bool,
    /// Maximum number of files.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

impl PlannedTool for Glob {
    const NAME: &'static str = "glob";
    const KINDS: EffectKinds = EffectKinds::READ;
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Find files")
    }

    type Plan = GlobPlan;

    fn plan(&self, args: Args, _: &PlanContext<'_>) -> Result<Planned<GlobPlan>, ToolError> {
        let pattern = Pattern::below(&args.pattern)?;
        let start = start(&args);
        Ok(Planned { effects: Effects::read_tree(&start), plan: GlobPlan { args, pattern, start } })
    }

    async fn call(&self, cx: &Context, plan: GlobPlan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| find_files(cx, plan)).await?
    }
}

/// The parsed arguments of one call, with the directory in which the walk starts.
pub(crate) struct GlobPlan {
    args: Args,
    pattern: Pattern,
    start: PathBuf,
}

/// Returns the directory in which the walk starts: the directory of the call, joined with the literal part of the pattern.
fn start(args: &Args) -> PathBuf {
    let (directory, _) = pattern::split(&args.pattern);
    if directory.as_os_str().is_empty() {
        return args.path.clone();
    }
    args.path.to_str().map_or_else(|| args.path.clone(), quote::unpath).join(directory)
}

/// The pattern and the directory of a walk.
struct GlobSearch {
    pattern: Pattern,
    start: PathBuf,
    root: Root,
}

/// Walks the directory and lists the newest matching files.
fn find_files(cx: &Context, plan: GlobPlan) -> Result<Output, ToolError> {
    let GlobPlan { args, pattern, start } = plan;
    let args = &args;
    let root = Root::of(cx, &start)?;
    let search = GlobSearch { pattern, start, root };
    let all = Mutex::new(NewestFiles::new(args.limit));
    let settings = WalkSettings { ignore_files: !args.all, ..search.settings() };
    let report = cx.files().walk(&search.start, settings, &|| {
        Box::new(MatchCollector { search: &search, found: NewestFiles::new(args.limit), all: &all })
    })?;
    let found = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (count, truncated) = (found.files.len(), found.matching > found.files.len());
    let mut output = if count == 0 {
        Output::error(explain_nothing(cx, args, &search, &found)?)
    } else {
        Output::text(list_files(found, args, &search.root))
    };
    if let Some(Content::Text { text }) = output.content.first_mut() {
        Notes::from(report).push_to(text, &search.root);
    }
    Ok(output.with("count", count).with("truncated", truncated))
}

impl GlobSearch {
    /// Returns walk settings that go as deep as the pattern can match.
    fn settings(&self) -> WalkSettings {
        let max_depth = self.pattern.depth().unwrap_or(usize::MAX);
        WalkSettings { max_depth, ..WalkSettings::default() }
    }

    /// Returns whether an entry matches. If the start of the walk is itself a file, its name must match.
    fn matches(&self, entry: &Entry<'_>) -> bool {
        if !entry.path.as_os_str().is_empty() {
            return self.pattern.matches(entry.path);
        }
        let path = self.root.join(entry.path);
        path.file_name().is_some_and(|name| self.pattern.matches(Path::new(name)))
    }
}

/// Lists the files, with a last line if there were more.
fn list_files(found: NewestFiles, args: &Args, root: &Root) -> String {
    let (count, matching) = (found.files.len(), found.matching);
    let mut text = String::new();
    for Reverse((_, Reverse(path))) in found.files.into_sorted_vec() {
        format::push_line(&mut text, &root.show(&path));
    }
    if matching > count {
        let more = format!(
            "[the newest {count} of {matching} files; a narrower pattern or a higher `limit` (now {}) shows more]",
            args.limit
        );
        format::push_line(&mut text, &more);
    }
    text
}

/// Says that no file matched, and names changes of the call that would find files.
fn explain_nothing(
    cx: &Context,
    args: &Args,
    search: &GlobSearch,
    found: &NewestFiles,
) -> Result<String, ToolError> {
    let pattern = quote::visible(&args.pattern);
    let mut text = format!("no file matches `{pattern}` in {}", search.root.show(Path::new("")));
    if found.directories > 0 {
        let anywhere = if pattern.contains('/') { "" } else { "**/" };
        let directories = format::count(found.directories, "directory does", "directories do");
        let how = format!("{directories}: `{anywhere}{pattern}/**` finds the files in it");
        format::push_line(&mut text, &how);
    }
    if !args.all
        && let Some(ignored) = count_ignored(cx, search)?
    {
        format::push_line(&mut text, &format!("`all:true` finds {ignored} ignored"));
    }
    if pattern.contains('[') {
        let how = "`[…]` is one character of a class: write `\\[` for the character itself";
        format::push_line(&mut text, how);
    }
    Ok(text)
}

/// Counts matching files that are ignored, within a bounded number of entries; `None` if there are none.
fn count_ignored(cx: &Context, search: &GlobSearch) -> Result<Option<String>, ToolError> {
    let count = Mutex::new((0, MAX_IGNORED_SCAN_ENTRIES));
    // A single thread visits entries in the order of names, so that the result is the same every time.
    let settings = WalkSettings { ignore_files: false, threads: 1, ..search.settings() };
    cx.files()
        .walk(&search.start, settings, &|| Box::new(IgnoredCounter { search, count: &count }))?;
    let (files, left) = count.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shown = format::count(files, "file that is", "files that are");
    Ok(match (files, left) {
        (0, _) => None,
        (_, 0) => Some(format!("at least {shown}")),
        _ => Some(shown),
    })
}

/// Limit of the entries in a search for ignored files. It serves only a hint, so it must be cheap.
const MAX_IGNORED_SCAN_ENTRIES: usize = 20_000;

/// Counts matching files until its budget of entries is used up.
struct IgnoredCounter<'a> {
    search: &'a GlobSearch,
    /// Number of matching files, and number of entries that may still be visited.
    count: &'a Mutex<(usize, usize)>,
}

impl Visitor for IgnoredCounter<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, left) = &mut *count;
        *files += usize::from(entry.kind == FileKind::File && self.search.matches(entry));
        *left = left.saturating_sub(1);
        if *left == 0 { Walk::Stop } else { Walk::Continue }
    }
}

/// Collects the newest matching files in one thread, and adds them to `all` at the end.
struct MatchCollector<'a> {
    search: &'a GlobSearch,
    found: NewestFiles,
    all: &'a Mutex<NewestFiles>,
}

impl Visitor for MatchCollector<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        match entry.kind {
            FileKind::File if self.search.matches(entry) => self.found.add(entry),
            FileKind::Directory if self.search.matches(entry) => self.found.directories += 1,
            _ => {}
        }
        Walk::Continue
    }
}

impl Drop for MatchCollector<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(&mut self.found);
    }
}

/// Time of the last change and path of a file: the newer file is greater; of two with equal times, the one whose path sorts first.
type DatedPath = (i64, Reverse<PathBuf>);

/// The newest of the matching files, and the number of all matches.
#[derive(Debug)]
struct NewestFiles {
    limit: usize,
    /// Kept files, with the oldest on top.
    files: BinaryHeap<Reverse<DatedPath>>,
    matching: usize,
    directories: usize,
}

impl NewestFiles {
    fn new(limit: usize) -> Self {
        Self { limit, files: BinaryHeap::new(), matching: 0, directories: 0 }
    }

    /// Counts a matching file, and keeps it if it is among the newest.
    fn add(&mut self, entry: &Entry<'_>) {
        self.matching += 1;
        // A file whose time cannot be read still counts, as the oldest.
        let modified = entry.opener.stat().map_or(i64::MIN, |stat| stat.fingerprint.modified);
        self.keep(modified, entry.path);
    }

    /// Keeps the file if it is among the newest; allocates only then.
    fn keep(&mut self, modified: i64, path: &Path) {
        if self.has_room(modified, path) {
            self.files.push(Reverse((modified, Reverse(path.to_owned()))));
        }
    }

    /// Returns whether the file is among the newest, and removes the oldest kept file to make room.
    fn has_room(&mut self, modified: i64, path: &Path) -> bool {
        if self.files.len() < self.limit {
            return true;
        }
        let newer = self.files.peek().is_some_and(|Reverse((oldest, Reverse(last)))| {
            (modified, Reverse(path)) > (*oldest, Reverse(last.as_path()))
        });
        newer && self.files.pop().is_some()
    }

    /// Adds the files and counts of another thread.
    fn merge(&mut self, other: &mut Self) {
        self.matching += other.matching;
        self.directories += other.directories;
        for file in other.files.drain() {
            let Reverse((modified, Reverse(path))) = &file;
            if self.has_room(*modified, path) {
                self.files.push(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use windlass_core::{Outcome, Overrides};

    use super::*;
    use crate::testing::{InterceptingHost, Workspace};

    const TREE: &[(&str, &str)] = &[
        ("Cargo.toml", ""),
        ("src/lib.rs", ""),
        ("src/a/mod.rs", ""),
        ("src/a/test/x.go", ""),
        ("src/test/y.go", ""),
        ("src2/lib.rs", ""),
        ("app/[id]/page.tsx", ""),
        (".github/ci.yml", ""),
        (".git/config", ""),
    ];

    /// Makes a workspace with files of the same age, which are listed in the order of their paths.
    fn workspace(files: &[(&str, &str)]) -> Workspace {
        let workspace = Workspace::new(files);
        for (name, _) in files {
            set_mtime(&workspace, name, 1000);
        }
        workspace
    }

    #[expect(clippy::disallowed_methods, reason = "tests set the times that `glob` then reads")]
    fn set_mtime(workspace: &Workspace, name: &str, seconds: u64) {
        let file = std::fs::File::open(workspace.path(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - seconds))
            .unwrap();
    }

    fn check(files: &[(&str, &str)], input: Value, expected: &str) {
        let shown = input.to_string();
        assert_eq!(workspace(files).text("glob", input), expected, "{shown}");
    }

    #[test]
    fn every_parameter() {
        for (input, expected) in [
            (json!({"pattern": "*.rs"}), "src/a/mod.rs\nsrc/lib.rs\nsrc2/lib.rs"),
            (json!({"pattern": "lib.rs"}), "src/lib.rs\nsrc2/lib.rs"),
            (json!({"pattern": "*.rs", "path": "src"}), "src/a/mod.rs\nsrc/lib.rs"),
            (json!({"pattern": "src/*.rs"}), "src/lib.rs"),
            (json!({"pattern": "./src/*.rs"}), "src/lib.rs"),
            (json!({"pattern": "a/*.rs", "path": "src"}), "src/a/mod.rs"),
            (json!({"pattern": "../src2/*.rs", "path": "src"}), "src2/lib.rs"),
            (json!({"pattern": "./*"}), "Cargo.toml"),
            (json!({"pattern": "{src,src2}/*.rs"}), "src/lib.rs\nsrc2/lib.rs"),
            (json!({"pattern": "[a-c]*/**/m?d.rs", "path": "src"}), "src/a/mod.rs"),
            (json!({"pattern": "*.yml"}), ".github/ci.yml"),
            (json!({"pattern": r"app/\[id\]/*"}), "app/[id]/page.tsx"),
            (json!({"pattern": "src/a/"}), "src/a/mod.rs\nsrc/a/test/x.go"),
            (json!({"pattern": "*.rs", "path": "src/lib.rs"}), "src/lib.rs"),
            (
                json!({"pattern": "*.rs", "limit": 2}),
                "src/a/mod.rs\nsrc/lib.rs\n[the newest 2 of 3 files; a narrower pattern or a higher `limit` (now 2) shows more]",
            ),
        ] {
            check(TREE, input, expected);
        }
    }

    #[test]
    fn absolute_pattern_names_a_directory() {
        let workspace = workspace(TREE);
        let pattern = workspace.path("src/*.rs");
        assert_eq!(workspace.text("glob", json!({"pattern": pattern})), "src/lib.rs");
        let outside = workspace.call("glob", json!({"pattern": "/etc/*.conf"}));
        assert_eq!(outside.outcome, Outcome::Denied, "{}", outside.output.to_text());
    }

    #[test]
    fn newest_first() {
        let workspace = workspace(&[("a", ""), ("b", ""), ("c/d", ""), ("e", "")]);
        set_mtime(&workspace, "c/d", 1);
        set_mtime(&workspace, "e", 2000);
        assert_eq!(workspace.text("glob", json!({"pattern": "*"})), "c/d\na\nb\ne");
        let result = workspace.call("glob", json!({"pattern": "*", "limit": 3}));
        assert_eq!(result.output.metadata["count"], 3);
        assert_eq!(result.output.metadata["truncated"], true);
        assert!(result.output.to_text().starts_with("c/d\na\nb\n[the newest 3 of 4 files;"));
    }

    #[test]
    fn h36_stars_mean_what_they_say() {
        for (input, expected) in [
            (json!({"pattern": "src/**/test/*.go"}), "src/a/test/x.go\nsrc/test/y.go"),
            (json!({"pattern": "**/a/**/test/**"}), "src/a/test/x.go"),
            (json!({"pattern": "src/**/*.rs"}), "src/a/mod.rs\nsrc/lib.rs"),
        ] {
            check(TREE, input, expected);
        }
    }

    #[test]
    fn errata_3c_21_many_stars_take_no_longer() {
        let name = "a".repeat(200);
        let pattern = format!("{}b", "**/*a*".repeat(40));
        let result = workspace(&[(&name, "")]).call("glob", json!({"pattern": pattern}));
        assert_eq!(result.outcome, Outcome::Error, "nothing matches, and it is known soon");
    }

    #[test]
    fn g27_an_unreadable_directory_is_a_note() {
        let files = [("a.rs", ""), ("shut/b.rs", ""), ("z.rs", "")];
        let workspace = Workspace::on(&files, |local| InterceptingHost::locked(local, &["shut"]));
        for name in ["a.rs", "z.rs"] {
            set_mtime(&workspace, name, 1);
        }
        let note = "[left out: shut: the file system's permissions do not allow it]";
        assert_eq!(
            workspace.text("glob", json!({"pattern": "*.rs"})),
            format!("a.rs\nz.rs\n{note}")
        );
        let nothing = workspace.text("glob", json!({"pattern": "b.rs", "all": true}));
        assert_eq!(nothing, format!("no file matches `b.rs` in .\n{note}"));
        let missing = workspace.call("glob", json!({"pattern": "*.rs", "path": "nowhere"}));
        assert_eq!(missing.outcome, Outcome::Error);
        assert!(missing.output.to_text().contains("no such file"), "{}", missing.output.to_text());
    }

    #[test]
    fn no_match_suggests_a_pattern_that_matches() {
        let files = [
            (".gitignore", "target\n"),
            ("target/a.o", ""),
            ("target/b.o", ""),
            ("src/lib.rs", ""),
        ];
        for (input, expected) in [
            (json!({"pattern": "*.zig"}), "no file matches `*.zig` in ."),
            (json!({"pattern": "*.zig", "path": "src"}), "no file matches `*.zig` in src"),
            (
                json!({"pattern": "*.o"}),
                "no file matches `*.o` in .\n`all:true` finds 2 files that are ignored",
            ),
            (
                json!({"pattern": "a.o"}),
                "no file matches `a.o` in .\n`all:true` finds 1 file that is ignored",
            ),
            (
                json!({"pattern": "src"}),
                "no file matches `src` in .\n1 directory does: `**/src/**` finds the files in it",
            ),
            (
                json!({"pattern": "src/[id].rs"}),
                "no file matches `src/[id].rs` in src\n`[…]` is one character of a class: write `\\[` for the character itself",
            ),
        ] {
            let result = workspace(&files).call("glob", input);
            assert_eq!(result.outcome, Outcome::Error);
            assert_eq!(result.output.to_text(), expected);
            assert_eq!(result.output.metadata["count"], 0);
        }
        check(&files, json!({"pattern": "*.o", "all": true}), "target/a.o\ntarget/b.o");
    }

    #[test]
    fn h15_secrets_have_no_names() {
        let files = [
            (".env", ""),
            (".ssh/id_rsa", ""),
            (".aiexclude", "private\n"),
            ("private/x", ""),
            ("a", ""),
        ];
        check(&files, json!({"pattern": "*", "all": true}), ".aiexclude\na");
    }

    #[test]
    fn names_of_any_kind() {
        let files = [(r"$'caf\xe9.txt'", ""), (r"$'a\nb.txt'", ""), ("-e.txt", "")];
        check(&files, json!({"pattern": "*.txt"}), "-e.txt\n$'a\\nb.txt'\n$'caf\\xe9.txt'");
        let files = [(r"$'d\xff/src/a.rs'", "")];
        check(&files, json!({"pattern": "src/*.rs", "path": r"$'d\xff'"}), r"$'d\xff/src/a.rs'");
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let workspace = workspace(TREE);
        for (input, expected) in [
            (json!({"pattern": ""}), "the pattern is empty"),
            (json!({"pattern": "["}), "unclosed character class"),
            (json!({"pattern": "*", "limit": 0}), "limit is 0; it must be between 1 and 10000"),
            (json!({"pattern": "*", "limit": 10_001}), "limit is 10001"),
            (json!({"patern": "*"}), "did you mean `pattern`?"),
        ] {
            let result = workspace.call("glob", input.clone());
            assert_eq!(result.code, Some("invalid_args"), "{input}");
            let text = result.output.to_text();
            assert!(text.contains(expected), "{input}: {text}");
        }
    }

    #[test]
    fn paths_are_relative_to_the_directory_of_the_call() {
        let overrides = Overrides { work_dir: Some("src".into()), ..Overrides::default() };
        let result = workspace(TREE).call_with("glob", json!({"pattern": "*.rs"}), overrides);
        assert_eq!(result.output.to_text(), "a/mod.rs\nlib.rs");
    }

    proptest! {
        /// The newest of all matching files are kept, however they are spread over threads.
        #[test]
        fn the_newest_of_all_threads(
            files in proptest::collection::btree_map("[a-d]{1,3}", (0i64..6, any::<bool>()), 0..30),
            limit in 1usize..10,
        ) {
            let (mut one, mut two) = (NewestFiles::new(limit), NewestFiles::new(limit));
            for (path, (modified, first)) in &files {
                if *first { &mut one } else { &mut two }.keep(*modified, Path::new(path));
            }
            one.merge(&mut two);
            let mut expected: Vec<DatedPath> =
                files.iter().map(|(path, (modified, _))| (*modified, Reverse(path.into()))).collect();
            expected.sort_by(|a, b| b.cmp(a));
            expected.truncate(limit);
            let kept: Vec<DatedPath> = one.files.into_sorted_vec().into_iter().map(|Reverse(dated)| dated).collect();
            prop_assert_eq!(kept, expected);
        }
    }
}
