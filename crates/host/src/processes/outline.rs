//! The outline of a program's view: mount points, masked paths and rights, kept after the launch to explain failures.
//!
//! A program decides which paths it complains about, so an explanation must not reveal whether a secret file exists. Paths that no rule can
//! open are recognised by name before any file on the machine is accessed, also at the end of every symbolic link.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD};
use windlass_core::{
    Absence, FileKind, FileRights, PathUse, SecretName, normalize, system_directory,
};
use windlass_sandbox::{Mount, MountSource, PathHandle};

use super::home::HOME_SECRETS;

/// Maximum links that are followed in one path; the same as in the kernel.
const MAX_LINKS: usize = 40;

/// Paths of the file systems that the sandbox itself provides.
const SANDBOX_FILE_SYSTEMS: &[&str] = &["/proc", "/dev"];

/// Facts about a view and its launch that explain why a program did not have a path.
#[derive(Debug)]
pub(super) struct ViewOutline {
    pub(super) rights: Arc<FileRights>,
    pub(super) workspace: PathBuf,
    /// State directory, with the records of sessions, which no program may learn about.
    pub(super) state: PathBuf,
    /// Directory in which the program was started.
    pub(super) directory: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) parts: Vec<ViewPart>,
    /// Absolute paths that are hidden although a part has them.
    pub(super) masked: Vec<PathBuf>,
    /// Files whose directory is shown without its other entries.
    pub(super) shown_alone: Vec<PathBuf>,
    /// Absolute paths that are protected although their part is writable.
    pub(super) protected: Vec<PathBuf>,
}

/// One mount of a view.
#[derive(Debug)]
pub(super) struct ViewPart {
    at: PathBuf,
    /// Path on the machine that it shows; `None` for an empty directory or a link.
    source: Option<PathBuf>,
    is_writable: bool,
}

impl ViewPart {
    /// Describes a mount.
    pub(super) fn of(mount: &Mount) -> Self {
        let path = |object: &PathHandle| Some(object.path().to_owned());
        let (source, is_writable) = match &mount.source {
            MountSource::ReadOnly(object) | MountSource::Sysfs(object) => (path(object), false),
            MountSource::Writable(object) => (path(object), true),
            MountSource::Overlay { lower, upper } => (lower.last().and_then(path), upper.is_some()),
            MountSource::Scratch(lower) => (lower.last().and_then(path), true),
            MountSource::Link(_) | MountSource::Directory => (None, false),
        };
        Self { at: mount.at.clone(), source, is_writable }
    }

    /// Returns the path on the machine of an object in this part.
    fn locate(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(&self.at).ok()?;
        let source = self.source.as_ref()?;
        Some(if inside.as_os_str().is_empty() { source.clone() } else { source.join(inside) })
    }
}

impl ViewOutline {
    /// Returns the reason why the program did not have a path or could not change it. Blocking.
    pub(super) fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        let path = self.follow(&self.absolute(path)?);
        if used == PathUse::Chown {
            return Some(Absence::OneOwner);
        }
        if let Some(reason) = self.mask_reason(&path) {
            return Some(Absence::Masked { reason });
        }
        if self.is_closed(&path) {
            return Some(Absence::Outside { rule: None });
        }
        if SANDBOX_FILE_SYSTEMS.iter().any(|system| path.starts_with(system)) {
            return (used == PathUse::Write).then(|| self.read_only(&path));
        }
        match self.part_at(&path) {
            Some(part) if self.has_object(part, &path, used) => {
                self.reason_inside(part, &path, used)
            }
            _ => self.reason_outside(&path, used),
        }
    }

    /// Returns the path that the program meant, absolute and without `.` and `..`.
    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        let path = match path.strip_prefix("~") {
            Ok(inside) => self.home.as_ref()?.join(inside),
            Err(_) => self.directory.join(path),
        };
        path.is_absolute().then(|| normalize(&path))
    }

    /// Resolves symbolic links. Missing names are kept, so that a link to a missing secret and one to an existing secret give the same
    /// path.
    fn follow(&self, path: &Path) -> PathBuf {
        let mut here = PathBuf::from("/");
        let mut pending = names(path);
        let mut links = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                here.pop();
                continue;
            }
            here.push(name);
            if self.is_closed(&here) || self.mask_reason(&here).is_some() {
                continue;
            }
            let Ok(target) = fs::read_link(self.locate(&here)) else { continue };
            links += 1;
            if links > MAX_LINKS {
                continue;
            }
            here.pop();
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            pending.extend(names(&target));
        }
        here
    }

    /// Returns the path on the machine that decides about a path of the view: that of its part, or the same path if the part has nothing
    /// there.
    fn locate(&self, path: &Path) -> PathBuf {
        let located = self.part_at(path).and_then(|part| part.locate(path));
        located.filter(|located| exists(located)).unwrap_or_else(|| path.to_owned())
    }

    /// Returns the mount that contains a path.
    fn part_at(&self, path: &Path) -> Option<&ViewPart> {
        let parts = self.parts.iter().filter(|part| path.starts_with(&part.at));
        // Of two mounts at the same path, the later one hides the earlier.
        parts.max_by_key(|part| part.at.components().count())
    }

    /// Returns the reason for which a path is masked, if it is.
    fn mask_reason(&self, path: &Path) -> Option<String> {
        let masked = self.masked.iter().find(|masked| path.starts_with(masked))?;
        if !masked.starts_with(&self.workspace) && masked.starts_with("/etc") {
            return Some("private to the system".to_owned());
        }
        let reason = match self.rights.masks(masked, FileKind::File) {
            SecretName::No => self.rights.masks(masked, FileKind::Directory),
            other => other,
        };
        Some(match reason {
            SecretName::Yes(reason) | SecretName::IfCredential(reason) => reason.to_owned(),
            SecretName::No => "`.aiexclude` excludes it".to_owned(),
        })
    }

    /// Returns whether a path outside the workspace must not even be checked for existence.
    fn is_closed(&self, path: &Path) -> bool {
        let is_home_secret = || {
            let inside = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
            inside.is_some_and(|path| HOME_SECRETS.iter().any(|secret| path.starts_with(secret)))
        };
        !path.starts_with(&self.workspace)
            && (self.rights.is_closed(path) || path.starts_with(&self.state) || is_home_secret())
    }

    /// Returns whether the view has the object that a program wanted to use: the path, or the directory in which to create it.
    fn has_object(&self, part: &ViewPart, path: &Path, used: PathUse) -> bool {
        let is_left_out =
            |file: &PathBuf| file.parent() == Some(&part.at) && !path.starts_with(file);
        if self.shown_alone.iter().any(is_left_out) {
            return false;
        }
        let is_there = |path: &Path| part.locate(path).is_some_and(|path| exists(&path));
        // A path that exists only on the machine was to be changed or removed, not created.
        let is_new = used == PathUse::Write && !exists(path);
        is_there(path) || (is_new && path.parent().is_some_and(is_there))
    }

    /// Returns the reason for an object that the view has.
    fn reason_inside(&self, part: &ViewPart, path: &Path, used: PathUse) -> Option<Absence> {
        let is_protected = self.protected.iter().any(|protected| path.starts_with(protected));
        if used == PathUse::Write && (is_protected || !part.is_writable) {
            return Some(self.read_only(path));
        }
        let located = part.locate(path)?;
        let object = if exists(&located) { located.as_path() } else { located.parent()? };
        unmapped(object, used)
    }

    /// Returns the reason for a path that could not be written.
    fn read_only(&self, path: &Path) -> Absence {
        if path.starts_with(&self.workspace) {
            return Absence::ReadOnly { rule: None };
        }
        if let Some(directory) = system_directory(path) {
            return Absence::System { directory: directory.to_owned() };
        }
        let kind = fs::metadata(path).map_or(FileKind::File, |found| kind(&found));
        let has_directory = path.parent().is_some_and(|parent| parent.parent().is_some());
        let rule = has_directory.then(|| self.rights.rule_to_write(path, kind)).flatten();
        Absence::ReadOnly { rule }
    }

    /// Returns the reason for a path that the view does not have, if the machine has it.
    fn reason_outside(&self, path: &Path, used: PathUse) -> Option<Absence> {
        let found = fs::symlink_metadata(path).ok();
        if used == PathUse::Write {
            let parent = path.parent()?;
            if system_directory(path).is_some() || parent.parent().is_none() {
                return Some(self.read_only(path));
            }
            if found.is_none() && !parent.is_dir() {
                return None;
            }
            let kind = found.as_ref().map_or(FileKind::File, kind);
            return Some(Absence::Outside { rule: self.rights.rule_to_write(path, kind) });
        }
        let kind = kind(&found?);
        let has_rule = matches!(kind, FileKind::File | FileKind::Directory);
        let rule = has_rule.then(|| self.rights.rule_to_read(path, kind)).flatten();
        Some(Absence::Outside { rule })
    }
}

/// Splits a path into names, the last first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// Returns whether an entry of any kind exists at a path.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the kind of an object: directory, file, or anything else as a device.
fn kind(found: &fs::Metadata) -> FileKind {
    if found.is_dir() {
        FileKind::Directory
    } else if found.is_file() {
        FileKind::File
    } else {
        FileKind::Device
    }
}

/// Returns the owner and group of a file that a program's user namespace lacks, if they are the reason: outside of the namespace, the
/// person may use the file.
fn unmapped(path: &Path, used: PathUse) -> Option<Absence> {
    let found = fs::metadata(path).ok()?;
    let user = rustix::process::geteuid().as_raw();
    let own_group = rustix::process::getegid().as_raw();
    let owner = Some(found.uid()).filter(|owner| *owner != user);
    let group = Some(found.gid()).filter(|group| *group != own_group);
    let access = match used {
        PathUse::Read => rustix::fs::Access::READ_OK,
        PathUse::Write | PathUse::Chown => rustix::fs::Access::WRITE_OK,
    };
    let is_allowed = rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    (is_allowed && (owner.is_some() || group.is_some()))
        .then_some(Absence::Unmapped { owner, group })
}

#[cfg(test)]
mod tests;
