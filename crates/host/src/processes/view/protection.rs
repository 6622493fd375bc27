//! The paths of the real workspace that a program cannot change, where nothing decides on its changes afterwards.

use std::path::{Path, PathBuf};

use windlass_core::{is_protected_when_absent, protected_beginning_with, protected_entries};
use windlass_sandbox::Protected;

use super::super::LocalProcesses;
use super::links::{resolved, through_links};
use crate::survey::Survey;

impl LocalProcesses {
    /// Paths of the real workspace that stay as they are while a program runs in it.
    pub(super) fn protected(&self, survey: &Survey) -> Vec<Protected> {
        let mut protected: Vec<Protected> = Vec::new();
        let mut add = |path: PathBuf, is_directory| {
            if !protected.iter().any(|known| path.starts_with(&known.path)) {
                protected.push(Protected { path, is_directory });
            }
        };
        for (path, is_directory) in self.protected_places(survey) {
            let way = through_links(&self.workspace, &path);
            let (path, is_directory) = self.outermost_missing(path, is_directory);
            add(path, is_directory);
            for path in way.into_iter().filter(|path| self.is_there(path)) {
                add(path, false);
            }
        }
        protected
    }

    /// Paths of the real workspace that stay as they are while a job runs in it: protected places that are there, whole git
    /// directories, what rules deny and what protected files lead to. What a job makes anew is removed when it is seen.
    pub(super) fn protected_from_job(
        &self,
        survey: &Survey,
        denied: &[PathBuf],
        obeyed: &[PathBuf],
    ) -> Vec<Protected> {
        let mut paths: Vec<PathBuf> = survey.git.clone();
        paths.extend(survey.protected.iter().flat_map(|path| protected_beginning_with(path)));
        paths.extend(self.protected_places(survey).into_iter().map(|(path, _)| path));
        let denied = denied.iter().chain(obeyed);
        let inside = denied.filter_map(|path| path.strip_prefix(&self.workspace).ok());
        paths.extend(inside.map(Path::to_owned));
        let mut paths: Vec<PathBuf> =
            paths.iter().flat_map(|path| resolved(&self.workspace, path)).collect();
        // The workspace itself is read-only as a whole.
        paths.retain(|path| !path.as_os_str().is_empty() && self.is_there(path));
        paths.sort();
        paths.dedup_by(|next, kept| next.starts_with(kept));
        let is_directory = |path: &Path| {
            self.workspace.join(path).symlink_metadata().is_ok_and(|found| found.is_dir())
        };
        let protected = |path: PathBuf| Protected { is_directory: is_directory(&path), path };
        paths.into_iter().map(protected).collect()
    }

    /// Tells whether a path of the workspace names something, be it a link.
    fn is_there(&self, path: &Path) -> bool {
        self.workspace.join(path).symlink_metadata().is_ok()
    }

    /// The same by name, be they there or not, and whether they are directories.
    pub(in crate::processes) fn protected_places(&self, survey: &Survey) -> Vec<(PathBuf, bool)> {
        let is_home = std::env::home_dir().is_some_and(|home| home.starts_with(&self.workspace));
        let is_git =
            |path: &&PathBuf| path.file_name().is_none_or(|name| name != ".jj" && name != ".hg");
        let git: Vec<PathBuf> = survey.git.iter().filter(is_git).cloned().collect();
        let mut places = protected_entries(&git, is_home);
        places.retain(|(path, _)| is_protected_when_absent(path) || self.is_there(path));
        places.extend(self.settings.protected.iter().map(|path| (path.clone(), true)));
        places
    }

    /// Where nothing is there of a directory above, that one stands for all that could be in it.
    pub(super) fn outermost_missing(&self, path: PathBuf, is_directory: bool) -> (PathBuf, bool) {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            let place = self.workspace.join(directory);
            match place.symlink_metadata() {
                Err(_) => return (directory.to_owned(), true),
                // A file, or a link: what is behind it lies elsewhere.
                Ok(found) if !found.is_dir() => return (directory.to_owned(), false),
                Ok(_) => {}
            }
        }
        (path, is_directory)
    }
}
