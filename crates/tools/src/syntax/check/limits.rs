//! Decides which texts are parsed.

use super::languages::Language;

/// Limit of the bytes of a parsed text. A parse takes about 0.2 µs per byte, and the comparison in case of an error half as much
/// again, so a check takes less than 20 ms.
const MAX_BYTES: usize = 64 << 10;

/// Returns whether a text is short enough, and safe for the scanner of its grammar.
pub(super) fn may_parse(language: &Language, text: &str) -> bool {
    text.len() <= MAX_BYTES && (language.is_safe)(text)
}

/// Limit of the state of a scanner. It is kept in a buffer of 1024 bytes, and both scanners below can write past its end, where an
/// assertion aborts the process. So the bytes that could fill it are overestimated, and stay well below.
const MAX_STATE_BYTES: usize = 1000;

/// Returns whether a text is safe: the scanner keeps two bytes for each open level of indentation, and one for each string, up to 255.
pub(super) fn is_safe_python(text: &str) -> bool {
    const MAX_COLUMNS: usize = (MAX_STATE_BYTES - 2 - 255) / 2;
    let (mut columns, mut last) = (0, ' ');
    for character in text.chars() {
        columns = match character {
            ' ' => columns + 1,
            '\t' => columns + 8,
            // The line continues in the next one, where the scanner continues to count.
            '\\' | '\r' => columns,
            '\n' if last == '\\' => columns,
            _ => 0,
        };
        if columns > MAX_COLUMNS {
            return false;
        }
        if character != '\r' {
            last = character;
        }
    }
    true
}

/// Returns whether a text is safe: the scanner keeps the end word of each open heredoc and four more bytes, one of them the length, and
/// five bytes for each open string; there can be as many open strings as interpolations.
pub(super) fn is_safe_ruby(text: &str) -> bool {
    let mut words = 0;
    for at in memchr::memmem::find_iter(text.as_bytes(), "<<") {
        let behind = text.get(at..).unwrap_or_default().trim_start_matches('<');
        let word = heredoc_word(behind.strip_prefix(['-', '~']).unwrap_or(behind));
        if word > usize::from(u8::MAX) {
            return false;
        }
        words += if word == 0 { 0 } else { word + 4 };
    }
    let strings = 1 + memchr::memmem::find_iter(text.as_bytes(), "#{").count();
    words == 0 || words + 5 * strings + 2 <= MAX_STATE_BYTES
}

/// Returns the length of the word that ends a heredoc, 0 if there is none; a longer word is counted to just above the limit.
fn heredoc_word(text: &str) -> usize {
    let characters = text.chars().take(usize::from(u8::MAX) + 2);
    match text.chars().next() {
        Some(quote @ ('\'' | '"' | '`')) => characters.skip(1).take_while(|c| *c != quote).count(),
        _ => characters.take_while(|c| c.is_alphanumeric() || *c == '_').count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_indentation_is_not_parsed() {
        let indented = |columns: usize| format!("if a:\n{}b\n", " ".repeat(columns));
        for (text, expected) in [
            (String::new(), true),
            (indented(200), true),
            (indented(400), false),
            (indented(1).replace(' ', &"\t".repeat(60)), false),
            (indented(1).replace(' ', &"  \\\n".repeat(200)), false),
            (indented(1).replace(' ', &"  \\\r\n".repeat(200)), false),
            (indented(1).replace(' ', &"  \n".repeat(200)), true),
        ] {
            assert_eq!(is_safe_python(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_heredocs_are_not_parsed() {
        let long = "a".repeat(256);
        for (text, expected) in [
            ("x = <<~EOF\nEOF\n".to_owned(), true),
            (format!("<<{}", &long[1..]), true),
            (format!("<<{long}"), false),
            (format!("<<-{long}"), false),
            (format!("<<<{long}"), false),
            (format!("<<~'\n {long}"), false),
            (format!("a << {long}"), true),
            (format!("a << '{long}'"), true),
            ("<<A ".repeat(300), false),
            ("#{a}".repeat(300), true),
            ("#{a}".repeat(300) + "<<A", false),
        ] {
            assert_eq!(is_safe_ruby(&text), expected, "{text}");
        }
    }
}
