//! Parses rules of the configuration: a string, or a table with a reason and an expiry time.
//!
//! ```toml
//! deny = ["exec rm", { rule = "write infra/**", reason = "frozen until the move", until = 2026-12-01 }]
//! ```

use std::time::{Duration, SystemTime};

use toml::Value;
use toml::value::{Datetime, Offset};
use windlass::Rule;
use windlass::policy::{ActiveRule, Decision, Layer, RuleError};

use crate::config::ValueError;

/// Checks that a value is a list of rules.
pub(crate) fn check(value: &Value) -> Result<(), ValueError> {
    let Some(list) = value.as_array() else {
        return Err(ValueError::new("it must be a list of rules, such as [\"…\"]"));
    };
    list.iter().try_for_each(|entry| parse_rule(&parse_entry(entry)?).map(drop))
}

/// Returns the texts of the rules in a list.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let entries = value.as_array().into_iter().flatten();
    entries.filter_map(|entry| parse_entry(entry).ok()).map(|entry| entry.rule.to_owned()).collect()
}

/// Returns the rules of a list that was checked before.
pub(crate) fn rulings(value: &Value, decision: Decision, layer: Layer) -> Vec<ActiveRule> {
    let entries = value.as_array().into_iter().flatten();
    entries.filter_map(|entry| to_ruling(&parse_entry(entry).ok()?, decision, layer).ok()).collect()
}

/// One entry of a list of rules.
struct RuleEntry<'a> {
    rule: &'a str,
    reason: Option<&'a str>,
    until: Option<SystemTime>,
}

/// Parses an entry: a string or a table.
fn parse_entry(value: &Value) -> Result<RuleEntry<'_>, ValueError> {
    if let Some(rule) = value.as_str() {
        return Ok(RuleEntry { rule, reason: None, until: None });
    }
    let Some(table) = value.as_table() else {
        return Err(ValueError::new(
            "a rule is a text, or a table { rule = \"…\", reason = \"…\", until = 2026-12-31 }",
        ));
    };
    let unknown = table.keys().find(|key| !["rule", "reason", "until"].contains(&key.as_str()));
    if let Some(unknown) = unknown {
        return Err(ValueError::new(format!(
            "a rule has no `{unknown}`: it has `rule`, `reason` and `until`"
        )));
    }
    let not_text = || ValueError::new("it must be a text");
    let text = |key: &str| table.get(key).map(|value| value.as_str().ok_or_else(not_text));
    let until = table.get("until").map(parse_end).transpose();
    Ok(RuleEntry {
        rule: text("rule").ok_or_else(|| ValueError::new("a rule needs its `rule`"))??,
        reason: text("reason")
            .transpose()
            .map_err(|error| ValueError::new(format!("`reason`: {error}")))?,
        until: until.map_err(|error| ValueError::new(format!("`until`: {error}")))?,
    })
}

/// Parses the rule of an entry.
fn parse_rule(entry: &RuleEntry<'_>) -> Result<Rule, ValueError> {
    entry.rule.parse().map_err(|error: RuleError| ValueError::new(error))
}

/// Converts an entry to a rule with its decision, layer, reason and expiry.
fn to_ruling(
    entry: &RuleEntry<'_>,
    decision: Decision,
    layer: Layer,
) -> Result<ActiveRule, ValueError> {
    let mut ruling = ActiveRule::new(decision, parse_rule(entry)?).in_layer(layer);
    ruling.reason = entry.reason.map(str::to_owned);
    ruling.until = entry.until;
    Ok(ruling)
}

/// Parses a date or a time. A date expires at the end of its day; a time without a zone is in UTC.
fn parse_end(value: &Value) -> Result<SystemTime, ValueError> {
    let datetime = match value {
        Value::Datetime(datetime) => *datetime,
        Value::String(text) => text
            .parse()
            .map_err(|error| ValueError::new(format!("`{text}` is not a date: {error}")))?,
        _ => return Err(ValueError::new("it must be a date, such as 2026-12-31, or a time")),
    };
    seconds_since_1970(&datetime)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
        .ok_or_else(|| ValueError::new("it must be a date after 1970, such as 2026-12-31"))
}

/// Returns the seconds since 1970.
fn seconds_since_1970(datetime: &Datetime) -> Option<i64> {
    let date = datetime.date?;
    let day = days_since_1970(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let in_day = match datetime.time {
        Some(time) => {
            let second = i64::from(time.second.unwrap_or(0));
            i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + second
        }
        None => 24 * 3600,
    };
    let zone = match datetime.offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes) * 60,
        Some(Offset::Z) | None => 0,
    };
    Some(day * 24 * 3600 + in_day - zone)
}

/// Returns the days from 1970 to a date. Years begin in March, so that a leap day is the last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let in_years = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    in_years + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let mut table: toml::Table = format!("x = {text}").parse().expect(text);
        table.remove("x").expect("it was just put there")
    }

    #[test]
    fn texts_and_tables_are_rules() {
        let list = value(
            "[\"exec rm\", { rule = \"write a/**\", reason = \"frozen\", until = 2026-12-01 }]",
        );
        check(&list).expect("it is a list of rules");
        let rules = rulings(&list, Decision::Deny, Layer::User);
        assert_eq!(rules[1].to_string(), "deny write a/**");
        assert_eq!(rules[1].reason.as_deref(), Some("frozen"));
        assert_eq!((rules[0].until, rules[0].layer), (None, Layer::User));
        assert_eq!(texts(&list), ["exec rm", "write a/**"]);
    }

    #[test]
    fn expiry_times_are_parsed() {
        let seconds = |text: &str| {
            let end = parse_end(&value(text)).expect(text);
            end.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
        };
        for (text, expected) in [
            ("1970-01-01", 86_400),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29", 951_868_800),
            ("2026-12-01T10:00:00Z", 1_796_119_200),
            ("2026-12-01T10:00:00+02:00", 1_796_112_000),
            ("\"2026-12-01T10:00:00Z\"", 1_796_119_200),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn wrong_rules_are_explained() {
        for (text, why) in [
            ("\"x\"", "a list of rules"),
            ("[3]", "a rule is a text"),
            ("[{ reason = \"x\" }]", "needs its `rule`"),
            ("[\"raed x\"]", "did you mean `read`?"),
            ("[{ rule = \"read x\", unti = 1 }]", "no `unti`"),
            ("[{ rule = \"read x\", until = 7 }]", "must be a date"),
            ("[{ rule = \"read x\", until = 10:00:00 }]", "after 1970"),
        ] {
            let error = check(&value(text)).expect_err(text);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
