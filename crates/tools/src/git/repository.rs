//! Which repository a call is about, where its parts lie, and which programs its own configuration names.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{
    Access, Context, FileKind, Job, ProcessRequest, Program, Scene, ToolError, normalize, quote,
};

use super::environment;
use super::plan::Plan;
use crate::program;

/// How much of a `.git` file and of a configuration is looked at.
const POINTER_BYTES: u64 = 4096;
const CONFIG_BYTES: usize = 4 << 20;

/// A repository with files, and where in it the call works.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The directory that git is started in.
    pub(super) here: PathBuf,
    /// The directory that has `.git` in it.
    pub(super) top: PathBuf,
    /// Where its objects and branches are, if that is not below `top`.
    objects: Option<PathBuf>,
}

impl Repository {
    /// The repository that the call would work on: the nearest one upwards, as git finds it.
    pub(super) fn find(scene: &Scene<'_>) -> Result<Self, ToolError> {
        let here = scene.resolve(Path::new("."))?.path;
        let Some((top, kind)) = nearest(&here, &|path| scene.kind(path)) else {
            return Err(ToolError::failed(format!(
                "`{}` is not in a git repository: there is no `.git` in it or above it",
                quote::path(&here)
            ))
            .hint("`bash` can make one with `git init`"));
        };
        let objects = match kind {
            FileKind::File => {
                scene.peek(&top.join(".git"), POINTER_BYTES).and_then(|text| pointed_to(top, &text))
            }
            _ => None,
        };
        Ok(Self { top: top.to_owned(), here, objects })
    }

    /// Checks that git will find the repository that was decided on: it may have gone since, or another may be nearer.
    pub(super) fn check(&self, cx: &Context) -> Result<(), ToolError> {
        let kind = |path: &Path| cx.files().stat(path).ok().flatten().map(|stat| stat.kind);
        let why = match nearest(&self.here, &kind) {
            Some((top, _)) if top == self.top => return Ok(()),
            Some(_) => "another repository is nearer now than the one at",
            None => "the repository is not there any more at",
        };
        Err(ToolError::failed(format!("git was not run: {why} `{}`", quote::path(&self.top)))
            .hint("call again"))
    }

    /// What belongs to it and is not in the workspace: git will look at it there.
    pub(super) fn elsewhere(&self, workspace: &Path) -> impl Iterator<Item = PathBuf> {
        // Of the files around the workspace, git sees what the sandbox shows to every program.
        let top = Some(self.top.join(".git")).filter(|git| !git.starts_with(workspace));
        let is_known = |path: &PathBuf| path.starts_with(workspace) || path.starts_with(&self.top);
        let objects = self.objects.clone().filter(|objects| !is_known(objects));
        top.into_iter().chain(objects)
    }
}

/// The nearest directory upwards that has `.git` in it, and what that is.
fn nearest<'p>(
    here: &'p Path,
    kind: &dyn Fn(&Path) -> Option<FileKind>,
) -> Option<(&'p Path, FileKind)> {
    let is_git = |kind: &FileKind| matches!(kind, FileKind::Directory | FileKind::File);
    here.ancestors().find_map(|top| Some((top, kind(&top.join(".git")).filter(is_git)?)))
}

/// Where a `.git` file says that the repository is. A second working tree has its own part below the repository's `worktrees`.
fn pointed_to(top: &Path, text: &[u8]) -> Option<PathBuf> {
    let path = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let directory = normalize(&top.join(quote::path_of_bytes(path)));
    let parent = directory.parent()?;
    let is_second = parent.file_name().is_some_and(|name| name.as_bytes() == b"worktrees");
    Some(if is_second { parent.parent()?.to_owned() } else { directory })
}

/// A look at the configuration as git sees it, with where each line of it comes from.
pub(super) fn listing(cx: &Context, repository: &Repository) -> Result<ProcessRequest, ToolError> {
    let words = ["git", "config", "--list", "--show-scope", "--includes", "-z"];
    let directory = program::directory(cx, &repository.here)?;
    let request = ProcessRequest::new(Program::words(words), directory);
    let environment = environment::variables(&repository.top, true);
    Ok(ProcessRequest { environment, access: Access::Read, ..request })
}

/// Refuses a command that could run programs which the repository's own configuration names. What is in there came with the files
/// or was put there by whoever could write them; what people configure for themselves is their own decision.
pub(super) fn refuse_programs(plan: &Plan, listed: &Job) -> Result<(), ToolError> {
    let listing = listed.since(0, CONFIG_BYTES).bytes;
    let entries = entries(&listing);
    if !entries.iter().any(|(scope, key, _)| *scope == b"command" && *key == b"core.hookspath") {
        return Err(unseen(&windlass_core::plain(&listing)));
    }
    let own = entries.iter().filter(|(scope, ..)| matches!(*scope, b"local" | b"worktree"));
    let programs: Vec<String> = own
        .filter(|(_, key, value)| names_program(key) && !value.is_empty())
        .map(|(_, key, _)| String::from_utf8_lossy(key).into_owned())
        .collect();
    if programs.is_empty() {
        return Ok(());
    }
    Err(ToolError::failed(format!(
        "`git {}` could run programs that this repository's own configuration names ({}), so nothing was run",
        plan.verb.name,
        programs.join(", ")
    ))
    .hint("`bash` runs git as it is configured"))
}

/// What is said where the configuration cannot be seen.
fn unseen(said: &str) -> ToolError {
    let line = said.lines().next().unwrap_or("it said nothing");
    let error = ToolError::failed(format!(
        "git does not tell how it is configured, so nothing was run: {line}"
    ));
    if said.starts_with("fatal:") { error } else { error.hint("git 2.31 or newer is needed") }
}

/// Scope, key and value of each entry of a listing: the scope ends with a NUL, the key with a line break, the value with a NUL.
fn entries(listing: &[u8]) -> Vec<(&[u8], &[u8], &[u8])> {
    let mut parts = listing.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(scope), Some(entry)) = (parts.next(), parts.next()) {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        let (key, value) = entry.split_at(end);
        entries.push((scope, key, value.strip_prefix(b"\n").unwrap_or(b"true")));
    }
    entries
}

/// Whether git runs what stands under this key, in spite of all that is switched off.
fn names_program(key: &[u8]) -> bool {
    let Some(dot) = key.iter().rposition(|byte| *byte == b'.') else { return false };
    let (section, variable) = key.split_at(dot);
    match variable {
        b".clean" | b".smudge" | b".process" => section.starts_with(b"filter."),
        b".driver" => section.starts_with(b"merge."),
        b".command" => section.starts_with(b"hook."),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_a_configuration_are_recognised() {
        for (key, is) in [
            ("filter.lfs.clean", true),
            ("filter.a.b.smudge", true),
            ("filter.x.process", true),
            ("filter.x.required", false),
            ("merge.union.driver", true),
            ("merge.conflictstyle", false),
            ("hook.lint.command", true),
            ("diff.x.textconv", false),
            ("clean", false),
            ("user.name", false),
        ] {
            assert_eq!(names_program(key.as_bytes()), is, "{key}");
        }
    }

    #[test]
    fn a_listing_is_taken_apart() {
        let listing = b"local\0core.bare\nfalse\0local\0a.b\0command\0x.y\nline\nline\0";
        let expected: [(&[u8], &[u8], &[u8]); 3] = [
            (b"local", b"core.bare", b"false"),
            (b"local", b"a.b", b"true"),
            (b"command", b"x.y", b"line\nline"),
        ];
        assert_eq!(entries(listing), expected);
        assert_eq!(entries(b"fatal: not in a git directory\n"), []);
    }

    #[test]
    fn what_a_git_file_points_to() {
        for (text, expected) in [
            ("gitdir: /r/.git/worktrees/a\n", Some("/r/.git")),
            ("gitdir: ../.git/modules/sub\n", Some("/w/.git/modules/sub")),
            ("gitdir: .real\n", Some("/w/sub/.real")),
            ("something else", None),
        ] {
            let found = pointed_to(Path::new("/w/sub"), text.as_bytes());
            assert_eq!(found.as_deref(), expected.map(Path::new), "{text}");
        }
    }
}
