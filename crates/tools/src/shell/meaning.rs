//! From what was read to what it does: every simple command with its wrappers looked through, and every path joined to the
//! directory in which it is used.
//!
//! `cd` changes what later paths mean, and it can fail. So a list is followed with the directories in which it may be: behind
//! `cd a &&` only in `a`, behind `cd a;` in `a` or where it was. What is done in one of several directories is done in all of them, for all
//! that is known.

mod places;

use std::path::{Path, PathBuf};

use windlass_core::{
    CommandLine, OnlyReads, PathPattern, Search, SimpleCommand, normalize, program_name, quote,
};

use self::places::{After, Places, union};
use super::found::{Found, Touch};
use super::programs;
use super::reader::{self, Script};
use super::syntax::{
    AndOr, Body, Command, Connector, List, Pipeline, Redirect, RedirectKind, Word,
};
use super::wrappers::{self, Unwrapped};

/// How many directories it may be in.
const MOST_PLACES: usize = 8;
/// How often one command may run another.
const DEEPEST: usize = 16;

/// What a text does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Understood {
    pub(crate) line: CommandLine,
    /// The files that it names, and what is done to them.
    pub(super) touches: Vec<(Touch, PathPattern)>,
}

/// Where a text is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) workspace: &'p Path,
    pub(crate) directory: &'p Path,
}

/// Finds out what a text does.
pub(crate) fn understand(text: &str, place: Place<'_>) -> Understood {
    let mut meaning = Meaning {
        workspace: place.workspace,
        commands: Vec::new(),
        redirected: Vec::new(),
        searches: Vec::new(),
        touches: Vec::new(),
        unclear: None,
        depth: 0,
        in_loop: false,
    };
    meaning.script(text, vec![place.directory.to_owned()]);
    let Meaning { commands, redirected, searches, touches, unclear, .. } = meaning;
    Understood {
        line: CommandLine {
            unclear,
            redirected,
            searches,
            ..CommandLine::understood(text, commands)
        },
        touches,
    }
}

struct Meaning<'w> {
    workspace: &'w Path,
    commands: Vec<SimpleCommand>,
    redirected: Vec<PathPattern>,
    searches: Vec<Search>,
    touches: Vec<(Touch, PathPattern)>,
    unclear: Option<String>,
    depth: usize,
    in_loop: bool,
}

impl Meaning<'_> {
    fn unclear(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    fn script(&mut self, text: &str, places: Places) {
        let Script { list, unclear } = reader::read(text);
        if let Some(why) = unclear {
            self.unclear(why);
        }
        self.list(&list, places);
    }

    fn list(&mut self, list: &List, mut places: Places) -> After {
        let mut after = After::either(places.clone());
        for and_or in list {
            after = self.and_or(and_or, places);
            places = union(after.success.clone(), after.failure.clone());
            if places.len() > MOST_PLACES {
                self.unclear("it changes the directory too often");
                places.truncate(MOST_PLACES);
            }
        }
        after
    }

    fn and_or(&mut self, and_or: &AndOr, places: Places) -> After {
        let mut after = self.pipeline(&and_or.first, places.clone());
        for (connector, next) in &and_or.rest {
            after = match connector {
                Connector::And => {
                    let then = self.pipeline(next, after.success);
                    After { success: then.success, failure: union(after.failure, then.failure) }
                }
                Connector::Or => {
                    let then = self.pipeline(next, after.failure);
                    After { success: union(after.success, then.success), failure: then.failure }
                }
            };
        }
        if and_or.in_background { After::either(places) } else { after }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, places: Places) -> After {
        let after = if let [command] = pipeline.commands.as_slice() {
            self.command(command, places, None)
        } else {
            // Each of them is in a shell of its own.
            let mut before: Option<&Command> = None;
            for command in &pipeline.commands {
                self.command(command, places.clone(), before);
                before = Some(command);
            }
            After::either(places)
        };
        if pipeline.is_negated {
            return After { success: after.failure, failure: after.success };
        }
        after
    }

    fn command(&mut self, command: &Command, places: Places, before: Option<&Command>) -> After {
        for list in &command.inside {
            self.list(list, places.clone());
        }
        for redirect in &command.redirects {
            self.redirect(redirect, &places);
        }
        match &command.body {
            Body::Simple(words) => self.simple(words, places, before),
            Body::Subshell(list) => {
                self.list(list, places.clone());
                After::either(places)
            }
            Body::Group(list) => self.list(list, places),
            Body::If(lists) => {
                let mut here = places;
                for list in lists {
                    let after = self.list(list, here.clone()).any();
                    here = union(here, after);
                }
                After::either(here)
            }
            Body::Loop(lists) => {
                let outer = std::mem::replace(&mut self.in_loop, true);
                for list in lists {
                    self.list(list, places.clone());
                }
                self.in_loop = outer;
                After::either(places)
            }
        }
    }

    fn redirect(&mut self, redirect: &Redirect, places: &Places) {
        let target = redirect.target.text.as_str();
        if redirect.target.is_open || is_device(target) {
            return;
        }
        if target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/") {
            return self.unclear("it talks to the network");
        }
        for place in places {
            let path = PathPattern::file(join(place, Path::new(target)));
            if redirect.kind == RedirectKind::Write {
                self.redirected.push(path.clone());
                self.touches.push((Touch::Write, path));
            } else {
                self.touches.push((Touch::Read, path));
            }
        }
    }

    fn search(&mut self, searches: &[Search], place: &Path) {
        for search in searches {
            let path = join(place, &search.place.path);
            let search = Search { place: PathPattern::tree(path), depth: search.depth };
            if !self.searches.contains(&search) {
                self.searches.push(search);
            }
        }
    }

    fn simple(&mut self, words: &[Word], places: Places, before: Option<&Command>) -> After {
        let Some(program) = words.first() else { return After::either(places) };
        if program.is_open || program.pattern.is_some() {
            self.unclear("the name of a program is not literal");
            return After::either(places);
        }
        if program.text == "cd" {
            return self.change_directory(words, places);
        }
        let fed = before.is_some_and(prints_names);
        self.run(words, &places, More { words: false, names_only: fed });
        After::either(places)
    }

    /// `cd DIRECTORY`, as bash follows it: by the letters.
    fn change_directory(&mut self, words: &[Word], places: Places) -> After {
        let target = match words {
            [_, target] | [_, _, target] if words.len() == 2 || words[1].text == "--" => target,
            _ => {
                self.unclear("it changes the directory in an unusual way");
                return After::either(places);
            }
        };
        let text = target.text.as_str();
        if target.is_open
            || target.pattern.is_some()
            || text.starts_with('-')
            || text.is_empty()
            || self.in_loop
        {
            self.unclear("it changes the directory in an unusual way");
            return After::either(places);
        }
        self.commands.push(SimpleCommand::new(["cd", text]).reading(OnlyReads::Always));
        let success: Places = places.iter().map(|place| normalize(&place.join(text))).collect();
        for place in &success {
            self.touches.push((Touch::Read, PathPattern::file(quoted(place.clone()))));
        }
        After { success, failure: places }
    }

    /// A simple command, and whatever it runs itself.
    fn run(&mut self, words: &[Word], places: &Places, more: More) {
        self.depth += 1;
        if self.depth > DEEPEST {
            self.unclear("one command runs another too often");
        } else {
            self.look(words, places, more);
        }
        self.depth -= 1;
    }

    fn look(&mut self, words: &[Word], places: &Places, more: More) {
        let Some(program) = words.first() else {
            if more.words {
                self.unclear("what is run comes from what it reads");
            }
            return;
        };
        if program.is_open || program.pattern.is_some() {
            return self.unclear("the name of a program is not literal");
        }
        let mut named = words.to_vec();
        let name = self.name_of(&program.text, places);
        if let Some(first) = named.first_mut() {
            first.text = name;
        }
        let mut found = Found::default();
        match wrappers::unwrap(&named, &mut found) {
            Unwrapped::Nothing => self.part(&named, found, places, more),
            Unwrapped::Unknown(why) => {
                found.risk(named.len(), why);
                self.add(&named, found, places);
            }
            Unwrapped::Command { from, is_part } => {
                self.wrapped(&named, from, is_part, found, places, more);
            }
            Unwrapped::Script { .. } if more.words => {
                self.unclear("a script is given words that are not known");
            }
            Unwrapped::Script { text, is_bash } => {
                if !is_bash && !wrappers::is_portable(&text) {
                    self.unclear("a script may mean something else to another shell");
                }
                self.nested(&text, places);
            }
        }
    }

    fn nested(&mut self, text: &str, places: &Places) {
        // A script in a script lies one deeper, however it is reached.
        self.script(text, places.clone());
    }

    fn wrapped(
        &mut self,
        words: &[Word],
        from: usize,
        is_part: bool,
        found: Found,
        places: &Places,
        more: More,
    ) {
        let is_xargs = words.first().is_some_and(|word| word.text == "xargs");
        let inner = words.get(from..).unwrap_or_default();
        if is_part {
            self.add(words, found, places);
        }
        if is_xargs {
            let options: Vec<&str> =
                words.iter().take(from).map(|word| word.text.as_str()).collect();
            let is_split_safely = options.contains(&"-0") || options.contains(&"--null");
            let replaces = options.iter().any(|option| option.starts_with("-I"));
            if replaces && inner.first().is_some_and(|program| program.text.contains('{')) {
                return self.unclear("what is run comes from what it reads");
            }
            let names_only = more.names_only && is_split_safely && !replaces;
            return self.run(inner, places, More { words: true, names_only });
        }
        self.run(inner, places, more);
    }

    /// The name of a program; one in the workspace by its path there, wherever it is run.
    fn name_of(&self, word: &str, places: &Places) -> String {
        let is_relative = word.contains('/') && !word.starts_with('/');
        let [place] = places.as_slice() else {
            // In one of several directories it may be one of several programs.
            return if is_relative {
                format!("./?/{word}")
            } else {
                program_name(word).into_owned()
            };
        };
        match place.strip_prefix(self.workspace) {
            Ok(inside) if is_relative && !inside.as_os_str().is_empty() => {
                program_name(&inside.join(word).to_string_lossy()).into_owned()
            }
            Err(_) if is_relative => program_name(&place.join(word).to_string_lossy()).into_owned(),
            _ => program_name(word).into_owned(),
        }
    }

    /// A command that runs nothing else by its place, with all that its program is known for.
    fn part(&mut self, words: &[Word], mut found: Found, places: &Places, more: More) {
        programs::look(words, &mut found);
        if let Some(why) = found.unclear.take() {
            self.unclear(why);
        }
        for (at, word) in words.iter().enumerate() {
            if word.pattern.is_some() && could_be_hidden(&word.text) {
                found.risk(at, "could be a hidden file");
            }
        }
        let name = words.first().map_or("", |word| word.text.as_str());
        if more.words {
            let is_harmless = programs::takes_any_words(name);
            if !is_harmless && !matches!(name, "rm" | "rmdir" | "mkdir" | "touch") {
                found.risk(words.len(), "is given words that are not known");
            }
            if !(is_harmless && more.names_only) {
                found.only_reads = OnlyReads::No;
            }
        }
        let runs = std::mem::take(&mut found.runs);
        self.add(words, found, places);
        for run in runs {
            self.run(&run.words, places, More { words: run.more, names_only: false });
        }
    }

    /// Adds a command as far as its words are literal.
    fn add(&mut self, words: &[Word], found: Found, places: &Places) {
        let literal = words.iter().take_while(|word| !word.is_open);
        let mut command = SimpleCommand::new(literal.map(|word| word.text.as_str()));
        command.only_reads = if found.risks.is_empty() { found.only_reads } else { OnlyReads::No };
        // What does more was allowed by somebody, and reads what it was made for.
        if command.only_reads != OnlyReads::No {
            for place in places {
                self.search(&found.searches, place);
            }
        }
        command.risks = found.risks;
        command.acts_as = found.acts_as.into_iter().map(Into::into).collect();
        for (touch, pattern) in found.touches {
            if pattern.path.to_str().is_some_and(is_device) {
                continue;
            }
            for place in places {
                let path = join(place, &pattern.path);
                let pattern = PathPattern { path, reach: pattern.reach };
                let known =
                    if touch == Touch::Read { &mut command.reads } else { &mut command.changes };
                if !known.contains(&pattern) {
                    known.push(pattern.clone());
                }
                if !self.touches.iter().any(|(known, path)| *known == touch && *path == pattern) {
                    self.touches.push((touch, pattern));
                }
            }
        }
        self.commands.push(command);
    }
}

/// What a command is given besides the words that are seen.
#[derive(Debug, Clone, Copy)]
struct More {
    /// More words.
    words: bool,
    /// These, or what it reads, are names of files below the directories that were looked at.
    names_only: bool,
}

/// Whether a command prints names of files, each ended so that none can be taken for two.
fn prints_names(command: &Command) -> bool {
    let Body::Simple(words) = &command.body else { return false };
    let has = |option: &str| words.iter().any(|word| word.text == option);
    match words.first().map(|program| program.text.as_str()) {
        Some("find") => has("-print0"),
        Some("git") => words.get(1).is_some_and(|word| word.text == "ls-files") && has("-z"),
        Some("rg") => has("--files") && has("-0"),
        _ => false,
    }
}

/// A path where it is used. It is kept as it is spelled: what `..` behind a link means is known to the machine alone.
fn join(place: &Path, path: &Path) -> PathBuf {
    quoted(place.join(path))
}

/// In the form in which effects name files.
fn quoted(path: PathBuf) -> PathBuf {
    match quote::path(&path) {
        std::borrow::Cow::Borrowed(_) => path,
        std::borrow::Cow::Owned(quoted) => PathBuf::from(quoted),
    }
}

/// Whether a pattern could mean a file such as `.env`: a star alone does not.
fn could_be_hidden(pattern: &str) -> bool {
    let is_hidden = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
    pattern.split('/').any(is_hidden)
}

/// Files that hold nothing of anybody.
fn is_device(path: &str) -> bool {
    matches!(
        path,
        "/dev/null"
            | "/dev/zero"
            | "/dev/full"
            | "/dev/random"
            | "/dev/urandom"
            | "/dev/stdin"
            | "/dev/stdout"
            | "/dev/stderr"
            | "/dev/tty"
    ) || path
        .strip_prefix("/dev/fd/")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}
