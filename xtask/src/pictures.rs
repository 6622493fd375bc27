//! The pictures of the manual: what a person sees at a terminal, captured from the real binary and written as SVG.
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

/// The directory of the sample project and of the person's home, while pictures are taken.
const PLACE: &str = "/tmp/windlass-pictures";

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Paint\n"),
    (
        "src/paint.rs",
        "/// The colour of a line.\npub struct Paint {\n    pub red: u8,\n    pub green: u8,\n}\n",
    ),
    ("src/line.rs", "/// A line, in one colour.\npub struct Line {\n    pub length: u32,\n}\n"),
];

struct Picture {
    /// The name of its file.
    name: &'static str,
    /// The picture in words, for whoever does not see it.
    about: &'static str,
    /// What is typed, and what is on the screen before the next thing happens.
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
        let text = take(picture, &programs)
            .with_context(|| format!("taking the picture {}", picture.name))?;
        let path = images.join(format!("{}.svg", picture.name));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Takes one picture, in a place that is made for it.
fn take(picture: &Picture, programs: &Path) -> Result<String> {
    let place = Place::new()?;
    let mut terminal = Terminal::start(&place.home, &place.project, programs)?;
    for (typed, then) in picture.typed {
        terminal.type_line(typed)?;
        terminal.wait_for(then)?;
    }
    terminal.wait_for_prompt()?;
    Ok(svg::of(terminal.screen(), picture.about))
}

/// The sample project and the home of the person. Both go when this goes.
struct Place {
    home: PathBuf,
    project: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        match fs::create_dir(PLACE) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!("{PLACE} is there already: remove it, if no other pictures are being taken")
            }
            made => made.with_context(|| format!("creating {PLACE}"))?,
        }
        let place =
            Self { home: Path::new(PLACE).join("home"), project: Path::new(PLACE).join("paint") };
        fs::create_dir(&place.home)?;
        for (name, content) in FILES {
            let path = place.project.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, content)?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is named when the next picture is taken.
        drop(fs::remove_dir_all(PLACE));
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
