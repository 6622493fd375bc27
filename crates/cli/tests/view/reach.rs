//! The ways in which a command can reach a file.

use std::path::{Path, PathBuf};

/// One way to reach a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Direct,
    Relative,
    Glob,
    Variable,
    Escaped,
    Unnormalized,
    /// By a symbolic link that was in the workspace before.
    PreparedLink,
    /// By a symbolic link that the command makes.
    OwnLink,
    /// By a symbolic link to the directory.
    LinkedDirectory,
    /// From within the directory.
    Inside,
    OwnRoot,
    OwnDirectory,
    ParentRoot,
    /// By a list of names in a file.
    Listing,
    /// By a descriptor that the shell opened.
    Descriptor,
}

/// Those that give a program a file's name, with which it can do whatever it does with files.
pub(super) const BY_NAME: &[Reach] = &[
    Reach::Direct,
    Reach::Relative,
    Reach::Glob,
    Reach::Variable,
    Reach::Escaped,
    Reach::Unnormalized,
    Reach::PreparedLink,
    Reach::OwnLink,
    Reach::LinkedDirectory,
    Reach::Inside,
    Reach::OwnRoot,
    Reach::OwnDirectory,
    Reach::ParentRoot,
];

/// Those that only some programs can use.
pub(super) const BY_OTHER_MEANS: &[Reach] = &[Reach::Listing, Reach::Descriptor];

/// A file as a command names it.
#[derive(Debug)]
pub(super) struct ReachedFile {
    /// Commands that come before.
    pub(super) before: String,
    /// The word that stands for the file.
    pub(super) word: String,
}

impl Reach {
    /// Returns the name by which a command in `workspace` reaches a file in this way. `$T` is a scratch directory of the command; `link` leads
    /// to the file.
    pub(super) fn to(self, file: &Path, link: &Path, workspace: &Path) -> ReachedFile {
        let directory = file.parent().expect("a parent").display();
        let name = file.file_name().expect("a name").to_string_lossy();
        let (path, link) = (file.display(), link.display());
        let relative = relative(file, workspace);
        let relative = relative.display();
        let (before, word) = match self {
            Self::Direct => (String::new(), format!("'{path}'")),
            Self::Relative => (String::new(), format!("'{relative}'")),
            Self::Glob => {
                let mut shorter = name.to_string();
                shorter.pop();
                (String::new(), format!("'{directory}'/'{shorter}'?"))
            }
            Self::Variable => (format!("d='{directory}' n='{name}'"), "\"$d/${n}\"".to_owned()),
            Self::Escaped => {
                let bytes: String =
                    path.to_string().bytes().map(|b| format!("\\x{b:02x}")).collect();
                (String::new(), format!("$'{bytes}'"))
            }
            Self::Unnormalized => {
                (String::new(), format!("'/{directory}/.//../{}'", directory_and_name(file)))
            }
            Self::PreparedLink => (String::new(), format!("'{link}'")),
            Self::OwnLink => (format!("ln -s '{path}' \"$T/link\""), "\"$T/link\"".to_owned()),
            Self::LinkedDirectory => {
                (format!("ln -s '{directory}' \"$T/links\""), format!("\"$T/links/{name}\""))
            }
            Self::Inside => (format!("cd '{directory}'"), format!("./'{name}'")),
            Self::OwnRoot => (String::new(), format!("/proc/self/root'{path}'")),
            Self::OwnDirectory => (String::new(), format!("/proc/self/cwd/'{relative}'")),
            Self::ParentRoot => (String::new(), format!("/proc/$PPID/root'{path}'")),
            Self::Listing => {
                (format!("printf '%s\\0' '{path}' >\"$T/list\""), "\"$T/list\"".to_owned())
            }
            Self::Descriptor => (format!("exec 7<'{path}'"), "/dev/fd/7".to_owned()),
        };
        ReachedFile { before, word }
    }
}

/// The path of a file as seen from a directory.
fn relative(file: &Path, from: &Path) -> PathBuf {
    let common = file.components().zip(from.components()).take_while(|(a, b)| a == b).count();
    // At least one step up, so that the path never stays in the workspace.
    let common = common.min(from.components().count() - 1);
    let up = std::iter::repeat_n(Path::new(".."), from.components().count() - common);
    let down: PathBuf = file.components().skip(common).collect();
    up.map(Path::to_owned).chain([down]).collect()
}

/// The name of a file with that of its directory.
fn directory_and_name(file: &Path) -> String {
    let count = file.components().count();
    file.components().skip(count - 2).collect::<PathBuf>().display().to_string()
}
