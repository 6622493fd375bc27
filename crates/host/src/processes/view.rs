//! Computes the file system that a confined program sees, from the session's rights and from the files of this machine.
//!
//! By default there is nothing. The parts are mounted in this order: the system read-only, a home of the workspace's own with the
//! toolchains, the session's `/tmp`, the paths that rules and grants add, and the workspace without its masked files.

mod links;
mod protection;
mod workspace;

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::{Access, FileKind, FileRights, NetworkAccess, SESSION_TMP, SecretName};
use windlass_sandbox::{
    Fence, Mount, MountSource, OverlayUpper, PathHandle, ProgramNetwork, ReadOnlyPath, View,
};

use super::home::{self, Home};
use super::outline::ViewPart;
use super::outside::{MAX_ENTRIES, expand, expand_writable};
use super::session::SessionShared;
use super::toolchains::ShownDirectory;
use super::{LocalProcesses, system, toolchains};
use crate::stage::carried::{CarriedDirectory, CarriedKind};
use crate::stage::masked_index::ReplacedIndex;
use crate::stage::tracked::tracked;
use crate::stage::{self, Stage, mask_layer};
use crate::survey::{MaskRule, Masking, Survey, survey as survey_tree};

/// A view, and everything else that is needed to run a program in it.
pub(super) struct ComposedView {
    pub(super) view: View,
    pub(super) fence: Fence,
    /// Stage with the layers, if there are any.
    pub(super) stage: Option<Stage>,
    /// Directories outside the workspace whose changes are staged.
    pub(super) staged: Vec<StagedDirectory>,
    /// Directories beside the workspace whose changes are kept with those of the workspace.
    pub(super) carried: Vec<CarriedDirectory>,
    /// Git's indexes that are replaced in the view.
    pub(super) indexes: Vec<ReplacedIndex>,
    /// Notes for the result.
    pub(super) notes: Vec<String>,
    /// Mounts of the view, to explain failures.
    pub(super) parts: Vec<ViewPart>,
    /// Paths that mask layers hide.
    pub(super) hidden: Vec<PathBuf>,
    /// Files whose directory is shown without its other entries.
    pub(super) shown_alone: Vec<PathBuf>,
}

/// A directory whose changes go to a layer of the stage.
#[derive(Debug)]
pub(super) struct StagedDirectory {
    pub(super) lower: PathBuf,
    pub(super) upper: PathBuf,
}

/// The parts of a launch on which its view depends.
#[derive(Clone, Copy)]
pub(super) struct LaunchParts<'a> {
    pub(super) rights: &'a FileRights,
    pub(super) access: Access,
    pub(super) is_job: bool,
    pub(super) obeyed: &'a [PathBuf],
    pub(super) survey: &'a Survey,
    pub(super) places: &'a SessionShared,
    pub(super) home: Option<&'a Home>,
    /// True if changes in the home stay if the run's other changes are kept.
    pub(super) keeps_home: bool,
    /// Hosts that the program may reach.
    pub(super) network: &'a NetworkAccess,
    /// Port on which a proxy will listen.
    pub(super) port: u16,
}

impl MaskRule for FileRights {
    fn fingerprint(&self) -> u64 {
        FileRights::fingerprint(self)
    }

    fn masks(&self, path: &Path, kind: FileKind) -> Masking {
        match FileRights::masks(self, path, kind) {
            SecretName::No => Masking::Show,
            SecretName::Yes(_) => Masking::Mask,
            SecretName::IfCredential(_) => Masking::IfCredential,
        }
    }
}

impl LocalProcesses {
    /// Surveys the workspace for everything that a view needs.
    pub(super) fn survey(&self, rights: &FileRights) -> io::Result<Survey> {
        let index = self.index(&self.workspace);
        let mut survey = survey_tree(&self.workspace, rights, &self.settings.pass_through, &index)?;
        self.enter_tracked(rights, &mut survey)?;
        // A survey enters neither git directories nor build directories. Paths in them that a rule names are masked all the same.
        let not_entered: Vec<&PathBuf> =
            survey.git.iter().chain(&survey.build_directories).collect();
        for path in self.denied_in(rights, &not_entered) {
            let is_directory = self.workspace.join(&path).is_dir();
            let kind = if is_directory { FileKind::Directory } else { FileKind::File };
            survey.masked.push((path, kind));
        }
        Ok(survey)
    }

    /// Surveys build directories that hold tracked files like any other directory, and takes them off the list of build directories.
    fn enter_tracked(&self, rights: &FileRights, survey: &mut Survey) -> io::Result<()> {
        for path in tracked(&self.workspace, &survey.git, &survey.build_directories) {
            survey.build_directories.retain(|directory| *directory != path);
            let directory = self.workspace.join(&path);
            survey.add(&path, survey_tree(&directory, rights, &[], &self.index(&directory))?);
        }
        Ok(())
    }

    /// Returns the existing paths inside these directories that a rule denies to be read as a whole, relative to the workspace.
    fn denied_in(&self, rights: &FileRights, directories: &[&PathBuf]) -> Vec<PathBuf> {
        let denied = rights.denied();
        let inside = denied.iter().filter_map(|path| path.strip_prefix(&self.workspace).ok());
        let named = inside.filter(|path| {
            directories.iter().any(|directory| path.starts_with(directory) && path != directory)
        });
        named
            .filter(|path| self.workspace.join(path).symlink_metadata().is_ok())
            .map(Path::to_owned)
            .collect()
    }

    /// Composes the view of a program, with a stage if it needs layers. Mounts nothing yet.
    pub(super) fn compose(&self, parts: LaunchParts<'_>) -> io::Result<ComposedView> {
        let mut composer = Composer {
            processes: self,
            parts,
            mounts: system::mounts(),
            masked: Vec::new(),
            stage: OnceCell::new(),
            staged: Vec::new(),
            carried: Vec::new(),
            indexes: Vec::new(),
            notes: Vec::new(),
            mount_points: system::mount_points(),
            hidden: Vec::new(),
            shown_alone: Vec::new(),
            protected: Vec::new(),
        };
        if *parts.network != NetworkAccess::None {
            composer.mounts.extend(system::name_resolution());
        }
        composer.mount_configuration()?;
        composer.mount_home()?;
        composer.mount_path()?;
        composer.mount_temporary()?;
        composer.mount_outside()?;
        composer.mount_workspace()?;
        let fence = composer.fence();
        Ok(ComposedView {
            fence,
            stage: composer.stage.into_inner(),
            staged: composer.staged,
            carried: composer.carried,
            indexes: composer.indexes,
            notes: composer.notes,
            parts: composer.mounts.iter().map(ViewPart::of).collect(),
            hidden: composer.hidden,
            shown_alone: composer.shown_alone,
            view: View {
                mounts: composer.mounts,
                workspace: self.workspace.clone(),
                protected: match parts.access {
                    Access::Direct if parts.is_job => composer.protected,
                    Access::Direct => self.protected(parts.survey),
                    // Nothing is changed, or the changes are decided on before they are committed.
                    Access::Read | Access::Staged => Vec::new(),
                },
                masked: composer.masked,
                network: match parts.network {
                    NetworkAccess::None => ProgramNetwork::Loopback,
                    NetworkAccess::Hosts(_) => ProgramNetwork::Listener(parts.port),
                    NetworkAccess::Full => ProgramNetwork::Machine,
                },
            },
        })
    }

    /// Returns the toolchains of the person's home, remembered for a moment.
    fn toolchains(&self, home: &Path) -> Arc<Vec<ShownDirectory>> {
        self.shown.get(|| {
            let variable = |name: &str| self.variable(name);
            toolchains::shown(home, &variable, &[self.workspace.clone(), self.state()])
        })
    }

    /// Returns the directories on `PATH` that a view does not show otherwise.
    fn path_directories(&self, home: &Path, is_shown: &dyn Fn(&Path) -> bool) -> Arc<Vec<PathBuf>> {
        self.on_path.get(|| {
            let path = self.variable("PATH").unwrap_or_default();
            toolchains::path_directories(&path, home, is_shown)
        })
    }

    /// Returns the path of the survey index of a tree.
    pub(super) fn index(&self, root: &Path) -> PathBuf {
        self.state().join("index").join(super::hashed(root))
    }
}

/// State of the composition of a view.
struct Composer<'a> {
    processes: &'a LocalProcesses,
    parts: LaunchParts<'a>,
    mounts: Vec<Mount>,
    masked: Vec<PathBuf>,
    stage: OnceCell<Stage>,
    staged: Vec<StagedDirectory>,
    carried: Vec<CarriedDirectory>,
    indexes: Vec<ReplacedIndex>,
    notes: Vec<String>,
    /// Paths of this machine at which a file system is mounted.
    mount_points: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    shown_alone: Vec<PathBuf>,
    /// Paths of the real workspace that a job cannot change.
    protected: Vec<ReadOnlyPath>,
}

impl Composer<'_> {
    /// Returns the stage, created with the first layer: most commands that only read need none.
    fn stage(&self) -> io::Result<&Stage> {
        if let Some(made) = self.stage.get() {
            return Ok(made);
        }
        let made = self.processes.stage(self.parts.access)?;
        Ok(self.stage.get_or_init(|| made))
    }

    /// Adds a mount to the view. Like the functions below, it mounts nothing itself.
    fn mount(&mut self, at: &Path, source: MountSource) {
        self.mounts.push(Mount { at: at.to_owned(), source });
    }

    /// Mounts `/etc` without its secrets: as one overlay if possible, because each single mask would be a mount of its own. Does nothing
    /// if there is no `/etc`.
    fn mount_configuration(&mut self) -> io::Result<()> {
        let etc = Path::new("/etc");
        let Ok(real) = PathHandle::open(etc) else { return Ok(()) };
        let remembered = &self.processes.masked_in_etc;
        let masked = remembered.get(|| system::masked(&self.processes.index(etc)));
        let inside = masked.iter().filter_map(|path| path.strip_prefix(etc).ok());
        let inside: Vec<PathBuf> = inside.map(Path::to_owned).collect();
        let layers = self.processes.uppers()?.join("etc");
        let layer = if self.cannot_be_overlaid(etc)
            || inside.iter().any(|path| path.as_os_str().is_empty())
        {
            None
        } else {
            home::persistent_mask_layer(etc, &inside, &layers)?
        };
        let source = if let Some(layer) = layer {
            MountSource::Overlay { lower: vec![PathHandle::open(&layer)?, real], upper: None }
        } else {
            self.masked.extend(masked.iter().cloned());
            MountSource::ReadOnly(real)
        };
        self.mount(etc, source);
        Ok(())
    }

    /// Mounts the workspace's own home, with the toolchains of the person's home. Does nothing if programs get no home.
    fn mount_home(&mut self) -> io::Result<()> {
        let Some(home) = self.parts.home else { return Ok(()) };
        home.prepare_mount_point(&self.processes.workspace)?;
        let own = self.own_home(&home.directory)?;
        self.mount(&home.path, own);
        let shown = self.processes.toolchains(&home.path);
        for shown in &*shown {
            if self.shows(&shown.shown_at) {
                continue;
            }
            home.prepare_mount_point(&shown.shown_at)?;
            let upper = home.upper(shown)?;
            // A command that only reads needs no overlay if no other command has changed anything: a plain mount is cheaper.
            let is_plain = self.parts.access == Access::Read && is_empty(&upper);
            let is_layered =
                shown.is_writable && !is_plain && !self.cannot_be_overlaid(&shown.path);
            let source = if is_layered {
                self.layered(&shown.path, home.masks(shown)?.as_deref(), &upper)?
            } else {
                let masked = shown.masked.iter().map(|path| shown.shown_at.join(path));
                self.masked.extend(masked);
                MountSource::ReadOnly(PathHandle::open(&shown.path)?)
            };
            self.mount(&shown.shown_at, source);
        }
        Ok(())
    }

    /// Returns the mount of the home directory with a layer over it: files of a run reach no other program before its changes are kept. A
    /// job whose changes are kept changes the home directly, as it does the workspace. Read-only if no overlay is possible.
    fn own_home(&mut self, directory: &Path) -> io::Result<MountSource> {
        let home = PathHandle::open(directory)?;
        if self.parts.access == Access::Direct && self.parts.keeps_home {
            return Ok(MountSource::Writable(home));
        }
        if self.cannot_be_overlaid(directory) {
            return Ok(MountSource::ReadOnly(home));
        }
        if self.parts.access == Access::Read {
            return Ok(MountSource::Scratch(vec![home]));
        }
        let upper = self.layer_of_home(directory, CarriedKind::Home)?;
        Ok(MountSource::Overlay { lower: vec![home], upper: Some(self.upper(&upper)?) })
    }

    /// Returns the mount of a directory whose changes are kept in a layer that outlives the run. A job changes that layer, a command
    /// another one over it, and a read-only command none.
    fn layered(
        &mut self,
        real: &Path,
        masks: Option<&Path>,
        kept: &Path,
    ) -> io::Result<MountSource> {
        let upper = match (self.parts.access, self.parts.keeps_home) {
            (Access::Read, _) => None,
            (Access::Direct, true) => Some(kept.to_owned()),
            _ => Some(self.layer_of_home(kept, CarriedKind::Layer)?),
        };
        let below = (upper.as_deref() != Some(kept)).then_some(kept);
        let mut lower = Vec::new();
        for layer in below.into_iter().chain(masks).chain([real]) {
            lower.push(PathHandle::open(layer)?);
        }
        let upper = upper.map(|upper| self.upper(&upper)).transpose()?;
        Ok(MountSource::Overlay { lower, upper })
    }

    /// Creates a layer for changes of this part of the home. They are kept with the other changes of the run, or dropped with the stage.
    fn layer_of_home(&mut self, target: &Path, kind: CarriedKind) -> io::Result<PathBuf> {
        if self.parts.keeps_home {
            return self.carry(target, kind);
        }
        self.layer_on_stage(target)
    }

    /// Creates a layer for changes of a directory that are kept with the other changes of the run.
    fn carry(&mut self, target: &Path, kind: CarriedKind) -> io::Result<PathBuf> {
        let upper = self.layer_on_stage(target)?;
        let carried = CarriedDirectory { upper: upper.clone(), target: target.to_owned(), kind };
        self.carried.push(carried);
        Ok(upper)
    }

    /// Creates a layer on the stage with the attributes of a directory.
    fn layer_on_stage(&self, directory: &Path) -> io::Result<PathBuf> {
        let upper = self.stage()?.directory("layer")?;
        stage::copy_attributes(&upper, directory)?;
        Ok(upper)
    }

    /// Opens an upper layer. Every mount needs a work directory of its own, even if several share an upper layer.
    fn upper(&self, upper: &Path) -> io::Result<OverlayUpper> {
        let work = self.stage()?.directory("work")?;
        Ok(OverlayUpper { upper: PathHandle::open(upper)?, work: PathHandle::open(&work)? })
    }

    /// Mounts the directories on `PATH` that are not shown already, read-only. Those that cannot be opened are left out.
    fn mount_path(&mut self) -> io::Result<()> {
        let Some(home) = self.parts.home else { return Ok(()) };
        let more = self.processes.path_directories(&home.path, &|path| self.shows(path));
        for directory in &*more {
            if directory.starts_with(&self.processes.workspace) || self.shows(directory) {
                continue;
            }
            home.prepare_mount_point(directory)?;
            if let Ok(object) = PathHandle::open(directory) {
                self.mount(directory, MountSource::ReadOnly(object));
            }
        }
        Ok(())
    }

    /// Mounts the session's directory for temporary files at `/tmp` and `/var/tmp`: there as a link, or as a second mount if the workspace
    /// lies below. A name inside the workspace is left out.
    fn mount_temporary(&mut self) -> io::Result<()> {
        for at in SESSION_TMP.map(Path::new) {
            if !at.starts_with(&self.processes.workspace) {
                // The other name of `/tmp` is a link, unless the workspace is to be mounted below it.
                if at != Path::new("/tmp") && !self.processes.workspace.starts_with(at) {
                    self.mount(at, MountSource::Link("/tmp".into()));
                    continue;
                }
                let directory = &self.parts.places.temporary.path;
                home::prepare_mount_point(directory, at, &self.processes.workspace)?;
                self.mount(at, MountSource::Writable(PathHandle::open(directory)?));
            }
        }
        Ok(())
    }

    /// Mounts the paths that rules, the call's grant and the settings add. A socket that is missing only gives a note.
    fn mount_outside(&mut self) -> io::Result<()> {
        // Only staged changes are decided on, so a job may only read there.
        let is_changed = self.parts.access == Access::Staged;
        let writable = if is_changed { self.parts.rights.writable() } else { Vec::new() };
        let readable = self.parts.rights.readable();
        let settings = &self.processes.settings;
        let shell = (!settings.shell.is_usual()).then(|| settings.shell.file().to_owned());
        let shown = settings.readable.iter().cloned().chain(shell);
        let readable = shown.chain(readable.iter().flat_map(expand));
        for path in readable.filter(|path| !is_session_tmp(path)) {
            if !self.shows(&path) && !writable.iter().any(|paths| paths.root == path) {
                self.mount_readable(&path)?;
            }
        }
        for path in writable.iter().flat_map(expand_writable).filter(|path| !is_session_tmp(path)) {
            self.mount_writable(&path)?;
        }
        for socket in &self.processes.settings.sockets {
            match PathHandle::open(socket) {
                Ok(object) => self.mount(socket, MountSource::ReadOnly(object)),
                Err(error) => {
                    let name = windlass_core::quote::path(socket);
                    self.notes.push(format!("the socket {name} is not there: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Mounts a path read-only, without masked files. Does nothing if it does not exist.
    fn mount_readable(&mut self, path: &Path) -> io::Result<()> {
        let Ok(found) = path.symlink_metadata() else { return Ok(()) };
        if !found.is_dir() {
            let object = PathHandle::open(path)?;
            self.mount(path, MountSource::ReadOnly(object));
            return Ok(());
        }
        if self.cannot_be_overlaid(path) {
            return self.mount_real(path, MountSource::ReadOnly(PathHandle::open(path)?));
        }
        let masks = self.masks_of(path)?;
        let lower = vec![PathHandle::open(&masks)?, PathHandle::open(path)?];
        self.mount(path, MountSource::Overlay { lower, upper: None });
        Ok(())
    }

    /// Mounts a path so that its changes are staged. A single file is shown without its neighbours. A directory that cannot be overlaid
    /// is mounted read-only, with a note; a path without an existing parent is left out.
    fn mount_writable(&mut self, path: &Path) -> io::Result<()> {
        let (directory, masks) = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => (path, self.masks_of(path)?),
            _ => match path.parent().filter(|parent| parent.is_dir()) {
                Some(parent) => {
                    self.shown_alone.push(path.to_owned());
                    (parent, self.masks_around(parent, path)?)
                }
                None => return Ok(()),
            },
        };
        if self.staged.iter().any(|staged| directory.starts_with(&staged.lower)) {
            return Ok(());
        }
        if self.cannot_be_overlaid(directory) {
            self.note_mounts(directory);
            return self.mount_readable(path);
        }
        let lower = vec![PathHandle::open(&masks)?, PathHandle::open(directory)?];
        let upper = self.stage()?.directory("upper")?;
        stage::copy_attributes(&upper, directory)?;
        let source = MountSource::Overlay { lower, upper: Some(self.upper(&upper)?) };
        self.mount(directory, source);
        self.staged.push(StagedDirectory { lower: directory.to_owned(), upper });
        Ok(())
    }

    /// Creates a layer that masks the secrets in a directory; empty if there are none. Adds them to the hidden paths.
    fn masks_of(&mut self, directory: &Path) -> io::Result<PathBuf> {
        let found = self.survey_of(directory)?;
        self.hidden.extend(found.masked.iter().map(|(path, _)| directory.join(path)));
        self.mask_layer(directory, &found.masked)
    }

    /// Surveys a directory outside the workspace.
    fn survey_of(&self, directory: &Path) -> io::Result<Survey> {
        let names = &self.processes.settings.pass_through;
        survey_tree(directory, self.parts.rights, names, &self.processes.index(directory))
    }

    /// Creates a mask layer on the stage.
    fn mask_layer(&self, root: &Path, masked: &[(PathBuf, FileKind)]) -> io::Result<PathBuf> {
        let layer = self.stage()?.directory("masks")?;
        mask_layer::build(root, masked, &layer)?;
        Ok(layer)
    }

    /// Creates a layer that masks everything in a directory except one file. Fails if the directory has too many entries.
    fn masks_around(&self, directory: &Path, file: &Path) -> io::Result<PathBuf> {
        let mut masked = Vec::new();
        for entry in fs::read_dir(directory)?.take(MAX_ENTRIES) {
            let entry = entry?;
            if Some(&*entry.file_name()) != file.file_name() {
                masked.push((PathBuf::from(entry.file_name()), FileKind::File));
            }
        }
        if masked.len() >= MAX_ENTRIES {
            let name = windlass_core::quote::path(directory).into_owned();
            return Err(io::Error::other(format!(
                "{name} has more than {MAX_ENTRIES} entries, which cannot be kept from a program that may write to one of them"
            )));
        }
        self.mask_layer(directory, &masked)
    }

    /// Returns whether the view shows at a path the machine's own object of that path.
    fn shows(&self, path: &Path) -> bool {
        let deepest = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.at))
            .max_by_key(|mount| mount.at.components().count());
        let is_real = |object: &PathHandle, at: &Path| object.path() == at;
        deepest.is_some_and(|mount| match &mount.source {
            MountSource::ReadOnly(object)
            | MountSource::Writable(object)
            | MountSource::Sysfs(object) => is_real(object, &mount.at),
            MountSource::Overlay { lower, .. } | MountSource::Scratch(lower) => {
                lower.last().is_some_and(|object| is_real(object, &mount.at))
            }
            MountSource::Link(_) => true,
            MountSource::Directory => false,
        })
    }

    /// Returns the Landlock rules that match the mounts.
    fn fence(&self) -> Fence {
        let mut writable: Vec<PathBuf> = ["/dev", "/proc"].map(PathBuf::from).to_vec();
        writable.extend(self.mounts.iter().filter_map(|mount| match &mount.source {
            MountSource::Writable(_)
            | MountSource::Scratch(_)
            | MountSource::Overlay { upper: Some(_), .. } => Some(mount.at.clone()),
            _ => None,
        }));
        Fence {
            readable: vec!["/".into()],
            writable,
            internet: true,
            connect: true,
            without_attributes: self.parts.access == Access::Direct,
        }
    }
}

/// Returns whether a directory can be listed and is empty.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns whether a path is one of the names of the session's own directory, or below it. A link may lead there.
pub(super) fn is_session_tmp(path: &Path) -> bool {
    SESSION_TMP.iter().any(|tmp| path.starts_with(tmp))
}
