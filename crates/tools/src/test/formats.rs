//! Every format of test output that is understood, in the order in which they are tried.
//!
//! Who runs tests is known only sometimes: `make test` and `npm test` can be anything. So the output is asked, not the command; that
//! only says whom to ask first.

use super::report::Report;
use super::{go, javascript, jvm, other, python, rust};

/// A format: words by which a command gives it away, and how it is read.
struct OutputFormat {
    words: &'static [&'static str],
    read: fn(&str) -> Option<Report>,
}

/// Those that say who they are stand before those that could be anybody.
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

/// What the output of a command tells, if its format is understood.
pub(super) fn read(command: &str, text: &str) -> Option<Report> {
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, '/' | ';' | '&' | '|' | '(' | ')'))
        .collect();
    let is_named = |format: &&OutputFormat| format.words.iter().any(|word| words.contains(word));
    let named = OUTPUT_FORMATS.iter().filter(is_named);
    let others = OUTPUT_FORMATS.iter().filter(|format| !is_named(format));
    named.chain(others).find_map(|format| (format.read)(text))
}
