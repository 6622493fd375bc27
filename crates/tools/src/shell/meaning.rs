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
    AndOr, Assignment, Body, Command, Connector, List, Pipeline, Redirect, RedirectKind, Word,
};
use super::variables::{Variables, changes_what_runs};
use super::wrappers::{self, Unwrapped};

/// How many directories it may be in.
const MOST_PLACES: usize = 8;
/// The most places to which the links of a text may lead.
const MOST_LED_TO: usize = 64;
/// How often one command may run another.
const DEEPEST: usize = 16;
/// How often the bodies of loops are looked at.
const MOST_ROUNDS: usize = 1_000;

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
    /// The home directory of programs, if it is known.
    pub(crate) home: Option<&'p Path>,
}

/// Finds out what a text does.
pub(super) fn understand(text: &str, place: Place<'_>) -> Understood {
    let mut meaning = Meaning {
        workspace: place.workspace,
        home: place.home,
        variables: Variables::default(),
        is_certain: true,
        commands: Vec::new(),
        redirected: Vec::new(),
        shell_reads: Vec::new(),
        searches: Vec::new(),
        touches: Vec::new(),
        links: Vec::new(),
        is_other_machine: false,
        unclear: None,
        depth: 0,
        in_loop: false,
        rounds: 0,
    };
    meaning.script(text, vec![place.directory.to_owned()]);
    let Meaning { commands, redirected, shell_reads, searches, touches, unclear, .. } = meaning;
    Understood {
        line: CommandLine {
            unclear,
            redirected,
            shell_reads,
            searches,
            ..CommandLine::understood(text, commands)
        },
        touches,
    }
}

struct Meaning<'w> {
    workspace: &'w Path,
    home: Option<&'w Path>,
    variables: Variables,
    /// Whether what is looked at is run in any case, and once.
    is_certain: bool,
    commands: Vec<SimpleCommand>,
    redirected: Vec<PathPattern>,
    shell_reads: Vec<PathPattern>,
    searches: Vec<Search>,
    touches: Vec<(Touch, PathPattern)>,
    /// The symbolic links that the text makes, each with its target: not there yet when effects are resolved.
    links: Vec<(PathBuf, PathBuf)>,
    /// Whether what is looked at is run where the paths are not those of this machine.
    is_other_machine: bool,
    unclear: Option<String>,
    depth: usize,
    in_loop: bool,
    rounds: usize,
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
        // Variables of the shell that starts it may be there or not.
        let outer = std::mem::replace(&mut self.variables, Variables::of(&list));
        let was_certain = std::mem::replace(&mut self.is_certain, true);
        self.list(&list, places);
        (self.variables, self.is_certain) = (outer, was_certain);
    }

    /// Looks at something that is run in a shell of its own.
    fn apart<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.variables.clone();
        let looked = look(self);
        self.variables = outer;
        looked
    }

    /// Looks at something that may not be run, or more than once.
    fn perhaps<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let was_certain = std::mem::replace(&mut self.is_certain, false);
        let looked = look(self);
        self.is_certain = was_certain;
        looked
    }

    /// A word with the values of its variables.
    fn filled(&mut self, word: &Word, places: &Places) -> Word {
        if word.holes.is_empty() {
            return word.clone();
        }
        let home = self.home.and_then(Path::to_str);
        let here = match places.as_slice() {
            [place] if !self.in_loop => place.to_str(),
            _ => None,
        };
        let given = |name: &str| match name {
            "HOME" => home.map(str::to_owned),
            "PWD" => here.map(str::to_owned),
            _ => None,
        };
        let (filled, unknown) = self.variables.fill(word, given);
        if let Some(hole) = unknown {
            let what = if hole.name == "HOME" { "the home directory" } else { "a variable" };
            self.unclear(format!("it expands {what} (at column {})", hole.column));
        }
        filled
    }

    fn filled_all(&mut self, words: &[Word], places: &Places) -> Vec<Word> {
        words.iter().map(|word| self.filled(word, places)).collect()
    }

    /// `A=b` before a command, or alone.
    fn assign(&mut self, assignments: &[Assignment], is_alone: bool, places: &Places) {
        for Assignment { name, value } in assignments {
            let value = self.filled(value, places);
            if changes_what_runs(name) {
                self.unclear(format!("`{name}` changes what is run"));
            }
            if is_alone {
                self.variables.set(name, value, self.is_certain);
            }
        }
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
        if and_or.in_background {
            self.apart(|this| this.pipelines(and_or, places.clone()));
            return After::either(places);
        }
        self.pipelines(and_or, places)
    }

    fn pipelines(&mut self, and_or: &AndOr, places: Places) -> After {
        let mut after = self.pipeline(&and_or.first, places);
        for (connector, next) in &and_or.rest {
            after = match connector {
                Connector::And => {
                    let then = self.perhaps(|this| this.pipeline(next, after.success));
                    After { success: then.success, failure: union(after.failure, then.failure) }
                }
                Connector::Or => {
                    let then = self.perhaps(|this| this.pipeline(next, after.failure));
                    After { success: union(after.success, then.success), failure: then.failure }
                }
            };
        }
        after
    }

    fn pipeline(&mut self, pipeline: &Pipeline, places: Places) -> After {
        let after = if let [command] = pipeline.commands.as_slice() {
            self.command(command, places, None)
        } else {
            // Each of them is in a shell of its own.
            let mut before: Option<&Command> = None;
            for command in &pipeline.commands {
                self.apart(|this| this.command(command, places.clone(), before));
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
            self.apart(|this| this.list(list, places.clone()));
        }
        for redirect in &command.redirects {
            self.redirect(redirect, &places);
        }
        match &command.body {
            Body::Simple(words) => {
                self.assign(&command.assignments, words.is_empty(), &places);
                let words = self.filled_all(words, &places);
                self.simple(&words, places, before)
            }
            Body::Subshell(list) => {
                self.apart(|this| this.list(list, places.clone()));
                After::either(places)
            }
            Body::Group(list) => self.list(list, places),
            Body::If(lists) => {
                let mut here = places;
                for list in lists {
                    let after = self.perhaps(|this| this.list(list, here.clone())).any();
                    here = union(here, after);
                }
                After::either(here)
            }
            Body::Loop(lists) => {
                let outer = std::mem::replace(&mut self.in_loop, true);
                for list in lists {
                    self.perhaps(|this| this.list(list, places.clone()));
                }
                self.in_loop = outer;
                After::either(places)
            }
            Body::For { name, values, body } => {
                let values = self.filled_all(values, &places);
                self.for_each(name, values, body, &places);
                After::either(places)
            }
        }
    }

    /// The body of a loop, once for each value.
    fn for_each(&mut self, name: &str, values: Vec<Word>, body: &List, places: &Places) {
        if changes_what_runs(name) {
            self.unclear(format!("`{name}` changes what is run"));
        }
        let outer = std::mem::replace(&mut self.in_loop, true);
        for value in values {
            self.rounds += 1;
            if self.rounds > MOST_ROUNDS {
                self.unclear("it repeats too often");
                break;
            }
            let inside = self.variables.in_loop(name, value, body);
            let before = std::mem::replace(&mut self.variables, inside);
            self.perhaps(|this| this.list(body, places.clone()));
            self.variables = before;
            self.variables.forget(name);
        }
        self.in_loop = outer;
    }

    fn redirect(&mut self, redirect: &Redirect, places: &Places) {
        let word = self.filled(&redirect.target, places);
        let target = word.text.as_str();
        if word.pattern.is_some() {
            return self.unclear("a redirection leads to a pattern");
        }
        if word.is_open || is_device(target) {
            return;
        }
        if target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/") {
            return self.unclear("it talks to the network");
        }
        for path in self.led_to(places, Path::new(target)) {
            let path = PathPattern::file(path);
            if redirect.kind == RedirectKind::Write {
                self.redirected.push(path.clone());
                self.touches.push((Touch::Write, path));
            } else {
                self.shell_reads.push(path.clone());
                self.touches.push((Touch::Read, path));
            }
        }
    }

    /// A path in each of the directories, and where the links lead that the text has made.
    fn led_to(&self, places: &Places, path: &Path) -> Vec<PathBuf> {
        if self.is_other_machine {
            return Vec::new();
        }
        let mut all: Vec<PathBuf> = places.iter().map(|place| join(place, path)).collect();
        let mut next = 0;
        while let Some(path) = all.get(next).filter(|_| all.len() < MOST_LED_TO).cloned() {
            next += 1;
            for (link, target) in &self.links {
                // `link/../x` is beside the target, and `d/../link` is the link.
                let plain = normalize(&path);
                let rest = path.strip_prefix(link).or_else(|_| plain.strip_prefix(link));
                let Ok(rest) = rest else { continue };
                let mut led = link.parent().unwrap_or(link).join(target);
                led.extend(rest.components());
                if !all.contains(&led) {
                    all.push(led);
                }
            }
        }
        all
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
        if program.text == "export" {
            self.export(words);
            return After::either(places);
        }
        let fed = before.is_some_and(prints_names);
        self.run(words, &places, More { words: false, names_only: fed, paths: false });
        After::either(places)
    }

    /// `export A=b`: variables that do not change what is run.
    fn export(&mut self, words: &[Word]) {
        let is_harmless = |word: &Word| {
            let name = word.text.split('=').next().unwrap_or_default();
            let is_plain = !word.is_open && word.pattern.is_none();
            is_plain && reader::is_name(name) && !changes_what_runs(name)
        };
        let arguments = words.get(1..).unwrap_or_default();
        if arguments.is_empty() || !arguments.iter().all(is_harmless) {
            self.unclear("`export` changes the shell itself");
        }
        for word in arguments {
            let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
            let value = Word { text: value.to_owned(), ..word.clone() };
            let is_set = word.text.contains('=');
            self.variables.set(name, value, self.is_certain && is_set);
        }
        let literal = words.iter().take_while(|word| !word.is_open);
        let command = SimpleCommand::new(literal.map(|word| word.text.as_str()));
        self.commands.push(command.reading(OnlyReads::Always));
    }

    /// `cd DIRECTORY`, as bash follows it: by the letters.
    fn change_directory(&mut self, words: &[Word], places: Places) -> After {
        let home = self.home.and_then(Path::to_str).map(Word::literal);
        let target = match (words, &home) {
            ([_, target], _) => target,
            ([_, dashes, target], _) if dashes.text == "--" => target,
            ([_], Some(home)) => home,
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
        let target = PathBuf::from(text);
        for place in self.led_to(&places, &target) {
            let place = PathPattern::file(normalize(&place));
            self.shell_reads.push(place.clone());
            self.touches.push((Touch::Read, place));
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
        let origin = self.origin(&name);
        let known_as = origin.known_as(&name).to_owned();
        if let Some(first) = named.first_mut() {
            first.text = name;
        }
        let mut found = Found::default();
        if origin == Origin::Elsewhere {
            found.unseen("is a program at an unusual place");
        }
        let unwrapped = wrappers::unwrap(&known_as, &named, &mut found);
        if !matches!(unwrapped, Unwrapped::Nothing) {
            let of_options = std::mem::take(&mut found.scripts);
            self.scripts(&of_options, false, places);
        }
        match unwrapped {
            Unwrapped::Nothing => self.part(&known_as, &named, found, places, more),
            Unwrapped::Unknown => self.add(&named, found, places),
            Unwrapped::Command { words: inner, has_more, is_part } => {
                if is_part || origin == Origin::Elsewhere {
                    self.add(&named, found, places);
                }
                if known_as == "xargs" {
                    return self.xargs(&named, &inner, places, more);
                }
                let words = more.words || has_more;
                let names_only = more.names_only && !has_more;
                self.run(&inner, places, More { words, names_only, ..more });
            }
            Unwrapped::Scripts { .. } if more.words => {
                self.unclear("a script is given words that are not known");
            }
            Unwrapped::Scripts { scripts, is_bash, is_part } => {
                if is_part || origin == Origin::Elsewhere {
                    self.add(&named, found, places);
                }
                // What `ssh` runs finds other files there.
                let was_other = self.is_other_machine;
                self.is_other_machine |= known_as == "ssh";
                self.scripts(&scripts, is_bash, places);
                self.is_other_machine = was_other;
            }
        }
    }

    /// Scripts that a command gives to a shell.
    fn scripts(&mut self, scripts: &[Word], is_bash: bool, places: &Places) {
        for script in scripts {
            if script.is_open || script.pattern.is_some() {
                self.unclear("a script is not literal");
                continue;
            }
            if !is_bash && !wrappers::is_portable(&script.text) {
                self.unclear("a script may mean something else to another shell");
            }
            self.script(&script.text, places.clone());
        }
    }

    fn xargs(&mut self, words: &[Word], inner: &[Word], places: &Places, more: More) {
        let from = words.len() - inner.len();
        let options: Vec<&str> = words.iter().take(from).map(|word| word.text.as_str()).collect();
        let is_split_safely = options.contains(&"-0") || options.contains(&"--null");
        let replaced = wrappers::replaced_by_xargs(words);
        let is_replaced = |program: &Word| replaced.iter().any(|it| program.text.contains(it));
        if inner.first().is_some_and(is_replaced) {
            return self.unclear("what is run comes from what it reads");
        }
        let names_only = more.names_only && is_split_safely && replaced.is_empty();
        self.run(inner, places, More { words: true, names_only, paths: false });
    }

    /// Where a program of this name is.
    fn origin(&self, name: &str) -> Origin {
        let has_dots = name.split('/').any(|part| part == "..");
        let is_inside =
            !self.workspace.as_os_str().is_empty() && Path::new(name).starts_with(self.workspace);
        match name {
            _ if !name.contains('/') => Origin::System,
            _ if !has_dots && (name.starts_with("./") || is_inside) => Origin::Workspace,
            _ => Origin::Elsewhere,
        }
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
    fn part(
        &mut self,
        known_as: &str,
        words: &[Word],
        mut found: Found,
        places: &Places,
        more: More,
    ) {
        let is_elsewhere = words.first().is_some_and(|word| word.text != known_as);
        // What a program of the workspace does, the repository says.
        if !known_as.contains('/') {
            programs::look(known_as, words, &mut found);
        }
        if is_elsewhere {
            found.only_reads = OnlyReads::No;
        }
        if let Some(why) = found.unclear.take() {
            self.unclear(why);
        }
        for (at, word) in words.iter().enumerate() {
            if word.pattern.is_some() && could_be_hidden(&word.text) {
                found.risk(at, "could be a hidden file");
            }
        }
        if more.words {
            let row = programs::table::find(known_as);
            let is_harmless = row.is_some_and(programs::table::Program::takes_any_words);
            if !is_harmless && !matches!(known_as, "rm" | "rmdir" | "mkdir" | "touch") {
                found.risk(words.len(), "is given words that are not known");
                if !more.paths {
                    found.unseen("is given words that are not known");
                }
            }
            if !(is_harmless && more.names_only) {
                found.only_reads = OnlyReads::No;
            }
        }
        let runs = std::mem::take(&mut found.runs);
        let scripts = std::mem::take(&mut found.scripts);
        self.add(words, found, places);
        for run in runs {
            self.run(
                &run.words,
                places,
                More { words: run.more, names_only: false, paths: run.paths },
            );
        }
        self.scripts(&scripts, false, places);
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
        command.unseen = found.unseen;
        command.bare = found.bare;
        command.acts_as = found.acts_as.into_iter().map(Into::into).collect();
        for (touch, pattern) in found.touches {
            if pattern.path.to_str().is_some_and(is_device) {
                continue;
            }
            for path in self.led_to(places, &pattern.path) {
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
        for (link, target) in found.links {
            let links = places.iter().map(|place| normalize(&place.join(&link)));
            self.links.extend(links.map(|link| (link, target.clone())));
        }
        self.commands.push(command);
    }
}

/// Where a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Where programs of the system are.
    System,
    /// In the workspace.
    Workspace,
    /// Anywhere else, or on a way that is not followed here.
    Elsewhere,
}

impl Origin {
    /// The name by which the tables know the program: on any way to `rm` it may be `rm`.
    fn known_as(self, name: &str) -> &str {
        match self {
            Self::Elsewhere => name.rsplit('/').next().unwrap_or(name),
            Self::System | Self::Workspace => name,
        }
    }
}

/// What a command is given besides the words that are seen.
#[derive(Debug, Clone, Copy)]
struct More {
    /// More words.
    words: bool,
    /// These, or what it reads, are names of files below the directories that were looked at.
    names_only: bool,
    /// More words are paths that cannot be options.
    paths: bool,
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
