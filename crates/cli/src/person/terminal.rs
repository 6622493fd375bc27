//! The terminal of a person: shows a text screen by screen, and reads lines, until the answer is no longer needed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};

/// The number of lines of a terminal that does not tell its size.
const USUAL_ROWS: usize = 24;
/// The number of characters on a line of it.
const USUAL_COLUMNS: usize = 80;

/// The terminal that controls this process.
pub(super) struct Terminal {
    tty: File,
    input: BufReader<File>,
    /// Closed at the other end when the answer is no longer needed.
    stop: Option<PipeReader>,
}

/// Lets a [`Terminal`] go on asking. When it is dropped before the end, the terminal stops, and says so.
pub(super) struct KeepAsking {
    tty: Option<File>,
    _keep: PipeWriter,
}

impl KeepAsking {
    /// The person has answered.
    pub(super) fn end(mut self) {
        self.tty = None;
    }
}

impl Drop for KeepAsking {
    fn drop(&mut self) {
        if let Some(tty) = &mut self.tty {
            // A terminal that is gone need not be told.
            drop(tty.write_all(b"\n(answered elsewhere, or no longer asked)\n"));
        }
    }
}

impl Terminal {
    pub(super) fn open() -> Result<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty");
        let tty = tty.context("there is no terminal")?;
        let input = BufReader::new(tty.try_clone()?);
        Ok(Self { tty, input, stop: None })
    }

    /// Opens it for a question that may be answered elsewhere.
    pub(super) fn open_stoppable() -> Result<(Self, KeepAsking)> {
        let (stop, keep) = std::io::pipe()?;
        let terminal = Self { stop: Some(stop), ..Self::open()? };
        let tty = Some(terminal.tty.try_clone()?);
        Ok((terminal, KeepAsking { tty, _keep: keep }))
    }

    /// Shows a text, screen by screen if it is long. Returns whether all of it was shown: a person can leave it before its end.
    pub(super) fn show(&mut self, told: &str) -> Result<bool> {
        let size = rustix::termios::tcgetwinsize(&self.tty).ok();
        let size = size.map_or((0, 0), |size| (size.ws_row.into(), size.ws_col.into()));
        let screens = screens(told, size);
        for (at, screen) in screens.iter().enumerate() {
            if at > 0 {
                let of = screens.len();
                let line =
                    self.line(&format!("-- {at} of {of} screens: Enter shows more, q leaves --"))?;
                if matches!(line.as_str(), "q" | "Q") {
                    return Ok(false);
                }
            }
            self.tty.write_all(screen.as_bytes())?;
        }
        Ok(true)
    }

    /// Asks for one line. What was typed before the question was there is not an answer to it.
    pub(super) fn line(&mut self, question: &str) -> Result<String> {
        self.tty.write_all(question.as_bytes())?;
        self.tty.flush()?;
        rustix::termios::tcflush(&self.tty, rustix::termios::QueueSelector::IFlush)?;
        self.wait()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            bail!("it was closed");
        }
        Ok(line.trim().to_owned())
    }

    /// Waits until a line was typed. The error is that the answer is no longer needed.
    fn wait(&self) -> Result<()> {
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

/// A text in parts that fit on a screen, long lines counted as the rows that they take: nothing scrolls away before it was seen.
fn screens(told: &str, (rows, columns): (usize, usize)) -> Vec<String> {
    let rows = if rows == 0 { USUAL_ROWS } else { rows }.saturating_sub(4).max(4);
    let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
    let mut screens = vec![String::new()];
    let mut filled = 0;
    for piece in told.lines().flat_map(|line| pieces(line, rows * columns)) {
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

/// A line in pieces of at most so many characters. One with colours in it stays whole: a colour cannot be cut in two.
fn pieces(line: &str, most: usize) -> Vec<&str> {
    if line.contains('\x1b') {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(most) {
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
    fn screens_hold_everything_and_none_is_too_high() {
        let short = (0..50).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
        let long = format!("begin\n{}\nend\n", "0123456789".repeat(100));
        for (told, size) in
            [(&short, (12, 80)), (&long, (12, 20)), (&short, (0, 0)), (&long, (1, 1))]
        {
            let screens = screens(told, size);
            let unbroken = |text: &str| text.replace('\n', "");
            assert_eq!(unbroken(&screens.concat()), unbroken(told));
            let (rows, columns) = if size.0 == 0 { (24, 80) } else { size };
            for screen in &screens {
                let taken = |line: &str| line.chars().count().div_ceil(columns).max(1);
                let high: usize = screen.lines().map(taken).sum();
                assert!(high <= rows.saturating_sub(4).max(4), "{high} of {rows}: {screen}");
            }
        }
    }
}
