//! Compares the parser with git itself, and tests keys that are inert or not.

use super::*;

const PATHS: fn() -> ConfigPaths<'static> =
    || ConfigPaths { directory: Path::new("/w/.git/modules/a"), workspace: Path::new("/w") };

/// Lists the entries as `git config --list` prints them; a key without a value has no `=`.
fn list_entries(text: &str) -> Option<Vec<String>> {
    let line = |entry: ConfigEntry| {
        let ConfigEntry { section, subsection, key, value } = entry;
        let subsection = subsection.map_or_else(String::new, |name| format!(".{name}"));
        let value = value.map_or_else(String::new, |value| format!("={value}"));
        format!("{section}{subsection}.{key}{value}")
    };
    parse(text.as_bytes()).ok().map(|entries| entries.into_iter().map(line).collect())
}

/// Lists the entries by running git.
fn list_entries_by_git(text: &str) -> Option<Vec<String>> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a file");
    let git = std::process::Command::new("git")
        .args(["config", "--null", "--list", "--file"])
        .arg(file.path())
        .output()
        .expect("git is installed");
    let printed = String::from_utf8(git.stdout).expect("text");
    let lines = printed.split_terminator('\0').map(|line| line.replacen('\n', "=", 1));
    git.status.success().then(|| lines.collect())
}

#[test]
fn parser_agrees_with_git() {
    for (text, expected) in [
        ("", Some(vec![])),
        ("[core]\n\tbare = false\n", Some(vec!["core.bare=false"])),
        ("\u{feff}[CORE]\nBare=FALSE", Some(vec!["core.bare=FALSE"])),
        ("[core]\r\n\tbare = false\r\n", Some(vec!["core.bare=false"])),
        ("[core] bare = true", Some(vec!["core.bare=true"])),
        ("[core]bare", Some(vec!["core.bare"])),
        ("[core]\nbare\n", Some(vec!["core.bare"])),
        ("[a]\nb =\n", Some(vec!["a.b="])),
        ("[remote \"O.x\"]\nurl = u", Some(vec!["remote.O.x.url=u"])),
        ("[remote \"a\\\"b\\\\c\\d\"]\nurl = u", Some(vec!["remote.a\"b\\cd.url=u"])),
        ("[Remote.Origin]\nurl = u", Some(vec!["remote.origin.url=u"])),
        ("[a.B \"C\"]\nd = u", Some(vec!["a.b.C.d=u"])),
        ("[a]\nb = c \\\n  d\n", Some(vec!["a.b=c   d"])),
        ("[a]\nb = c # d\ne = f ; g\n", Some(vec!["a.b=c", "a.e=f"])),
        ("[a]\nb = \"c # d\" e\n", Some(vec!["a.b=c # d e"])),
        ("[a]\nb = \" c \"  \n", Some(vec!["a.b= c "])),
        ("[a]\nb = c\"d\"e\n", Some(vec!["a.b=cde"])),
        ("[a]\nb = c\\td\\\\\\\"\n", Some(vec!["a.b=c\td\\\""])),
        ("# x\n; y\n[a] # z\nb=1", Some(vec!["a.b=1"])),
        // A comment does not go on in the next line.
        ("[a]\nb = 1 # x \\\nc = 2", Some(vec!["a.b=1", "a.c=2"])),
        ("[a]\nb = c \\\n", Some(vec!["a.b=c "])),
        ("[a]\nb = c \"\" \n", Some(vec!["a.b=c "])),
        ("[a]\nb = \\\n  c\n", Some(vec!["a.b=c"])),
        ("[a]\nb = c\rd\n", Some(vec!["a.b=c\rd"])),
        ("[a\n\"b\"]\nc = 1", None),
        ("[a\nb = 1", None),
        ("[a \"b]\nc = 1", None),
        ("[a \"b\" ]\nc = 1", None),
        ("[a b]\nc = 1", None),
        ("[a_b]\nc = 1", None),
        ("[a]\n1b = 1", None),
        ("[a]\nb c = 1", None),
        ("[a]\nb = \\x", None),
        ("[a]\nb = \"c", None),
        ("[a]\nb = \"c\nd\"", None),
    ] {
        let expected = expected.map(|lines| lines.into_iter().map(str::to_owned).collect());
        assert_eq!(list_entries(text), expected, "{text:?}");
        assert_eq!(list_entries_by_git(text), expected, "git: {text:?}");
    }
    // Git accepts a key without a section, and nothing reads it.
    assert_eq!(list_entries("b = 1"), None);
    assert_eq!(parse(b"[a]\n\nb c"), Err(ConfigError { line: 3 }));
    assert!(parse(b"[a]\nb = \xff").is_err());
    assert!(parse(b"[a]\nb = c\0d").is_err());
}

fn is_inert(text: &str) -> bool {
    is_inert_change(None, text.as_bytes(), PATHS()).unwrap_or(false)
}

#[test]
fn harmless_keys_are_inert() {
    for text in [
        "[core]\nrepositoryformatversion = 0\nfilemode = true\nbare = false\nlogallrefupdates = true",
        "[core]\nworktree = ../../../lib",
        "[core]\nworktree = /w/lib",
        "[remote \"origin\"]\nurl = https://github.com/a/b.git\nfetch = +refs/heads/*:refs/remotes/origin/*",
        "[remote \"o\"]\nurl = git@github.com:a/b.git\ntagOpt = --no-tags",
        "[remote \"o\"]\nurl = ../lib",
        "[remote \"o\"]\nurl = /srv/git/lib",
        "[remote \"o\"]\nurl = ssh://git@[::1]:22/a",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main",
        "[branch \"main\"]\nremote = .",
        "[submodule \"lib\"]\nurl = https://a/b\nactive = true",
        "[user]\nname = A\nemail = a@b",
        "[color \"diff\"]\nmeta = blue",
        "[extensions]\nworktreeConfig = true\nobjectFormat = sha256",
        "[commit]\ngpgsign = false",
    ] {
        assert!(is_inert(text), "{text}");
    }
}

#[test]
fn keys_that_run_programs_or_trust_others_are_not_inert() {
    for text in [
        "[core]\nfsmonitor = /tmp/x",
        "[core]\nhooksPath = /tmp",
        "[core]\nsshCommand = x",
        "[core]\npager = x",
        "[core]\neditor = x",
        "[core]\naskPass = x",
        "[core]\ngitProxy = x",
        "[core]\nalternateRefsCommand = x",
        "[core]\nattributesFile = x",
        "[core]\nworktree = /",
        "[core]\nworktree = ../../../../x",
        "[core]\nworktree",
        "[core \"x\"]\nbare = true",
        "[diff]\nexternal = x",
        "[diff \"a\"]\ntextconv = x",
        "[filter \"a\"]\nclean = x",
        "[credential]\nhelper = x",
        "[alias]\nx = !sh",
        "[alias]\nst = status",
        "[gpg]\nprogram = x",
        "[include]\npath = x",
        "[includeIf \"gitdir:/\"]\npath = x",
        "[uploadpack]\npackObjectsHook = x",
        "[remote \"o\"]\nuploadpack = x",
        "[remote \"o\"]\nreceivepack = x",
        "[remote \"o\"]\nvcs = x",
        "[remote \"o\"]\nproxy = x",
        "[remote \"o\"]\ntagOpt = --upload-pack=x",
        "[remote \"o\"]\nurl = ext::sh -c x",
        "[remote \"o\"]\nurl = EXT::x",
        "[remote \"o\"]\nurl = hg+x://a",
        "[remote \"o\"]\nurl = foo://a",
        "[remote \"o\"]\nurl = -x",
        "[remote \"o\"]\nurl = ssh://-oProxyCommand=x/a",
        "[remote \"o\"]\nurl = ssh://a@-oProxyCommand=x/a",
        "[remote \"o\"]\nurl = a@-oProxyCommand=x:a",
        "[remote \"o\"]\nurl = \"a\\nb\"",
        "[branch \"main\"]\nremote = ext::x",
        "[branch \"main\"]\nmergeOptions = -s x",
        "[submodule \"a\"]\nupdate = !x",
        "[url \"ext::x\"]\ninsteadOf = https://",
        "[protocol]\nallow = always",
        "[protocol \"ext\"]\nallow = always",
        "[extensions]\npartialClone = o",
        "[safe]\ndirectory = *",
        "[commit]\ngpgsign = true",
        "[http]\nsslVerify = false",
        "[unknown]\na = b",
        "[core]\nbare = false\n[core]fsmonitor=x",
        "not a configuration",
    ] {
        assert!(!is_inert(text), "{text}");
    }
}

#[test]
fn only_changed_keys_are_checked() {
    let old = "[core]\nfsmonitor = a\nbare = false\n[alias]\nx = !y\nx = !z\n";
    let check = |new: &str| {
        is_inert_change(Some(old.as_bytes()), new.as_bytes(), PATHS()).expect("it parses")
    };
    for (new, expected) in [
        (old, true),
        ("[core]\nfsmonitor = a\nbare = true\n[alias]\nx = !y\nx = !z\n", true),
        ("[core]\nfsmonitor = b\n[alias]\nx = !y\nx = !z\n", false),
        ("[core]\nbare = false\n", true),
        ("", false),
        // The last one counts.
        ("[alias]\nx = !z\nx = !y\n", false),
        ("[alias]\nx = !y\n", false),
        ("[core]\nbare = false\n[alias]\nX = !y\nX = !z\n[user]\nname = a\n", true),
    ] {
        assert_eq!(check(new), expected, "{new}");
    }
    // An old file that git refuses sets nothing.
    let broken = is_inert_change(Some(b"[core\nfsmonitor = a"), b"[core]\nfsmonitor = a", PATHS());
    assert_eq!(broken, Ok(false));
}

#[test]
fn redirecting_an_existing_remote_is_not_inert() {
    let old = "[remote \"origin\"]\nurl = /srv/a\nfetch = x\n[branch \"main\"]\nremote = origin\nmerge = m\n";
    for (new, expected) in [
        ("[remote \"fork\"]\nurl = /srv/b\nfetch = x", true),
        ("[branch \"topic\"]\nremote = origin\nmerge = t", true),
        ("[branch \"main\"]\nrebase = true", true),
        ("[remote \"origin\"]\nurl = /srv/evil", false),
        ("[remote \"origin\"]\npushurl = /srv/evil", false),
        ("[remote \"origin\"]\npush = +refs/heads/*", false),
        ("[remote]\npushDefault = fork", false),
        ("[branch \"main\"]\nremote = evil", false),
        ("[branch \"main\"]\npushRemote = evil", false),
    ] {
        let all = format!("{old}{new}\n");
        let found = is_inert_change(Some(old.as_bytes()), all.as_bytes(), PATHS());
        assert_eq!(found, Ok(expected), "{new}");
    }
}
