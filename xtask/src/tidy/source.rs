//! Separates the code of a Rust file from comments and from quoted text.

use std::ops::Range;

/// The kind of a piece of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Code,
    Comment,
    /// Strings and characters.
    Text,
}

/// The source with everything but `part` turned to spaces: the same lines, the same columns.
pub(super) fn only(part: Part, source: &str) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for (other, range) in parts(source) {
        if other != part {
            let piece = bytes.get_mut(range).unwrap_or_default();
            piece.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The positions of `word` in `text`, except as a part of a longer name.
pub(super) fn occurrences<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The line that a position is on, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn parts(source: &str) -> Vec<(Part, Range<usize>)> {
    let mut parts = Vec::new();
    let (mut at, mut code_from, mut before) = (0, 0, ' ');
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((part, length)) = quoted(rest, before) {
            parts.push((Part::Code, code_from..at));
            parts.push((part, at..at + length));
            at += length;
            code_from = at;
            before = ' ';
        } else {
            before = rest.chars().next().unwrap_or(' ');
            at += before.len_utf8();
        }
    }
    parts.push((Part::Code, code_from..source.len()));
    parts
}

/// The comment, string or character that `rest` begins with, and its length.
fn quoted(rest: &str, before: char) -> Option<(Part, usize)> {
    let first = rest.bytes().next()?;
    match first {
        b'/' if rest.starts_with("//") => {
            Some((Part::Comment, rest.find('\n').unwrap_or(rest.len())))
        }
        b'/' if rest.starts_with("/*") => Some((Part::Comment, block_comment(rest))),
        b'"' => Some((Part::Text, string(rest))),
        b'r' if !is_name(before) || before == 'b' || before == 'c' => {
            raw_string(rest).map(|length| (Part::Text, length))
        }
        b'\'' => character(rest).map(|length| (Part::Text, length)),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(tail) = rest.get(at..) {
        let next = tail.find("/*").into_iter().chain(tail.find("*/")).min();
        let Some(next) = next else { break };
        let opens = tail.get(next..).is_some_and(|tail| tail.starts_with("/*"));
        depth = if opens { depth + 1 } else { depth.saturating_sub(1) };
        at += next + 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string(rest: &str) -> usize {
    let mut escaped = true; // So that the opening quote does not close it.
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#` …; nothing if it is a name that begins with r, or a raw name (`r#type`).
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let opening = 1 + hashes + 1;
    Some(body.find(&close).map_or(rest.len(), |end| opening + end + close.len()))
}

/// `'x'` or `'\…'`; nothing if it is a lifetime or a label.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let mut characters = body.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        let (escaped_at, escaped) = characters.next()?;
        let tail_at = escaped_at + escaped.len_utf8();
        return body.get(tail_at..)?.find('\'').map(|end| 1 + tail_at + end + 1);
    }
    let (second_at, second) = characters.next()?;
    (second == '\'').then_some(1 + second_at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_separated() {
        for (source, code, comment) in [
            ("a // b\nc", "a     \nc", "  // b\n "),
            ("a /* b /* c */ d */ e", "a                   e", "  /* b /* c */ d */  "),
            (r#"f("// no \" x") // y"#, "f(            )     ", "                // y"),
            (r##"f(r#"a"b"#) z"##, "f(        ) z", "             "),
            ("br\"x\" r#type", "b     r#type", "            "),
            ("'a' 'b: &'c str '\\'' '\\u{1}' 'é'", "    'b: &'c str                  ", ""),
            ("for x in y { '{' }", "for x in y {     }", ""),
            ("\"open", "     ", "     "),
            ("/* open", "       ", "/* open"),
        ] {
            assert_eq!(only(Part::Code, source), code, "{source}");
            if !comment.is_empty() {
                assert_eq!(only(Part::Comment, source), comment, "{source}");
            }
        }
    }

    #[test]
    fn words_are_found_whole() {
        let found: Vec<usize> =
            occurrences("unsafe_code unsafe{ my_unsafe (unsafe)", "unsafe").collect();
        assert_eq!(found, [12, 31]);
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!((line_of("a\nb", 0), line_of("a\nb", 2)), (1, 2));
    }
}
