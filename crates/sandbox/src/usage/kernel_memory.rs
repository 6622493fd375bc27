//! Measures memory that the kernel holds for a program and that belongs to no process: segments, messages and semaphores of System V, and
//! bytes that wait in sockets.
//!
//! Only the memory of the view's own namespaces can be told from that of other programs, so nothing here is called without a view.
//! Nothing here allocates.

use std::ffi::CStr;

use super::{KernelFile, join_digits};
use crate::sys::{self, Fd};

/// Returns the bytes in System V segments of shared memory, attached or not.
pub(super) fn segment_bytes() -> u64 {
    // The columns `rss` and `swap`.
    sum_columns(c"/proc/sysvipc/shm", &[(14, 1), (15, 1)])
}

/// Returns the bytes in System V message queues and sets of semaphores.
pub(super) fn queue_bytes() -> u64 {
    /// Bytes that the kernel needs for a semaphore, and for a message in addition to its text.
    const OVERHEAD_BYTES: u64 = 64;
    let messages = sum_columns(c"/proc/sysvipc/msg", &[(3, 1), (4, OVERHEAD_BYTES)]);
    messages.saturating_add(sum_columns(c"/proc/sysvipc/sem", &[(3, OVERHEAD_BYTES)]))
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
                // A letter of the header line.
                _ => in_word = true,
            }
        }
    }
    sys::close(fd);
    sum
}

/// Returns the bytes that wait in the sockets of our network namespace.
pub(super) fn socket_bytes() -> u64 {
    let [v4, v6] = [c"/proc/net/sockstat", c"/proc/net/sockstat6"].map(KernelFile::<1024>::read);
    let in_use = |text: &Option<KernelFile<1024>>, name: &[u8]| {
        text.as_ref().and_then(|text| text.line_with_prefix(name).map(second_number)).unwrap_or(0)
    };
    if in_use(&v4, b"sockets:") == 0 {
        return 0;
    }
    let mut bytes = waiting_bytes(SocketKind::Local);
    // Skipped without such sockets: the kernel's tables can be large although few entries are ours.
    for (text, name, socket_kind) in [
        (&v4, b"TCP:".as_slice(), SocketKind::Internet(libc::AF_INET, libc::IPPROTO_TCP)),
        (&v4, b"UDP:", SocketKind::Internet(libc::AF_INET, libc::IPPROTO_UDP)),
        (&v6, b"TCP6:", SocketKind::Internet(libc::AF_INET6, libc::IPPROTO_TCP)),
        (&v6, b"UDP6:", SocketKind::Internet(libc::AF_INET6, libc::IPPROTO_UDP)),
    ] {
        if in_use(text, name) > 0 {
            bytes = bytes.saturating_add(waiting_bytes(socket_kind));
        }
    }
    bytes
}

/// Returns the number in the third word of a line such as `TCP6: inuse 4 orphan 0`.
fn second_number(line: &[u8]) -> u64 {
    line.split(|byte| *byte == b' ').nth(2).map_or(0, join_digits)
}

/// A kind of socket that the kernel can list by `sock_diag`.
#[derive(Clone, Copy)]
enum SocketKind {
    Local,
    /// Sockets of this address family and protocol.
    Internet(i32, i32),
}

/// Constants of `linux/netlink.h`, `linux/sock_diag.h`, `linux/unix_diag.h` and `linux/inet_diag.h`.
mod diag {
    /// Type of a request for the sockets of an address family.
    pub(super) const SOCK_DIAG_BY_FAMILY: u8 = 20;
    /// `NLM_F_REQUEST | NLM_F_DUMP`, from the lower byte on.
    pub(super) const FLAGS: [u8; 2] = [0x01, 0x03];
    /// Netlink protocol that lists sockets.
    pub(super) const NETLINK_SOCK_DIAG: i32 = 4;
    /// Bytes of the header of a netlink message.
    pub(super) const HEADER: usize = 16;
    /// Type of the message that ends a list.
    pub(super) const DONE: u16 = 3;
    /// Type of a message that reports an error.
    pub(super) const ERROR: u16 = 2;

    /// Asks for the queue lengths and the memory of local sockets.
    pub(super) const UDIAG_SHOW_RQLEN_AND_MEMINFO: u8 = 0x30;
    /// Bytes of a request for local sockets, without the header.
    pub(super) const UNIX_REQUEST: usize = 24;
    /// Bytes of the fixed part of a local socket's description; attributes follow.
    pub(super) const UNIX_MESSAGE: usize = 16;
    /// Attribute with the queue lengths.
    pub(super) const UNIX_DIAG_RQLEN: u16 = 4;
    /// Attribute with the memory of a local socket.
    pub(super) const UNIX_DIAG_MEMINFO: u16 = 5;

    /// Asks for the memory of internet sockets.
    pub(super) const ASK_FOR_SKMEMINFO: u8 = 1 << 6;
    /// Bytes of a request for internet sockets, without the header.
    pub(super) const INET_REQUEST: usize = 56;
    /// Bytes of the fixed part of an internet socket's description; attributes follow.
    pub(super) const INET_MESSAGE: usize = 72;
    /// Attribute with the memory of an internet socket.
    pub(super) const INET_DIAG_SKMEMINFO: u16 = 7;
}

/// Returns the bytes that wait in the sockets of one kind; 0 if the kernel cannot list them.
fn waiting_bytes(sockets: SocketKind) -> u64 {
    let kind = libc::SOCK_RAW;
    let Ok(fd) = sys::socket(libc::AF_NETLINK, kind, diag::NETLINK_SOCK_DIAG) else { return 0 };
    let bytes =
        if send_list_request(fd, sockets).is_ok() { sum_waiting_bytes(fd, sockets) } else { 0 };
    sys::close(fd);
    bytes
}

/// Sends the request to list all sockets of a kind.
fn send_list_request(fd: Fd, kind: SocketKind) -> sys::Result {
    let byte = |number: i32| u8::try_from(number).unwrap_or(0);
    let mut request = [0u8; diag::HEADER + diag::INET_REQUEST];
    let length = match kind {
        SocketKind::Local => diag::UNIX_REQUEST,
        SocketKind::Internet(..) => diag::INET_REQUEST,
    } + diag::HEADER;
    let [flags_low, flags_high] = diag::FLAGS;
    let all_states = [0xff; 4];
    let header = [byte(i32::try_from(length).unwrap_or(0)), 0, 0, 0, diag::SOCK_DIAG_BY_FAMILY, 0];
    copy_to(&mut request, 0, &header);
    copy_to(&mut request, 6, &[flags_low, flags_high]);
    match kind {
        SocketKind::Local => {
            copy_to(&mut request, diag::HEADER, &[byte(libc::AF_UNIX)]);
            copy_to(&mut request, diag::HEADER + 4, &all_states);
            copy_to(&mut request, diag::HEADER + 12, &[diag::UDIAG_SHOW_RQLEN_AND_MEMINFO]);
        }
        SocketKind::Internet(family, protocol) => {
            let begin = [byte(family), byte(protocol), diag::ASK_FOR_SKMEMINFO];
            copy_to(&mut request, diag::HEADER, &begin);
            copy_to(&mut request, diag::HEADER + 4, &all_states);
        }
    }
    sys::write(fd, request.get(..length).unwrap_or_default())
}

/// Copies bytes into a buffer at an offset.
fn copy_to(to: &mut [u8], at: usize, bytes: &[u8]) {
    for (target, byte) in to.iter_mut().skip(at).zip(bytes) {
        *target = *byte;
    }
}

/// Receives the listed sockets and adds up the bytes that wait in them.
fn sum_waiting_bytes(fd: Fd, kind: SocketKind) -> u64 {
    let mut sum: u64 = 0;
    // The kernel sends at most the size of this buffer at once, or a page or two.
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = sys::read(fd, &mut buffer) {
        let mut rest = buffer.get(..read).unwrap_or_default();
        while let Some(length) = u32_at(rest, 0) {
            if matches!(u16_at(rest, 4), Some(diag::DONE | diag::ERROR) | None) {
                return sum;
            }
            let length = usize::try_from(length).unwrap_or(0).max(diag::HEADER);
            sum = sum
                .saturating_add(waiting_bytes_in_message(rest.get(..length).unwrap_or(rest), kind));
            rest = rest.get(align_to_four(length)..).unwrap_or_default();
        }
    }
    sum
}

/// Returns the bytes that wait in the socket that one message describes.
fn waiting_bytes_in_message(message: &[u8], sockets: SocketKind) -> u64 {
    let begin = match sockets {
        SocketKind::Local => diag::UNIX_MESSAGE,
        SocketKind::Internet(..) => diag::INET_MESSAGE,
    } + diag::HEADER;
    let mut sum: u64 = 0;
    let mut rest = message.get(begin..).unwrap_or_default();
    while let Some((length, kind)) = u16_at(rest, 0).zip(u16_at(rest, 2)) {
        let value = |number: usize| u64::from(u32_at(rest, 4 + 4 * number).unwrap_or(0));
        // Fields of the socket's memory: received; in transmission or queued for it; in the backlog.
        let memory = || value(0) + value(2).max(value(5)) + value(7);
        sum += match (sockets, kind) {
            // Bytes in the receive queue are charged to the sender's socket, and to no socket once that one is closed.
            (SocketKind::Local, diag::UNIX_DIAG_RQLEN) => value(0),
            (SocketKind::Local, diag::UNIX_DIAG_MEMINFO)
            | (SocketKind::Internet(..), diag::INET_DIAG_SKMEMINFO) => memory(),
            _ => 0,
        };
        rest = rest.get(align_to_four(usize::from(length).max(4))..).unwrap_or_default();
    }
    sum
}

/// Netlink rounds lengths up to four bytes.
fn align_to_four(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Reads a 32-bit number at an offset.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Reads a 16-bit number at an offset.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    const SENT_BYTES: usize = 64 << 10;

    #[test]
    fn bytes_that_wait_in_sockets_are_counted() {
        let (mut sent, _kept) = UnixStream::pair().unwrap();
        sent.write_all(&vec![1; SENT_BYTES]).unwrap();
        assert!(waiting_bytes(SocketKind::Local) >= SENT_BYTES as u64, "in a pair");
        drop(sent);
        assert!(
            waiting_bytes(SocketKind::Local) >= SENT_BYTES as u64,
            "in a pair whose sender is closed"
        );
        let tcp = |family| waiting_bytes(SocketKind::Internet(family, libc::IPPROTO_TCP));
        for (family, listener) in [
            (libc::AF_INET, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()),
            (libc::AF_INET6, TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap()),
        ] {
            let mut sent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            sent.write_all(&vec![1; SENT_BYTES]).unwrap();
            assert!(tcp(family) >= SENT_BYTES as u64, "family {family}");
        }
        assert!(socket_bytes() >= SENT_BYTES as u64);
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
