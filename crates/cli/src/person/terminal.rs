//! The controlling terminal of the person: shows a text screen by screen, and reads lines, until the answer is no longer needed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use windlass::quote;

use crate::command::Interrupts;

/// The assumed number of rows of a terminal that does not report its size.
const DEFAULT_ROWS: usize = 24;
/// The assumed number of columns of such a terminal.
const DEFAULT_COLUMNS: usize = 80;

/// The controlling terminal (`/dev/tty`) of this process.
pub(super) struct Terminal {
    tty: File,
    input: BufReader<File>,
    /// The read end of a pipe whose other end is closed when the answer is no longer needed.
    stop: Option<PipeReader>,
}

/// The point at which a person stopped reading a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadingEnd {
    /// All of it was shown.
    Whole,
    /// The person left it.
    Left,
    /// The person gave this denial instead of reading on.
    Denied(String),
}

/// Keeps a [`Terminal`] waiting for input. When dropped before `finish`, the terminal stops waiting and prints that the prompt is over.
pub(super) struct PromptGuard {
    tty: Option<File>,
    /// Tells an interrupt from an answer elsewhere; `None` if signals cannot be listened to.
    interrupts: Option<Interrupts>,
    _stop_writer: PipeWriter,
}

impl PromptGuard {
    /// Ends the wait without a message, because the person has answered.
    pub(super) fn finish(mut self) {
        self.tty = None;
    }
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        if let Some(tty) = &mut self.tty {
            let is_interrupted = self.interrupts.as_mut().is_some_and(Interrupts::has_come);
            let why = if is_interrupted {
                "interrupted: the question is closed"
            } else {
                "answered elsewhere, or no longer asked"
            };
            // A failure to write to a closed terminal does not matter.
            drop(tty.write_all(format!("\n({why})\n").as_bytes()));
        }
    }
}

impl Terminal {
    /// Opens `/dev/tty` for reading and writing.
    pub(super) fn open() -> Result<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty");
        let tty = tty.context("there is no terminal")?;
        let input = BufReader::new(tty.try_clone()?);
        Ok(Self { tty, input, stop: None })
    }

    /// Opens the terminal for a prompt that may be answered elsewhere; dropping the returned guard stops the wait for input.
    pub(super) fn open_stoppable() -> Result<(Self, PromptGuard)> {
        let (stop, keep) = std::io::pipe()?;
        let terminal = Self { stop: Some(stop), ..Self::open()? };
        let tty = Some(terminal.tty.try_clone()?);
        let interrupts = Interrupts::listen().ok();
        Ok((terminal, PromptGuard { tty, interrupts, _stop_writer: keep }))
    }

    /// Shows a text, screen by screen if it is long. A person can leave it for the question, or give one of these answers at once: a
    /// denial needs no reading. Any other answer counts only at the question.
    pub(super) fn show(&mut self, text: &str, denials: &[&str]) -> Result<ReadingEnd> {
        let size = rustix::termios::tcgetwinsize(&self.tty).ok();
        let size = size.map_or((0, 0), |size| (size.ws_row.into(), size.ws_col.into()));
        let screens = split_screens(text, size);
        for (at, screen) in screens.iter().enumerate() {
            if at > 0
                && let Some(end) = self.ask_for_more((at, screens.len()), denials)?
            {
                return Ok(end);
            }
            self.tty.write_all(screen.as_bytes())?;
        }
        Ok(ReadingEnd::Whole)
    }

    /// Asks between two screens of a text. `None` if the person wants the next one.
    fn ask_for_more(
        &mut self,
        (at, of): (usize, usize),
        denials: &[&str],
    ) -> Result<Option<ReadingEnd>> {
        let no = denials.first().map(|key| format!(", {key} says no")).unwrap_or_default();
        let mut note = String::new();
        loop {
            let line = self.read_line(&format!(
                "{note}-- {at} of {of} screens: Enter shows more, q leaves to the question{no} --"
            ))?;
            match parse_pager_line(&line, denials) {
                PagerCommand::More => return Ok(None),
                PagerCommand::End(end) => return Ok(Some(end)),
                PagerCommand::Unknown => {
                    let line = quote::visible(&line);
                    note = format!("`{line}` does not count here: q leaves to the question\n");
                }
            }
        }
    }

    /// Prints a prompt and reads one line. Input that was typed before the prompt is discarded.
    pub(super) fn read_line(&mut self, question: &str) -> Result<String> {
        self.tty.write_all(question.as_bytes())?;
        self.tty.flush()?;
        rustix::termios::tcflush(&self.tty, rustix::termios::QueueSelector::IFlush)?;
        self.wait_for_line()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            bail!("it was closed");
        }
        Ok(line.trim().to_owned())
    }

    /// Waits until a line was typed; fails if the answer is no longer needed.
    fn wait_for_line(&self) -> Result<()> {
        let Some(stop) = &self.stop else { return Ok(()) };
        loop {
            let mut waiting =
                [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.tty, PollFlags::IN)];
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) if !waiting[0].revents().is_empty() => bail!("the question was closed"),
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// The command that a person typed between two screens of a text.
#[derive(Debug, PartialEq, Eq)]
enum PagerCommand {
    /// Show the next screen.
    More,
    /// Show no more.
    End(ReadingEnd),
    /// Something else, which counts for nothing.
    Unknown,
}

/// Parses a line typed between two screens of a text that can be answered with these denials.
fn parse_pager_line(line: &str, denials: &[&str]) -> PagerCommand {
    let word = match line.to_lowercase().as_str() {
        "no" => "n".to_owned(),
        word => word.to_owned(),
    };
    match word.as_str() {
        "" => PagerCommand::More,
        "q" => PagerCommand::End(ReadingEnd::Left),
        word if denials.contains(&word) => PagerCommand::End(ReadingEnd::Denied(word.to_owned())),
        _ => PagerCommand::Unknown,
    }
}

/// Splits a text into parts that fit on a screen, counting a long line as the rows that it takes, so that nothing scrolls away unseen.
fn split_screens(text: &str, (rows, columns): (usize, usize)) -> Vec<String> {
    let rows = if rows == 0 { DEFAULT_ROWS } else { rows }.saturating_sub(4).max(4);
    let columns = if columns == 0 { DEFAULT_COLUMNS } else { columns };
    let mut screens = vec![String::new()];
    let mut filled = 0;
    for piece in text.lines().flat_map(|line| split_line(line, rows * columns)) {
        let taken = piece.chars().count().div_ceil(columns).max(1);
        if filled > 0 && filled + taken > rows {
            screens.push(String::new());
            filled = 0;
        }
        filled += taken;
        if let Some(screen) = screens.last_mut() {
            screen.push_str(piece);
            screen.push('\n');
        }
    }
    screens
}

/// Splits a line into pieces of at most `max_chars` characters. A line with colour codes stays whole, because a code cannot be cut.
fn split_line(line: &str, max_chars: usize) -> Vec<&str> {
    if line.contains('\x1b') {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(max_chars) {
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_denials_count_between_screens() {
        let denied = |key: &str| PagerCommand::End(ReadingEnd::Denied(key.to_owned()));
        for (line, denials, expected) in [
            ("", &["n", "never"][..], PagerCommand::More),
            ("q", &["n"], PagerCommand::End(ReadingEnd::Left)),
            ("Q", &[], PagerCommand::End(ReadingEnd::Left)),
            ("n", &["n", "never"], denied("n")),
            ("No", &["n", "never"], denied("n")),
            ("never", &["n", "never"], denied("never")),
            ("never", &["n"], PagerCommand::Unknown),
            ("n", &[], PagerCommand::Unknown),
            ("y", &["n", "never"], PagerCommand::Unknown),
            ("yes", &["n"], PagerCommand::Unknown),
            ("1", &["n"], PagerCommand::Unknown),
            ("nonsense", &["n"], PagerCommand::Unknown),
        ] {
            assert_eq!(parse_pager_line(line, denials), expected, "{line:?} {denials:?}");
        }
    }

    #[test]
    fn screens_hold_the_whole_text_and_fit_the_terminal() {
        let short = (0..50).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
        let long = format!("begin\n{}\nend\n", "0123456789".repeat(100));
        for (text, size) in
            [(&short, (12, 80)), (&long, (12, 20)), (&short, (0, 0)), (&long, (1, 1))]
        {
            let screens = split_screens(text, size);
            let unbroken = |text: &str| text.replace('\n', "");
            assert_eq!(unbroken(&screens.concat()), unbroken(text));
            let (rows, columns) = if size.0 == 0 { (24, 80) } else { size };
            for screen in &screens {
                let taken = |line: &str| line.chars().count().div_ceil(columns).max(1);
                let high: usize = screen.lines().map(taken).sum();
                assert!(high <= rows.saturating_sub(4).max(4), "{high} of {rows}: {screen}");
            }
        }
    }
}
