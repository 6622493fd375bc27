//! Instructions of classic BPF, as far as the filter uses them.
//!
//! A conditional instruction goes on with the next one if its condition holds and skips `otherwise` instructions if it does not.

use libc::{c_long, sock_filter};

/// Offset of the call's number in `seccomp_data`.
pub(super) const NUMBER: u32 = 0;
/// Offset of the architecture in `seccomp_data`.
pub(super) const ARCH: u32 = 4;

/// Offset of the lower half of an argument; both supported architectures are little-endian.
pub(super) const fn argument(number: u32) -> u32 {
    16 + 8 * number
}

/// Loads the word at an offset of `seccomp_data`.
pub(super) fn load(offset: u32) -> sock_filter {
    sock_filter { code: 0x20, jt: 0, jf: 0, k: offset }
}

/// Ends the filter.
pub(super) fn answer(value: u32) -> sock_filter {
    sock_filter { code: 0x06, jt: 0, jf: 0, k: value }
}

pub(super) fn equal(value: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: 0, jf: otherwise, k: value }
}

/// Skips `skipped` instructions if equal.
pub(super) fn unless_equal(value: u32, skipped: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: skipped, jf: 0, k: value }
}

/// Compares with the number of a call, which must be loaded.
pub(super) fn is_call(number: c_long, otherwise: u8) -> sock_filter {
    equal(u32::try_from(number).unwrap_or(u32::MAX), otherwise)
}

#[cfg(target_arch = "x86_64")]
pub(super) fn at_least(value: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x35, jt: 0, jf: otherwise, k: value }
}

/// Checks whether any of the bits is set.
pub(super) fn any_bit(bits: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x45, jt: 0, jf: otherwise, k: bits }
}
