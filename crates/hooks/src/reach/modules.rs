//! Refuses Python and Node scripts that may load code from other files.

use super::ReachError;

/// Python words with which a script can load or run code that its text does not name.
const PYTHON_LOADERS: &[&str] = &[
    "importlib",
    "__import__",
    "runpy",
    "exec(",
    "eval(",
    "compile(",
    "sys.path",
    "subprocess",
    "os.system",
    "popen",
    "os.exec",
    "os.spawn",
    "posix_spawn",
    "ctypes",
    "pickle",
    "multiprocessing",
    "imp.",
];

/// Node words with which a script can load or run code that its text does not name.
const NODE_LOADERS: &[&str] = &[
    "child_process",
    "eval(",
    "Function(",
    "worker_threads",
    "import(",
    "module.",
    "createRequire",
    "process.dlopen",
    "vm.",
];

/// Modules that are part of Node.
const NODE_BUILTIN_MODULES: &[&str] = &[
    "assert",
    "buffer",
    "crypto",
    "events",
    "fs",
    "fs/promises",
    "os",
    "path",
    "process",
    "querystring",
    "readline",
    "stream",
    "string_decoder",
    "url",
    "util",
    "zlib",
];

/// Refuses a Python script that may run code that its text does not name.
pub(super) fn refuse_python(text: &str) -> Result<(), ReachError> {
    refuse(text, PYTHON_LOADERS)
}

/// Refuses a Node script that may load anything but modules that are part of Node.
pub(super) fn refuse_node(text: &str) -> Result<(), ReachError> {
    refuse(text, NODE_LOADERS)?;
    for (begin, _) in text
        .match_indices("require")
        .chain(text.match_indices("import"))
        .chain(text.match_indices(" from"))
    {
        let rest = text.get(begin..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let Some(name) = line.split(['"', '\'', '`']).nth(1) else { continue };
        let name = name.strip_prefix("node:").unwrap_or(name);
        if !NODE_BUILTIN_MODULES.contains(&name) {
            return Err(ReachError::new(format!("it loads `{name}`, which is not part of Node")));
        }
    }
    let computed = ["require(", "require ("].iter().flat_map(|call| text.match_indices(call));
    for (begin, call) in computed {
        let argument = text.get(begin + call.len()..).unwrap_or_default().trim_start();
        if !argument.starts_with(['"', '\'']) {
            return Err(ReachError::new("it loads a module that is known only when it runs"));
        }
    }
    Ok(())
}

/// Refuses a script that contains one of these words.
fn refuse(text: &str, words: &[&str]) -> Result<(), ReachError> {
    match words.iter().find(|word| text.contains(**word)) {
        Some(word) => Err(ReachError::new(format!("it can run what is not named: `{word}`"))),
        None => Ok(()),
    }
}
