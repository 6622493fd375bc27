//! Paths of the real workspace that a program cannot change, because its changes are not decided on afterwards.

use std::path::{Path, PathBuf};

use windlass_core::{is_protected_when_absent, protected_beginning_with, protected_entries};
use windlass_sandbox::ReadOnlyPath;

use super::super::LocalProcesses;
use super::links::{links_on_path, links_or_path};
use crate::survey::Survey;

impl LocalProcesses {
    /// Returns the paths of the real workspace that stay unchanged while a program runs in it.
    pub(super) fn protected(&self, survey: &Survey) -> Vec<ReadOnlyPath> {
        let mut protected: Vec<ReadOnlyPath> = Vec::new();
        let mut add = |path: PathBuf, is_directory| {
            if !protected.iter().any(|known| path.starts_with(&known.path)) {
                protected.push(ReadOnlyPath { path, is_directory });
            }
        };
        for (path, is_directory) in self.protected_by_name(survey) {
            let way = links_on_path(&self.workspace, &path);
            let (path, is_directory) = self.outermost_missing(path, is_directory);
            add(path, is_directory);
            for path in way.into_iter().filter(|path| self.is_there(path)) {
                add(path, false);
            }
        }
        protected
    }

    /// Returns the paths of the real workspace that stay unchanged while a job runs in it: existing protected paths, whole git directories,
    /// paths that rules deny, and targets of protected files. New protected files of a job are removed when they are noticed.
    pub(super) fn protected_from_job(
        &self,
        survey: &Survey,
        denied: &[PathBuf],
        obeyed: &[PathBuf],
    ) -> Vec<ReadOnlyPath> {
        let mut paths: Vec<PathBuf> = survey.git.clone();
        paths.extend(survey.protected.iter().flat_map(|path| protected_beginning_with(path)));
        paths.extend(self.protected_by_name(survey).into_iter().map(|(path, _)| path));
        let denied = denied.iter().chain(obeyed);
        let inside = denied.filter_map(|path| path.strip_prefix(&self.workspace).ok());
        paths.extend(inside.map(Path::to_owned));
        let mut paths: Vec<PathBuf> =
            paths.iter().flat_map(|path| links_or_path(&self.workspace, path)).collect();
        // The workspace itself is read-only as a whole.
        paths.retain(|path| !path.as_os_str().is_empty() && self.is_there(path));
        paths.sort();
        paths.dedup_by(|next, kept| next.starts_with(kept));
        let is_directory = |path: &Path| {
            self.workspace.join(path).symlink_metadata().is_ok_and(|found| found.is_dir())
        };
        let protected = |path: PathBuf| ReadOnlyPath { is_directory: is_directory(&path), path };
        paths.into_iter().map(protected).collect()
    }

    /// Returns whether an entry of any kind, even a link, exists at a path of the workspace.
    fn is_there(&self, path: &Path) -> bool {
        self.workspace.join(path).symlink_metadata().is_ok()
    }

    /// Returns all protected paths, existing or not, and whether they are directories.
    pub(in crate::processes) fn protected_by_name(&self, survey: &Survey) -> Vec<(PathBuf, bool)> {
        let is_home = std::env::home_dir().is_some_and(|home| home.starts_with(&self.workspace));
        let is_git =
            |path: &&PathBuf| path.file_name().is_none_or(|name| name != ".jj" && name != ".hg");
        let git: Vec<PathBuf> = survey.git.iter().filter(is_git).cloned().collect();
        let mut places = protected_entries(&git, is_home);
        places.retain(|(path, _)| is_protected_when_absent(path) || self.is_there(path));
        places.extend(self.settings.protected.iter().map(|path| (path.clone(), true)));
        places
    }

    /// Returns the outermost missing directory above a path, which stands for everything that could be in it, or the path itself.
    pub(super) fn outermost_missing(&self, path: PathBuf, is_directory: bool) -> (PathBuf, bool) {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            let place = self.workspace.join(directory);
            match place.symlink_metadata() {
                Err(_) => return (directory.to_owned(), true),
                // A file or a link: the object behind it is protected by its own path.
                Ok(found) if !found.is_dir() => return (directory.to_owned(), false),
                Ok(_) => {}
            }
        }
        (path, is_directory)
    }
}
