//! Formats times in UTC, as in RFC 3339.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Writes a time in UTC to the millisecond, as in RFC 3339. A time before 1677 or after 2262 becomes the nearest one in between.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// let at = UNIX_EPOCH + Duration::from_millis(1_754_392_331_042);
/// assert_eq!(windlass_core::utc(at), "2025-08-05T11:12:11.042Z");
/// ```
pub fn utc(at: SystemTime) -> String {
    let nanos = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let millis = nanos.rem_euclid(NANOS_PER_SECOND) / 1_000_000;
    let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let mut text = String::with_capacity(24);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
    );
    text
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are taken to begin in March, so that the leap day is the last of its year and every month's first day is a linear function of
/// the month.
fn date(day: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097; // 400 years
    const MARCH_0000_TO_1970: i64 = 719_468;
    let day = day + MARCH_0000_TO_1970;
    let era = day.div_euclid(DAYS_PER_ERA);
    let of_era = day.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the time this many nanoseconds after the Unix epoch, or before it if negative.
    fn at(nanos: i64) -> SystemTime {
        let distance = Duration::from_nanos(nanos.unsigned_abs());
        if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }

    #[test]
    fn moments_are_written_in_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000_000_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_123_456_789, "2024-02-29T00:00:00.123Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (nanos, text) in cases {
            assert_eq!(utc(at(nanos)), text, "{nanos}");
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut previous = date(-150_000);
        for day in -149_999..150_000 {
            let next = date(day);
            assert!(next > previous, "{previous:?} {next:?}");
            assert!(next.2 == previous.2 + 1 || next.2 == 1, "{previous:?} {next:?}");
            previous = next;
        }
    }
}
