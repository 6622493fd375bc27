//! What a process changed: the stage it worked on, the difference to the workspace, and a comparison where there was no stage.
//!
//! A stage is the writable half of an overlay whose lower half is the workspace. Mounting it, and running anything on it, is for
//! others; here it is made before and read afterwards. Nothing in this module changes the workspace but [`Stage::settle`], which keeps
//! the changes of build directories, and of the home beside it.

pub(crate) mod build_directory;
mod build_merge;
mod built;
pub(crate) mod carried;
mod delta;
mod durable;
pub(crate) mod entries;
mod file;
mod found;
mod git_index;
mod gone;
mod held;
mod ignoring;
mod left_behind;
pub(crate) mod lineage;
mod marks;
pub(crate) mod mask_layer;
pub(crate) mod masked_index;
mod measure;
mod moved_build;
mod scan;
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
    ApprovalId, Attributes, BuiltChange, CallId, ChangedTo, CommitState, HeldChanges, HeldFor,
    Note, ProcessChange, ProcessChanges,
};

use self::built::{Built, Recorded, Tie};
use self::carried::CarriedDirectory;
use self::left_behind::Recovery;
use crate::attributes::{self, Extended};
use crate::isolate::clear::remove_tree;
use crate::kernel::{FOR_LISTING, stat};
pub(crate) use delta::{BuildDirectories, Layers, delta_of};
pub use delta::{Delta, delta};
pub use scan::Scan;
pub use windlass_core::PASS_THROUGH;

/// How often a name is drawn again that exists already.
const TRIES: usize = 16;

/// The file whose lock says that somebody still needs the stage.
const LOCK: &str = "lock";

/// The bits of a mode that programs may change of the workspace itself.
const PERMISSIONS: u32 = 0o1777;

/// The permissions without which nobody could go on in the workspace.
const OWNER: u32 = 0o700;

/// The change that a program made to the mode of the workspace's own directory.
#[derive(Debug)]
pub(crate) enum ChangeOfMode {
    Made(ProcessChange),
    /// This mode would lock its owner out.
    Refused(u32),
    /// Somebody else changed it meanwhile.
    Conflict,
}

/// Where the changes of one run are kept until they are taken over. Dropped, it is removed.
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
    /// The mode that the upper directory was given, if it looks like a workspace.
    given_mode: OnceLock<u32>,
    /// The number of directories made besides.
    directories: AtomicUsize,
    /// The build directories that the program changed, if any.
    built: Option<Built>,
    /// Directories beside the workspace whose changes are kept with the others.
    carried: Vec<CarriedDirectory>,
    /// The state directory whose history knows the calls that stages are for, if there is one.
    state: Option<PathBuf>,
    /// Whether the stage outlives us, since the next start decides on it.
    is_left: AtomicBool,
    /// Held until the stage is gone. Whoever dies lets go of it.
    lock: Option<File>,
}

impl Stage {
    /// A new, empty stage in a directory of ours, which is made if it is not there.
    pub fn create(in_dir: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(in_dir)?;
        // As long as this is held, nobody takes a stage without a lock for one that was left behind.
        let all = open_directory(in_dir)?;
        spread(&all);
        lock(&all, FlockOperation::LockShared);
        let path = make_new(in_dir)?;
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
            is_left: AtomicBool::new(false),
            lock: None,
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(stage.path.join(LOCK))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive);
        stage.created = stat(&file)?.fingerprint.changed;
        stage.lock = Some(file);
        DirBuilder::new().mode(0o700).create(&stage.upper)?;
        DirBuilder::new().mode(0o700).create(&stage.work)?;
        Ok(stage)
    }

    /// Names the state directory whose history tells after a kill which calls were made.
    #[must_use]
    pub fn of_state(mut self, state: Option<&Path>) -> Self {
        self.state = state.map(Path::to_owned);
        self
    }

    /// The overlay's upper directory.
    pub fn upper(&self) -> &Path {
        &self.upper
    }

    /// The overlay's work directory.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// When it was made, in nanoseconds since 1970, by the stamp of a new file: nothing that was changed before has a later one,
    /// and nothing that is changed afterwards an earlier one. A clock cannot promise that: stamps can be coarser, or finer.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// Gives the upper directory the attributes of the workspace's own: a program sees them at the workspace itself.
    pub fn look_like(&self, workspace: &Path) -> io::Result<()> {
        look_like(&self.upper, workspace)?;
        // Called once for each stage; a second mode would be the same.
        let _: Result<(), u32> = self.given_mode.set(self.mode()?);
        Ok(())
    }

    fn mode(&self) -> io::Result<u32> {
        Ok(self.upper.symlink_metadata()?.permissions().mode() & PERMISSIONS)
    }

    /// The change of the workspace's own mode, if the program changed that: what it sees of the directory is the upper one.
    pub(crate) fn change_of_mode(&self, workspace: &Path) -> io::Result<Option<ChangeOfMode>> {
        let Some(given) = self.given_mode.get().copied() else { return Ok(None) };
        let wanted = self.mode()?;
        if wanted == given {
            return Ok(None);
        }
        if wanted & OWNER != OWNER {
            // Else we could not read what is on the stage either.
            rustix::fs::chmod(&self.upper, Mode::from_raw_mode(given))?;
        }
        let now = stat(&open_directory(workspace)?)?;
        Ok(Some(if now.mode & PERMISSIONS != given {
            ChangeOfMode::Conflict
        } else if wanted & OWNER != OWNER {
            ChangeOfMode::Refused(wanted)
        } else {
            let mode = Some(now.mode & !PERMISSIONS | wanted);
            let to = ChangedTo::Attributes(Attributes { mode, ..Attributes::default() });
            let before = Some(now.fingerprint);
            ChangeOfMode::Made(ProcessChange { path: workspace.to_owned(), before, to })
        }))
    }

    /// A new, empty directory that goes with the stage.
    pub(crate) fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let number = self.directories.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{name}-{number}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Names the build directories of a workspace, by absolute path, whose changes [`settle`](windlass_core::Stage::settle) keeps.
    pub fn keep_built(&mut self, workspace: &Path, directories: &[PathBuf]) {
        let inside = |path: &PathBuf| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let directories = directories.iter().map(inside).collect();
        self.built = Some(Built { workspace: workspace.to_owned(), directories });
    }

    /// Names the directories beside the workspace whose changes [`settle`](windlass_core::Stage::settle) keeps.
    pub(crate) fn carry(&mut self, carried: Vec<CarriedDirectory>) {
        self.carried = carried;
    }

    /// Writes down that the changes of build directories are to be kept, as [`settle`](windlass_core::Stage::settle) does first.
    pub(crate) fn record_built(&self) -> io::Result<()> {
        self.built.as_ref().map_or(Ok(()), |built| built.record(&self.path))
    }

    /// Removes the stages that processes left behind which are not there any more, and returns their number. Those that
    /// [`recover`](Stage::recover) has to decide on stay.
    pub fn sweep(in_dir: &Path) -> io::Result<usize> {
        left_behind::sweep(in_dir)
    }

    /// The record of the stage in a directory that waits for the answer to this question, and the size of its build directories.
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

    /// Claims the changes on a stage in a directory that waits for the answer to this question. Dropped, the stage waits on unless it
    /// is [released](windlass_core::Stage::release).
    pub fn held(
        in_dir: &Path,
        state: Option<&Path>,
        id: &ApprovalId,
    ) -> io::Result<Option<ProcessChanges>> {
        let Some((path, lock, held)) = left_behind::claim_held(in_dir, id)? else {
            return Ok(None);
        };
        // The lock was made with the stage, and nothing changes it.
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
            // A home is not kept where there is a question.
            carried: Vec::new(),
            state: state.map(Path::to_owned),
            is_left: AtomicBool::new(true),
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

impl windlass_core::Stage for Stage {
    fn tie_to(&self, call: &CallId) -> io::Result<()> {
        let (Some(built), Some(state)) = (&self.built, &self.state) else { return Ok(()) };
        // Any other stage is worth nothing once its process is gone: its command does not wait for the disk.
        if built.directories.is_empty() && !self.is_held() {
            return Ok(());
        }
        built.record_tie(&self.path, &Tie { call: call.clone(), state: state.clone() })
    }

    fn hold(&self, held: &HeldFor, changes: &ProcessChanges) -> io::Result<()> {
        let workspace = self.built.as_ref().map(|built| built.workspace.as_path());
        held::write(&self.path, workspace.unwrap_or(Path::new("")), held, changes)?;
        self.is_left.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn is_held(&self) -> bool {
        held::is_held(&self.path)
    }

    fn untie(&self) {
        // One that stays is decided on by the next start, which finds that nothing was made.
        drop(Recorded::forget(&self.path));
    }

    fn release(&self) {
        self.is_left.store(false, Ordering::Relaxed);
        // A record that stays goes with the stage.
        drop(held::forget(&self.path));
    }

    fn leave(&self) {
        if self.built.is_some() {
            self.is_left.store(true, Ordering::Relaxed);
        }
    }

    fn settle(&self) -> Vec<Note> {
        let mut left = Vec::new();
        if let Some(built) = &self.built {
            // Should we be killed now, the next process goes on. Without the record it would drop what is left.
            drop(self.record_built());
            left = built.settle(&self.path);
        }
        left.extend(self.carried.iter().filter_map(|carried| carried.settle(&self.path)));
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
        if *self.is_left.get_mut() {
            return;
        }
        // What could not be removed is swept by whoever starts next.
        drop(remove_tree(&self.path));
    }
}

/// Asks ext4 to put each new stage into another block group.
///
/// Otherwise all stages are in one, whose inodes were freed moments ago by the stage before. Without a journal, ext4 passes over each
/// inode that was freed in the last minutes, one by one and for each new file: a thousand files take a second. Other file systems
/// refuse the flag, and need none.
fn spread(stages: &File) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(stages)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = rustix::fs::ioctl_setflags(stages, flags | IFlags::TOPDIR);
    }
}

/// Gives a directory the attributes of another.
pub(crate) fn look_like(directory: &Path, other: &Path) -> io::Result<()> {
    let (from, to) = (open_directory(other)?, open_directory(directory)?);
    let seen = stat(&from)?;
    Extended::read(&from)?.give(&to)?;
    rustix::fs::fchmod(&to, Mode::from_raw_mode(seen.mode))?;
    attributes::give_time(&to, Some(seen.fingerprint.modified))?;
    Ok(())
}

/// Whether the lock is ours now. Where a file system has none, nothing is ever taken for left behind.
fn lock(file: impl AsFd, how: FlockOperation) -> bool {
    retry_on_intr(|| rustix::fs::flock(file.as_fd(), how)).is_ok()
}

/// Returns whether a directory can be the upper layer of an overlay: not on an overlay itself, and on a file system that keeps
/// attributes, in which the kernel notes what was deleted and made again (tmpfs does from Linux 6.6 on).
pub(crate) fn can_hold_uppers(directory: &Path) -> bool {
    const OVERLAYFS: u64 = 0x794c_7630;
    let kind = rustix::fs::statfs(directory).map(|found| found.f_type);
    let is_overlay = kind.is_ok_and(|kind| u64::try_from(kind) == Ok(OVERLAYFS));
    !is_overlay
        && rustix::fs::setxattr(directory, "user.windlass", b"", XattrFlags::empty()).is_ok()
}

fn open_directory(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, FOR_LISTING, Mode::empty())?.into())
}

fn make_new(in_dir: &Path) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let path = in_dir.join(format!("{:016x}", crate::random::number()?));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                tries += 1;
            }
            made => return made.map(|()| path),
        }
    }
}

/// Whether it is a name that a stage can have.
fn is_name(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}
