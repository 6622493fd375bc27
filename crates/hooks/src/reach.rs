//! Finds the files of a workspace that a hook's command can run: its scripts, the scripts that these run or source, and the modules
//! that they load.
//!
//! Shell scripts are followed through everything that they run and source; Python and Node scripts are accepted if they load
//! nothing from the workspace.
//!
//! A gate is only as trustworthy as its files, so all of them are pinned. If a command or a script could run a file that is not
//! known beforehand, the hook is refused with a reason. Files that a hook only reads as data do not matter: a hook may read every
//! file.

mod modules;
mod programs;
mod shell;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::{Files, normalize, quote};

use self::programs::ProgramKind;
use self::shell::{Command, KnownValues, ShellSyntaxError, Word};
use super::pins::{PinError, workspace_relative};
use super::{HookCommand, HookDefinition, Pin};

/// Reason why a hook cannot be pinned: it could run a file that is not known beforehand.
///
/// ```
/// use windlass_core::{Author, Host as _};
/// use windlass_hooks::{HookFile, HookShape, reached_files};
/// use windlass_host::LocalHost;
/// # let folder = tempfile::tempdir()?;
/// let text = r#"{"hooks": [{"event": "pre_tool", "command": "make gate"}]}"#.to_owned();
/// let (author, shape) = (Author::Workspace, HookShape::Windlass);
/// let file = HookFile { path: "hooks.json".into(), text, author, shape };
/// let host = LocalHost::open(folder.path())?;
/// let error = reached_files(&file.read().0[0], host.files()).unwrap_err();
/// assert_eq!(error.to_string(), "`make` runs what files of the workspace say that are not named");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ReachError {
    /// The reason, which names the command or the file.
    why: String,
}

impl ReachError {
    /// Creates an error with this reason.
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    /// Puts the path of the script in which the error is before its reason.
    fn in_file(self, path: &Path, workspace: &Path) -> Self {
        Self::new(format!("{}: {}", path_text(path, workspace), self.why))
    }
}

impl From<PinError> for ReachError {
    fn from(error: PinError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<ShellSyntaxError> for ReachError {
    fn from(error: ShellSyntaxError) -> Self {
        Self::new(error.to_string())
    }
}

/// Maximum files that one hook may reach.
const MAX_REACHED_FILES: usize = 64;
/// Directories of programs that belong to the system.
const SYSTEM_DIRECTORIES: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store"];

/// Description, for messages, of commands that can always be pinned.
pub const PINNABLE: &str = "a command can be pinned that is a plain path to a script and arguments, as in [\"./hooks/gate.sh\", \"--strict\"]";

/// Returns pins of the workspace files that a hook can run, and of the missing files that it would run if they appeared.
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
pub fn reached_files(hook: &HookDefinition, files: &dyn Files) -> Result<Vec<Pin>, ReachError> {
    let mut walk =
        FileFollower { files, workspace: files.workspace().to_owned(), reached: BTreeMap::new() };
    for (variable, _) in &hook.environment {
        refuse_variable(variable)?;
    }
    let mut context = ShellContext::in_workspace(&walk.workspace);
    match &hook.command {
        HookCommand::Words(words) => {
            let word = |text: &String| Word { written: text.clone(), value: Some(text.clone()) };
            walk.follow_command(&words.iter().map(word).collect(), &mut context)?;
        }
        HookCommand::Shell(text) => walk.follow_shell_text(text, &mut context)?,
    }
    Ok(walk.reached.into_values().collect())
}

/// Known state of a shell at a command: its directory and its variables.
#[derive(Clone)]
struct ShellContext {
    /// Directories that may be the current one.
    directories: Vec<PathBuf>,
    /// True if the current directory may be any other, too.
    may_be_elsewhere: bool,
    values: KnownValues,
}

impl ShellContext {
    /// Returns the context in which a hook's command starts.
    fn in_workspace(workspace: &Path) -> Self {
        let text = workspace.to_string_lossy().into_owned();
        let names = ["CLAUDE_PROJECT_DIR", "PWD", "pwd", "pwd -P"];
        let values = names.map(|name| (name.to_owned(), Some(text.clone())));
        Self {
            directories: vec![workspace.to_owned()],
            may_be_elsewhere: false,
            values: values.into(),
        }
    }

    /// Returns the context of a script that is run from here. The script knows its own path.
    fn of_script(&self, script: &Path) -> Self {
        let mut context = self.clone();
        context.values.retain(|_, value| value.is_none());
        let workspace = self.values.get("CLAUDE_PROJECT_DIR").cloned();
        context.values.insert("CLAUDE_PROJECT_DIR".to_owned(), workspace.flatten());
        if let ([directory], false) = (&self.directories[..], self.may_be_elsewhere) {
            let text = Some(directory.to_string_lossy().into_owned());
            for name in ["PWD", "pwd", "pwd -P"] {
                context.values.insert(name.to_owned(), text.clone());
            }
        }
        context.set_script_path("0", script);
        for name in ["BASH_SOURCE", "BASH_SOURCE[0]"] {
            context.set_script_path(name, script);
        }
        context
    }

    /// Adds the values of a script's own path and directory, in all usual spellings such as `$(dirname "$0")`.
    fn set_script_path(&mut self, name: &str, script: &Path) {
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

/// Follows commands and scripts, and collects pins of the files that they can run.
struct FileFollower<'f> {
    files: &'f dyn Files,
    workspace: PathBuf,
    reached: BTreeMap<PathBuf, Pin>,
}

impl FileFollower<'_> {
    /// Follows all commands of a shell text.
    fn follow_shell_text(
        &mut self,
        text: &str,
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        for command in shell::split_commands(text, &mut context.values)? {
            self.follow_command(&command, context)?;
        }
        Ok(())
    }

    /// Follows one command.
    fn follow_command(
        &mut self,
        command: &Command,
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let assignments =
            command.iter().take_while(|word| shell::assigned_name(word).is_some()).count();
        let (assigned, words) = command.split_at(assignments);
        for word in assigned {
            refuse_variable(shell::assigned_name(word).unwrap_or_default())?;
        }
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let Some(name) = &program.value else {
            return Err(ReachError::new(format!(
                "`{}` is known only when it runs",
                program.written
            )));
        };
        if context.values.contains_key(&format!("{name}()")) {
            return Ok(());
        }
        if !name.contains('/') {
            return self.follow_system_program(name, arguments, context);
        }
        let path = Path::new(name);
        if path.is_absolute() && !path.starts_with(&self.workspace) {
            if !SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system)) {
                return Err(ReachError::new(format!(
                    "`{name}` is neither in the workspace nor a program of the system"
                )));
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return self.follow_system_program(&name, arguments, context);
        }
        self.follow_path(name, context, |walk, script, context| {
            walk.follow_script(script, None, context)
        })
    }

    /// Follows a program of the system with its arguments.
    fn follow_system_program(
        &mut self,
        name: &str,
        arguments: &[Word],
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        match ProgramKind::named(name) {
            ProgramKind::TaskRunner => Err(ReachError::new(format!(
                "`{name}` runs what files of the workspace say that are not named"
            ))),
            ProgramKind::Unknown => Err(ReachError::new(format!(
                "it is not known from which files `{name}` takes its orders"
            ))),
            ProgramKind::OtherInterpreter => {
                Err(ReachError::new(format!("scripts of `{name}` are not looked through")))
            }
            ProgramKind::Plain => self.follow_plain_program(name, arguments, context),
            ProgramKind::Shell => self.follow_shell_program(name, arguments, context),
            ProgramKind::Python => self.follow_python(name, arguments, context),
            ProgramKind::Node => match arguments.first().and_then(|word| word.value.as_deref()) {
                Some(script) if !script.starts_with('-') => {
                    self.follow_path(script, context, |walk, path, context| {
                        walk.follow_script(path, Some(ProgramKind::Node), context)
                    })
                }
                _ => Err(ReachError::new(
                    "`node` is followed only with a script as its first argument",
                )),
            },
            ProgramKind::Awk => refuse_words(name, arguments, |text| {
                text.starts_with("-f")
                    || text.starts_with("--file")
                    || text.contains("system")
                    || text.contains('|')
                    || text.contains("getline")
                    || text.contains('@')
            }),
            ProgramKind::Find => refuse_words(name, arguments, |text| {
                ["-exec", "-ok"].iter().any(|option| text.starts_with(option))
            }),
            ProgramKind::Wrapper => self.follow_wrapped_command(name, arguments, context),
        }
    }

    /// Follows a program that only does what its arguments say, or a shell builtin.
    fn follow_plain_program(
        &mut self,
        name: &str,
        arguments: &[Word],
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        if let Some(word) =
            arguments.iter().find(|word| programs::runs_subscript(name, &word.written))
        {
            return Err(ReachError::new(format!("`{name}` runs what is in `{}`", word.written)));
        }
        match name {
            "." | "source" => {
                let target = known_value(name, arguments.first())?;
                self.follow_path(target, context, Self::follow_sourced_script)
            }
            "cd" | "pushd" | "popd" => {
                let target =
                    arguments.iter().find(|word| word.written != "--" && word.written != "-P");
                match target.and_then(|word| word.value.as_deref()) {
                    Some(target) if name != "popd" && target != "-" => {
                        let more: Vec<PathBuf> = context
                            .directories
                            .iter()
                            .map(|from| normalize(&from.join(target)))
                            .collect();
                        context.directories.extend(more);
                        context.directories.sort();
                        context.directories.dedup();
                    }
                    _ => context.may_be_elsewhere = true,
                }
                Ok(())
            }
            "export" | "local" | "declare" | "readonly" | "typeset" | "read" | "mapfile"
            | "readarray" | "printf" | "getopts" | "unset" => {
                for word in arguments {
                    let text = word.value.as_deref().unwrap_or(&word.written);
                    refuse_variable(shell::assigned_name(word).unwrap_or(text))?;
                }
                Ok(())
            }
            _ => {
                let values = arguments.iter().map(|word| word.value.as_deref());
                match programs::code_argument(name, values) {
                    Some(order) => {
                        Err(ReachError::new(format!("`{name} {order}` can run what is not named")))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Follows a call of a shell with a script or with `-c`.
    fn follow_shell_program(
        &mut self,
        name: &str,
        arguments: &[Word],
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let value = known_value(name, Some(word))?;
            match value.strip_prefix('-') {
                Some("c") => {
                    let text = known_value(name, arguments.next())?.to_owned();
                    context.values.remove("0");
                    return self.follow_shell_text(&text, context);
                }
                Some("o") => drop(arguments.next()),
                Some(flags)
                    if !flags.is_empty() && flags.chars().all(|flag| "euxfnvE".contains(flag)) => {}
                Some(_) => {
                    return Err(ReachError::new(format!("`{name} {value}` is not followed")));
                }
                None => {
                    let shell = Some(ProgramKind::Shell);
                    return self.follow_path(value, context, |walk, path, context| {
                        walk.follow_script(path, shell, context)
                    });
                }
            }
        }
        Err(ReachError::new(format!("`{name}` without a script runs what it is told on its input")))
    }

    /// Follows Python. It searches modules first in the directory of its script, also for imports of its own modules, and uses
    /// compiled copies from `__pycache__` there. Only in isolated mode (`-I`) does it load nothing but the script from the
    /// workspace.
    fn follow_python(
        &mut self,
        name: &str,
        arguments: &[Word],
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let mut is_isolated = false;
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let value = known_value(name, Some(word))?;
            match value {
                "-I" => is_isolated = true,
                "-u" | "-B" | "-O" => {}
                "-c" if is_isolated => {
                    return modules::refuse_python(known_value(name, arguments.next())?);
                }
                _ if value.starts_with('-') && is_isolated => {
                    return Err(ReachError::new(format!("`{name} {value}` is not followed")));
                }
                _ if !is_isolated => return Err(not_isolated(name)),
                _ => {
                    let python = Some(ProgramKind::Python);
                    return self.follow_path(value, context, |walk, path, context| {
                        walk.follow_script(path, python, context)
                    });
                }
            }
        }
        Err(ReachError::new(format!("`{name}` without a script runs what it is told on its input")))
    }

    /// Follows a command that is the argument of another one, as in `timeout 5 COMMAND`.
    fn follow_wrapped_command(
        &mut self,
        name: &str,
        arguments: &[Word],
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let skipped = match name {
            "command"
                if arguments.first().is_some_and(|word| ["-v", "-V"].contains(&&*word.written)) =>
            {
                return Ok(());
            }
            "trap" | "eval" => {
                let Some(word) = arguments.first() else { return Ok(()) };
                let text = known_value(name, Some(word))?.to_owned();
                return if name == "eval" && arguments.len() > 1 {
                    Err(ReachError::new("`eval` of several words is not followed"))
                } else if text == "-" {
                    Ok(())
                } else {
                    self.follow_shell_text(&text, context)
                };
            }
            "timeout" => 1,
            _ => 0,
        };
        let rest = arguments.get(skipped..).unwrap_or_default();
        if let Some(word) = rest.first().filter(|word| word.written.starts_with('-')) {
            return Err(ReachError::new(format!("`{name} {}` is not followed", word.written)));
        }
        self.follow_command(&rest.to_vec(), context)
    }

    /// Follows a path from every directory that may be the current one.
    fn follow_path(
        &mut self,
        written: &str,
        context: &mut ShellContext,
        follow: impl Fn(&mut Self, &Path, &mut ShellContext) -> Result<(), ReachError>,
    ) -> Result<(), ReachError> {
        if Path::new(written).is_relative() && context.may_be_elsewhere {
            return Err(ReachError::new(
                "it changes to a directory that is known only when it runs",
            ));
        }
        for from in context.directories.clone() {
            let path = normalize(&from.join(written));
            if workspace_relative(&path.to_string_lossy(), &self.workspace).is_none() {
                return Err(ReachError::new(format!("`{written}` is not in the workspace")));
            }
            follow(self, &path, context)?;
        }
        Ok(())
    }

    /// Pins a file. Returns its content if it exists and was not pinned before.
    fn pin_file(&mut self, path: &Path) -> Result<Option<String>, ReachError> {
        let Some(relative) = workspace_relative(&path.to_string_lossy(), &self.workspace) else {
            return Err(ReachError::new(format!("{} is not in the workspace", quote::path(path))));
        };
        if self.reached.contains_key(&relative) {
            return Ok(None);
        }
        if self.reached.values().filter(|pin| pin.hash.is_some()).count() >= MAX_REACHED_FILES {
            return Err(ReachError::new(format!("it reaches more than {MAX_REACHED_FILES} files")));
        }
        let (pin, bytes) = Pin::take(self.files, &relative)?;
        let is_there = pin.hash.is_some();
        self.reached.insert(relative.clone(), pin);
        if !is_there {
            return Ok(None);
        }
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| ReachError::new(format!("{} is not a script", quote::path(&relative))))
    }

    /// Follows a script that is run by a given interpreter, or by the one in its first line.
    fn follow_script(
        &mut self,
        path: &Path,
        by: Option<ProgramKind>,
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let Some(text) = self.pin_file(path)? else { return Ok(()) };
        let by = match by {
            Some(by) => by,
            None => interpreter(&text)?,
        };
        let followed = match by {
            ProgramKind::Shell => self.follow_shell_text(&text, &mut context.of_script(path)),
            ProgramKind::Python => modules::refuse_python(&text),
            ProgramKind::Node => modules::refuse_node(&text),
            _ => {
                Err(ReachError::new("it is run by a program whose scripts are not looked through"))
            }
        };
        followed.map_err(|error| error.in_file(path, &self.workspace))
    }

    /// Follows a script that another one sources: it shares the context of that one.
    fn follow_sourced_script(
        &mut self,
        path: &Path,
        context: &mut ShellContext,
    ) -> Result<(), ReachError> {
        let Some(text) = self.pin_file(path)? else { return Ok(()) };
        for name in ["BASH_SOURCE", "BASH_SOURCE[0]"] {
            context.set_script_path(name, path);
        }
        self.follow_shell_text(&text, context).map_err(|error| error.in_file(path, &self.workspace))
    }
}

/// Returns the error about Python without `-I`.
fn not_isolated(name: &str) -> ReachError {
    ReachError::new(format!(
        "`{name}` loads modules from the directory it is in unless its first argument is `-I`"
    ))
}

/// Returns the interpreter in the first line of a script; a shell if there is none.
fn interpreter(text: &str) -> Result<ProgramKind, ReachError> {
    let Some(line) = text.strip_prefix("#!").and_then(|rest| rest.lines().next()) else {
        return Ok(ProgramKind::Shell);
    };
    let mut words = line.split_whitespace();
    let path = words.next().unwrap_or_default();
    let mut name = path.rsplit('/').next().unwrap_or_default();
    if !SYSTEM_DIRECTORIES.iter().any(|system| Path::new(path).starts_with(system)) {
        return Err(ReachError::new(format!("`{path}` is not a program of the system")));
    }
    if name == "env" {
        name =
            words.next().filter(|word| *word != "-S").or_else(|| words.next()).unwrap_or_default();
    }
    match ProgramKind::named(name) {
        ProgramKind::Python if words.next() != Some("-I") => Err(not_isolated(name)),
        ProgramKind::Shell | ProgramKind::Python | ProgramKind::Node => {
            Ok(ProgramKind::named(name))
        }
        _ => Err(ReachError::new(format!("scripts of `{name}` are not looked through"))),
    }
}

/// Returns the value of a word, or the error that it is missing or known only at run time.
fn known_value<'w>(program: &str, word: Option<&'w Word>) -> Result<&'w str, ReachError> {
    let Some(word) = word else {
        return Err(ReachError::new(format!("`{program}` lacks an argument")));
    };
    let unknown =
        || ReachError::new(format!("what `{program}` runs is known only then: `{}`", word.written));
    word.value.as_deref().ok_or_else(unknown)
}

/// Refuses a command if one of its arguments may run something that it does not name.
fn refuse_words(
    name: &str,
    arguments: &[Word],
    gives: impl Fn(&str) -> bool,
) -> Result<(), ReachError> {
    for word in arguments {
        let text = word.value.as_deref().unwrap_or(&word.written);
        if gives(text) {
            return Err(ReachError::new(format!(
                "`{name}` can run what is not named: `{}`",
                word.written
            )));
        }
    }
    Ok(())
}

/// Refuses an assignment to a variable that changes what programs run.
fn refuse_variable(name: &str) -> Result<(), ReachError> {
    if programs::is_dangerous(name) {
        return Err(ReachError::new(format!("the variable `{name}` changes what programs run")));
    }
    Ok(())
}

/// Returns a path relative to the workspace, quoted for messages.
fn path_text(path: &Path, workspace: &Path) -> String {
    quote::path(path.strip_prefix(workspace).unwrap_or(path)).into_owned()
}

#[cfg(test)]
mod tests;
