//! Decides about the entries of one listed directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use windlass_core::{FileKind, begins_protected_place};

use super::index::FindingKind;
use super::{MaskRule, Masking, credential};
use crate::inputs::Input;
use crate::stage::build_directory::{Candidate, MAX_DEPTH, is_not_entered};
use crate::stage::lineage::LevelRules;

/// The directory whose entries are examined, and the rules that hold in it.
pub(super) struct Directory<'d> {
    pub(super) handle: BorrowedFd<'d>,
    /// Its absolute path.
    pub(super) path: &'d Path,
    /// The number of directories above it, up to the root.
    pub(super) depth: usize,
    pub(super) rules: &'d LevelRules,
    /// Every entry is masked, because an ignore file that may mask it could not be read.
    pub(super) masks_all: bool,
    pub(super) rule: &'d dyn MaskRule,
    pub(super) build_names: &'d [String],
}

/// Everything that a survey needs to know about the entries of a directory.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) findings: Vec<(FindingKind, Vec<u8>)>,
    /// The directories to walk.
    pub(super) children: Vec<Vec<u8>>,
    /// Files whose content decided something.
    pub(super) inputs: Vec<Input>,
}

/// The answer about one entry.
enum Verdict {
    Nothing,
    Find(FindingKind),
    Walk,
}

impl Directory<'_> {
    pub(super) fn examine(&self, entries: Vec<(OsString, FileKind)>) -> Contents {
        let mut contents = Contents::default();
        if looks_bare(&entries) && !self.masks_all {
            contents.findings.push((FindingKind::BareRepository, Vec::new()));
        }
        for (name, kind) in entries {
            if begins_protected_place(&name) {
                contents.findings.push((FindingKind::Protected, name.as_bytes().to_vec()));
            }
            match self.judge(&name, kind, &mut contents.inputs) {
                Verdict::Nothing => {}
                Verdict::Find(finding) => contents.findings.push((finding, name.into_vec())),
                Verdict::Walk => contents.children.push(name.into_vec()),
            }
        }
        contents
    }

    fn judge(&self, name: &OsStr, kind: FileKind, inputs: &mut Vec<Input>) -> Verdict {
        let path = self.path.join(name);
        if self.is_masked(&path, name, kind, inputs) {
            return Verdict::Find(FindingKind::Masked(kind));
        }
        match kind {
            _ if name == ".git" => Verdict::Find(FindingKind::Git),
            FileKind::Directory if is_not_entered(name) => Verdict::Find(FindingKind::Git),
            FileKind::Directory if self.is_build_directory(&path, name, inputs) => {
                Verdict::Find(FindingKind::BuildDirectory)
            }
            FileKind::Directory => Verdict::Walk,
            FileKind::Socket => Verdict::Find(FindingKind::Socket),
            _ => Verdict::Nothing,
        }
    }

    fn is_masked(
        &self,
        path: &Path,
        name: &OsStr,
        kind: FileKind,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let rules = &self.rules.standing.rules;
        if self.masks_all || rules.excluded(path.as_os_str().as_bytes(), kind).is_some() {
            return true;
        }
        match self.rule.masks(path, kind) {
            Masking::Show => false,
            Masking::Mask => true,
            Masking::IfCredential if kind != FileKind::File => false,
            Masking::IfCredential => {
                let (found, state) = credential::read(self.handle, name);
                inputs.push(Input::new(path.to_owned(), state));
                found
            }
        }
    }

    fn is_build_directory(&self, path: &Path, name: &OsStr, inputs: &mut Vec<Input>) -> bool {
        let (parent, standing) = (self.handle, &self.rules.standing);
        self.depth < MAX_DEPTH
            && Candidate { parent, name, path, standing }
                .is_build_directory(self.build_names, inputs)
    }
}

/// Tells if a directory has the entries of a bare repository. Masked entries count: git would find them outside.
fn looks_bare(entries: &[(OsString, FileKind)]) -> bool {
    let has = |wanted: &str, is_directory: bool| {
        entries
            .iter()
            .any(|(name, kind)| name == wanted && (*kind == FileKind::Directory) == is_directory)
    };
    has("HEAD", false) && has("objects", true) && has("refs", true)
}
