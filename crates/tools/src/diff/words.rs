//! Finds the words that differ between replaced lines and the lines that replace them.
//!
//! The lines of a block are paired first: paired lines are similar and in the same order. A line that is similar to no other has no
//! partner and no marked words; it is new or removed as a whole. The work is bounded: a block of very many lines is paired by
//! position, and a very long line is marked as one span, from its first to its last difference.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::{ChangedBlock, split_ending};

/// Limit of the bytes read to compare every old line with every new line; in larger blocks, lines are paired by position.
const MAX_COMPARED_BYTES: usize = 1_000_000;
/// Limit of the lines of a block that are paired by position.
const MAX_LINES_BY_POSITION: usize = 1_000;
/// Limit of the bytes of a line whose words are compared.
const MAX_LINE_BYTES: usize = 2_000;
/// Minimum similarity of a pair of lines, in percent.
const MIN_LIKENESS: usize = 40;

/// An old line and the new line that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinePair {
    /// Position of the old line among the removed lines.
    pub(super) before: usize,
    /// Position of the new line among the added lines.
    pub(super) after: usize,
    /// Byte ranges of the old line that are not in the new line.
    pub(super) removed: Vec<Range<usize>>,
    /// Byte ranges of the new line that are not in the old line.
    pub(super) added: Vec<Range<usize>>,
}

/// Pairs removed lines with added lines that are similar, in order.
pub(super) fn pair_lines(removed: &[&str], added: &[&str]) -> Vec<LinePair> {
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let old_work = bytes(removed).saturating_mul(added.len());
    let new_work = bytes(added).saturating_mul(removed.len());
    let is_little = old_work.saturating_add(new_work) <= MAX_COMPARED_BYTES;
    if is_little && removed.iter().chain(added).all(|line| line.len() <= MAX_LINE_BYTES) {
        pair_by_likeness(removed, added)
    } else if removed.len() == added.len() {
        pair_by_position(removed, added)
    } else {
        Vec::new()
    }
}

/// Pairs lines at the same position, if they are similar.
fn pair_by_position(removed: &[&str], added: &[&str]) -> Vec<LinePair> {
    let lines = removed.iter().zip(added).enumerate().take(MAX_LINES_BY_POSITION);
    lines.filter_map(|(at, (old, new))| pair_if_similar((at, old), (at, new))).collect()
}

/// Makes a pair of two lines; `None` if they are not similar.
fn pair_if_similar((before, old): (usize, &str), (after, new): (usize, &str)) -> Option<LinePair> {
    if old.len().max(new.len()) > MAX_LINE_BYTES {
        let (removed, added) = outer_spans(split_ending(old).0, split_ending(new).0)?;
        return Some(LinePair { before, after, removed, added });
    }
    let (old, new) = (TokenizedLine::of(old), TokenizedLine::of(new));
    (old.likeness(&new) >= MIN_LIKENESS).then(|| pair_of_similar(before, &old, after, &new))
}

/// Pairs lines so that the sum of the similarities of all pairs is the largest.
fn pair_by_likeness(removed: &[&str], added: &[&str]) -> Vec<LinePair> {
    let old: Vec<TokenizedLine<'_>> = removed.iter().map(|line| TokenizedLine::of(line)).collect();
    let new: Vec<TokenizedLine<'_>> = added.iter().map(|line| TokenizedLine::of(line)).collect();
    best_order(&LikenessTable::of_likeness(&old, &new))
        .into_iter()
        .filter_map(|(before, after)| {
            Some(pair_of_similar(before, old.get(before)?, after, new.get(after)?))
        })
        .collect()
}

/// Makes a pair of two lines with their differing spans.
fn pair_of_similar(
    before: usize,
    old: &TokenizedLine<'_>,
    after: usize,
    new: &TokenizedLine<'_>,
) -> LinePair {
    let (removed, added) = differing_spans(&old.tokens, &new.tokens);
    LinePair { before, after, removed, added }
}

/// Returns the pairs (row, column), increasing on both sides, with the largest sum of similarities.
fn best_order(likeness: &LikenessTable) -> Vec<(usize, usize)> {
    let sums = best_sums(likeness);
    let (mut row, mut column) = (0, 0);
    let mut pairs = Vec::new();
    while sums.at(row, column) > 0 {
        let (like, best) = (likeness.at(row, column), sums.at(row, column));
        if like > 0 && like + sums.at(row + 1, column + 1) == best {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if sums.at(row + 1, column) == best {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

/// Returns, for each row and column, the largest sum of similarities of the pairs from there on.
fn best_sums(likeness: &LikenessTable) -> LikenessTable {
    let columns = likeness.columns();
    let mut sums = LikenessTable(vec![vec![0; columns]; likeness.0.len()]);
    for row in (0..likeness.0.len()).rev() {
        for column in (0..columns).rev() {
            let paired = match likeness.at(row, column) {
                0 => 0,
                like => like + sums.at(row + 1, column + 1),
            };
            let best = paired.max(sums.at(row + 1, column)).max(sums.at(row, column + 1));
            if let Some(cell) = sums.0.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = best;
            }
        }
    }
    sums
}

/// A number for each old line (a row) and each new line (a column); 0 outside of the table.
struct LikenessTable(Vec<Vec<usize>>);

impl LikenessTable {
    /// Computes the similarity of each two lines; 0 if it is below the minimum.
    fn of_likeness(old: &[TokenizedLine<'_>], new: &[TokenizedLine<'_>]) -> Self {
        let like = |old: &TokenizedLine<'_>, new: &TokenizedLine<'_>| match old.likeness(new) {
            like if like < MIN_LIKENESS => 0,
            like => like,
        };
        Self(old.iter().map(|old| new.iter().map(|new| like(old, new)).collect()).collect())
    }

    /// Returns the number of columns.
    fn columns(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// Returns the number at a row and column, 0 outside of the table.
    fn at(&self, row: usize, column: usize) -> usize {
        self.0.get(row).and_then(|row| row.get(column)).copied().unwrap_or(0)
    }
}

/// A line split into tokens.
struct TokenizedLine<'a> {
    tokens: Vec<&'a str>,
    /// Tokens that are not blank, sorted.
    sorted: Vec<&'a str>,
    /// Number of bytes of the tokens in `sorted`.
    weight: usize,
}

impl<'a> TokenizedLine<'a> {
    /// Splits a line into tokens.
    fn of(line: &'a str) -> Self {
        let tokens = tokenize(split_ending(line).0);
        let mut sorted: Vec<&str> =
            tokens.iter().copied().filter(|token| !is_blank(token)).collect();
        sorted.sort_unstable();
        let weight = sorted.iter().map(|token| token.len()).sum();
        Self { tokens, sorted, weight }
    }

    /// Returns the similarity of two lines from 0 to 100. Long words count more, blanks nothing.
    fn likeness(&self, other: &Self) -> usize {
        // Two blank lines are alike.
        (200 * self.common(other)).checked_div(self.weight + other.weight).unwrap_or(100)
    }

    /// Returns the number of bytes of the tokens that are in both lines.
    fn common(&self, other: &Self) -> usize {
        let mut others = other.sorted.iter().peekable();
        let mut common = 0;
        for token in &self.sorted {
            while others.next_if(|other| *other < token).is_some() {}
            if others.next_if_eq(&token).is_some() {
                common += token.len();
            }
        }
        common
    }
}

/// The spans of two lines that differ, in bytes.
type Spans = (Vec<Range<usize>>, Vec<Range<usize>>);

/// Returns the byte spans of two tokenized lines that differ.
fn differing_spans(old: &[&str], new: &[&str]) -> Spans {
    let blocks = differing_blocks(old, new);
    let spans = |tokens: &[&str], side: fn(&ChangedBlock) -> &Range<usize>| {
        let start = token_offsets(tokens);
        let at = |token: usize| start.get(token).copied().unwrap_or_default();
        let spans = blocks.iter().map(side).map(|block| at(block.start)..at(block.end));
        spans.filter(|span| !span.is_empty()).collect()
    };
    (spans(old, |block| &block.before), spans(new, |block| &block.after))
}

/// Returns the token ranges that differ: everything between common words, without equal tokens at their ends.
fn differing_blocks(old: &[&str], new: &[&str]) -> Vec<ChangedBlock> {
    let mut blocks: Vec<ChangedBlock> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (old_word, new_word) in common_words(old, new).into_iter().chain([(old.len(), new.len())]) {
        let block = trim_equal_ends(
            old,
            new,
            ChangedBlock { before: old_at..old_word, after: new_at..new_word },
        );
        (old_at, new_at) = (old_word + 1, new_word + 1);
        if block.before.is_empty() && block.after.is_empty() {
            continue;
        }
        match blocks.last_mut() {
            // The two differences read better as one if only `_` is between them.
            Some(last) if old.get(last.before.end..block.before.start) == Some(&["_"]) => {
                last.before.end = block.before.end;
                last.after.end = block.after.end;
            }
            _ => blocks.push(block),
        }
    }
    blocks
}

/// Returns the positions of words that are in both lines, in order. Blanks are excluded: they would join unrelated words.
fn common_words(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let words = |tokens: &[&str]| -> Vec<usize> {
        let is_word = |(_, token): &(usize, &&str)| !is_blank(token);
        tokens.iter().enumerate().filter(is_word).map(|(at, _)| at).collect()
    };
    let (old_words, new_words) = (words(old), words(new));
    let mut input = InternedInput::default();
    input.update_before(old_words.iter().filter_map(|at| old.get(*at).copied()));
    input.update_after(new_words.iter().filter_map(|at| new.get(*at).copied()));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let old_kept = (0..).zip(old_words).filter(|(nth, _)| !diff.is_removed(*nth));
    let new_kept = (0..).zip(new_words).filter(|(nth, _)| !diff.is_added(*nth));
    old_kept.zip(new_kept).map(|((_, old), (_, new))| (old, new)).collect()
}

/// Removes equal tokens from both ends of a block.
fn trim_equal_ends(old: &[&str], new: &[&str], block: ChangedBlock) -> ChangedBlock {
    let ChangedBlock { mut before, mut after } = block;
    let are_equal = |a: usize, b: usize| old.get(a) == new.get(b);
    while !before.is_empty() && !after.is_empty() && are_equal(before.start, after.start) {
        before.start += 1;
        after.start += 1;
    }
    while !before.is_empty() && !after.is_empty() && are_equal(before.end - 1, after.end - 1) {
        before.end -= 1;
        after.end -= 1;
    }
    ChangedBlock { before, after }
}

/// Returns the byte offset of each token, and the length of the line as the last element.
fn token_offsets(tokens: &[&str]) -> Vec<usize> {
    let ends = tokens.iter().scan(0, |at, token| {
        *at += token.len();
        Some(*at)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Returns one span for each of two long lines, from the first to the last difference; `None` if they are not similar.
fn outer_spans(old: &str, new: &str) -> Option<Spans> {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let head = old.floor_char_boundary(head).min(new.floor_char_boundary(head));
    let (a, b) = (a.get(head..)?, b.get(head..)?);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let end = |line: &str| line.ceil_char_boundary(line.len() - tail);
    let common = 200 * (head + tail);
    let span = |line: &str| Some(head..end(line)).filter(|span| !span.is_empty());
    (common / (old.len() + new.len()) >= MIN_LIKENESS)
        .then(|| (span(old).into_iter().collect(), span(new).into_iter().collect()))
}

/// Returns whether a token is white space.
fn is_blank(token: &str) -> bool {
    token.starts_with(char::is_whitespace)
}

/// Splits a line into words, numbers, runs of white space, and single characters of any other kind. The tokens make up the whole line.
///
/// Names are split where people see a boundary: `readFile`, `HTTPServer`, `utf8`, and at each `_`.
fn tokenize(line: &str) -> Vec<&str> {
    let mut rest = line;
    std::iter::from_fn(|| {
        let (token, more) = rest.split_at_checked(first_token_len(rest)?)?;
        rest = more;
        Some(token)
    })
    .collect()
}

/// Returns the length in bytes of the first token; `None` if the text is empty.
fn first_token_len(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let run = |from: usize, goes_on: fn(char) -> bool| -> usize {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.find(|c| !goes_on(c) && !is_combining(c)).unwrap_or(rest.len())
    };
    Some(match CharacterKind::of(first) {
        CharacterKind::Blank => run(0, |c| CharacterKind::of(c) == CharacterKind::Blank),
        CharacterKind::Digit => run(0, |c| {
            matches!(
                CharacterKind::of(c),
                CharacterKind::Digit | CharacterKind::Lower | CharacterKind::Upper
            )
        }),
        CharacterKind::Lower => run(0, |c| CharacterKind::of(c) == CharacterKind::Lower),
        CharacterKind::Upper => {
            let capitals = run(0, |c| CharacterKind::of(c) == CharacterKind::Upper);
            let word = run(capitals, |c| CharacterKind::of(c) == CharacterKind::Lower);
            let last = text.get(..capitals).and_then(|text| text.char_indices().next_back());
            match last {
                // The last of several capitals starts the next word.
                Some((at, _)) if at > 0 && word > capitals => at,
                _ => word,
            }
        }
        CharacterKind::Single => run(first.len_utf8(), |_| false),
    })
}

/// The class of a character; it decides where a token ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Blank,
    Digit,
    Upper,
    /// A lower-case letter, or a letter of a script without capitals.
    Lower,
    /// Punctuation and other characters that are tokens by themselves.
    Single,
}

impl CharacterKind {
    /// Returns the class of a character.
    fn of(c: char) -> Self {
        match c {
            c if c.is_whitespace() => Self::Blank,
            c if c.is_ascii_digit() => Self::Digit,
            c if is_ideograph(c) => Self::Single,
            c if c.is_uppercase() => Self::Upper,
            c if c.is_alphanumeric() => Self::Lower,
            _ => Self::Single,
        }
    }
}

/// Returns whether a character is of a script without spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns whether a character combines with the one before it: accents, variation selectors, skin tones.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_is_split_into_tokens() {
        for (line, expected) in [
            ("", &[][..]),
            ("let  a", &["let", "  ", "a"]),
            ("\t\tx", &["\t\t", "x"]),
            ("a.b(c);", &["a", ".", "b", "(", "c", ")", ";"]),
            ("read_file", &["read", "_", "file"]),
            ("readFile", &["read", "File"]),
            ("HTTPServer", &["HTTP", "Server"]),
            ("parseHTTP2", &["parse", "HTTP", "2"]),
            ("MAX_LINES", &["MAX", "_", "LINES"]),
            ("A", &["A"]),
            ("ABc", &["A", "Bc"]),
            ("utf8", &["utf", "8"]),
            ("0xFF12 10ms 1.5", &["0xFF12", " ", "10ms", " ", "1", ".", "5"]),
            ("été Élan ÉTÉ", &["été", " ", "Élan", " ", "ÉTÉ"]),
            ("e\u{301}te\u{301}!", &["e\u{301}te\u{301}", "!"]),
            ("👍🏽👍", &["👍🏽", "👍"]),
            ("日本語", &["日", "本", "語"]),
            ("->", &["-", ">"]),
            ("\u{301}a", &["\u{301}", "a"]),
        ] {
            assert_eq!(tokenize(line), expected, "{line}");
        }
    }

    /// Formats pairs: the old line with `[…]` around removed text, and the new line with `[…]` around added text.
    fn mark_pairs(removed: &[&str], added: &[&str]) -> Vec<String> {
        let mark = |line: &str, spans: &[Range<usize>]| {
            let mut text = line.to_owned();
            for span in spans.iter().rev() {
                text.insert(span.end, ']');
                text.insert(span.start, '[');
            }
            text
        };
        let show = |pair: LinePair| {
            let old = mark(removed[pair.before], &pair.removed);
            format!("{old} → {}", mark(added[pair.after], &pair.added))
        };
        pair_lines(removed, added).into_iter().map(show).collect()
    }

    #[test]
    fn words_that_differ_are_marked() {
        for (old, new, expected) in [
            ("let b = 2;", "let b = 3;", "let b = [2]; → let b = [3];"),
            ("read_file(a)", "write_file(a)", "[read]_file(a) → [write]_file(a)"),
            ("the quick fox", "the slow fox", "the [quick] fox → the [slow] fox"),
            ("say one two now", "say three four now", "say [one two] now → say [three four] now"),
            ("call(foo_bar)", "call(baz_qux)", "call([foo_bar]) → call([baz_qux])"),
            ("f(a)", "f(a, b)", "f(a) → f(a[, b])"),
            ("one two three", "zero one three", "one [two ]three → [zero ]one three"),
            ("a b c", "a  b c", "a[ ]b c → a[  ]b c"),
            ("    x();", "\tx();", "[    ]x(); → [\t]x();"),
            ("x();", "x();  ", "x(); → x();[  ]"),
            ("", "  ", " → [  ]"),
            ("naïve café", "naïve cafe", "naïve [café] → naïve [cafe]"),
            ("a = b", "a = b", "a = b → a = b"),
        ] {
            assert_eq!(mark_pairs(&[old], &[new]), [expected], "{old} → {new}");
        }
    }

    #[test]
    fn lines_with_little_in_common_are_no_pair() {
        for (old, new) in [
            ("return foo;", "let x = bar();"),
            ("", "a"),
            ("use std::fmt;", "fn main() {"),
            ("aaaaaaaa;", "bbbbbbbb;"),
        ] {
            assert_eq!(mark_pairs(&[old], &[new]), [""; 0], "{old} → {new}");
        }
    }

    #[test]
    fn lines_are_paired_in_order() {
        let places = |removed: &[&str], added: &[&str]| -> Vec<(usize, usize)> {
            pair_lines(removed, added).iter().map(|pair| (pair.before, pair.after)).collect()
        };
        let (one, two) = ("let one = call(1);", "if second { return; }");
        assert_eq!(
            places(&[one, two], &["let one = call(9);", "if second { break; }"]),
            [(0, 0), (1, 1)]
        );
        assert_eq!(places(&[one, two], &["if second { break; }"]), [(1, 0)]);
        assert_eq!(places(&[two], &["xyz", "if second { break; }"]), [(0, 1)]);
        // Lines that were swapped are not both paired: pairs keep the order.
        assert_eq!(places(&[one, two], &["if second { break; }", "let one = call(9);"]).len(), 1);
        // The most similar line wins over the first.
        assert_eq!(places(&["a b c d"], &["a b x y", "a b c x"]), [(0, 1)]);
    }

    #[test]
    fn work_is_bounded() {
        let long = |middle: &str| format!("{}{middle}{}", "é x ".repeat(500), " y è".repeat(500));
        let (old, new) = (long("one word"), long("two words"));
        let found = pair_lines(&[&old], &[&new]);
        let [LinePair { removed, added, .. }] = &found[..] else { panic!("one pair") };
        assert_eq!((&old[removed[0].clone()], &new[added[0].clone()]), ("one word", "two words"));
        assert_eq!((removed.len(), added.len()), (1, 1));
        let other = "z".repeat(4_000);
        assert_eq!(pair_lines(&[&old], &[&other]), []);
        assert_eq!(pair_lines(&[&old, "a"], &[&new]), [], "by position only if there are as many");
        let old: Vec<String> = (0..3_000).map(|n| format!("line {n} old")).collect();
        let new: Vec<String> = (0..3_000).map(|n| format!("line {n} new")).collect();
        let refs = |lines: &'static [String]| lines.iter().map(String::as_str).collect::<Vec<_>>();
        let (old, new) = (refs(old.leak()), refs(new.leak()));
        assert_eq!(pair_lines(&old, &new).len(), MAX_LINES_BY_POSITION);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn tokens_make_up_the_line(line in "\\PC{0,40}") {
            prop_assert_eq!(tokenize(&line).concat(), line);
        }

        /// Text without marks is the same on both sides.
        #[test]
        fn unmarked_text_is_common(
            old in proptest::collection::vec("[abAé _.1]{0,12}", 1..5),
            new in proptest::collection::vec("[abAé _.1]{0,12}", 1..5),
        ) {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            let rest = |line: &str, spans: &[Range<usize>]| {
                let mut line = line.to_owned();
                spans.iter().rev().for_each(|span| line.replace_range(span.clone(), ""));
                line
            };
            let found = pair_lines(&old, &new);
            for pair in &found {
                let (a, b) = (old[pair.before], new[pair.after]);
                prop_assert_eq!(rest(a, &pair.removed), rest(b, &pair.added));
            }
            let in_order = found.windows(2).all(|two| two[0].before < two[1].before && two[0].after < two[1].after);
            prop_assert!(in_order);
        }
    }
}
