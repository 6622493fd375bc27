//! Splits a command file into front matter and body. Between two lines `---` the front matter is YAML, as far as [`yaml`] supports it;
//! between two lines `+++` it is TOML. The body is for people, and for models if the front matter has no description.

use super::node::{Node, SourcePosition};
use super::{DefinitionError, toml, yaml};

/// Limit of a file's size.
const MAX_FILE_BYTES: usize = 64 << 10;

/// The two parts of a command file.
pub(super) struct FrontMatter {
    pub(super) node: Node,
    pub(super) body: String,
}

/// The position for errors about something that is missing.
pub(super) const START_OF_FILE: SourcePosition = SourcePosition { line: 1, column: 1 };

/// Checks and splits a file, and parses its front matter.
pub(super) fn parse(text: &str) -> Result<FrontMatter, DefinitionError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_FILE_BYTES {
        let most = MAX_FILE_BYTES >> 10;
        return Err(START_OF_FILE.error(format!("the file is larger than {most} KiB")));
    }
    // A shell would take the carriage return for a part of the command.
    let text = text.replace("\r\n", "\n");
    refuse_invisible_characters(&text)?;
    let (fence, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let fence = fence.trim_end();
    let parse = match fence {
        "---" => yaml::parse,
        "+++" => toml::parse,
        _ => {
            let wanted = "a tool begins with a line `---` (YAML) or `+++` (TOML)";
            return Err(START_OF_FILE.error(wanted));
        }
    };
    let (block, body) = split_at_fence(rest, fence).ok_or_else(|| {
        START_OF_FILE.error(format!("no second line `{fence}` ends what begins here"))
    })?;
    Ok(FrontMatter { node: parse(block)?, body: body.trim().to_owned() })
}

/// Splits a text at the first line that is `fence`, without that line.
fn split_at_fence<'t>(text: &'t str, fence: &str) -> Option<(&'t str, &'t str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == fence {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// Refuses invisible characters, because a person has to trust the file by its visible text.
fn refuse_invisible_characters(text: &str) -> Result<(), DefinitionError> {
    for (line, content) in text.split('\n').enumerate() {
        let found = content.chars().enumerate().find(|(_, c)| is_invisible(*c));
        if let Some((column, c)) = found {
            let at = SourcePosition { line: line + 1, column: column + 1 };
            let code = u32::from(c);
            return Err(at.error(format!("a character that cannot be seen (U+{code:04X})")));
        }
    }
    Ok(())
}

/// Returns whether a character is a control character other than a tab, another line separator, or one that reverses the direction of text.
fn is_invisible(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
