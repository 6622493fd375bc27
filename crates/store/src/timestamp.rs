//! Times in the journal: nanoseconds since 1970 in an `i64`, which suffices until 2262.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Converts a time to nanoseconds since 1970; times out of range become the nearest end of the range.
pub(crate) fn to_nanos(at: SystemTime) -> i64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

/// Converts nanoseconds since 1970 to a time.
pub(crate) fn from_nanos(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let moment =
        if nanos < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    moment.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_back_as_they_were() {
        for nanos in [0, 1, -1, i64::MAX, i64::MIN + 1, 1_754_392_331_042_000_001] {
            assert_eq!(to_nanos(from_nanos(nanos)), nanos);
        }
    }
}
