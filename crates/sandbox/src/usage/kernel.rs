//! Measures memory that the kernel holds for a program and that belongs to no process: segments, messages and semaphores of System V, and
//! bytes that wait in sockets.
//!
//! Only the memory of the view's own namespaces can be told from that of other programs, so nothing here is called without a view.
//! Nothing here allocates.

use std::ffi::CStr;

use super::{Text, number};
use crate::sys::{self, Fd};

/// Returns the bytes in System V segments of shared memory, attached or not.
pub(super) fn segments() -> u64 {
    // The columns `rss` and `swap`.
    sum_columns(c"/proc/sysvipc/shm", &[(14, 1), (15, 1)])
}

/// Returns the bytes in System V message queues and sets of semaphores.
pub(super) fn queues() -> u64 {
    /// Bytes that the kernel needs for a semaphore, and for a message in addition to its text.
    const EACH: u64 = 64;
    let messages = sum_columns(c"/proc/sysvipc/msg", &[(3, 1), (4, EACH)]);
    messages.saturating_add(sum_columns(c"/proc/sysvipc/sem", &[(3, EACH)]))
}

/// Adds up all numbers of some columns of a table file. Each column is given as its index, from 0, and the factor for its numbers.
fn sum_columns(path: &CStr, columns: &[(usize, u64)]) -> u64 {
    let Ok(fd) = sys::open(path, libc::O_RDONLY) else { return 0 };
    let weight = |column| columns.iter().find(|(one, _)| *one == column).map_or(0, |(_, by)| *by);
    let mut sum: u64 = 0;
    let (mut column, mut value, mut in_word) = (0usize, 0u64, false);
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = sys::read(fd, &mut buffer) {
        for byte in buffer.iter().take(read) {
            match byte {
                b' ' | b'\n' => {
                    if in_word {
                        sum = sum.saturating_add(value.saturating_mul(weight(column)));
                        column += 1;
                    }
                    (value, in_word) = (0, false);
                    if *byte == b'\n' {
                        column = 0;
                    }
                }
                b'0'..=b'9' => {
                    value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                    in_word = true;
                }
                // A letter of the heading.
                _ => in_word = true,
            }
        }
    }
    sys::close(fd);
    sum
}

/// Returns the bytes that wait in the sockets of our network namespace.
pub(super) fn sockets() -> u64 {
    let [v4, v6] = [c"/proc/net/sockstat", c"/proc/net/sockstat6"].map(Text::<1024>::read_path);
    let used = |text: &Option<Text<1024>>, name: &[u8]| {
        text.as_ref().and_then(|text| text.line(name).map(second_number)).unwrap_or(0)
    };
    if used(&v4, b"sockets:") == 0 {
        return 0;
    }
    let mut bytes = dump(Dump::Local);
    // Skipped without such sockets: the kernel's tables can be large although few entries are ours.
    for (text, name, dump_of) in [
        (&v4, b"TCP:".as_slice(), Dump::Internet(libc::AF_INET, libc::IPPROTO_TCP)),
        (&v4, b"UDP:", Dump::Internet(libc::AF_INET, libc::IPPROTO_UDP)),
        (&v6, b"TCP6:", Dump::Internet(libc::AF_INET6, libc::IPPROTO_TCP)),
        (&v6, b"UDP6:", Dump::Internet(libc::AF_INET6, libc::IPPROTO_UDP)),
    ] {
        if used(text, name) > 0 {
            bytes = bytes.saturating_add(dump(dump_of));
        }
    }
    bytes
}

/// Returns the number in the third word of a line such as `TCP6: inuse 4 orphan 0`.
fn second_number(line: &[u8]) -> u64 {
    line.split(|byte| *byte == b' ').nth(2).map_or(0, number)
}

/// A kind of socket that the kernel can list by `sock_diag`.
#[derive(Clone, Copy)]
enum Dump {
    Local,
    /// Sockets of this address family and protocol.
    Internet(i32, i32),
}

/// Constants of `linux/netlink.h`, `linux/sock_diag.h`, `linux/unix_diag.h` and `linux/inet_diag.h`.
mod diag {
    pub(super) const SOCK_DIAG_BY_FAMILY: u8 = 20;
    /// `NLM_F_REQUEST | NLM_F_DUMP`, from the lower byte on.
    pub(super) const FLAGS: [u8; 2] = [0x01, 0x03];
    pub(super) const NETLINK_SOCK_DIAG: i32 = 4;
    pub(super) const HEADER: usize = 16;
    pub(super) const DONE: u16 = 3;
    pub(super) const ERROR: u16 = 2;

    pub(super) const UDIAG_SHOW_RQLEN_AND_MEMINFO: u8 = 0x30;
    pub(super) const UNIX_REQUEST: usize = 24;
    pub(super) const UNIX_MESSAGE: usize = 16;
    pub(super) const UNIX_DIAG_RQLEN: u16 = 4;
    pub(super) const UNIX_DIAG_MEMINFO: u16 = 5;

    pub(super) const ASK_FOR_SKMEMINFO: u8 = 1 << 6;
    pub(super) const INET_REQUEST: usize = 56;
    pub(super) const INET_MESSAGE: usize = 72;
    pub(super) const INET_DIAG_SKMEMINFO: u16 = 7;
}

/// Returns the bytes that wait in the sockets of one kind; 0 if the kernel cannot list them.
fn dump(what: Dump) -> u64 {
    let kind = libc::SOCK_RAW;
    let Ok(fd) = sys::socket(libc::AF_NETLINK, kind, diag::NETLINK_SOCK_DIAG) else { return 0 };
    let bytes = if ask(fd, what).is_ok() { answers(fd, what) } else { 0 };
    sys::close(fd);
    bytes
}

/// Sends the request to list all sockets of a kind.
fn ask(fd: Fd, what: Dump) -> sys::Result {
    let byte = |number: i32| u8::try_from(number).unwrap_or(0);
    let mut request = [0u8; diag::HEADER + diag::INET_REQUEST];
    let length = match what {
        Dump::Local => diag::UNIX_REQUEST,
        Dump::Internet(..) => diag::INET_REQUEST,
    } + diag::HEADER;
    let [flags_low, flags_high] = diag::FLAGS;
    let all_states = [0xff; 4];
    let header = [byte(i32::try_from(length).unwrap_or(0)), 0, 0, 0, diag::SOCK_DIAG_BY_FAMILY, 0];
    put(&mut request, 0, &header);
    put(&mut request, 6, &[flags_low, flags_high]);
    match what {
        Dump::Local => {
            put(&mut request, diag::HEADER, &[byte(libc::AF_UNIX)]);
            put(&mut request, diag::HEADER + 4, &all_states);
            put(&mut request, diag::HEADER + 12, &[diag::UDIAG_SHOW_RQLEN_AND_MEMINFO]);
        }
        Dump::Internet(family, protocol) => {
            let begin = [byte(family), byte(protocol), diag::ASK_FOR_SKMEMINFO];
            put(&mut request, diag::HEADER, &begin);
            put(&mut request, diag::HEADER + 4, &all_states);
        }
    }
    sys::write(fd, request.get(..length).unwrap_or_default())
}

/// Copies bytes into a buffer at an offset.
fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in to.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}

/// Receives the listed sockets and adds up the bytes that wait in them.
fn answers(fd: Fd, what: Dump) -> u64 {
    let mut sum: u64 = 0;
    // The kernel sends at most the size of this buffer at once, or a page or two.
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = sys::read(fd, &mut buffer) {
        let mut rest = buffer.get(..read).unwrap_or_default();
        while let Some(length) = word(rest, 0) {
            if matches!(half(rest, 4), Some(diag::DONE | diag::ERROR) | None) {
                return sum;
            }
            let length = usize::try_from(length).unwrap_or(0).max(diag::HEADER);
            sum = sum.saturating_add(waiting(rest.get(..length).unwrap_or(rest), what));
            rest = rest.get(aligned(length)..).unwrap_or_default();
        }
    }
    sum
}

/// Returns the bytes that wait in the socket that one message describes.
fn waiting(message: &[u8], what: Dump) -> u64 {
    let begin = match what {
        Dump::Local => diag::UNIX_MESSAGE,
        Dump::Internet(..) => diag::INET_MESSAGE,
    } + diag::HEADER;
    let mut sum: u64 = 0;
    let mut rest = message.get(begin..).unwrap_or_default();
    while let Some((length, kind)) = half(rest, 0).zip(half(rest, 2)) {
        let value = |number: usize| u64::from(word(rest, 4 + 4 * number).unwrap_or(0));
        // Fields of the socket's memory: received; in transmission or queued for it; in the backlog.
        let memory = || value(0) + value(2).max(value(5)) + value(7);
        sum += match (what, kind) {
            // Bytes in the receive queue are charged to the sender's socket, and to no socket once that one is closed.
            (Dump::Local, diag::UNIX_DIAG_RQLEN) => value(0),
            (Dump::Local, diag::UNIX_DIAG_MEMINFO)
            | (Dump::Internet(..), diag::INET_DIAG_SKMEMINFO) => memory(),
            _ => 0,
        };
        rest = rest.get(aligned(usize::from(length).max(4))..).unwrap_or_default();
    }
    sum
}

/// Netlink rounds lengths up to four bytes.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Reads a 32-bit number at an offset.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Reads a 16-bit number at an offset.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    const SOME: usize = 64 << 10;

    #[test]
    fn bytes_that_wait_in_sockets_are_counted() {
        let (mut sent, _kept) = UnixStream::pair().unwrap();
        sent.write_all(&vec![1; SOME]).unwrap();
        assert!(dump(Dump::Local) >= SOME as u64, "in a pair");
        drop(sent);
        assert!(dump(Dump::Local) >= SOME as u64, "in a pair whose sender is closed");
        let tcp = |family| dump(Dump::Internet(family, libc::IPPROTO_TCP));
        for (family, listener) in [
            (libc::AF_INET, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()),
            (libc::AF_INET6, TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap()),
        ] {
            let mut sent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            sent.write_all(&vec![1; SOME]).unwrap();
            assert!(tcp(family) >= SOME as u64, "family {family}");
        }
        assert!(sockets() >= SOME as u64);
    }

    #[test]
    fn weighted_columns_of_a_table_are_added_up() {
        let table = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(table.path(), " key  shmid size\n  -1   7  100\n   0  8   20\n").unwrap();
        let path = std::ffi::CString::new(table.path().to_str().unwrap()).unwrap();
        for (columns, wanted) in
            [(&[(2, 1)][..], 120), (&[(1, 2), (2, 1)], 150), (&[(9, 1)], 0), (&[], 0)]
        {
            assert_eq!(sum_columns(&path, columns), wanted, "{columns:?}");
        }
        assert_eq!(sum_columns(c"/nothing", &[(0, 1)]), 0);
    }
}
