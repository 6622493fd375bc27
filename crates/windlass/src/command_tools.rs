//! The toolset of command files, which are read when one of its tools is first needed.
//!
//! A file with an error loses its own tool alone and gives a warning with file, line and column. Tools are in the order of the
//! directories and, in each, of file names, so that the same files always give the same tools. If two tools have the same name, the
//! first one wins: a built-in tool before a file of the person before one of the workspace.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use windlass_core::{
    Author, BoxFuture, Confinement, LoadedTools, Session, ToolError, ToolHandle, Toolset, quote,
};
use windlass_tools::{CommandDefinition, CommandTool};

/// Maximum number of command files that are read of a directory.
const MAX_COMMAND_FILES: usize = 256;
/// Maximum size of a command file in bytes; see [`CommandDefinition::parse`].
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The path and the text of a command file, which may define a tool.
///
/// ```
/// use windlass::tool::CommandFile;
/// let text = "---\nname: today\ncommand: date +%F\n---\nWhich day it is.\n".to_owned();
/// let file = CommandFile { path: "tools/today.md".into(), text };
/// assert_eq!(file.definition().expect("it is one").name(), "today");
/// let wrong = CommandFile { path: "tools/wrong.md".into(), text: "# Notes\n".to_owned() };
/// assert!(wrong.definition().unwrap_err().starts_with("tools/wrong.md:1:1: "));
/// ```
#[derive(Debug, Clone)]
pub struct CommandFile {
    /// The path of the file, for messages.
    pub path: PathBuf,
    /// The content of the file.
    pub text: String,
}

impl CommandFile {
    /// Parses the definition. An error is a message with path, line and column.
    pub fn definition(&self) -> Result<CommandDefinition, String> {
        CommandDefinition::parse(&self.text).map_err(|error| {
            let path = quote::path(&self.path);
            format!("{path}:{}:{}: {}", error.line, error.column, error.message)
        })
    }
}

/// Reads the command files of a directory: `*.md` except `README.md`, sorted by name. A directory that does not exist has none. Returns the
/// files, and a warning for each file that cannot be read.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let tools = folder.path();
/// std::fs::write(tools.join("b.md"), "---\n")?;
/// std::fs::write(tools.join("a.md"), "---\n")?;
/// std::fs::write(tools.join("README.md"), "# Our tools\n")?;
/// let (files, warnings) = windlass::tool::command_files(tools);
/// assert_eq!(files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), [tools.join("a.md"), tools.join("b.md")]);
/// assert!(warnings.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn command_files(directory: &Path) -> (Vec<CommandFile>, Vec<String>) {
    let (mut files, mut warnings) = (Vec::new(), Vec::new());
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        format!("cannot read {}: {why}", quote::path(path))
    };
    let mut paths = match list_paths(directory) {
        Ok(paths) => paths,
        Err(error) => return (files, vec![cannot(directory, &error)]),
    };
    paths.sort();
    if paths.len() > MAX_COMMAND_FILES {
        let (count, name) = (paths.len(), quote::path(directory));
        warnings
            .push(format!("{name} has {count} files; only the first {MAX_COMMAND_FILES} are read"));
        paths.truncate(MAX_COMMAND_FILES);
    }
    for path in paths {
        match read_limited(&path) {
            Ok(text) => files.push(CommandFile { path, text }),
            Err(error) => warnings.push(cannot(&path, &error)),
        }
    }
    (files, warnings)
}

/// Lists the paths of possible command files of a directory, unsorted; none if it does not exist.
fn list_paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| is_command_file(path)).collect())
}

/// Returns whether a file name is that of a command file: `*.md`, not hidden, not `README.md`.
fn is_command_file(path: &Path) -> bool {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    is_markdown && !name.starts_with(b".") && !name.eq_ignore_ascii_case(b"readme.md")
}

/// Reads a regular file of limited size as text.
fn read_limited(path: &Path) -> io::Result<String> {
    // Reading a pipe would wait for a process that writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("it is larger than {} KiB", MAX_FILE_BYTES >> 10)));
    }
    Ok(text)
}

/// The origin of command files.
#[derive(Debug)]
pub(crate) enum CommandFileSource {
    /// A directory of the person, read when the tools are loaded.
    Directory(PathBuf),
    /// Files of the workspace as they were when a person trusted them.
    Trusted(Vec<CommandFile>),
}

/// The tools of all command files.
#[derive(Debug)]
pub(crate) struct CommandTools {
    pub(crate) sources: Vec<CommandFileSource>,
    pub(crate) confinement: Confinement,
}

impl Toolset for CommandTools {
    fn name(&self) -> &'static str {
        "command files"
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
        // The files are few and small: another thread would take longer.
        Box::pin(std::future::ready(Ok(self.load_files())))
    }
}

impl CommandTools {
    /// Reads all command files. Files with errors become warnings.
    fn load_files(&self) -> LoadedTools {
        let mut loaded = LoadedTools::default();
        let mut owners = HashMap::new();
        for source in &self.sources {
            let read;
            let (author, files) = match source {
                CommandFileSource::Trusted(files) => (Author::Workspace, files),
                CommandFileSource::Directory(directory) => {
                    let (files, warnings) = command_files(directory);
                    loaded.warnings.extend(warnings);
                    read = files;
                    (Author::Person, &read)
                }
            };
            for file in files {
                match self.tool(file, author, &mut owners) {
                    Ok(tool) => loaded.tools.push(tool),
                    Err(why) => loaded.warnings.push(format!("not a tool: {why}")),
                }
            }
        }
        loaded
    }

    /// Makes the tool of a file. Fails if the definition has an error or another file defines the same name.
    fn tool(
        &self,
        file: &CommandFile,
        author: Author,
        owners: &mut HashMap<String, PathBuf>,
    ) -> Result<ToolHandle, String> {
        let definition = file.definition()?;
        let name = definition.name().to_owned();
        if let Some(owner) = owners.get(&name) {
            let (path, owner) = (quote::path(&file.path), quote::path(owner));
            return Err(format!("{path}: there is a tool `{name}` already, in {owner}"));
        }
        owners.insert(name, file.path.clone());
        Ok(CommandTool::new(definition, author, &self.confinement).into())
    }
}
