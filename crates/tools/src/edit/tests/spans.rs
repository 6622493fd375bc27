//! A hundred thousand edits of files that are laid out character by character, so that it is known without the engine which bytes
//! belong to which character: every byte outside of the replaced span must be the one that was there.
//!
//! There is no shrinking: a failure names its seed, and the files are small.

use std::ops::Range;

use super::super::plan::{Edit, Strategy};
use super::super::{apply, plan_in};
use crate::cut::Cutter;
use crate::document::{Document, Replacement, SpliceError};
use crate::encoding::HEAD;

/// How many edits are made, by all threads together. Those that are refused do not count. `WINDLASS_EDITS` makes it more.
const EDITS: usize = 100_000;
const THREADS: u64 = 2;
const SEED: u64 = 0x57A7_1C0D_E5EE_D001;

/// Numbers that are the same for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, but without, `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}

/// How a file is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
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
    /// UTF-8 among which there are bytes that are no characters.
    Broken,
    /// Zeros after a mark, which says that it is text all the same.
    Zeros,
    /// Zeros from the beginning: no text, but bytes in which something can be found.
    Raw,
    /// Zeros so far behind that nobody looks for them there.
    LateZeros,
    /// Any bytes.
    Noise,
}

const CODINGS: [Coding; 13] = [
    Coding::Utf8,
    Coding::Utf8Bom,
    Coding::Utf16Le { mark: true },
    Coding::Utf16Le { mark: false },
    Coding::Utf16Be { mark: true },
    Coding::Utf16Be { mark: false },
    Coding::Latin,
    Coding::ShiftJis,
    Coding::Broken,
    Coding::Zeros,
    Coding::Raw,
    Coding::LateZeros,
    Coding::Noise,
];

/// A part of a file that is never cut: what it says, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    text: Vec<u8>,
    raw: Vec<u8>,
}

impl Coding {
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8Bom | Self::Zeros => b"\xef\xbb\xbf",
            Self::Utf16Le { mark: true } => b"\xff\xfe",
            Self::Utf16Be { mark: true } => b"\xfe\xff",
            _ => b"",
        }
    }

    fn unit(self, character: char) -> Unit {
        let text = character.to_string();
        let raw = match self {
            Self::Utf16Le { .. } => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be { .. } => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Latin => encoding_rs::WINDOWS_1252.encode(&text).0.into_owned(),
            Self::ShiftJis => encoding_rs::SHIFT_JIS.encode(&text).0.into_owned(),
            _ => text.clone().into_bytes(),
        };
        Unit { text: text.into_bytes(), raw }
    }

    /// What the file begins with, where its encoding must be guessed.
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

    /// A file of a few lines, each with an ending of its own, the last perhaps without.
    fn file(self, dice: &mut Dice) -> Vec<Unit> {
        let mut units: Vec<Unit> = self.beginning().chars().map(|c| self.unit(c)).collect();
        if self == Self::Raw {
            // So many that it cannot be UTF-16.
            units.extend((0..8).map(|_| Unit { text: vec![0], raw: vec![0] }));
        }
        if self == Self::LateZeros {
            let head = vec![b'#'; HEAD];
            units.push(Unit { text: head.clone(), raw: head });
            units.push(self.unit('\n'));
        }
        let endings: &[&str] =
            dice.pick(&[&["\n"][..], &["\r\n"], &["\n", "\r\n"], &["\n", "\r\n", "\r"]]);
        let lines = 1 + dice.below(7);
        for line in 0..lines {
            let length = dice.below(10);
            units.extend((0..length).map(|_| self.piece(dice)));
            if line + 1 < lines || dice.one_in(2) {
                units.extend(dice.pick(endings).chars().map(|c| self.unit(c)));
            }
        }
        units
    }

    fn piece(self, dice: &mut Dice) -> Unit {
        let byte = match self {
            Self::Broken if dice.one_in(4) => dice.pick(&[0xff, 0xfe, 0x80, 0xc0]),
            Self::Zeros | Self::Raw if dice.one_in(4) => dice.pick(&[0, 0, 0xff]),
            Self::LateZeros if dice.one_in(4) => 0,
            _ => return self.unit(dice.pick(self.letters())),
        };
        Unit { text: vec![byte], raw: vec![byte] }
    }
}

/// Any bytes, most of them such that something can be found in them.
fn noise(dice: &mut Dice) -> Vec<u8> {
    let length = 1 + dice.below(60);
    let byte = |dice: &mut Dice| match dice.below(6) {
        0 => u8::try_from(dice.below(256)).unwrap(),
        1 => dice.pick(b"\r\n\n \t"),
        _ => dice.pick(b"abcd"),
    };
    (0..length).map(|_| byte(dice)).collect()
}

/// What a document is made of, where that is known: bytes are characters, or parts of them.
fn units(document: &Document) -> Option<Vec<Unit>> {
    let body = &document.bytes()[document.encoding().mark().len()..];
    let unit = |text: &[u8], raw: &[u8]| Unit { text: text.to_vec(), raw: raw.to_vec() };
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

/// One edit of one file.
struct Case {
    coding: Coding,
    bytes: Vec<u8>,
    units: Vec<Unit>,
    edit: Edit,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.bytes.len().saturating_sub(400);
        let bytes = self.bytes[end..].escape_ascii();
        write!(f, "{:?} \"{bytes}\" {:?}", self.coding, self.edit)
    }
}

/// What became of it.
enum Came {
    /// It was made, and this is how it was found.
    Made(Strategy),
    Refused,
}

impl Case {
    fn of(dice: &mut Dice) -> Option<Self> {
        // The long ones are a tenth as often as the others.
        let coding = match dice.pick(&CODINGS) {
            Coding::LateZeros if !dice.one_in(10) => Coding::Utf8,
            coding => coding,
        };
        let (bytes, units) = if coding == Coding::Noise {
            let bytes = noise(dice);
            let document = Document::parse_any(bytes.clone());
            (bytes, units(&document)?)
        } else {
            let units = coding.file(dice);
            let raw = units.iter().flat_map(|unit| &unit.raw);
            (coding.mark().iter().chain(raw).copied().collect(), units)
        };
        let edit = wanted(coding, &units, dice)?;
        Some(Self { coding, bytes, units, edit })
    }

    fn check(&self, dice: &mut Dice) -> Came {
        let document = Document::parse_any(self.bytes.clone());
        let text: Vec<u8> = self.units.iter().flat_map(|unit| unit.text.clone()).collect();
        if document.text() != text {
            // A guess that is wrong: these are told from others by what is in them alone.
            assert!(
                matches!(self.coding, Coding::Latin | Coding::ShiftJis | Coding::Broken),
                "{self:?}"
            );
            return Came::Refused;
        }
        let Ok(plan) = plan_in(&document, &self.edit) else { return Came::Refused };
        let after = match document.splice(&plan.replacements) {
            Ok(after) => after,
            Err(SpliceError::Unencodable(lacking)) => {
                assert!(self.edit.new.contains(lacking.character), "{self:?}");
                return Came::Refused;
            }
            Err(SpliceError::NotLocal) => panic!("the edit is whole characters: {self:?}"),
        };
        self.check_places(&text, plan.strategy, &plan.replacements);
        assert_eq!(after, self.expected(&document, &plan.replacements), "{self:?}");
        self.check_several(&document, &after, dice);
        Came::Made(plan.strategy)
    }

    /// The old bytes, but for those of the characters that are replaced.
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

    /// A part of the text as whole units.
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

    /// What is replaced is what was asked for: by a search of its own if it was found exactly, but for white space otherwise.
    fn check_places(&self, text: &[u8], strategy: Strategy, replacements: &[Replacement]) {
        let old = self.edit.old.as_bytes();
        for Replacement { range, with } in replacements {
            let visible = |text: &[u8]| -> Vec<u8> {
                text.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect()
            };
            assert_eq!(visible(&text[range.clone()]), visible(old), "{self:?}");
            assert_eq!(visible(with.as_bytes()), visible(self.edit.new.as_bytes()), "{self:?}");
        }
        if strategy != Strategy::Exact {
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

    /// Several edits are one after the other, or none of them.
    fn check_several(&self, document: &Document, after: &[u8], dice: &mut Dice) {
        if !dice.one_in(4) {
            return;
        }
        let document_after = document.with_bytes(after.to_vec());
        let shown = document_after.to_text();
        let second = Edit {
            old: shown.chars().skip(dice.below(shown.len() + 1)).take(1 + dice.below(4)).collect(),
            new: "z".into(),
            all: dice.one_in(2),
        };
        let one_by_one = plan_in(&document_after, &second)
            .ok()
            .and_then(|plan| document_after.splice(&plan.replacements).ok());
        let together = apply(document, &[self.edit.clone(), second], "f", Cutter::PLAIN).ok();
        assert_eq!(together.map(|(after, _)| after.bytes().to_vec()), one_by_one, "{self:?}");
    }
}

/// A part of the text as a model would give it back, and something else.
fn wanted(coding: Coding, units: &[Unit], dice: &mut Dice) -> Option<Edit> {
    // What is interesting in a long file is at its end.
    let from = units.len().saturating_sub(1 + dice.below(units.len().clamp(1, 100)));
    let length = 1 + dice.below(12);
    let old: Vec<u8> =
        units.iter().skip(from).take(length).flat_map(|unit| unit.text.clone()).collect();
    let mut old = String::from_utf8(old).ok()?;
    if dice.one_in(2) {
        old = old.replace("\r\n", "\n");
    }
    match dice.below(8) {
        0 => old = old.replace('\t', "  ").replace(" \n", "\n"),
        1 => old = old.replace(' ', "\t "),
        2 => old = format!("  {old}"),
        _ => {}
    }
    let ends = ["", "\n", "\n\n", "\r\n", " ", "日", "é", "🦀"];
    let length = dice.below(5);
    let mut new: String = (0..length).map(|_| dice.pick(coding.letters())).collect();
    if dice.one_in(2) {
        new.push_str(dice.pick(&ends));
        new.push(dice.pick(coding.letters()));
    }
    Some(Edit { old, new, all: dice.one_in(3) })
}

/// How many edits were made, by how they were found and by how the file is written down.
type Counts = ([usize; 3], [usize; CODINGS.len()]);

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says how far they go")]
fn edits() -> usize {
    let Ok(given) = std::env::var("WINDLASS_EDITS") else { return EDITS };
    given.parse::<usize>().expect("WINDLASS_EDITS is a number").max(EDITS)
}

fn run(thread: u64) -> Counts {
    let mut counts: Counts = Default::default();
    let mut made = 0;
    for number in 0_u64.. {
        let seed = SEED ^ (number * THREADS + thread);
        let told = Told(seed);
        let mut dice = Dice(seed);
        let case = Case::of(&mut dice);
        if let Some((case, Came::Made(strategy))) = case.map(|case| {
            let came = case.check(&mut dice);
            (case, came)
        }) {
            made += 1;
            counts.0[strategy as usize] += 1;
            counts.1[CODINGS.iter().position(|one| *one == case.coding).unwrap()] += 1;
        }
        drop(told);
        if made * usize::try_from(THREADS).unwrap() >= edits() {
            break;
        }
    }
    counts
}

/// Says which seed it was if a check fails.
struct Told(u64);

impl Drop for Told {
    #[expect(clippy::print_stderr, reason = "it is how a failing test is repeated")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {:#x}", self.0);
        }
    }
}

#[test]
fn wr_5_no_byte_outside_of_the_span_changes_in_100_000_edits() {
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|at| scope.spawn(move || run(at))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut found, mut written) = Counts::default();
    for (strategies, codings) in counts {
        found.iter_mut().zip(strategies).for_each(|(all, more)| *all += more);
        written.iter_mut().zip(codings).for_each(|(all, more)| *all += more);
    }
    assert!(found.iter().sum::<usize>() >= edits());
    assert!(found.iter().all(|count| *count > 500), "exact, white space, indentation: {found:?}");
    let rare: Vec<_> = CODINGS.iter().zip(written).filter(|(_, count)| *count < 500).collect();
    assert!(rare.is_empty(), "too few to show anything: {rare:?}");
}
