//! The home directory that programs of a workspace have: their own, kept in the state, at the path of the person's.
//!
//! Toolchains are mounted into it as overlays whose changes stay here. Nothing else of the person's home is in it but git's
//! configuration, without credentials.

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

/// The home for a person who has none.
const NOWHERE: &str = "/home/user";

/// Files and directories of the person's home in which secrets are kept. A view has none of them; where there is no view, they are
/// left out one by one.
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

/// A home of a workspace's own.
#[derive(Debug)]
pub(super) struct Home {
    /// The path at which programs find it.
    pub(super) path: PathBuf,
    /// The directory that is mounted there.
    pub(super) directory: PathBuf,
    /// The changes to toolchains, and masks of their credentials.
    layers: PathBuf,
}

impl LocalProcesses {
    /// The home of this workspace's programs, made if it is not there. None where the workspace holds the person's home: then that
    /// is their home, too.
    pub(super) fn home(&self) -> io::Result<Option<Home>> {
        let real = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let real = real.filter(|home| home.parent().is_some());
        if real.as_ref().is_some_and(|home| home.starts_with(&self.workspace)) {
            return Ok(None);
        }
        let own = self.uppers()?.join("homes").join(hashed(&self.workspace));
        let home = Home {
            path: real.clone().unwrap_or_else(|| NOWHERE.into()),
            directory: own.join("home"),
            layers: own.join("layers"),
        };
        create_private_directory(&home.directory)?;
        create_private_directory(&home.layers)?;
        if let Some(real) = real {
            self.give_git_config(&home, &real)?;
        }
        Ok(Some(home))
    }

    /// Puts git's configuration there, unless a program has made its own.
    fn give_git_config(&self, home: &Home, real: &Path) -> io::Result<()> {
        let variable = |name: &str| self.variable(name);
        let config = git_home::git_config(real, &variable).map(String::into_bytes);
        home.give(Path::new(".gitconfig"), config)?;
        home.give(Path::new(".config/git/ignore"), git_home::git_ignore(real, &variable))
    }
}

impl Home {
    /// The layer that takes the changes to a toolchain's directory.
    pub(super) fn upper(&self, shown: &ShownDirectory) -> io::Result<PathBuf> {
        let upper = self.layers.join(hashed(&shown.shown_at)).join("upper");
        if !upper.is_dir() {
            create_private_directory(&upper)?;
            copy_attributes(&upper, &shown.path)?;
        }
        Ok(upper)
    }

    /// The layer that masks the credentials in a toolchain's directory. It is made once for each list of them.
    pub(super) fn masks(&self, shown: &ShownDirectory) -> io::Result<Option<PathBuf>> {
        let layers = self.layers.join(hashed(&shown.shown_at));
        kept_masks(&shown.path, &shown.masked, &layers)
    }

    /// Makes a directory for a mount below this home: an earlier program may have put a file or a link in the way.
    pub(super) fn make_way(&self, at: &Path) -> io::Result<()> {
        make_way(&self.directory, &self.path, at)
    }

    /// Writes a file of ours, unless a program has written another there since.
    fn give(&self, path: &Path, content: Option<Vec<u8>>) -> io::Result<()> {
        let (file, copy) = (self.directory.join(path), self.layers.join(hashed(path)));
        let given = fs::read(&copy).ok();
        let is_file = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        if given == content && (is_file || content.is_none()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_way(&self.path.join(parent))?;
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

/// A layer that masks paths of a directory, those of them that are there. It is made once for each list of them, and kept.
pub(super) fn kept_masks(
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
        // Another process was quicker.
        Err(_) if layer.is_dir() => drop(fs::remove_dir_all(&unfinished)),
        other => other?,
    }
    Ok(Some(layer))
}

/// Makes a directory for a mount at `at` in a directory that programs see at `path`, which a program may only read. An earlier program
/// may have put a file or a link in the way, or closed a directory.
pub(super) fn make_way(directory: &Path, path: &Path, at: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::open(directory, flags, Mode::empty())?;
    open_up(&here)?;
    let Ok(inside) = at.strip_prefix(path) else { return Ok(()) };
    for part in inside.components() {
        let Component::Normal(name) = part else { continue };
        match rustix::fs::statat(&here, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => make_directory(&here, name)?,
            Err(errno) => return Err(errno.into()),
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {}
            Ok(_) => {
                rustix::fs::renameat(&here, name, &here, &*aside()?)?;
                make_directory(&here, name)?;
            }
        }
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
        open_up(&here)?;
    }
    Ok(())
}

fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        // Another process was quicker.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Lets its owner into a directory again.
fn open_up(directory: &OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode & 0o7777);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    // A handle that opens nothing has no mode of its own to set.
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(rustix::fs::chmod(path, mode | Mode::RWXU)?)
}

fn move_aside(path: &Path) -> io::Result<()> {
    match fs::rename(path, path.with_file_name(aside()?)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn aside() -> io::Result<String> {
    Ok(format!(".moved-aside-{:016x}", crate::random::number()?))
}
