//! A quick look at a short text: tells of most that nothing in it can be the beginning of a secret.
//!
//! Names, paths and words are looked through for every call by the dozen. An automaton needs more time to set out than they have bytes,
//! so their bytes are held against a table: three in a row, mixed to a number, with a bit for each number that an anchor begins with. A
//! bit that is set says nothing; one that is not says that no anchor begins there.

/// Longer texts are left to the automaton, which takes many bytes at once.
const LONGEST: usize = 128;

/// The number of bits of a number.
const BITS: u32 = 15;

/// The table.
#[derive(Debug, Clone)]
pub(super) struct Glance(Box<[u64]>);

impl Glance {
    /// A table of these anchors.
    pub(super) fn new(anchors: &[impl AsRef<[u8]>]) -> Self {
        let mut table = Self(vec![0; (1 << BITS) / 64].into());
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

    /// The anchors of both.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, two)| one | two).collect())
    }

    /// Returns whether no anchor is in a text for certain. A long one is not looked at.
    pub(super) fn rules_out(&self, text: &[u8]) -> bool {
        if text.len() > LONGEST {
            return false;
        }
        // The first two numbers are as of zeros before the text, which can only hold back. Anchors may be shorter than three bytes, so
        // zeros follow it, too.
        let mut number = 0;
        let mut is_free = |byte| {
            number = mix(number, byte);
            !self.has(number)
        };
        text.iter().copied().all(&mut is_free) && is_free(0) && is_free(0)
    }

    fn set(&mut self, [a, b, c]: [u8; 3]) {
        let number = mix(mix(mix(0, a), b), c);
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The next number: of the last three bytes alone, since what came before them is shifted out.
fn mix(number: usize, byte: u8) -> usize {
    ((number << (BITS / 3)) ^ usize::from(byte)) & ((1 << BITS) - 1)
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
            prop_assert!(!Glance::new(&anchors).rules_out(&text));
        }
    }

    #[test]
    fn what_is_ruled_out() {
        let glance = Glance::new(&["assw", "SK"]).or(&Glance::new(&["://"]));
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
            (&"a".repeat(LONGEST), true),
            (&"a".repeat(LONGEST + 1), false),
        ] {
            assert_eq!(glance.rules_out(text.as_bytes()), is_out, "{text}");
        }
        assert!(!Glance::new(&[""]).rules_out(b""));
        assert!(Glance::new(&[""; 0]).rules_out(b"anything"));
    }
}
