//! Finds what a process changed: by the stage on which it worked, or by two scans where there was no stage.
//!
//! A stage is the writable half of an overlay whose lower half is the workspace. This module creates it before the run and reads it
//! afterwards; mounting it and running programs on it is done elsewhere. Only [`Stage::keep_unrecorded`] and a recovery change the
//! workspace: they keep the changes of build directories, and of the home beside them.

pub(crate) mod build_directory;
mod build_merge;
mod built;
pub(crate) mod carried;
mod delta;
mod durable;
pub(crate) mod entries;
mod file;
mod git_index;
mod held;
mod left_behind;
pub(crate) mod lineage;
mod marks;
pub(crate) mod mask_layer;
pub(crate) mod masked_index;
mod measure;
mod moved_build;
mod recorded_changes;
mod removed_tree;
mod scan;
mod staged_ignore_rules;
pub(crate) mod tracked;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, IFlags, Mode, XattrFlags};
use rustix::io::retry_on_intr;
use windlass_core::{
    ApprovalId, Attributes, BuiltChange, CallId, ChangedTo, CommitState, HeldChanges,
    ProcessChange, ProcessChanges, SkippedPath, StageHold,
};

use self::built::{Built, BuiltRecord, Tie};
use self::carried::CarriedDirectory;
use self::left_behind::Recovery;
use crate::attributes::{self, Extended};
use crate::isolate::remove_tree::remove_tree;
use crate::kernel::{FOR_LISTING, stat};
pub(crate) use delta::{BuildDirectories, Layers, delta_of};
pub use delta::{Delta, delta};
pub(crate) use git_index::hash_entries as hash_index_entries;
pub use scan::Scan;
pub use windlass_core::PASS_THROUGH;

/// Maximum attempts to find a free name.
const MAX_NAME_TRIES: usize = 16;

/// Name of the file whose lock shows that a process still needs the stage.
const LOCK_NAME: &str = "lock";

/// Bits of the workspace directory's own mode that programs may change.
const PERMISSIONS: u32 = 0o1777;

/// Owner permissions without which the workspace could not be used any more.
const OWNER_PERMISSIONS: u32 = 0o700;

/// Change that a program made to the mode of the workspace's own directory.
#[derive(Debug)]
pub(crate) enum ModeChange {
    /// The change can be applied.
    Change(ProcessChange),
    /// The new mode would lock its owner out.
    Refused(u32),
    /// Another program changed the mode in the meantime.
    Conflict,
}

/// Holds the changes of one run until they are applied. Removed on drop, unless it waits for an approval or for the next start.
///
/// ```
/// # let ground = tempfile::tempdir()?;
/// # let state = ground.path();
/// use windlass_host::Stage;
/// let stage = Stage::create(&state.join("stages"))?;
/// assert!(stage.upper().is_dir() && stage.work().is_dir());
/// let upper = stage.upper().to_owned();
/// drop(stage);
/// assert!(!upper.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Stage {
    path: PathBuf,
    upper: PathBuf,
    work: PathBuf,
    created: i64,
    /// Mode that the upper directory was given, if it mirrors a workspace.
    given_mode: OnceLock<u32>,
    /// Number of other directories created on the stage.
    directories: AtomicUsize,
    /// Build directories that the program changed, if any.
    built: Option<Built>,
    /// Directories beside the workspace whose changes are kept with the others.
    carried: Vec<CarriedDirectory>,
    /// State directory whose history knows the calls that stages belong to, if there is one.
    state: Option<PathBuf>,
    /// True if the stage outlives this process, and the next start decides on it.
    outlives_process: AtomicBool,
    /// Lock that is held until the stage is gone. The kernel releases it if the process dies.
    lock: Option<File>,
}

impl Stage {
    /// Creates an empty stage in a directory of ours, which is created if it is missing.
    pub fn create(in_dir: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(in_dir)?;
        // While this is held, no process takes a stage that has no lock yet for one that was left behind.
        let all = open_directory(in_dir)?;
        set_spread_flag(&all);
        lock(&all, FlockOperation::LockShared);
        let path = create_new(in_dir)?;
        let mut stage = Self {
            upper: path.join("upper"),
            work: path.join("work"),
            path,
            created: 0,
            given_mode: OnceLock::new(),
            directories: AtomicUsize::new(0),
            built: None,
            carried: Vec::new(),
            state: None,
            outlives_process: AtomicBool::new(false),
            lock: None,
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(stage.path.join(LOCK_NAME))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive);
        stage.created = stat(&file)?.fingerprint.changed;
        stage.lock = Some(file);
        DirBuilder::new().mode(0o700).create(&stage.upper)?;
        DirBuilder::new().mode(0o700).create(&stage.work)?;
        Ok(stage)
    }

    /// Sets the state directory whose history tells after a crash which calls were committed.
    #[must_use]
    pub fn of_state(mut self, state: Option<&Path>) -> Self {
        self.state = state.map(Path::to_owned);
        self
    }

    /// Returns the overlay's upper directory.
    pub fn upper(&self) -> &Path {
        &self.upper
    }

    /// Returns the overlay's work directory.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Returns the time of its creation, in nanoseconds since 1970, by the time stamp of a new file. No earlier change of the file system
    /// has a later stamp, and no later change an earlier one. A clock cannot promise that, because stamps can be coarser or finer.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// Gives the upper directory the attributes of the workspace's directory, because a program sees them at the workspace itself.
    pub fn look_like(&self, workspace: &Path) -> io::Result<()> {
        copy_attributes(&self.upper, workspace)?;
        // Called once for each stage; a second call would set the same mode.
        let _: Result<(), u32> = self.given_mode.set(self.mode()?);
        Ok(())
    }

    /// Returns the permissions of the upper directory.
    fn mode(&self) -> io::Result<u32> {
        Ok(self.upper.symlink_metadata()?.permissions().mode() & PERMISSIONS)
    }

    /// Returns the change of the workspace directory's mode, if the program changed it; `None` also if the stage mirrors no workspace. The
    /// program sees the mode of the upper directory. A mode that would lock its owner out is taken back there.
    pub(crate) fn mode_change(&self, workspace: &Path) -> io::Result<Option<ModeChange>> {
        let Some(given) = self.given_mode.get().copied() else { return Ok(None) };
        let wanted = self.mode()?;
        if wanted == given {
            return Ok(None);
        }
        if wanted & OWNER_PERMISSIONS != OWNER_PERMISSIONS {
            // Without these permissions we could not read the stage either.
            rustix::fs::chmod(&self.upper, Mode::from_raw_mode(given))?;
        }
        let now = stat(&open_directory(workspace)?)?;
        Ok(Some(if now.mode & PERMISSIONS != given {
            ModeChange::Conflict
        } else if wanted & OWNER_PERMISSIONS != OWNER_PERMISSIONS {
            ModeChange::Refused(wanted)
        } else {
            let mode = Some(now.mode & !PERMISSIONS | wanted);
            let to = ChangedTo::Attributes(Attributes { mode, ..Attributes::default() });
            let before = Some(now.fingerprint);
            ModeChange::Change(ProcessChange { path: workspace.to_owned(), before, to })
        }))
    }

    /// Creates an empty directory that is removed with the stage. Its name is made unique by a number.
    pub(crate) fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let number = self.directories.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{name}-{number}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Sets the build directories of a workspace, by absolute path, whose changes
    /// [`keep_unrecorded`](windlass_core::StageStorage::keep_unrecorded) keeps.
    pub fn keep_built(&mut self, workspace: &Path, directories: &[PathBuf]) {
        let inside = |path: &PathBuf| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let directories = directories.iter().map(inside).collect();
        self.built = Some(Built { workspace: workspace.to_owned(), directories });
    }

    /// Sets the directories beside the workspace whose changes
    /// [`keep_unrecorded`](windlass_core::StageStorage::keep_unrecorded) keeps.
    pub(crate) fn carry(&mut self, carried: Vec<CarriedDirectory>) {
        self.carried = carried;
    }

    /// Records that the changes of build directories are to be kept, as
    /// [`keep_unrecorded`](windlass_core::StageStorage::keep_unrecorded) does first.
    pub(crate) fn record_built(&self) -> io::Result<()> {
        self.built.as_ref().map_or(Ok(()), |built| built.record(&self.path))
    }

    /// Removes the stages of processes that are gone, and returns their number. Stages that [`recover`](Stage::recover) has to decide on
    /// stay.
    pub fn sweep(in_dir: &Path) -> io::Result<usize> {
        left_behind::sweep(in_dir)
    }

    /// Returns the record of the stage that waits for the answer to an approval, and the sizes of its changed build directories; `None` if
    /// there is none. Does not claim the stage.
    pub fn look_at_held(
        in_dir: &Path,
        id: &ApprovalId,
    ) -> io::Result<Option<(HeldChanges, Vec<BuiltChange>)>> {
        let Some((stage, held)) = left_behind::find_held(in_dir, id)? else { return Ok(None) };
        let built = held.built.iter().map(|path| {
            let inside = path.strip_prefix(&held.workspace).unwrap_or(path);
            let (files, bytes) = measure::files_below(&stage.join("upper").join(inside));
            BuiltChange { path: path.clone(), files, bytes }
        });
        let built = built.collect();
        Ok(Some((held, built)))
    }

    /// Claims the stage that waits for the answer to an approval; `None` if there is none or another process has it. If the result is
    /// dropped, the stage waits on, unless it is [released](windlass_core::StageStorage::release).
    pub fn held(
        in_dir: &Path,
        state: Option<&Path>,
        id: &ApprovalId,
    ) -> io::Result<Option<ProcessChanges>> {
        let Some((path, lock, held)) = left_behind::claim_held(in_dir, id)? else {
            return Ok(None);
        };
        // The lock file was created with the stage and is never changed.
        let created =
            lock.as_ref().map_or(Ok(0), |lock| stat(lock).map(|it| it.fingerprint.changed))?;
        let mut stage = Self {
            upper: path.join("upper"),
            work: path.join("work"),
            path,
            created,
            given_mode: OnceLock::new(),
            directories: AtomicUsize::new(0),
            built: None,
            // Changes of a home are not kept for an approval.
            carried: Vec::new(),
            state: state.map(Path::to_owned),
            outlives_process: AtomicBool::new(true),
            lock,
        };
        stage.keep_built(&held.workspace, &held.built);
        Ok(Some(held.into_changes(Box::new(stage))))
    }

    /// Decides on the stages that killed processes of the state directory `state` left; see
    /// [`recover_stages`](windlass_core::Processes::recover_stages).
    pub fn recover(
        in_dir: &Path,
        state: &Path,
        state_of: &dyn Fn(&CallId) -> CommitState,
        close: &dyn Fn(&ApprovalId) -> bool,
    ) -> Vec<String> {
        left_behind::recover(in_dir, &Recovery { state, state_of, close })
    }
}

impl windlass_core::StageStorage for Stage {
    fn tie_to(&self, call: &CallId) -> io::Result<()> {
        let (Some(built), Some(state)) = (&self.built, &self.state) else { return Ok(()) };
        // Any other stage is worthless once its process is gone, so its command does not wait for the disk.
        if built.directories.is_empty() && !self.is_held() {
            return Ok(());
        }
        built.record_tie(&self.path, &Tie { call: call.clone(), state: state.clone() })
    }

    fn hold(&self, held: &StageHold, changes: &ProcessChanges) -> io::Result<()> {
        let workspace = self.built.as_ref().map(|built| built.workspace.as_path());
        held::write(&self.path, workspace.unwrap_or(Path::new("")), held, changes)?;
        self.outlives_process.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn is_held(&self) -> bool {
        held::is_held(&self.path)
    }

    fn untie(&self) {
        // If the record stays, the next start decides on it and finds that no changes were made.
        drop(BuiltRecord::forget(&self.path));
    }

    fn release(&self) {
        self.outlives_process.store(false, Ordering::Relaxed);
        // If the record stays, it is removed with the stage.
        drop(held::forget(&self.path));
    }

    fn leave(&self) {
        if self.built.is_some() {
            self.outlives_process.store(true, Ordering::Relaxed);
        }
    }

    fn tracked(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        self.built.as_ref().map_or_else(Vec::new, |built| tracked::among(&built.workspace, paths))
    }

    fn keep_unrecorded(&self) -> Vec<SkippedPath> {
        let mut left = Vec::new();
        if let Some(built) = &self.built {
            // If this process is killed now, the next one continues. Without the record it would drop the rest.
            drop(self.record_built());
            left = built.keep_changes(&self.path);
        }
        left.extend(self.carried.iter().filter_map(|carried| carried.keep_changes(&self.path)));
        left
    }

    fn replaced_build_directories(&self) -> Vec<PathBuf> {
        let Some(built) = &self.built else { return Vec::new() };
        let Ok(merge) = built.merge(&self.path) else { return Vec::new() };
        let replaced = built.directories.iter().filter(|path| merge.is_replaced(path));
        replaced.map(|path| built.workspace.join(path)).collect()
    }

    fn build_directories_changed_since(&self) -> Vec<PathBuf> {
        let Some(built) = &self.built else { return Vec::new() };
        let all = built.directories.iter().map(|path| built.workspace.join(path));
        all.filter(|path| measure::is_changed_since(path, self.created)).collect()
    }

    fn drop_built(&mut self, paths: &[PathBuf]) {
        if let Some(built) = &mut self.built {
            let workspace = built.workspace.clone();
            built.directories.retain(|path| !paths.contains(&workspace.join(path)));
        }
    }

    fn size_below(&self, path: &Path) -> (u64, u64) {
        let workspace = self.built.as_ref().map(|built| built.workspace.as_path());
        let inside = workspace.and_then(|workspace| path.strip_prefix(workspace).ok());
        inside.map_or((0, 0), |inside| measure::files_below(&self.upper.join(inside)))
    }

    fn changed_in_build_directories(&self) -> io::Result<Vec<PathBuf>> {
        let Some(built) = &self.built else { return Ok(Vec::new()) };
        let mut changed = Vec::new();
        let merge = built.merge(&self.path)?;
        for path in &built.directories {
            merge.changed(path, &mut changed)?;
        }
        Ok(changed.into_iter().map(|path| built.workspace.join(path)).collect())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if *self.outlives_process.get_mut() {
            return;
        }
        // A stage that cannot be removed is removed by the next start.
        drop(remove_tree(&self.path));
    }
}

/// Sets a flag that makes ext4 put each new stage into another block group.
///
/// Otherwise all stages are in one block group, whose inodes were freed moments ago by the stage before. Without a journal, ext4 skips each
/// inode that was freed in the last minutes, one by one and for each new file: a thousand files take a second. Other file systems refuse
/// the flag and do not need it.
fn set_spread_flag(stages: &File) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(stages)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = rustix::fs::ioctl_setflags(stages, flags | IFlags::TOPDIR);
    }
}

/// Gives a directory the extended attributes, mode and modification time of another; not its owner.
pub(crate) fn copy_attributes(directory: &Path, other: &Path) -> io::Result<()> {
    let (from, to) = (open_directory(other)?, open_directory(directory)?);
    let seen = stat(&from)?;
    Extended::read(&from)?.give(&to)?;
    rustix::fs::fchmod(&to, Mode::from_raw_mode(seen.mode))?;
    attributes::give_time(&to, Some(seen.fingerprint.modified))?;
    Ok(())
}

/// Locks a file and returns whether that worked. On a file system without locks, no stage is ever taken for left behind.
fn lock(file: impl AsFd, how: FlockOperation) -> bool {
    retry_on_intr(|| rustix::fs::flock(file.as_fd(), how)).is_ok()
}

/// Returns whether a directory can hold upper layers of overlays: it is not on an overlay itself, and its file system has user extended
/// attributes, in which overlayfs marks removed and recreated objects (tmpfs has them since Linux 6.6). To find out, sets one on the
/// directory.
pub(crate) fn can_hold_uppers(directory: &Path) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    let kind = rustix::fs::statfs(directory).map(|found| found.f_type);
    let is_overlay = kind.is_ok_and(|kind| u64::try_from(kind) == Ok(OVERLAYFS));
    !is_overlay
        && rustix::fs::setxattr(directory, "user.windlass", b"", XattrFlags::empty()).is_ok()
}

/// Opens a directory for listing.
fn open_directory(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, FOR_LISTING, Mode::empty())?.into())
}

/// Creates a directory with a random name; tries another name if one is taken.
fn create_new(in_dir: &Path) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let path = in_dir.join(format!("{:016x}", crate::random::number()?));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_NAME_TRIES =>
            {
                tries += 1;
            }
            made => return made.map(|()| path),
        }
    }
}

/// Returns whether a name can be that of a stage: 16 hexadecimal digits.
fn is_stage_name(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}
