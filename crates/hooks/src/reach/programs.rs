//! Classifies programs of the system by the files that can decide what they run.

/// Programs that do what their arguments say, and run nothing from files of a workspace unless an argument names one.
///
/// `sed`, `git`, `mapfile`, `declare`, `local` and `let` are not among them: each has a form in which a text is run.
const PLAIN_PROGRAMS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "base64",
    "basename",
    "break",
    "cat",
    "cd",
    "chmod",
    "cmp",
    "column",
    "comm",
    "continue",
    "cp",
    "cut",
    "date",
    "diff",
    "dirname",
    "echo",
    "egrep",
    "exit",
    "export",
    "expr",
    "false",
    "fgrep",
    "file",
    "fold",
    "getopts",
    "grep",
    "hash",
    "head",
    "hostname",
    "id",
    "join",
    "jq",
    "kill",
    "logger",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nl",
    "od",
    "paste",
    "popd",
    "printenv",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readlink",
    "readonly",
    "realpath",
    "return",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "seq",
    "set",
    "sha1sum",
    "sha256sum",
    "shift",
    "shopt",
    "sleep",
    "sort",
    "source",
    "stat",
    "tac",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "type",
    "umask",
    "uname",
    "uniq",
    "unset",
    "wait",
    "wc",
    "which",
    "whoami",
    "xxd",
];

/// Programs that read from files of the workspace what to run.
const TASK_RUNNERS: &[&str] = &[
    "ant",
    "bazel",
    "bun",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "deno",
    "docker",
    "go",
    "gradle",
    "gradlew",
    "just",
    "lerna",
    "make",
    "mvn",
    "ninja",
    "npm",
    "npx",
    "nx",
    "pdm",
    "pip",
    "pipenv",
    "pnpm",
    "poetry",
    "pre-commit",
    "pytest",
    "rake",
    "task",
    "tox",
    "turbo",
    "uv",
    "uvx",
    "yarn",
];

/// Arguments with which a plain program runs other programs, or reads code from a file.
const CODE_ARGUMENTS: &[(&str, &[&str])] = &[
    ("jq", &["-f", "--from-file", "-L"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["--compress-program"]),
    ("alias", &[""]),
    ("hash", &["-p"]),
    ("shopt", &["expand_aliases"]),
];

/// Shell builtins that take variable names, and run a substitution in the subscript of one: `read 'a[$(./x)]'`.
const SUBSCRIPT_BUILTINS: &[&str] =
    &["[", "export", "getopts", "printf", "read", "readonly", "test", "unset", "wait"];

/// Way in which a program of the system gets the code or commands that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// From its arguments.
    Plain,
    /// From files of the workspace that its arguments do not name.
    TaskRunner,
    Shell,
    Python,
    Node,
    /// From a script that this module cannot analyze.
    OtherInterpreter,
    Awk,
    Find,
    /// Runs the command that its arguments form.
    Wrapper,
    /// Unknown program.
    Unknown,
}

impl ProgramKind {
    /// Returns the kind of a program by the last component of its path.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" => Self::Shell,
            "node" | "nodejs" => Self::Node,
            "awk" | "gawk" | "mawk" | "nawk" => Self::Awk,
            "find" => Self::Find,
            "command" | "builtin" | "exec" | "env" | "nice" | "nohup" | "timeout" | "time"
            | "trap" | "eval" => Self::Wrapper,
            "perl" | "ruby" | "php" | "lua" | "Rscript" | "tclsh" | "osascript" | "pwsh" => {
                Self::OtherInterpreter
            }
            _ if is_python(name) => Self::Python,
            _ if TASK_RUNNERS.contains(&name) => Self::TaskRunner,
            _ if PLAIN_PROGRAMS.contains(&name) => Self::Plain,
            _ => Self::Unknown,
        }
    }
}

/// Returns the argument with which a plain program would run code from elsewhere. A `None` argument is one whose value is unknown.
pub(super) fn code_argument<'a>(
    program: &str,
    arguments: impl Iterator<Item = Option<&'a str>>,
) -> Option<String> {
    let (_, orders) = CODE_ARGUMENTS.iter().find(|(name, _)| *name == program)?;
    arguments.flatten().find_map(|argument| {
        let gives = |order: &&str| {
            argument == *order
                || order.is_empty()
                || argument.starts_with(&format!("{order}="))
                || (order.len() == 2 && order.starts_with('-') && argument.starts_with(*order))
        };
        orders.iter().any(gives).then(|| argument.to_owned())
    })
}

/// Returns whether a builtin would run a substitution in the subscript of a variable name.
pub(super) fn runs_subscript(program: &str, written: &str) -> bool {
    SUBSCRIPT_BUILTINS.contains(&program)
        && written.contains('[')
        && (written.contains("$(") || written.contains('`'))
}

/// Returns whether a variable changes what programs run or load.
pub(super) fn is_dangerous(variable: &str) -> bool {
    const EXACT_NAMES: &[&str] = &[
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "HOME",
        "PWD",
        "CLAUDE_PROJECT_DIR",
    ];
    const PREFIXES: &[&str] =
        &["LD_", "PYTHON", "NODE_", "PERL", "RUBY", "GIT_", "XDG_", "BASH_FUNC_", "DYLD_", "JQ_"];
    const SUFFIXES: &[&str] = &["PATH", "PAGER", "EDITOR", "SHELL", "OPTIONS", "OPTS"];
    EXACT_NAMES.contains(&variable)
        || PREFIXES.iter().any(|start| variable.starts_with(start))
        || SUFFIXES.iter().any(|end| variable.ends_with(end))
}

/// Returns whether a program's name is `python`, with or without a version.
fn is_python(name: &str) -> bool {
    name.strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}
