//! Turns a parsed script into a list of its commands and file accesses. Wrappers are resolved to the commands that they run, and every path
//! is joined to the directory in which it is used.
//!
//! `cd` changes the meaning of later paths, and it can fail. So the analysis tracks every directory in which a command may run: after `cd a
//! &&` only `a`, after `cd a;` both `a` and the old directory. An access in one of several directories counts as an access in all of them.

mod directories;

use std::path::{Path, PathBuf};

use windlass_core::{
    CommandLine, CommandSearch, OnlyReads, PathPattern, SimpleCommand, normalize, program_name,
    quote,
};

use self::directories::{Directories, DirectoriesAfter, union};
use super::command_facts::{CommandFacts, FileAccess};
use super::programs;
use super::reader::{self, Script};
use super::syntax::{
    AndOr, Assignment, Command, CommandBody, Connector, List, Pipeline, Redirect, RedirectKind,
    Word,
};
use super::variables::{Variables, affects_execution};
use super::wrappers::{self, Unwrapped};

/// Limit of directories in which a command may run.
const MAX_DIRECTORIES: usize = 8;
/// Limit of paths that one path may become through symbolic links of the script.
const MAX_LINKED_PATHS: usize = 64;
/// Limit of commands that run other commands.
const MAX_COMMAND_NESTING: usize = 16;
/// Limit of loop iterations that are analyzed in one script.
const MAX_LOOP_ROUNDS: usize = 1_000;

/// The result of the analysis of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptAnalysis {
    /// The commands of the script and the reason if it is unclear.
    pub(crate) line: CommandLine,
    /// The files that the script names, with the kind of access.
    pub(super) file_accesses: Vec<(FileAccess, PathPattern)>,
}

/// The directories for which a script is analyzed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLocation<'p> {
    /// Root of the workspace.
    pub(crate) workspace: &'p Path,
    /// Working directory of the script.
    pub(crate) directory: &'p Path,
    /// Home directory of the commands, if it is known.
    pub(crate) home: Option<&'p Path>,
}

/// Parses a script as bash does and analyzes it.
pub(super) fn analyze(text: &str, location: RunLocation<'_>) -> ScriptAnalysis {
    let mut analyzer = Analyzer {
        workspace: location.workspace,
        home: location.home,
        variables: Variables::default(),
        is_certain: true,
        commands: Vec::new(),
        redirected: Vec::new(),
        shell_reads: Vec::new(),
        searches: Vec::new(),
        file_accesses: Vec::new(),
        links: Vec::new(),
        is_other_machine: false,
        unclear: None,
        depth: 0,
        in_loop: false,
        loop_rounds: 0,
    };
    analyzer.analyze_script(text, vec![location.directory.to_owned()]);
    let Analyzer { commands, redirected, shell_reads, searches, file_accesses, unclear, .. } =
        analyzer;
    ScriptAnalysis {
        line: CommandLine {
            unclear,
            redirected,
            shell_reads,
            searches,
            ..CommandLine::understood(text, commands)
        },
        file_accesses,
    }
}

/// The state of one analysis, and the results so far.
struct Analyzer<'w> {
    workspace: &'w Path,
    home: Option<&'w Path>,
    variables: Variables,
    /// True if the code under analysis runs for certain and exactly once.
    is_certain: bool,
    commands: Vec<SimpleCommand>,
    /// Files that a redirection of the shell writes.
    redirected: Vec<PathPattern>,
    /// Paths that the shell itself reads, by a redirection or `cd`.
    shell_reads: Vec<PathPattern>,
    searches: Vec<CommandSearch>,
    file_accesses: Vec<(FileAccess, PathPattern)>,
    /// Symbolic links that the script creates, as pairs of link and target. They do not exist yet when effects are resolved.
    links: Vec<(PathBuf, PathBuf)>,
    /// True if the code under analysis runs on another machine, so that its paths are not those of this one.
    is_other_machine: bool,
    /// The first reason why the script is unclear.
    unclear: Option<String>,
    /// The number of commands around the present one that run each other.
    depth: usize,
    in_loop: bool,
    /// The number of iterations of `for` loops so far.
    loop_rounds: usize,
}

impl Analyzer<'_> {
    /// Marks the script as unclear. The first reason is kept.
    fn unclear(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    /// Parses and analyzes a script with its own variables.
    fn analyze_script(&mut self, text: &str, directories: Directories) {
        let Script { list, unclear } = reader::read(text);
        if let Some(why) = unclear {
            self.unclear(why);
        }
        // The variables of the shell that starts the script may or may not be exported, so none of them are known inside.
        let outer = std::mem::replace(&mut self.variables, Variables::of_script(&list));
        let was_certain = std::mem::replace(&mut self.is_certain, true);
        self.analyze_list(&list, directories);
        (self.variables, self.is_certain) = (outer, was_certain);
    }

    /// Analyzes code that runs in its own shell: changes of variables are undone afterwards.
    fn in_subshell<T>(&mut self, analyze: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.variables.clone();
        let result = analyze(self);
        self.variables = outer;
        result
    }

    /// Analyzes code that may not run, or may run more than once: its assignments are not certain.
    fn conditionally<T>(&mut self, analyze: impl FnOnce(&mut Self) -> T) -> T {
        let was_certain = std::mem::replace(&mut self.is_certain, false);
        let result = analyze(self);
        self.is_certain = was_certain;
        result
    }

    /// Returns a word with its variables replaced by their values. An unknown value makes the script unclear.
    fn expand(&mut self, word: &Word, directories: &Directories) -> Word {
        if word.variable_refs.is_empty() {
            return word.clone();
        }
        let home = self.home.and_then(Path::to_str);
        let here = match directories.as_slice() {
            [directory] if !self.in_loop => directory.to_str(),
            _ => None,
        };
        let given = |name: &str| match name {
            "HOME" => home.map(str::to_owned),
            "PWD" => here.map(str::to_owned),
            _ => None,
        };
        let (expanded, unknown) = self.variables.expand(word, given);
        if let Some(variable_ref) = unknown {
            let what =
                if variable_ref.name == "HOME" { "the home directory" } else { "a variable" };
            self.unclear(format!("it expands {what} (at column {})", variable_ref.column));
        }
        expanded
    }

    /// Expands every word of a list.
    fn expand_all(&mut self, words: &[Word], directories: &Directories) -> Vec<Word> {
        words.iter().map(|word| self.expand(word, directories)).collect()
    }

    /// Records the assignments before a command (`A=b ls`) or those that stand alone, which also set the variable for later commands.
    fn assign(&mut self, assignments: &[Assignment], is_alone: bool, directories: &Directories) {
        for Assignment { name, value } in assignments {
            let value = self.expand(value, directories);
            if affects_execution(name) {
                self.unclear(format!("`{name}` changes which programs run"));
            }
            if is_alone {
                self.variables.set(name, value, self.is_certain);
            }
        }
    }

    /// Analyzes commands in sequence. Returns the directories in which the shell may be afterwards.
    fn analyze_list(&mut self, list: &List, mut directories: Directories) -> DirectoriesAfter {
        let mut after = DirectoriesAfter::same(directories.clone());
        for and_or in list {
            after = self.analyze_and_or(and_or, directories);
            directories = union(after.success.clone(), after.failure.clone());
            if directories.len() > MAX_DIRECTORIES {
                self.unclear("it changes the directory too often");
                directories.truncate(MAX_DIRECTORIES);
            }
        }
        after
    }

    /// Analyzes pipelines joined by `&&` and `||`, in their own shell if they run in the background.
    fn analyze_and_or(&mut self, and_or: &AndOr, directories: Directories) -> DirectoriesAfter {
        if and_or.in_background {
            self.in_subshell(|this| this.analyze_pipelines(and_or, directories.clone()));
            return DirectoriesAfter::same(directories);
        }
        self.analyze_pipelines(and_or, directories)
    }

    /// Analyzes pipelines joined by `&&` and `||`, each in the directories that the one before leads to.
    fn analyze_pipelines(&mut self, and_or: &AndOr, directories: Directories) -> DirectoriesAfter {
        let mut after = self.analyze_pipeline(&and_or.first, directories);
        for (connector, next) in &and_or.rest {
            after = match connector {
                Connector::And => {
                    let then =
                        self.conditionally(|this| this.analyze_pipeline(next, after.success));
                    DirectoriesAfter {
                        success: then.success,
                        failure: union(after.failure, then.failure),
                    }
                }
                Connector::Or => {
                    let then =
                        self.conditionally(|this| this.analyze_pipeline(next, after.failure));
                    DirectoriesAfter {
                        success: union(after.success, then.success),
                        failure: then.failure,
                    }
                }
            };
        }
        after
    }

    /// Analyzes a pipeline, in which each of several commands runs in its own shell.
    fn analyze_pipeline(
        &mut self,
        pipeline: &Pipeline,
        directories: Directories,
    ) -> DirectoriesAfter {
        let after = if let [command] = pipeline.commands.as_slice() {
            self.analyze_command(command, directories, None)
        } else {
            // Each command of a pipeline runs in a shell of its own.
            let mut before: Option<&Command> = None;
            for command in &pipeline.commands {
                self.in_subshell(|this| this.analyze_command(command, directories.clone(), before));
                before = Some(command);
            }
            DirectoriesAfter::same(directories)
        };
        if pipeline.is_negated {
            return DirectoriesAfter { success: after.failure, failure: after.success };
        }
        after
    }

    /// Analyzes a command of any form with its command substitutions and redirections. `before` is the command that feeds its input.
    fn analyze_command(
        &mut self,
        command: &Command,
        directories: Directories,
        before: Option<&Command>,
    ) -> DirectoriesAfter {
        for list in &command.substitutions {
            self.in_subshell(|this| this.analyze_list(list, directories.clone()));
        }
        for redirect in &command.redirects {
            self.add_redirect(redirect, &directories);
        }
        match &command.body {
            CommandBody::Simple(words) => {
                self.assign(&command.assignments, words.is_empty(), &directories);
                let words = self.expand_all(words, &directories);
                self.analyze_simple(&words, directories, before)
            }
            CommandBody::Subshell(list) => {
                self.in_subshell(|this| this.analyze_list(list, directories.clone()));
                DirectoriesAfter::same(directories)
            }
            CommandBody::Group(list) => self.analyze_list(list, directories),
            CommandBody::If(lists) => {
                let mut here = directories;
                for list in lists {
                    let after =
                        self.conditionally(|this| this.analyze_list(list, here.clone())).all();
                    here = union(here, after);
                }
                DirectoriesAfter::same(here)
            }
            CommandBody::Loop(lists) => {
                let outer = std::mem::replace(&mut self.in_loop, true);
                for list in lists {
                    self.conditionally(|this| this.analyze_list(list, directories.clone()));
                }
                self.in_loop = outer;
                DirectoriesAfter::same(directories)
            }
            CommandBody::For { name, values, body } => {
                let values = self.expand_all(values, &directories);
                self.for_each(name, values, body, &directories);
                DirectoriesAfter::same(directories)
            }
        }
    }

    /// Analyzes the body of a `for` loop once for each value.
    fn for_each(&mut self, name: &str, values: Vec<Word>, body: &List, directories: &Directories) {
        if affects_execution(name) {
            self.unclear(format!("`{name}` changes which programs run"));
        }
        let outer = std::mem::replace(&mut self.in_loop, true);
        for value in values {
            self.loop_rounds += 1;
            if self.loop_rounds > MAX_LOOP_ROUNDS {
                self.unclear("its loops have too many iterations");
                break;
            }
            let inside = self.variables.for_iteration(name, value, body);
            let before = std::mem::replace(&mut self.variables, inside);
            self.conditionally(|this| this.analyze_list(body, directories.clone()));
            self.variables = before;
            self.variables.forget(name);
        }
        self.in_loop = outer;
    }

    /// Adds the file access of a redirection such as `> file`.
    fn add_redirect(&mut self, redirect: &Redirect, directories: &Directories) {
        let word = self.expand(&redirect.target, directories);
        let target = word.text.as_str();
        if word.glob_at.is_some() {
            return self.unclear("the target of a redirection is a pattern");
        }
        if word.is_incomplete || is_device(target) {
            return;
        }
        if target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/") {
            return self.unclear("it opens a network connection");
        }
        for path in self.possible_paths(directories, Path::new(target)) {
            let path = PathPattern::file(path);
            if redirect.kind == RedirectKind::Write {
                self.redirected.push(path.clone());
                self.file_accesses.push((FileAccess::Write, path));
            } else {
                self.shell_reads.push(path.clone());
                self.file_accesses.push((FileAccess::Read, path));
            }
        }
    }

    /// Returns a path joined to each of the directories, and every path to which symbolic links of the script may lead from there.
    fn possible_paths(&self, directories: &Directories, path: &Path) -> Vec<PathBuf> {
        if self.is_other_machine {
            return Vec::new();
        }
        let mut all: Vec<PathBuf> =
            directories.iter().map(|directory| join_path(directory, path)).collect();
        let mut next = 0;
        while let Some(path) = all.get(next).filter(|_| all.len() < MAX_LINKED_PATHS).cloned() {
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

    /// Adds directory walks of a command, joined to its working directory.
    fn add_searches(&mut self, searches: &[CommandSearch], directory: &Path) {
        for search in searches {
            let path = join_path(directory, &search.place.path);
            let search = CommandSearch { place: PathPattern::tree(path), depth: search.depth };
            if !self.searches.contains(&search) {
                self.searches.push(search);
            }
        }
    }

    /// Analyzes a simple command: handles `cd` and `export`, passes others on.
    fn analyze_simple(
        &mut self,
        words: &[Word],
        directories: Directories,
        before: Option<&Command>,
    ) -> DirectoriesAfter {
        let Some(program) = words.first() else { return DirectoriesAfter::same(directories) };
        if program.is_incomplete || program.glob_at.is_some() {
            self.unclear("the name of a program is not literal");
            return DirectoriesAfter::same(directories);
        }
        if program.text == "cd" {
            return self.change_directory(words, directories);
        }
        if program.text == "export" {
            self.export(words);
            return DirectoriesAfter::same(directories);
        }
        let is_fed = before.is_some_and(prints_nul_separated_names);
        self.analyze_nested(
            words,
            &directories,
            AddedWords { has_some: false, from_searched_files: is_fed, are_paths: false },
        );
        DirectoriesAfter::same(directories)
    }

    /// Analyzes `export A=b`. A variable that changes the execution of programs makes the script unclear.
    fn export(&mut self, words: &[Word]) {
        let is_harmless = |word: &Word| {
            let name = word.text.split('=').next().unwrap_or_default();
            let is_plain = !word.is_incomplete && word.glob_at.is_none();
            is_plain && reader::is_name(name) && !affects_execution(name)
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
        let literal = words.iter().take_while(|word| !word.is_incomplete);
        let command = SimpleCommand::new(literal.map(|word| word.text.as_str()));
        self.commands.push(command.reading(OnlyReads::Always));
    }

    /// Analyzes `cd DIRECTORY`. Bash resolves `..` in the text of the path, without looking at links.
    fn change_directory(&mut self, words: &[Word], directories: Directories) -> DirectoriesAfter {
        let home = self.home.and_then(Path::to_str).map(Word::literal);
        let target = match (words, &home) {
            ([_, target], _) => target,
            ([_, dashes, target], _) if dashes.text == "--" => target,
            ([_], Some(home)) => home,
            _ => {
                self.unclear("it changes the directory in an unusual way");
                return DirectoriesAfter::same(directories);
            }
        };
        let text = target.text.as_str();
        if target.is_incomplete
            || target.glob_at.is_some()
            || text.starts_with('-')
            || text.is_empty()
            || self.in_loop
        {
            self.unclear("it changes the directory in an unusual way");
            return DirectoriesAfter::same(directories);
        }
        self.commands.push(SimpleCommand::new(["cd", text]).reading(OnlyReads::Always));
        let success: Directories =
            directories.iter().map(|directory| normalize(&directory.join(text))).collect();
        let target = PathBuf::from(text);
        for directory in self.possible_paths(&directories, &target) {
            let directory = PathPattern::file(normalize(&directory));
            self.shell_reads.push(directory.clone());
            self.file_accesses.push((FileAccess::Read, directory));
        }
        DirectoriesAfter { success, failure: directories }
    }

    /// Analyzes a command that the shell or another command runs, up to the nesting limit.
    fn analyze_nested(&mut self, words: &[Word], directories: &Directories, added: AddedWords) {
        self.depth += 1;
        if self.depth > MAX_COMMAND_NESTING {
            self.unclear("too many commands run each other");
        } else {
            self.analyze_words(words, directories, added);
        }
        self.depth -= 1;
    }

    /// Resolves the program of a command and its wrappers, then analyzes the program, the inner command or the scripts.
    fn analyze_words(&mut self, words: &[Word], directories: &Directories, added: AddedWords) {
        let Some(program) = words.first() else {
            if added.has_some {
                self.unclear("it runs a program whose name comes from its input");
            }
            return;
        };
        if program.is_incomplete || program.glob_at.is_some() {
            return self.unclear("the name of a program is not literal");
        }
        let mut named = words.to_vec();
        let name = self.resolve_name(&program.text, directories);
        let origin = self.origin(&name);
        let known_as = origin.known_as(&name).to_owned();
        if let Some(first) = named.first_mut() {
            first.text = name;
        }
        let mut facts = CommandFacts::default();
        if origin == Origin::Elsewhere {
            facts.mark_unseen("is a program in an unusual directory");
        }
        let unwrapped = wrappers::unwrap(&known_as, &named, &mut facts);
        if !matches!(unwrapped, Unwrapped::Itself) {
            let of_options = std::mem::take(&mut facts.scripts);
            self.analyze_scripts(&of_options, false, directories);
        }
        match unwrapped {
            Unwrapped::Itself => self.analyze_program(&known_as, &named, facts, directories, added),
            Unwrapped::Unknown => self.add_command(&named, facts, directories),
            Unwrapped::Command { words: inner, has_more, is_own_command } => {
                if is_own_command || origin == Origin::Elsewhere {
                    self.add_command(&named, facts, directories);
                }
                if known_as == "xargs" {
                    return self.analyze_xargs(&named, &inner, directories, added);
                }
                let has_some = added.has_some || has_more;
                let from_searched_files = added.from_searched_files && !has_more;
                self.analyze_nested(
                    &inner,
                    directories,
                    AddedWords { has_some, from_searched_files, ..added },
                );
            }
            Unwrapped::Scripts { .. } if added.has_some => {
                self.unclear("a script gets arguments that are not known");
            }
            Unwrapped::Scripts { scripts, is_bash, is_own_command } => {
                if is_own_command || origin == Origin::Elsewhere {
                    self.add_command(&named, facts, directories);
                }
                // Paths of a command that `ssh` runs are those of the other machine.
                let was_other = self.is_other_machine;
                self.is_other_machine |= known_as == "ssh";
                self.analyze_scripts(&scripts, is_bash, directories);
                self.is_other_machine = was_other;
            }
        }
    }

    /// Analyzes scripts that a command gives to a shell.
    fn analyze_scripts(&mut self, scripts: &[Word], is_bash: bool, directories: &Directories) {
        for script in scripts {
            if script.is_incomplete || script.glob_at.is_some() {
                self.unclear("a script is not literal");
                continue;
            }
            if !is_bash && !wrappers::is_portable(&script.text) {
                self.unclear("a script may mean something else to another shell");
            }
            self.analyze_script(&script.text, directories.clone());
        }
    }

    /// Analyzes the command that `xargs` runs with added words. `words` is the `xargs` command, `inner` the command in it.
    fn analyze_xargs(
        &mut self,
        words: &[Word],
        inner: &[Word],
        directories: &Directories,
        added: AddedWords,
    ) {
        let from = words.len() - inner.len();
        let options: Vec<&str> = words.iter().take(from).map(|word| word.text.as_str()).collect();
        let is_split_safely = options.contains(&"-0") || options.contains(&"--null");
        let replaced = wrappers::replaced_by_xargs(words);
        let is_replaced = |program: &Word| replaced.iter().any(|it| program.text.contains(it));
        if inner.first().is_some_and(is_replaced) {
            return self.unclear("it runs a program whose name comes from its input");
        }
        let from_searched_files =
            added.from_searched_files && is_split_safely && replaced.is_empty();
        self.analyze_nested(
            inner,
            directories,
            AddedWords { has_some: true, from_searched_files, are_paths: false },
        );
    }

    /// Returns the origin of a program, according to its name.
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

    /// Returns the name of a program for rules. A program in the workspace is named by its path from the root.
    fn resolve_name(&self, word: &str, directories: &Directories) -> String {
        let is_relative = word.contains('/') && !word.starts_with('/');
        let [directory] = directories.as_slice() else {
            // In one of several directories it may be one of several programs.
            return if is_relative {
                format!("./?/{word}")
            } else {
                program_name(word).into_owned()
            };
        };
        match directory.strip_prefix(self.workspace) {
            Ok(inside) if is_relative && !inside.as_os_str().is_empty() => {
                program_name(&inside.join(word).to_string_lossy()).into_owned()
            }
            Err(_) if is_relative => {
                program_name(&directory.join(word).to_string_lossy()).into_owned()
            }
            _ => program_name(word).into_owned(),
        }
    }

    /// Analyzes a command that is no wrapper, with all that the tables know about its program.
    fn analyze_program(
        &mut self,
        known_as: &str,
        words: &[Word],
        mut facts: CommandFacts,
        directories: &Directories,
        added: AddedWords,
    ) {
        let is_elsewhere = words.first().is_some_and(|word| word.text != known_as);
        // A program of the workspace is unknown to the tables: the repository decides what it does.
        if !known_as.contains('/') {
            programs::note_facts(known_as, words, &mut facts);
        }
        if is_elsewhere {
            facts.only_reads = OnlyReads::No;
        }
        if let Some(why) = facts.unclear.take() {
            self.unclear(why);
        }
        for (at, word) in words.iter().enumerate() {
            if word.glob_at.is_some() && matches_hidden_files(&word.text) {
                facts.add_risk(at, "could be a hidden file");
            }
        }
        if added.has_some {
            let row = programs::table::find(known_as);
            let is_harmless = row.is_some_and(programs::table::Program::takes_any_words);
            if !is_harmless && !matches!(known_as, "rm" | "rmdir" | "mkdir" | "touch") {
                facts.add_risk(words.len(), "gets arguments that are not known");
                if !added.are_paths {
                    facts.mark_unseen("gets arguments that are not known");
                }
            }
            if !(is_harmless && added.from_searched_files) {
                facts.only_reads = OnlyReads::No;
            }
        }
        let inner_commands = std::mem::take(&mut facts.inner_commands);
        let scripts = std::mem::take(&mut facts.scripts);
        self.add_command(words, facts, directories);
        for inner in inner_commands {
            self.analyze_nested(
                &inner.words,
                directories,
                AddedWords {
                    has_some: inner.has_unknown_words,
                    from_searched_files: false,
                    are_paths: inner.unknown_words_are_paths,
                },
            );
        }
        self.analyze_scripts(&scripts, false, directories);
    }

    /// Adds a command to the result, with its words up to the first incomplete one.
    fn add_command(&mut self, words: &[Word], facts: CommandFacts, directories: &Directories) {
        let literal = words.iter().take_while(|word| !word.is_incomplete);
        let mut command = SimpleCommand::new(literal.map(|word| word.text.as_str()));
        command.only_reads = if facts.risks.is_empty() { facts.only_reads } else { OnlyReads::No };
        // A command that does more was allowed by a person, and may read all that it needs.
        if command.only_reads != OnlyReads::No {
            for directory in directories {
                self.add_searches(&facts.searches, directory);
            }
        }
        command.risks = facts.risks;
        command.unseen = facts.unseen;
        command.bare = facts.bare;
        command.acts_as = facts.acts_as.into_iter().map(Into::into).collect();
        for (access, pattern) in facts.file_accesses {
            if pattern.path.to_str().is_some_and(is_device) {
                continue;
            }
            for path in self.possible_paths(directories, &pattern.path) {
                let pattern = PathPattern { path, reach: pattern.reach };
                let known = if access == FileAccess::Read {
                    &mut command.reads
                } else {
                    &mut command.changes
                };
                if !known.contains(&pattern) {
                    known.push(pattern.clone());
                }
                if !self
                    .file_accesses
                    .iter()
                    .any(|(known, path)| *known == access && *path == pattern)
                {
                    self.file_accesses.push((access, pattern));
                }
            }
        }
        for (link, target) in facts.links {
            let links = directories.iter().map(|directory| normalize(&directory.join(&link)));
            self.links.extend(links.map(|link| (link, target.clone())));
        }
        self.commands.push(command);
    }
}

/// The location of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// In a directory of the system's programs: the name has no slash.
    System,
    /// In the workspace.
    Workspace,
    /// Anywhere else, or reached by a path with `..`.
    Elsewhere,
}

impl Origin {
    /// Returns the name by which the tables know the program. A program elsewhere counts as the program of its file name.
    fn known_as(self, name: &str) -> &str {
        match self {
            Self::Elsewhere => name.rsplit('/').next().unwrap_or(name),
            Self::System | Self::Workspace => name,
        }
    }
}

/// Words that another program adds to a command while it runs, such as `xargs`.
#[derive(Debug, Clone, Copy)]
struct AddedWords {
    /// True if words may be added.
    has_some: bool,
    /// True if the added words, or the input of the command, are names of files below the searched directories.
    from_searched_files: bool,
    /// True if the added words are paths that cannot be taken for options.
    are_paths: bool,
}

/// Returns whether a command prints file names, each ended by a NUL byte.
fn prints_nul_separated_names(command: &Command) -> bool {
    let CommandBody::Simple(words) = &command.body else { return false };
    let has = |option: &str| words.iter().any(|word| word.text == option);
    match words.first().map(|program| program.text.as_str()) {
        Some("find") => has("-print0"),
        Some("git") => words.get(1).is_some_and(|word| word.text == "ls-files") && has("-z"),
        Some("rg") => has("--files") && has("-0"),
        _ => false,
    }
}

/// Joins a path to a directory. `..` is kept, because behind a link only the file system knows its meaning.
fn join_path(directory: &Path, path: &Path) -> PathBuf {
    effect_path(directory.join(path))
}

/// Returns a path in the quoted form that effects use.
fn effect_path(path: PathBuf) -> PathBuf {
    match quote::path(&path) {
        std::borrow::Cow::Borrowed(_) => path,
        std::borrow::Cow::Owned(quoted) => PathBuf::from(quoted),
    }
}

/// Returns whether a glob pattern can match a hidden file such as `.env`. A bare star cannot.
fn matches_hidden_files(pattern: &str) -> bool {
    let is_hidden = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
    pattern.split('/').any(is_hidden)
}

/// Returns whether a path is a device or descriptor that holds no stored data, such as `/dev/null`.
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
