//! The socket by which other processes look at jobs, in the state directory: one line of JSON each way.
//!
//! Jobs live in the process whose session started them, and nothing of them is kept on disk. A socket that no process answers at
//! is removed by the next one that asks.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use windlass::Session;
use windlass::engine::Engine;
use windlass::process::{Job, Signal};

/// The longest question.
const LONGEST: u64 = 64 << 10;
/// The most bytes of an output in one answer.
const AT_ONCE: u64 = 1 << 20;

/// A question about the jobs of other processes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum JobQuestion {
    /// Lists the jobs.
    List,
    /// Asks for the output of a job, from a byte on.
    Output {
        /// The job's id.
        job: String,
        /// The byte.
        cursor: u64,
    },
    /// Ends a job.
    Kill {
        /// The job's id.
        job: String,
        /// The name of the signal that it gets first.
        signal: String,
    },
}

/// Answers for the jobs of a session for as long as it is there.
#[derive(Debug)]
pub struct JobSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl JobSocket {
    /// Must be called inside a runtime.
    pub(crate) fn open(state: &Path, engine: &Engine, session: &Arc<Session>) -> Option<Self> {
        let directory = directory(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        let listener = {
            // Between its making and the first listening, a socket looks like one that was left behind.
            let _alone = lock(&directory).ok()?;
            sweep(&directory);
            drop(std::fs::remove_file(&path));
            tokio::net::UnixListener::bind(&path).ok()?
        };
        let (engine, session) = (engine.clone(), Arc::downgrade(session));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(session) = session.upgrade() else { return };
                let engine = engine.clone();
                tokio::spawn(async move {
                    let answered = tokio::time::timeout(
                        Duration::from_secs(30),
                        serve(stream, engine, session),
                    );
                    // A process that asked and went away needs no answer.
                    drop(answered.await);
                });
            }
        });
        Some(Self { path, task })
    }
}

impl Drop for JobSocket {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.path));
    }
}

fn directory(state: &Path) -> PathBuf {
    state.join("jobs")
}

/// Keeps others from making and removing sockets until the file is closed.
fn lock(directory: &Path) -> io::Result<std::fs::File> {
    let file = std::fs::File::open(directory)?;
    file.lock()?;
    Ok(file)
}

/// Removes the sockets of processes that were killed; with the lock held.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        remove_if_dead(&entry.path());
    }
}

fn remove_if_dead(socket: &Path) {
    let refused = UnixStream::connect(socket)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if refused {
        drop(std::fs::remove_file(socket));
    }
}

async fn serve(
    mut stream: tokio::net::UnixStream,
    engine: Engine,
    session: Arc<Session>,
) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(LONGEST)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(question) => answer(&engine, &session, question).await,
        Err(error) => json!({"error": error.to_string()}),
    };
    write.write_all(format!("{answer}\n").as_bytes()).await?;
    Ok(())
}

async fn answer(engine: &Engine, session: &Session, question: JobQuestion) -> Value {
    let find = |id: &str| session.all_jobs().into_iter().find(|job| job.id().as_str() == id);
    match question {
        JobQuestion::List => {
            session.all_jobs().iter().map(|job| describe(engine, session, job)).collect()
        }
        JobQuestion::Output { job, cursor } => find(&job).map_or(Value::Null, |job| {
            let (piece, next) = engine.printed(&job, cursor, AT_ONCE);
            let mut told = describe(engine, session, &job);
            told["text"] = piece.text.into();
            told["missed"] = piece.missed.into();
            told["cursor"] = next.into();
            told
        }),
        JobQuestion::Kill { job, signal } => match (find(&job), signal.parse::<Signal>()) {
            (None, _) => Value::Null,
            (_, Err(why)) => json!({"error": why}),
            (Some(job), Ok(signal)) => {
                job.stop(signal).await;
                describe(engine, session, &job)
            }
        },
    }
}

fn describe(engine: &Engine, session: &Session, job: &Job) -> Value {
    let end = job.end();
    let exit_code = end.as_ref().and_then(|end| match end.how {
        windlass::process::ProcessEnd::Exited(code) => Some(code),
        _ => None,
    });
    json!({
        "job": job.id().as_str(),
        "session": session.id().as_str(),
        "process": std::process::id(),
        "command": engine.redact(job.command()),
        "running": end.is_none(),
        "end": end.map(|end| end.how.to_string()),
        "exit_code": exit_code,
        "seconds": job.running_for().as_secs_f64(),
        "bytes": job.printed(),
    })
}

/// The jobs of a state directory cannot be looked for.
#[derive(Debug, thiserror::Error)]
#[error("cannot look for jobs in {}", state.display())]
pub struct JobsError {
    /// The state directory.
    pub state: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// Asks every process that has jobs. The sockets of processes that are gone are removed.
pub fn ask_jobs(state: &Path, question: &JobQuestion) -> Result<Vec<Value>, JobsError> {
    let entries = match std::fs::read_dir(directory(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| JobsError { state: state.to_owned(), source })?,
    };
    let mut answers = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        match ask(&path, question) {
            Ok(Value::Array(several)) => answers.extend(several),
            Ok(Value::Null) => {}
            Ok(one) => answers.push(one),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // It may just have been made: then it is asked in vain once, and stays.
                if let Ok(_alone) = lock(&directory(state)) {
                    remove_if_dead(&path);
                }
            }
            Err(_) => {}
        }
    }
    Ok(answers)
}

fn ask(path: &Path, question: &JobQuestion) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut line = serde_json::to_string(question)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
