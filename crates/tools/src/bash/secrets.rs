//! `{{secret NAME}}` in a command: the program gets the value, whoever wrote the command does not.
//!
//! In what is run, decided on and listed, an expansion of a variable stands in its place, and the value is in the environment. How
//! the expansion must be written depends on the quotation marks around it, so those are followed, as far as that can be done for
//! certain; where not, the command is refused.

use windlass_core::{Context, Effect, Effects, Grammar, Shell, ToolError};

/// How it begins.
const BEGINNING: &str = "{{secret ";
/// What the variables are called.
const VARIABLE: &str = "WINDLASS_SECRET_";

/// A command as the shell gets it, and the secrets that it needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) command: String,
    names: Vec<String>,
}

/// What is around a place in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
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

impl Placed {
    /// Puts variables in the place of secrets.
    pub(super) fn of(command: &str, shell: &Shell) -> Result<Self, ToolError> {
        if !command.contains(BEGINNING) {
            return Ok(Self { command: command.to_owned(), names: Vec::new() });
        }
        if !matches!(shell.grammar(), Grammar::Bash | Grammar::Posix) {
            return Err(ToolError::invalid_args(format!(
                "`{{{{secret NAME}}}}` cannot be put into a command for the shell {shell}: how it writes variables is not known"
            ))
            .hint("a person can choose bash or sh with the configuration key `shell`"));
        }
        let (mut placed, mut around) = (Self::default(), vec![Around::Bare]);
        let (mut rest, mut before, mut has_document) = (command, '\n', false);
        while let Some(next) = rest.chars().next() {
            if let Some(inside) = rest.strip_prefix(BEGINNING) {
                let (name, behind) = name(inside)?;
                check_place(&around, has_document, name)?;
                placed.push(name, around.last() == Some(&Around::Double))?;
                (rest, before) = (behind, '}');
                continue;
            }
            let length = step(rest, before, &mut around);
            has_document |= around.last() == Some(&Around::Bare)
                && rest.starts_with("<<")
                && !rest.starts_with("<<<")
                && before != '<';
            let (passed, behind) = rest.split_at(length.max(next.len_utf8()));
            placed.command.push_str(passed);
            before = passed.chars().next_back().unwrap_or(next);
            rest = behind;
        }
        Ok(placed)
    }

    fn push(&mut self, name: &str, is_quoted: bool) -> Result<(), ToolError> {
        let variable = variable(name);
        if let Some(other) =
            self.names.iter().find(|other| *other != name && self::variable(other) == variable)
        {
            return Err(ToolError::failed(format!(
                "the secrets `{other}` and `{name}` cannot be told apart in one command: both would be ${variable}"
            )));
        }
        let expansion =
            if is_quoted { format!("${{{variable}}}") } else { format!("\"${{{variable}}}\"") };
        self.command.push_str(&expansion);
        if !self.names.iter().any(|other| other == name) {
            self.names.push(name.to_owned());
        }
        Ok(())
    }

    /// That it needs them.
    pub(super) fn effects(&self) -> Effects {
        self.names.iter().map(|name| Effect::Secret(name.clone())).collect()
    }

    /// The variables that hold them.
    pub(super) fn environment(&self, cx: &Context) -> Result<Vec<(String, String)>, ToolError> {
        let value = |name: &String| {
            let value = cx.secret(name)?;
            Ok((variable(name), value.expose().to_owned()))
        };
        self.names.iter().map(value).collect()
    }
}

fn variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{VARIABLE}{}", name.chars().map(letter).collect::<String>())
}

/// The name, and what is behind it.
fn name(text: &str) -> Result<(&str, &str), ToolError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let found = text.split_once("}}").map(|(name, behind)| (name.trim(), behind));
    found.filter(|(name, _)| is_name(name)).ok_or_else(|| {
        ToolError::invalid_args("a `{{secret NAME}}` in the command has no name that can be read")
            .hint("a name has letters, digits, `_`, `-` and `.`, and `}}` behind it")
    })
}

/// Whether a variable means the same there.
fn check_place(around: &[Around], has_document: bool, name: &str) -> Result<(), ToolError> {
    let place = match around.last() {
        _ if has_document => "behind a here-document",
        Some(Around::Single { .. }) => "between single quotation marks",
        _ if around.contains(&Around::Backticks) => "between backticks",
        _ => return Ok(()),
    };
    Err(ToolError::invalid_args(format!(
        "`{{{{secret {name}}}}}` cannot stand {place}: it would not be put in"
    ))
    .hint("put it between double quotation marks, or between none"))
}

/// Passes one thing of a command and notes what it is inside of then; how long that is.
fn step(rest: &str, before: char, around: &mut Vec<Around>) -> usize {
    let now = around.last().copied().unwrap_or(Around::Bare);
    let starts = |text: &str| rest.starts_with(text);
    let escape = || 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
    match now {
        Around::Single { escapes: true } | Around::Double | Around::Bare | Around::Backticks
            if starts("\\") =>
        {
            escape()
        }
        Around::Single { .. } => {
            if starts("'") {
                around.pop();
            }
            1
        }
        Around::Double if starts("\"") => leave(around),
        _ if starts("$(") => enter(around, Around::Bare, 2),
        Around::Backticks if starts("`") => leave(around),
        _ if starts("`") => enter(around, Around::Backticks, 1),
        Around::Double => 1,
        _ if starts("\"") => enter(around, Around::Double, 1),
        _ if starts("$'") => enter(around, Around::Single { escapes: true }, 2),
        _ if starts("'") => enter(around, Around::Single { escapes: false }, 1),
        _ if starts("(") => enter(around, Around::Bare, 1),
        Around::Bare if starts(")") && around.len() > 1 => leave(around),
        // An apostrophe in a comment is none.
        _ if starts("#") && (before.is_whitespace() || ";&|(".contains(before)) => {
            rest.find('\n').unwrap_or(rest.len())
        }
        _ => 1,
    }
}

fn enter(around: &mut Vec<Around>, what: Around, length: usize) -> usize {
    around.push(what);
    length
}

fn leave(around: &mut Vec<Around>) -> usize {
    around.pop();
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_where_they_mean_the_same() {
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
                Placed::of(command, &Shell::default()).unwrap().command,
                expected,
                "{command}"
            );
        }
    }

    #[test]
    fn what_would_not_work_is_refused() {
        for (command, why) in [
            ("echo '{{secret K}}'", "between single quotation marks"),
            ("echo $'{{secret K}}'", "between single quotation marks"),
            ("bash -c 'curl -H \"X: {{secret K}}\"'", "between single quotation marks"),
            ("echo `cat {{secret K}}`", "between backticks"),
            ("cat <<END\n{{secret K}}\nEND", "behind a here-document"),
            ("echo {{secret }}", "no name"),
            ("echo {{secret K} }", "no name"),
            ("echo {{secret $(id)}}", "no name"),
            ("echo {{secret a-b}} {{secret a_b}}", "cannot be told apart"),
        ] {
            let error = Placed::of(command, &Shell::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{command}: {error}");
        }
    }

    #[test]
    fn every_secret_is_declared_once() {
        let placed =
            Placed::of("a {{secret A}} {{secret B}} {{secret A}}", &Shell::default()).unwrap();
        assert_eq!(placed.effects().to_string(), "secret A, secret B");
    }
}
