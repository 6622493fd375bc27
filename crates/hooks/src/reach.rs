//! The files of a workspace that a hook's command can reach: the scripts that it runs, those that they run or source, the modules that
//! they load.
//!
//! Scripts of the shell are followed through all that they run and source; those of Python and Node are accepted if they stand alone.
//!
//! A gate is worth what its files are worth, so all of them are pinned. Where a command or a script could get its orders from a file that cannot be
//! told beforehand, that is an error with the reason, and the hook is not accepted. Data that a hook reads is not meant: a hook may look at
//! every file.

mod modules;
mod programs;
mod shell;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::{Files, normalize, quote};

use self::programs::Program;
use self::shell::{Command, Values, Word};
use super::pins::inside;
use super::{HookCommand, HookDefinition, Pin};

/// The most files that one hook may reach.
const MOST_FILES: usize = 64;
/// Directories whose programs are the system's.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store"];

/// The form of a command that can always be pinned, for messages.
pub const PINNABLE: &str = "a command can be pinned that is a plain path to a script and arguments, as in [\"./hooks/gate.sh\", \"--strict\"]";

/// Returns the files of the workspace that a hook can get its orders from, and the places at which such a file could appear.
///
/// ```
/// use windlass_core::{Author, Host as _};
/// use windlass_hooks::{HookFile, HookShape, reached_files};
/// use windlass_host::LocalHost;
/// # let folder = tempfile::tempdir()?;
/// # let workspace = folder.path().canonicalize()?;
/// # std::fs::write(workspace.join("gate.sh"), "exit 0\n")?;
/// let text = r#"{"hooks": [{"event": "pre_tool", "command": "./gate.sh"}, {"event": "pre_tool", "command": "make gate"}]}"#;
/// let (author, shape) = (Author::Workspace, HookShape::Windlass);
/// let file = HookFile { path: "hooks.json".into(), text: text.into(), author, shape };
/// let host = LocalHost::open(&workspace)?;
/// let hooks = file.read().0;
/// assert_eq!(reached_files(&hooks[0], host.files())?[0].path, std::path::Path::new("gate.sh"));
/// assert!(reached_files(&hooks[1], host.files()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reached_files(hook: &HookDefinition, files: &dyn Files) -> Result<Vec<Pin>, String> {
    let mut walk =
        Walk { files, workspace: files.workspace().to_owned(), reached: BTreeMap::new() };
    for (variable, _) in &hook.environment {
        refuse_variable(variable)?;
    }
    let mut place = Place::in_workspace(&walk.workspace);
    match &hook.command {
        HookCommand::Words(words) => {
            let word = |text: &String| Word { written: text.clone(), value: Some(text.clone()) };
            walk.command(&words.iter().map(word).collect(), &mut place)?;
        }
        HookCommand::Shell(text) => walk.shell(text, &mut place)?,
    }
    Ok(walk.reached.into_values().collect())
}

/// Where commands are while they run, and what is known to them.
#[derive(Clone)]
struct Place {
    /// Directories in which the command may be.
    directories: Vec<PathBuf>,
    /// Whether it may be anywhere else.
    is_lost: bool,
    values: Values,
}

impl Place {
    fn in_workspace(workspace: &Path) -> Self {
        let text = workspace.to_string_lossy().into_owned();
        let names = ["CLAUDE_PROJECT_DIR", "PWD", "pwd", "pwd -P"];
        let values = names.map(|name| (name.to_owned(), Some(text.clone())));
        Self { directories: vec![workspace.to_owned()], is_lost: false, values: values.into() }
    }

    /// The same for a script: it knows its own path.
    fn of_script(&self, script: &Path) -> Self {
        let mut place = self.clone();
        place.values.retain(|_, value| value.is_none());
        let workspace = self.values.get("CLAUDE_PROJECT_DIR").cloned();
        place.values.insert("CLAUDE_PROJECT_DIR".to_owned(), workspace.flatten());
        if let ([directory], false) = (&self.directories[..], self.is_lost) {
            let text = Some(directory.to_string_lossy().into_owned());
            for name in ["PWD", "pwd", "pwd -P"] {
                place.values.insert(name.to_owned(), text.clone());
            }
        }
        place.set_own("0", script);
        for name in ["BASH_SOURCE", "BASH_SOURCE[0]"] {
            place.set_own(name, script);
        }
        place
    }

    fn set_own(&mut self, name: &str, script: &Path) {
        let text = |path: &Path| Some(path.to_string_lossy().into_owned());
        let directory = script.parent().unwrap_or(script);
        self.values.insert(name.to_owned(), text(script));
        let variable = if name == "0" { "$0".to_owned() } else { format!("${{{name}}}") };
        for spelled in [variable, format!("${name}")] {
            let plain = format!("dirname {spelled}");
            let long = format!("dirname -- {spelled}");
            for inner in [&plain, &long] {
                self.values.insert(inner.clone(), text(directory));
                for after in ["pwd", "pwd -P"] {
                    for before in ["cd", "cd --"] {
                        for quiet in ["", " >/dev/null", " > /dev/null", " >/dev/null 2>&1"] {
                            let idiom = format!("{before} $({inner}){quiet} && {after}");
                            self.values.insert(idiom, text(directory));
                        }
                    }
                }
            }
        }
        self.values.insert(format!("{name}%/*"), text(directory));
    }
}

struct Walk<'f> {
    files: &'f dyn Files,
    workspace: PathBuf,
    reached: BTreeMap<PathBuf, Pin>,
}

impl Walk<'_> {
    fn shell(&mut self, text: &str, place: &mut Place) -> Result<(), String> {
        for command in shell::commands(text, &mut place.values)? {
            self.command(&command, place)?;
        }
        Ok(())
    }

    /// One command, whatever runs it.
    fn command(&mut self, command: &Command, place: &mut Place) -> Result<(), String> {
        let assignments = command.iter().take_while(|word| shell::assigned(word).is_some()).count();
        let (assigned, words) = command.split_at(assignments);
        for word in assigned {
            refuse_variable(shell::assigned(word).unwrap_or_default())?;
        }
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let Some(name) = &program.value else {
            return Err(format!("`{}` is known only when it runs", program.written));
        };
        if place.values.contains_key(&format!("{name}()")) {
            return Ok(());
        }
        if !name.contains('/') {
            return self.system(name, arguments, place);
        }
        let path = Path::new(name);
        if path.is_absolute() && !path.starts_with(&self.workspace) {
            if !SYSTEM.iter().any(|place| path.starts_with(place)) {
                return Err(format!(
                    "`{name}` is neither in the workspace nor a program of the system"
                ));
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return self.system(&name, arguments, place);
        }
        self.each_place(name, place, |walk, script, place| walk.script(script, None, place))
    }

    /// A program of the system with its arguments.
    fn system(&mut self, name: &str, arguments: &[Word], place: &mut Place) -> Result<(), String> {
        match Program::named(name) {
            Program::HookRunner => {
                Err(format!("`{name}` runs what files of the workspace say that are not named"))
            }
            Program::Unknown => {
                Err(format!("it is not known from which files `{name}` takes its orders"))
            }
            Program::OtherInterpreter => Err(format!("scripts of `{name}` are not looked through")),
            Program::Plain => self.plain(name, arguments, place),
            Program::Shell => self.run_shell(name, arguments, place),
            Program::Python => self.run_python(name, arguments, place),
            Program::Node => match arguments.first().and_then(|word| word.value.as_deref()) {
                Some(script) if !script.starts_with('-') => {
                    self.each_place(script, place, |walk, path, place| {
                        walk.script(path, Some(Program::Node), place)
                    })
                }
                _ => Err("`node` is followed only with a script as its first argument".to_owned()),
            },
            Program::Awk => refuse_words(name, arguments, |text| {
                text.starts_with("-f")
                    || text.starts_with("--file")
                    || text.contains("system")
                    || text.contains('|')
                    || text.contains("getline")
                    || text.contains('@')
            }),
            Program::Find => refuse_words(name, arguments, |text| {
                ["-exec", "-ok"].iter().any(|option| text.starts_with(option))
            }),
            Program::Wrapper => self.wrapped(name, arguments, place),
        }
    }

    fn plain(&mut self, name: &str, arguments: &[Word], place: &mut Place) -> Result<(), String> {
        if let Some(word) =
            arguments.iter().find(|word| programs::runs_subscript(name, &word.written))
        {
            return Err(format!("`{name}` runs what is in `{}`", word.written));
        }
        match name {
            "." | "source" => {
                let target = known(name, arguments.first())?;
                self.each_place(target, place, Self::sourced)
            }
            "cd" | "pushd" | "popd" => {
                let target =
                    arguments.iter().find(|word| word.written != "--" && word.written != "-P");
                match target.and_then(|word| word.value.as_deref()) {
                    Some(target) if name != "popd" && target != "-" => {
                        let more: Vec<PathBuf> = place
                            .directories
                            .iter()
                            .map(|from| normalize(&from.join(target)))
                            .collect();
                        place.directories.extend(more);
                        place.directories.sort();
                        place.directories.dedup();
                    }
                    _ => place.is_lost = true,
                }
                Ok(())
            }
            "export" | "local" | "declare" | "readonly" | "typeset" | "read" | "mapfile"
            | "readarray" | "printf" | "getopts" | "unset" => {
                for word in arguments {
                    let text = word.value.as_deref().unwrap_or(&word.written);
                    refuse_variable(shell::assigned(word).unwrap_or(text))?;
                }
                Ok(())
            }
            _ => {
                let values = arguments.iter().map(|word| word.value.as_deref());
                match programs::order(name, values) {
                    Some(order) => Err(format!("`{name} {order}` can run what is not named")),
                    None => Ok(()),
                }
            }
        }
    }

    fn run_shell(
        &mut self,
        name: &str,
        arguments: &[Word],
        place: &mut Place,
    ) -> Result<(), String> {
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let value = known(name, Some(word))?;
            match value.strip_prefix('-') {
                Some("c") => {
                    let text = known(name, arguments.next())?.to_owned();
                    place.values.remove("0");
                    return self.shell(&text, place);
                }
                Some("o") => drop(arguments.next()),
                Some(flags)
                    if !flags.is_empty() && flags.chars().all(|flag| "euxfnvE".contains(flag)) => {}
                Some(_) => return Err(format!("`{name} {value}` is not followed")),
                None => {
                    let shell = Some(Program::Shell);
                    return self.each_place(value, place, |walk, path, place| {
                        walk.script(path, shell, place)
                    });
                }
            }
        }
        Err(format!("`{name}` without a script runs what it is told on its input"))
    }

    /// Python looks for modules first in the directory of its script, also for those that its own modules load, and takes compiled copies from
    /// beside them: only in isolated mode is the script all that it gets from the workspace.
    fn run_python(
        &mut self,
        name: &str,
        arguments: &[Word],
        place: &mut Place,
    ) -> Result<(), String> {
        let mut is_isolated = false;
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let value = known(name, Some(word))?;
            match value {
                "-I" => is_isolated = true,
                "-u" | "-B" | "-O" => {}
                "-c" if is_isolated => {
                    return modules::refuse_python(known(name, arguments.next())?);
                }
                _ if value.starts_with('-') && is_isolated => {
                    return Err(format!("`{name} {value}` is not followed"));
                }
                _ if !is_isolated => return Err(not_isolated(name)),
                _ => {
                    let python = Some(Program::Python);
                    return self.each_place(value, place, |walk, path, place| {
                        walk.script(path, python, place)
                    });
                }
            }
        }
        Err(format!("`{name}` without a script runs what it is told on its input"))
    }

    /// Commands that are arguments of others.
    fn wrapped(&mut self, name: &str, arguments: &[Word], place: &mut Place) -> Result<(), String> {
        let skipped = match name {
            "command"
                if arguments.first().is_some_and(|word| ["-v", "-V"].contains(&&*word.written)) =>
            {
                return Ok(());
            }
            "trap" | "eval" => {
                let Some(word) = arguments.first() else { return Ok(()) };
                let text = known(name, Some(word))?.to_owned();
                return if name == "eval" && arguments.len() > 1 {
                    Err("`eval` of several words is not followed".to_owned())
                } else if text == "-" {
                    Ok(())
                } else {
                    self.shell(&text, place)
                };
            }
            "timeout" => 1,
            _ => 0,
        };
        let rest = arguments.get(skipped..).unwrap_or_default();
        if let Some(word) = rest.first().filter(|word| word.written.starts_with('-')) {
            return Err(format!("`{name} {}` is not followed", word.written));
        }
        self.command(&rest.to_vec(), place)
    }

    /// Follows a path from all directories in which the command may be.
    fn each_place(
        &mut self,
        written: &str,
        place: &mut Place,
        follow: impl Fn(&mut Self, &Path, &mut Place) -> Result<(), String>,
    ) -> Result<(), String> {
        if Path::new(written).is_relative() && place.is_lost {
            return Err("it changes to a directory that is known only when it runs".to_owned());
        }
        for from in place.directories.clone() {
            let path = normalize(&from.join(written));
            if inside(&path.to_string_lossy(), &self.workspace).is_none() {
                return Err(format!("`{written}` is not in the workspace"));
            }
            follow(self, &path, place)?;
        }
        Ok(())
    }

    /// Pins a file; its content if it is there and was not followed yet.
    fn reach(&mut self, path: &Path) -> Result<Option<String>, String> {
        let Some(relative) = inside(&path.to_string_lossy(), &self.workspace) else {
            return Err(format!("{} is not in the workspace", quote::path(path)));
        };
        if self.reached.contains_key(&relative) {
            return Ok(None);
        }
        if self.reached.values().filter(|pin| pin.hash.is_some()).count() >= MOST_FILES {
            return Err(format!("it reaches more than {MOST_FILES} files"));
        }
        let (pin, bytes) = Pin::take(self.files, &relative)?;
        let is_there = pin.hash.is_some();
        self.reached.insert(relative.clone(), pin);
        if !is_there {
            return Ok(None);
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| format!("{} is not a script", quote::path(&relative)))
    }

    /// A script that is run, by an interpreter that was named or by its own.
    fn script(
        &mut self,
        path: &Path,
        by: Option<Program>,
        place: &mut Place,
    ) -> Result<(), String> {
        let Some(text) = self.reach(path)? else { return Ok(()) };
        let by = match by {
            Some(by) => by,
            None => interpreter(&text)?,
        };
        let followed = match by {
            Program::Shell => self.shell(&text, &mut place.of_script(path)),
            Program::Python => modules::refuse_python(&text),
            Program::Node => modules::refuse_node(&text),
            _ => Err("it is run by a program whose scripts are not looked through".to_owned()),
        };
        followed.map_err(|why| format!("{}: {why}", shown(path, &self.workspace)))
    }

    /// A script that another one sources: it goes on in the same place.
    fn sourced(&mut self, path: &Path, place: &mut Place) -> Result<(), String> {
        let Some(text) = self.reach(path)? else { return Ok(()) };
        for name in ["BASH_SOURCE", "BASH_SOURCE[0]"] {
            place.set_own(name, path);
        }
        self.shell(&text, place).map_err(|why| format!("{}: {why}", shown(path, &self.workspace)))
    }
}

fn not_isolated(name: &str) -> String {
    format!("`{name}` loads modules from the directory it is in unless its first argument is `-I`")
}

/// The interpreter that the first line of a script names; a shell if it names none.
fn interpreter(text: &str) -> Result<Program, String> {
    let Some(line) = text.strip_prefix("#!").and_then(|rest| rest.lines().next()) else {
        return Ok(Program::Shell);
    };
    let mut words = line.split_whitespace();
    let path = words.next().unwrap_or_default();
    let mut name = path.rsplit('/').next().unwrap_or_default();
    if !SYSTEM.iter().any(|place| Path::new(path).starts_with(place)) {
        return Err(format!("`{path}` is not a program of the system"));
    }
    if name == "env" {
        name =
            words.next().filter(|word| *word != "-S").or_else(|| words.next()).unwrap_or_default();
    }
    match Program::named(name) {
        Program::Python if words.next() != Some("-I") => Err(not_isolated(name)),
        Program::Shell | Program::Python | Program::Node => Ok(Program::named(name)),
        _ => Err(format!("scripts of `{name}` are not looked through")),
    }
}

fn known<'w>(program: &str, word: Option<&'w Word>) -> Result<&'w str, String> {
    let Some(word) = word else { return Err(format!("`{program}` lacks an argument")) };
    let unknown = || format!("what `{program}` runs is known only then: `{}`", word.written);
    word.value.as_deref().ok_or_else(unknown)
}

fn refuse_words(
    name: &str,
    arguments: &[Word],
    gives: impl Fn(&str) -> bool,
) -> Result<(), String> {
    for word in arguments {
        let text = word.value.as_deref().unwrap_or(&word.written);
        if gives(text) {
            return Err(format!("`{name}` can run what is not named: `{}`", word.written));
        }
    }
    Ok(())
}

fn refuse_variable(name: &str) -> Result<(), String> {
    if programs::is_dangerous(name) {
        return Err(format!("the variable `{name}` changes what programs run"));
    }
    Ok(())
}

fn shown(path: &Path, workspace: &Path) -> String {
    quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned()
}

#[cfg(test)]
mod tests;
