//! Programs that run another one with its words: they are looked through, and what they run is what counts. Their rows are in the
//! [table](super::programs::table).

use windlass_core::OnlyReads;

use super::found::Found;
use super::programs::options::{self, Sorted};
use super::programs::table::{self, Kind, Part, Program, Then, Wrap};
use super::syntax::Word;
use super::variables;

/// What a command turns out to run.
#[derive(Debug)]
pub(super) enum Unwrapped {
    /// Itself.
    Nothing,
    /// These words; `is_part` if it is itself a command that has to be allowed.
    Command { words: Vec<Word>, has_more: bool, is_part: bool },
    /// Scripts, for bash or for any shell.
    Scripts { scripts: Vec<Word>, is_bash: bool, is_part: bool },
    /// Something that is not known; nothing that a rule says could cover it.
    Unknown,
}

const UNKNOWN: &str = "has options that are not known here";
const STARTS_SHELL: &str = "starts a shell";

/// Looks through one wrapper, which the tables know by this name.
pub(super) fn unwrap(name: &str, words: &[Word], found: &mut Found) -> Unwrapped {
    let second = words.get(1).map_or("", |word| word.text.as_str());
    match name {
        "sh" | "bash" | "dash" => return script(name, words, found),
        "command" if matches!(second, "-v" | "-V") => {
            found.reads(OnlyReads::Always);
            return Unwrapped::Nothing;
        }
        "direnv" if second != "exec" => return Unwrapped::Nothing,
        "env" => return env(words, found),
        _ => {}
    }
    let Some((row, wrap)) = row(name) else { return Unwrapped::Nothing };
    let sorted = options::sort_leading(&[row.options], words, 1, found);
    let Some(begin) = begin(&sorted, words) else { return unknown(words, found) };
    let from = begin + wrap.skip;
    let between = words.get(begin..from.min(words.len())).unwrap_or_default();
    // Some may leave out the word before the command: `setarch -R rm x` runs `rm`.
    let is_expected = |word: &Word| match wrap.part {
        Part::Transparent if name == "setarch" => begin == 1,
        Part::Transparent => word.text.starts_with(|c: char| c.is_ascii_digit() || c == '.'),
        Part::Own | Part::OtherRights => true,
    };
    if between.iter().any(|word| word.could_be_option() || !is_expected(word)) {
        found.unseen("is given words that are not known");
        return Unwrapped::Unknown;
    }
    if wrap.part == Part::OtherRights {
        found.risk(0, "gives other rights");
    }
    let inner = words.get(from..).unwrap_or_default();
    if inner.is_empty() {
        return without_command(wrap, found);
    }
    inner_of(name, wrap, &sorted, inner, found)
}

fn row(name: &str) -> Option<(&'static Program, Wrap)> {
    let row = table::find(name)?;
    let Kind::Wraps(wrap) = row.kind else { return None };
    Some((row, wrap))
}

/// Where the words behind the options begin; `None` if an option is not known.
fn begin(sorted: &Sorted, words: &[Word]) -> Option<usize> {
    let begin = sorted.operands.first().copied().unwrap_or(words.len());
    (!sorted.has_unknown).then_some(begin)
}

fn unknown(words: &[Word], found: &mut Found) -> Unwrapped {
    found.risk(words.len(), UNKNOWN);
    found.unseen(UNKNOWN);
    Unwrapped::Unknown
}

/// A wrapper that is given nothing to run. One that changes how a command fares then runs nothing; the others start a shell.
fn without_command(wrap: Wrap, found: &mut Found) -> Unwrapped {
    if wrap.part != Part::Transparent && found.scripts.is_empty() {
        found.unseen(STARTS_SHELL);
    }
    Unwrapped::Nothing
}

fn inner_of(
    name: &str,
    wrap: Wrap,
    sorted: &Sorted,
    inner: &[Word],
    found: &mut Found,
) -> Unwrapped {
    // Options that write or run something make it more than a wrapper.
    let is_part = wrap.part != Part::Transparent || !found.risks.is_empty();
    let command =
        |words: &[Word], has_more| Unwrapped::Command { words: words.to_vec(), has_more, is_part };
    let scripts = |scripts: Vec<Word>| Unwrapped::Scripts { scripts, is_bash: false, is_part };
    match (wrap.then, name) {
        (_, "flock") if inner.first().is_some_and(|word| word.text == "-c") => {
            scripts(inner.get(1..2).unwrap_or_default().to_vec())
        }
        (_, "watch") if sorted.has(&["x"]) => command(inner, false),
        (_, "entr") if sorted.has(&["s"]) => scripts(vec![joined(inner)]),
        // It puts the name of a file in place of `/_`.
        (_, "entr") => command(inner, true),
        (Then::Words, _) => command(inner, false),
        (Then::Joined, _) => {
            if name == "ssh" {
                found.unseen("runs it on another machine");
            }
            scripts(vec![joined(inner)])
        }
        (Then::Scripts, _) => scripts(inner.to_vec()),
        (Then::Template, _) => {
            let end = inner.iter().position(|word| word.text.starts_with(":::"));
            command(inner.get(..end.unwrap_or(inner.len())).unwrap_or_default(), true)
        }
    }
}

/// Words with blanks between them, as a shell is given them.
fn joined(words: &[Word]) -> Word {
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Word {
        text: text.join(" "),
        is_open: words.iter().any(|word| word.is_open || word.pattern.is_some()),
        ..Word::default()
    }
}

const ENV: &str = "\
    i,ignore-environment 0,null u,unset= C,chdir=^ S,split-string= v,debug block-signal? default-signal? ignore-signal? \
    list-signal-handling a,argv0=";

/// `env A=b command`: variables that change what is run make it a command that has to be allowed too.
fn env(words: &[Word], found: &mut Found) -> Unwrapped {
    let sorted = options::sort_leading(&[ENV], words, 1, found);
    let Some(mut from) = begin(&sorted, words) else { return unknown(words, found) };
    // A lone dash is an option too.
    if words.get(from).is_some_and(|word| word.text == "-") {
        from += 1;
    }
    let is_set = |word: &&Word| word.text.contains('=') && !word.text.starts_with('=');
    let rest = words.get(from..).unwrap_or_default();
    let set = rest.iter().take_while(is_set).count();
    for (at, word) in rest.iter().take(set).enumerate() {
        let name = word.text.split('=').next().unwrap_or_default();
        if word.could_be_option() || variables::changes_what_runs(name) {
            found.risk(from + at, "sets a variable that changes what is run");
            found.unseen("sets a variable that changes what is run");
        }
    }
    let mut inner = Vec::new();
    for (_, text) in sorted.values("S") {
        let is_plain = |c: char| c.is_alphanumeric() || " _-./=:,+@%".contains(c);
        if text.is_open || !text.text.chars().all(is_plain) {
            found.unseen("splits a text into words");
            return Unwrapped::Unknown;
        }
        inner.extend(text.text.split_whitespace().map(Word::literal));
    }
    let is_split = !inner.is_empty();
    inner.extend(rest.iter().skip(set).cloned());
    let is_part = !found.risks.is_empty();
    if inner.is_empty() {
        // It prints what is set.
        found.reads(OnlyReads::Always);
        return Unwrapped::Nothing;
    }
    if is_split {
        // What is split may begin with options and variables again.
        inner.insert(0, Word::literal("env"));
    }
    Unwrapped::Command { words: inner, has_more: false, is_part }
}

/// The texts in the words of a command that `xargs` replaces by what it reads.
pub(super) fn replaced_by_xargs(words: &[Word]) -> Vec<String> {
    let Some((row, _)) = row("xargs") else { return Vec::new() };
    let sorted = options::sort_leading(&[row.options], words, 1, &mut Found::default());
    let named = sorted.values("I").chain(sorted.values("i")).map(|(_, text)| text.text.clone());
    let usual = sorted.has(&["i"]).then(|| "{}".to_owned());
    named.chain(usual).filter(|text| !text.is_empty()).collect()
}

/// `sh -c '…'`: a script is looked into. With letters that make the shell read more than that, it is a command of its own.
fn script(name: &str, words: &[Word], found: &mut Found) -> Unwrapped {
    let (mut at, mut has_script, mut is_plain) = (1, false, true);
    let is_option = |word: &&Word| word.text.starts_with(['-', '+']) && word.text.len() > 1;
    while let Some(word) = words.get(at).filter(is_option) {
        let letters = word.text.strip_prefix('-').unwrap_or("?");
        has_script |= letters.contains('c') && !letters.starts_with('-');
        is_plain &= letters.chars().all(|c| matches!(c, 'c' | 'e' | 'u' | 'x'));
        // `-o` takes a word.
        at += 1 + usize::from(letters.contains('o') && !letters.starts_with('-'));
    }
    let Some(text) = words.get(at).filter(|_| has_script) else { return Unwrapped::Nothing };
    if !is_plain {
        found.risk(words.len(), "starts a shell in an unusual way");
        found.unseen("starts a shell in an unusual way");
    }
    let scripts = vec![text.clone()];
    Unwrapped::Scripts { scripts, is_bash: name == "bash", is_part: !is_plain }
}

/// Whether a script means the same to any shell as it does to bash.
pub(super) fn is_portable(script: &str) -> bool {
    let bytes = script.as_bytes();
    let is_descriptor =
        |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    let joins = bytes.windows(2).enumerate().any(|(at, pair)| match pair {
        b"&>" | b"|&" | b";&" => true,
        b">&" | b"<&" => !is_descriptor(at + 2),
        _ => false,
    });
    !joins
        && !script.contains("<<<")
        && !script.contains('!')
        && !script.contains("time")
        && script.is_ascii()
}
