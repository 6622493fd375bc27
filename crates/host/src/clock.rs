//! The machine's clock.

use std::time::SystemTime;

use windlass_core::Clock;

/// The machine's clock, as a [`Clock`].
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
