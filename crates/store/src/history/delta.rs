//! Contents told by what differs from others: how much is the same at the beginning and at the end, and what is between.
//!
//! An edit changes one place of a file, so this finds nearly all there is to find, at the speed of a comparison.

/// How much two contents have in common, which does not overlap in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) prefix: usize,
    pub(super) suffix: usize,
}

impl Common {
    pub(super) fn of(base: &[u8], new: &[u8]) -> Self {
        let prefix = common(base, new, Side::Front);
        let rest = |bytes: &'_ [u8]| bytes.len() - prefix;
        let base_rest = part(base, 0, rest(base), Side::Back);
        let new_rest = part(new, 0, rest(new), Side::Back);
        Self { prefix, suffix: common(base_rest, new_rest, Side::Back) }
    }

    /// What is between in the new content.
    pub(super) fn middle<'a>(&self, new: &'a [u8]) -> &'a [u8] {
        new.get(self.prefix..new.len().saturating_sub(self.suffix)).unwrap_or_default()
    }

    /// The new content again; nothing if the base is too short for it.
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

#[derive(Clone, Copy)]
enum Side {
    Front,
    Back,
}

/// How many bytes are the same at one side. Blocks first, because comparing two slices is many times faster than their bytes.
fn common(a: &[u8], b: &[u8], side: Side) -> usize {
    const BLOCK: usize = 256;
    let length = a.len().min(b.len());
    let mut same = 0;
    while same + BLOCK <= length && part(a, same, BLOCK, side) == part(b, same, BLOCK, side) {
        same += BLOCK;
    }
    while same < length && part(a, same, 1, side) == part(b, same, 1, side) {
        same += 1;
    }
    same
}

/// So many bytes after so many others, counted from one side.
fn part(bytes: &[u8], skipped: usize, length: usize, side: Side) -> &[u8] {
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
    fn what_is_common_is_found() {
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
            assert_eq!(Common::of(base, new), Common { prefix, suffix }, "{base:?} {new:?}");
        }
    }

    #[test]
    fn a_base_that_is_too_short_gives_nothing() {
        assert_eq!(Common { prefix: 4, suffix: 0 }.apply(b"abc", b""), None);
        assert_eq!(Common { prefix: 0, suffix: 4 }.apply(b"abc", b""), None);
    }

    proptest! {
        #[test]
        fn the_new_comes_back(base in "[ab]{0,600}", new in "[ab]{0,600}") {
            let common = Common::of(base.as_bytes(), new.as_bytes());
            let middle = common.middle(new.as_bytes());
            prop_assert_eq!(common.apply(base.as_bytes(), middle), Some(new.into_bytes()));
        }

        #[test]
        fn an_edit_is_told_by_what_it_inserts(front: Vec<u8>, old: Vec<u8>, inserted: Vec<u8>, back: Vec<u8>) {
            let base = [&front[..], &old, &back].concat();
            let new = [&front[..], &inserted, &back].concat();
            let common = Common::of(&base, &new);
            prop_assert!(common.middle(&new).len() <= inserted.len());
            prop_assert_eq!(common.apply(&base, common.middle(&new)), Some(new.clone()));
        }
    }
}
