//! Compares our parser with bash itself: random texts of tricky pieces are run in a bash whose programs only print their arguments. If our
//! parser understands a text, bash must run exactly the commands that it found, and create no other file than it foresaw.
//!
//! `COMMAND_CASES` overrides the number of texts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use windlass::Mode;
use windlass::effect::CommandLine;
use windlass::policy::Policy;

use super::{explain, line};
use crate::support::TestWorkspace;

/// The names of all programs in the search path.
const PROGRAMS: [&str; 3] = ["a", "b", "c"];

/// The words of which texts consist.
const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "a x",
    "b 'x y'",
    "c \"x y\"",
    "a x\\ y",
    "b ''",
    "c \"\"",
    "a \"x\\\"y\"",
    "b 'x\"y'",
    "c \"it's\"",
    "a x#y",
    "b \\#x",
    "c 2",
    "a -n",
    "b \"x\\y\"",
    "c \"\\\\\"",
    "a 'x\\'",
    "b x=y",
    "c é",
    "a \"é→\"",
    "b HEAD~1",
    "c @{0}",
    "a {}",
    "b \"x$\"",
    "c x$ y",
    "a '$x'",
    "b \\$x",
    "c \"\\$x\"",
    "a '`'",
    "b ^x",
    "c x!",
    "a \"x!y\"",
    "b 'x\ny'",
    "a \\\n x",
    "b x\\\ny",
    "c %d",
    "a ,",
    "b x,y",
    "c 1.5",
    "nice a",
    "command b x",
    "\\c",
];
const OPERATORS: &[&str] = &[
    ";", " ; ", "\n", "&&", " && ", "||", " | ", "|", "|&", " & ", "&&\n", "|\n", "\n\n", ";\n",
    " # x\n", "#\n", "\\\n;", " &&\\\n", ";\\\n",
];
const TRICKS: &[&str] = &[
    ">x",
    " >x ",
    " 2>x",
    " >>x",
    " &>x",
    " >&x",
    " >|x",
    " 2>&1",
    " >&2",
    " </dev/null ",
    " <<<x",
    " <<'E'\nx $(a)\nE\n",
    " <<E\nx\nE\n",
    " <<-E\n\tx\n\tE\n",
    " <<E\n$(a)\nE\n",
    "(",
    ")",
    "( ",
    " )",
    "{ ",
    "; }",
    " }",
    "! ",
    "if ",
    "; then ",
    "; else ",
    "; fi",
    "time ",
    "'",
    "\"",
    "\\",
    "$",
    "$x",
    "${x}",
    "\"$x\"",
    "$(a)",
    "$(",
    "`a`",
    "`",
    "~",
    "x=1 ",
    "x=a;",
    "x='a b'\n",
    "x=b && ",
    "x=$x;",
    "$x ",
    "a $x;",
    "b \"$x\";",
    "c ${x}y$x;",
    "for i in a 'b c' 1; do b \"$i\"; done;",
    "for i in a b; do $i x; done;",
    "for x in a b; do c $x; x=1; done;",
    "(x=c; $x); ",
    "export x=y;",
    "{a,b}",
    "{1..2}",
    "\r",
    "\t",
    "\u{a0}",
    "\u{200b}",
    "é",
    "$'a'",
    "$\"a\"",
    "((1))",
    "[[ a ]]",
    "a()",
    "case a in a) b;; esac",
    "for i in a; do b; done",
    "#",
    " #",
    "2",
    " 2\\\n>x",
    "&\\\n&",
    "&\\\n>x",
    "<(a)",
    ">(a)",
    "eval a",
    "{x}>x",
    "cd . && ",
    "!",
    "*",
    "a\\",
    "\0x1",
    "-",
    "--",
    "=",
    "x",
    "\\\r\n",
];

fn text() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(WORDS);
    let piece = prop_oneof![
        6 => (proptest::sample::select(WORDS), proptest::sample::select(OPERATORS)).prop_map(|(word, operator)| format!("{word}{operator}")),
        3 => proptest::sample::select(TRICKS).prop_map(str::to_owned),
        1 => (proptest::sample::select(WORDS), proptest::sample::select(TRICKS), proptest::sample::select(OPERATORS)).prop_map(|(word, trick, operator)| format!("{word}{trick}{operator}")),
    ];
    (proptest::collection::vec(piece, 1..7), word)
        .prop_map(|(pieces, last)| format!("{}{last}", pieces.concat()))
}

#[test]
fn bash_runs_the_parsed_commands() {
    let cases = env::var("COMMAND_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200);
    let test = TestWorkspace::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fake_programs = FakePrograms::new();
    let understood = std::cell::Cell::new(0_u32);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let ran = TestRunner::new(config).run(&text(), |text| {
        let text = text.replace('\0', "");
        let verdict = runtime.block_on(explain(&test, Policy::new(Mode::Ask), &text));
        let line = line(&verdict);
        if line.unclear.is_none() {
            understood.set(understood.get() + 1);
            fake_programs.check(&text, line, &test.workspace());
        }
        Ok(())
    });
    ran.unwrap();
    assert!(understood.get() > cases / 20, "only {} of {cases} were understood", understood.get());
}

/// A directory with programs that print their arguments.
struct FakePrograms {
    folder: tempfile::TempDir,
}

impl FakePrograms {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        for program in PROGRAMS.iter().chain(&["nice"]) {
            let script = match *program {
                "nice" => "#!/bin/sh\nexec \"$@\"\n".to_owned(),
                // One write for each, so that the lines of parallel programs do not mix.
                name => format!(
                    "#!/bin/bash\nsaid={name}\nfor word; do said+=$'\\t'${{word//$'\\n'/\\\\n}}; done\n\
                    printf '%s\\n' \"$said\" >>\"$LOG\"\nexit $CODE\n"
                ),
            };
            let path = folder.path().join("bin").join(program);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder }
    }

    fn check(&self, text: &str, line: &CommandLine, workspace: &Path) {
        let expected = Self::expected(line);
        // A command behind `&&` or `||` may not be run.
        let succeeds = expected.len() == line.commands.len() || !text.contains("&&");
        let is_straight = succeeds && !["||", "!", "if "].iter().any(|part| text.contains(part));
        for code in ["0", "1"] {
            let must_be_all = code == "0" && is_straight;
            let (said, made) = self.run(text, code, must_be_all.then_some(expected.len()));
            let mut left = expected.clone();
            for one in &said {
                let at = left.iter().position(|known| known == one);
                let at = at.unwrap_or_else(|| panic!("{text:?} ran {one:?}, not one of {left:?}"));
                left.remove(at);
            }
            assert!(!must_be_all || left.is_empty(), "{text:?} did not run {left:?}");
            let foreseen: Vec<PathBuf> = line
                .redirected
                .iter()
                .filter_map(|pattern| pattern.path.strip_prefix(workspace).ok().map(Path::to_owned))
                .collect();
            for name in made {
                assert!(
                    foreseen.contains(&name),
                    "{text:?} made {}, not one of {foreseen:?}",
                    name.display()
                );
            }
        }
    }

    /// Returns the lines that the programs should print.
    fn expected(line: &CommandLine) -> Vec<String> {
        let commands = line.commands.iter();
        let known = commands.filter(|command| PROGRAMS.contains(&command.words[0].as_str()));
        known.map(|command| command.words.join("\t").replace('\n', "\\n")).collect()
    }

    /// Runs a text. Returns the lines that the programs printed, and the files that were created.
    fn run(&self, text: &str, code: &str, wanted: Option<usize>) -> (Vec<String>, Vec<PathBuf>) {
        let test = tempfile::tempdir_in(self.folder.path()).unwrap();
        let (work, log) = (test.path().join("work"), test.path().join("log"));
        fs::create_dir(&work).unwrap();
        fs::write(&log, "").unwrap();
        let mut child = Command::new("/bin/bash")
            .args(["-c", text])
            .current_dir(&work)
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("LOG", &log)
            .env("CODE", code)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                child.kill().unwrap();
                panic!("it does not end: {text:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Background programs may print a little later.
        let said = || -> Vec<String> {
            fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect()
        };
        let mut rounds = if text.contains('&') { 15 } else { 1 };
        while rounds > 0 && wanted.is_none_or(|wanted| said().len() < wanted) {
            rounds -= 1;
            std::thread::sleep(Duration::from_millis(if wanted.is_some() { 20 } else { 2 }));
        }
        let made =
            fs::read_dir(&work).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
        (said(), made.collect())
    }
}
