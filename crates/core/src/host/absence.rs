//! Reasons why a confined program did not have a path, for the answer about a program that failed.
//!
//! They are found after the program has ended. A reason never tells whether a path exists that no rule could open: for secret
//! files outside the workspace it is the same whether they are there or not.

use std::path::PathBuf;

/// A program's use of a path that failed.
///
/// ```
/// use windlass_core::{Absence, PathUse};
/// // A path on a read-only mount is a reason only for a program that wanted to change it.
/// let explain = |used| (used == PathUse::Write).then_some(Absence::ReadOnly { rule: None });
/// assert_eq!(explain(PathUse::Read), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// It was opened, listed or executed.
    Read,
    /// It was created, changed or removed.
    Write,
    /// Its owner or group was set.
    Chown,
}

/// The reason why a program did not have a path, or could not change it.
///
/// ```
/// use windlass_core::Absence;
/// let absence = Absence::Outside { rule: Some("read /data/**".into()) };
/// assert_eq!(absence.name(), "outside");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The machine has it, and the view leaves it out.
    Masked {
        /// The reason, as in "a file of secrets".
        reason: String,
    },
    /// The view does not have this part of the machine.
    Outside {
        /// The rule that adds it; `None` where no rule does.
        rule: Option<String>,
    },
    /// The view has it, but nothing there can be changed.
    ReadOnly {
        /// The rule that makes it writable; `None` where no rule does.
        rule: Option<String>,
    },
    /// It belongs to the system, which no rule makes writable.
    System {
        /// The directory of the system that it is in.
        directory: PathBuf,
    },
    /// Its owner or group does not exist in the program's user namespace, so the kernel refuses to change it.
    Unmapped {
        /// The number of the owner, if that is not mapped.
        owner: Option<u32>,
        /// The number of the group, if that is not mapped.
        group: Option<u32>,
    },
    /// A program can give a file only to the one user and group of its user namespace.
    OneOwner,
}

impl Absence {
    /// The name of the reason in metadata.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Masked { .. } => "masked",
            Self::Outside { .. } => "outside",
            Self::ReadOnly { .. } => "read-only",
            Self::System { .. } => "system",
            Self::Unmapped { .. } => "unmapped",
            Self::OneOwner => "one-owner",
        }
    }
}
