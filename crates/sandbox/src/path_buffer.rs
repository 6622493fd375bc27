//! Builds paths such as `/proc/7/status` without allocating memory, for code that runs between `fork` and `exec`.

use std::ffi::CStr;

/// A path in a fixed buffer. Text beyond the buffer is dropped, and the path then reads as empty, which names no file.
pub(crate) struct PathBuffer {
    bytes: [u8; Self::MAX_BYTES],
    length: usize,
}

impl PathBuffer {
    /// Maximum length of a path in bytes, with the NUL at its end.
    const MAX_BYTES: usize = 256;

    /// Starts a path with some text.
    pub(crate) fn new(text: &[u8]) -> Self {
        Self { bytes: [0; Self::MAX_BYTES], length: 0 }.push(text)
    }

    /// Appends text as it is, without a separator.
    pub(crate) fn push(mut self, text: &[u8]) -> Self {
        for byte in text {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = *byte;
                self.length += 1;
            }
        }
        self
    }

    /// Appends the digits of a number, without a sign.
    pub(crate) fn push_number(self, number: i32) -> Self {
        let mut digits = [0; 10];
        let mut rest = number.unsigned_abs();
        let mut length = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            length += 1;
            if rest == 0 {
                break;
            }
        }
        let from = digits.len() - length;
        self.push(digits.get(from..).unwrap_or_default())
    }

    /// Returns the path as a C string; empty if the text has filled the whole buffer.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_holds_the_digits_of_a_number() {
        for (number, written) in [(0, c"/proc/0"), (7, c"/proc/7"), (i32::MAX, c"/proc/2147483647")]
        {
            assert_eq!(PathBuffer::new(b"/proc/").push_number(number).as_c_str(), written);
        }
        assert_eq!(
            PathBuffer::new(&[b'a'; 300]).as_c_str().count_bytes(),
            0,
            "a path that is too long reads as empty"
        );
    }
}
