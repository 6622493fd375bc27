//! A hundred thousand edits of files that are built character by character, so that the test knows which bytes belong to which character:
//! every byte outside of the replaced span must stay the same.
//!
//! There is no shrinking: a failure prints its seed, and the files are small.

use std::ops::Range;

use super::super::plan::{MatchStrategy, TextEdit};
use super::super::{apply, plan_in};
use crate::cut::Cutter;
use crate::document::{Document, Replacement, SpliceError};
use crate::encoding::DETECTION_BYTES;

/// Number of edits that are made by all threads together, without refused ones. `WINDLASS_EDITS` raises it.
const MIN_EDITS: usize = 100_000;
const THREADS: u64 = 2;
const SEED: u64 = 0x57A7_1C0D_E5EE_D001;

/// A pseudo-random generator that is the same on every machine for the same seed.
struct SeededRandom(u64);

impl SeededRandom {
    /// Returns the next random number.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, but without, `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Returns true once in `count` times on average.
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns a random element.
    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}

/// The encoding of a generated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestEncoding {
    Utf8,
    Utf8Bom,
    Utf16Le {
        mark: bool,
    },
    Utf16Be {
        mark: bool,
    },
    Latin,
    ShiftJis,
    /// UTF-8 with invalid bytes.
    Broken,
    /// Zero bytes behind a byte order mark, which makes the file text.
    Zeros,
    /// Zero bytes from the start: a binary file in which text can be found.
    Raw,
    /// Zero bytes so far behind the start that detection does not read them.
    LateZeros,
    /// Random bytes.
    Noise,
}

const TEST_ENCODINGS: [TestEncoding; 13] = [
    TestEncoding::Utf8,
    TestEncoding::Utf8Bom,
    TestEncoding::Utf16Le { mark: true },
    TestEncoding::Utf16Le { mark: false },
    TestEncoding::Utf16Be { mark: true },
    TestEncoding::Utf16Be { mark: false },
    TestEncoding::Latin,
    TestEncoding::ShiftJis,
    TestEncoding::Broken,
    TestEncoding::Zeros,
    TestEncoding::Raw,
    TestEncoding::LateZeros,
    TestEncoding::Noise,
];

/// A part of a file that is never split: its text and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextUnit {
    text: Vec<u8>,
    raw: Vec<u8>,
}

impl TestEncoding {
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8Bom | Self::Zeros => b"\xef\xbb\xbf",
            Self::Utf16Le { mark: true } => b"\xff\xfe",
            Self::Utf16Be { mark: true } => b"\xfe\xff",
            _ => b"",
        }
    }

    fn unit(self, character: char) -> TextUnit {
        let text = character.to_string();
        let raw = match self {
            Self::Utf16Le { .. } => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be { .. } => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Latin => encoding_rs::WINDOWS_1252.encode(&text).0.into_owned(),
            Self::ShiftJis => encoding_rs::SHIFT_JIS.encode(&text).0.into_owned(),
            _ => text.clone().into_bytes(),
        };
        TextUnit { text: text.into_bytes(), raw }
    }

    /// Returns the start of a file whose encoding must be guessed.
    fn beginning(self) -> &'static str {
        match self {
            Self::Utf16Le { mark: false } | Self::Utf16Be { mark: false } => {
                "plain words that say how this is written down\n"
            }
            Self::Latin => "ça a été déjà là, à l'été, naïve façade, où ça: élève\r\n",
            Self::ShiftJis => "これは日本語のテキストです。表示はソースにあります。\n",
            Self::Broken => "日本語の中に壊れたバイトがある：これだけ長ければ分かる\n",
            _ => "",
        }
    }

    fn letters(self) -> &'static [char] {
        match self {
            Self::Latin => &['a', 'b', 'c', 'é', 'ß', '€', ' ', ' ', '\t'],
            // The second bytes of some of these are ASCII: `ソ` and `表` end in a backslash.
            Self::ShiftJis => &['a', 'b', 'c', 'ソ', '表', 'ｱ', '日', ' ', '\t'],
            Self::Utf16Le { mark: false } | Self::Utf16Be { mark: false } => {
                &['a', 'b', 'c', 'd', 'e', 'é', ' ', ' ', '\t']
            }
            _ => &['a', 'b', 'c', 'é', '日', '🦀', '\u{301}', ' ', ' ', '\t'],
        }
    }

    /// Makes a file of a few lines with various endings; the last line may have none.
    fn file(self, random: &mut SeededRandom) -> Vec<TextUnit> {
        let mut units: Vec<TextUnit> = self.beginning().chars().map(|c| self.unit(c)).collect();
        if self == Self::Raw {
            // Enough of them that the file cannot be UTF-16.
            units.extend((0..8).map(|_| TextUnit { text: vec![0], raw: vec![0] }));
        }
        if self == Self::LateZeros {
            let head = vec![b'#'; DETECTION_BYTES];
            units.push(TextUnit { text: head.clone(), raw: head });
            units.push(self.unit('\n'));
        }
        let endings: &[&str] =
            random.pick(&[&["\n"][..], &["\r\n"], &["\n", "\r\n"], &["\n", "\r\n", "\r"]]);
        let lines = 1 + random.below(7);
        for line in 0..lines {
            let length = random.below(10);
            units.extend((0..length).map(|_| self.piece(random)));
            if line + 1 < lines || random.one_in(2) {
                units.extend(random.pick(endings).chars().map(|c| self.unit(c)));
            }
        }
        units
    }

    /// Returns one random unit of a line, depending on the encoding also an invalid or zero byte.
    fn piece(self, random: &mut SeededRandom) -> TextUnit {
        let byte = match self {
            Self::Broken if random.one_in(4) => random.pick(&[0xff, 0xfe, 0x80, 0xc0]),
            Self::Zeros | Self::Raw if random.one_in(4) => random.pick(&[0, 0, 0xff]),
            Self::LateZeros if random.one_in(4) => 0,
            _ => return self.unit(random.pick(self.letters())),
        };
        TextUnit { text: vec![byte], raw: vec![byte] }
    }
}

/// Returns random bytes, most of them searchable.
fn random_bytes(random: &mut SeededRandom) -> Vec<u8> {
    let length = 1 + random.below(60);
    let byte = |random: &mut SeededRandom| match random.below(6) {
        0 => u8::try_from(random.below(256)).unwrap(),
        1 => random.pick(b"\r\n\n \t"),
        _ => random.pick(b"abcd"),
    };
    (0..length).map(|_| byte(random)).collect()
}

/// Splits a document into its units; `None` for a multi-byte encoding, whose units are unknown.
fn units(document: &Document) -> Option<Vec<TextUnit>> {
    let body = &document.bytes()[document.encoding().mark().len()..];
    let unit = |text: &[u8], raw: &[u8]| TextUnit { text: text.to_vec(), raw: raw.to_vec() };
    if document.encoding().is_utf8() {
        let mut units = Vec::new();
        for chunk in body.utf8_chunks() {
            let characters = chunk.valid().char_indices().map(|(at, c)| at..at + c.len_utf8());
            units.extend(characters.map(|range| {
                let bytes = &chunk.valid().as_bytes()[range];
                unit(bytes, bytes)
            }));
            units.extend(chunk.invalid().iter().map(|byte| unit(&[*byte], &[*byte])));
        }
        return Some(units);
    }
    let encoding = encoding_rs::Encoding::for_label(document.encoding().name().as_bytes())?;
    encoding.is_single_byte().then(|| {
        let text = |byte| document.encoding().decode(std::slice::from_ref(byte)).into_owned();
        body.iter().map(|byte| unit(text(byte).as_bytes(), &[*byte])).collect()
    })
}

/// One generated edit of one file.
struct EditCase {
    coding: TestEncoding,
    bytes: Vec<u8>,
    units: Vec<TextUnit>,
    edit: TextEdit,
}

impl std::fmt::Debug for EditCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.bytes.len().saturating_sub(400);
        let bytes = self.bytes[end..].escape_ascii();
        write!(f, "{:?} \"{bytes}\" {:?}", self.coding, self.edit)
    }
}

/// The result of a case.
enum CaseResult {
    /// The edit was made, with this strategy.
    Made(MatchStrategy),
    Refused,
}

impl EditCase {
    /// Makes a random case; `None` if it has no edit or unknown units.
    fn of(random: &mut SeededRandom) -> Option<Self> {
        // Files of `LateZeros` are long, so they are a tenth as frequent as others.
        let coding = match random.pick(&TEST_ENCODINGS) {
            TestEncoding::LateZeros if !random.one_in(10) => TestEncoding::Utf8,
            coding => coding,
        };
        let (bytes, units) = if coding == TestEncoding::Noise {
            let bytes = random_bytes(random);
            let document = Document::parse_any(bytes.clone());
            (bytes, units(&document)?)
        } else {
            let units = coding.file(random);
            let raw = units.iter().flat_map(|unit| &unit.raw);
            (coding.mark().iter().chain(raw).copied().collect(), units)
        };
        let edit = random_edit(coding, &units, random)?;
        Some(Self { coding, bytes, units, edit })
    }

    /// Plans and applies the edit, and checks positions and bytes.
    fn check(&self, random: &mut SeededRandom) -> CaseResult {
        let document = Document::parse_any(self.bytes.clone());
        let text: Vec<u8> = self.units.iter().flat_map(|unit| unit.text.clone()).collect();
        if document.text() != text {
            // The encoding was guessed wrong: these encodings are told apart only by their content.
            assert!(
                matches!(
                    self.coding,
                    TestEncoding::Latin | TestEncoding::ShiftJis | TestEncoding::Broken
                ),
                "{self:?}"
            );
            return CaseResult::Refused;
        }
        let Ok(plan) = plan_in(&document, &self.edit) else { return CaseResult::Refused };
        let after = match document.splice(&plan.replacements) {
            Ok(after) => after,
            Err(SpliceError::Unencodable(lacking)) => {
                assert!(self.edit.new.contains(lacking.character), "{self:?}");
                return CaseResult::Refused;
            }
            Err(SpliceError::NotLocal) => panic!("the edit is whole characters: {self:?}"),
        };
        self.check_places(&text, plan.strategy, &plan.replacements);
        assert_eq!(after, self.expected(&document, &plan.replacements), "{self:?}");
        self.check_several(&document, &after, random);
        CaseResult::Made(plan.strategy)
    }

    /// Returns the old bytes with the replaced characters exchanged.
    fn expected(&self, document: &Document, replacements: &[Replacement]) -> Vec<u8> {
        let mut expected = document.encoding().mark().to_vec();
        let mut from = 0;
        for Replacement { range, with } in replacements {
            let range = self.units_in(range);
            expected.extend(self.units[from..range.start].iter().flat_map(|unit| &unit.raw));
            expected.extend_from_slice(&document.encoding().encode(with).expect("it was encoded"));
            from = range.end;
        }
        expected.extend(self.units[from..].iter().flat_map(|unit| &unit.raw));
        expected
    }

    /// Returns the units of a range of the text.
    fn units_in(&self, range: &Range<usize>) -> Range<usize> {
        let mut ends = vec![0];
        ends.extend(self.units.iter().scan(0, |at, unit| {
            *at += unit.text.len();
            Some(*at)
        }));
        let whole = |at: &usize| {
            ends.binary_search(at).unwrap_or_else(|_| panic!("half a character: {self:?}"))
        };
        whole(&range.start)..whole(&range.end)
    }

    /// Checks that the replaced text is the searched text: by an independent search if it matched exactly, else apart from white space.
    fn check_places(&self, text: &[u8], strategy: MatchStrategy, replacements: &[Replacement]) {
        let old = self.edit.old.as_bytes();
        for Replacement { range, with } in replacements {
            let visible = |text: &[u8]| -> Vec<u8> {
                text.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect()
            };
            assert_eq!(visible(&text[range.clone()]), visible(old), "{self:?}");
            assert_eq!(visible(with.as_bytes()), visible(self.edit.new.as_bytes()), "{self:?}");
        }
        if strategy != MatchStrategy::Exact {
            return;
        }
        let mut places: Vec<usize> =
            (0..text.len()).filter(|at| text[*at..].starts_with(old)).collect();
        if self.edit.all {
            let mut free = 0;
            places.retain(|at| {
                let is_free = *at >= free;
                free = if is_free { at + old.len() } else { free };
                is_free
            });
        }
        let starts: Vec<usize> = replacements.iter().map(|one| one.range.start).collect();
        assert_eq!(starts, places, "{self:?}");
        assert!(replacements.iter().all(|one| one.range.len() == old.len()), "{self:?}");
    }

    /// Checks that several edits are applied one after the other, or none of them.
    fn check_several(&self, document: &Document, after: &[u8], random: &mut SeededRandom) {
        if !random.one_in(4) {
            return;
        }
        let document_after = document.with_bytes(after.to_vec());
        let shown = document_after.to_text();
        let second = TextEdit {
            old: shown
                .chars()
                .skip(random.below(shown.len() + 1))
                .take(1 + random.below(4))
                .collect(),
            new: "z".into(),
            all: random.one_in(2),
        };
        let one_by_one = plan_in(&document_after, &second)
            .ok()
            .and_then(|plan| document_after.splice(&plan.replacements).ok());
        let together = apply(document, &[self.edit.clone(), second], "f", Cutter::PLAIN).ok();
        assert_eq!(together.map(|(after, _)| after.bytes().to_vec()), one_by_one, "{self:?}");
    }
}

/// Makes an edit that searches a part of the text as a model would give it.
fn random_edit(
    coding: TestEncoding,
    units: &[TextUnit],
    random: &mut SeededRandom,
) -> Option<TextEdit> {
    // In a long file, the end is the part of interest.
    let from = units.len().saturating_sub(1 + random.below(units.len().clamp(1, 100)));
    let length = 1 + random.below(12);
    let old: Vec<u8> =
        units.iter().skip(from).take(length).flat_map(|unit| unit.text.clone()).collect();
    let mut old = String::from_utf8(old).ok()?;
    if random.one_in(2) {
        old = old.replace("\r\n", "\n");
    }
    match random.below(8) {
        0 => old = old.replace('\t', "  ").replace(" \n", "\n"),
        1 => old = old.replace(' ', "\t "),
        2 => old = format!("  {old}"),
        _ => {}
    }
    let ends = ["", "\n", "\n\n", "\r\n", " ", "日", "é", "🦀"];
    let length = random.below(5);
    let mut new: String = (0..length).map(|_| random.pick(coding.letters())).collect();
    if random.one_in(2) {
        new.push_str(random.pick(&ends));
        new.push(random.pick(coding.letters()));
    }
    Some(TextEdit { old, new, all: random.one_in(3) })
}

/// Numbers of edits made, by strategy and by encoding.
type EditCounts = ([usize; 3], [usize; TEST_ENCODINGS.len()]);

#[expect(clippy::disallowed_methods, reason = "the caller of the test sets its length")]
/// Returns the number of edits to make.
fn edits() -> usize {
    let Ok(given) = std::env::var("WINDLASS_EDITS") else { return MIN_EDITS };
    given.parse::<usize>().expect("WINDLASS_EDITS is a number").max(MIN_EDITS)
}

/// Runs random cases until this thread has made its share of edits.
fn run(thread: u64) -> EditCounts {
    let mut counts: EditCounts = Default::default();
    let mut made = 0;
    for number in 0_u64.. {
        let seed = SEED ^ (number * THREADS + thread);
        let seed_on_panic = SeedOnPanic(seed);
        let mut random = SeededRandom(seed);
        let case = EditCase::of(&mut random);
        if let Some((case, CaseResult::Made(strategy))) = case.map(|case| {
            let result = case.check(&mut random);
            (case, result)
        }) {
            made += 1;
            counts.0[strategy as usize] += 1;
            counts.1[TEST_ENCODINGS.iter().position(|one| *one == case.coding).unwrap()] += 1;
        }
        drop(seed_on_panic);
        if made * usize::try_from(THREADS).unwrap() >= edits() {
            break;
        }
    }
    counts
}

/// Prints the seed if a check fails.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    #[expect(clippy::print_stderr, reason = "it is how a failing test is repeated")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {:#x}", self.0);
        }
    }
}

#[test]
fn wr_5_no_byte_outside_of_the_span_changes_in_100_000_edits() {
    let counts: Vec<EditCounts> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|at| scope.spawn(move || run(at))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut found, mut written) = EditCounts::default();
    for (strategies, codings) in counts {
        found.iter_mut().zip(strategies).for_each(|(all, more)| *all += more);
        written.iter_mut().zip(codings).for_each(|(all, more)| *all += more);
    }
    assert!(found.iter().sum::<usize>() >= edits());
    assert!(found.iter().all(|count| *count > 500), "exact, white space, indentation: {found:?}");
    let rare: Vec<_> =
        TEST_ENCODINGS.iter().zip(written).filter(|(_, count)| *count < 500).collect();
    assert!(rare.is_empty(), "too few to show anything: {rare:?}");
}
