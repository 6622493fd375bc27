//! The arguments of a command, sorted into options, words and paths, with nothing among them that could be more than it seems.
//!
//! Every option is looked up in the tables of [`verbs`](super::verbs) and is handed on with its value joined to it, so that no value
//! can be taken for an option; a word never begins with a dash. Abbreviations, which git would complete, are not known here.

use std::iter::Peekable;
use std::slice::Iter;

use windlass_core::{ToolError, nearest};

use super::verbs::{Choice, NUMBER, Takes, Verb, Words};

/// Arguments that were understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    /// Options as git gets them, values joined.
    pub(super) options: Vec<String>,
    /// The names of the options.
    pub(super) given: Vec<&'static str>,
    /// Revisions, names and the like.
    pub(super) words: Vec<String>,
    /// What stood behind `--`.
    pub(super) paths: Vec<String>,
}

impl Sorted {
    /// Sorts the arguments of a command.
    pub(super) fn of(verb: &Verb, args: &[String]) -> Result<Self, ToolError> {
        let mut sorted = Self::default();
        let mut rest = args.iter().peekable();
        while let Some(arg) = rest.next() {
            if arg.contains('\0') {
                return Err(ToolError::invalid_args("an argument has a NUL character in it"));
            }
            if arg == "--" {
                sorted.paths.extend(rest.cloned());
                break;
            }
            if let Some(long) = arg.strip_prefix("--") {
                sorted.long(verb, long, &mut rest)?;
            } else if let Some(cluster) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                sorted.short(verb, cluster, &mut rest)?;
            } else if arg == "-" && verb.words != Words::Branches {
                return Err(unknown(verb, "-"));
            } else if arg.is_empty() {
                return Err(ToolError::invalid_args("an argument is empty"));
            } else {
                sorted.words.push(arg.clone());
            }
        }
        Ok(sorted)
    }

    /// Whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(given))
    }

    /// `--name`, `--name=value`, or `--name` with its value behind it.
    fn long(
        &mut self,
        verb: &Verb,
        text: &str,
        rest: &mut Peekable<Iter<'_, String>>,
    ) -> Result<(), ToolError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = verb.option(name).filter(|_| name.len() > 1 && name != NUMBER);
        let choice = known.ok_or_else(|| unknown(verb, &format!("--{name}")))?;
        let dashed = format!("--{name}");
        let option = match (choice.takes, value) {
            (Takes::Nothing, Some(_)) => {
                return Err(ToolError::invalid_args(format!("`{dashed}` takes no value")));
            }
            (Takes::Nothing | Takes::MaybeValue, None) => dashed,
            (_, Some(value)) => format!("{dashed}={value}"),
            (Takes::Value, None) => format!("{dashed}={}", behind(&dashed, "=", rest)?),
            (Takes::Commit, None) => {
                let commit = rest.next_if(|next| !next.starts_with('-') && !next.is_empty());
                format!("{dashed}={}", commit.map_or("HEAD", String::as_str))
            }
        };
        self.push(choice, option)
    }

    /// `-20`, or one letter after the other, of which the last may have a value.
    fn short(
        &mut self,
        verb: &Verb,
        cluster: &str,
        rest: &mut Peekable<Iter<'_, String>>,
    ) -> Result<(), ToolError> {
        if cluster.bytes().all(|byte| byte.is_ascii_digit()) && verb.takes_numbers() {
            self.options.push(format!("-{cluster}"));
            self.given.push("max-count");
            return Ok(());
        }
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            let dashed = format!("-{letter}");
            let known = verb.option(dashed.trim_start_matches('-'));
            let choice = known.ok_or_else(|| unknown(verb, &dashed))?;
            if choice.takes == Takes::Nothing {
                self.push(choice, dashed)?;
                continue;
            }
            let joined = letters.as_str();
            let value = match choice.takes {
                Takes::Value if joined.is_empty() => behind(&dashed, "", rest)?,
                _ => joined.to_owned(),
            };
            return self.push(choice, format!("{dashed}{value}"));
        }
        Ok(())
    }

    fn push(&mut self, choice: Choice, option: String) -> Result<(), ToolError> {
        // What stands for a signature is asked of a program that the configuration names.
        if matches!(choice.name(), "format" | "pretty") && option.contains("%G") {
            let error = ToolError::invalid_args(format!("`{option}` would run a program"));
            return Err(error.hint("signatures (`%G…`) cannot be shown here"));
        }
        self.given.push(choice.name());
        self.options.push(option);
        Ok(())
    }
}

/// The value that stands behind an option.
fn behind(
    dashed: &str,
    joint: &str,
    rest: &mut Peekable<Iter<'_, String>>,
) -> Result<String, ToolError> {
    match rest.next() {
        Some(value) if value.starts_with('-') => Err(ToolError::invalid_args(format!(
            "`{dashed}` needs a value, and `{value}` looks like an option"
        ))
        .hint(format!("if it is the value, write `{dashed}{joint}{value}`"))),
        Some(value) if !value.is_empty() => Ok(value.clone()),
        _ => Err(ToolError::invalid_args(format!("`{dashed}` needs a value"))),
    }
}

fn unknown(verb: &Verb, option: &str) -> ToolError {
    let name = verb.name;
    let known = verb.spelled();
    let error = ToolError::invalid_args(format!("`git {name}` takes no option `{option}` here"));
    let near = nearest(option, known.iter().map(String::as_str).filter(|name| name.len() > 2));
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let all = if known.is_empty() { "none".to_owned() } else { known.join(" ") };
    error.hint(format!("{near}options are {all}"))
}
