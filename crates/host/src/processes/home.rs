//! The home directory of a workspace's programs: their own, kept in the state directory, at the path of the person's home.
//!
//! Toolchains are mounted into it as overlays whose changes stay here. Of the person's home it contains only git's configuration, without
//! credentials.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::FileKind;

use super::toolchains::ShownDirectory;
use super::{LocalProcesses, create_private_directory, git_home, hashed};
use crate::stage::{copy_attributes, mask_layer};
use crate::temporary;

/// Path of the home if the user has none.
const DEFAULT_HOME: &str = "/home/user";

/// Files and directories of the person's home with secrets. A view has none of them; without a view, each of them is left out.
pub(super) const HOME_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".password-store",
    ".local/share/keyrings",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/windlass",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".thunderbird",
    ".docker/config.json",
    ".docker/run",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
];

/// The home of one workspace's programs.
#[derive(Debug)]
pub(super) struct Home {
    /// Path at which programs find it.
    pub(super) path: PathBuf,
    /// Directory that is mounted there.
    pub(super) directory: PathBuf,
    /// Directory for the changes of toolchains, and for masks of their credentials.
    layers: PathBuf,
}

impl LocalProcesses {
    /// Returns the home of this workspace's programs, and creates it if it is missing. `None` if the workspace contains the person's home,
    /// which is then also the programs' home.
    pub(super) fn home(&self) -> io::Result<Option<Home>> {
        let real = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let real = real.filter(|home| home.parent().is_some());
        if real.as_ref().is_some_and(|home| home.starts_with(&self.workspace)) {
            return Ok(None);
        }
        let own = self.uppers()?.join("homes").join(hashed(&self.workspace));
        let home = Home {
            path: real.clone().unwrap_or_else(|| DEFAULT_HOME.into()),
            directory: own.join("home"),
            layers: own.join("layers"),
        };
        create_private_directory(&home.directory)?;
        create_private_directory(&home.layers)?;
        if let Some(real) = real {
            self.write_git_config(&home, &real)?;
        }
        Ok(Some(home))
    }

    /// Writes git's configuration into the home, unless a program has written its own.
    fn write_git_config(&self, home: &Home, real: &Path) -> io::Result<()> {
        let variable = |name: &str| self.variable(name);
        let config = git_home::git_config(real, &variable).map(String::into_bytes);
        home.write_unless_changed(Path::new(".gitconfig"), config)?;
        home.write_unless_changed(
            Path::new(".config/git/ignore"),
            git_home::git_ignore(real, &variable),
        )
    }
}

impl Home {
    /// Returns the layer for the changes of a toolchain's directory, and creates it if it is missing.
    pub(super) fn upper(&self, shown: &ShownDirectory) -> io::Result<PathBuf> {
        let upper = self.layers.join(hashed(&shown.shown_at)).join("upper");
        if !upper.is_dir() {
            create_private_directory(&upper)?;
            copy_attributes(&upper, &shown.path)?;
        }
        Ok(upper)
    }

    /// Returns the layer that masks the credentials in a toolchain's directory. It is created once for each list of them.
    pub(super) fn masks(&self, shown: &ShownDirectory) -> io::Result<Option<PathBuf>> {
        let layers = self.layers.join(hashed(&shown.shown_at));
        persistent_mask_layer(&shown.path, &shown.masked, &layers)
    }

    /// Creates a directory for a mount below this home, even if an earlier program left a file or a link there.
    pub(super) fn prepare_mount_point(&self, at: &Path) -> io::Result<()> {
        prepare_mount_point(&self.directory, &self.path, at)
    }

    /// Writes a file of ours, unless a program has changed it since. Without content, removes it.
    fn write_unless_changed(&self, path: &Path, content: Option<Vec<u8>>) -> io::Result<()> {
        let (file, copy) = (self.directory.join(path), self.layers.join(hashed(path)));
        let given = fs::read(&copy).ok();
        let is_file = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        if given == content && (is_file || content.is_none()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.prepare_mount_point(&self.path.join(parent))?;
        }
        if !is_file {
            move_aside(&file)?;
        }
        let is_ours = match fs::symlink_metadata(&file) {
            Err(_) => true,
            Ok(found) => found.is_file() && fs::read(&file).ok() == given,
        };
        let Some(content) = content else {
            if is_ours {
                drop(fs::remove_file(&file));
            }
            return fs::remove_file(&copy);
        };
        if is_ours {
            fs::write(&file, &content)?;
        }
        fs::write(&copy, content)
    }
}

/// Returns a layer that masks those paths of a directory that exist; `None` if there are none. It is created once for each list of paths,
/// and kept.
pub(super) fn persistent_mask_layer(
    root: &Path,
    paths: &[PathBuf],
    layers: &Path,
) -> io::Result<Option<PathBuf>> {
    let mut masked = Vec::new();
    for path in paths {
        if let Ok(found) = root.join(path).symlink_metadata() {
            let kind = if found.is_dir() { FileKind::Directory } else { FileKind::File };
            masked.push((path.clone(), kind));
        }
    }
    if masked.is_empty() {
        return Ok(None);
    }
    let list: PathBuf = masked.iter().map(|(path, _)| path).collect();
    let layer = layers.join(format!("masks-{}", hashed(&list)));
    if layer.is_dir() {
        return Ok(Some(layer));
    }
    temporary::sweep_unfinished(layers);
    let unfinished = layers.join(format!("masks-{:016x}.tmp", crate::random::number()?));
    let _held = temporary::create_unfinished_directory(&unfinished)?;
    mask_layer::build(root, &masked, &unfinished)?;
    match fs::rename(&unfinished, &layer) {
        // Another process was faster.
        Err(_) if layer.is_dir() => drop(fs::remove_dir_all(&unfinished)),
        other => other?,
    }
    Ok(Some(layer))
}

/// Creates a directory for a mount at `at`, in a directory that programs see at `path`. An earlier program may have left a file or a link
/// there, which is moved aside, or an unreadable directory, which is made accessible.
pub(super) fn prepare_mount_point(directory: &Path, path: &Path, at: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::open(directory, flags, Mode::empty())?;
    make_accessible(&here)?;
    let Ok(inside) = at.strip_prefix(path) else { return Ok(()) };
    for part in inside.components() {
        let Component::Normal(name) = part else { continue };
        match rustix::fs::statat(&here, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => make_directory(&here, name)?,
            Err(errno) => return Err(errno.into()),
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {}
            Ok(_) => {
                rustix::fs::renameat(&here, name, &here, &*aside_name()?)?;
                make_directory(&here, name)?;
            }
        }
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
        make_accessible(&here)?;
    }
    Ok(())
}

/// Creates a directory, unless it exists.
fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        // Another process was faster.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Adds the owner's permissions to a directory.
fn make_accessible(directory: &OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode & 0o7777);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    // The mode cannot be set through an `O_PATH` handle.
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(rustix::fs::chmod(path, mode | Mode::RWXU)?)
}

/// Renames an object to a new name in the same directory, if it exists.
fn move_aside(path: &Path) -> io::Result<()> {
    match fs::rename(path, path.with_file_name(aside_name()?)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns a random name for an object that is moved aside.
fn aside_name() -> io::Result<String> {
    Ok(format!(".moved-aside-{:016x}", crate::random::number()?))
}
