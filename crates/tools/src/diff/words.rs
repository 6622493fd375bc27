//! Which words differ where lines were replaced by others.
//!
//! The lines of a block are paired first: those that took each other's place are alike, and in the same order. What is hardly
//! like anything has no partner, and none of its words is marked; all of it is new, or gone. The work is bounded: a block of very
//! many lines is paired by position, and a very long line is marked as one stretch, from its first to its last difference.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::{Block, split_ending};

/// How many bytes are looked at to hold every old line against every new one; in larger blocks, lines are paired by position.
const MAX_COMPARED: usize = 1_000_000;
/// How many lines of a block are paired by their position.
const MAX_BY_POSITION: usize = 1_000;
/// How many bytes a line may have for its words to be compared.
const MAX_LINE: usize = 2_000;
/// How much two lines must have in common to be a pair, in percent.
const MIN_LIKENESS: usize = 40;

/// Two lines that took each other's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    /// The position of the old line among those removed.
    pub(super) before: usize,
    /// The position of the new line among those added.
    pub(super) after: usize,
    /// What of the old line is not in the new one, in bytes.
    pub(super) removed: Vec<Range<usize>>,
    /// What of the new line was not in the old one, in bytes.
    pub(super) added: Vec<Range<usize>>,
}

/// The pairs among lines that were replaced by others, in order.
pub(super) fn pairs(removed: &[&str], added: &[&str]) -> Vec<Pair> {
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let old_work = bytes(removed).saturating_mul(added.len());
    let new_work = bytes(added).saturating_mul(removed.len());
    let is_little = old_work.saturating_add(new_work) <= MAX_COMPARED;
    if is_little && removed.iter().chain(added).all(|line| line.len() <= MAX_LINE) {
        by_likeness(removed, added)
    } else if removed.len() == added.len() {
        by_position(removed, added)
    } else {
        Vec::new()
    }
}

fn by_position(removed: &[&str], added: &[&str]) -> Vec<Pair> {
    let lines = removed.iter().zip(added).enumerate().take(MAX_BY_POSITION);
    lines.filter_map(|(at, (old, new))| pair((at, old), (at, new))).collect()
}

/// The two lines as a pair, if they are like each other.
fn pair((before, old): (usize, &str), (after, new): (usize, &str)) -> Option<Pair> {
    if old.len().max(new.len()) > MAX_LINE {
        let (removed, added) = stretches(split_ending(old).0, split_ending(new).0)?;
        return Some(Pair { before, after, removed, added });
    }
    let (old, new) = (Words::of(old), Words::of(new));
    (old.likeness(&new) >= MIN_LIKENESS).then(|| pair_of(before, &old, after, &new))
}

/// Pairs lines so that as much as possible is common to the lines of the pairs, taken together.
fn by_likeness(removed: &[&str], added: &[&str]) -> Vec<Pair> {
    let old: Vec<Words<'_>> = removed.iter().map(|line| Words::of(line)).collect();
    let new: Vec<Words<'_>> = added.iter().map(|line| Words::of(line)).collect();
    best_order(&Table::of_likeness(&old, &new))
        .into_iter()
        .filter_map(|(before, after)| {
            Some(pair_of(before, old.get(before)?, after, new.get(after)?))
        })
        .collect()
}

fn pair_of(before: usize, old: &Words<'_>, after: usize, new: &Words<'_>) -> Pair {
    let (removed, added) = differing(&old.tokens, &new.tokens);
    Pair { before, after, removed, added }
}

/// The pairs, in order on both sides, whose likeness adds up to the most.
fn best_order(likeness: &Table) -> Vec<(usize, usize)> {
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

/// What the pairs of the lines from each row and column on can add up to.
fn best_sums(likeness: &Table) -> Table {
    let columns = likeness.columns();
    let mut sums = Table(vec![vec![0; columns]; likeness.0.len()]);
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

/// A number for each old line (a row) and each new one (a column); 0 beyond them.
struct Table(Vec<Vec<usize>>);

impl Table {
    /// How much each two lines have in common; 0 if that is too little.
    fn of_likeness(old: &[Words<'_>], new: &[Words<'_>]) -> Self {
        let like = |old: &Words<'_>, new: &Words<'_>| match old.likeness(new) {
            like if like < MIN_LIKENESS => 0,
            like => like,
        };
        Self(old.iter().map(|old| new.iter().map(|new| like(old, new)).collect()).collect())
    }

    fn columns(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    fn at(&self, row: usize, column: usize) -> usize {
        self.0.get(row).and_then(|row| row.get(column)).copied().unwrap_or(0)
    }
}

/// The tokens of a line.
struct Words<'a> {
    tokens: Vec<&'a str>,
    /// Those that are not blank, sorted.
    sorted: Vec<&'a str>,
    /// How many bytes the latter have.
    weight: usize,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let tokens = tokens(split_ending(line).0);
        let mut sorted: Vec<&str> =
            tokens.iter().copied().filter(|token| !is_blank(token)).collect();
        sorted.sort_unstable();
        let weight = sorted.iter().map(|token| token.len()).sum();
        Self { tokens, sorted, weight }
    }

    /// How much two lines have in common, from 0 to 100; long words count more, blanks nothing.
    fn likeness(&self, other: &Self) -> usize {
        // Two blank lines are alike.
        (200 * self.common(other)).checked_div(self.weight + other.weight).unwrap_or(100)
    }

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

fn differing(old: &[&str], new: &[&str]) -> Spans {
    let blocks = blocks(old, new);
    let spans = |tokens: &[&str], side: fn(&Block) -> &Range<usize>| {
        let start = starts(tokens);
        let at = |token: usize| start.get(token).copied().unwrap_or_default();
        let spans = blocks.iter().map(side).map(|block| at(block.start)..at(block.end));
        spans.filter(|span| !span.is_empty()).collect()
    };
    (spans(old, |block| &block.before), spans(new, |block| &block.after))
}

/// The tokens that differ: what is between words that are in both lines, but for equal ends.
fn blocks(old: &[&str], new: &[&str]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (old_word, new_word) in common_words(old, new).into_iter().chain([(old.len(), new.len())]) {
        let block = trimmed(old, new, Block { before: old_at..old_word, after: new_at..new_word });
        (old_at, new_at) = (old_word + 1, new_word + 1);
        if block.before.is_empty() && block.after.is_empty() {
            continue;
        }
        match blocks.last_mut() {
            // So little is between the two that they read better as one.
            Some(last) if old.get(last.before.end..block.before.start) == Some(&["_"]) => {
                last.before.end = block.before.end;
                last.after.end = block.after.end;
            }
            _ => blocks.push(block),
        }
    }
    blocks
}

/// Where words are that both lines have, in order. Blanks are no words: they would tie together what does not belong together.
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

/// The block without what is equal at its ends.
fn trimmed(old: &[&str], new: &[&str], block: Block) -> Block {
    let Block { mut before, mut after } = block;
    let are_equal = |a: usize, b: usize| old.get(a) == new.get(b);
    while !before.is_empty() && !after.is_empty() && are_equal(before.start, after.start) {
        before.start += 1;
        after.start += 1;
    }
    while !before.is_empty() && !after.is_empty() && are_equal(before.end - 1, after.end - 1) {
        before.end -= 1;
        after.end -= 1;
    }
    Block { before, after }
}

/// Where each token begins, and where the last one ends.
fn starts(tokens: &[&str]) -> Vec<usize> {
    let ends = tokens.iter().scan(0, |at, token| {
        *at += token.len();
        Some(*at)
    });
    std::iter::once(0).chain(ends).collect()
}

/// One span for each of two long lines, from the first to the last difference; `None` if little else is left.
fn stretches(old: &str, new: &str) -> Option<Spans> {
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

fn is_blank(token: &str) -> bool {
    token.starts_with(char::is_whitespace)
}

/// A line in pieces: words, numbers, runs of white space, and single characters of any other kind. Together they are the line.
///
/// Names are split where people see a seam: `readFile`, `HTTPServer`, `utf8`, and at each `_`.
fn tokens(line: &str) -> Vec<&str> {
    let mut rest = line;
    std::iter::from_fn(|| {
        let (token, more) = rest.split_at_checked(token_len(rest)?)?;
        rest = more;
        Some(token)
    })
    .collect()
}

/// How many bytes the first token has; `None` if there is none.
fn token_len(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let run = |from: usize, goes_on: fn(char) -> bool| -> usize {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.find(|c| !goes_on(c) && !is_joined(c)).unwrap_or(rest.len())
    };
    Some(match Kind::of(first) {
        Kind::Blank => run(0, |c| Kind::of(c) == Kind::Blank),
        Kind::Digit => run(0, |c| matches!(Kind::of(c), Kind::Digit | Kind::Lower | Kind::Upper)),
        Kind::Lower => run(0, |c| Kind::of(c) == Kind::Lower),
        Kind::Upper => {
            let capitals = run(0, |c| Kind::of(c) == Kind::Upper);
            let word = run(capitals, |c| Kind::of(c) == Kind::Lower);
            let last = text.get(..capitals).and_then(|text| text.char_indices().next_back());
            match last {
                // The last of several capitals begins the next word.
                Some((at, _)) if at > 0 && word > capitals => at,
                _ => word,
            }
        }
        Kind::Single => run(first.len_utf8(), |_| false),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Digit,
    Upper,
    /// Also letters of scripts that have no capitals.
    Lower,
    /// Punctuation and the like, and signs that are words by themselves.
    Single,
}

impl Kind {
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

/// Scripts that put no spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Signs that are one with the character before them: accents, variants, skin tones.
fn is_joined(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_in_pieces() {
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
            assert_eq!(tokens(line), expected, "{line}");
        }
    }

    /// The pairs as people see them: the old line with `[…]` around what is gone, the new one with what is new.
    fn shown(removed: &[&str], added: &[&str]) -> Vec<String> {
        let mark = |line: &str, spans: &[Range<usize>]| {
            let mut text = line.to_owned();
            for span in spans.iter().rev() {
                text.insert(span.end, ']');
                text.insert(span.start, '[');
            }
            text
        };
        let show = |pair: Pair| {
            let old = mark(removed[pair.before], &pair.removed);
            format!("{old} → {}", mark(added[pair.after], &pair.added))
        };
        pairs(removed, added).into_iter().map(show).collect()
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
            assert_eq!(shown(&[old], &[new]), [expected], "{old} → {new}");
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
            assert_eq!(shown(&[old], &[new]), [""; 0], "{old} → {new}");
        }
    }

    #[test]
    fn lines_are_paired_in_order() {
        let places = |removed: &[&str], added: &[&str]| -> Vec<(usize, usize)> {
            pairs(removed, added).iter().map(|pair| (pair.before, pair.after)).collect()
        };
        let (one, two) = ("let one = call(1);", "if second { return; }");
        assert_eq!(
            places(&[one, two], &["let one = call(9);", "if second { break; }"]),
            [(0, 0), (1, 1)]
        );
        assert_eq!(places(&[one, two], &["if second { break; }"]), [(1, 0)]);
        assert_eq!(places(&[two], &["xyz", "if second { break; }"]), [(0, 1)]);
        // Lines that changed places are not both paired: the order would be a lie.
        assert_eq!(places(&[one, two], &["if second { break; }", "let one = call(9);"]).len(), 1);
        // What is most alike wins over what comes first.
        assert_eq!(places(&["a b c d"], &["a b x y", "a b c x"]), [(0, 1)]);
    }

    #[test]
    fn work_is_bounded() {
        let long = |middle: &str| format!("{}{middle}{}", "é x ".repeat(500), " y è".repeat(500));
        let (old, new) = (long("one word"), long("two words"));
        let found = pairs(&[&old], &[&new]);
        let [Pair { removed, added, .. }] = &found[..] else { panic!("one pair") };
        assert_eq!((&old[removed[0].clone()], &new[added[0].clone()]), ("one word", "two words"));
        assert_eq!((removed.len(), added.len()), (1, 1));
        let other = "z".repeat(4_000);
        assert_eq!(pairs(&[&old], &[&other]), []);
        assert_eq!(pairs(&[&old, "a"], &[&new]), [], "by position only if there are as many");
        let old: Vec<String> = (0..3_000).map(|n| format!("line {n} old")).collect();
        let new: Vec<String> = (0..3_000).map(|n| format!("line {n} new")).collect();
        let refs = |lines: &'static [String]| lines.iter().map(String::as_str).collect::<Vec<_>>();
        let (old, new) = (refs(old.leak()), refs(new.leak()));
        assert_eq!(pairs(&old, &new).len(), MAX_BY_POSITION);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn tokens_are_the_line(line in "\\PC{0,40}") {
            prop_assert_eq!(tokens(&line).concat(), line);
        }

        /// What is not marked is the same on both sides.
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
            let found = pairs(&old, &new);
            for pair in &found {
                let (a, b) = (old[pair.before], new[pair.after]);
                prop_assert_eq!(rest(a, &pair.removed), rest(b, &pair.added));
            }
            let in_order = found.windows(2).all(|two| two[0].before < two[1].before && two[0].after < two[1].after);
            prop_assert!(in_order);
        }
    }
}
