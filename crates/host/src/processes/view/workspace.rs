//! Mounts the workspace in a view: an overlay for commands, the real directory for jobs.

use std::io;
use std::path::{Path, PathBuf};

use windlass_core::Access;
use windlass_sandbox::{MountSource, PathHandle};

use super::Composer;
use crate::stage::masked_index;

impl Composer<'_> {
    /// Mounts the workspace by the access of the program.
    pub(super) fn mount_workspace(&mut self) -> io::Result<()> {
        let workspace = self.processes.workspace.clone();
        let survey = self.parts.survey;
        match self.parts.access {
            Access::Direct if self.parts.is_job => self.mount_workspace_of_job()?,
            Access::Direct => {
                self.mount_real(&workspace, MountSource::Writable(PathHandle::open(&workspace)?))?;
            }
            // An overlay does not show later changes of others, and without masks it is not needed.
            Access::Read if self.parts.is_job || survey.masked.is_empty() => {
                self.mount_real(&workspace, MountSource::ReadOnly(PathHandle::open(&workspace)?))?;
            }
            Access::Read | Access::Staged if self.cannot_be_overlaid(&workspace) => {
                self.mount_real(&workspace, MountSource::ReadOnly(PathHandle::open(&workspace)?))?;
                self.note_mounts(&workspace);
            }
            Access::Read => {
                let lower = self.workspace_layers()?;
                self.mount(&workspace, MountSource::Overlay { lower, upper: None });
            }
            Access::Staged => {
                let lower = self.workspace_layers()?;
                let upper = Some(self.upper(self.stage()?.upper())?);
                self.mount(&workspace, MountSource::Overlay { lower, upper });
            }
        }
        Ok(())
    }

    /// Mounts the real workspace, so that later edits reach a running server. A job can change the paths that a rule, the mode or an
    /// approval allows, and build directories; its changes are not decided on afterwards.
    pub(super) fn mount_workspace_of_job(&mut self) -> io::Result<()> {
        let (workspace, survey) = (&self.processes.workspace, self.parts.survey);
        let mut writes = self.parts.rights.direct_writes();
        for denied in &mut writes.denied {
            *denied = nearest_existing(denied);
        }
        let is_all = writes.allowed.contains(workspace) && !writes.denies(workspace);
        let built = survey.build_directories.iter().map(|path| workspace.join(path));
        let mut writable: Vec<PathBuf> = built.chain(writes.allowed.iter().cloned()).collect();
        writable
            .retain(|path| !is_all && !writes.denies(path) && path != workspace && is_real(path));
        writable.sort();
        writable.dedup_by(|next, kept| next.starts_with(kept));
        let object = PathHandle::open(workspace)?;
        let source =
            if is_all { MountSource::Writable(object) } else { MountSource::ReadOnly(object) };
        self.protected =
            self.processes.protected_from_job(survey, &writes.denied, self.parts.obeyed);
        self.mount_real(&self.processes.workspace.clone(), source)?;
        for path in writable {
            self.mount(&path, MountSource::Writable(PathHandle::open(&path)?));
        }
        Ok(())
    }

    /// Mounts a directory without an overlay, so that changes are visible at once, or because no overlay is possible. Each mask is a mount
    /// of its own then.
    pub(super) fn mount_real(&mut self, directory: &Path, source: MountSource) -> io::Result<()> {
        // A survey does not enter other file systems, but they are mounted with the directory.
        let mut roots = vec![directory.to_owned()];
        while let Some(root) = roots.pop() {
            let found = if root == self.processes.workspace {
                self.parts.survey
            } else {
                &self.survey_of(&root)?
            };
            let masked = found.masked.iter().map(|(path, _)| path).chain(&found.sockets);
            self.masked.extend(masked.map(|path| root.join(path)));
            let mounted = found.other_devices.iter().map(|path| root.join(path));
            roots.extend(mounted.filter(|path| path.is_dir()));
        }
        self.mount(directory, source);
        Ok(())
    }

    /// Returns whether no overlay can be mounted over a directory: a file system is mounted below it, which a user namespace cannot leave
    /// out, or our own layers are below it.
    pub(super) fn cannot_be_overlaid(&self, directory: &Path) -> bool {
        let is_below = |mount: &PathBuf| mount.starts_with(directory) && mount != directory;
        self.mount_points.iter().any(is_below)
            || self.processes.uppers().is_ok_and(|uppers| uppers.starts_with(directory))
    }

    /// Adds a note why a directory was read-only.
    pub(super) fn note_mounts(&mut self, directory: &Path) {
        let is_below = |mount: &&PathBuf| mount.starts_with(directory) && *mount != directory;
        let Some(mount) = self.mount_points.iter().find(is_below) else { return };
        if self.parts.access == Access::Staged {
            let [directory, mount] = [directory, mount].map(windlass_core::quote::path);
            self.notes.push(format!(
                "{directory} was read-only: {mount} is a mount, and no overlay can be laid over a directory that has one in it; unmount \
                 it, or work in a directory without mounts"
            ));
        }
    }

    /// Returns the layers of the workspace: a mask layer, if there is something to mask, and the workspace.
    pub(super) fn workspace_layers(&mut self) -> io::Result<Vec<PathHandle>> {
        let (workspace, survey) = (&self.processes.workspace, self.parts.survey);
        let real = PathHandle::open(workspace)?;
        if survey.masked.is_empty() {
            return Ok(vec![real]);
        }
        let layer = self.mask_layer(workspace, &survey.masked)?;
        self.hidden.extend(survey.masked.iter().map(|(path, _)| workspace.join(path)));
        self.indexes = masked_index::replace(workspace, &survey.git, &survey.masked, &layer)?;
        Ok(vec![PathHandle::open(&layer)?, real])
    }
}

/// Returns a path, or the nearest existing directory above it.
fn nearest_existing(path: &Path) -> PathBuf {
    let there = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    there.unwrap_or(Path::new("/")).to_owned()
}

/// Returns whether a file or directory exists at a path, and not a link.
fn is_real(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file() || found.is_dir())
}
