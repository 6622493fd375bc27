//! Finds the git repository of a workspace whose git directory lies elsewhere: above the workspace, or at the target of a linked
//! worktree or submodule.
//!
//! Any program that changes files in the workspace can write a `.git` file. So the file is believed only if the directory that it
//! names points back, which git arranges when it creates the worktree or submodule.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Maximum bytes of a pointer file or git configuration that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The parts of a workspace's repository that lie outside the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OuterRepository {
    /// Paths that git reads: the directory of the repository, and the parts of the worktree that are not inside it.
    pub(crate) git: Vec<PathBuf>,
    /// The working tree that contains the workspace. If git cannot see it, it reports the other files as deleted.
    pub(crate) tree: Option<PathBuf>,
}

impl OuterRepository {
    /// Finds the repository of a workspace, which is a real path. Returns `None` if it is inside the workspace, has another owner,
    /// or is not confirmed by its git directory. A repository around the whole home directory does not count as one of the project.
    pub(crate) fn of(workspace: &Path, home: Option<&Path>) -> Option<Self> {
        let top = workspace.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok())?;
        let tree = (top != workspace).then(|| top.to_owned());
        let real_home = home.and_then(|home| home.canonicalize().ok());
        let holds_home = |top: &Path| real_home.as_ref().is_some_and(|home| home.starts_with(top));
        if tree.is_some() && (top.parent().is_none() || holds_home(top)) {
            return None;
        }
        let entry = top.join(".git");
        let is_file = !entry.symlink_metadata().ok()?.is_dir();
        let own = if is_file { git_directory_of_file(top)? } else { entry.clone() };
        let common = match read_small_text(&own.join("commondir")) {
            Some(common) => own.join(common).canonicalize().ok()?,
            None => own.clone(),
        };
        let is_ours = |path: &Path| owner(path).is_some() && owner(path) == owner(workspace);
        if !common.join("HEAD").is_file() || !common.join("objects").is_dir() || !is_ours(&common) {
            return None;
        }
        let mut git = vec![common];
        let more = [own, entry].into_iter().filter(|path| !path.starts_with(&git[0]));
        git.extend(more.collect::<Vec<_>>());
        git.retain(|path| !path.starts_with(workspace));
        (!git.is_empty()).then_some(Self { git, tree })
    }
}

/// Returns the directory that a `.git` file names, if that directory points back to it.
fn git_directory_of_file(top: &Path) -> Option<PathBuf> {
    let file = top.join(".git");
    let text = read_small_text(&file)?;
    let directory = top.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let is_worktree = || {
        read_small_text(&directory.join("gitdir")).is_some_and(|back| directory.join(back) == file)
    };
    let is_submodule = || {
        let tree = core_worktree(&read_small_text(&directory.join("config"))?)?;
        Some(directory.join(tree).canonicalize().ok()? == top)
    };
    (is_worktree() || is_submodule().unwrap_or(false)).then_some(directory)
}

/// Returns the value of `core.worktree` in a git configuration.
fn core_worktree(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim).skip_while(|line| *line != "[core]").skip(1);
    let in_section = lines.by_ref().take_while(|line| !line.starts_with('['));
    let mut settings = in_section.filter_map(|line| line.split_once('='));
    settings.find(|(key, _)| key.trim() == "worktree").map(|(_, value)| value.trim().to_owned())
}

/// Returns the user id of a path's owner.
fn owner(path: &Path) -> Option<u32> {
    path.metadata().ok().map(|found| found.uid())
}

/// Returns the trimmed text of a small regular file.
fn read_small_text(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    let is_small = found.is_file() && found.len() <= MAX_BYTES;
    is_small.then(|| fs::read_to_string(path).ok())?.map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn outer_repositories_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        let back = format!("{}\n", at("wt/.git").display());
        make(
            &root,
            &[
                ("repo/.git/HEAD", ""),
                ("repo/.git/objects/x", ""),
                ("repo/sub/deep/a", ""),
                ("wt/.git", &format!("gitdir: {}\n", at("repo/.git/worktrees/wt").display())),
                ("wt/in/a", ""),
                ("repo/.git/worktrees/wt/gitdir", &back),
                ("repo/.git/worktrees/wt/commondir", "../..\n"),
                // The directory that this file names does not point back.
                ("false/.git", &format!("gitdir: {}\n", at("repo/.git/worktrees/wt").display())),
                ("repo/module/.git", "gitdir: ../.git/modules/module\n"),
                ("repo/.git/modules/module/HEAD", ""),
                ("repo/.git/modules/module/objects/x", ""),
                (
                    "repo/.git/modules/module/config",
                    "[core]\n\tbare = false\n\tworktree = ../../../module\n[x]\n",
                ),
                ("home/.git/HEAD", ""),
                ("home/.git/objects/x", ""),
                ("home/project/a", ""),
                ("plain/a", ""),
            ],
        );
        for (workspace, wanted) in [
            ("repo", None),
            ("repo/sub", Some(("repo/.git", Some("repo")))),
            ("repo/sub/deep", Some(("repo/.git", Some("repo")))),
            ("wt", Some(("repo/.git", None))),
            ("wt/in", Some(("repo/.git wt/.git", Some("wt")))),
            ("false", None),
            ("repo/module", Some(("repo/.git/modules/module", None))),
            ("home/project", None),
            ("plain", None),
        ] {
            let found = OuterRepository::of(&at(workspace), Some(&at("home")));
            let wanted = wanted.map(|(git, tree)| OuterRepository {
                git: git.split(' ').map(at).collect(),
                tree: tree.map(at),
            });
            assert_eq!(found, wanted, "{workspace}");
        }
    }
}
