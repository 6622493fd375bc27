//! Deltas: a content as the number of bytes it shares with a base at the beginning and at the end, and the bytes between.
//!
//! Most edits change one place of a file, so this is nearly as short as a general delta, and as fast as a comparison.

/// The lengths of the common prefix and suffix of two contents, which do not overlap in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedEnds {
    pub(super) prefix: usize,
    pub(super) suffix: usize,
}

impl SharedEnds {
    /// Compares a content with its base.
    pub(super) fn of(base: &[u8], new: &[u8]) -> Self {
        let prefix = common_bytes(base, new, Side::Front);
        let rest = |bytes: &'_ [u8]| bytes.len() - prefix;
        let base_rest = bytes_from_side(base, 0, rest(base), Side::Back);
        let new_rest = bytes_from_side(new, 0, rest(new), Side::Back);
        Self { prefix, suffix: common_bytes(base_rest, new_rest, Side::Back) }
    }

    /// The bytes of the new content between prefix and suffix.
    pub(super) fn middle<'a>(&self, new: &'a [u8]) -> &'a [u8] {
        new.get(self.prefix..new.len().saturating_sub(self.suffix)).unwrap_or_default()
    }

    /// Rebuilds the new content from its base and its middle; `None` if the base is too short.
    pub(super) fn apply(&self, base: &[u8], middle: &[u8]) -> Option<Vec<u8>> {
        let end = base.len().checked_sub(self.suffix)?;
        let (front, back) = (base.get(..self.prefix)?, base.get(end..)?);
        let mut new = Vec::with_capacity(front.len() + middle.len() + back.len());
        new.extend_from_slice(front);
        new.extend_from_slice(middle);
        new.extend_from_slice(back);
        Some(new)
    }
}

/// The end of a content from which bytes are compared.
#[derive(Clone, Copy)]
enum Side {
    Front,
    Back,
}

/// Counts the equal bytes at one side. Compares blocks first, which is many times faster than single bytes.
fn common_bytes(a: &[u8], b: &[u8], side: Side) -> usize {
    const BLOCK_BYTES: usize = 256;
    let length = a.len().min(b.len());
    let mut same = 0;
    while same + BLOCK_BYTES <= length
        && bytes_from_side(a, same, BLOCK_BYTES, side)
            == bytes_from_side(b, same, BLOCK_BYTES, side)
    {
        same += BLOCK_BYTES;
    }
    while same < length && bytes_from_side(a, same, 1, side) == bytes_from_side(b, same, 1, side) {
        same += 1;
    }
    same
}

/// The bytes at a distance from one side.
fn bytes_from_side(bytes: &[u8], skipped: usize, length: usize, side: Side) -> &[u8] {
    let begin = match side {
        Side::Front => skipped,
        Side::Back => bytes.len().saturating_sub(skipped + length),
    };
    bytes.get(begin..begin + length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_ends_are_found() {
        let long = vec![b'x'; 1000];
        let mut changed = long.clone();
        changed[700] = b'y';
        let cases: [(&[u8], &[u8], usize, usize); 9] = [
            (b"", b"", 0, 0),
            (b"abc", b"abc", 3, 0),
            (b"abc", b"", 0, 0),
            (b"", b"abc", 0, 0),
            (b"abc", b"axc", 1, 1),
            (b"aaa", b"aaaa", 3, 0),
            (b"aaaa", b"aaa", 3, 0),
            (b"abc", b"xyz", 0, 0),
            (&long, &changed, 700, 299),
        ];
        for (base, new, prefix, suffix) in cases {
            assert_eq!(
                SharedEnds::of(base, new),
                SharedEnds { prefix, suffix },
                "{base:?} {new:?}"
            );
        }
    }

    #[test]
    fn a_base_that_is_too_short_gives_nothing() {
        assert_eq!(SharedEnds { prefix: 4, suffix: 0 }.apply(b"abc", b""), None);
        assert_eq!(SharedEnds { prefix: 0, suffix: 4 }.apply(b"abc", b""), None);
    }

    proptest! {
        #[test]
        fn the_new_content_is_rebuilt(base in "[ab]{0,600}", new in "[ab]{0,600}") {
            let common_bytes = SharedEnds::of(base.as_bytes(), new.as_bytes());
            let middle = common_bytes.middle(new.as_bytes());
            prop_assert_eq!(common_bytes.apply(base.as_bytes(), middle), Some(new.into_bytes()));
        }

        #[test]
        fn the_delta_of_an_edit_is_at_most_the_inserted_bytes(front: Vec<u8>, old: Vec<u8>, inserted: Vec<u8>, back: Vec<u8>) {
            let base = [&front[..], &old, &back].concat();
            let new = [&front[..], &inserted, &back].concat();
            let common_bytes = SharedEnds::of(&base, &new);
            prop_assert!(common_bytes.middle(&new).len() <= inserted.len());
            prop_assert_eq!(common_bytes.apply(&base, common_bytes.middle(&new)), Some(new.clone()));
        }
    }
}
