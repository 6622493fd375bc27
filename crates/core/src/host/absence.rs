//! Reasons why a path was absent or unwritable for a confined program, shown with the result of a program that failed.
//!
//! They are determined after the program has ended. A reason never tells whether a path exists that no rule could open: for secret
//! files outside the workspace it is the same whether they exist or not.

use std::path::PathBuf;

/// The kind of a program's access to a path that failed.
///
/// ```
/// use windlass_core::{Absence, PathUse};
/// // A path on a read-only mount is a reason only for a program that wanted to change it.
/// let explain = |used| (used == PathUse::Write).then_some(Absence::ReadOnly { rule: None });
/// assert_eq!(explain(PathUse::Read), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// The path was opened, listed or executed.
    Read,
    /// The path was created, changed or removed.
    Write,
    /// The owner or group of the path was set.
    Chown,
}

/// The reason why a path was absent for a program, or could not be changed.
///
/// ```
/// use windlass_core::Absence;
/// let absence = Absence::Outside { rule: Some("read /data/**".into()) };
/// assert_eq!(absence.name(), "outside");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The path exists on the machine, and the view masks it.
    Masked {
        /// Reason for the mask, as in "a file of secrets".
        reason: String,
    },
    /// The path is outside the program's view.
    Outside {
        /// Rule that would add it; `None` if no rule can.
        rule: Option<String>,
    },
    /// The path is in the view, but read-only.
    ReadOnly {
        /// Rule that would make it writable; `None` if no rule can.
        rule: Option<String>,
    },
    /// The path belongs to the system, and no rule makes it writable.
    System {
        /// System directory that contains it.
        directory: PathBuf,
    },
    /// The owner or group of the path does not exist in the program's user namespace, so the kernel refuses to change the file.
    Unmapped {
        /// User id of the owner, if it is not mapped.
        owner: Option<u32>,
        /// Group id, if it is not mapped.
        group: Option<u32>,
    },
    /// The program tried to set an owner other than the one user and group of its user namespace.
    OneOwner,
}

impl Absence {
    /// Returns the name of the reason in metadata.
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
