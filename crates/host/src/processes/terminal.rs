//! A terminal for a program that wants one.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use windlass_core::TerminalSize;

/// Both ends of a pseudoterminal.
pub(super) struct Terminal {
    pub(super) ours: OwnedFd,
    pub(super) theirs: OwnedFd,
}

impl Terminal {
    /// Opens a pseudoterminal of this size.
    pub(super) fn open(size: TerminalSize) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
        let (ws_col, ws_row) = (size.columns, size.rows);
        tcsetwinsize(&ours, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok(Self { ours, theirs })
    }
}
