//! Programs of the system, by what files they get their orders from.

/// Programs that do what their arguments say, and take no orders from files of a workspace unless an argument names one.
///
/// `sed`, `git`, `mapfile`, `declare`, `local` and `let` are not among them: each has a form in which a text is run.
const PLAIN: &[&str] = &[
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

/// Programs that find out from files of the workspace what to do.
const RUNNERS: &[&str] = &[
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

/// Arguments with which a plain program runs others, or takes orders from a file.
const ORDERS: &[(&str, &[&str])] = &[
    ("jq", &["-f", "--from-file", "-L"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["--compress-program"]),
    ("alias", &[""]),
    ("hash", &["-p"]),
    ("shopt", &["expand_aliases"]),
];

/// Builtins of the shell that take names of variables, and run what is in a subscript of one: `read 'a[$(./x)]'`.
const SUBSCRIPTS: &[&str] =
    &["[", "export", "getopts", "printf", "read", "readonly", "test", "unset", "wait"];

/// The way in which a program of the system gets its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// From its arguments.
    Plain,
    /// From files of the workspace that its arguments do not name.
    HookRunner,
    Shell,
    Python,
    Node,
    /// From a script that is not looked through.
    OtherInterpreter,
    Awk,
    Find,
    /// It runs the command that its arguments are.
    Wrapper,
    /// Nothing is known of it.
    Unknown,
}

impl Program {
    /// By the last part of its path.
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
            _ if RUNNERS.contains(&name) => Self::HookRunner,
            _ if PLAIN.contains(&name) => Self::Plain,
            _ => Self::Unknown,
        }
    }
}

/// Returns the argument by which a plain program would take orders from elsewhere. `None` for an argument is one that nobody knows.
pub(super) fn order<'a>(
    program: &str,
    arguments: impl Iterator<Item = Option<&'a str>>,
) -> Option<String> {
    let (_, orders) = ORDERS.iter().find(|(name, _)| *name == program)?;
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

/// Tells whether a builtin would run what is in the subscript of a name.
pub(super) fn runs_subscript(program: &str, written: &str) -> bool {
    SUBSCRIPTS.contains(&program)
        && written.contains('[')
        && (written.contains("$(") || written.contains('`'))
}

/// Variables that change what programs run or load.
pub(super) fn is_dangerous(variable: &str) -> bool {
    const NAMES: &[&str] = &[
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
    const STARTS: &[&str] =
        &["LD_", "PYTHON", "NODE_", "PERL", "RUBY", "GIT_", "XDG_", "BASH_FUNC_", "DYLD_", "JQ_"];
    const ENDS: &[&str] = &["PATH", "PAGER", "EDITOR", "SHELL", "OPTIONS", "OPTS"];
    NAMES.contains(&variable)
        || STARTS.iter().any(|start| variable.starts_with(start))
        || ENDS.iter().any(|end| variable.ends_with(end))
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}
