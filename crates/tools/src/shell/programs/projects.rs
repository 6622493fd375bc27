//! Tools that do what the files of a project describe, and programs that run the code that they are given.
//!
//! What a project describes is its own (`make`, `cargo`, `npm`): a rule about another program does not speak of it. An option with
//! which such a tool runs something else is a risk, and so is code in the words of an interpreter.

use windlass_core::OnlyReads;

use super::table::{self, Kind, Program};
use super::{bare, options, subcommands, suspects};
use crate::shell::found::Found;
use crate::shell::syntax::Word;
use crate::shell::variables::changes_what_runs;

const RUNS_CODE: &str = "runs code that is not looked into";

/// A tool of a row; behind one of the subcommands in `runs` stands a command.
pub(super) fn tool(
    name: &str,
    row: &'static Program,
    runs: &str,
    words: &[Word],
    found: &mut Found,
) {
    bare::note(Some(row.options), words, found);
    if subcommands::report(name, words, found) {
        return;
    }
    suspects::note(row.suspects, words, found);
    if runs.is_empty() {
        return;
    }
    let Some(inner) = bare::inner_command(row, runs, words) else { return };
    if !inner.is_certain {
        found.unseen("has options that are not known here");
    }
    let inner = words.get(inner.at..).unwrap_or_default();
    let literal: Vec<String> =
        inner.iter().take_while(|word| !word.is_open).map(|word| word.text.clone()).collect();
    let program = literal.first().map_or("", String::as_str);
    // What is not known is a program of the project.
    let is_runner = |row: &Program| matches!(row.kind, Kind::Wraps(_) | Kind::Runs);
    if literal.is_empty() || program == "env" || table::find(program).is_some_and(is_runner) {
        found.unseen(RUNS_CODE);
    }
    if !literal.is_empty() {
        found.bare.push(literal);
    }
}

/// Modules of Python that are tools of a project.
const MODULES: &[&str] = &[
    "pytest",
    "unittest",
    "pip",
    "venv",
    "build",
    "black",
    "ruff",
    "mypy",
    "flake8",
    "isort",
    "pylint",
    "coverage",
    "tox",
    "nox",
    "sphinx",
    "mkdocs",
    "json.tool",
    "compileall",
    "py_compile",
    "ensurepip",
    "http.server",
];

/// A program that runs code, unless its subcommand only reports.
pub(super) fn interpreter(name: &str, row: &'static Program, words: &[Word], found: &mut Found) {
    bare::note(Some(row.options), words, found);
    if subcommands::report(name, words, found) {
        return;
    }
    suspects::note(row.suspects, words, found);
    let word = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    if name.starts_with("py") && word(1) == "-m" && MODULES.contains(&word(2)) {
        let module = words.iter().skip(2).take_while(|word| !word.is_open);
        found.bare.push(module.map(|word| word.text.clone()).collect());
        return;
    }
    found.unseen(RUNS_CODE);
}

/// The words other than `--version` that ask programs for their version. `-V` is none by itself: `ctest -V` runs tests.
const VERSION_WORDS: &[(&str, &str)] = &[
    ("-v", "node nodejs npm npx pnpm yarn bun perl php ruby lua luajit"),
    (
        "-V",
        "python python2 python3 pypy pypy3 pip pip3 pipx uv poetry conda pytest cargo rustc rustdoc rustup ruff deno just mise \
        xz rsync tmux psql mysql mariadb yq composer rubocop cabal ghc less nano",
    ),
    ("version", "go docker kubectl helm terraform tofu zig"),
    ("-version", "java javac kotlinc scala scalac"),
];

/// Programs that do not know `--version`, and run what they read.
const WITHOUT_VERSION: &str = "tclsh erl expect telnet sftp batch at capsh dtach osascript jshell";

/// Whether a program is only asked for its version.
pub(super) fn asks_for_version(name: &str, words: &[Word]) -> bool {
    let [_, only] = words else { return false };
    let is_one = |names: &str| names.split(' ').any(|known| known == name);
    match only.text.as_str() {
        "--version" => !is_one(WITHOUT_VERSION),
        word => VERSION_WORDS.iter().any(|(known, names)| *known == word && is_one(names)),
    }
}

const MAKE: &str = "\
    b m B,always-make C,directory=^ d debug? e,environment-overrides^ E,eval=! f,file,makefile=! h,help i,ignore-errors I,include-dir=! \
    j,jobs~ k,keep-going l,load-average,max-load~ L,check-symlink-times n,just-print,dry-run,recon o,old-file,assume-old= O,output-sync? \
    p,print-data-base q,question r,no-builtin-rules R,no-builtin-variables s,silent,quiet no-silent S,no-keep-going,stop t,touch trace \
    v,version w,print-directory no-print-directory W,what-if,new-file,assume-new= warn-undefined-variables shuffle? jobserver-style=";

/// `make`. A dry run still runs what the makefile calculates: a person who allows it may not know, and so no rule is enough.
pub(super) fn make(words: &[Word], found: &mut Found) {
    if asks_for_version("make", words) {
        return found.reads(OnlyReads::InSandbox);
    }
    let sorted = options::sort(&[MAKE], words, 1, found);
    bare::note(Some(MAKE), words, found);
    for (at, word) in sorted.operands.iter().filter_map(|at| Some((*at, words.get(*at)?))) {
        let Some((name, _)) = word.text.split_once('=') else { continue };
        found.risk(at, "sets a variable of the makefile");
        if changes_what_runs(name.trim_end_matches([':', '+', '?'])) {
            found.unseen("is told to run something else");
        }
    }
    if sorted.has(&["n", "question", "p", "touch"]) {
        found.risk(
            words.len(),
            "runs what the makefile calculates, also when nothing is to be made",
        );
    }
}

/// The options of all its subcommands.
const CARGO: &str = "\
    q,quiet v,verbose V,version color= list explain= locked offline frozen Z=! config=! C=^ h,help p,package= workspace all exclude= \
    lib bin~ bins example~ examples test~ tests bench~ benches all-targets doc no-run no-fail-fast F,features= all-features \
    no-default-features target= target-dir=^ r,release profile= manifest-path=^ ignore-rust-version message-format= j,jobs= keep-going \
    timings? future-incompat-report unit-graph build-plan artifact-dir=^ out-dir=^ open no-deps document-private-items fix allow-dirty \
    allow-staged allow-no-vcs broken-code edition~ edition-idioms name= vcs= registry= index= token= dry-run,n check dev build optional \
    rename= path=^ git=^ branch= tag= rev= i,invert~ prune= depth= e,edges= prefix= charset= format= d,duplicates no-dedupe f,force root=^ \
    no-track debug precise= recursive aggressive filter-platform= format-version= no-verify no-metadata limit= versioned-dirs sync= \
    respect-source-config u,undo vers= breaking no-optional default-features no-default-features \
    E,filter-expr= no-capture nocapture success-output= failure-output= status-level= final-status-level= retries= test-threads= partition= \
    P= show-progress= all-files html lcov output-path=> fail-under-lines= ignored run-ignored=";

const CARGO_GLOBAL: &str =
    "q,quiet v,verbose color= locked offline frozen Z= config= C= V,version list explain=";

/// `cargo`: what a project describes, with a list of options for all its subcommands.
pub(super) fn cargo(words: &[Word], found: &mut Found) {
    if asks_for_version("cargo", words) {
        return found.reads(OnlyReads::InSandbox);
    }
    let begin = bare::subcommand("", words).min(words.len());
    let toolchains = words.iter().skip(1).take_while(|word| word.text.starts_with('+')).count();
    for at in 1..=toolchains {
        found.risk(at, "chooses another toolchain");
    }
    options::sort(&[CARGO], words, 1 + toolchains, found);
    bare::note(Some(CARGO_GLOBAL), words, found);
    let verb = words.get(begin).map_or("", |word| word.text.as_str());
    if matches!(verb, "watch" | "script" | "mutants") {
        found.unseen("runs other programs");
    }
}
