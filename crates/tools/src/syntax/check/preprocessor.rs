//! Finds the lines of a C file that its grammar cannot understand: macro definitions, and all branches of a condition except the first.
//!
//! Several branches may open the same brace, but only one of them is compiled.

use std::ops::Range;

/// Returns the byte ranges of these lines, in order.
pub(super) fn unknown_lines(text: &str) -> Vec<Range<usize>> {
    let mut unknown = Vec::new();
    // For each open condition, whether its first branch has ended.
    let mut conditions: Vec<bool> = Vec::new();
    let (mut at, mut goes_on) = (0, false);
    for line in text.split_inclusive('\n') {
        let directive = line.trim_start().strip_prefix('#').filter(|_| !goes_on);
        if let Some(words) = directive {
            update_conditions(&mut conditions, words.trim_start());
        }
        if goes_on || directive.is_some() || conditions.contains(&true) {
            unknown.push(at..at + line.len());
        }
        goes_on = (goes_on || directive.is_some()) && line.trim_end().ends_with('\\');
        at += line.len();
    }
    unknown
}

/// Updates the open conditions by a directive.
fn update_conditions(conditions: &mut Vec<bool>, directive: &str) {
    if directive.starts_with("if") {
        conditions.push(false);
    } else if directive.starts_with("el") {
        conditions.pop();
        conditions.push(true);
    } else if directive.starts_with("endif") {
        conditions.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_and_later_branches_are_unknown() {
        for (text, expected) in [
            ("a\nb", ""),
            ("a\n#define A { \\\n b \\\n c\nd\n", "#define A { \\\n b \\\n c\n"),
            ("a \\\nb\n", ""),
            (
                "#if A\na\n# else\nb\n#if B\nc\n#endif\nd\n #endif\ne\n",
                "#if A\n# else\nb\n#if B\nc\n#endif\nd\n #endif\n",
            ),
            (
                "#ifdef A\r\na\r\n#elif B\r\nb\r\n#endif\r\nc",
                "#ifdef A\r\n#elif B\r\nb\r\n#endif\r\n",
            ),
            ("#endif\n#else\na\n", "#endif\n#else\na\n"),
        ] {
            let lines: String = unknown_lines(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(lines, expected, "{text:?}");
        }
    }
}
