//! A text that comes in pieces: values are taken out of it, and formats out of what is left.

use std::borrow::Cow;

use super::scan::Pieces;
use super::{Secrets, formats};

/// Takes secrets out of a text that comes in pieces, wherever it is cut.
///
/// What may be the beginning of a secret is held back until it is clear what it is: of a known value at most its longest form (six
/// times its length), of a token about a kilobyte, of a private key 48 KiB, of anything else a few hundred bytes.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    values: Pieces,
    formats: Pieces,
}

impl Stream {
    /// What can be told now that this piece has come.
    pub(crate) fn push<'t>(&mut self, secrets: &Secrets, piece: &'t str) -> Cow<'t, str> {
        Cow::Owned(self.pass(secrets, piece, false))
    }

    /// The rest, now that no more comes.
    pub(crate) fn end(&mut self, secrets: &Secrets) -> String {
        let rest = self.pass(secrets, "", true);
        *self = Self::default();
        rest
    }

    /// Whether nothing that came has to do with what comes: a text can be cut here.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.values.is_at_boundary() && self.formats.is_at_boundary()
    }

    fn pass(&mut self, secrets: &Secrets, piece: &str, is_end: bool) -> String {
        let unnamed = self.values.push(&secrets.named().known, piece, is_end);
        self.formats.push(&*formats::ALL, &unnamed, is_end)
    }

    /// How much is held back.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.values.held() + self.formats.held()
    }
}
