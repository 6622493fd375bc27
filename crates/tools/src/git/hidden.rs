//! Takes out of a text of git what belongs to files that no tool may see: their names stay, their lines do not.
//!
//! A diff says at its head which files it is about. From there on everything is left out until the next head; where it is in doubt
//! what a line belongs to, it is left out too.

use std::path::Path;

/// What begins a diff, and what is behind it.
const HEADS: [&str; 3] = ["diff --git ", "diff --cc ", "diff --combined "];
/// Lines of a head that name a file.
const NAMING: [&str; 6] = ["--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to "];
/// How git draws a history beside its text.
const GRAPH: [char; 6] = ['*', '|', '/', '\\', '_', ' '];

/// The text without the lines of hidden files.
pub(super) fn leave_out(text: &str, has_graph: bool, is_hidden: &dyn Fn(&Path) -> bool) -> String {
    let undrawn = |line: &str| -> usize {
        if has_graph { line.len() - line.trim_start_matches(GRAPH).len() } else { 0 }
    };
    let mut kept = String::with_capacity(text.len());
    let mut head: Vec<&str> = Vec::new();
    let mut part = Part::Outside;
    for line in text.split_inclusive('\n') {
        let bare = line.get(undrawn(line)..).unwrap_or(line);
        if HEADS.iter().any(|begin| bare.starts_with(begin)) {
            flush(&mut kept, &mut head, part, is_hidden);
            part = Part::Head;
        } else if is_commit(bare) {
            flush(&mut kept, &mut head, part, is_hidden);
            part = Part::Outside;
        } else if part == Part::Head && is_content(bare) {
            part = flush(&mut kept, &mut head, part, is_hidden);
        }
        match part {
            Part::Outside | Part::Shown => kept.push_str(line),
            Part::Head => head.push(line),
            Part::Hidden => {}
        }
    }
    flush(&mut kept, &mut head, part, is_hidden);
    kept
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Outside,
    /// Lines that say which file it is about.
    Head,
    Shown,
    Hidden,
}

/// Ends a head: what is behind it is shown, or is not.
fn flush(
    kept: &mut String,
    head: &mut Vec<&str>,
    part: Part,
    is_hidden: &dyn Fn(&Path) -> bool,
) -> Part {
    if part != Part::Head {
        return part;
    }
    let is_secret = head.iter().any(|line| names(line).any(|name| is_hidden(Path::new(name))));
    kept.extend(head.drain(..));
    if is_secret {
        kept.push_str("[no tool may see this file]\n");
        return Part::Hidden;
    }
    Part::Shown
}

/// Whether a line of a diff is about content rather than about files.
fn is_content(line: &str) -> bool {
    line.starts_with("@@") || line.starts_with("GIT binary patch")
}

/// `commit 1a2b3c…`, with which the next entry of a history begins.
fn is_commit(line: &str) -> bool {
    line.strip_prefix("commit ").is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        digits >= 7 && rest.as_bytes().get(digits).is_none_or(u8::is_ascii_whitespace)
    })
}

/// Every name that a line of a head may stand for: with and without what git puts before names, and word by word where it is open
/// where one name ends and the next begins.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_end().trim_start_matches(GRAPH_BEFORE);
    let begin = HEADS.iter().chain(&NAMING).find_map(|begin| line.strip_prefix(begin));
    let rest = begin.unwrap_or_default();
    let whole = [rest, rest.get(..rest.len() / 2).unwrap_or_default()].into_iter();
    whole.chain(rest.split_whitespace()).flat_map(|name| {
        let name = name.trim().trim_matches('"');
        [name, name.split_once('/').map_or("", |(_, behind)| behind)]
    })
}

/// What a history is drawn with, but for the slashes, which names begin with too.
const GRAPH_BEFORE: [char; 3] = ['*', '|', ' '];

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
        let shown = leave_out(DIFF, false, &is_hidden);
        let expected =
            DIFF.replace("@@ -1 +1 @@\n-KEY=old\n+KEY=new\n", "[no tool may see this file]\n");
        assert_eq!(shown, expected);
    }

    #[test]
    fn however_the_file_is_named() {
        for head in [
            "diff --git a/private/x b/private/x\n",
            "diff --git private/x private/x\n",
            "diff --git \"a/private/x y\" \"b/private/x y\"\n",
            "diff --git a/private/x y b/private/x y\n--- a/private/x y\t\n",
            "diff --cc private/x\n",
            "diff --git a/old b/private/x\nrename from old\nrename to private/x\n",
            "diff --git a/deep/.env b/deep/.env\ndeleted file mode 100644\n",
        ] {
            let text = format!("{head}@@ -1 +1 @@\n-secret\n+secret\n\ncommit 1234567\nafter\n");
            let shown = leave_out(&text, false, &is_hidden);
            let expected = format!("{head}[no tool may see this file]\ncommit 1234567\nafter\n");
            assert_eq!(shown, expected);
        }
        let drawn = "* commit 1234567\n| diff --git a/.env b/.env\n| --- a/.env\n| +++ b/.env\n| @@ -1 +1 @@\n| -secret\n* commit 7654321\n| after\n";
        let shown = leave_out(drawn, true, &is_hidden);
        assert!(!shown.contains("secret") && shown.contains("after"), "{shown}");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in ["", "no line end", "diff\n", " M .env\n", "commit message about .env\n"] {
            assert_eq!(leave_out(text, false, &is_hidden), text);
        }
        let other = DIFF.replace(".env", ".envrc");
        assert_eq!(leave_out(&other, false, &is_hidden), other);
    }
}
