//! Removes lines of hidden files from the output of git. The names of the files stay.
//!
//! The header of a diff names its files. All lines from the header of a hidden file to the next header are removed. A line whose file
//! is in doubt is removed, too.

use std::path::Path;

/// Beginnings of the first line of a diff.
const DIFF_BEGINNINGS: [&str; 3] = ["diff --git ", "diff --cc ", "diff --combined "];
/// Beginnings of the lines of a diff header that name a file.
const NAME_LINE_BEGINNINGS: [&str; 6] =
    ["--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to "];
/// Characters with which `--graph` draws a history beside the text.
const GRAPH_CHARACTERS: [char; 6] = ['*', '|', '/', '\\', '_', ' '];

/// Returns the text without the lines of hidden files.
pub(super) fn omit_hidden_files(
    text: &str,
    has_graph: bool,
    is_hidden: &dyn Fn(&Path) -> bool,
) -> String {
    let graph_len = |line: &str| -> usize {
        if has_graph { line.len() - line.trim_start_matches(GRAPH_CHARACTERS).len() } else { 0 }
    };
    let mut kept = String::with_capacity(text.len());
    let mut header: Vec<&str> = Vec::new();
    let mut part = DiffPart::Outside;
    for line in text.split_inclusive('\n') {
        let bare = line.get(graph_len(line)..).unwrap_or(line);
        if DIFF_BEGINNINGS.iter().any(|begin| bare.starts_with(begin)) {
            end_header(&mut kept, &mut header, part, is_hidden);
            part = DiffPart::Head;
        } else if is_commit(bare) {
            end_header(&mut kept, &mut header, part, is_hidden);
            part = DiffPart::Outside;
        } else if part == DiffPart::Head && is_content(bare) {
            part = end_header(&mut kept, &mut header, part, is_hidden);
        }
        match part {
            DiffPart::Outside | DiffPart::Shown => kept.push_str(line),
            DiffPart::Head => header.push(line),
            DiffPart::Hidden => {}
        }
    }
    end_header(&mut kept, &mut header, part, is_hidden);
    kept
}

/// The part of the text that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffPart {
    /// Outside of any diff.
    Outside,
    /// The header of a diff, which names its files.
    Head,
    /// The content of a diff of a visible file.
    Shown,
    /// The content of a diff of a hidden file.
    Hidden,
}

/// Ends a header and returns the part that follows: shown, or hidden if the header may name a hidden file.
fn end_header(
    kept: &mut String,
    header: &mut Vec<&str>,
    part: DiffPart,
    is_hidden: &dyn Fn(&Path) -> bool,
) -> DiffPart {
    if part != DiffPart::Head {
        return part;
    }
    let is_secret =
        header.iter().any(|line| possible_names(line).any(|name| is_hidden(Path::new(name))));
    kept.extend(header.drain(..));
    if is_secret {
        kept.push_str("[no tool may see this file]\n");
        return DiffPart::Hidden;
    }
    DiffPart::Shown
}

/// Returns whether a line starts the content of a diff.
fn is_content(line: &str) -> bool {
    line.starts_with("@@") || line.starts_with("GIT binary patch")
}

/// Returns whether a line is `commit 1a2b3c…`, which starts the next entry of a history.
fn is_commit(line: &str) -> bool {
    line.strip_prefix("commit ").is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        digits >= 7 && rest.as_bytes().get(digits).is_none_or(u8::is_ascii_whitespace)
    })
}

/// Returns every name that a header line may contain: with and without git's prefix, and word by word if the end of a name is
/// ambiguous.
fn possible_names(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_end().trim_start_matches(GRAPH_PREFIX_CHARACTERS);
    let begin = DIFF_BEGINNINGS
        .iter()
        .chain(&NAME_LINE_BEGINNINGS)
        .find_map(|begin| line.strip_prefix(begin));
    let rest = begin.unwrap_or_default();
    let whole = [rest, rest.get(..rest.len() / 2).unwrap_or_default()].into_iter();
    whole.chain(rest.split_whitespace()).flat_map(|name| {
        let name = name.trim().trim_matches('"');
        [name, name.split_once('/').map_or("", |(_, behind)| behind)]
    })
}

/// Characters of a drawn history, except slashes, which names begin with, too.
const GRAPH_PREFIX_CHARACTERS: [char; 3] = ['*', '|', ' '];

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
commit 0123456789abcdef
    add

diff --git a/.env b/.env
index 1..2 100644
--- a/.env
+++ b/.env
@@ -1 +1 @@
-KEY=old
+KEY=new
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two
";

    fn is_hidden(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == ".env") || path.starts_with("private")
    }

    #[test]
    fn lines_of_hidden_files_are_left_out() {
        let shown = omit_hidden_files(DIFF, false, &is_hidden);
        let expected =
            DIFF.replace("@@ -1 +1 @@\n-KEY=old\n+KEY=new\n", "[no tool may see this file]\n");
        assert_eq!(shown, expected);
    }

    #[test]
    fn hidden_file_is_recognised_in_any_header() {
        for header in [
            "diff --git a/private/x b/private/x\n",
            "diff --git private/x private/x\n",
            "diff --git \"a/private/x y\" \"b/private/x y\"\n",
            "diff --git a/private/x y b/private/x y\n--- a/private/x y\t\n",
            "diff --cc private/x\n",
            "diff --git a/old b/private/x\nrename from old\nrename to private/x\n",
            "diff --git a/deep/.env b/deep/.env\ndeleted file mode 100644\n",
        ] {
            let text = format!("{header}@@ -1 +1 @@\n-secret\n+secret\n\ncommit 1234567\nafter\n");
            let shown = omit_hidden_files(&text, false, &is_hidden);
            let expected = format!("{header}[no tool may see this file]\ncommit 1234567\nafter\n");
            assert_eq!(shown, expected);
        }
        let drawn = "* commit 1234567\n| diff --git a/.env b/.env\n| --- a/.env\n| +++ b/.env\n| @@ -1 +1 @@\n| -secret\n* commit 7654321\n| after\n";
        let shown = omit_hidden_files(drawn, true, &is_hidden);
        assert!(!shown.contains("secret") && shown.contains("after"), "{shown}");
    }

    #[test]
    fn other_text_stays_unchanged() {
        for text in ["", "no line end", "diff\n", " M .env\n", "commit message about .env\n"] {
            assert_eq!(omit_hidden_files(text, false, &is_hidden), text);
        }
        let other = DIFF.replace(".env", ".envrc");
        assert_eq!(omit_hidden_files(&other, false, &is_hidden), other);
    }
}
