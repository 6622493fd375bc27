//! The repository of a call: its directories, and the programs that its own configuration names.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{
    Access, Context, FileKind, Job, PlanContext, ProcessRequest, Program, ToolError, normalize,
    quote,
};

use super::environment;
use super::plan::GitPlan;
use crate::program;

/// Limit of the bytes of a `.git` file that are read.
const MAX_GIT_FILE_BYTES: u64 = 4096;
/// Limit of the bytes of a configuration listing that are read.
const MAX_CONFIG_BYTES: usize = 4 << 20;

/// A repository with a working tree, and the directory in it that the call works in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Directory that git is started in.
    pub(super) start_directory: PathBuf,
    /// Directory that contains `.git`.
    pub(super) top: PathBuf,
    /// Directory with the objects and branches, if `.git` is a file that points to it.
    git_directory: Option<PathBuf>,
}

impl Repository {
    /// Finds the repository that the call would work on: the nearest one upwards, as git does.
    pub(super) fn find(scene: &PlanContext<'_>) -> Result<Self, ToolError> {
        let start_directory = scene.resolve(Path::new("."))?.path;
        let Some((top, kind)) = nearest_repository(&start_directory, &|path| scene.kind(path))
        else {
            return Err(ToolError::failed(format!(
                "`{}` is not in a git repository: there is no `.git` in it or above it",
                quote::path(&start_directory)
            ))
            .hint("`bash` can make one with `git init`"));
        };
        let git_directory = match kind {
            FileKind::File => scene
                .peek(&top.join(".git"), MAX_GIT_FILE_BYTES)
                .and_then(|text| parse_git_file(top, &text)),
            _ => None,
        };
        Ok(Self { top: top.to_owned(), start_directory, git_directory })
    }

    /// Checks that git will find the repository that policy decided on: it may be gone, or another may be nearer now.
    pub(super) fn check(&self, cx: &Context) -> Result<(), ToolError> {
        let kind = |path: &Path| cx.files().stat(path).ok().flatten().map(|stat| stat.kind);
        let why = match nearest_repository(&self.start_directory, &kind) {
            Some((top, _)) if top == self.top => return Ok(()),
            Some(_) => "another repository is nearer now than the one at",
            None => "the repository is not there any more at",
        };
        Err(ToolError::failed(format!("git was not run: {why} `{}`", quote::path(&self.top)))
            .hint("call again"))
    }

    /// Returns the directories of the repository outside of the workspace, which git will read.
    pub(super) fn outside_paths(&self, workspace: &Path) -> impl Iterator<Item = PathBuf> {
        // Of the files around the workspace, git sees only what the sandbox shows to every program.
        let top = Some(self.top.join(".git")).filter(|git| !git.starts_with(workspace));
        let is_known = |path: &PathBuf| path.starts_with(workspace) || path.starts_with(&self.top);
        let git_directory =
            self.git_directory.clone().filter(|git_directory| !is_known(git_directory));
        top.into_iter().chain(git_directory)
    }
}

/// Returns the nearest directory upwards that contains `.git`, and the kind of that `.git`.
fn nearest_repository<'p>(
    start_directory: &'p Path,
    kind: &dyn Fn(&Path) -> Option<FileKind>,
) -> Option<(&'p Path, FileKind)> {
    let is_git = |kind: &FileKind| matches!(kind, FileKind::Directory | FileKind::File);
    start_directory.ancestors().find_map(|top| Some((top, kind(&top.join(".git")).filter(is_git)?)))
}

/// Parses a `.git` file and returns the directory of the repository. A linked working tree has its own directory below `worktrees`.
fn parse_git_file(top: &Path, text: &[u8]) -> Option<PathBuf> {
    let path = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let directory = normalize(&top.join(quote::path_of_bytes(path)));
    let parent = directory.parent()?;
    let is_second = parent.file_name().is_some_and(|name| name.as_bytes() == b"worktrees");
    Some(if is_second { parent.parent()?.to_owned() } else { directory })
}

/// Returns a request for the configuration as git sees it, with the scope of each entry.
pub(super) fn config_listing(
    cx: &Context,
    repository: &Repository,
) -> Result<ProcessRequest, ToolError> {
    let words = ["git", "config", "--list", "--show-scope", "--includes", "-z"];
    let directory = program::directory(cx, &repository.start_directory)?;
    let request = ProcessRequest::new(Program::words(words), directory);
    let environment = environment::variables(&repository.top, true);
    Ok(ProcessRequest { environment, access: Access::Read, ..request })
}

/// Refuses a command that could run programs named by the repository's own configuration. That configuration may come from other people;
/// the configuration of a person's account is their own decision.
pub(super) fn refuse_programs(plan: &GitPlan, listed: &Job) -> Result<(), ToolError> {
    let config_listing = listed.since(0, MAX_CONFIG_BYTES).bytes;
    let entries = parse_listing(&config_listing);
    if !entries.iter().any(|(scope, key, _)| *scope == b"command" && *key == b"core.hookspath") {
        return Err(config_unreadable_error(&windlass_core::plain(&config_listing)));
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

/// Returns the error for a configuration that git does not list.
fn config_unreadable_error(message: &str) -> ToolError {
    let line = message.lines().next().unwrap_or("it said nothing");
    let error = ToolError::failed(format!(
        "git does not tell how it is configured, so nothing was run: {line}"
    ));
    if message.starts_with("fatal:") { error } else { error.hint("git 2.31 or newer is needed") }
}

/// Parses a listing into (scope, key, value): the scope ends with a NUL, the key with a line feed, the value with a NUL.
fn parse_listing(config_listing: &[u8]) -> Vec<(&[u8], &[u8], &[u8])> {
    let mut parts = config_listing.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(scope), Some(entry)) = (parts.next(), parts.next()) {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        let (key, value) = entry.split_at(end);
        entries.push((scope, key, value.strip_prefix(b"\n").unwrap_or(b"true")));
    }
    entries
}

/// Returns whether git runs the value of this key even with all switches of [`environment`] off.
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
    fn listing_is_parsed() {
        let config_listing = b"local\0core.bare\nfalse\0local\0a.b\0command\0x.y\nline\nline\0";
        let expected: [(&[u8], &[u8], &[u8]); 3] = [
            (b"local", b"core.bare", b"false"),
            (b"local", b"a.b", b"true"),
            (b"command", b"x.y", b"line\nline"),
        ];
        assert_eq!(parse_listing(config_listing), expected);
        assert_eq!(parse_listing(b"fatal: not in a git directory\n"), []);
    }

    #[test]
    fn git_file_points_to_a_directory() {
        for (text, expected) in [
            ("gitdir: /r/.git/worktrees/a\n", Some("/r/.git")),
            ("gitdir: ../.git/modules/sub\n", Some("/w/.git/modules/sub")),
            ("gitdir: .real\n", Some("/w/sub/.real")),
            ("something else", None),
        ] {
            let found = parse_git_file(Path::new("/w/sub"), text.as_bytes());
            assert_eq!(found.as_deref(), expected.map(Path::new), "{text}");
        }
    }
}
