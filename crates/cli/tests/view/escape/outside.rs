//! The process outside: it listens, holds secrets in its memory, and shares memory, queues and keys with every process that can reach
//! them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::json;

use super::scene::SceneDirectories;
use super::starts::python;

/// The ids, ports and names by which the process and its shared objects are reached.
#[derive(Deserialize)]
pub(super) struct Reachable {
    pub(super) pid: u32,
    pub(super) address: u64,
    pub(super) descriptor: u32,
    pub(super) tcp: u16,
    pub(super) every: u16,
    pub(super) udp: u16,
    pub(super) tcp6: u16,
    pub(super) udp6: u16,
    pub(super) key: u32,
    pub(super) queue: String,
    pub(super) description: String,
    #[serde(default)]
    pub(super) canary: String,
}

/// The effects of attempts on the process.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) heard: Vec<String>,
    signals: u32,
    keys: u32,
    core: i64,
    priority: i32,
    semaphore: i32,
}

impl Report {
    /// Returns whether this field differs from its value at the start.
    pub(super) fn has_noted(&self, field: &str) -> bool {
        match field {
            "signals" => self.signals > 0,
            "keys" => self.keys > 0,
            "core" => self.core != 0,
            "priority" => self.priority != 0,
            "semaphore" => self.semaphore != 0,
            unknown => panic!("there is no field {unknown}"),
        }
    }
}

pub(super) struct Process {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the process, with sockets at all places that the scene names.
    pub(super) fn start(ground: &SceneDirectories) -> (Self, Reachable) {
        let canary = "canary outside in memory".to_owned();
        let mut child = Command::new(python())
            .args(["-c", include_str!("outside.py")])
            .env("CANARY_MEMORY", &canary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let mut streams: Vec<String> =
            ground.streams().iter().map(|(_, path)| path.display().to_string()).collect();
        streams.push(ground.abstract_stream());
        let mut datagrams: Vec<String> =
            ground.datagrams().iter().map(|(_, path)| path.display().to_string()).collect();
        datagrams.push(ground.abstract_datagram());
        let wanted = json!({"canary": canary, "gift": ground.path("other/secret.txt"),
            "stream": streams, "datagram": datagrams});
        writeln!(child.stdin.as_mut().expect("a pipe"), "{wanted}").expect("it reads");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("an answer");
        let mut reachable: Reachable = serde_json::from_str(&line).expect("how it is reached");
        reachable.canary = canary;
        (Self { child, answers }, reachable)
    }

    pub(super) fn end(mut self) -> Report {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a report");
        self.child.wait().expect("it ends");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}
