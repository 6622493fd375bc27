//! Scripted programs for tests: the command itself says what is printed, when, and how the program ends.
//!
//! A command is a list of acts separated by `;`: `print one\n; pause 2; exit 3`. See [`ScriptAct`] and [`Script::parse`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use windlass_core::{
    Attributes, BoxFuture, ChangedTo, Clock, Confinement, Files, Fingerprint, Host, Process,
    ProcessChange, ProcessChanges, ProcessEnd, ProcessRequest, Processes, Program, Signal, Stdin,
    ToolError, Tracking,
};
use windlass_host::LocalHost;

/// The files of this machine, with programs that are scripts.
pub(super) struct ScriptedHost {
    local: LocalHost,
    programs: ScriptedPrograms,
}

impl ScriptedHost {
    pub(super) fn new(local: LocalHost, confinement: Confinement) -> Self {
        let workspace = local.files().workspace().to_owned();
        Self { local, programs: ScriptedPrograms { confinement, workspace } }
    }
}

impl Host for ScriptedHost {
    fn files(&self) -> &dyn Files {
        self.local.files()
    }

    fn clock(&self) -> &dyn Clock {
        self.local.clock()
    }

    fn processes(&self) -> Option<&dyn Processes> {
        Some(&self.programs)
    }
}

/// Starts scripts instead of programs.
struct ScriptedPrograms {
    confinement: Confinement,
    workspace: PathBuf,
}

impl Processes for ScriptedPrograms {
    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        let Program::Shell(command) = &request.program else {
            return Err(ToolError::host_failed("only texts for the shell can be played"));
        };
        let script = Script::parse(command, request, &self.workspace);
        Ok(Box::new(ScriptedProcess {
            script,
            next: AtomicUsize::new(0),
            waits: AtomicBool::new(false),
            typed: Mutex::default(),
            has_typed: Notify::new(),
            end: watch::Sender::new(None),
        }))
    }

    fn scratch(&self) -> io::Result<std::fs::File> {
        tempfile::tempfile()
    }
}

/// One act of a script.
enum ScriptAct {
    Print(Vec<u8>),
    /// Prints this number of numbered lines.
    Flood(usize),
    Pause(Duration),
    /// Waits for a typed line, and prints it.
    Ask,
    /// Does nothing until the process is ended.
    Hang,
}

/// A parsed command.
struct Script {
    acts: Vec<ScriptAct>,
    end: ProcessEnd,
    /// True if signals end the script; `deaf` makes it false.
    obeys_signals: bool,
    tracking: Tracking,
    changes: Mutex<Vec<ProcessChange>>,
    built: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Script {
    /// Parses a command; unknown acts panic.
    fn parse(command: &str, request: &ProcessRequest, workspace: &Path) -> Self {
        let mut script = Self {
            acts: Vec::new(),
            end: ProcessEnd::Exited(0),
            obeys_signals: true,
            tracking: Tracking::Scanned,
            changes: Mutex::default(),
            built: Vec::new(),
            notes: Vec::new(),
        };
        for act in command.split(';').map(str::trim).filter(|act| !act.is_empty()) {
            let (word, rest) = act.split_once(' ').unwrap_or((act, ""));
            script.add(word, rest, request, workspace);
        }
        script
    }

    /// Adds one act, or sets a property of the script.
    fn add(&mut self, word: &str, rest: &str, request: &ProcessRequest, workspace: &Path) {
        let number = || rest.parse::<f64>().unwrap();
        let act = match word {
            "print" => ScriptAct::Print(unescape(rest)),
            "flood" => ScriptAct::Flood(rest.parse().unwrap()),
            "pause" => ScriptAct::Pause(Duration::from_secs_f64(number())),
            "ask" => ScriptAct::Ask,
            "hang" => ScriptAct::Hang,
            // Prints the standard input.
            "cat" => match &request.stdin {
                Stdin::Bytes(bytes) => ScriptAct::Print(bytes.clone()),
                _ => return,
            },
            "pwd" => ScriptAct::Print(request.directory.display().into_owned().into_bytes()),
            "access" => ScriptAct::Print(format!("{:?}", request.access).into_bytes()),
            "deaf" => return self.obeys_signals = false,
            "exit" => return self.end = ProcessEnd::Exited(rest.parse().unwrap()),
            "signal" => return self.end = ProcessEnd::Signalled(rest.parse().unwrap()),
            "memory" => return self.end = ProcessEnd::OutOfMemory(4 << 30),
            "disk" => return self.end = ProcessEnd::OutOfDisk(16 << 30),
            "forks" => return self.end = ProcessEnd::TooManyProcesses(512),
            "staged" => return self.tracking = Tracking::Staged,
            "untracked" => return self.tracking = Tracking::Unknown,
            "through" => return self.built.push(workspace.join(rest)),
            "note" => return self.notes.push(rest.to_owned()),
            "create" | "change" | "remove" => {
                let change = change(word, workspace.join(rest));
                return self.changes.lock().unwrap().push(change);
            }
            other => panic!("no script has the act `{other}`"),
        };
        self.acts.push(act);
    }
}

/// Makes a recorded change of a file: `create`, `change` or `remove`.
fn change(word: &str, path: PathBuf) -> ProcessChange {
    let fingerprint = Fingerprint { device: 1, inode: 1, len: 1, modified: 1, changed: 1 };
    let before = (word != "create").then_some(fingerprint);
    let to = match word {
        "remove" => ChangedTo::Nothing,
        _ => ChangedTo::File(PathBuf::new(), Attributes::default()),
    };
    ProcessChange { path, before, to }
}

/// Resolves `\n`, `\r`, `\e` and `\xHH` like a shell.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&escape, behind) = rest.split_first().unwrap();
        rest = behind;
        match escape {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b'e' => bytes.push(0x1b),
            b'x' => {
                let (hex, behind) = rest.split_at(2);
                bytes.push(u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap());
                rest = behind;
            }
            other => bytes.push(other),
        }
    }
    bytes
}

/// A running script.
struct ScriptedProcess {
    script: Script,
    next: AtomicUsize,
    waits: AtomicBool,
    typed: Mutex<Vec<u8>>,
    has_typed: Notify,
    end: watch::Sender<Option<ProcessEnd>>,
}

impl ScriptedProcess {
    /// Ends the script, unless it has ended.
    fn finish(&self, how: ProcessEnd) {
        self.end.send_if_modified(|end| end.is_none() && end.replace(how).is_none());
    }

    /// Performs one act; prints into `into`.
    async fn act(&self, act: &ScriptAct, into: &mut Vec<u8>) {
        match act {
            ScriptAct::Print(bytes) => into.extend_from_slice(bytes),
            ScriptAct::Flood(lines) => {
                (0..*lines).for_each(|line| into.extend_from_slice(format!("{line}\n").as_bytes()));
            }
            ScriptAct::Pause(time) => tokio::time::sleep(*time).await,
            ScriptAct::Hang => std::future::pending().await,
            ScriptAct::Ask => {
                self.waits.store(true, Ordering::SeqCst);
                self.has_typed.notified().await;
                self.waits.store(false, Ordering::SeqCst);
                into.append(&mut self.typed.lock().unwrap());
                into.push(b'\n');
            }
        }
        self.next.fetch_add(1, Ordering::SeqCst);
    }
}

impl Process for ScriptedProcess {
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            let mut end = self.end.subscribe();
            while into.is_empty() {
                let Some(act) = self.script.acts.get(self.next.load(Ordering::SeqCst)) else {
                    self.finish(self.script.end);
                    return Ok(0);
                };
                tokio::select! {
                    biased;
                    _ = end.wait_for(Option::is_some) => return Ok(0),
                    () = self.act(act, into) => {}
                }
            }
            Ok(into.len())
        })
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        self.typed.lock().unwrap().extend_from_slice(bytes);
        self.has_typed.notify_one();
        Box::pin(std::future::ready(Ok(())))
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(async move {
            let mut end = self.end.subscribe();
            end.wait_for(Option::is_some).await.unwrap().unwrap()
        })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.script.obeys_signals {
            self.finish(ProcessEnd::Signalled(signal.number()));
        }
        Ok(())
    }

    fn kill(&self) {
        self.finish(ProcessEnd::Signalled(9));
    }

    fn waits_for_input(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        Ok(ProcessChanges {
            notes: self.script.notes.clone(),
            changes: std::mem::take(&mut self.script.changes.lock().unwrap()),
            built: self.script.built.clone(),
            ..ProcessChanges::none(self.script.tracking)
        })
    }
}
