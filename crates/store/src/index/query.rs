//! Queries as models write them, in the language of FTS5: every term in quotes, so that no text is an error.

/// The most terms of a query that count.
const MAX_TERMS: usize = 32;

/// The terms of a query: words, phrases in double quotes, and beginnings of words that end in `*`.
pub(super) fn terms(query: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for (at, part) in query.split('"').enumerate() {
        // Every second part stands between quotes.
        if at % 2 == 1 {
            terms.extend(quoted(part, false));
            continue;
        }
        for word in part.split_whitespace() {
            let beginning = word.strip_suffix('*');
            terms.extend(quoted(beginning.unwrap_or(word), beginning.is_some()));
        }
    }
    terms.truncate(MAX_TERMS);
    terms
}

/// A term that the tokenizer finds a word in, in quotes.
fn quoted(text: &str, is_beginning: bool) -> Option<String> {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let has_words = text.chars().any(|c| c.is_alphanumeric() || c == '_');
    has_words.then(|| format!("\"{text}\"{}", if is_beginning { "*" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_a_meaning_but_quotes_and_stars() {
        for (query, expected) in [
            ("two words", &["\"two\"", "\"words\""][..]),
            ("\"a phrase\" wor*", &["\"a phrase\"", "\"wor\"*"]),
            ("a AND NOT b", &["\"a\"", "\"AND\"", "\"NOT\"", "\"b\""]),
            ("title:x -y ^z (q)", &["\"title:x\"", "\"-y\"", "\"^z\"", "\"(q)\""]),
            ("an \"open quote", &["\"an\"", "\"open quote\""]),
            ("\" * () - \"", &[]),
            ("a\0b", &["\"a b\""]),
            ("", &[]),
        ] {
            assert_eq!(terms(query), expected, "{query}");
        }
    }
}
