//! The formats of test output, in the order in which they are tried.
//!
//! The runner behind `make test` or `npm test` is unknown. So the output decides the format, and the command only decides which formats are
//! tried first.

use super::report::Report;
use super::{go, javascript, jvm, other, python, rust};

/// A format: words of a command that suggest it, and its parser, which returns `None` for other formats.
struct OutputFormat {
    words: &'static [&'static str],
    read: fn(&str) -> Option<Report>,
}

/// Formats with a distinctive output come first.
const OUTPUT_FORMATS: &[OutputFormat] = &[
    OutputFormat { words: &["nextest"], read: rust::nextest },
    OutputFormat { words: &["cargo"], read: rust::cargo },
    OutputFormat { words: &["vitest"], read: javascript::vitest },
    OutputFormat { words: &["jest", "react-scripts"], read: javascript::jest },
    OutputFormat { words: &["bun"], read: javascript::bun },
    OutputFormat { words: &["deno"], read: javascript::deno },
    OutputFormat { words: &["pytest"], read: python::pytest },
    OutputFormat { words: &["unittest", "manage.py"], read: python::unittest },
    OutputFormat { words: &["mvn", "mvnw"], read: jvm::maven },
    OutputFormat { words: &["gradle", "gradlew"], read: jvm::gradle },
    OutputFormat { words: &["ctest"], read: other::ctest },
    OutputFormat { words: &["dotnet"], read: other::dotnet },
    OutputFormat { words: &["mix"], read: other::mix },
    OutputFormat { words: &["go"], read: go::go },
    OutputFormat { words: &["mocha"], read: javascript::mocha },
    OutputFormat { words: &["node", "prove", "bats", "tap"], read: other::tap },
    OutputFormat { words: &["cmake", "make"], read: other::compiler },
];

/// Parses the output of a command by the first format that matches.
pub(super) fn read(command: &str, text: &str) -> Option<Report> {
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, '/' | ';' | '&' | '|' | '(' | ')'))
        .collect();
    let is_named = |format: &&OutputFormat| format.words.iter().any(|word| words.contains(word));
    let named = OUTPUT_FORMATS.iter().filter(is_named);
    let others = OUTPUT_FORMATS.iter().filter(|format| !is_named(format));
    named.chain(others).find_map(|format| (format.read)(text))
}
