//! The directories in which a command may be run, after what was run before it.

use std::path::PathBuf;

/// The directories in which a command may find itself.
pub(super) type Places = Vec<PathBuf>;

/// The directories after a success, and after a failure.
pub(super) struct After {
    pub(super) success: Places,
    pub(super) failure: Places,
}

impl After {
    pub(super) fn either(places: Places) -> Self {
        Self { success: places.clone(), failure: places }
    }

    pub(super) fn any(self) -> Places {
        union(self.success, self.failure)
    }
}

/// All of both.
pub(super) fn union(mut one: Places, other: Places) -> Places {
    for place in other {
        if !one.contains(&place) {
            one.push(place);
        }
    }
    one
}
