//! The filter of `windlass log`: by session, tool, outcome and time.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use windlass::Outcome;
use windlass::journal::{JournalRow, utc};
use windlass::session::SessionId;

/// The conditions for showing a record. An unset field admits every record.
#[derive(Debug, Default)]
pub(in crate::command) struct Filter {
    pub(super) session: Option<SessionId>,
    pub(super) tool: Option<String>,
    pub(super) outcome: Option<Outcome>,
    pub(super) since: Option<Since>,
}

impl Filter {
    /// Returns a filter for the records of a session.
    pub(in crate::command) fn of_session(session: SessionId) -> Self {
        Self { session: Some(session), ..Self::default() }
    }

    /// Returns whether a record is shown, by tool, outcome and time. The session is selected when records are read.
    pub(super) fn admits(&self, row: &JournalRow) -> bool {
        self.tool.as_ref().is_none_or(|tool| row.tool.as_ref() == Some(tool))
            && self.outcome.is_none_or(|outcome| row.outcome == Some(outcome))
            && self.since.as_ref().is_none_or(|since| since.admits(row.at))
    }
}

/// The time from which on records are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Since {
    /// A time that was given relative to now.
    Ago(SystemTime),
    /// A UTC date or time, or the beginning of one, as records show it. It is compared as text, which sorts like time.
    From(String),
}

impl Since {
    /// Returns whether a time is not before the limit.
    fn admits(&self, at: SystemTime) -> bool {
        match self {
            Self::Ago(time) => at >= *time,
            Self::From(text) => utc(at).as_str() >= text.as_str(),
        }
    }
}

impl FromStr for Since {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            anyhow!(
                "`{text}` is no time: it is 30s, 10m, 2h or 3d, or 2026-11-18 or 2026-11-18T16:30 (UTC)"
            )
        };
        if is_date(text) {
            return Ok(Self::From(text.trim_end_matches('Z').to_owned()));
        }
        let (number, unit) =
            text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let ago = Duration::from_secs(number.saturating_mul(seconds));
        Ok(Self::Ago(SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)))
    }
}

/// Returns whether a text is a date, with or without a time to hours, minutes or seconds.
fn is_date(text: &str) -> bool {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    let text = text.strip_suffix('Z').unwrap_or(text).as_bytes();
    let is_whole = matches!(text.len(), 10 | 13 | 16 | 19);
    let fits = |(byte, pattern): (&u8, &u8)| {
        if *pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern }
    };
    is_whole && text.iter().zip(PATTERN).all(fits)
}

/// Parses an outcome by its name.
pub(super) fn parse_outcome(text: &str) -> Result<Outcome> {
    Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or_else(|| {
        anyhow!(
            "unknown outcome `{text}`: it is one of {}",
            Outcome::ALL.map(Outcome::as_str).join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_duration_or_a_utc_time() {
        for text in ["", "m", "10", "-1m", "1w", "2026-1-1", "2026-11-18T1", "18.11.2026", "é"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
        let day = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
        for (text, is_in) in [
            ("1970-01-02", true),
            ("1970-01-02T00:00", true),
            ("1970-01-02T00:00:00Z", true),
            ("1970-01-02T00:01", false),
            ("1970-01-03", false),
            ("10m", false),
        ] {
            assert_eq!(text.parse::<Since>().expect(text).admits(day), is_in, "{text}");
        }
    }
}
