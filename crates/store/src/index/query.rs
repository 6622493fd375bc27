//! Translates the query of a model into FTS5 terms. Every term is quoted, so that no text is a syntax error.

/// Terms after this many are ignored.
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

/// Quotes a term, with a star after a beginning of a word; `None` if it has no word for the tokenizer.
fn quoted(text: &str, is_beginning: bool) -> Option<String> {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let has_words = text.chars().any(|c| c.is_alphanumeric() || c == '_');
    has_words.then(|| format!("\"{text}\"{}", if is_beginning { "*" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quotes_and_stars_have_a_meaning() {
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
