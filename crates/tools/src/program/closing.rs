//! The last line of an answer about a program: what matters and is not in its output, in brackets.

use std::time::Duration;

use windlass_core::{Job, JobEnd, ProcessEnd, Signal};

use super::changed::{self, Base};

/// From here on it is worth saying how long it took.
const LONG: Duration = Duration::from_secs(1);

/// What is to be said of how a program ended.
pub(crate) fn of(job: &Job, end: &JobEnd, base: &Base) -> Vec<String> {
    let has_printed = job.printed() > 0;
    let mut said = Vec::new();
    said.extend((!has_printed).then(|| "no output".to_owned()));
    said.extend(how(job, end, has_printed));
    if end.timed_out && end.waited_for_input {
        said.push(WAITS.to_owned());
    }
    if end.duration > LONG && end.cut_off().is_none() {
        said.push(format!("took {}", seconds(end.duration)));
    }
    if let Ok(changed) = &end.changed {
        said.extend(changed::told(changed, base));
    }
    said
}

/// What to do about a program that waits for somebody to type.
pub(crate) const WAITS: &str = "it was waiting for input: give that as `stdin`, with `pty:true` if it wants a terminal, or use an option that makes it not ask";

/// The line itself; nothing if there is nothing to say.
pub(crate) fn line(said: &[String]) -> String {
    if said.is_empty() { String::new() } else { format!("[{}]", said.join("; ")) }
}

/// How it ended, if not as it should.
fn how(job: &Job, end: &JobEnd, has_printed: bool) -> Option<String> {
    if end.timed_out {
        let after = job.limit().map(|limit| format!(" after {}", limit_seconds(limit)));
        return Some(format!("timed out{}{}", after.unwrap_or_default(), above(has_printed)));
    }
    if end.is_interrupted {
        let after = seconds(end.duration);
        return Some(format!("interrupted after {after}{}", above(has_printed)));
    }
    match (end.stopped_by, end.how) {
        (Some(signal), how) => Some(stopped(signal, how)),
        (None, ProcessEnd::Exited(0)) => None,
        (None, ProcessEnd::Exited(code)) => Some(exit_code(code, has_printed)),
        (None, how) => Some(how.to_string()),
    }
}

fn above(has_printed: bool) -> &'static str {
    if has_printed { "; what it printed until then is above" } else { "" }
}

fn stopped(signal: Signal, how: ProcessEnd) -> String {
    let name = Signal::name(signal.number()).unwrap_or("a signal");
    match how {
        ProcessEnd::Signalled(number) if number == signal.number() => format!("ended by {name}"),
        ProcessEnd::Signalled(9) => format!("killed: it did not end on {name}"),
        how => format!("ended on {name} with {how}"),
    }
}

/// An exit code, with what a shell means by it.
fn exit_code(code: i32, has_printed: bool) -> String {
    let meaning = match code {
        126 if !has_printed => Some("found, but it cannot be executed".to_owned()),
        127 if !has_printed => Some("command not found: is it installed?".to_owned()),
        129.. => {
            Signal::name(code - 128).map(|name| format!("128 + signal {}, {name}", code - 128))
        }
        _ => None,
    };
    match meaning {
        Some(meaning) => format!("exit code {code} ({meaning})"),
        None => format!("exit code {code}"),
    }
}

/// A time that passed, to a tenth of a second while it is short.
pub(crate) fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    if tenths < 1_000 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} s", time.as_secs())
    }
}

/// A time that was given, as it was given.
pub(crate) fn limit_seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_their_meanings() {
        for (code, has_printed, expected) in [
            (1, false, "exit code 1"),
            (127, true, "exit code 127"),
            (127, false, "exit code 127 (command not found: is it installed?)"),
            (126, false, "exit code 126 (found, but it cannot be executed)"),
            (137, true, "exit code 137 (128 + signal 9, KILL)"),
            (139, true, "exit code 139 (128 + signal 11, SEGV)"),
            (255, true, "exit code 255"),
            (-1, true, "exit code -1"),
        ] {
            assert_eq!(exit_code(code, has_printed), expected);
        }
    }

    #[test]
    fn times() {
        for (millis, expected) in
            [(0, "0.0 s"), (999, "0.9 s"), (1_250, "1.2 s"), (99_990, "99.9 s"), (100_500, "100 s")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
        for (millis, expected) in [(500, "0.5 s"), (120_000, "120 s"), (50, "0.05 s")] {
            assert_eq!(limit_seconds(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn who_ended_it() {
        for (signal, how, expected) in [
            (Signal::TERM, ProcessEnd::Signalled(15), "ended by TERM"),
            (Signal::TERM, ProcessEnd::Signalled(9), "killed: it did not end on TERM"),
            (Signal::KILL, ProcessEnd::Signalled(9), "ended by KILL"),
            (Signal::INT, ProcessEnd::Exited(130), "ended on INT with exit code 130"),
            (Signal::TERM, ProcessEnd::Exited(0), "ended on TERM with exit code 0"),
        ] {
            assert_eq!(stopped(signal, how), expected);
        }
    }
}
