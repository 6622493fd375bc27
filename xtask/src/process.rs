//! Runs other programs: with their output passed on, or captured.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Runs one step of a longer task; prints a heading before and the duration after.
pub(crate) fn step<T>(heading: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("── {heading}");
    let start = Instant::now();
    let done = work()?;
    eprintln!("   {heading}: done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

/// Runs a program to its end; it inherits stdout and stderr.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {}", line(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a program and returns its stdout, which must be UTF-8. Its stderr is shown only if it fails.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something that is not UTF-8", line(command)))
}

/// Runs a program to its end without stdin; a non-zero exit code is an error with its stderr.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {}", line(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", line(command), output.status, said.trim_end());
    }
    Ok(output)
}

/// Runs a program to its end, passing its output on line by line; returns the lines for which `is_kept` is true, in order.
pub(crate) fn run_and_keep(
    command: &mut Command,
    is_kept: fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {}", line(command)))?;
    let (sender, kept) = mpsc::channel();
    let forwards = [
        child.stdout.take().map(|pipe| forward(pipe, std::io::stdout(), is_kept, sender.clone())),
        child.stderr.take().map(|pipe| forward(pipe, std::io::stderr(), is_kept, sender.clone())),
    ];
    drop(sender);
    let status = child.wait()?;
    for forward in forwards.into_iter().flatten() {
        if forward.join().is_err() {
            bail!("reading the output of {} failed", line(command));
        }
    }
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(kept.into_iter().collect())
}

/// Starts a thread that copies lines to a sink and sends the kept ones.
fn forward(
    pipe: impl Read + Send + 'static,
    mut sink: impl Write + Send + 'static,
    is_kept: fn(&str) -> bool,
    kept: mpsc::Sender<String>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // A closed terminal must not stop the watched program, and after a failed run the receiver is gone.
            drop(writeln!(sink, "{line}"));
            if is_kept(&line) {
                drop(kept.send(line.into_owned()));
            }
        }
    })
}

/// Returns whether a program of this name is on the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// A command as a person would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| quote(&word.to_string_lossy())).collect();
    format!("`{}`", words.join(" "))
}

/// Quotes a word for a shell, if necessary.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let mut command = Command::new("cargo");
        command.args(["run", "a b", "it's", ""]);
        assert_eq!(line(&command), r"`cargo run 'a b' 'it'\''s' ''`");
    }

    #[test]
    fn a_failing_program_is_named_with_what_it_said() {
        let error =
            capture(Command::new("sh").args(["-c", "echo no luck >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`sh -c ") && text.contains('3') && text.ends_with("no luck"),
            "{text}"
        );
    }

    #[test]
    fn selected_lines_are_kept_from_both_streams() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '# out'; echo other; echo '# error' >&2"]);
        let mut kept = run_and_keep(&mut command, |line| line.starts_with('#')).unwrap();
        kept.sort();
        assert_eq!(kept, ["# error", "# out"]);
    }
}
