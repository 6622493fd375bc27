//! A word with a slash is a path only if the program takes a path in that position.

use windlass_core::{Effect, Reach};

use super::analyze_in_workspace;

/// Each command with the files that its words name: first the reads, then writes and deletions with a `!` before them.
const COMMANDS_WITH_FILES: &[(&str, &str)] = &[
    // Patterns, scripts and texts.
    ("grep /etc/passwd f", "f"),
    ("grep -e /a/b -e /c f", "f"),
    ("grep -rn --include='/x/*' /api/v1 src", "src/"),
    ("grep -f pats f", "pats f"),
    ("rg /api/v1 src", "src/"),
    ("rg -g '/x/**' /api/v1 src", "src/"),
    ("rg -e /a src lib", "src/ lib/"),
    ("sed 's/a/b/' f", "f"),
    ("sed -n '/x/,/y/p' f", "f"),
    ("sed -e s/a/b/ -e s/c/d/ f", "f"),
    ("sed s,/etc,/usr, f", "f"),
    ("awk '/x/ {print}' f", "f"),
    ("awk -F/ '{print $2}' f", "f"),
    ("awk -v p=/etc/x '$1 == p' f", "f"),
    ("jq '.a/.b' f", "f"),
    ("jq -r --arg p /etc/x '.[$p]' f", "f"),
    ("echo /etc/shadow", ""),
    ("echo a/b ../c", ""),
    ("printf '%s/%s' a/b /c", ""),
    ("expr /a/b : '.*/'", ""),
    ("tr / _ < f", "f"),
    ("tr '/' '\\n'", ""),
    ("cut -d/ -f1 f", "f"),
    ("cut -d / -f 2", ""),
    ("paste -d/ f g", "f g"),
    ("sort -t/ -k2 f", "f"),
    ("nl -s/ f", "f"),
    ("column -s/ -t f", "f"),
    ("date +%d/%m/%Y", ""),
    ("date -d 2020/01/02 +%s", ""),
    ("basename /etc/passwd", ""),
    ("dirname ../a/b", ""),
    ("seq -s/ 1 3", ""),
    ("test -f /etc/shadow", ""),
    ("[ /a = ../b ]", ""),
    ("command -v /opt/x", ""),
    ("df -h /home", ""),
    ("pgrep -f /opt/x", ""),
    ("A=/etc/x ls", ""),
    ("export A=/etc/x", ""),
    // Expressions and patterns of programs that search directory trees.
    ("find . -path '*/x'", "./"),
    ("find . -name '*/x' -not -path ./d/x", "./"),
    ("find src -regex '.*/x' -printf '%h/%f'", "src/"),
    ("find . -newer f", "./ f"),
    ("find . -newermt 2020/01/01", "./"),
    ("fd /x src", "src/"),
    ("fd -E /d x", ""),
    ("tree -P 'a/b' -I '/c' src", "src/"),
    ("du --exclude=/c src", "src/"),
    ("ls -I '/c' src", "src/"),
    ("diff -I '^/x' --label /a f g", "f/ g/"),
    ("tar tf f --exclude=/x /member", "f"),
    // Programs with operands of other kinds.
    ("curl https://a.example/etc/x", ""),
    ("curl -H 'x: /a' https://a.example", ""),
    ("wget -q https://a.example/x", ""),
    ("make build/x", ""),
    ("cargo test a/b", ""),
    ("npm run /x", ""),
    ("docker run -v /a:/b x", ""),
    ("docker exec x cat /etc/shadow", ""),
    ("ssh host cat /etc/shadow", ""),
    ("ssh host 'cd /root && cat x > /y'", ""),
    ("touch -d 2020/01/01 f", "!f"),
    ("chown a/b f", "!f/"),
    ("python3 -c 'open(\"/x\")'", ""),
    // Revisions, settings and paths of git.
    ("git show :/start", "start/"),
    ("git show ':/fix /etc'", "fix /etc/"),
    ("git show HEAD:src/x", "src/x/"),
    ("git show :src/x :0:src/y", "src/x/ src/y/"),
    ("git show 'HEAD^{/a:b}:c'", "c/"),
    ("git show origin/main:../x", "../x/"),
    ("git show HEAD:.env", ".env/"),
    ("git cat-file -p HEAD:.env", ".env/"),
    ("git log origin/main --", ""),
    ("git log origin/main -- src", "src/"),
    ("git log a/b..c/d -- ../x", "../x/"),
    ("git log --author -- .env", ".env/"),
    ("git log --grep=/x -S/y --format=%h/%s --", ""),
    ("git log -- ':(top)x' ':!y' ':/z' ':^v' ':(exclude)w'", "x/ z/"),
    ("git diff a/b..c/d --", ""),
    ("git diff .env", ".env/"),
    ("git diff /etc/x", "/etc/x/"),
    ("git diff HEAD -- .env", ".env/"),
    ("git blame -L /x/,+5 f", "f/"),
    ("git blame HEAD -- f", "f/"),
    ("git grep /api/v1", ""),
    ("git grep -n /api/v1 -- src", "src/"),
    ("git grep -e /a -e /b src", "src/"),
    ("git ls-files src", "src/"),
    ("git ls-files ':!x' -- src", "src/"),
    ("git status src -- lib", "src/ lib/"),
    ("git rev-parse origin/main HEAD:.env", ""),
    ("git rev-parse --git-path=/x", ""),
    ("git merge-base origin/main a/b", ""),
    ("git describe --match 'v/*' origin/main", ""),
    ("git branch -r --list 'origin/*'", ""),
    ("git branch --contains origin/main", ""),
    ("git tag -l '/x*'", ""),
    ("git for-each-ref /refs/heads", ""),
    ("git config --get-regexp '^url./x'", ""),
    ("git remote get-url origin/x", ""),
    ("git stash show stash@{0}", ""),
    ("git -C sub show HEAD:x", "sub/ sub/x/"),
    ("git -C sub log -- ../x", "sub/ sub/../x/"),
    ("git log ^origin/main a", "a/"),
    // `ln -s` names the target of a link and reads nothing; a later path through the link reads it.
    ("ln -s ../x docs/l", "!docs/l/"),
    ("ln -s /etc/shadow l", "!l/"),
    ("ln -s ../shared", "!shared"),
    ("ln -sf a b d", "!d/"),
    ("ln -st d ../x", "!d/"),
    ("ln x y", "x/ !y/"),
    ("ln -s /root/k l; cat l", "l /root/k !l/"),
    ("ln -s /root/d d/; cat d/d/k", "d/d/k /root/d/k /root/d/d/k !d//"),
    ("ln -s ../.. d/l && cd d/l && cat x", "d/l / d/l/x d/../../x !d/l/"),
    ("ln -s /root l; echo x > l/y", "!l/ !l/y !/root/y"),
    ("ln -s /root/d l; cat l/../x", "l/../x /root/d/../x !l/"),
    ("ln -s a b; ln -s b a; cat a/x", "a/x b/x !b/ !a/"),
];

/// Returns an access in the notation of the table: relative to the workspace, with `!` for a change and a slash behind a tree.
fn table_notation(effect: &Effect) -> Option<String> {
    let (mark, pattern) = match effect {
        Effect::Read(pattern) => ("", pattern),
        Effect::Write(pattern) | Effect::Delete(pattern) => ("!", pattern),
        _ => return None,
    };
    let shown = pattern.path.to_string_lossy();
    let shown = shown.strip_prefix("/w/").unwrap_or(&shown);
    let end = if pattern.reach == Reach::Tree { "/" } else { "" };
    Some(format!("{mark}{shown}{end}"))
}

#[test]
fn words_are_paths_where_the_program_takes_one() {
    let mut wrong = Vec::new();
    for (text, expected) in COMMANDS_WITH_FILES {
        let found = analyze_in_workspace(text);
        let mut named: Vec<String> = found.files().filter_map(|it| table_notation(&it)).collect();
        named.sort_by_key(|path| path.starts_with('!'));
        let named = named.join(" ");
        if named != *expected {
            wrong.push(format!("{text}: {named:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
