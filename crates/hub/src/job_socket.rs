//! A socket in the state directory by which other processes inspect jobs: one line of JSON each way.
//!
//! Jobs live in the process whose session started them, and are not stored on disk. A socket whose process is dead is removed by
//! the next process that asks.

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

/// Maximum bytes of a question.
const MAX_QUESTION_BYTES: u64 = 64 << 10;
/// Maximum bytes of output in one answer.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// A question about the jobs of other processes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum JobQuestion {
    /// Lists the jobs.
    List,
    /// Requests the output of a job, from a byte offset on.
    Output {
        /// The job's id.
        job: String,
        /// The byte offset.
        cursor: u64,
    },
    /// Ends a job.
    Kill {
        /// The job's id.
        job: String,
        /// Name of the signal that it gets first.
        signal: String,
    },
}

/// Answers questions about the jobs of a session until it is dropped.
#[derive(Debug)]
pub struct JobSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl JobSocket {
    /// Opens the socket; `None` if that fails. Must be called inside a runtime.
    pub(crate) fn open(state: &Path, engine: &Engine, session: &Arc<Session>) -> Option<Self> {
        let directory = socket_directory(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        let listener = {
            // Between `bind` and `listen`, a socket looks like one that a dead process left, so sweeping and creating exclude each
            // other.
            let _alone = lock(&directory).ok()?;
            remove_dead_sockets(&directory);
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
                    // A process that disconnected needs no answer.
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

/// Returns the directory of the sockets.
fn socket_directory(state: &Path) -> PathBuf {
    state.join("jobs")
}

/// Locks the directory, so that no other process creates or removes sockets until the file is closed.
fn lock(directory: &Path) -> io::Result<std::fs::File> {
    let file = std::fs::File::open(directory)?;
    file.lock()?;
    Ok(file)
}

/// Removes the sockets of processes that were killed. The caller holds the lock.
fn remove_dead_sockets(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        remove_if_dead(&entry.path());
    }
}

/// Removes a socket that no process listens on.
fn remove_if_dead(socket: &Path) {
    let refused = UnixStream::connect(socket)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if refused {
        drop(std::fs::remove_file(socket));
    }
}

/// Answers one connection.
async fn serve(
    mut stream: tokio::net::UnixStream,
    engine: Engine,
    session: Arc<Session>,
) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(MAX_QUESTION_BYTES)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(question) => answer(&engine, &session, question).await,
        Err(error) => json!({"error": error.to_string()}),
    };
    write.write_all(format!("{answer}\n").as_bytes()).await?;
    Ok(())
}

/// Answers one question.
async fn answer(engine: &Engine, session: &Session, question: JobQuestion) -> Value {
    let find = |id: &str| session.all_jobs().into_iter().find(|job| job.id().as_str() == id);
    match question {
        JobQuestion::List => {
            session.all_jobs().iter().map(|job| describe(engine, session, job)).collect()
        }
        JobQuestion::Output { job, cursor } => find(&job).map_or(Value::Null, |job| {
            let (piece, next) = engine.printed(&job, cursor, MAX_OUTPUT_BYTES);
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

/// Describes a job as JSON.
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

/// Error: the jobs of a state directory cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot look for jobs in {}", state.display())]
pub struct JobsError {
    /// The state directory.
    pub state: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// Asks every process that has jobs, and collects the answers. Removes the sockets of dead processes.
pub fn ask_jobs(state: &Path, question: &JobQuestion) -> Result<Vec<Value>, JobsError> {
    let entries = match std::fs::read_dir(socket_directory(state)) {
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
                // A socket that was just created also refuses: then this question misses it, and it is checked again under the
                // lock.
                if let Ok(_alone) = lock(&socket_directory(state)) {
                    remove_if_dead(&path);
                }
            }
            Err(_) => {}
        }
    }
    Ok(answers)
}

/// Asks one process.
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
