//! Compares what git itself reads with what the parser reads and writes.

use std::process::Command;

use proptest::prelude::*;
use tempfile::TempDir;

use super::config::{parse, write};
use super::*;

/// `section.subsection.key\nvalue` of each setting, as `git config --list -z` gives them; `None` if git refuses the file.
fn as_git_reads(text: &str) -> Option<Vec<String>> {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, text).unwrap();
    let output = Command::new("git")
        .current_dir(directory.path())
        .args(["config", "--list", "-z", "--file"])
        .arg(&file)
        .output()
        .expect("git is needed for this test");
    let text = String::from_utf8(output.stdout).unwrap();
    // Git also lists keys before the first section, but nothing uses them.
    let has_section = |setting: &&str| setting.split('\n').next().unwrap().contains('.');
    let settings = text.split_terminator('\0').filter(has_section).map(str::to_owned).collect();
    output.status.success().then_some(settings)
}

fn as_parsed(settings: &[Setting]) -> Vec<String> {
    let told = |setting: &Setting| {
        let subsection = setting.subsection.iter().map(|name| format!(".{name}"));
        let value = setting.value.iter().map(|value| format!("\n{value}"));
        let (subsection, value): (String, String) = (subsection.collect(), value.collect());
        format!("{}{subsection}.{}{value}", setting.section, setting.key)
    };
    settings.iter().map(told).collect()
}

#[test]
fn files_are_read_as_git_reads_them() {
    for text in [
        "",
        "b = 1\n[c]\nd = 2\n",
        "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n",
        "[User]\r\n\tNAME = Ada\r\n",
        "\u{feff}[a]\nb = c",
        "[a] b = c\n[d]e=f",
        "[a]\nb\n  c  \nd =\n",
        "[a]\nb = \"  x  \" \nc = x  y z  # comment\nd = \"x;y\" ; more\n",
        "[a]\nb = x\\\n  y\\\n\nc = \"x\\\ny\"\n",
        "[a]\nb = \\\"q\\\" \\\\ \\n\\t\\b\n",
        "[a]\nb = one\" two \"three\n",
        "[branch \"x/y \\\"z\\\" \\\\ \\w\"]\nremote = o\n",
        "[branch \"Keep.Case\"]\nb = c\n[branch.Lower]\nb = c\n",
        "# c\n; d\n[a] # e\nb = c#d\n",
        "[a]\nb = 1\nb = 2\n[c]\nd=e\n[a]\nb=3\n",
        "[a \"\"]\nb = c\n",
        "[a]\nb = ü \u{1f600}\n",
        "[a]\nb = \"\"\n",
        "[a]\nb = x\\\n# not a comment\n",
        "[a]\nb = 1\\",
        "[a]\nb = \\\n  x \\\n\nc = \"\" x\n",
        "[a-b]\nc-d2 = x\n",
    ] {
        assert_eq!(Some(as_parsed(&parse(text))), as_git_reads(text), "{text:?}");
        assert_eq!(as_git_reads(&write(&parse(text))), as_git_reads(text), "{text:?}");
    }
}

#[test]
fn what_git_refuses_is_left_out() {
    for (text, expected) in [
        ("[a]\nb = \"open\nc = 1\n", &["a.c\n1"][..]),
        ("[a]\nb = \\x\nc = 1\n", &["a.c\n1"]),
        ("[a]\n1b = x\nc = 1\n", &["a.c\n1"]),
        ("[a]\nb x\nc = 1\n", &["a.c\n1"]),
        ("[a]\nb \r= x\nc = 1\n", &["a.c\n1"]),
        ("[a]\nb # comment\nc = 1\n", &["a.c\n1"]),
        ("[a\nb = 1\n[c]\nd = 2\n", &["c.d\n2"]),
        ("[a \"b]\nb = 1\n[c]\nd = 2\n", &["c.d\n2"]),
        ("[a\"b\"]\nb = 1\n[c]\nd = 2\n", &["c.d\n2"]),
        ("[]\nb = 1\n[c]\nd = 2\n", &["c.d\n2"]),
        ("=\n[c]\nd = 2\n", &["c.d\n2"]),
    ] {
        assert_eq!(as_git_reads(text), None, "{text:?}");
        assert_eq!(as_parsed(&parse(text)), expected, "{text:?}");
    }
    // Git reads these, but they cannot be written safely.
    for text in ["[a]\nb = x\ry\n", "[a]\nb = \u{1}\n", "[a]\nb = \u{fffd}\n"] {
        assert!(parse(text).is_empty(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_parsed_is_read_back_by_git(text in "(\\[(a|b c|d \"e\\\\?\"|f\\.g)?\\]?|[a-c= \"\\\\#;\n\r]|\\\\\n|h = |\n){0,40}") {
        let parsed = parse(&text);
        let written = write(&parsed);
        prop_assert_eq!(as_git_reads(&written), Some(as_parsed(&parsed)), "{:?}", written);
        if let Some(read) = as_git_reads(&text).filter(|_| !text.contains('\r')) {
            prop_assert_eq!(as_parsed(&parsed), read);
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "\\PC*|[\\[\\]a\"\\\\=\r\n #]*") {
        let parsed = parse(&text);
        prop_assert_eq!(parse(&write(&parsed)), parsed);
    }
}

#[test]
fn identity_and_habits_are_kept_and_nothing_else() {
    for (line, is_kept) in [
        ("[user]name=Ada", true),
        ("[USER]Email=a@b", true),
        ("[user]signingkey=ABC", false),
        ("[core]autocrlf=input", true),
        ("[core]pager=less", false),
        ("[core]editor=vi", false),
        ("[core]sshCommand=ssh -i x", false),
        ("[core]hooksPath=/x", false),
        ("[core]fsmonitor=/x", false),
        ("[core]excludesFile=~/x", false),
        ("[core]askpass=x", false),
        ("[credential]helper=store", false),
        ("[credential \"https://x\"]username=y", false),
        ("[url \"https://t@x/\"]insteadOf=https://x/", false),
        ("[http]extraHeader=Authorization: x", false),
        ("[http]proxy=http://u:p@h", false),
        ("[alias]st=status -sb", true),
        ("[alias]x=!rm -rf", false),
        ("[alias]x=\" !sh\"", false),
        ("[alias]x=-c http.extraHeader=y fetch", false),
        ("[alias \"x\"]command=!sh", false),
        ("[include]path=~/x", false),
        ("[includeIf \"gitdir:~/w\"]path=~/x", false),
        ("[diff]algorithm=histogram", true),
        ("[diff]external=x", false),
        ("[diff \"d\"]textconv=x", false),
        ("[diff \"d\"]xfuncname=x", true),
        ("[merge]conflictStyle=zdiff3", true),
        ("[merge]tool=x", false),
        ("[merge \"d\"]driver=x", false),
        ("[filter \"lfs\"]clean=git-lfs clean -- %f", true),
        ("[filter \"lfs\"]clean=/x/git-lfs clean -- %f", false),
        ("[filter \"x\"]clean=git-lfs clean -- %f", false),
        ("[branch \"main\"]remote=origin", true),
        ("[branch \"main\"]remote=https://u:p@h/x", false),
        ("[branch \"main\"]mergeOptions=-s x", false),
        ("[submodule \"x\"]update=!sh", false),
        ("[submodule]recurse", true),
        ("[color \"diff\"]meta=blue", true),
        ("[gpg]program=x", false),
        ("[commit]gpgSign=true", false),
        ("[commit]template=~/x", false),
        ("[log]showSignature=true", false),
        ("[log]date=iso", true),
        ("[safe]directory=/x", true),
        ("[sequence]editor=x", false),
        ("[sendemail]smtpPass=x", false),
        ("[pull]rebase=true", true),
        ("[pull]twohead=x", false),
        ("[github]token=x", false),
    ] {
        let settings = parse(line);
        assert_eq!(settings.len(), 1, "{line}");
        assert_eq!(is_allowed(&settings[0]), is_kept, "{line}");
    }
}

struct Home(TempDir);

impl Home {
    fn with(files: &[(&str, &str)]) -> Self {
        let home = Self(TempDir::new().unwrap());
        for (name, text) in files {
            let path = home.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        home
    }

    fn config(&self, variables: &[(&str, &str)]) -> Option<String> {
        git_config(self.0.path(), &|name| self.variable(variables, name))
    }

    fn ignore(&self, variables: &[(&str, &str)]) -> Option<String> {
        let ignore = git_ignore(self.0.path(), &|name| self.variable(variables, name));
        ignore.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn variable(&self, variables: &[(&str, &str)], name: &str) -> Option<OsString> {
        let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
        Some(self.0.path().join(value).into())
    }
}

#[test]
fn the_files_are_read_in_order() {
    let home = Home::with(&[
        (".gitconfig", "[user]\nname = second\n[init]\ndefaultBranch = main\n"),
        (".config/git/config", "[user]\nname = first\n"),
        ("moved/git/config", "[user]\nname = moved\n"),
    ]);
    let own = "\tname = \"second\"\n[init]\n\tdefaultbranch = \"main\"\n";
    let text = |first: &str| Some(format!("[user]\n\tname = \"{first}\"\n{own}"));
    assert_eq!(home.config(&[]), text("first"));
    assert_eq!(home.config(&[("XDG_CONFIG_HOME", "moved")]), text("moved"));
    let only = home.config(&[("GIT_CONFIG_GLOBAL", "moved/git/config")]);
    assert_eq!(only.as_deref(), Some("[user]\n\tname = \"moved\"\n"));
}

#[test]
fn without_anything_to_keep_there_is_no_file() {
    assert_eq!(Home::with(&[]).config(&[]), None);
    assert_eq!(Home::with(&[(".gitconfig", "[credential]\nhelper = x\n")]).config(&[]), None);
    assert_eq!(Home::with(&[(".gitconfig/x", "")]).config(&[]), None);
    let large = "[user]\nname = x\n".repeat(70_000);
    assert_eq!(Home::with(&[(".gitconfig", &large)]).config(&[]), None);
}

#[test]
fn the_global_ignore_file_is_found() {
    let ignore = (".config/git/ignore", "default\n");
    for (files, expected) in [
        (&[][..], None),
        (&[ignore], Some("default\n")),
        (&[ignore, (".gitconfig", "[core]excludesFile=~/own"), ("own", "own\n")], Some("own\n")),
        (&[ignore, (".gitconfig", "[core]excludesFile=~/absent")], None),
        (&[ignore, (".gitconfig", "[core]excludesFile=relative"), ("relative", "x")], None),
    ] {
        assert_eq!(Home::with(files).ignore(&[]).as_deref(), expected, "{files:?}");
    }
    let moved = Home::with(&[ignore, ("moved/git/ignore", "moved\n")]);
    assert_eq!(moved.ignore(&[("XDG_CONFIG_HOME", "moved")]).as_deref(), Some("moved\n"));
    let large = "x\n".repeat(200_000);
    assert_eq!(Home::with(&[(".config/git/ignore", &large)]).ignore(&[]), None);
}
