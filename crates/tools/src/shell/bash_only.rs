//! Finds syntax that bash reads otherwise than the other shells of POSIX do, so that what was read as bash would mean something else.
//!
//! The text is searched, not parsed, so a match may lie in a quoted word. That costs a question and no more.

/// Characters that mean something else, or nothing, to other shells.
const OPERATORS: &[&str] =
    &["$'", "$\"", "$[", "[[", "<<<", "<(", ">(", "&>", "|&", "=(", ";&", "${!"];

/// Words that other shells do not have, or follow otherwise: `dash` expands aliases in scripts.
const WORDS: &[&str] = &["alias", "declare", "function", "typeset", "source", "shopt", "select"];

/// Commands whose arguments other shells may split where bash does not.
const DECLARING: &[&str] = &["export", "readonly", "local"];

/// The first syntax of a text that only bash reads as bash does.
pub(super) fn find(text: &str) -> Option<&'static str> {
    let operator = OPERATORS.iter().find(|operator| text.contains(**operator)).copied();
    let is_break = |c: char| c.is_whitespace() || ";&|(){}`\"'\\".contains(c);
    let word = || {
        text.split(is_break).find_map(|word| {
            let declares = DECLARING.iter().filter(|_| text.contains(['$', '`']));
            WORDS.iter().chain(declares).find(|known| **known == word).copied()
        })
    };
    operator
        .or_else(|| calculates(text).then_some("(("))
        .or_else(|| expands_braces(text).then_some("{"))
        .or_else(|| redirects_both(text).then_some(">&"))
        .or_else(word)
}

/// `(( … ))`, which other shells read as two subshells; `$(( … ))` means the same to all.
fn calculates(text: &str) -> bool {
    text.match_indices("((").any(|(at, _)| !text[..at].ends_with('$'))
}

/// `{a,b}` and `{fd}>file`: a brace that neither opens a group nor belongs to a variable.
fn expands_braces(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let opens_group = text[at + 1..].starts_with(|c: char| c.is_whitespace());
        let is_empty = text[at + 1..].starts_with('}');
        !opens_group && !is_empty && !text[..at].ends_with('$')
    })
}

/// `>&file`; a number or `-` behind it means the same to all.
fn redirects_both(text: &str) -> bool {
    text.match_indices(">&")
        .any(|(at, _)| !text[at + 2..].starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_of_bash_alone() {
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
