//! A call, understood: which command, its words in the order that git wants them, and what it reads on its standard input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use windlass_core::{
    Access, CommandLine, Context, ProcessRequest, Program, Scene, Stdin, ToolError, nearest,
    normalize, quote,
};

use super::repository::Repository;
use super::verbs::{Looks, VERBS, Verb, Words};
use super::words::Sorted;
use super::{Args, environment};
use crate::program;

/// How many commits `log` shows unless a number is given.
pub(super) const COMMITS: usize = 30;

/// What git is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) verb: &'static Verb,
    /// Whether it only looks.
    pub(super) looks: bool,
    /// The names of its options.
    given: Vec<&'static str>,
    options: Vec<String>,
    words: Vec<String>,
    paths: Vec<PathBuf>,
    stdin: Option<String>,
}

impl Plan {
    /// Understands a call, or says what is wrong with it.
    pub(super) fn of(args: &Args) -> Result<Self, ToolError> {
        let (verb, rest) = verb_of(args.command.name(), &args.args)?;
        let sorted = Sorted::of(verb, rest)?;
        let looks = looks(verb, &sorted);
        let (more, stdin) = spoken(verb, &sorted, args.message.as_deref())?;
        let preset = preset(verb, &sorted);
        let Sorted { options, given, words, paths } = sorted;
        let is_path = verb.words == Words::Paths;
        let (words, early) = if is_path { (Vec::new(), words) } else { (words, Vec::new()) };
        let paths = early.into_iter().chain(paths).chain(args.paths.iter().cloned());
        Ok(Self {
            verb,
            looks,
            given,
            options: preset.into_iter().chain(options).chain(more).collect(),
            words,
            paths: paths.map(|path| quote::unpath(&path)).collect(),
            stdin,
        })
    }

    /// Whether `log` ends after [`COMMITS`] because nobody said when.
    pub(super) fn is_cut(&self) -> bool {
        self.verb.name == "log" && !self.given.contains(&"max-count")
    }

    /// Whether lines begin with a drawing of the history.
    pub(super) fn has_graph(&self) -> bool {
        self.given.contains(&"graph")
    }

    /// Whether exit code 1 is an answer rather than a failure.
    pub(super) fn answers_by_code(&self) -> bool {
        self.looks && (self.given.contains(&"exit-code") || self.given.contains(&"quiet"))
    }

    /// The words that are executed.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let mut argv = vec![OsString::from("git")];
        argv.extend(self.verb.head().map(OsString::from));
        argv.extend(self.verb.always.split_whitespace().map(OsString::from));
        argv.extend(self.options.iter().chain(&self.words).map(OsString::from));
        if !self.paths.is_empty() {
            argv.push("--".into());
            argv.extend(self.paths.iter().map(|path| path.as_os_str().to_owned()));
        }
        argv
    }

    /// The same as an effect.
    pub(super) fn command_line(&self) -> CommandLine {
        CommandLine::words(self.argv().iter().map(|word| word.to_string_lossy().into_owned()))
    }

    /// The same as a program to start.
    pub(super) fn request(
        &self,
        cx: &Context,
        repository: &Repository,
    ) -> Result<ProcessRequest, ToolError> {
        let directory = program::directory(cx, &repository.here)?;
        let request = ProcessRequest::new(Program::Words(self.argv()), directory);
        let stdin =
            self.stdin.clone().map_or(Stdin::Closed, |text| Stdin::Bytes(text.into_bytes()));
        Ok(ProcessRequest {
            environment: environment::variables(&repository.top, self.looks),
            stdin,
            access: if self.looks { Access::Read } else { Access::Staged },
            ..request
        })
    }

    /// Refuses places outside of the workspace and the repository.
    pub(super) fn check_places(
        &self,
        scene: &Scene<'_>,
        repository: &Repository,
    ) -> Result<(), ToolError> {
        let is_inside = |path: &Path| {
            let place = normalize(&repository.here.join(path));
            place.starts_with(scene.workspace()) || place.starts_with(&repository.top)
        };
        let paths =
            self.paths.iter().map(|path| plain_path(path)).collect::<Result<Vec<_>, _>>()?;
        let words = self.words.iter().map(Path::new).filter(|word| could_lead_away(word));
        match paths.into_iter().chain(words).find(|path| !is_inside(path)) {
            None => Ok(()),
            Some(path) => Err(ToolError::invalid_args(format!(
                "`{}` is outside of the workspace",
                quote::path(path)
            ))
            .hint(format!("the repository is at `{}`", quote::path(&repository.top)))),
        }
    }

    /// The files that a call names by themselves: whoever may not see one gets no history of it either.
    pub(super) fn named_files(&self, scene: &Scene<'_>, repository: &Repository) -> Vec<PathBuf> {
        let paths = self.paths.iter().filter_map(|path| plain_path(path).ok()).map(Path::to_owned);
        // `git blame` takes a file without `--`, and one that is not there any more.
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

/// The command that is meant, and the arguments behind what names it.
fn verb_of<'a>(
    command: &str,
    args: &'a [String],
) -> Result<(&'static Verb, &'a [String]), ToolError> {
    let find = |name: &str| VERBS.iter().find(|verb| verb.name == name);
    if let Some(verb) = find(command) {
        return Ok((verb, args));
    }
    let usual = if command == "stash" { "push" } else { "list" };
    let (said, rest) = match args.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => (usual, args),
    };
    match find(&format!("{command} {said}")) {
        Some(verb) => Ok((verb, rest)),
        None => Err(unknown_verb(command, said)),
    }
}

fn unknown_verb(command: &str, said: &str) -> ToolError {
    let prefix = format!("{command} ");
    let known: Vec<&str> =
        VERBS.iter().filter_map(|verb| verb.name.strip_prefix(&prefix)).collect();
    let near = nearest(said, known.iter().copied());
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    ToolError::invalid_args(format!("`git {command}` has no `{said}` here"))
        .hint(format!("{near}there is {}", known.join(", ")))
}

fn looks(verb: &Verb, sorted: &Sorted) -> bool {
    match verb.looks {
        Looks::Always => true,
        Looks::Never => false,
        Looks::With { one_of, none_of } => {
            !sorted.has(none_of) && (sorted.words.is_empty() || sorted.has(one_of))
        }
    }
}

/// What is said where the call leaves it open.
fn preset(verb: &Verb, sorted: &Sorted) -> Vec<String> {
    match verb.name {
        "status" if !sorted.has(&["short", "porcelain", "long"]) => {
            vec!["--short".to_owned(), "--branch".to_owned()]
        }
        "log" if !sorted.has(&["max-count"]) => vec![format!("--max-count={COMMITS}")],
        // Any option would turn its summary into a patch.
        "stash show" if sorted.given.is_empty() => vec!["--stat".to_owned()],
        _ => Vec::new(),
    }
}

/// The message: as options, or on the standard input.
fn spoken(
    verb: &Verb,
    sorted: &Sorted,
    message: Option<&str>,
) -> Result<(Vec<String>, Option<String>), ToolError> {
    if let Some(message) = message {
        if message.trim().is_empty() || message.contains('\0') {
            return Err(ToolError::invalid_args(
                "the `message` is empty or has a NUL character in it",
            ));
        }
        if sorted.has(&["message", "reuse-message", "no-edit"]) {
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
            if sorted.has(&["message", "reuse-message", "fixup", "dry-run", "no-edit"]) =>
        {
            Ok((Vec::new(), None))
        }
        ("commit", None) if sorted.has(&["amend"]) => Ok((vec!["--no-edit".to_owned()], None)),
        ("commit", None) => Err(ToolError::invalid_args("`git commit` needs a `message`")),
        (_, None) => Ok((Vec::new(), None)),
    }
}

/// The place that a path names, also where it is one that is left out.
fn plain_path(path: &Path) -> Result<&Path, ToolError> {
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

/// Whether a word, taken for a path, could lead out of the directory.
fn could_lead_away(word: &Path) -> bool {
    word.is_absolute() || word.components().any(|part| part == Component::ParentDir)
}

/// The path in `HEAD:path` and `:0:path`.
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
