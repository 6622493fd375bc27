//! Divides a number of lines among directories: small ones are shown whole, the others get equal shares of the rest.

/// The shares of directories, given out in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineShares {
    /// Number of lines for every directory that has as many entries.
    each: usize,
    /// Lines that remain after that; the first directories that are cut get one more each.
    rest: usize,
}

impl LineShares {
    /// Divides `lines` among directories with these numbers of entries.
    pub(super) fn new(lines: usize, entries: &(impl Iterator<Item = usize> + Clone)) -> Self {
        let used = |each: usize| entries.clone().map(|entries| entries.min(each)).sum::<usize>();
        // The number of used lines grows with `each`, so binary search finds the largest that fits.
        let (mut fits, mut too_many) = (0, lines + 1);
        while too_many - fits > 1 {
            let each = usize::midpoint(fits, too_many);
            if used(each) <= lines {
                fits = each;
            } else {
                too_many = each;
            }
        }
        Self { each: fits, rest: lines - used(fits) }
    }

    /// Returns the largest share of any directory.
    pub(super) fn largest(self) -> usize {
        self.each + usize::from(self.rest > 0)
    }

    /// Takes the share of the next directory, which has so many entries.
    pub(super) fn take(&mut self, entries: usize) -> usize {
        if entries <= self.each {
            return entries;
        }
        let extra = self.rest.min(1);
        self.rest -= extra;
        self.each + extra
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the shares of directories with these numbers of entries.
    fn divide(lines: usize, entries: &[usize]) -> Vec<usize> {
        let mut shares = LineShares::new(lines, &entries.iter().copied());
        entries.iter().map(|entries| shares.take(*entries)).collect()
    }

    #[test]
    fn small_directories_are_whole_and_others_get_equal_shares() {
        for (lines, entries, expected) in [
            (10, &[][..], &[][..]),
            (0, &[3, 0], &[0, 0]),
            (10, &[4, 6], &[4, 6]),
            (10, &[100, 100], &[5, 5]),
            (11, &[100, 2, 100], &[5, 2, 4]),
            (2, &[5, 5, 5], &[1, 1, 0]),
            (10, &[1, 0, 2, 100], &[1, 0, 2, 7]),
        ] {
            assert_eq!(divide(lines, entries), expected, "{lines} among {entries:?}");
        }
    }

    proptest! {
        #[test]
        fn all_lines_are_given_out_and_shares_differ_by_one(
            lines in 0usize..60,
            entries in proptest::collection::vec(0usize..30, 0..12),
        ) {
            let parts = divide(lines, &entries);
            prop_assert_eq!(parts.iter().sum::<usize>(), lines.min(entries.iter().sum()));
            for (part, has) in parts.iter().zip(&entries) {
                prop_assert!(part <= has);
                let most = parts.iter().max().unwrap();
                prop_assert!(part == has || part + 1 >= *most, "{:?} of {:?}", parts, entries);
            }
        }

        /// So entries beyond the share of a directory can be dropped while others are still counted.
        #[test]
        fn share_never_grows_when_more_entries_are_found(
            lines in 0usize..60,
            entries in proptest::collection::vec(0usize..30, 1..12),
            at in 0usize..12,
            more in 1usize..30,
        ) {
            let before = divide(lines, &entries);
            let mut grown = entries.clone();
            let at = at % entries.len();
            grown[at] += more;
            let after = divide(lines, &grown);
            for other in 0..entries.len() {
                let is_whole = other == at && before[other] == entries[other];
                prop_assert!(is_whole || after[other] <= before[other], "{:?} {:?}", before, after);
            }
            let largest = |entries: &[usize]| LineShares::new(lines, &entries.iter().copied()).largest();
            prop_assert!(after.iter().all(|part| *part <= largest(&entries)));
        }
    }
}
