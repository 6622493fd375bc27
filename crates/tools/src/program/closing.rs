//! The closing line of a program's output, in brackets: facts that are not in the printed text.

use std::time::Duration;

use windlass_core::{Job, JobEnd, ProcessEnd, Signal};

use super::changed::{self, Base};

/// The duration is named if it is longer than this.
const MIN_SHOWN_DURATION: Duration = Duration::from_secs(1);

/// Returns phrases about the end of a program: its exit, duration and changes.
pub(crate) fn phrases(job: &Job, end: &JobEnd, base: &Base) -> Vec<String> {
    let has_printed = job.printed() > 0;
    let mut phrases = Vec::new();
    phrases.extend((!has_printed).then(|| "no output".to_owned()));
    phrases.extend(ending_phrase(job, end, has_printed));
    if end.timed_out && end.waited_for_input {
        phrases.push(WAITS_FOR_INPUT.to_owned());
    }
    if end.duration > MIN_SHOWN_DURATION && end.cut_off().is_none() {
        phrases.push(format!("took {}", seconds(end.duration)));
    }
    if let Ok(changed) = &end.changed {
        phrases.extend(changed::phrases(changed, base));
    }
    phrases
}

/// Advice for a program that waits for input.
pub(crate) const WAITS_FOR_INPUT: &str = "it was waiting for input: give that as `stdin`, with `pty:true` if it wants a terminal, or use an option that makes it not ask";

/// Joins phrases into the closing line; empty without phrases.
pub(crate) fn line(phrases: &[String]) -> String {
    if phrases.is_empty() { String::new() } else { format!("[{}]", phrases.join("; ")) }
}

/// Returns a phrase about the end of a program; `None` if it exited with 0.
fn ending_phrase(job: &Job, end: &JobEnd, has_printed: bool) -> Option<String> {
    if end.timed_out {
        let after = job.limit().map(|limit| format!(" after {}", limit_seconds(limit)));
        return Some(format!("timed out{}{}", after.unwrap_or_default(), above_hint(has_printed)));
    }
    if end.is_interrupted {
        let after = seconds(end.duration);
        return Some(format!("interrupted after {after}{}", above_hint(has_printed)));
    }
    match (end.stopped_by, end.how) {
        (Some(signal), how) => Some(signal_phrase(signal, how)),
        (None, ProcessEnd::Exited(0)) => None,
        (None, ProcessEnd::Exited(code)) => Some(exit_code_phrase(code, has_printed)),
        (None, how) => Some(how.to_string()),
    }
}

/// Returns a hint that the text above was printed before the end, if there is any.
fn above_hint(has_printed: bool) -> &'static str {
    if has_printed { "; what it printed until then is above" } else { "" }
}

/// Returns a phrase about a program that was ended by a signal from the engine.
fn signal_phrase(signal: Signal, how: ProcessEnd) -> String {
    let name = Signal::name(signal.number()).unwrap_or("a signal");
    match how {
        ProcessEnd::Signalled(number) if number == signal.number() => format!("ended by {name}"),
        ProcessEnd::Signalled(9) => format!("killed: it did not end on {name}"),
        how => format!("ended on {name} with {how}"),
    }
}

/// Returns a phrase with an exit code and its meaning in a shell.
fn exit_code_phrase(code: i32, has_printed: bool) -> String {
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

/// Formats a measured time: in tenths of a second below 100 s, otherwise in seconds.
pub(crate) fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    if tenths < 1_000 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} s", time.as_secs())
    }
}

/// Formats a time limit exactly.
pub(crate) fn limit_seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_get_their_meaning() {
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
            assert_eq!(exit_code_phrase(code, has_printed), expected);
        }
    }

    #[test]
    fn durations_are_formatted() {
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
    fn the_ending_signal_is_named() {
        for (signal, how, expected) in [
            (Signal::TERM, ProcessEnd::Signalled(15), "ended by TERM"),
            (Signal::TERM, ProcessEnd::Signalled(9), "killed: it did not end on TERM"),
            (Signal::KILL, ProcessEnd::Signalled(9), "ended by KILL"),
            (Signal::INT, ProcessEnd::Exited(130), "ended on INT with exit code 130"),
            (Signal::TERM, ProcessEnd::Exited(0), "ended on TERM with exit code 0"),
        ] {
            assert_eq!(signal_phrase(signal, how), expected);
        }
    }
}
