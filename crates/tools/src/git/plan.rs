//! The parsed arguments of a call: the command, its words in the order that git requires, and the text for its standard input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use windlass_core::{
    Access, CommandLine, Context, PlanContext, ProcessRequest, Program, Stdin, ToolError, nearest,
    normalize, quote,
};

use super::repository::Repository;
use super::verbs::{ReadOnly, VERBS, Verb, WordKind};
use super::words::ParsedArguments;
use super::{Args, environment};
use crate::program;

/// Number of commits that `log` shows by default.
pub(super) const DEFAULT_COMMITS: usize = 30;

/// The planned run of git.
#[derive(Debug)]
pub(crate) struct GitPlan {
    pub(super) verb: &'static Verb,
    /// True if the command changes nothing.
    pub(super) read_only: bool,
    /// Names of the given options.
    option_names: Vec<&'static str>,
    options: Vec<String>,
    words: Vec<String>,
    paths: Vec<PathBuf>,
    stdin: Option<String>,
}

impl GitPlan {
    /// Parses the arguments of a call, or explains the first error.
    pub(super) fn of(args: &Args) -> Result<Self, ToolError> {
        let (verb, rest) = find_verb(args.command.name(), &args.args)?;
        let parsed = ParsedArguments::of(verb, rest)?;
        let read_only = read_only(verb, &parsed);
        let (more, stdin) = message_options(verb, &parsed, args.message.as_deref())?;
        let defaults = default_options(verb, &parsed);
        let ParsedArguments { options, option_names, words, paths } = parsed;
        let is_path = verb.words == WordKind::Paths;
        let (words, early) = if is_path { (Vec::new(), words) } else { (words, Vec::new()) };
        let paths = early.into_iter().chain(paths).chain(args.paths.iter().cloned());
        Ok(Self {
            verb,
            read_only,
            option_names,
            options: defaults.into_iter().chain(options).chain(more).collect(),
            words,
            paths: paths.map(|path| quote::unpath(&path)).collect(),
            stdin,
        })
    }

    /// Returns whether `log` stops after [`DEFAULT_COMMITS`] because the call gives no number.
    pub(super) fn has_default_limit(&self) -> bool {
        self.verb.name == "log" && !self.option_names.contains(&"max-count")
    }

    /// Returns whether lines begin with a drawn history.
    pub(super) fn has_graph(&self) -> bool {
        self.option_names.contains(&"graph")
    }

    /// Returns whether exit code 1 is an answer rather than a failure.
    pub(super) fn exit_code_is_answer(&self) -> bool {
        self.read_only
            && (self.option_names.contains(&"exit-code") || self.option_names.contains(&"quiet"))
    }

    /// Returns the words that are executed.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let mut argv = vec![OsString::from("git")];
        argv.extend(self.verb.command_words().map(OsString::from));
        argv.extend(self.verb.fixed_options.split_whitespace().map(OsString::from));
        argv.extend(self.options.iter().chain(&self.words).map(OsString::from));
        if !self.paths.is_empty() {
            argv.push("--".into());
            argv.extend(self.paths.iter().map(|path| path.as_os_str().to_owned()));
        }
        argv
    }

    /// Returns the words as they are declared in an effect.
    pub(super) fn command_line(&self) -> CommandLine {
        CommandLine::words(self.argv().iter().map(|word| word.to_string_lossy().into_owned()))
    }

    /// Returns the request that starts git with these words.
    pub(super) fn request(
        &self,
        cx: &Context,
        repository: &Repository,
    ) -> Result<ProcessRequest, ToolError> {
        let directory = program::directory(cx, &repository.start_directory)?;
        let request = ProcessRequest::new(Program::Words(self.argv()), directory);
        let stdin =
            self.stdin.clone().map_or(Stdin::Closed, |text| Stdin::Bytes(text.into_bytes()));
        Ok(ProcessRequest {
            environment: environment::variables(&repository.top, self.read_only),
            stdin,
            access: if self.read_only { Access::Read } else { Access::Staged },
            ..request
        })
    }

    /// Refuses paths outside of the workspace and the repository.
    pub(super) fn check_paths_inside(
        &self,
        scene: &PlanContext<'_>,
        repository: &Repository,
    ) -> Result<(), ToolError> {
        let is_inside = |path: &Path| {
            let place = normalize(&repository.start_directory.join(path));
            place.starts_with(scene.workspace()) || place.starts_with(&repository.top)
        };
        let paths = self
            .paths
            .iter()
            .map(|path| without_exclude_magic(path))
            .collect::<Result<Vec<_>, _>>()?;
        let words = self.words.iter().map(Path::new).filter(|word| may_leave_directory(word));
        match paths.into_iter().chain(words).find(|path| !is_inside(path)) {
            None => Ok(()),
            Some(path) => Err(ToolError::invalid_args(format!(
                "`{}` is outside of the workspace",
                quote::path(path)
            ))
            .hint(format!("the repository is at `{}`", quote::path(&repository.top)))),
        }
    }

    /// Returns the files that a call names explicitly: a session that may not see a file gets no history of it either.
    pub(super) fn named_files(
        &self,
        scene: &PlanContext<'_>,
        repository: &Repository,
    ) -> Vec<PathBuf> {
        let paths = self
            .paths
            .iter()
            .filter_map(|path| without_exclude_magic(path).ok())
            .map(Path::to_owned);
        // `git blame` takes a file without `--`, and one that does not exist any more.
        let is_file =
            |word: &&String| self.verb.name == "blame" || scene.kind(Path::new(word)).is_some();
        let words = self.words.iter().filter(is_file).map(PathBuf::from);
        let in_revisions = self.words.iter().filter_map(|word| file_in_revision(word));
        let in_revisions = in_revisions.map(|path| match path.strip_prefix("./") {
            Some(beside) => PathBuf::from(beside),
            None => repository.top.join(path),
        });
        paths.chain(words).chain(in_revisions).collect()
    }
}

/// Finds the command in the table, and returns the arguments that follow its name.
fn find_verb<'a>(
    command: &str,
    args: &'a [String],
) -> Result<(&'static Verb, &'a [String]), ToolError> {
    let find = |name: &str| VERBS.iter().find(|verb| verb.name == name);
    if let Some(verb) = find(command) {
        return Ok((verb, args));
    }
    let usual = if command == "stash" { "push" } else { "list" };
    let (second_word, rest) = match args.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => (usual, args),
    };
    match find(&format!("{command} {second_word}")) {
        Some(verb) => Ok((verb, rest)),
        None => Err(unknown_verb(command, second_word)),
    }
}

/// Returns the error for an unknown second word, such as `stash foo`.
fn unknown_verb(command: &str, second_word: &str) -> ToolError {
    let prefix = format!("{command} ");
    let known: Vec<&str> =
        VERBS.iter().filter_map(|verb| verb.name.strip_prefix(&prefix)).collect();
    let near = nearest(second_word, known.iter().copied());
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    ToolError::invalid_args(format!("`git {command}` has no `{second_word}` here"))
        .hint(format!("{near}there is {}", known.join(", ")))
}

/// Returns whether the command changes nothing with these arguments.
fn read_only(verb: &Verb, parsed: &ParsedArguments) -> bool {
    match verb.read_only {
        ReadOnly::Always => true,
        ReadOnly::Never => false,
        ReadOnly::With { one_of, none_of } => {
            !parsed.has(none_of) && (parsed.words.is_empty() || parsed.has(one_of))
        }
    }
}

/// Returns options that are added where the call gives none.
fn default_options(verb: &Verb, parsed: &ParsedArguments) -> Vec<String> {
    match verb.name {
        "status" if !parsed.has(&["short", "porcelain", "long"]) => {
            vec!["--short".to_owned(), "--branch".to_owned()]
        }
        "log" if !parsed.has(&["max-count"]) => vec![format!("--max-count={DEFAULT_COMMITS}")],
        // Any other option would turn its summary into a patch.
        "stash show" if parsed.option_names.is_empty() => vec!["--stat".to_owned()],
        _ => Vec::new(),
    }
}

/// Returns the options for the message, and the text for standard input.
fn message_options(
    verb: &Verb,
    parsed: &ParsedArguments,
    message: Option<&str>,
) -> Result<(Vec<String>, Option<String>), ToolError> {
    if let Some(message) = message {
        if message.trim().is_empty() || message.contains('\0') {
            return Err(ToolError::invalid_args(
                "the `message` is empty or has a NUL character in it",
            ));
        }
        if parsed.has(&["message", "reuse-message", "no-edit"]) {
            return Err(ToolError::invalid_args(
                "there are two messages: in `message` and in `args`",
            ));
        }
    }
    match (verb.name, message) {
        ("commit", Some(message)) => Ok((vec!["--file=-".to_owned()], Some(message.to_owned()))),
        ("stash push", Some(message)) => Ok((vec![format!("--message={message}")], None)),
        (_, Some(_)) => {
            Err(ToolError::invalid_args("only `commit` and `stash push` take a `message`"))
        }
        ("commit", None)
            if parsed.has(&["message", "reuse-message", "fixup", "dry-run", "no-edit"]) =>
        {
            Ok((Vec::new(), None))
        }
        ("commit", None) if parsed.has(&["amend"]) => Ok((vec!["--no-edit".to_owned()], None)),
        ("commit", None) => Err(ToolError::invalid_args("`git commit` needs a `message`")),
        (_, None) => Ok((Vec::new(), None)),
    }
}

/// Returns the path without `:!` or `:(exclude)` in front; refuses other path magic.
fn without_exclude_magic(path: &Path) -> Result<&Path, ToolError> {
    let bytes = path.as_os_str().as_bytes();
    let excluded =
        [&b":(exclude)"[..], b":!", b":^"].iter().find_map(|magic| bytes.strip_prefix(*magic));
    let plain = excluded.unwrap_or(bytes);
    if plain.is_empty() || plain.contains(&0) || (excluded.is_none() && plain.starts_with(b":")) {
        let error = ToolError::invalid_args(format!("`{}` is not a path", quote::path(path)));
        return Err(
            error.hint("a path, a pattern such as `*.rs`, or `:!PATH` for what to leave out")
        );
    }
    Ok(quote::path_of_bytes(plain))
}

/// Returns whether a word, read as a path, could lead out of the directory.
fn may_leave_directory(word: &Path) -> bool {
    word.is_absolute() || word.components().any(|part| part == Component::ParentDir)
}

/// Returns the path in words such as `HEAD:path` and `:0:path`.
fn file_in_revision(word: &str) -> Option<&str> {
    // `HEAD^{/text: more}` is a search, and so is `:/text`.
    let braced = word.rfind('}').map_or(0, |end| end + 1);
    let (_, path) = word.get(braced..)?.split_once(':')?;
    let path = match path.as_bytes() {
        [b'0'..=b'3', b':', ..] => path.get(2..)?,
        [b'/', ..] => return None,
        _ => path,
    };
    (!path.is_empty()).then_some(path)
}
