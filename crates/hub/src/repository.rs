//! Finds the git repository of a workspace whose git directory lies elsewhere: above the workspace, or where a linked worktree or a
//! submodule points to.
//!
//! A `.git` file of a workspace can be written by whatever changes files there. So it is believed only if the directory that it names
//! points back, which git writes there when it makes the worktree or submodule.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A larger pointer or configuration is not looked at.
const MOST_BYTES: u64 = 1 << 20;

/// The parts of a workspace's repository that lie outside the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OuterRepository {
    /// The places that git reads: the directory of the repository, and what of the worktree is not inside it.
    pub(crate) git: Vec<PathBuf>,
    /// The working tree that the workspace is a part of. Without it, git takes the other files for deleted.
    pub(crate) tree: Option<PathBuf>,
}

impl OuterRepository {
    /// Finds the repository of a workspace, which is a real path; `None` if it is inside, or not the person's own. A repository that
    /// holds the whole home directory is none of a project.
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
        let own = if is_file { pointed_to(top)? } else { entry.clone() };
        let common = match text_of(&own.join("commondir")) {
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

/// The directory that a `.git` file names, if it points back to it.
fn pointed_to(top: &Path) -> Option<PathBuf> {
    let file = top.join(".git");
    let text = text_of(&file)?;
    let directory = top.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let is_worktree =
        || text_of(&directory.join("gitdir")).is_some_and(|back| directory.join(back) == file);
    let is_submodule = || {
        let tree = worktree_of(&text_of(&directory.join("config"))?)?;
        Some(directory.join(tree).canonicalize().ok()? == top)
    };
    (is_worktree() || is_submodule().unwrap_or(false)).then_some(directory)
}

/// The value of `core.worktree` in a git configuration.
fn worktree_of(config: &str) -> Option<String> {
    let mut lines = config.lines().map(str::trim).skip_while(|line| *line != "[core]").skip(1);
    let in_section = lines.by_ref().take_while(|line| !line.starts_with('['));
    let mut settings = in_section.filter_map(|line| line.split_once('='));
    settings.find(|(key, _)| key.trim() == "worktree").map(|(_, value)| value.trim().to_owned())
}

fn owner(path: &Path) -> Option<u32> {
    path.metadata().ok().map(|found| found.uid())
}

/// The text of a regular file, without the blanks around it.
fn text_of(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    let is_small = found.is_file() && found.len() <= MOST_BYTES;
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
    fn where_a_repository_lies() {
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
                // It names a directory that does not point back.
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
