//! A pseudo-terminal with a simulated person: the binary runs in a session of its own with this terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Home, RunResult, binary};

/// The time after which a test fails.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);
/// The time after which input is typed again: input typed before the prompt is discarded.
const RETYPE_INTERVAL: Duration = Duration::from_secs(2);

/// All that was shown so far, and a signal for new output.
type Screen = Arc<(Mutex<String>, Condvar)>;

/// A running program at a pseudo-terminal.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Screen,
    child: Child,
    /// The length of the output that was already matched.
    read: usize,
}

impl Terminal {
    /// Starts the binary at a terminal with so many rows; stdout goes to a pipe instead. `early` is typed before the binary starts.
    pub(crate) fn start(home: &Home, rows: u16, early: &str, arguments: &[&str]) -> Self {
        Self::start_with(home, rows, early, |command, _| {
            command.args(arguments).stdout(Stdio::piped())
        })
    }

    /// Starts the binary at a terminal with so many rows; stdin, stdout and stderr all go there.
    pub(crate) fn on_screen(
        home: &Home,
        rows: u16,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_with(home, rows, "", |command, terminal| {
            command.args(arguments).envs(environment.iter().copied()).stdout(terminal)
        })
    }

    /// Opens a pseudo-terminal and starts the binary in it; `set` sets arguments and stdout.
    fn start_with(
        home: &Home,
        rows: u16,
        early: &str,
        set: impl for<'c> FnOnce(&'c mut Command, File) -> &'c mut Command,
    ) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&ours).expect("a pseudo-terminal");
        unlockpt(&ours).expect("a pseudo-terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let name = name.to_str().expect("ASCII");
        let theirs = OpenOptions::new().read(true).write(true).open(name).expect("its other side");
        let size = Winsize { ws_row: rows, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).expect("a size");
        let mut keyboard = File::from(ours);
        keyboard.write_all(early.as_bytes()).expect("a keyboard");

        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(binary());
        home.prepare(&mut command);
        let child = set(&mut command, theirs.try_clone().expect("a file"))
            .stdin(theirs.try_clone().expect("a file"))
            .stderr(theirs)
            .spawn()
            .expect("setsid of util-linux");
        drop(command);
        let screen = collect_output(keyboard.try_clone().expect("a file"));
        Self { keyboard, screen, child, read: 0 }
    }

    /// Waits until the text is shown after the previously matched output; fails after `TEST_TIMEOUT`.
    pub(crate) fn expect(&mut self, text: &str) {
        assert!(
            self.appears_within(text, TEST_TIMEOUT),
            "{text:?} did not come; shown was:\n{}",
            self.shown()
        );
    }

    /// Returns whether the text is shown within a time, and marks the output up to it as matched.
    fn appears_within(&mut self, text: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let (shown, changed) = &*self.screen;
        let mut shown = shown.lock().expect("the lock is not poisoned");
        loop {
            if let Some(at) = shown[self.read..].find(text) {
                self.read += at + text.len();
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            shown = changed.wait_timeout(shown, left).expect("the lock is not poisoned").0;
        }
    }

    /// Types a line again and again until `then` is shown.
    pub(crate) fn answer(&mut self, line: &str, then: &str) {
        let end = Instant::now() + TEST_TIMEOUT;
        while Instant::now() < end {
            self.type_line(line);
            if self.appears_within(then, RETYPE_INTERVAL) {
                return;
            }
        }
        panic!("{line:?} did not bring {then:?}; shown was:\n{}", self.shown());
    }

    /// Types a line again and again until the program ends. Returns its result and all that was shown.
    pub(crate) fn answer_and_end(mut self, line: &str) -> (RunResult, String) {
        let end = Instant::now() + TEST_TIMEOUT;
        while Instant::now() < end {
            self.type_line(line);
            if self.ends_within(RETYPE_INTERVAL / 4) {
                return self.end();
            }
        }
        panic!("{line:?} did not end it; shown was:\n{}", self.shown());
    }

    fn type_line(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).expect("a keyboard");
    }

    /// Presses a key, once.
    pub(crate) fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).expect("a keyboard");
    }

    /// Presses a key again and again until the program ends.
    pub(crate) fn press_and_end(mut self, key: u8) -> (RunResult, String) {
        let end = Instant::now() + TEST_TIMEOUT;
        while Instant::now() < end {
            self.press(key);
            if self.ends_within(RETYPE_INTERVAL / 4) {
                return self.end();
            }
        }
        panic!("the key {key} did not end it; shown was:\n{}", self.shown());
    }

    /// Presses a key once and waits until the program ends. For Ctrl-C, which is a signal and is not lost when input is discarded.
    pub(crate) fn press_once_and_end(mut self, key: u8) -> (RunResult, String) {
        self.press(key);
        assert!(
            self.ends_within(TEST_TIMEOUT),
            "the key {key} did not end it; shown was:\n{}",
            self.shown()
        );
        self.end()
    }

    /// Returns whether the program ends within a time.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if self.child.try_wait().expect("a child").is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Waits for the end of the program. Returns its result and all that was shown.
    pub(crate) fn end(self) -> (RunResult, String) {
        let output = self.child.wait_with_output().expect("it ends");
        let shown = self.screen.0.lock().expect("the lock is not poisoned").clone();
        (RunResult::from_output(output), shown)
    }

    /// Kills the program.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Returns all that was shown so far.
    pub(crate) fn shown(&self) -> String {
        self.screen.0.lock().expect("the lock is not poisoned").clone()
    }
}

/// Collects the terminal's output on a thread. A read error is the end: no process has the other side open any more.
fn collect_output(mut from: File) -> Screen {
    let screen = Screen::default();
    let (collected, mut kept) = (screen.clone(), Vec::new());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            kept.extend_from_slice(&bytes[..count]);
            // A character may still be on its way.
            let whole = kept.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let text = whole.replace("\r\n", "\n");
            *collected.0.lock().expect("the lock is not poisoned") = text;
            collected.1.notify_all();
        }
    });
    screen
}
