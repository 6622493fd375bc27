//! A filter that proves for most short texts that no secret can begin in them.
//!
//! Every call examines dozens of names, paths and words. The automaton needs more time to start than these have bytes. So each
//! sequence of three bytes is hashed to a number, and a table has a bit for each hash with which an anchor begins. A set bit proves
//! nothing; a clear bit proves that no anchor begins there.

/// Maximum bytes of a text that is tested. Longer texts are left to the automaton, which processes many bytes at once.
const MAX_TEXT_BYTES: usize = 128;

/// Number of bits of a hash.
const HASH_BITS: u32 = 15;

/// A table with one bit for each hash of three bytes.
#[derive(Debug, Clone)]
pub(super) struct AnchorFilter(Box<[u64]>);

impl AnchorFilter {
    /// Makes the table of these anchors.
    pub(super) fn new(anchors: &[impl AsRef<[u8]>]) -> Self {
        let mut table = Self(vec![0; (1 << HASH_BITS) / 64].into());
        for anchor in anchors {
            match *anchor.as_ref() {
                [] => table.0.fill(u64::MAX),
                [a] => (0..=u16::MAX).for_each(|rest| {
                    let [b, c] = rest.to_le_bytes();
                    table.set([a, b, c]);
                }),
                [a, b] => (0..=u8::MAX).for_each(|c| table.set([a, b, c])),
                [a, b, c, ..] => table.set([a, b, c]),
            }
        }
        table
    }

    /// Returns the union of both tables.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, two)| one | two).collect())
    }

    /// Returns whether certainly no anchor is in a text. Returns false for a long text.
    pub(super) fn rules_out(&self, text: &[u8]) -> bool {
        if text.len() > MAX_TEXT_BYTES {
            return false;
        }
        // The first two hashes are as of zero bytes before the text, which can only prevent a proof. Anchors may be shorter than three
        // bytes, so zero bytes follow the text too.
        let mut hash = 0;
        let mut is_free = |byte| {
            hash = next_hash(hash, byte);
            !self.has(hash)
        };
        text.iter().copied().all(&mut is_free) && is_free(0) && is_free(0)
    }

    /// Sets the bit of three bytes.
    fn set(&mut self, [a, b, c]: [u8; 3]) {
        let hash = next_hash(next_hash(next_hash(0, a), b), c);
        if let Some(word) = self.0.get_mut(hash / 64) {
            *word |= 1 << (hash % 64);
        }
    }

    /// Returns whether the bit of a hash is set.
    fn has(&self, hash: usize) -> bool {
        self.0.get(hash / 64).is_some_and(|word| word >> (hash % 64) & 1 == 1)
    }
}

/// Returns the hash of the last three bytes. Older bytes are shifted out.
fn next_hash(hash: usize, byte: u8) -> usize {
    ((hash << (HASH_BITS / 3)) ^ usize::from(byte)) & ((1 << HASH_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_with_an_anchor_is_ruled_out(
            anchors in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..6), 1..20),
            before in any::<Vec<u8>>(),
            after in any::<Vec<u8>>(),
            which in any::<prop::sample::Index>(),
        ) {
            let anchor: &Vec<u8> = which.get(&anchors);
            let text = [&before[..], anchor, &after].concat();
            prop_assert!(!AnchorFilter::new(&anchors).rules_out(&text));
        }
    }

    #[test]
    fn texts_without_anchors_are_ruled_out() {
        let anchor_filter = AnchorFilter::new(&["assw", "SK"]).union(&AnchorFilter::new(&["://"]));
        for (text, is_out) in [
            ("", true),
            ("a", true),
            ("S", true),
            ("SK", false),
            ("xSK", false),
            ("as", true),
            ("ass", false),
            ("crates/core/src/lib.rs", true),
            ("http://x", false),
            (&"a".repeat(MAX_TEXT_BYTES), true),
            (&"a".repeat(MAX_TEXT_BYTES + 1), false),
        ] {
            assert_eq!(anchor_filter.rules_out(text.as_bytes()), is_out, "{text}");
        }
        assert!(!AnchorFilter::new(&[""]).rules_out(b""));
        assert!(AnchorFilter::new(&[""; 0]).rules_out(b"anything"));
    }
}
