//! Files whose presence or content decided something, and a cheap check that they are unchanged.
//!
//! A cache of decisions is valid only as long as its inputs are unchanged. An input that changed a moment ago is never trusted: a
//! second change within the same tick of the file system's clock would leave the same time stamp.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Stat, statat};
use rustix::io::Errno;
use windlass_core::{FileKind, Fingerprint};

use crate::kernel::stat_from;

/// Nanoseconds for which a new time stamp is not trusted, because a second change may get the same one. Longer than the slowest
/// kernel tick (10 ms).
const FINE_TICK_NANOS: i64 = 20_000_000;

/// The same for file systems that store whole seconds; the coarsest (FAT) store even seconds only.
const COARSE_TICK_NANOS: i64 = 2_000_000_000;

/// Absolute path of a file that decided something, and its state at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) state: InputState,
}

/// The part of a file's state that decided something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputState {
    /// An entry of any kind exists at the path, or does not.
    Exists(bool),
    /// The regular file at the path after following links; `None` if there is none.
    Followed(Option<Fingerprint>),
    /// The regular file at the path itself; `None` if there is none, or a link.
    Named(Option<Fingerprint>),
    /// The state could not be read, or was too young to be trusted.
    Unknown,
}

impl Input {
    pub(crate) fn new(path: PathBuf, state: InputState) -> Self {
        Self { path, state }
    }

    /// Sets a state to unknown if the file may change again without a new time stamp. `now` is the time before the file was read.
    pub(crate) fn distrust_if_recent(&mut self, now: i64) {
        if let InputState::Followed(Some(found)) | InputState::Named(Some(found)) = self.state
            && !is_settled(found.changed, now)
        {
            self.state = InputState::Unknown;
        }
    }
}

impl InputState {
    /// Returns whether the file at the path still has this state.
    pub(crate) fn is_current(self, path: &Path) -> bool {
        let now = match self {
            Self::Unknown => return false,
            Self::Exists(_) => match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Self::Exists(true),
                Err(Errno::NOENT | Errno::NOTDIR) => Self::Exists(false),
                Err(_) => Self::Unknown,
            },
            Self::Followed(_) => regular_fingerprint(statat(CWD, path, AtFlags::empty()))
                .map_or(Self::Unknown, Self::Followed),
            Self::Named(_) => regular_fingerprint(statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW))
                .map_or(Self::Unknown, Self::Named),
        };
        now != Self::Unknown && now == self
    }
}

/// Returns whether a time stamp is so old that every later change gets another one.
pub(crate) fn is_settled(changed: i64, now: i64) -> bool {
    let is_whole_second = changed.rem_euclid(1_000_000_000) == 0;
    let tick = if is_whole_second { COARSE_TICK_NANOS } else { FINE_TICK_NANOS };
    changed < now.saturating_sub(tick)
}

/// Returns the fingerprint of a regular file; `Ok(None)` if there is no such file.
fn regular_fingerprint(found: Result<Stat, Errno>) -> Result<Option<Fingerprint>, Errno> {
    match found.map(|raw| stat_from(&raw)) {
        Ok(stat) => Ok((stat.kind == FileKind::File).then_some(stat.fingerprint)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_trusted_after_its_tick() {
        const SECOND: i64 = 1_000_000_000;
        let cases = [
            (5 * SECOND + 1, 5 * SECOND + 1, false),
            (5 * SECOND + 1, 5 * SECOND + FINE_TICK_NANOS, false),
            (5 * SECOND + 1, 5 * SECOND + FINE_TICK_NANOS + 2, true),
            (5 * SECOND, 6 * SECOND, false),
            (5 * SECOND, 7 * SECOND + 1, true),
            (9 * SECOND + 1, 5 * SECOND, false),
            (i64::MAX, i64::MIN, false),
        ];
        for (changed, now, expected) in cases {
            assert_eq!(is_settled(changed, now), expected, "{changed} at {now}");
        }
    }
}
