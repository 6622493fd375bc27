//! `list`: what is in a directory, as an indented tree with sizes.

mod tree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, Effects, Entry, FileKind, Kinds, Output, Tool, ToolError, Visitor, Walk, WalkSettings,
    quote,
};

use crate::shown::{self, Root};
use tree::{Kind, Tree};

pub(crate) struct List;

/// Show a directory as a tree with sizes. Ignored files and VCS directories are left out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Directory to show.
    #[serde(default = "here")]
    path: PathBuf,
    /// How many levels.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 10))]
    depth: usize,
    /// Also what `.gitignore` and the like hide.
    #[serde(default)]
    all: bool,
    /// Most entries to show; more are cut in each directory.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

fn two() -> usize {
    2
}

fn five_hundred() -> usize {
    500
}

impl Tool for List {
    const NAME: &'static str = "list";
    const KINDS: Kinds = Kinds::READ;
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        Effects::read_tree(&args.path)
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        cx.blocking(move |cx| list(cx, &args)).await?
    }
}

fn list(cx: &Context, args: &Args) -> Result<Output, ToolError> {
    let root = Root::of(cx, &args.path)?;
    let gathered = Mutex::new(Gathered { tree: Tree::new(args.limit), file: None });
    let report = cx.files().walk(&args.path, settings(args.depth, args.all), &|| {
        Box::new(Gatherer { gathered: &gathered })
    })?;
    let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
    let name = root.show(Path::new(""));
    if let Some(what) = gathered.file {
        return Ok(found(format!("{name} is no directory {what}"), 1, false));
    }
    let mut output = if gathered.tree.is_empty() && report.notes.is_empty() {
        found(describe_empty(cx, args, &name)?, 0, false)
    } else {
        draw(&gathered.tree, args.limit)
    };
    if let Some(windlass_core::Content::Text { text }) = output.content.first_mut() {
        shown::push_notes(text, &root, report.notes);
    }
    Ok(output)
}

/// One thread, so that entries come in the order of their names.
fn settings(max_depth: usize, all: bool) -> WalkSettings {
    WalkSettings { max_depth, ignore_files: !all, threads: 1 }
}

fn found(text: String, count: usize, truncated: bool) -> Output {
    Output::text(text).with("count", count).with("truncated", truncated)
}

fn draw(tree: &Tree, limit: usize) -> Output {
    let mut drawing = tree.draw();
    if drawing.truncated {
        let how = format!(
            "[cut at `…`: list that directory by its path, or raise `limit` (now {limit}, at most 10000)]"
        );
        shown::push_line(&mut drawing.text, &how);
    }
    found(drawing.text, drawing.count, drawing.truncated)
}

/// Tells a directory with nothing in it from one where all is ignored.
fn describe_empty(cx: &Context, args: &Args, name: &str) -> Result<String, ToolError> {
    if args.all {
        return Ok(format!("{name} is empty"));
    }
    let entries = Mutex::new(0);
    cx.files().walk(&args.path, settings(1, true), &|| Box::new(Counter { entries: &entries }))?;
    Ok(match entries.into_inner().unwrap_or_else(PoisonError::into_inner) {
        0 => format!("{name} is empty"),
        entries => format!(
            "all of {name} is ignored: {}; `all:true` shows them",
            shown::count(entries, "entry", "entries")
        ),
    })
}

struct Counter<'a> {
    entries: &'a Mutex<usize>,
}

impl Visitor for Counter<'_> {
    fn visit(&mut self, _: &Entry<'_>) -> Walk {
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Walk::Continue
    }
}

struct Gathered {
    tree: Tree,
    /// What the root is, if it is no directory.
    file: Option<String>,
}

struct Gatherer<'a> {
    gathered: &'a Mutex<Gathered>,
}

impl Visitor for Gatherer<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = entry.path.file_name() else {
            gathered.file = Some(describe(entry));
            return Walk::Stop;
        };
        let wanted = gathered.tree.add(entry.depth, || (show(name), kind(entry)));
        if wanted { Walk::Continue } else { Walk::Skip }
    }
}

fn show(name: &OsStr) -> String {
    quote::path(Path::new(name)).into_owned()
}

fn kind(entry: &Entry<'_>) -> Kind {
    match entry.kind {
        FileKind::Directory => Kind::Directory,
        _ => Kind::Other(describe(entry)),
    }
}

fn describe(entry: &Entry<'_>) -> String {
    match entry.kind {
        FileKind::File => match entry.opener.stat() {
            Ok(stat) => format!("({})", shown::size(stat.len)),
            Err(error) => format!("({})", error.kind),
        },
        FileKind::Symlink => "-> (symbolic link)".into(),
        other => format!("({})", other.to_string().trim_start_matches("a ")),
    }
}
