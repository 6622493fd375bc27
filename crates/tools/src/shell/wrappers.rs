//! Finds the command behind a wrapper, which is a program that runs another one with its words, such as `env`, `timeout` or `sudo`. The
//! wrappers are rows of the [table](super::programs::table).

use windlass_core::OnlyReads;

use super::command_facts::CommandFacts;
use super::programs::options::{self, ParsedOptions};
use super::programs::table::{self, InnerForm, Program, ProgramKind, Wrapper, WrapperPolicy};
use super::syntax::Word;
use super::variables;

/// The result of looking behind a wrapper.
#[derive(Debug)]
pub(super) enum Unwrapped {
    /// The command is no wrapper, or a wrapper without an inner command.
    Itself,
    /// The command runs these words. `has_more` is true if it adds words of its own; `is_own_command` if a rule has to allow the wrapper
    /// too.
    Command { words: Vec<Word>, has_more: bool, is_own_command: bool },
    /// The command gives these scripts to a shell. `is_own_command` is true if a rule has to allow the wrapper too.
    Scripts { scripts: Vec<Word>, is_bash: bool, is_own_command: bool },
    /// The command runs something that cannot be determined, so no rule can cover it.
    Unknown,
}

/// Reason for a wrapper behind whose options no command can be found.
const UNKNOWN_OPTIONS: &str = "has options that are not known here";
/// Reason for a wrapper without a command.
const STARTS_SHELL: &str = "starts a shell";

/// Looks behind one wrapper. `name` is the name of the program in the tables, `words` the whole command.
pub(super) fn unwrap(name: &str, words: &[Word], facts: &mut CommandFacts) -> Unwrapped {
    let second = words.get(1).map_or("", |word| word.text.as_str());
    match name {
        "sh" | "bash" | "dash" => return unwrap_shell(name, words, facts),
        "command" if matches!(second, "-v" | "-V") => {
            facts.set_only_reads(OnlyReads::Always);
            return Unwrapped::Itself;
        }
        "direnv" if second != "exec" => return Unwrapped::Itself,
        "env" => return unwrap_env(words, facts),
        _ => {}
    }
    let Some((row, wrap)) = wrapper_row(name) else { return Unwrapped::Itself };
    let parsed = options::parse_leading(&[row.options], words, 1, facts);
    let Some(begin) = first_operand(&parsed, words) else { return unknown_option(words, facts) };
    let from = begin + wrap.words_before_command;
    let between = words.get(begin..from.min(words.len())).unwrap_or_default();
    // Some wrappers allow to omit the word before the command: `setarch -R rm x` runs `rm`.
    let is_expected = |word: &Word| match wrap.policy {
        WrapperPolicy::Transparent if name == "setarch" => begin == 1,
        WrapperPolicy::Transparent => {
            word.text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        }
        WrapperPolicy::OwnCommand | WrapperPolicy::OtherRights => true,
    };
    if between.iter().any(|word| word.could_be_option() || !is_expected(word)) {
        facts.mark_unseen("gets arguments that are not known");
        return Unwrapped::Unknown;
    }
    if wrap.policy == WrapperPolicy::OtherRights {
        facts.add_risk(0, "gives other rights to the command");
    }
    let inner = words.get(from..).unwrap_or_default();
    if inner.is_empty() {
        return without_command(wrap, facts);
    }
    unwrap_inner(name, wrap, &parsed, inner, facts)
}

/// Returns the row of a wrapper; `None` for other programs.
fn wrapper_row(name: &str) -> Option<(&'static Program, Wrapper)> {
    let row = table::find(name)?;
    let ProgramKind::Wraps(wrap) = row.kind else { return None };
    Some((row, wrap))
}

/// Returns the index of the first word behind the options; `None` if an option is unknown.
fn first_operand(parsed: &ParsedOptions, words: &[Word]) -> Option<usize> {
    let begin = parsed.operands.first().copied().unwrap_or(words.len());
    (!parsed.has_unknown).then_some(begin)
}

/// Notes the risk of an unknown option, behind which no command can be found.
fn unknown_option(words: &[Word], facts: &mut CommandFacts) -> Unwrapped {
    facts.add_risk(words.len(), UNKNOWN_OPTIONS);
    facts.mark_unseen(UNKNOWN_OPTIONS);
    Unwrapped::Unknown
}

/// Handles a wrapper without a command. A transparent wrapper then runs nothing; the others start a shell.
fn without_command(wrap: Wrapper, facts: &mut CommandFacts) -> Unwrapped {
    if wrap.policy != WrapperPolicy::Transparent && facts.scripts.is_empty() {
        facts.mark_unseen(STARTS_SHELL);
    }
    Unwrapped::Itself
}

/// Decides in which form a wrapper runs the words behind its options.
fn unwrap_inner(
    name: &str,
    wrap: Wrapper,
    parsed: &ParsedOptions,
    inner: &[Word],
    facts: &mut CommandFacts,
) -> Unwrapped {
    // Options that write or run something make it more than a wrapper.
    let is_own_command = wrap.policy != WrapperPolicy::Transparent || !facts.risks.is_empty();
    let command = |words: &[Word], has_more| Unwrapped::Command {
        words: words.to_vec(),
        has_more,
        is_own_command,
    };
    let scripts =
        |scripts: Vec<Word>| Unwrapped::Scripts { scripts, is_bash: false, is_own_command };
    match (wrap.inner_form, name) {
        (_, "flock") if inner.first().is_some_and(|word| word.text == "-c") => {
            scripts(inner.get(1..2).unwrap_or_default().to_vec())
        }
        (_, "watch") if parsed.has(&["x"]) => command(inner, false),
        (_, "entr") if parsed.has(&["s"]) => scripts(vec![join_words(inner)]),
        // `entr` replaces `/_` by the name of a file.
        (_, "entr") => command(inner, true),
        (InnerForm::Words, _) => command(inner, false),
        (InnerForm::Joined, _) => {
            if name == "ssh" {
                facts.mark_unseen("runs it on another machine");
            }
            scripts(vec![join_words(inner)])
        }
        (InnerForm::Scripts, _) => scripts(inner.to_vec()),
        (InnerForm::Template, _) => {
            let end = inner.iter().position(|word| word.text.starts_with(":::"));
            command(inner.get(..end.unwrap_or(inner.len())).unwrap_or_default(), true)
        }
    }
}

/// Joins words with blanks into one script, as `watch` and `ssh` do.
fn join_words(words: &[Word]) -> Word {
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    Word {
        text: text.join(" "),
        is_incomplete: words.iter().any(|word| word.is_incomplete || word.glob_at.is_some()),
        ..Word::default()
    }
}

/// The option table of `env`.
const ENV_OPTIONS: &str = "\
    i,ignore-environment 0,null u,unset= C,chdir=^ S,split-string= v,debug block-signal? default-signal? ignore-signal? \
    list-signal-handling a,argv0=";

/// Looks behind `env A=b command`. A variable that changes the execution of programs makes `env` a command that a rule has to allow too.
fn unwrap_env(words: &[Word], facts: &mut CommandFacts) -> Unwrapped {
    let parsed = options::parse_leading(&[ENV_OPTIONS], words, 1, facts);
    let Some(mut from) = first_operand(&parsed, words) else { return unknown_option(words, facts) };
    // A lone dash is an option too.
    if words.get(from).is_some_and(|word| word.text == "-") {
        from += 1;
    }
    let is_set = |word: &&Word| word.text.contains('=') && !word.text.starts_with('=');
    let rest = words.get(from..).unwrap_or_default();
    let set = rest.iter().take_while(is_set).count();
    for (at, word) in rest.iter().take(set).enumerate() {
        let name = word.text.split('=').next().unwrap_or_default();
        if word.could_be_option() || variables::affects_execution(name) {
            facts.add_risk(from + at, "sets a variable that changes which programs run");
            facts.mark_unseen("sets a variable that changes which programs run");
        }
    }
    let mut inner = Vec::new();
    for (_, text) in parsed.values("S") {
        let is_plain = |c: char| c.is_alphanumeric() || " _-./=:,+@%".contains(c);
        if text.is_incomplete || !text.text.chars().all(is_plain) {
            facts.mark_unseen("splits a text into words in an unusual way");
            return Unwrapped::Unknown;
        }
        inner.extend(text.text.split_whitespace().map(Word::literal));
    }
    let is_split = !inner.is_empty();
    inner.extend(rest.iter().skip(set).cloned());
    let is_own_command = !facts.risks.is_empty();
    if inner.is_empty() {
        // Without a command, `env` prints the variables.
        facts.set_only_reads(OnlyReads::Always);
        return Unwrapped::Itself;
    }
    if is_split {
        // The split text may begin with options and variables again.
        inner.insert(0, Word::literal("env"));
    }
    Unwrapped::Command { words: inner, has_more: false, is_own_command }
}

/// Returns the placeholders of an `xargs` command (`-I {}`), which it replaces by words of its input.
pub(super) fn replaced_by_xargs(words: &[Word]) -> Vec<String> {
    let Some((row, _)) = wrapper_row("xargs") else { return Vec::new() };
    let parsed = options::parse_leading(&[row.options], words, 1, &mut CommandFacts::default());
    let named = parsed.values("I").chain(parsed.values("i")).map(|(_, text)| text.text.clone());
    let usual = parsed.has(&["i"]).then(|| "{}".to_owned());
    named.chain(usual).filter(|text| !text.is_empty()).collect()
}

/// Looks behind `sh -c 'script'`. With unusual options the shell is also a command that a rule has to allow.
fn unwrap_shell(name: &str, words: &[Word], facts: &mut CommandFacts) -> Unwrapped {
    let (mut at, mut has_script, mut is_plain) = (1, false, true);
    let is_option = |word: &&Word| word.text.starts_with(['-', '+']) && word.text.len() > 1;
    while let Some(word) = words.get(at).filter(is_option) {
        let letters = word.text.strip_prefix('-').unwrap_or("?");
        has_script |= letters.contains('c') && !letters.starts_with('-');
        is_plain &= letters.chars().all(|c| matches!(c, 'c' | 'e' | 'u' | 'x'));
        // `-o` takes a word.
        at += 1 + usize::from(letters.contains('o') && !letters.starts_with('-'));
    }
    let Some(text) = words.get(at).filter(|_| has_script) else { return Unwrapped::Itself };
    if !is_plain {
        facts.add_risk(words.len(), "starts a shell in an unusual way");
        facts.mark_unseen("starts a shell in an unusual way");
    }
    let scripts = vec![text.clone()];
    Unwrapped::Scripts { scripts, is_bash: name == "bash", is_own_command: !is_plain }
}

/// Returns whether other shells read a script as bash does.
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
