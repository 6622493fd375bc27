//! `glob`: which files have names like this, the newest first.
//!
//! Newest first needs the time of every file that matches, so a walk cannot end when `limit` is reached. What is bounded instead:
//! a file that does not match costs no system call, the walk begins below the literal part of the pattern and goes no deeper
//! than it, and of the matching files only the `limit` newest are kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, Effects, Entry, FileKind, Kinds, Note, Output, Tool, ToolError, Visitor, Walk,
    WalkSettings, quote,
};

use crate::pattern::{self, Pattern};
use crate::shown::{self, Root};

pub(crate) struct Glob;

/// Find files by name, newest first. Ignored files and VCS directories are left out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Such as `*.rs` (any depth), `src/**/*.{ts,tsx}`, `[a-z]?.c`.
    pattern: String,
    /// Directory to look in.
    #[serde(default = "here")]
    path: PathBuf,
    /// Also what `.gitignore` and the like hide.
    #[serde(default)]
    all: bool,
    /// Most files to return.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

fn five_hundred() -> usize {
    500
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    const KINDS: Kinds = Kinds::READ;
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        Effects::read_tree(start(args))
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        cx.blocking(move |cx| find(cx, &args)).await?
    }
}

/// Where the walk begins: in the directory that is asked for, below the literal part of the pattern.
fn start(args: &Args) -> PathBuf {
    let (directory, _) = pattern::split(&args.pattern);
    if directory.as_os_str().is_empty() {
        return args.path.clone();
    }
    args.path.to_str().map_or_else(|| args.path.clone(), quote::unpath).join(directory)
}

fn find(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let pattern = Pattern::below(&args.pattern)?;
    let start = start(args);
    let root = Root::of(cx, &start)?;
    let all = Mutex::new(Newest::new(args.limit));
    let visitors = || -> Box<dyn Visitor + '_> {
        Box::new(Finder {
            pattern: &pattern,
            root: &root,
            found: Newest::new(args.limit),
            all: &all,
        })
    };
    let settings = WalkSettings {
        max_depth: pattern.depth().unwrap_or(usize::MAX),
        ignore_files: !args.all,
        ..WalkSettings::default()
    };
    let report = cx.files().walk(&start, settings, &visitors)?;
    let mut found = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.notes.extend(report.notes);
    if found.matching == 0 {
        return nothing(cx, args, &pattern, &root, found);
    }
    Ok(answer(&root, args.limit, found))
}

fn answer(root: &Root, limit: usize, found: Newest) -> Output {
    let (matching, notes) = (found.matching, found.notes);
    let files = found.files.into_sorted_vec();
    let count = files.len();
    let mut text = String::new();
    for Reverse((_, Reverse(path))) in files {
        shown::push_line(&mut text, &root.show(&path));
    }
    if matching > count {
        shown::push_line(
            &mut text,
            &format!(
                "[the newest {count} of {matching} files; a narrower pattern or a higher `limit` (now {limit}) shows more]"
            ),
        );
    }
    shown::push_notes(&mut text, root, notes);
    Output::text(text).with("count", count).with("truncated", matching > count)
}

/// Says what was looked for and what would find something.
fn nothing(
    cx: &Context,
    args: &Args,
    pattern: &Pattern,
    root: &Root,
    found: Newest,
) -> Result<Output, ToolError> {
    let mut text = format!(
        "no file matches `{}` in {}",
        quote::visible(&args.pattern),
        root.show(Path::new(""))
    );
    if found.directories > 0 {
        let directories = shown::count(found.directories, "directory does", "directories do");
        shown::push_line(
            &mut text,
            &format!(
                "{directories}: `{}/**` finds the files in it",
                args.pattern.trim_end_matches('/')
            ),
        );
    }
    if !args.all
        && let Some(hidden) = count_ignored(cx, args, pattern, root)?
    {
        shown::push_line(&mut text, &format!("`all:true` finds {hidden} that is ignored"));
    }
    if args.pattern.contains('[') {
        shown::push_line(
            &mut text,
            "`[…]` is one character of a class: write `\\[` for the character itself",
        );
    }
    shown::push_notes(&mut text, root, found.notes);
    Ok(Output::error(text).with("count", 0).with("truncated", false))
}

/// How many files match that are ignored, as far as a short look shows.
fn count_ignored(
    cx: &Context,
    args: &Args,
    pattern: &Pattern,
    root: &Root,
) -> Result<Option<String>, ToolError> {
    let count = Mutex::new((0, LOOK));
    // One thread goes in the order of names, so that the answer is the same every time.
    let settings = WalkSettings {
        max_depth: pattern.depth().unwrap_or(usize::MAX),
        ignore_files: false,
        threads: 1,
    };
    cx.files()
        .walk(&start(args), settings, &|| Box::new(Counter { pattern, root, count: &count }))?;
    let (files, left) = count.into_inner().unwrap_or_else(PoisonError::into_inner);
    let files_shown = shown::count(files, "file", "files");
    Ok(match (files, left) {
        (0, _) => None,
        (_, 0) => Some(format!("at least {files_shown}")),
        _ => Some(files_shown),
    })
}

/// How many entries a look at ignored files takes in: it is a courtesy after the real work.
const LOOK: usize = 20_000;

struct Counter<'a> {
    pattern: &'a Pattern,
    root: &'a Root,
    /// Matching files, and how many entries may still be looked at.
    count: &'a Mutex<(usize, usize)>,
}

impl Visitor for Counter<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.0 +=
            usize::from(entry.kind == FileKind::File && matches(self.pattern, self.root, entry));
        count.1 -= 1;
        if count.1 == 0 { Walk::Stop } else { Walk::Continue }
    }
}

/// Whether an entry matches; the root itself, if it is a file, does by its name.
fn matches(pattern: &Pattern, root: &Root, entry: &Entry<'_>) -> bool {
    if entry.path.as_os_str().is_empty() {
        return root
            .join(entry.path)
            .file_name()
            .is_some_and(|name| pattern.matches(Path::new(name)));
    }
    pattern.matches(entry.path)
}

/// Looks for matching files in one thread.
struct Finder<'a> {
    pattern: &'a Pattern,
    root: &'a Root,
    found: Newest,
    all: &'a Mutex<Newest>,
}

impl Visitor for Finder<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        match entry.kind {
            FileKind::File if matches(self.pattern, self.root, entry) => self.found.add(entry),
            FileKind::Directory if self.pattern.matches(entry.path) => self.found.directories += 1,
            _ => {}
        }
        Walk::Continue
    }
}

impl Drop for Finder<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(&mut self.found);
    }
}

/// When a file was changed and where it is: greater is newer, and of equal age the one whose path comes first.
type Dated = (i64, Reverse<PathBuf>);

/// The newest files of those that match, and how many there were.
#[derive(Debug)]
struct Newest {
    limit: usize,
    /// The oldest of them on top.
    files: BinaryHeap<Reverse<Dated>>,
    matching: usize,
    directories: usize,
    notes: Vec<Note>,
}

impl Newest {
    fn new(limit: usize) -> Self {
        Self { limit, files: BinaryHeap::new(), matching: 0, directories: 0, notes: Vec::new() }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        self.matching += 1;
        // A file whose time cannot be read is still a file of that name.
        let modified = entry.opener.stat().map_or(i64::MIN, |stat| stat.fingerprint.modified);
        self.keep(modified, entry.path);
    }

    /// Keeps the file if it is one of the newest; allocates only then.
    fn keep(&mut self, modified: i64, path: &Path) {
        if self.files.len() >= self.limit {
            match self.files.peek() {
                Some(Reverse((oldest, Reverse(last))))
                    if (modified, Reverse(path)) > (*oldest, Reverse(last.as_path())) =>
                {
                    self.files.pop();
                }
                _ => return,
            }
        }
        self.files.push(Reverse((modified, Reverse(path.to_owned()))));
    }

    fn merge(&mut self, other: &mut Self) {
        self.matching += other.matching;
        self.directories += other.directories;
        self.notes.append(&mut other.notes);
        for Reverse((modified, Reverse(path))) in other.files.drain() {
            self.keep(modified, &path);
        }
    }
}
