//! Classifies the entries of one listed directory.

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

/// The directory whose entries are examined, and the rules that apply in it.
pub(super) struct ExaminedDirectory<'d> {
    pub(super) handle: BorrowedFd<'d>,
    /// Its absolute path.
    pub(super) path: &'d Path,
    /// Number of directories above it, up to the root of the survey.
    pub(super) depth: usize,
    pub(super) rules: &'d LevelRules,
    /// True if every entry is masked, because an ignore file that may mask it could not be read.
    pub(super) masks_all: bool,
    pub(super) rule: &'d dyn MaskRule,
    pub(super) build_names: &'d [String],
}

/// Everything that a survey needs to know about the entries of a directory.
#[derive(Default)]
pub(super) struct ExaminedEntries {
    pub(super) findings: Vec<(FindingKind, Vec<u8>)>,
    /// Names of the subdirectories to walk.
    pub(super) children: Vec<Vec<u8>>,
    /// Files whose content decided something.
    pub(super) inputs: Vec<Input>,
}

/// Decision about one entry.
enum EntryDecision {
    Nothing,
    Find(FindingKind),
    Walk,
}

impl ExaminedDirectory<'_> {
    /// Decides about all entries of the directory.
    pub(super) fn examine(&self, entries: Vec<(OsString, FileKind)>) -> ExaminedEntries {
        let mut contents = ExaminedEntries::default();
        if looks_bare(&entries) && !self.masks_all {
            contents.findings.push((FindingKind::BareRepository, Vec::new()));
        }
        for (name, kind) in entries {
            if begins_protected_place(&name) {
                contents.findings.push((FindingKind::Protected, name.as_bytes().to_vec()));
            }
            match self.decide(&name, kind, &mut contents.inputs) {
                EntryDecision::Nothing => {}
                EntryDecision::Find(finding) => contents.findings.push((finding, name.into_vec())),
                EntryDecision::Walk => contents.children.push(name.into_vec()),
            }
        }
        contents
    }

    /// Decides about one entry, and adds the files that the decision depends on to `inputs`.
    fn decide(&self, name: &OsStr, kind: FileKind, inputs: &mut Vec<Input>) -> EntryDecision {
        let path = self.path.join(name);
        if self.is_masked(&path, name, kind, inputs) {
            return EntryDecision::Find(FindingKind::Masked(kind));
        }
        match kind {
            _ if name == ".git" => EntryDecision::Find(FindingKind::Git),
            FileKind::Directory if is_not_entered(name) => EntryDecision::Find(FindingKind::Git),
            FileKind::Directory if self.is_build_directory(&path, name, inputs) => {
                EntryDecision::Find(FindingKind::BuildDirectory)
            }
            FileKind::Directory => EntryDecision::Walk,
            FileKind::Socket => EntryDecision::Find(FindingKind::Socket),
            _ => EntryDecision::Nothing,
        }
    }

    /// Returns whether an entry is masked by `.aiexclude`, by the mask rule, or because the rules are unusable.
    fn is_masked(
        &self,
        path: &Path,
        name: &OsStr,
        kind: FileKind,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let rules = &self.rules.ignore_rules.rules;
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

    /// Returns whether a subdirectory holds build results.
    fn is_build_directory(&self, path: &Path, name: &OsStr, inputs: &mut Vec<Input>) -> bool {
        let (parent, ignore_rules) = (self.handle, &self.rules.ignore_rules);
        self.depth < MAX_DEPTH
            && Candidate { parent, name, path, ignore_rules }
                .is_build_directory(self.build_names, inputs)
    }
}

/// Returns whether a directory has the entries of a bare repository. Masked entries count: git outside the sandbox would find them.
fn looks_bare(entries: &[(OsString, FileKind)]) -> bool {
    let has = |wanted: &str, is_directory: bool| {
        entries
            .iter()
            .any(|(name, kind)| name == wanted && (*kind == FileKind::Directory) == is_directory)
    };
    has("HEAD", false) && has("objects", true) && has("refs", true)
}
