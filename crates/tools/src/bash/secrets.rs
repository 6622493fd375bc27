//! Replaces `{{secret NAME}}` in a command: the program gets the value, the model that wrote the command does not.
//!
//! The command that is decided on, recorded and run contains a reference to a variable instead, and the value is in the environment. The
//! form of the reference depends on the quotation marks around it, so the parser tracks those. The command is refused if the quotation
//! cannot be determined.

use windlass_core::{Context, Effect, Effects, Grammar, Shell, ToolError};

/// The beginning of a reference to a secret.
const PLACEHOLDER_START: &str = "{{secret ";
/// Prefix of the variables that hold secrets.
const VARIABLE_PREFIX: &str = "WINDLASS_SECRET_";

/// A command with variables in place of secrets, and the names of the secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandWithSecrets {
    pub(super) script: String,
    names: Vec<String>,
}

/// The quotation around a position in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteContext {
    /// `( … )`, or nothing.
    Bare,
    /// `" … "`.
    Double,
    /// `' … '`, or `$' … '`.
    Single {
        escapes: bool,
    },
    Backticks,
}

impl CommandWithSecrets {
    /// Replaces the references to secrets by variables. Returns an error if one stands where a variable is not expanded.
    pub(super) fn parse(command: &str, shell: &Shell) -> Result<Self, ToolError> {
        if !command.contains(PLACEHOLDER_START) {
            return Ok(Self { script: command.to_owned(), names: Vec::new() });
        }
        if !matches!(shell.grammar(), Grammar::Bash | Grammar::Posix) {
            return Err(ToolError::invalid_args(format!(
                "`{{{{secret NAME}}}}` cannot be put into a command for the shell {shell}: how it writes variables is not known"
            ))
            .hint("a person can choose bash or sh with the configuration key `shell`"));
        }
        let (mut parsed, mut contexts) = (Self::default(), vec![QuoteContext::Bare]);
        let (mut rest, mut before, mut has_document) = (command, '\n', false);
        while let Some(next) = rest.chars().next() {
            if let Some(inside) = rest.strip_prefix(PLACEHOLDER_START) {
                let (name, behind) = placeholder_name(inside)?;
                check_context(&contexts, has_document, name)?;
                parsed.push(name, contexts.last() == Some(&QuoteContext::Double))?;
                (rest, before) = (behind, '}');
                continue;
            }
            let length = skip_token(rest, before, &mut contexts);
            has_document |= contexts.last() == Some(&QuoteContext::Bare)
                && rest.starts_with("<<")
                && !rest.starts_with("<<<")
                && before != '<';
            let (passed, behind) = rest.split_at(length.max(next.len_utf8()));
            parsed.script.push_str(passed);
            before = passed.chars().next_back().unwrap_or(next);
            rest = behind;
        }
        Ok(parsed)
    }

    /// Appends the variable of a secret. Returns an error if two secrets would get the same variable.
    fn push(&mut self, name: &str, is_quoted: bool) -> Result<(), ToolError> {
        let variable = variable(name);
        if let Some(other) =
            self.names.iter().find(|other| *other != name && self::variable(other) == variable)
        {
            return Err(ToolError::failed(format!(
                "the secrets `{other}` and `{name}` cannot be in one command: both would become the variable ${variable}"
            )));
        }
        let expansion =
            if is_quoted { format!("${{{variable}}}") } else { format!("\"${{{variable}}}\"") };
        self.script.push_str(&expansion);
        if !self.names.iter().any(|other| other == name) {
            self.names.push(name.to_owned());
        }
        Ok(())
    }

    /// Returns one effect for each secret.
    pub(super) fn effects(&self) -> Effects {
        self.names.iter().map(|name| Effect::Secret(name.clone())).collect()
    }

    /// Returns the variables with the values of the secrets.
    pub(super) fn environment(&self, cx: &Context) -> Result<Vec<(String, String)>, ToolError> {
        let value = |name: &String| {
            let value = cx.secret(name)?;
            Ok((variable(name), value.expose().to_owned()))
        };
        self.names.iter().map(value).collect()
    }
}

/// Returns the name of the variable for a secret.
fn variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{VARIABLE_PREFIX}{}", name.chars().map(letter).collect::<String>())
}

/// Splits a text behind `{{secret ` into the name and the rest behind `}}`.
fn placeholder_name(text: &str) -> Result<(&str, &str), ToolError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let found = text.split_once("}}").map(|(name, behind)| (name.trim(), behind));
    found.filter(|(name, _)| is_name(name)).ok_or_else(|| {
        ToolError::invalid_args("a `{{secret NAME}}` in the command has no name that can be read")
            .hint("a name has letters, digits, `_`, `-` and `.`, and `}}` behind it")
    })
}

/// Refuses a reference at a position where a variable is not expanded.
fn check_context(
    contexts: &[QuoteContext],
    has_document: bool,
    name: &str,
) -> Result<(), ToolError> {
    let place = match contexts.last() {
        _ if has_document => "behind a here-document",
        Some(QuoteContext::Single { .. }) => "between single quotation marks",
        _ if contexts.contains(&QuoteContext::Backticks) => "between backticks",
        _ => return Ok(()),
    };
    Err(ToolError::invalid_args(format!(
        "`{{{{secret {name}}}}}` cannot stand {place}: it would not be replaced there"
    ))
    .hint("put it between double quotation marks, or between none"))
}

/// Returns the length of the next token, and updates the contexts that it opens or closes.
fn skip_token(rest: &str, before: char, contexts: &mut Vec<QuoteContext>) -> usize {
    let now = contexts.last().copied().unwrap_or(QuoteContext::Bare);
    let starts = |text: &str| rest.starts_with(text);
    let escape = || 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
    match now {
        QuoteContext::Single { escapes: true }
        | QuoteContext::Double
        | QuoteContext::Bare
        | QuoteContext::Backticks
            if starts("\\") =>
        {
            escape()
        }
        QuoteContext::Single { .. } => {
            if starts("'") {
                contexts.pop();
            }
            1
        }
        QuoteContext::Double if starts("\"") => leave_context(contexts),
        _ if starts("$(") => enter_context(contexts, QuoteContext::Bare, 2),
        QuoteContext::Backticks if starts("`") => leave_context(contexts),
        _ if starts("`") => enter_context(contexts, QuoteContext::Backticks, 1),
        QuoteContext::Double => 1,
        _ if starts("\"") => enter_context(contexts, QuoteContext::Double, 1),
        _ if starts("$'") => enter_context(contexts, QuoteContext::Single { escapes: true }, 2),
        _ if starts("'") => enter_context(contexts, QuoteContext::Single { escapes: false }, 1),
        _ if starts("(") => enter_context(contexts, QuoteContext::Bare, 1),
        QuoteContext::Bare if starts(")") && contexts.len() > 1 => leave_context(contexts),
        // An apostrophe in a comment is no quotation mark.
        _ if starts("#") && (before.is_whitespace() || ";&|(".contains(before)) => {
            rest.find('\n').unwrap_or(rest.len())
        }
        _ => 1,
    }
}

/// Opens a context and returns the length of its token.
fn enter_context(contexts: &mut Vec<QuoteContext>, what: QuoteContext, length: usize) -> usize {
    contexts.push(what);
    length
}

/// Closes the innermost context and returns the length of its token.
fn leave_context(contexts: &mut Vec<QuoteContext>) -> usize {
    contexts.pop();
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_variables() {
        for (command, expected) in [
            ("make", "make"),
            ("curl -u me:{{secret KEY}} host", "curl -u me:\"${WINDLASS_SECRET_KEY}\" host"),
            (
                "curl -H \"X: {{secret KEY}}\" {{secret KEY}}",
                "curl -H \"X: ${WINDLASS_SECRET_KEY}\" \"${WINDLASS_SECRET_KEY}\"",
            ),
            ("echo 'it' {{secret a.b-c}}", "echo 'it' \"${WINDLASS_SECRET_a_b_c}\""),
            ("echo \"$(cat {{secret K}})\"", "echo \"$(cat \"${WINDLASS_SECRET_K}\")\""),
            ("echo \"a $(b \"c\") {{secret K}}\"", "echo \"a $(b \"c\") ${WINDLASS_SECRET_K}\""),
            ("echo it\\'s {{secret K}}", "echo it\\'s \"${WINDLASS_SECRET_K}\""),
            ("echo $'it\\'s' {{secret K}}", "echo $'it\\'s' \"${WINDLASS_SECRET_K}\""),
            ("# don't\necho {{secret K}}", "# don't\necho \"${WINDLASS_SECRET_K}\""),
            ("cat <<< {{secret K}}", "cat <<< \"${WINDLASS_SECRET_K}\""),
            ("(echo é \"é\" {{ secret }})", "(echo é \"é\" {{ secret }})"),
        ] {
            assert_eq!(
                CommandWithSecrets::parse(command, &Shell::default()).unwrap().script,
                expected,
                "{command}"
            );
        }
    }

    #[test]
    fn unexpanded_positions_are_refused() {
        for (command, why) in [
            ("echo '{{secret K}}'", "between single quotation marks"),
            ("echo $'{{secret K}}'", "between single quotation marks"),
            ("bash -c 'curl -H \"X: {{secret K}}\"'", "between single quotation marks"),
            ("echo `cat {{secret K}}`", "between backticks"),
            ("cat <<END\n{{secret K}}\nEND", "behind a here-document"),
            ("echo {{secret }}", "no name"),
            ("echo {{secret K} }", "no name"),
            ("echo {{secret $(id)}}", "no name"),
            ("echo {{secret a-b}} {{secret a_b}}", "cannot be in one command"),
        ] {
            let error =
                CommandWithSecrets::parse(command, &Shell::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{command}: {error}");
        }
    }

    #[test]
    fn every_secret_has_one_effect() {
        let parsed = CommandWithSecrets::parse(
            "a {{secret A}} {{secret B}} {{secret A}}",
            &Shell::default(),
        )
        .unwrap();
        assert_eq!(parsed.effects().to_string(), "secret A, secret B");
    }
}
