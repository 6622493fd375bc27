//! What time it is on this machine.

use std::time::SystemTime;

use windlass_core::Clock;

/// The machine's own clock.
///
/// ```
/// use windlass_core::Clock;
/// assert!(windlass_host::SystemClock.now() > std::time::UNIX_EPOCH);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
