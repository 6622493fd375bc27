//! Computes the file system that a confined program sees, from the session's rights and from what is on this machine.
//!
//! Nothing is there by default. The parts, in the order in which they are laid: the system read-only, a home of the workspace's own
//! with the toolchains, the session's `/tmp`, what rules and grants add, and the workspace without what is masked.

mod links;
mod protection;
mod workspace;

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::{Access, FileKind, FileRights, NetworkAccess, SESSION_TMP, SecretName};
use windlass_sandbox::{Fence, Mount, Network, Object, Protected, Source, Upper, View};

use super::home::{self, Home};
use super::outline::ViewPart;
use super::outside::{MOST_ENTRIES, expand, expand_writable};
use super::session::SharedPlaces;
use super::toolchains::ShownDirectory;
use super::{LocalProcesses, system, toolchains};
use crate::stage::carried::{CarriedDirectory, CarriedKind};
use crate::stage::masked_index::ReplacedIndex;
use crate::stage::tracked::tracked;
use crate::stage::{self, Stage, mask_layer};
use crate::survey::{MaskRule, Masking, Survey, survey as survey_tree};

/// A view, and what is needed besides to run a program in it.
pub(super) struct ComposedView {
    pub(super) view: View,
    pub(super) fence: Fence,
    /// Holds the layers, if there are any.
    pub(super) stage: Option<Stage>,
    /// Directories outside the workspace whose changes are staged.
    pub(super) staged: Vec<StagedDirectory>,
    /// Directories beside the workspace whose changes are kept with its own.
    pub(super) carried: Vec<CarriedDirectory>,
    /// Git's indexes that it shows in place of the workspace's own.
    pub(super) indexes: Vec<ReplacedIndex>,
    /// Things that the answer should mention.
    pub(super) notes: Vec<String>,
    /// Its mounts, for explanations.
    pub(super) parts: Vec<ViewPart>,
    /// Paths that mask layers leave out.
    pub(super) hidden: Vec<PathBuf>,
    /// Files beside which everything else in their directory is left out.
    pub(super) alone: Vec<PathBuf>,
}

/// A directory whose changes go to a layer of the stage.
#[derive(Debug)]
pub(super) struct StagedDirectory {
    pub(super) lower: PathBuf,
    pub(super) upper: PathBuf,
}

/// The parts of a launch that its view depends on.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) rights: &'a FileRights,
    pub(super) access: Access,
    pub(super) is_job: bool,
    pub(super) obeyed: &'a [PathBuf],
    pub(super) survey: &'a Survey,
    pub(super) places: &'a SharedPlaces,
    pub(super) home: Option<&'a Home>,
    /// Whether what changes in the home stays if the run's other changes are kept.
    pub(super) keeps_home: bool,
    /// The hosts that it may reach.
    pub(super) network: &'a NetworkAccess,
    /// The port on which a proxy will listen.
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
    /// Looks through the workspace for everything that a view must know of it.
    pub(super) fn survey(&self, rights: &FileRights) -> io::Result<Survey> {
        let index = self.index(&self.workspace);
        let mut survey = survey_tree(&self.workspace, rights, &self.settings.pass_through, &index)?;
        self.enter_tracked(rights, &mut survey)?;
        // A survey enters neither git directories nor build directories. What a rule names in there is masked all the same.
        let not_entered: Vec<&PathBuf> =
            survey.git.iter().chain(&survey.build_directories).collect();
        for path in self.denied_in(rights, &not_entered) {
            let is_directory = self.workspace.join(&path).is_dir();
            let kind = if is_directory { FileKind::Directory } else { FileKind::File };
            survey.masked.push((path, kind));
        }
        Ok(survey)
    }

    /// Surveys directories that look like build directories but hold tracked files, as any other directory.
    fn enter_tracked(&self, rights: &FileRights, survey: &mut Survey) -> io::Result<()> {
        for path in tracked(&self.workspace, &survey.git, &survey.build_directories) {
            survey.build_directories.retain(|directory| *directory != path);
            let directory = self.workspace.join(&path);
            survey.add(&path, survey_tree(&directory, rights, &[], &self.index(&directory))?);
        }
        Ok(())
    }

    /// Paths that a rule denies to be read in directories which a survey does not enter, relative to the workspace.
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

    pub(super) fn compose(&self, setting: Setting<'_>) -> io::Result<ComposedView> {
        let mut composer = Composer {
            processes: self,
            setting,
            mounts: system::mounts(),
            masked: Vec::new(),
            stage: OnceCell::new(),
            staged: Vec::new(),
            carried: Vec::new(),
            indexes: Vec::new(),
            notes: Vec::new(),
            mount_points: system::mount_points(),
            hidden: Vec::new(),
            alone: Vec::new(),
            protected: Vec::new(),
        };
        if *setting.network != NetworkAccess::None {
            composer.mounts.extend(system::name_resolution());
        }
        composer.lay_configuration()?;
        composer.lay_home()?;
        composer.lay_path()?;
        composer.lay_temporary()?;
        composer.lay_outside()?;
        composer.lay_workspace()?;
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
            alone: composer.alone,
            view: View {
                mounts: composer.mounts,
                workspace: self.workspace.clone(),
                protected: match setting.access {
                    Access::Direct if setting.is_job => composer.protected,
                    Access::Direct => self.protected(setting.survey),
                    // Nothing is changed, or the changes are judged before they are made.
                    Access::Read | Access::Staged => Vec::new(),
                },
                masked: composer.masked,
                network: match setting.network {
                    NetworkAccess::None => Network::Loopback,
                    NetworkAccess::Hosts(_) => Network::Listener(setting.port),
                    NetworkAccess::Full => Network::Machine,
                },
            },
        })
    }

    /// The toolchains of the person's home.
    fn toolchains(&self, home: &Path) -> Arc<Vec<ShownDirectory>> {
        self.shown.get(|| {
            let variable = |name: &str| self.variable(name);
            toolchains::shown(home, &variable, &[self.workspace.clone(), self.state()])
        })
    }

    /// The directories in which programs are looked for and that a view does not show otherwise.
    fn path_directories(&self, home: &Path, is_shown: &dyn Fn(&Path) -> bool) -> Arc<Vec<PathBuf>> {
        self.on_path.get(|| {
            let path = self.variable("PATH").unwrap_or_default();
            toolchains::path_directories(&path, home, is_shown)
        })
    }

    /// The index of a tree.
    pub(super) fn index(&self, root: &Path) -> PathBuf {
        self.state().join("index").join(super::hashed(root))
    }
}

struct Composer<'a> {
    processes: &'a LocalProcesses,
    setting: Setting<'a>,
    mounts: Vec<Mount>,
    masked: Vec<PathBuf>,
    stage: OnceCell<Stage>,
    staged: Vec<StagedDirectory>,
    carried: Vec<CarriedDirectory>,
    indexes: Vec<ReplacedIndex>,
    notes: Vec<String>,
    /// Paths of this machine at which something is mounted.
    mount_points: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    alone: Vec<PathBuf>,
    /// Places of the real workspace that a job cannot change.
    protected: Vec<Protected>,
}

impl Composer<'_> {
    /// The stage, made when the first layer is: most commands that only read need none.
    fn stage(&self) -> io::Result<&Stage> {
        if let Some(made) = self.stage.get() {
            return Ok(made);
        }
        let made = self.processes.stage(self.setting.access)?;
        Ok(self.stage.get_or_init(|| made))
    }

    fn lay(&mut self, at: &Path, source: Source) {
        self.mounts.push(Mount { at: at.to_owned(), source });
    }

    /// `/etc` without its secrets: one overlay, since each mask that is a mount costs as much.
    fn lay_configuration(&mut self) -> io::Result<()> {
        let etc = Path::new("/etc");
        let Ok(real) = Object::open(etc) else { return Ok(()) };
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
            home::kept_masks(etc, &inside, &layers)?
        };
        let source = if let Some(layer) = layer {
            Source::Overlay { lower: vec![Object::open(&layer)?, real], upper: None }
        } else {
            self.masked.extend(masked.iter().cloned());
            Source::ReadOnly(real)
        };
        self.lay(etc, source);
        Ok(())
    }

    /// The home of the workspace's own, with the toolchains of the person's.
    fn lay_home(&mut self) -> io::Result<()> {
        let Some(home) = self.setting.home else { return Ok(()) };
        home.make_way(&self.processes.workspace)?;
        let own = self.own_home(&home.directory)?;
        self.lay(&home.path, own);
        let shown = self.processes.toolchains(&home.path);
        for shown in &*shown {
            if self.shows(&shown.shown_at) {
                continue;
            }
            home.make_way(&shown.shown_at)?;
            let upper = home.upper(shown)?;
            // A command that only reads needs no overlay where no other has changed anything: a mount of the directory is cheaper.
            let is_plain = self.setting.access == Access::Read && is_empty(&upper);
            let is_layered =
                shown.is_writable && !is_plain && !self.cannot_be_overlaid(&shown.path);
            let source = if is_layered {
                self.layered(&shown.path, home.masks(shown)?.as_deref(), &upper)?
            } else {
                let masked = shown.masked.iter().map(|path| shown.shown_at.join(path));
                self.masked.extend(masked);
                Source::ReadOnly(Object::open(&shown.path)?)
            };
            self.lay(&shown.shown_at, source);
        }
        Ok(())
    }

    /// The home directory itself, with a layer over it: nothing that a run leaves there reaches another before its changes are kept.
    /// Those of a job are made at once, in the workspace as well as here.
    fn own_home(&mut self, directory: &Path) -> io::Result<Source> {
        let home = Object::open(directory)?;
        if self.setting.access == Access::Direct && self.setting.keeps_home {
            return Ok(Source::Writable(home));
        }
        if self.cannot_be_overlaid(directory) {
            return Ok(Source::ReadOnly(home));
        }
        if self.setting.access == Access::Read {
            return Ok(Source::Scratch(vec![home]));
        }
        let upper = self.layer_of_home(directory, CarriedKind::Home)?;
        Ok(Source::Overlay { lower: vec![home], upper: Some(self.upper(&upper)?) })
    }

    /// A directory of the machine whose changes are kept in a layer that outlives the run. A job changes that layer, a command another
    /// one over it, and one that only reads none.
    fn layered(&mut self, real: &Path, masks: Option<&Path>, kept: &Path) -> io::Result<Source> {
        let upper = match (self.setting.access, self.setting.keeps_home) {
            (Access::Read, _) => None,
            (Access::Direct, true) => Some(kept.to_owned()),
            _ => Some(self.layer_of_home(kept, CarriedKind::Layer)?),
        };
        let below = (upper.as_deref() != Some(kept)).then_some(kept);
        let mut lower = Vec::new();
        for layer in below.into_iter().chain(masks).chain([real]) {
            lower.push(Object::open(layer)?);
        }
        let upper = upper.map(|upper| self.upper(&upper)).transpose()?;
        Ok(Source::Overlay { lower, upper })
    }

    /// A layer for changes of this part of the home: they are kept with the other changes of the run, or go with it.
    fn layer_of_home(&mut self, target: &Path, kind: CarriedKind) -> io::Result<PathBuf> {
        if self.setting.keeps_home {
            return self.carry(target, kind);
        }
        self.layer_on_stage(target)
    }

    /// A layer for changes of this directory that are kept with the other changes of the run.
    fn carry(&mut self, target: &Path, kind: CarriedKind) -> io::Result<PathBuf> {
        let upper = self.layer_on_stage(target)?;
        let carried = CarriedDirectory { upper: upper.clone(), target: target.to_owned(), kind };
        self.carried.push(carried);
        Ok(upper)
    }

    fn layer_on_stage(&self, directory: &Path) -> io::Result<PathBuf> {
        let upper = self.stage()?.directory("layer")?;
        stage::copy_attributes(&upper, directory)?;
        Ok(upper)
    }

    /// Every mount needs a work directory of its own, also where several share an upper one.
    fn upper(&self, upper: &Path) -> io::Result<Upper> {
        let work = self.stage()?.directory("work")?;
        Ok(Upper { upper: Object::open(upper)?, work: Object::open(&work)? })
    }

    /// The directories in which programs are looked for, where they are not shown already.
    fn lay_path(&mut self) -> io::Result<()> {
        let Some(home) = self.setting.home else { return Ok(()) };
        let more = self.processes.path_directories(&home.path, &|path| self.shows(path));
        for directory in &*more {
            if directory.starts_with(&self.processes.workspace) || self.shows(directory) {
                continue;
            }
            home.make_way(directory)?;
            if let Ok(object) = Object::open(directory) {
                self.lay(directory, Source::ReadOnly(object));
            }
        }
        Ok(())
    }

    fn lay_temporary(&mut self) -> io::Result<()> {
        for at in SESSION_TMP.map(Path::new) {
            if !at.starts_with(&self.processes.workspace) {
                // The other name for it is a link, unless something is to be mounted below that.
                if at != Path::new("/tmp") && !self.processes.workspace.starts_with(at) {
                    self.lay(at, Source::Link("/tmp".into()));
                    continue;
                }
                let directory = &self.setting.places.temporary.path;
                home::make_way(directory, at, &self.processes.workspace)?;
                self.lay(at, Source::Writable(Object::open(directory)?));
            }
        }
        Ok(())
    }

    /// What rules and the call's grant add.
    fn lay_outside(&mut self) -> io::Result<()> {
        // Only what is staged is judged: a job may read there, no more.
        let is_changed = self.setting.access == Access::Staged;
        let writable = if is_changed { self.setting.rights.writable() } else { Vec::new() };
        let readable = self.setting.rights.readable();
        let settings = &self.processes.settings;
        let shell = (!settings.shell.is_usual()).then(|| settings.shell.file().to_owned());
        let shown = settings.readable.iter().cloned().chain(shell);
        let readable = shown.chain(readable.iter().flat_map(expand));
        for path in readable.filter(|path| !is_session_tmp(path)) {
            if !self.shows(&path) && !writable.iter().any(|paths| paths.root == path) {
                self.lay_readable(&path)?;
            }
        }
        for path in writable.iter().flat_map(expand_writable).filter(|path| !is_session_tmp(path)) {
            self.lay_writable(&path)?;
        }
        for socket in &self.processes.settings.sockets {
            match Object::open(socket) {
                Ok(object) => self.lay(socket, Source::ReadOnly(object)),
                Err(error) => {
                    let name = windlass_core::quote::path(socket);
                    self.notes.push(format!("the socket {name} is not there: {error}"));
                }
            }
        }
        Ok(())
    }

    fn lay_readable(&mut self, path: &Path) -> io::Result<()> {
        let Ok(found) = path.symlink_metadata() else { return Ok(()) };
        if !found.is_dir() {
            let object = Object::open(path)?;
            self.lay(path, Source::ReadOnly(object));
            return Ok(());
        }
        if self.cannot_be_overlaid(path) {
            return self.lay_real(path, Source::ReadOnly(Object::open(path)?));
        }
        let masks = self.masks_of(path)?;
        let lower = vec![Object::open(&masks)?, Object::open(path)?];
        self.lay(path, Source::Overlay { lower, upper: None });
        Ok(())
    }

    fn lay_writable(&mut self, path: &Path) -> io::Result<()> {
        let (directory, masks) = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => (path, self.masks_of(path)?),
            _ => match path.parent().filter(|parent| parent.is_dir()) {
                Some(parent) => {
                    self.alone.push(path.to_owned());
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
            return self.lay_readable(path);
        }
        let lower = vec![Object::open(&masks)?, Object::open(directory)?];
        let upper = self.stage()?.directory("upper")?;
        stage::copy_attributes(&upper, directory)?;
        let source = Source::Overlay { lower, upper: Some(self.upper(&upper)?) };
        self.lay(directory, source);
        self.staged.push(StagedDirectory { lower: directory.to_owned(), upper });
        Ok(())
    }

    /// A layer that masks what no program may see of a directory; an empty one if there is nothing to mask.
    fn masks_of(&mut self, directory: &Path) -> io::Result<PathBuf> {
        let found = self.survey_of(directory)?;
        self.hidden.extend(found.masked.iter().map(|(path, _)| directory.join(path)));
        self.mask_layer(directory, &found.masked)
    }

    fn survey_of(&self, directory: &Path) -> io::Result<Survey> {
        let names = &self.processes.settings.pass_through;
        survey_tree(directory, self.setting.rights, names, &self.processes.index(directory))
    }

    fn mask_layer(&self, root: &Path, masked: &[(PathBuf, FileKind)]) -> io::Result<PathBuf> {
        let layer = self.stage()?.directory("masks")?;
        mask_layer::build(root, masked, &layer)?;
        Ok(layer)
    }

    /// A layer that masks everything in a directory but one file.
    fn masks_around(&self, directory: &Path, file: &Path) -> io::Result<PathBuf> {
        let mut masked = Vec::new();
        for entry in fs::read_dir(directory)?.take(MOST_ENTRIES) {
            let entry = entry?;
            if Some(&*entry.file_name()) != file.file_name() {
                masked.push((PathBuf::from(entry.file_name()), FileKind::File));
            }
        }
        if masked.len() >= MOST_ENTRIES {
            let name = windlass_core::quote::path(directory).into_owned();
            return Err(io::Error::other(format!(
                "{name} has more than {MOST_ENTRIES} entries, which cannot be kept from a program that may write to one of them"
            )));
        }
        self.mask_layer(directory, &masked)
    }

    /// Returns whether the view has at a path what the machine has there.
    fn shows(&self, path: &Path) -> bool {
        let deepest = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.at))
            .max_by_key(|mount| mount.at.components().count());
        let is_real = |object: &Object, at: &Path| object.path() == at;
        deepest.is_some_and(|mount| match &mount.source {
            Source::ReadOnly(object) | Source::Writable(object) | Source::Sysfs(object) => {
                is_real(object, &mount.at)
            }
            Source::Overlay { lower, .. } | Source::Scratch(lower) => {
                lower.last().is_some_and(|object| is_real(object, &mount.at))
            }
            Source::Link(_) => true,
            Source::Directory => false,
        })
    }

    fn fence(&self) -> Fence {
        let mut writable: Vec<PathBuf> = ["/dev", "/proc"].map(PathBuf::from).to_vec();
        writable.extend(self.mounts.iter().filter_map(|mount| match &mount.source {
            Source::Writable(_) | Source::Scratch(_) | Source::Overlay { upper: Some(_), .. } => {
                Some(mount.at.clone())
            }
            _ => None,
        }));
        Fence {
            readable: vec!["/".into()],
            writable,
            internet: true,
            connect: true,
            without_attributes: self.setting.access == Access::Direct,
        }
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns whether a path is one by which the program has the session's own directory: a link may lead there.
pub(super) fn is_session_tmp(path: &Path) -> bool {
    SESSION_TMP.iter().any(|tmp| path.starts_with(tmp))
}
