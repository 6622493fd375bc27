//! Every format of test output that is understood, in the order in which they are tried.
//!
//! Who runs tests is known only sometimes: `make test` and `npm test` can be anything. So the output is asked, not the command; that
//! only says whom to ask first.

use super::report::Report;
use super::{go, javascript, jvm, other, python, rust};

/// A format: words by which a command gives it away, and how it is read.
struct Format {
    words: &'static [&'static str],
    read: fn(&str) -> Option<Report>,
}

/// Those that say who they are stand before those that could be anybody.
const FORMATS: &[Format] = &[
    Format { words: &["nextest"], read: rust::nextest },
    Format { words: &["cargo"], read: rust::cargo },
    Format { words: &["vitest"], read: javascript::vitest },
    Format { words: &["jest", "react-scripts"], read: javascript::jest },
    Format { words: &["bun"], read: javascript::bun },
    Format { words: &["deno"], read: javascript::deno },
    Format { words: &["pytest"], read: python::pytest },
    Format { words: &["unittest", "manage.py"], read: python::unittest },
    Format { words: &["mvn", "mvnw"], read: jvm::maven },
    Format { words: &["gradle", "gradlew"], read: jvm::gradle },
    Format { words: &["ctest"], read: other::ctest },
    Format { words: &["dotnet"], read: other::dotnet },
    Format { words: &["mix"], read: other::mix },
    Format { words: &["go"], read: go::go },
    Format { words: &["mocha"], read: javascript::mocha },
    Format { words: &["node", "prove", "bats", "tap"], read: other::tap },
    Format { words: &["cmake", "make"], read: other::compiler },
];

/// What the output of a command tells, if its format is understood.
pub(super) fn read(command: &str, text: &str) -> Option<Report> {
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, '/' | ';' | '&' | '|' | '(' | ')'))
        .collect();
    let is_named = |format: &&Format| format.words.iter().any(|word| words.contains(word));
    let named = FORMATS.iter().filter(is_named);
    let others = FORMATS.iter().filter(|format| !is_named(format));
    named.chain(others).find_map(|format| (format.read)(text))
}
