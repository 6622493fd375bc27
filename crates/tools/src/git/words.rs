//! Parses the arguments of a command into options, words and paths.
//!
//! Every option is looked up in the tables of [`verbs`](super::verbs) and is passed on with its value joined to it, so that a value
//! cannot be read as an option; a word never begins with a dash. Abbreviations, which git would complete, are unknown here.

use std::iter::Peekable;
use std::slice::Iter;

use windlass_core::{ToolError, nearest};

use super::verbs::{GitOption, NUMBER_OPTION, OptionValue, Verb, WordKind};

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedArguments {
    /// Options as git gets them, with joined values.
    pub(super) options: Vec<String>,
    /// Long names of the options.
    pub(super) option_names: Vec<&'static str>,
    /// Revisions, names and other words.
    pub(super) words: Vec<String>,
    /// Arguments after `--`.
    pub(super) paths: Vec<String>,
}

impl ParsedArguments {
    /// Parses the arguments of a command.
    pub(super) fn of(verb: &Verb, args: &[String]) -> Result<Self, ToolError> {
        let mut parsed = Self::default();
        let mut rest = args.iter().peekable();
        while let Some(arg) = rest.next() {
            if arg.contains('\0') {
                return Err(ToolError::invalid_args("an argument has a NUL character in it"));
            }
            if arg == "--" {
                parsed.paths.extend(rest.cloned());
                break;
            }
            if let Some(long) = arg.strip_prefix("--") {
                parsed.parse_long(verb, long, &mut rest)?;
            } else if let Some(cluster) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                parsed.parse_short(verb, cluster, &mut rest)?;
            } else if arg == "-" && verb.words != WordKind::Branches {
                return Err(unknown_option(verb, "-"));
            } else if arg.is_empty() {
                return Err(ToolError::invalid_args("an argument is empty"));
            } else {
                parsed.words.push(arg.clone());
            }
        }
        Ok(parsed)
    }

    /// Returns whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.option_names.iter().any(|option_names| names.contains(option_names))
    }

    /// Parses `--name`, `--name=value`, or `--name` and the value in the next argument.
    fn parse_long(
        &mut self,
        verb: &Verb,
        text: &str,
        rest: &mut Peekable<Iter<'_, String>>,
    ) -> Result<(), ToolError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = verb.option(name).filter(|_| name.len() > 1 && name != NUMBER_OPTION);
        let option = known.ok_or_else(|| unknown_option(verb, &format!("--{name}")))?;
        let dashed = format!("--{name}");
        let text = match (option.takes, value) {
            (OptionValue::Nothing, Some(_)) => {
                return Err(ToolError::invalid_args(format!("`{dashed}` takes no value")));
            }
            (OptionValue::Nothing | OptionValue::MaybeValue, None) => dashed,
            (_, Some(value)) => format!("{dashed}={value}"),
            (OptionValue::Value, None) => format!("{dashed}={}", next_value(&dashed, "=", rest)?),
            (OptionValue::Commit, None) => {
                let commit = rest.next_if(|next| !next.starts_with('-') && !next.is_empty());
                format!("{dashed}={}", commit.map_or("HEAD", String::as_str))
            }
        };
        self.push(option, text)
    }

    /// Parses `-20`, or a cluster of short options of which the last may have a value.
    fn parse_short(
        &mut self,
        verb: &Verb,
        cluster: &str,
        rest: &mut Peekable<Iter<'_, String>>,
    ) -> Result<(), ToolError> {
        if cluster.bytes().all(|byte| byte.is_ascii_digit()) && verb.takes_numbers() {
            self.options.push(format!("-{cluster}"));
            self.option_names.push("max-count");
            return Ok(());
        }
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            let dashed = format!("-{letter}");
            let known = verb.option(dashed.trim_start_matches('-'));
            let option = known.ok_or_else(|| unknown_option(verb, &dashed))?;
            if option.takes == OptionValue::Nothing {
                self.push(option, dashed)?;
                continue;
            }
            let joined = letters.as_str();
            let value = match option.takes {
                OptionValue::Value if joined.is_empty() => next_value(&dashed, "", rest)?,
                _ => joined.to_owned(),
            };
            return self.push(option, format!("{dashed}{value}"));
        }
        Ok(())
    }

    /// Adds an option, unless it would start a program.
    fn push(&mut self, option: GitOption, text: String) -> Result<(), ToolError> {
        // For `%G…`, git asks a program that the configuration names.
        if matches!(option.name(), "format" | "pretty") && text.contains("%G") {
            let error = ToolError::invalid_args(format!("`{text}` would run a program"));
            return Err(error.hint("signatures (`%G…`) cannot be shown here"));
        }
        self.option_names.push(option.name());
        self.options.push(text);
        Ok(())
    }
}

/// Takes the next argument as the value of an option; refuses one that looks like an option.
fn next_value(
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

/// Returns the error for an unknown option, with a near miss and all known options.
fn unknown_option(verb: &Verb, option: &str) -> ToolError {
    let name = verb.name;
    let known = verb.option_spellings();
    let error = ToolError::invalid_args(format!("`git {name}` takes no option `{option}` here"));
    let near = nearest(option, known.iter().map(String::as_str).filter(|name| name.len() > 2));
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let all = if known.is_empty() { "none".to_owned() } else { known.join(" ") };
    error.hint(format!("{near}options are {all}"))
}
