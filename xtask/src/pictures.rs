//! `cargo xtask pictures`: captures terminal sessions of the real binary as SVG, for the manual.
//!
//! Each is a session of bash in a terminal of our own, in a sample project whose path is always the same. A line is typed when what it
//! waits for is on the screen. The screen is read as a terminal emulator sees it, so that a picture has what a person would see, and
//! nothing is drawn by hand. Two runs differ only where the program's own answers differ.

mod svg;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::terminal::Terminal;
use crate::process;
use crate::workspace::Workspace;

/// The directory of the sample project and of the home directory, while pictures are captured.
const PICTURE_DIRECTORY: &str = "/tmp/windlass-pictures";

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Paint\n"),
    (
        "src/paint.rs",
        "/// The colour of a line.\npub struct Paint {\n    pub red: u8,\n    pub green: u8,\n}\n",
    ),
    ("src/line.rs", "/// A line, in one colour.\npub struct Line {\n    pub length: u32,\n}\n"),
];

/// A picture and the session that produces it.
struct Picture {
    /// The name of its file.
    name: &'static str,
    /// The description of the picture, for readers who do not see it.
    about: &'static str,
    /// Typed lines, each with a text to wait for on the screen.
    typed: &'static [(&'static str, &'static str)],
}

const QUESTION: &str = "Allow this?";

const PICTURES: &[Picture] = &[
    Picture {
        name: "ask-after",
        about: "A command has run, and its changes are shown as a diff before they are kept",
        typed: &[
            (
                r#"windlass --session s1 call bash '{"command": "sed -i s/colour/color/ src/*.rs"}'"#,
                QUESTION,
            ),
            ("y", "changed: M"),
        ],
    },
    Picture {
        name: "ask-before",
        about: "A command that needs the network is asked about before it runs",
        typed: &[
            (
                r#"windlass --session s1 --net docs.rs call bash '{"command": "curl -sI https://docs.rs"}'"#,
                QUESTION,
            ),
            ("n", "not allowed"),
        ],
    },
    Picture {
        name: "ask-edit",
        about: "An edit is asked about with its diff before it is made",
        typed: &[
            (
                r#"windlass --session s1 call edit '{"path": "src/line.rs", "old_string": "u32", "new_string": "f32"}'"#,
                QUESTION,
            ),
            ("y", "edited"),
        ],
    },
];

/// `cargo xtask pictures`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    crate::no_arguments(arguments)?;
    process::run(&mut workspace.cargo(&["build", "--quiet", "--package", "windlass-cli"]))?;
    let programs = workspace.target("debug");
    let images = workspace.file("docs/images");
    fs::create_dir_all(&images)?;
    for picture in PICTURES {
        let text = capture(picture, &programs)
            .with_context(|| format!("taking the picture {}", picture.name))?;
        let path = images.join(format!("{}.svg", picture.name));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Captures one picture, in a workspace that is created for it.
fn capture(picture: &Picture, programs: &Path) -> Result<String> {
    let workspace_dirs = PictureWorkspace::new()?;
    let mut terminal = Terminal::start(&workspace_dirs.home, &workspace_dirs.project, programs)?;
    for (typed, then) in picture.typed {
        terminal.type_line(typed)?;
        terminal.wait_for(then)?;
    }
    terminal.wait_for_prompt()?;
    Ok(svg::of(terminal.screen(), picture.about))
}

/// The sample project and a home directory; dropping this removes both.
struct PictureWorkspace {
    home: PathBuf,
    project: PathBuf,
}

impl PictureWorkspace {
    fn new() -> Result<Self> {
        match fs::create_dir(PICTURE_DIRECTORY) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!(
                    "{PICTURE_DIRECTORY} is there already: remove it, if no other pictures are being taken"
                )
            }
            made => made.with_context(|| format!("creating {PICTURE_DIRECTORY}"))?,
        }
        let workspace_dirs = Self {
            home: Path::new(PICTURE_DIRECTORY).join("home"),
            project: Path::new(PICTURE_DIRECTORY).join("paint"),
        };
        fs::create_dir(&workspace_dirs.home)?;
        for (name, content) in FILES {
            let path = workspace_dirs.project.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, content)?;
        }
        Ok(workspace_dirs)
    }
}

impl Drop for PictureWorkspace {
    fn drop(&mut self) {
        // If it cannot be removed, the next picture reports it.
        drop(fs::remove_dir_all(PICTURE_DIRECTORY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_picture_has_a_name_of_its_own_and_is_described() {
        for (at, picture) in PICTURES.iter().enumerate() {
            assert!(PICTURES[..at].iter().all(|other| other.name != picture.name));
            assert!(!picture.about.is_empty() && !picture.typed.is_empty(), "{}", picture.name);
        }
    }
}
