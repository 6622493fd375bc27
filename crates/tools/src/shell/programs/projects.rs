//! Tools that do the work that the files of a project describe, such as `make`, and interpreters.
//!
//! The commands that a project describes are not analyzed: a rule about another program does not apply to them. An option with which such a
//! tool runs something else is a risk, and so is code in the words of an interpreter.

use windlass_core::OnlyReads;

use super::table::{self, Program, ProgramKind};
use super::{bare_forms, options, subcommands, suspects};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;
use crate::shell::variables::affects_execution;

/// Reason for a program whose code is not read.
const RUNS_CODE: &str = "runs code that is not analyzed";

/// Adds the facts about a tool of the table. `runs` lists the subcommands behind which a command stands, such as `npm exec`.
pub(super) fn project_tool(
    name: &str,
    row: &'static Program,
    runs: &str,
    words: &[Word],
    facts: &mut CommandFacts,
) {
    bare_forms::note(Some(row.options), words, facts);
    if subcommands::note_report(name, words, facts) {
        return;
    }
    suspects::note(row.suspects, words, facts);
    if runs.is_empty() {
        return;
    }
    let Some(inner) = bare_forms::inner_command(row, runs, words) else { return };
    if !inner.is_certain {
        facts.mark_unseen("has options that are not known here");
    }
    let inner = words.get(inner.at..).unwrap_or_default();
    let literal: Vec<String> =
        inner.iter().take_while(|word| !word.is_incomplete).map(|word| word.text.clone()).collect();
    let program = literal.first().map_or("", String::as_str);
    // A program that is not in the table belongs to the project.
    let is_runner =
        |row: &Program| matches!(row.kind, ProgramKind::Wraps(_) | ProgramKind::RunsCode);
    if literal.is_empty() || program == "env" || table::find(program).is_some_and(is_runner) {
        facts.mark_unseen(RUNS_CODE);
    }
    if !literal.is_empty() {
        facts.bare.push(literal);
    }
}

/// Python modules that are tools of a project: `python -m pytest` is treated like `pytest`.
const PYTHON_TOOL_MODULES: &[&str] = &[
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

/// Adds the facts about a program that runs code, unless its subcommand only reports.
pub(super) fn interpreter(
    name: &str,
    row: &'static Program,
    words: &[Word],
    facts: &mut CommandFacts,
) {
    bare_forms::note(Some(row.options), words, facts);
    if subcommands::note_report(name, words, facts) {
        return;
    }
    suspects::note(row.suspects, words, facts);
    let word = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    if name.starts_with("py") && word(1) == "-m" && PYTHON_TOOL_MODULES.contains(&word(2)) {
        let module = words.iter().skip(2).take_while(|word| !word.is_incomplete);
        facts.bare.push(module.map(|word| word.text.clone()).collect());
        return;
    }
    facts.mark_unseen(RUNS_CODE);
}

/// Words other than `--version` that ask a program for its version, with the programs. `-V` is not one for all: `ctest -V` runs tests.
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

/// Returns whether the only argument asks a program for its version.
pub(super) fn asks_for_version(name: &str, words: &[Word]) -> bool {
    let [_, only] = words else { return false };
    let is_one = |names: &str| names.split(' ').any(|known| known == name);
    match only.text.as_str() {
        "--version" => !is_one(WITHOUT_VERSION),
        word => VERSION_WORDS.iter().any(|(known, names)| *known == word && is_one(names)),
    }
}

/// The option table of `make`.
const MAKE_OPTIONS: &str = "\
    b m B,always-make C,directory=^ d debug? e,environment-overrides^ E,eval=! f,file,makefile=! h,help i,ignore-errors I,include-dir=! \
    j,jobs~ k,keep-going l,load-average,max-load~ L,check-symlink-times n,just-print,dry-run,recon o,old-file,assume-old= O,output-sync? \
    p,print-data-base q,question r,no-builtin-rules R,no-builtin-variables s,silent,quiet no-silent S,no-keep-going,stop t,touch trace \
    v,version w,print-directory no-print-directory W,what-if,new-file,assume-new= warn-undefined-variables shuffle? jobserver-style=";

/// Adds the facts about `make`. A dry run still evaluates the makefile, which may run programs: a person who allows it may not know, so it
/// is a risk.
pub(super) fn make(words: &[Word], facts: &mut CommandFacts) {
    if asks_for_version("make", words) {
        return facts.set_only_reads(OnlyReads::InSandbox);
    }
    let parsed = options::parse(&[MAKE_OPTIONS], words, 1, facts);
    bare_forms::note(Some(MAKE_OPTIONS), words, facts);
    for (at, word) in parsed.operands.iter().filter_map(|at| Some((*at, words.get(*at)?))) {
        let Some((name, _)) = word.text.split_once('=') else { continue };
        facts.add_risk(at, "sets a variable of the makefile");
        if affects_execution(name.trim_end_matches([':', '+', '?'])) {
            facts.mark_unseen("is told to run something else");
        }
    }
    if parsed.has(&["n", "question", "p", "touch"]) {
        facts.add_risk(
            words.len(),
            "evaluates the makefile, which may run programs even in a dry run",
        );
    }
}

/// The option table of all subcommands of `cargo`.
const CARGO_OPTIONS: &str = "\
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

/// The table of the options before a subcommand of `cargo`.
const CARGO_GLOBAL_OPTIONS: &str =
    "q,quiet v,verbose color= locked offline frozen Z= config= C= V,version list explain=";

/// Adds the facts about `cargo`.
pub(super) fn cargo(words: &[Word], facts: &mut CommandFacts) {
    if asks_for_version("cargo", words) {
        return facts.set_only_reads(OnlyReads::InSandbox);
    }
    let begin = bare_forms::subcommand_index("", words).min(words.len());
    let toolchains = words.iter().skip(1).take_while(|word| word.text.starts_with('+')).count();
    for at in 1..=toolchains {
        facts.add_risk(at, "chooses another toolchain");
    }
    options::parse(&[CARGO_OPTIONS], words, 1 + toolchains, facts);
    bare_forms::note(Some(CARGO_GLOBAL_OPTIONS), words, facts);
    let verb = words.get(begin).map_or("", |word| word.text.as_str());
    if matches!(verb, "watch" | "script" | "mutants") {
        facts.mark_unseen("runs other programs");
    }
}
