//! Texts, and what they are understood to do.

use std::path::Path;

use windlass_core::Search;

use super::*;

fn understood(text: &str) -> Understood {
    let workspace = Path::new("/w");
    understand(text, Place { workspace, directory: workspace })
}

/// What is run, as `program word|program word`; `?` behind what is not all.
fn run(text: &str) -> String {
    let understood = understood(text);
    let commands: Vec<String> =
        understood.line.commands.iter().map(|command| command.words.join(" ")).collect();
    let open = if understood.line.unclear.is_some() { "?" } else { "" };
    format!("{}{open}", commands.join("|"))
}

#[test]
fn what_is_run() {
    for (text, expected) in [
        ("ls -la", "ls -la"),
        ("ls; pwd && id || date | wc", "ls|pwd|id|date|wc"),
        ("a & b", "a|b"),
        ("(a; b) && { c; }", "a|b|c"),
        ("if a; then b; else c; fi", "a|b|c"),
        ("! a", "a"),
        ("echo 'a b' \"c d\" e\\ f", "echo a b c d e f"),
        ("echo a # b; c", "echo a"),
        ("echo a#b", "echo a#b"),
        ("a \\\n b", "a b"),
        ("\\rm x; /bin/rm y; command rm z; env rm a; nice -n 5 rm b", "rm x|rm y|rm z|rm a|rm b"),
        ("timeout -k 5 10 nice rm x", "rm x"),
        ("sh -c 'rm x; bash -c \"rm y\"'", "rm x|rm y"),
        ("find . -exec rm {} \\;", "find . -exec rm {} ;|rm {}"),
        ("ls | xargs -n 1 rm", "ls|rm"),
        ("./scripts/../evil.sh", "./scripts/../evil.sh"),
        ("cd sub && ./x", "cd sub|./sub/x"),
        ("cat <<'X'\n$(rm x)\nX\nls", "cat|ls"),
        ("cat <<X\nplain\nX", "cat"),
        ("echo \"a$\"", "echo a$"),
        ("echo 2>f 1", "echo 1"),
        ("sudo rm x", "sudo rm x|rm x"),
        ("time -p ls", "ls"),
        // Not understood, and what is certain all the same.
        ("rm $x", "rm?"),
        ("echo $(rm x)", "rm x|echo?"),
        ("rm x; $y", "rm x?"),
        ("a=b rm x", "?"),
        ("cat <<X\n$(rm x)\nX", "cat?"),
        ("echo `rm x`", "echo?"),
        ("for i in a b; do rm $i; done", "rm?"),
        ("echo {a,b}", "echo?"),
        ("echo a\rb", "echo?"),
        ("a |\\\n b", "a?"),
        ("f() { rm x; }; f", "f?"),
        ("[[ -f a ]]", "?"),
        ("ls >(cat)", "ls?"),
        ("echo 'open", "echo?"),
        ("eval rm x", "eval rm x?"),
        ("echo\u{a0}x", "?"),
        ("ls)", "ls?"),
        (";", "?"),
        ("2\\\n>f", "?"),
        ("echo {fd}>f", "echo?"),
        ("ls &\\\n>f", "ls?"),
    ] {
        assert_eq!(run(text), expected, "{text}: {:?}", understood(text).line.unclear);
    }
}

#[test]
fn what_only_reads() {
    for (text, reads) in [
        ("ls -la | head -5", true),
        ("git log --oneline -5", true),
        ("git -C sub status", true),
        ("git branch -a", true),
        ("git branch new", false),
        ("git log --output=x", false),
        ("git log --outp=x", false),
        ("git -c a=b log", false),
        ("git stash", false),
        ("git stash list", true),
        ("git config user.name", true),
        ("git config user.name x", false),
        ("git remote -v", true),
        ("git remote add a b", false),
        ("sort -u f", true),
        ("sort -of f", false),
        ("sort -ignore-case f", false),
        ("find . -name '*.rs'", true),
        ("find . -delete", false),
        ("sed -n 1,5p f", true),
        ("sed -i s/a/b/ f", false),
        ("sed -n -e p -e 'w x' f", false),
        ("sed -ew\\ x f", false),
        ("awk '{print $1}' f", true),
        ("tar tf a.tar", true),
        ("tar -xf a.tar", false),
        ("rg foo src", true),
        ("rg --pre=x foo", false),
        ("cat *", true),
        ("cat src/*.rs", true),
        ("cat .e*", false),
        ("cat a/.[e]nv", false),
        ("rg foo *", false),
        ("uniq a b", false),
        ("find . -print0 | xargs -0 wc -l", true),
        ("find . | xargs wc -l", false),
        ("find . -print0 | xargs -0 git", false),
        ("cargo --version", true),
        ("cargo build", false),
        ("set -euo pipefail; ls", true),
        ("ls > f", false),
        ("ls 2>/dev/null >&2", true),
        ("command -v git", true),
        ("env", true),
        ("env A=b ls", false),
        ("date +%s", true),
        ("date -s now", false),
        ("printf '%s\\n' a", true),
        ("printf -v a b", false),
        ("test -f a && cat a", true),
        ("[ -v a ]", false),
    ] {
        let line = &understood(text).line;
        assert_eq!(line.only_reads(), reads, "{text}: {line:?}");
    }
}

#[test]
fn which_files_are_touched() {
    for (text, touched) in [
        ("cat a b", "exec cat a b, read /w/a, read /w/b"),
        ("cd s && cat ../x", "exec cd s && cat ../x, read /w/s, read /w/s/../x"),
        ("cd s; cat x", "exec cd s; cat x, read /w/s, read /w/s/x, read /w/x"),
        ("(cd s && ls); cat x", "exec (cd s && ls); cat x, read /w/s, read /w/x"),
        ("echo x >f 2>/dev/null", "exec echo x >f 2>/dev/null, write /w/f"),
        ("rm -rf d", "exec rm -rf d, delete /w/d/**"),
        ("cp a b", "exec cp a b, write /w/b/**, read /w/a/**"),
        ("git show HEAD:.env", "exec git show HEAD:.env, read /w/HEAD:.env/**, read /w/.env/**"),
        ("wc </etc/x", "exec wc </etc/x, read /etc/x"),
    ] {
        assert_eq!(understood(text).into_effects().to_string(), touched);
    }
}

#[test]
fn which_places_are_looked_through() {
    for (text, places) in [
        ("cat a b", ""),
        ("ls", ""),
        ("ls -la src", ""),
        ("git log -p", ""),
        ("echo *", ""),
        ("cat *", "/w/./ 1"),
        ("cat 'a*'", ""),
        ("cat src/*.rs", "/w/src/ 1"),
        ("cat src/*/x", "/w/src/ 2"),
        ("cat a/*/../*/x", "/w/a/../ 4"),
        ("cat /etc/*.conf", "/etc/ 1"),
        ("cd s && cat *", "/w/s/./ 1"),
        ("cd s; cat *", "/w/s/./ 1|/w/./ 1"),
        ("ls p*", "/w/./ 1"),
        ("ls -R", "/w/."),
        ("ls -R src", "/w/src"),
        ("grep x f", ""),
        ("grep -rn x", "/w/."),
        ("grep -R x src lib", "/w/src|/w/lib"),
        ("grep -d recurse x src", "/w/src"),
        ("grep -r x src/*", "/w/src/"),
        ("rg x", "/w/."),
        ("rg x src", "/w/src"),
        ("find -name x", "/w/."),
        ("find src lib -name x", "/w/src|/w/lib"),
        ("fd x", "/w/."),
        ("du -sh", "/w/."),
        ("git grep x", "/w/."),
        ("git -C sub grep x", "/w/sub"),
        ("git ls-files -z | xargs -0 cat", "/w/."),
        ("sed -n 1p s/*", "/w/s/ 1"),
        ("awk '{print $1}' ./*", "/w/./ 1"),
        ("diff -r a b", "/w/a|/w/b"),
        // Who does more was allowed to.
        ("cp -r . /x", ""),
        ("find . -delete", ""),
        ("make; grep -r x src", "/w/src"),
    ] {
        let line = &understood(text).line;
        let spelled = |search: &Search| {
            let depth = search.depth.map(|depth| format!(" {depth}")).unwrap_or_default();
            format!("{}{depth}", search.place.path.display())
        };
        let found: Vec<String> = line.searches.iter().map(spelled).collect();
        assert_eq!(found.join("|"), places, "{text}: {line:?}");
    }
}

#[test]
fn limits_are_not_understood() {
    for text in ["(".repeat(5_000), "echo;".repeat(5_000), "nice ".repeat(100), "x".repeat(100_000)]
    {
        assert!(understood(&text).line.unclear.is_some());
    }
}
