//! Tests of the analysis: scripts with the commands, file accesses and risks that it finds.

use std::path::Path;

use windlass_core::{
    AskTime, CommandSearch, Decision, DecisionContext, HardDenies, Mode, PathPattern, Policy,
    normalize,
};

mod disguised;
mod operands;

use super::*;

/// Analyzes a script in the workspace `/w` with the home directory `/home/ada`.
fn analyze_in_workspace(text: &str) -> ScriptAnalysis {
    let workspace = Path::new("/w");
    analyze(
        text,
        &Shell::default(),
        RunLocation { workspace, directory: workspace, home: Some(Path::new("/home/ada")) },
    )
}

/// Returns the commands of a script as `program word|program word`, with `?` at the end if the script is unclear.
fn commands_of(text: &str) -> String {
    let understood = analyze_in_workspace(text);
    let commands: Vec<String> =
        understood.line.commands.iter().map(|command| command.words.join(" ")).collect();
    let open = if understood.line.unclear.is_some() { "?" } else { "" };
    format!("{}{open}", commands.join("|"))
}

#[test]
fn lists_every_command_that_runs() {
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
        // Variables.
        ("a=b rm x", "rm x"),
        ("a=b c='d e' rm x", "rm x"),
        ("a=rm; $a x; echo \"$a y\"", "rm x|echo rm y"),
        ("a=rm b=$a; \"$b\" x", "rm x"),
        ("export a=rm; $a x", "export a=rm|rm x"),
        ("ls ~ ~/x \"$HOME\"/y ${HOME}/z", "ls /home/ada /home/ada/x /home/ada/y /home/ada/z"),
        ("cat '~' \"~/x\" a~", "cat ~ ~/x a~"),
        ("cd s && cat $PWD/x", "cd s|cat /w/s/x"),
        ("cd ~/x && ls; cd", "cd /home/ada/x|ls|cd /home/ada"),
        ("for i in a b; do rm $i; done", "rm a|rm b"),
        ("for i in 'a b' *.md; do wc \"$i\"; done", "wc a b|wc *.md"),
        ("for i in *.md; do wc $i; done", "wc *.md"),
        (
            "for i in a; do for j in b c; do rm $i/$j; done; done; for i in d; do rm $i; done",
            "rm a/b|rm a/c|rm d",
        ),
        ("(a=rm); $a x", "?"),
        ("a=rm | b; $a x", "b?"),
        ("true && a=rm; $a x", "true?"),
        ("a=ls; a=rm; $a x", "?"),
        ("a=ls; while b; do $a; a=rm; done", "b?"),
        ("for a in ls; do a=rm; $a x; done", "?"),
        ("for a in ls; do b; done; $a x", "b?"),
        ("a='b c'; rm $a", "rm?"),
        ("a=; rm $a", "rm?"),
        ("for i in */x; do rm $i; done", "rm?"),
        ("a+=b rm x", "?"),
        ("a=(b c)", "?"),
        ("PATH=. ls", "ls?"),
        ("GIT_DIR=x git log", "git log?"),
        ("for PATH in .; do ls; done", "ls?"),
        ("ls ~root", "ls?"),
        ("sh -c 'rm $HOME/x'", "rm /home/ada/x"),
        ("a=b; sh -c 'rm $a'", "rm?"),
        ("echo x > ~/y", "echo x"),
        ("echo {} '{a,b}' \"{1..2}\"", "echo {} {a,b} {1..2}"),
        // Programs that run others.
        ("env -S 'rm x'; env -S 'A=b rm' y; env -iv A=b rm z", "rm x|rm y|rm z"),
        ("xargs -a f rm; xargs -0r rm x", "rm|rm x"),
        ("exec -a n rm x", "rm x"),
        (
            "flock f rm x; flock f -c 'rm y'; flock -n f rm z",
            "flock f rm x|rm x|flock f -c rm y|rm y|flock -n f rm z|rm z",
        ),
        ("unshare -r rm x", "unshare -r rm x|rm x"),
        ("watch -n 1 rm x; watch -x rm y", "watch -n 1 rm x|rm x|watch -x rm y|rm y"),
        ("script -qc 'rm x' /dev/null", "script -qc rm x /dev/null|rm x"),
        ("/lib64/ld-linux-x86-64.so.2 /bin/rm x", "/lib64/ld-linux-x86-64.so.2 /bin/rm x|rm x"),
        (
            "setsid -w rm x; ionice -c3 rm x; chrt -o 0 rm x; taskset -c 1 rm x",
            "rm x|rm x|rm x|rm x",
        ),
        ("stdbuf -oL rm x; /usr/bin/time -p rm x; timeout -k1 5 rm x", "rm x|rm x|rm x"),
        ("busybox rm x; toybox rm y", "busybox rm x|rm x|toybox rm y|rm y"),
        (
            "parallel -j2 rm ::: x; ls | entr -r rm /_",
            "parallel -j2 rm ::: x|rm|ls|entr -r rm /_|rm /_",
        ),
        ("strace -fo l rm x; valgrind -q rm x", "strace -fo l rm x|rm x|valgrind -q rm x|rm x"),
        ("ssh -p 22 localhost rm x", "ssh -p 22 localhost rm x|rm x"),
        (
            "su -c 'rm x'; runuser -u a -- rm x; doas -u a rm x",
            "su -c rm x|rm x|runuser -u a -- rm x|rm x|doas -u a rm x|rm x",
        ),
        (
            "systemd-run --user rm x; chroot / rm x; nsenter -t 1 -m rm x",
            "systemd-run --user rm x|rm x|chroot / rm x|rm x|nsenter -t 1 -m rm x|rm x",
        ),
        ("bwrap --bind / / --dev /dev rm x", "bwrap --bind / / --dev /dev rm x|rm x"),
        ("find . -execdir rm {} + -ok rm y \\;", "find . -execdir rm {} + -ok rm y ;|rm {}|rm y"),
        (
            "git rebase -qx 'rm x' main; git submodule foreach -q rm x",
            "git rebase -qx rm x main|rm x|git submodule foreach -q rm x|rm x",
        ),
        (
            "bash -lc 'rm x'; bash -o pipefail -c 'rm x'",
            "bash -lc rm x|rm x|bash -o pipefail -c rm x|rm x",
        ),
        ("/usr/bin/../bin/env rm x", "/usr/bin/../bin/env rm x|rm x"),
        ("hyperfine -p 'rm x' 'rm y'", "rm x|hyperfine -p rm x rm y|rm y"),
        // Unclear scripts, with the commands that are certain all the same.
        ("rm $x", "rm?"),
        ("echo $(rm x)", "rm x|echo?"),
        ("rm x; $y", "rm x?"),
        ("cat <<X\n$(rm x)\nX", "cat?"),
        ("echo `rm x`", "echo?"),
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
        assert_eq!(
            commands_of(text),
            expected,
            "{text}: {:?}",
            analyze_in_workspace(text).line.unclear
        );
    }
}

#[test]
fn commands_that_only_read_are_recognized() {
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
        // Words that become several, and letters that hide others.
        ("rg -g *.rs foo", false),
        ("rg -g '*.rs' foo", true),
        ("sort -t* f", false),
        ("find . -name *", false),
        ("find . -name '*'", true),
        ("git diff *", false),
        ("git diff -- *", true),
        ("git -C * status", false),
        ("date -d *", false),
        ("uniq -f 1* g", false),
        ("tree -L 2 -I x", true),
        ("tree -Lo 2 f", false),
        ("tree -R -L 1 -H .", false),
        ("xxd -ps f", true),
        ("xxd -ps f g", false),
        ("xxd -l 16 f", true),
        ("jq -n 'import \"./x\" as $x {search: \"./\"}; $x'", false),
        ("sed 's/[^]/]X/g;/w src/p' f", false),
        ("awk 'BEGIN{SYMTAB[\"AR\" \"GC\"]=2}' f", false),
        ("zstdcat *", false),
        ("nm app", true),
        ("nm @f", false),
        ("strings -a -n 8 app", true),
        ("objdump -d --disassemble=main app", true),
        ("sort -co f g", false),
        ("strace -ko f ls", false),
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
        ("env A=b ls", true),
        ("A=b ls", true),
        ("PATH=b ls", false),
        ("env PATH=b ls", false),
        ("for f in *.md; do wc -l \"$f\"; done", true),
        ("for f in *; do sort \"$f\"; done", false),
        ("for f in a b; do rm $f; done", false),
        ("ls ~/x $HOME", true),
        ("awk '{print $1, $2}' f", true),
        ("grep --fil=f x", false),
        ("grep --recurs x src", true),
        ("sort --outp=f g", false),
        ("sort --rev f", true),
        ("jq --arg a b . f", true),
        ("/usr/bin/../bin/ls", false),
        ("/opt/x/ls", false),
        ("export A=b; ls", true),
        ("command cd x; ls", false),
        ("date +%s", true),
        ("date -s now", false),
        ("printf '%s\\n' a", true),
        ("printf -v a b", false),
        ("test -f a && cat a", true),
        ("[ -v a ]", false),
    ] {
        let line = &analyze_in_workspace(text).line;
        assert_eq!(line.only_reads(), reads, "{text}: {line:?}");
    }
}

#[test]
fn every_file_access_is_listed() {
    for (text, touched) in [
        ("cat a b", "exec cat a b, read /w/a, read /w/b"),
        ("cd s && cat ../x", "exec cd s && cat ../x, read /w/s, read /w/s/../x"),
        ("cd s; cat x", "exec cd s; cat x, read /w/s, read /w/s/x, read /w/x"),
        ("(cd s && ls); cat x", "exec (cd s && ls); cat x, read /w/s, read /w/x"),
        ("echo x >f 2>/dev/null", "exec echo x >f 2>/dev/null, write /w/f"),
        ("rm -rf d", "exec rm -rf d, delete /w/d/**"),
        ("cp a b", "exec cp a b, write /w/b/**, read /w/a/**"),
        ("git show HEAD:.env", "exec git show HEAD:.env, read /w/.env/**"),
        ("wc </etc/x", "exec wc </etc/x, read /etc/x"),
        ("cp -vt/d a", "exec cp -vt/d a, write /d/**, read /w/a/**"),
        ("cp --targ=/d a b", "exec cp --targ=/d a b, write /d/**, read /w/a/**, read /w/b/**"),
        ("du --exclude-f=/p x", "exec du --exclude-f=/p x, read /p, read /w/x/**"),
        ("chmod -x f; chmod 644 g", "exec chmod -x f; chmod 644 g, write /w/f/**, write /w/g/**"),
        ("tar xfC a.tar d", "exec tar xfC a.tar d, read /w/a.tar, write /w/d/**"),
        ("tar -czf /b a", "exec tar -czf /b a, write /b, read /w/a/**"),
        ("cat ~/x", "exec cat ~/x, read /home/ada/x"),
        (
            "for f in a b; do rm $f; done",
            "exec for f in a b; do rm $f; done, delete /w/a/**, delete /w/b/**",
        ),
        // The value of an option is no file; the word behind an option without a value is one.
        ("fold -b f; nl -b a g", "exec fold -b f; nl -b a g, read /w/f, read /w/g"),
        ("diff -i f g", "exec diff -i f g, read /w/f/**, read /w/g/**"),
        ("cmp -i 5 f", "exec cmp -i 5 f, read /w/f"),
        (
            "od -e f; nm -j g; size -t h",
            "exec od -e f; nm -j g; size -t h, read /w/f, read /w/g, read /w/h",
        ),
        ("addr2line -e f 0", "exec addr2line -e f 0, read /w/f"),
        ("nm @f", "exec nm @f, read /w/f"),
        ("A=/x ls", "exec A=/x ls"),
        ("xargs -a f cat", "exec xargs -a f cat"),
    ] {
        assert_eq!(analyze_in_workspace(text).into_effects().to_string(), touched);
    }
}

#[test]
fn searched_directories_are_listed() {
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
        // A command that does more than read was allowed by a person, so its searches are not listed.
        ("cp -r . /x", ""),
        ("find . -delete", ""),
        ("make; grep -r x src", "/w/src"),
    ] {
        let line = &analyze_in_workspace(text).line;
        let spelled = |search: &CommandSearch| {
            let depth = search.depth.map(|depth| format!(" {depth}")).unwrap_or_default();
            format!("{}{depth}", search.place.path.display())
        };
        let found: Vec<String> = line.searches.iter().map(spelled).collect();
        assert_eq!(found.join("|"), places, "{text}: {line:?}");
    }
}

#[test]
fn scripts_beyond_the_limits_are_unclear() {
    let values = "1 ".repeat(200);
    let loops = format!(
        "for i in {values}; do for j in {values}; do for k in {values}; do x=1; done; done; done"
    );
    let doubled: Vec<String> = (1..30).map(|n| format!("x{n}=$x{}$x{};", n - 1, n - 1)).collect();
    for text in [
        "(".repeat(5_000),
        "echo;".repeat(5_000),
        "nice ".repeat(100),
        "x".repeat(100_000),
        loops,
        format!("x0=abc; {} echo $x29", doubled.join(" ")),
    ] {
        assert!(analyze_in_workspace(&text).line.unclear.is_some());
    }
}

/// An option that is in no table never counts as harmless.
#[test]
fn unknown_options_are_risks() {
    let others = [
        "find .",
        "fd x",
        "rg x",
        "sed -n p",
        "awk 1",
        "tar tf a.tar",
        "date",
        "printf",
        "git status",
        "git diff",
        "git log",
        "git show",
        "git grep x",
        "git ls-files",
        "git blame a",
        "git branch",
        "git -C . status",
        "timeout 1 ls",
        "env ls",
        "xargs ls",
    ];
    let readers = programs::table::readers().map(str::to_owned);
    for reader in readers.chain(others.map(str::to_owned)) {
        let line = analyze_in_workspace(&format!("{reader} --zz-unknown")).line;
        assert!(!line.only_reads(), "{reader}: {line:?}");
    }
    let reports = programs::subcommands::all().map(|(program, verb)| format!("{program} {verb}"));
    let others = ["curl https://a", "wget https://a", "cargo build", "make", "npm", "docker"];
    for report in reports.chain(others.map(str::to_owned)) {
        for text in [format!("{report} --zz-unknown x"), format!("{report} -\u{e9}")] {
            let line = analyze_in_workspace(&text).line;
            let is_noted = |part: &windlass_core::SimpleCommand| {
                !part.risks.is_empty() && part.unseen.is_some()
            };
            assert!(!line.only_reads() && line.commands.iter().any(is_noted), "{text}: {line:?}");
        }
    }
}

#[test]
fn common_options_are_known() {
    for text in [
        "ps aux",
        "ps -ef",
        "ps -eo pid,ppid,cmd --sort=-rss",
        "ps -p 1 -o pid=",
        "ps axo pid,comm",
        "ps -C node -f",
        "seq 1 10",
        "seq -w -s, 1 10",
        "sleep 0.1",
        "ls -lahtr --color=never --group-directories-first",
        "grep -rnIE --include=*.rs --exclude-dir=target x .",
        "sort -t, -k2,2nr -u f",
        "head -20 f",
        "tail -f -n 5 f",
        "du -h --max-depth=1",
        "df -hT",
        "stat -c %s f",
        "wc -lwc f",
        "cut -d: -f1 f",
        "tr -s ' '",
        "uniq -c f",
        "find . -type f -name x -mtime -1",
        "rg -n --hidden -g '*.rs' x",
        "diff -ru a b",
        "xxd -l 16 f",
        "od -An -tx1 f",
        "tree -a -L 2 -I x",
        "jq -r .a f",
        "date -u +%F",
        "id -un",
        "uname -sr",
        "nproc --all",
        "file -b f",
        "readlink -f f",
    ] {
        let line = analyze_in_workspace(text).line;
        assert!(line.only_reads(), "{text}: {line:?}");
    }
    for text in [
        "npm ls",
        "npm ls --depth=0 --json",
        "npm ls -g --depth 0",
        "npm outdated --json",
        "npm view react versions --json",
        "npm why left-pad",
        "npm config get registry",
        "npm audit --json",
        "npm --silent ls",
        "pnpm list --depth 1 -r",
        "pnpm why react",
        "pnpm outdated",
        "yarn list --depth=0",
        "yarn why react",
        "yarn info react --json",
        "pip list --format=json",
        "pip list -o",
        "pip freeze --local",
        "pip show -f requests",
        "pip check",
        "pip --version",
        "uv pip list --format json",
        "uv pip freeze",
        "uv tree --depth 1",
        "uv python list --only-installed",
        "uv cache dir",
        "go env GOPATH",
        "go env -json",
        "go list -m all",
        "go list -f '{{.Dir}}' ./...",
        "go list -deps -test ./...",
        "go version -m app",
        "go doc -all fmt",
        "go mod graph",
        "go mod why -m x",
        "go -C sub list ./...",
        "docker ps -a --format '{{.Names}}'",
        "docker ps -aq",
        "docker images --no-trunc",
        "docker logs -f --tail 100 web",
        "docker logs --since 10m web",
        "docker inspect -f '{{.State}}' web",
        "docker stats --no-stream",
        "docker compose ps -a",
        "docker compose logs -f --tail=50 web",
        "docker system df -v",
        "kubectl get pods -A -o wide",
        "kubectl get pods -n kube-system -l app=x --watch",
        "kubectl describe pod web",
        "kubectl logs -f web -c app --tail=100 --since=1h",
        "kubectl -n x get svc",
        "kubectl top pods --containers",
        "kubectl config get-contexts",
        "kubectl explain pods.spec --recursive",
        "kubectl rollout status deploy/web",
        "gh pr list --state open --limit 5",
        "gh pr view 12 --json title,body -q .title",
        "gh pr diff 12",
        "gh pr checks",
        "gh issue list -l bug",
        "gh run list -w ci.yml -L 3",
        "gh run view 1 --log-failed",
        "gh repo view",
        "gh status",
        "gh pr list -R o/r",
        "helm list -A",
        "helm status x -n y",
        "terraform show -json",
        "terraform validate",
        "terraform state list",
        "curl -sSfL https://example.org/a",
        "curl -I https://example.org",
        "curl --compressed -A x -m 5 localhost:8080",
        "curl -s --retry 3 --retry-delay 1 https://example.org",
        "wget -q --spider https://example.org",
        "wget -qc https://example.org/a",
        "cargo tree -i serde -e features",
        "cargo metadata --format-version 1 --no-deps",
        "cargo test -p a --lib -- --nocapture",
    ] {
        let line = analyze_in_workspace(text).line;
        let is_plain = |part: &windlass_core::SimpleCommand| {
            let is_place =
                |risk: &windlass_core::CommandRisk| risk.why.contains("files that are not named");
            part.risks.iter().all(is_place) && part.unseen.is_none()
        };
        assert!(line.unclear.is_none() && line.commands.iter().all(is_plain), "{text}: {line:?}");
    }
}

/// If a rule denies a program, a command that may run it unseen has to be asked about.
#[test]
fn commands_that_may_run_unseen_programs_are_marked() {
    for (text, is_unseen) in [
        ("cargo build --release", false),
        ("make test -j8", false),
        ("npm run build", false),
        ("npx tsc --noEmit", false),
        ("go test ./...", false),
        ("pytest -q -x tests", false),
        ("python3 -m pytest -q", false),
        ("uv run pytest", false),
        ("gcc -O2 -o a a.c", false),
        ("git commit -am 'a::b'", false),
        ("git push -u origin main", false),
        ("rm -rf d && cp -r a b && mkdir -p c", false),
        ("tar xzf a.tgz -C d", false),
        ("curl -s https://example.org", false),
        ("./scripts/test.sh", false),
        ("bash -c 'ls; make'", false),
        ("docker ps", false),
        ("python3 --version", false),
        ("find . -name x -exec grep y {} +", false),
        ("sed -i s/a/b/ f", false),
        ("find . -name x -exec sed -i s/a/b/ {} +", false),
        ("find . -exec chmod +x {} \\;", false),
        ("uv run --frozen pytest", true),
        ("npx -y tsc", false),
        ("awk '{print $1 \"\\t\" $2}' f", false),
        ("x=ls; printf -v x rm; $x y", true),
        ("x=ls; command export x=rm; $x y", true),
        ("sh -c 'x=ls; x=rm :; $x y'", true),
        ("echo rm | xargs -I ls ls x", true),
        ("echo rm | xargs -i {} x", true),
        ("find . -exec sh -c '{}' +", true),
        ("split --filter='rm x' f", true),
        ("rustup run nightly rm x", true),
        ("npx -p x rm y", false),
        ("npx --frob x rm y", true),
        ("java -jar x.jar", true),
        ("frobnicate x", true),
        ("/opt/x/ls", true),
        ("python3 -c 'print(1)'", true),
        ("python3 x.py", true),
        ("perl -e 1", true),
        ("node -e 1", true),
        ("echo rm x | sh", true),
        ("sh <<< 'rm x'", true),
        ("bash file", true),
        ("bash -s < f", true),
        ("vim -c '!rm x'", true),
        ("gdb -ex 'shell rm x'", true),
        ("sudo -i", true),
        ("sudo --frob rm x", true),
        ("unshare", true),
        ("ssh host", true),
        ("git -c alias.x='!rm x' x", true),
        ("git -c core.pager=rm log", true),
        ("git frob", true),
        ("git clone -c a=b x", true),
        ("git fetch --upl=x .", true),
        ("git commit --frob", true),
        ("tar cf a b --checkpoint-action=exec=x", true),
        ("tar xf a --to-comm=x", true),
        ("tar -xIf ./p a", true),
        ("sed '1e rm x' f", true),
        ("sed s/a/b/e f", true),
        ("awk 'BEGIN{system(1)}'", true),
        ("awk '{print | \"sh\"}' f", true),
        ("make --fil=m", true),
        ("make -kf m", true),
        ("make SHELL=x", true),
        ("cargo --config a=b build", true),
        ("cargo watch -x test", true),
        ("npm --script-s=x test", true),
        ("pytest -qp x", true),
        ("uv run python -c 1", true),
        ("rg --pre x y", true),
        ("sort *", true),
        ("find . -frob", true),
        ("ls | xargs frob", true),
        ("docker run a rm x", true),
        ("tmux new rm", true),
        ("env -S '$A'", true),
        ("sqlite3 a '.shell rm x'", true),
    ] {
        let line = &analyze_in_workspace(text).line;
        let found = line.unclear.is_some() || line.commands.iter().any(|it| it.unseen.is_some());
        assert_eq!(found, is_unseen, "{text}: {line:?}");
    }
}

#[test]
fn rules_that_deny_bind_subcommands_wherever_options_stand() {
    for (rule, text, binds) in [
        ("exec git push", "git -C . push", true),
        ("exec git push", "git -c a=b --no-pager push origin", true),
        ("exec git push", "git --git-dir=x push", true),
        ("exec git push", "git -C push status", false),
        ("exec git push", "git log --grep push", false),
        ("exec git push", "git stash push", false),
        ("exec git remote add", "git remote -v add a b", true),
        ("exec cargo publish", "cargo +nightly publish", true),
        ("exec cargo publish", "cargo --config a=b -q publish", true),
        ("exec cargo publish", "cargo test publish", false),
        ("exec npm install", "npm --prefix . install", true),
        ("exec npm install", "npm -C . --silent install x", true),
        ("exec docker compose up", "docker compose -f x up -d", true),
        ("exec frob install", "frob --opt x install", true),
        ("exec frob install", "frob -v install", true),
        ("exec pip install", "python3 -m pip install x", true),
        ("exec rm", "npx rm x", true),
        ("exec rm", "uv run rm x", true),
        ("exec rm", "//bin/rm x", true),
        ("exec rm", "/usr/bin/../bin/rm x", true),
        ("exec rm", "/proc/self/root/bin/rm x", true),
        ("exec rm", "./rm x", false),
    ] {
        let rule: windlass_core::Rule = rule.parse().expect(rule);
        let line = &analyze_in_workspace(text).line;
        assert_eq!(line.commands.iter().any(|it| rule.binds(it)), binds, "{rule}: {line:?}");
    }
}

/// Every row of `everyday.txt` gets the decision that it names, and few of them ask before they run.
#[test]
fn everyday_commands_get_the_expected_decision() {
    let workspace = Path::new("/home/ada/work");
    let home = Path::new("/home/ada");
    let denies = HardDenies::default().home(home.to_owned());
    let policy = Policy::new(Mode::Ask).with_hard_denies(denies);
    let situation = DecisionContext { has_session_tmp: true, ..DecisionContext::default() };
    let rows = include_str!("everyday.txt").lines().filter(|row| !row.starts_with('#'));
    let (mut all, mut asked) = (0, 0);
    for row in rows {
        let (expected, text) = row.split_once('\t').expect(row);
        let understood = analyze(
            text,
            &Shell::default(),
            RunLocation { workspace, directory: workspace, home: Some(home) },
        );
        let only_reads = understood.line.only_reads();
        // The engine follows links and `..` before it decides.
        let plain = |effect: Effect| match effect {
            Effect::Read(it) => Effect::Read(PathPattern { path: normalize(&it.path), ..it }),
            Effect::Write(it) => Effect::Write(PathPattern { path: normalize(&it.path), ..it }),
            Effect::Delete(it) => Effect::Delete(PathPattern { path: normalize(&it.path), ..it }),
            other => other,
        };
        let effects: Effects = understood.into_effects().iter().cloned().map(plain).collect();
        let verdict = policy.decide_in("bash", effects.clone(), workspace, &situation);
        let found = match (verdict.decision(), verdict.when()) {
            (Decision::Allow, _) if only_reads => "reads",
            (Decision::Ask, AskTime::After) => "changes",
            _ => "asks",
        };
        assert_eq!(found, expected, "{text}: {effects:?}");
        all += 1;
        asked += usize::from(found == "asks");
    }
    assert!(all >= 150 && asked * 100 < all * 3, "{asked} of {all} ask before they run");
}
