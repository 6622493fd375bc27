//! Directories of command files, as tools that are read when they are first needed.
//!
//! A file that is wrong costs its own tool alone, and is told of with its place. The order is that of the directories and, in
//! each, of the names of files, so that the same files are always the same tools. A name that is taken stays with who has it: a
//! built-in tool, then a file of the person, then one of the workspace.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use windlass_core::{
    Author, BoxFuture, Confinement, Handle, Loaded, Session, ToolError, Toolset, quote,
};
use windlass_tools::{CommandDefinition, CommandTool};

/// How many files of a directory are looked at.
const MOST_FILES: usize = 256;
/// A larger file is no command file; see [`CommandDefinition::parse`].
const LARGEST: u64 = 64 << 10;

/// A file that may be a tool, and what is in it.
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
    /// Where it is, for messages.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

impl CommandFile {
    /// What it says, or what is wrong with it and where.
    pub fn definition(&self) -> Result<CommandDefinition, String> {
        CommandDefinition::parse(&self.text).map_err(|error| {
            let path = quote::path(&self.path);
            format!("{path}:{}:{}: {}", error.line, error.column, error.message)
        })
    }
}

/// The files of a directory that may be tools: `*.md`, in the order of their names, but for a `README.md`. A directory that is not
/// there has none. What cannot be read is left out and told of.
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
    let mut paths = match paths(directory) {
        Ok(paths) => paths,
        Err(error) => return (files, vec![cannot(directory, &error)]),
    };
    paths.sort();
    if paths.len() > MOST_FILES {
        let (count, place) = (paths.len(), quote::path(directory));
        warnings.push(format!("{place} has {count} files; the first {MOST_FILES} are looked at"));
        paths.truncate(MOST_FILES);
    }
    for path in paths {
        match read(&path) {
            Ok(text) => files.push(CommandFile { path, text }),
            Err(error) => warnings.push(cannot(&path, &error)),
        }
    }
    (files, warnings)
}

fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| may_be_tool(path)).collect())
}

fn may_be_tool(path: &Path) -> bool {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    is_markdown && !name.starts_with(b".") && !name.eq_ignore_ascii_case(b"readme.md")
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe would keep us waiting for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} KiB", LARGEST >> 10)));
    }
    Ok(text)
}

/// Where command files come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A directory of the person, read when it is needed.
    Directory(PathBuf),
    /// Files of the workspace as they were when a person trusted them.
    Trusted(Vec<CommandFile>),
}

/// The tools of all command files.
#[derive(Debug)]
pub(crate) struct CommandTools {
    pub(crate) sources: Vec<Source>,
    pub(crate) confinement: Confinement,
}

impl Toolset for CommandTools {
    fn name(&self) -> &'static str {
        "command files"
    }

    fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<Loaded, ToolError>> {
        // A few small files: going elsewhere for them would take longer than they do.
        Box::pin(std::future::ready(Ok(self.read())))
    }
}

impl CommandTools {
    fn read(&self) -> Loaded {
        let mut loaded = Loaded::default();
        let mut owners = HashMap::new();
        for source in &self.sources {
            let read;
            let (author, files) = match source {
                Source::Trusted(files) => (Author::Workspace, files),
                Source::Directory(directory) => {
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

    fn tool(
        &self,
        file: &CommandFile,
        author: Author,
        owners: &mut HashMap<String, PathBuf>,
    ) -> Result<Handle, String> {
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
