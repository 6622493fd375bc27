//! Redaction of a text that comes in pieces: first of values, then of formats in the result.

use std::borrow::Cow;

use super::scan::PieceScan;
use super::{Secrets, formats};

/// Redacts secrets in a text that comes in pieces, cut at any place.
///
/// Text that may be the beginning of a secret is held back until more is known: for a known value at most its longest form (six times
/// its length), for a token about a kilobyte, for a private key 48 KiB, for anything else a few hundred bytes.
#[derive(Debug, Default)]
pub(crate) struct RedactionStream {
    values: PieceScan,
    formats: PieceScan,
}

impl RedactionStream {
    /// Adds a piece. Returns the redacted text that is certain by now.
    pub(crate) fn push<'t>(&mut self, secrets: &Secrets, piece: &'t str) -> Cow<'t, str> {
        Cow::Owned(self.pass(secrets, piece, false))
    }

    /// Ends the text. Returns the redacted rest, and starts anew.
    pub(crate) fn end(&mut self, secrets: &Secrets) -> String {
        let rest = self.pass(secrets, "", true);
        *self = Self::default();
        rest
    }

    /// Returns whether no text is held back and later text does not depend on earlier text, so that it can be cut here.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.values.is_at_boundary() && self.formats.is_at_boundary()
    }

    /// Adds a piece to both scans. Returns the redacted text that is certain by now.
    fn pass(&mut self, secrets: &Secrets, piece: &str, is_end: bool) -> String {
        let without_values = self.values.push(&secrets.named_values().known, piece, is_end);
        self.formats.push(&*formats::ALL, &without_values, is_end)
    }

    /// Returns the number of bytes that are held back.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.values.held_bytes() + self.formats.held_bytes()
    }
}
