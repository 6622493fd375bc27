//! Names of files of the kernel's, made up where nothing may be allocated.

use std::ffi::CStr;

/// A path that is put together without allocating. What has no room is left out: then it names nothing.
pub(crate) struct Name {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl Name {
    const MOST: usize = 256;

    pub(crate) fn of(text: &[u8]) -> Self {
        Self { bytes: [0; Self::MOST], length: 0 }.text(text)
    }

    pub(crate) fn text(mut self, text: &[u8]) -> Self {
        for byte in text {
            if let Some(slot) = self.bytes.get_mut(self.length) {
                *slot = *byte;
                self.length += 1;
            }
        }
        self
    }

    pub(crate) fn number(self, number: i32) -> Self {
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
        self.text(digits.get(from..).unwrap_or_default())
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_out() {
        for (number, written) in [(0, c"/proc/0"), (7, c"/proc/7"), (i32::MAX, c"/proc/2147483647")]
        {
            assert_eq!(Name::of(b"/proc/").number(number).as_c_str(), written);
        }
        assert_eq!(Name::of(&[b'a'; 300]).as_c_str().count_bytes(), 0, "too long to be a name");
    }
}
