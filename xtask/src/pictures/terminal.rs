//! A terminal with a shell in it, whose screen can be read.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vt100::{Parser, Screen};

const ROWS: NonZeroU16 = NonZeroU16::MIN.saturating_add(59);
const COLUMNS: NonZeroU16 = NonZeroU16::MIN.saturating_add(101);
/// The prompt of the shell.
const PROMPT: &str = "$ ";
/// The longest wait for a text on the screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Terminal {
    keyboard: File,
    output: Receiver<Vec<u8>>,
    parser: Parser,
    shell: Child,
}

impl Terminal {
    /// Starts a shell that finds our programs first, without the settings of the user.
    pub(super) fn start(home: &Path, directory: &Path, programs: &Path) -> Result<Self> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::new())?.into_string()?;
        let terminal_side = OpenOptions::new().read(true).write(true).open(name)?;
        let size =
            Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal_side, size)?;
        let path = std::env::var("PATH").unwrap_or_default();
        let shell = Command::new("setsid")
            .args(["--ctty", "bash", "--noprofile", "--norc", "-i"])
            .current_dir(directory)
            .env_clear()
            .env("HOME", home)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("PS1", PROMPT)
            .env("TERM", "xterm-256color")
            .stdin(terminal_side.try_clone()?)
            .stdout(terminal_side.try_clone()?)
            .stderr(terminal_side)
            .spawn()
            .context("starting bash by setsid, of util-linux")?;
        let keyboard = File::from(controller);
        let output = watch(keyboard.try_clone()?);
        let parser = Parser::new(ROWS, COLUMNS, 0);
        let mut terminal = Self { keyboard, output, parser, shell };
        terminal.wait_for(PROMPT.trim_end())?;
        Ok(terminal)
    }

    pub(super) fn type_line(&mut self, line: &str) -> Result<()> {
        Ok(self.keyboard.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Waits until a text is on the screen and no more output comes.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<()> {
        self.wait(text, |screen| screen.contents().contains(text))
    }

    /// Waits until the last line is the prompt of the shell.
    pub(super) fn wait_for_prompt(&mut self) -> Result<()> {
        self.wait("the next prompt", |screen| {
            screen.contents().lines().last().is_some_and(|line| line.trim_end() == "$")
        })
    }

    fn wait(&mut self, what: &str, is_there: impl Fn(&Screen) -> bool) -> Result<()> {
        /// The output counts as complete after this time without more: one write can arrive in parts.
        const QUIET_TIME: Duration = Duration::from_millis(300);
        let end = Instant::now() + SCREEN_TIMEOUT;
        loop {
            match self.output.recv_timeout(QUIET_TIME) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(RecvTimeoutError::Timeout) if is_there(self.parser.screen()) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
                Err(_) => {
                    bail!("{what} did not come; on the screen is:\n{}", self.screen().contents())
                }
            }
        }
    }

    pub(super) fn screen(&self) -> &Screen {
        self.parser.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell may have ended already.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

/// Starts a thread that sends the output of the terminal. A read error means that all programs have closed it.
fn watch(mut from: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}
