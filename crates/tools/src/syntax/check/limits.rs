//! Which texts are parsed at all.

use super::languages::Language;

/// Longer texts are not parsed. A parse takes about 0.2 µs for each byte, and if something is wrong, the comparison half as much
/// again: so this takes less than 20 ms.
const MAX_BYTES: usize = 64 << 10;

/// Whether a text is short enough, and harmless.
pub(super) fn allow(language: &Language, text: &str) -> bool {
    text.len() <= MAX_BYTES && (language.is_safe)(text)
}

/// The state of a scanner is kept in a buffer of 1024 bytes, and both of the scanners below can write past its end: then an
/// assertion ends the process. So what could fill it is counted, generously, and stays well below.
const MAX_STATE: usize = 1000;

/// The scanner keeps two bytes for each level of indentation that is open, and one for each string, of which 255 count.
pub(super) fn is_safe_python(text: &str) -> bool {
    const MAX_COLUMNS: usize = (MAX_STATE - 2 - 255) / 2;
    let (mut columns, mut last) = (0, ' ');
    for character in text.chars() {
        columns = match character {
            ' ' => columns + 1,
            '\t' => columns + 8,
            // A line that goes on in the next one: the scanner goes on counting.
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

/// The scanner keeps the end word of each heredoc that is open, with four bytes, one of which is its length; and five bytes for
/// each string that is open, which can be as many as there are interpolations.
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
    words == 0 || words + 5 * strings + 2 <= MAX_STATE
}

/// The length of the word that a heredoc would end with, if it is one; no more than just too long.
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
