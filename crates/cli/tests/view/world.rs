//! A scratch world with a canary in every place that a program must not read: masked files of the workspace, a home with credentials,
//! neighbours of the workspace, the state, another session's `/tmp`.
//!
//! A canary is a random text that stands nowhere else. Some are contents of files, some are names of files in a hidden directory.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::encodings::{CANARY_LENGTH, Fingerprints};
use super::{Random, system_path, write_file};
use crate::support::{Home, RunResult};

/// Rules of the session, beside what is masked without any.
const DENY_RULES: &[&str] = &["read plans/merger.txt", "read vault/**", "read **/*.sealed"];

const AIEXCLUDE: &str = "private.txt\ninternal/\n*.hidden\n";

/// Files of the workspace that are masked, by each kind of mask.
const MASKED: &[&str] = &[
    // Secret names.
    ".env",
    ".env.local",
    "config/.env.production",
    "deploy/id_rsa",
    "deploy/tls/server.pem",
    "deploy/tls/server.key",
    ".aws/credentials",
    ".ssh/config",
    ".npmrc",
    // Backups of secret files.
    ".env.bak",
    ".env~",
    "config/.env.production.old",
    "deploy/id_rsa.bak",
    "deploy/tls/server.key.orig",
    "deploy/tls/server.pem~",
    // Hidden by `.aiexclude`: a file, a directory, a glob.
    "private.txt",
    "internal/road-map.md",
    "internal/deep/er/notes.md",
    "src/tables.hidden",
    // Covered by `deny read` rules: a file, a directory, a glob.
    "plans/merger.txt",
    "vault/one.txt",
    "vault/deep/er/two.txt",
    "src/letters.sealed",
];

/// Files of the home directory, and how the canary stands in them.
const HOME_FILES: &[(&str, &str)] = &[
    (".bashrc", "CANARY\n"),
    (".profile", "CANARY\n"),
    (".bash_history", "CANARY\n"),
    (".ssh/id_ed25519", "CANARY\n"),
    (".ssh/config", "CANARY\n"),
    (".aws/credentials", "CANARY\n"),
    (".claude/.credentials.json", "CANARY\n"),
    (".claude/projects/work/talk.jsonl", "CANARY\n"),
    (".claude.json", "CANARY\n"),
    (".codex/auth.json", "CANARY\n"),
    (".config/gh/hosts.yml", "CANARY\n"),
    (".config/windlass/config.toml", "# CANARY\n"),
    (".config/gcloud/credentials.db", "CANARY\n"),
    (".config/git/credentials", "CANARY\n"),
    (".config/pip/pip.conf", "[global]\nindex-url = https://ada:CANARY@example.org/simple\n"),
    (".git-credentials", "CANARY\n"),
    (
        ".gitconfig",
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[http]\n\textraHeader = Authorization: CANARY\n",
    ),
    (".gnupg/private-keys-v1.d/one.key", "CANARY\n"),
    (".password-store/mail.gpg", "CANARY\n"),
    (".netrc", "CANARY\n"),
    (".npmrc", "CANARY\n"),
    (".pypirc", "CANARY\n"),
    (".cargo/credentials.toml", "CANARY\n"),
    (".cargo/credentials", "CANARY\n"),
    (".m2/settings.xml", "<password>CANARY</password>\n"),
    (".gradle/gradle.properties", "signing.password=x\n# CANARY\n"),
    (".docker/config.json", "CANARY\n"),
    (".kube/config", "CANARY\n"),
    (".mozilla/firefox/x.default/logins.json", "CANARY\n"),
    (".local/share/keyrings/x", "CANARY\n"),
    ("other-project/notes.txt", "CANARY\n"),
    ("other-project/.env", "CANARY\n"),
    ("Documents/taxes.txt", "CANARY\n"),
];

/// Files beside the workspace, which no rule names.
const NEIGHBOUR_FILES: &[&str] =
    &["other-work/src/main.rs", "outside/plain.txt", "outside/deep/er/file.txt", "work.bak"];

/// Hidden directories with a file whose name is a canary.
const HIDDEN_DIRECTORIES: &[&str] = &[
    "work/internal",
    "work/vault",
    "work/.aws",
    "home/.ssh",
    "home/other-project",
    "outside",
    "home/.local/state/windlass",
];

#[derive(Debug)]
pub(super) struct Canary {
    /// The file that holds it, or the directory that holds a file of this name.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) fingerprints: Fingerprints,
}

impl Canary {
    fn new(path: PathBuf, random: &mut Random) -> Self {
        let letters: Vec<u8> = (b'a'..=b'z').collect();
        let text: String = (0..CANARY_LENGTH).map(|_| char::from(*random.pick(&letters))).collect();
        let fingerprints = Fingerprints::of(&text);
        Self { path, text, fingerprints }
    }

    /// Writes the canary into its file, twice: some programs print only lines that repeat.
    fn place(&self, shape: &str) {
        write_file(&self.path, &shape.replace("CANARY", &self.text).repeat(2));
    }
}

/// The confinement of calls in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    /// At this level, in mode `auto`.
    Level(&'static str),
    /// Not at all: the control, in which every attempt should succeed.
    Off,
}

pub(super) struct World {
    home: Home,
    confinement: Confinement,
    /// Contents that no program may read.
    pub(super) contents: Vec<Canary>,
    /// Names that no program may list; `path` is the directory.
    pub(super) names: Vec<Canary>,
    /// In an environment variable of the binary.
    pub(super) variable: Canary,
    /// A file that every program may read.
    pub(super) public: Canary,
    /// In the `/tmp` of another session, or the machine's in the control.
    left_in_tmp: PathBuf,
}

impl World {
    pub(super) fn new(confinement: Confinement, random: &mut Random) -> Self {
        let home = Home::new_outside_tmp();
        let root = home.workspace().parent().expect("a parent").to_owned();
        let name = root.file_name().expect("a name").to_string_lossy().replace('.', "");
        let left_in_tmp = Path::new("/tmp").join(format!("windlass-{name}.txt"));

        let mut canary = |path: PathBuf| Canary::new(path, random);
        let public = canary(home.workspace().join("src/public.txt"));
        let variable = canary(PathBuf::new());
        let in_tmp = canary(left_in_tmp.clone());
        let names =
            HIDDEN_DIRECTORIES.iter().map(|directory| canary(root.join(directory))).collect();
        let mut contents: Vec<Canary> = Vec::new();
        let masked = MASKED.iter().map(|file| {
            // Without a credential it is an ordinary file.
            let is_settings = *file == ".npmrc";
            let shape = if is_settings { "_authToken=x1\n# CANARY\n" } else { "CANARY\n" };
            (home.workspace().join(file), shape)
        });
        let personal =
            HOME_FILES.iter().map(|(file, shape)| (root.join("home").join(file), *shape));
        let neighbours = NEIGHBOUR_FILES.iter().map(|file| (root.join(file), "CANARY\n"));
        let state = ["notes.txt", "objects/kept"].map(|file| (home.state().join(file), "CANARY\n"));
        for (path, shape) in masked.chain(personal).chain(neighbours).chain(state) {
            let canary = canary(path);
            canary.place(shape);
            contents.push(canary);
        }
        public.place("CANARY\n");
        contents.push(in_tmp);

        let world = Self { home, confinement, contents, names, variable, public, left_in_tmp };
        world.add_names_links_and_rules();
        world
    }

    /// Adds what is no content of a file: names, links, rules, another session's file.
    fn add_names_links_and_rules(&self) {
        write_file(&self.workspace().join(".aiexclude"), AIEXCLUDE);
        for Canary { path, text, .. } in &self.names {
            write_file(&path.join(text), "");
        }
        std::fs::create_dir(self.workspace().join("links")).expect("a folder");
        for (index, canary) in self.contents.iter().enumerate() {
            symlink(&canary.path, self.link(index)).expect("a link");
        }
        symlink(&self.public.path, self.link(self.contents.len())).expect("a link");
        let in_tmp = self.contents.last().expect("a canary");
        let script =
            format!("for i in 1 2; do echo {}; done >{}", in_tmp.text, in_tmp.path.display());
        let ran = self.shell("another-session", &script);
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// A link in the workspace to the file of a canary; the one after the last leads to the public file.
    pub(super) fn link(&self, index: usize) -> PathBuf {
        self.workspace().join(format!("links/{index}"))
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.home.workspace()
    }

    /// Everything that must not appear in an answer.
    pub(super) fn forbidden_texts(&self) -> impl Iterator<Item = &Canary> {
        self.contents.iter().chain(&self.names).chain([&self.variable])
    }

    /// Runs a script in a shell that reads it from its input, so that nothing of it can be understood beforehand.
    pub(super) fn shell(&self, session: &str, script: &str) -> RunResult {
        self.call(session, &json!({"command": "bash -s", "stdin": script}))
    }

    pub(super) fn call(&self, session: &str, input: &Value) -> RunResult {
        let input = input.to_string();
        let mut arguments = vec!["call", "bash", &input, "--json", "--session", session];
        arguments.extend(match self.confinement {
            Confinement::Level(level) => ["--mode", "auto", "--sandbox", level],
            Confinement::Off => ["--mode", "yolo", "--sandbox", "off"],
        });
        arguments.extend(DENY_RULES.iter().flat_map(|rule| ["--deny", rule]));
        let mut command = self.home.command(&arguments);
        command.env("PATH", system_path()).env("SOME_SERVICE_LOGIN", &self.variable.text);
        RunResult::from_output(command.output().expect("the binary runs"))
    }
}

impl Drop for World {
    /// Without confinement, the file was left in the machine's own `/tmp`.
    fn drop(&mut self) {
        if self.confinement == Confinement::Off {
            drop(std::fs::remove_file(&self.left_in_tmp));
        }
    }
}
