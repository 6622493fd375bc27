//! The comparison of three texts: a common base, the text that is in the file now, and the text that we would write.
//!
//! Conflicts come first, each with both sides. Changes of only one side follow; [`merge`](super::merge()) could combine them, but
//! the file is never merged without a request.

use std::ops::Range;

use windlass_core::quote;

use super::file::DecodedText;
use super::merge::{self, MergeRegion, MergeRegionKind};
use super::page::{DiffFormat, DiffPage, TextRole, paint};
use super::render::push_hunks;
use super::{Diff, FileVersion, render_file};
use crate::format;

/// Names of the three texts, as a person reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreeWayNames<'a> {
    /// Name of the common base of the other two texts.
    pub base: &'a str,
    /// Name of the text that another program or person made of the base.
    pub theirs: &'a str,
    /// Name of the text that we would write.
    pub ours: &'a str,
}

impl Default for ThreeWayNames<'_> {
    fn default() -> Self {
        Self { base: "the file as it was left", theirs: "the file now", ours: "the undo" }
    }
}

/// Two changes of one base text, compared with each other; made by [`three_way`].
///
/// ```
/// use windlass_tools::diff::{ThreeWayNames, three_way};
///
/// let three = three_way("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", ThreeWayNames::default());
/// assert_eq!((three.regions().len(), three.conflicts()), (2, 0));
/// assert_eq!(three.merged().as_deref(), Some("A\nb\nC\n"));
/// ```
#[derive(Debug, Clone)]
pub struct ThreeWay<'a> {
    names: ThreeWayNames<'a>,
    /// Diff from the base to the file now.
    theirs: Diff<'a>,
    /// Diff from the base to the text that we would write.
    ours: Diff<'a>,
    regions: Vec<MergeRegion>,
}

/// Compares the text that was left (`base`) with the present text (`theirs`) and with the text that we would write (`ours`).
///
/// ```
/// use windlass_tools::diff::{DiffFormat, ThreeWayNames, three_way};
///
/// let three = three_way("a\n", "b\n", "c\n", ThreeWayNames::default());
/// assert_eq!(
///     three.render(&DiffFormat::plain()),
///     "compared with the file as it was left: the file now +1 -1, the undo +1 -1; 1 conflict\n\
///      conflict 1 of 1\nthe file now:\n@@ -1 +1 @@\n-a\n+b\nthe undo:\n@@ -1 +1 @@\n-a\n+c\n"
/// );
/// ```
pub fn three_way<'a>(
    base: &'a str,
    theirs: &'a str,
    ours: &'a str,
    names: ThreeWayNames<'a>,
) -> ThreeWay<'a> {
    let (theirs, ours) = (Diff::between(base, theirs), Diff::between(base, ours));
    let regions = merge::regions(&theirs, &ours);
    ThreeWay { names, theirs, ours, regions }
}

impl ThreeWay<'_> {
    /// Returns every region that either side changed, in order.
    pub fn regions(&self) -> &[MergeRegion] {
        &self.regions
    }

    /// Returns the number of regions that both sides changed differently.
    pub fn conflicts(&self) -> usize {
        merge::count_conflicts(&self.regions)
    }

    /// Returns the text with the changes of both sides, if there is no conflict.
    pub fn merged(&self) -> Option<String> {
        (self.conflicts() == 0).then(|| merge::merged_text(&self.theirs, &self.ours, &self.regions))
    }

    /// Renders all changes for a person: conflicts first, then changes of one side, then equal changes of both.
    pub fn render(&self, look: &DiffFormat) -> String {
        format!(
            "{}\n{}",
            paint(*look, TextRole::Heading, &self.summary()),
            self.render_regions(look)
        )
    }

    /// Renders all regions, without the summary line.
    fn render_regions(&self, look: &DiffFormat) -> String {
        let (theirs, ours) = (&self.theirs, &self.ours);
        let lines = theirs.before.len().max(theirs.after.len()).max(ours.after.len());
        let mut page = DiffPage::new(*look, lines);
        self.push_conflicts(&mut page);
        let (their_name, our_name) = (self.names.theirs, self.names.ours);
        for (kind, diff, heading) in [
            (MergeRegionKind::Theirs, theirs, format!("changed only in {their_name}:")),
            (MergeRegionKind::Ours, ours, format!("changed only in {our_name}:")),
            (MergeRegionKind::Same, theirs, "changed alike in both:".to_owned()),
        ] {
            let runs = self.block_runs(kind);
            if !runs.is_empty() {
                push_heading(&mut page, TextRole::Heading, &heading);
            }
            for run in runs {
                push_hunks(&mut page, diff, run);
            }
        }
        page.finish()
    }

    /// Returns one line with the numbers of changed lines of each side and of conflicts.
    fn summary(&self) -> String {
        let ThreeWayNames { base, theirs, ours } = self.names;
        let count = |diff: &Diff<'_>| format!("+{} -{}", diff.added(), diff.removed());
        let conflicts = match self.conflicts() {
            0 => "no conflict".to_owned(),
            number => format::count(number, "conflict", "conflicts"),
        };
        format!(
            "compared with {base}: {theirs} {}, {ours} {}; {conflicts}",
            count(&self.theirs),
            count(&self.ours)
        )
    }

    /// Adds each conflict: a numbered heading, and the hunks of both sides.
    fn push_conflicts(&self, page: &mut DiffPage) {
        let all = self.conflicts();
        let is_conflict = |region: &&MergeRegion| region.kind == MergeRegionKind::Conflict;
        for (number, region) in (1..).zip(self.regions.iter().filter(is_conflict)) {
            push_heading(page, TextRole::Heading, &format!("conflict {number} of {all}"));
            for (name, diff, blocks) in [
                (self.names.theirs, &self.theirs, &region.their_blocks),
                (self.names.ours, &self.ours, &region.our_blocks),
            ] {
                push_heading(page, TextRole::Aside, &format!("{name}:"));
                push_hunks(page, diff, blocks.clone());
            }
        }
    }

    /// Returns block ranges of the regions of one kind, with neighbours joined: blocks of our diff for `Ours`, of theirs otherwise.
    fn block_runs(&self, kind: MergeRegionKind) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for region in self.regions.iter().filter(|region| region.kind == kind) {
            let blocks = match kind {
                MergeRegionKind::Ours => &region.our_blocks,
                _ => &region.their_blocks,
            };
            match runs.last_mut() {
                Some(last) if last.end == blocks.start => last.end = blocks.end,
                _ => runs.push(blocks.clone()),
            }
        }
        runs
    }
}

/// Adds a heading if lines can follow; a heading alone would say nothing.
fn push_heading(page: &mut DiffPage, role: TextRole, words: &str) {
    if page.has_room(2) {
        page.push_line(role, words);
    }
}

/// Renders a conflict between three versions of a file. If a version is missing or is not text, both changes are shown separately.
///
/// ```
/// use std::path::Path;
/// use windlass_tools::diff::{DiffFormat, ThreeWayNames, FileVersion, render_conflict};
///
/// let path = Path::new("a.txt");
/// let (base, ours) = (FileVersion::of(path, b"a\n"), FileVersion::of(path, b"b\n"));
/// let text = render_conflict(Some(&base), None, Some(&ours), ThreeWayNames::default(), &DiffFormat::plain());
/// assert_eq!(
///     text,
///     "compared with the file as it was left:\n\
///      the file now: deleted a.txt: +0 -1\n@@ -1 +0,0 @@\n-a\n\
///      the undo: changed a.txt: +1 -1\n@@ -1 +1 @@\n-a\n+b\n"
/// );
/// ```
pub fn render_conflict(
    base: Option<&FileVersion<'_>>,
    theirs: Option<&FileVersion<'_>>,
    ours: Option<&FileVersion<'_>>,
    names: ThreeWayNames<'_>,
    look: &DiffFormat,
) -> String {
    let reports = [(names.theirs, theirs), (names.ours, ours)]
        .map(|(name, version)| (quote::visible(name), render_file(base, version, look)));
    let mut words = paint(*look, TextRole::Heading, &format!("compared with {}:", names.base));
    words.push('\n');
    if let Some([base, theirs, ours]) = decode_all([base, theirs, ours]) {
        let headlines = reports.map(|(name, report)| format!("{name}: {}\n", report.headline));
        let three = three_way(&base.text, &theirs.text, &ours.text, names);
        return words + &headlines.concat() + &three.render_regions(look);
    }
    words + &reports.map(|(name, report)| format!("{name}: {report}")).concat()
}

/// Decodes three regular files; `None` if one is missing, is not text, or has another encoding.
fn decode_all<'a>(versions: [Option<&FileVersion<'a>>; 3]) -> Option<[DecodedText<'a>; 3]> {
    let [base, theirs, ours] = versions.map(|version| DecodedText::of(Some(version?.bytes()?)));
    let (base, theirs, ours) = (base?, theirs?, ours?);
    let is_one = base.may_be_encoded_as(&theirs) && base.may_be_encoded_as(&ours);
    (is_one && theirs.may_be_encoded_as(&ours)).then_some([base, theirs, ours])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn numbered_lines(changed: &[(usize, &str)]) -> String {
        let line = |n: usize| {
            changed
                .iter()
                .find(|(at, _)| *at == n)
                .map_or_else(|| format!("line {n}\n"), |(_, text)| (*text).to_owned())
        };
        (1..=30).map(line).collect()
    }

    /// The report groups regions by kind: conflicts, one side only, both alike.
    #[test]
    fn regions_are_grouped_by_kind() {
        let base = numbered_lines(&[]);
        let theirs =
            numbered_lines(&[(3, "line three\n"), (12, "theirs\n"), (20, "both\n"), (28, "")]);
        let ours = numbered_lines(&[(7, "line seven\nand more\n"), (12, "ours\n"), (20, "both\n")]);
        let three = three_way(&base, &theirs, &ours, ThreeWayNames::default());
        insta::assert_snapshot!(three.render(&DiffFormat::plain().words(true)), @"
        compared with the file as it was left: the file now +3 -4, the undo +4 -3; 1 conflict
        conflict 1 of 1
        the file now:
        @@ -9,7 +9,7 @@
         line 9
         line 10
         line 11
        -line 12
        +theirs
         line 13
         line 14
         line 15
        the undo:
        @@ -9,7 +10,7 @@
         line 9
         line 10
         line 11
        -line 12
        +ours
         line 13
         line 14
         line 15
        changed only in the file now:
        @@ -1,6 +1,6 @@
         line 1
         line 2
        ~line [-3-]{+three+}
         line 4
         line 5
         line 6
        @@ -25,6 +25,5 @@
         line 25
         line 26
         line 27
        -line 28
         line 29
         line 30
        changed only in the undo:
        @@ -4,7 +4,8 @@
         line 4
         line 5
         line 6
        ~line [-7-]{+seven+}
        +and more
         line 8
         line 9
         line 10
        changed alike in both:
        @@ -17,7 +17,7 @@
         line 17
         line 18
         line 19
        -line 20
        +both
         line 21
         line 22
         line 23
        ");
        insta::assert_snapshot!(three.render(&DiffFormat::plain().max_lines(8)), @"
        compared with the file as it was left: the file now +3 -4, the undo +4 -3; 1 conflict
        conflict 1 of 1
        the file now:
        @@ -9,7 +9,7 @@
         line 9
         line 10
         line 11
        -line 12
        +theirs
         line 13
         line 14
        [left out: 5 more places, +5 -5]
        ");
    }

    #[test]
    fn summary_says_that_nothing_changed() {
        let text =
            three_way("a\n", "a\n", "a\n", ThreeWayNames::default()).render(&DiffFormat::plain());
        assert_eq!(
            text,
            "compared with the file as it was left: the file now +0 -0, the undo +0 -0; no conflict\n"
        );
    }

    #[test]
    fn three_versions_of_a_file_are_compared() {
        let names = ThreeWayNames { base: "as left", theirs: "now", ours: "undo" };
        let file = |content: &'static [u8]| Some(FileVersion::of(Path::new("f"), content));
        let mode = |mode: u32, version: Option<FileVersion<'static>>| {
            version.map(|version| FileVersion { mode: Some(mode), ..version })
        };
        for (base, theirs, ours, expected) in [
            (
                file(b"a\n"),
                file(b"b\n"),
                file(b"c\n"),
                "now: changed f: +1 -1\nundo: changed f: +1 -1\nconflict 1 of 1\n\
                 now:\n@@ -1 +1 @@\n-a\n+b\nundo:\n@@ -1 +1 @@\n-a\n+c\n",
            ),
            (
                mode(0o644, file(b"a\n")),
                mode(0o755, file(b"a\n")),
                mode(0o644, file(b"b\n")),
                "now: changed f: mode 644 → 755\nundo: changed f: +1 -1\n\
                 changed only in undo:\n@@ -1 +1 @@\n-a\n+b\n",
            ),
            (
                file(b"a\n"),
                file(b"\0\x01"),
                None,
                "now: changed f: binary, 2 B 81c4b7f7e054 → 2 B 7b7015bb92cf\n\
                 undo: deleted f: +0 -1\n@@ -1 +0,0 @@\n-a\n",
            ),
            (
                file(b"a\n"),
                file(b"\xef\xbb\xbfa\n"),
                file(b"b\n"),
                "now: changed f: UTF-8 → UTF-8 with BOM\nundo: changed f: +1 -1\n@@ -1 +1 @@\n-a\n+b\n",
            ),
        ] {
            let text = render_conflict(
                base.as_ref(),
                theirs.as_ref(),
                ours.as_ref(),
                names,
                &DiffFormat::plain(),
            );
            assert_eq!(text, format!("compared with as left:\n{expected}"));
        }
    }
}
