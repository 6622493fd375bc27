//! Finds syntax that bash reads differently from other POSIX shells: parsed as bash, such a script would get a wrong meaning.
//!
//! The text is searched, not parsed, so a match may lie in a quoted word. The cost is one unnecessary question to a person.

/// Operators that have another meaning, or none, in other shells.
const BASH_OPERATORS: &[&str] =
    &["$'", "$\"", "$[", "[[", "<<<", "<(", ">(", "&>", "|&", "=(", ";&", "${!"];

/// Words that other shells do not know or treat differently: `dash` expands aliases in scripts.
const BASH_WORDS: &[&str] =
    &["alias", "declare", "function", "typeset", "source", "shopt", "select"];

/// Commands whose arguments other shells split into words and bash does not.
const DECLARING_COMMANDS: &[&str] = &["export", "readonly", "local"];

/// Returns the first bash-only syntax of a text.
pub(super) fn find(text: &str) -> Option<&'static str> {
    let operator = BASH_OPERATORS.iter().find(|operator| text.contains(**operator)).copied();
    let is_break = |c: char| c.is_whitespace() || ";&|(){}`\"'\\".contains(c);
    let word = || {
        text.split(is_break).find_map(|word| {
            let declares = DECLARING_COMMANDS.iter().filter(|_| text.contains(['$', '`']));
            BASH_WORDS.iter().chain(declares).find(|known| **known == word).copied()
        })
    };
    operator
        .or_else(|| has_arithmetic_command(text).then_some("(("))
        .or_else(|| has_brace_expansion(text).then_some("{"))
        .or_else(|| has_ampersand_redirect(text).then_some(">&"))
        .or_else(word)
}

/// Finds `(( … ))`, which other shells read as two subshells. `$(( … ))` has the same meaning in all shells.
fn has_arithmetic_command(text: &str) -> bool {
    text.match_indices("((").any(|(at, _)| !text[..at].ends_with('$'))
}

/// Finds `{a,b}` and `{fd}>file`: a brace that neither opens a group nor belongs to a variable.
fn has_brace_expansion(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let opens_group = text[at + 1..].starts_with(|c: char| c.is_whitespace());
        let is_empty = text[at + 1..].starts_with('}');
        !opens_group && !is_empty && !text[..at].ends_with('$')
    })
}

/// Finds `>&file`. With a number or `-` behind it, the operator has the same meaning in all shells.
fn has_ampersand_redirect(text: &str) -> bool {
    text.match_indices(">&")
        .any(|(at, _)| !text[at + 2..].starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_syntax_that_only_bash_reads() {
        for (text, found) in [
            ("ls -la | wc -l", None),
            ("a=1; echo \"${a}\" $((1 + 2)) 2>&1 >&-", None),
            ("{ ls; } && find . -exec wc {} \\;", None),
            ("export A=b; ls", None),
            ("[[ a > b ]]", Some("[[")),
            ("((a > b))", Some("((")),
            ("echo $'\\''", Some("$'")),
            ("cat <<< x", Some("<<<")),
            ("ls &> out", Some("&>")),
            ("ls >& out", Some(">&")),
            ("cat {a,b}", Some("{")),
            ("alias ls='rm x'\nls", Some("alias")),
            ("x='b PATH=/w'; export a=$x; ls", Some("export")),
        ] {
            assert_eq!(find(text), found, "{text}");
        }
    }
}
