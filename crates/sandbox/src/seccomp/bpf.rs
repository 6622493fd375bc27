//! The instructions of classic BPF that the filters use.
//!
//! A conditional instruction continues with the next one if its condition holds and skips `otherwise` instructions if it does not.

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

/// Ends the filter with this result.
pub(super) fn end_with(value: u32) -> sock_filter {
    sock_filter { code: 0x06, jt: 0, jf: 0, k: value }
}

/// Continues if the loaded word has this value, else skips `otherwise` instructions.
pub(super) fn equal(value: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: 0, jf: otherwise, k: value }
}

/// Skips `skipped` instructions if the loaded word has this value, else continues.
pub(super) fn skip_if_equal(value: u32, skipped: u8) -> sock_filter {
    sock_filter { code: 0x15, jt: skipped, jf: 0, k: value }
}

/// Continues if the loaded word is the number of this call, else skips `otherwise` instructions.
pub(super) fn is_call(number: c_long, otherwise: u8) -> sock_filter {
    equal(u32::try_from(number).unwrap_or(u32::MAX), otherwise)
}

/// Continues if the loaded word is at least this value, else skips `otherwise` instructions.
#[cfg(target_arch = "x86_64")]
pub(super) fn at_least(value: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x35, jt: 0, jf: otherwise, k: value }
}

/// Continues if any of the bits is set in the loaded word, else skips `otherwise` instructions.
pub(super) fn any_bit(bits: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: 0x45, jt: 0, jf: otherwise, k: bits }
}
