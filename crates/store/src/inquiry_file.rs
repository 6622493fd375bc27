//! The files `approvals.json` and `questions.json` of a state directory: open and answered approvals, and questions of tools.
//!
//! A file has mode 0600, lies outside every workspace and is replaced as a whole, so that no reader sees it half-written. A writer holds
//! a lock, which the kernel drops if it is killed. A file that cannot be parsed is an error: it allows nothing and its content stays. A
//! single entry that cannot be parsed also allows nothing: it is skipped and stays in the file for a person to read.
//!
//! A process that waits for an answer holds a lock on the file `waiting/ID`, which the kernel drops when the process ends. So another
//! process that answers knows whether the call still waits.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::{
    AnswerError, Approval, BookError, Inquiry, InquiryBook, QuestionRequest, WaitGuard,
};

/// A kind of inquiry that is kept in a file.
pub trait FiledInquiry: Inquiry + Serialize + DeserializeOwned + PartialEq {
    /// The name of the file, without its extension.
    const FILE: &'static str;
}

impl FiledInquiry for Approval {
    const FILE: &'static str = "approvals";
}

impl FiledInquiry for QuestionRequest {
    const FILE: &'static str = "questions";
}

/// The approvals of one state directory.
///
/// ```
/// use windlass_core::InquiryBook;
/// use windlass_store::ApprovalFile;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let book = ApprovalFile::in_state(state);
/// assert!(book.list()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type ApprovalFile = BookFile<Approval>;

/// The questions of tools of one state directory.
///
/// ```
/// use windlass_core::InquiryBook;
/// use windlass_store::QuestionFile;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// assert!(QuestionFile::in_state(state).list()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type QuestionFile = BookFile<QuestionRequest>;

/// The records of one kind in a state directory.
///
/// ```
/// use windlass_core::{Approval, InquiryBook};
/// use windlass_store::BookFile;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let book = BookFile::<Approval>::in_state(state);
/// let before = book.version();
/// let held = book.hold("a1")?;
/// assert!(book.is_held("a1")?);
/// drop(held);
/// assert!(!book.is_held("a1")? && book.version() == before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct BookFile<R> {
    dir: PathBuf,
    records: PhantomData<fn() -> R>,
}

impl<R: FiledInquiry> BookFile<R> {
    /// The file of a state directory. It is created with the first record.
    pub fn in_state(state_dir: &Path) -> Self {
        Self { dir: state_dir.to_owned(), records: PhantomData }
    }

    /// The path of the JSON file.
    fn path(&self) -> PathBuf {
        self.dir.join(R::FILE).with_extension("json")
    }

    /// One line for each entry that is skipped because it cannot be parsed, with the reason.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let state = dir.path();
    /// std::fs::write(state.join("approvals.json"), "[{\"id\": \"a1\"}]")?;
    /// let book = windlass_store::ApprovalFile::in_state(state);
    /// assert!(book.skipped()?[0].contains("entry 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped(&self) -> Result<Vec<String>, BookError> {
        let path = self.path();
        let why = |(at, entry): (usize, &Entry<R>)| {
            let Entry::Unreadable(_, why) = entry else { return None };
            let path = path.display();
            Some(format!("entry {} of {path} is skipped and allows nothing: {why}", at + 1))
        };
        Ok(self.entries()?.iter().enumerate().filter_map(why).collect())
    }

    /// All entries of the file, parsed or not.
    fn entries(&self) -> Result<Vec<Entry<R>>, BookError> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        let values: Vec<Value> = serde_json::from_slice(&bytes).map_err(|error| {
            format!(
                "{} is damaged ({error}); move it elsewhere to start with an empty one",
                path.display()
            )
        })?;
        Ok(values.into_iter().map(Entry::of).collect())
    }

    /// Returns whether there is an entry with this id. Takes no lock and creates no file.
    fn contains(&self, id: &str) -> Result<bool, BookError> {
        Ok(self.entries()?.iter().any(|one| one.has_id(id)))
    }

    /// Changes the entries under the lock, and replaces the file if they differ.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Entry<R>>) -> T) -> Result<T, BookError> {
        let failed = |what: &str, error: io::Error| {
            format!("cannot {what} {}: {error}", self.path().display())
        };
        make_dir(&self.dir).map_err(|error| failed("make the directory of", error))?;
        let lock = open_private_file(&self.dir.join(R::FILE).with_extension("lock"), false)
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(|error| failed("lock", error))?;
        let before = self.entries()?;
        let mut all = before.clone();
        let result = change(&mut all);
        if all != before {
            self.replace(&all).map_err(|error| failed("write", error))?;
        }
        drop(lock);
        Ok(result)
    }

    /// Writes a new file and renames it over the old one.
    fn replace(&self, all: &[Entry<R>]) -> io::Result<()> {
        let new = self.dir.join(R::FILE).with_extension("json.new");
        let mut file = open_private_file(&new, true)?;
        file.write_all(&serde_json::to_vec_pretty(all)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path())
    }

    /// Locks the wait file of a record with `lock`, after removing leftovers of killed processes.
    fn lock_waiting<T>(
        &self,
        id: &str,
        lock: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, BookError> {
        let path = self.wait_file(id)?;
        let dir = self.dir.join("waiting");
        let failed = |error| BookError(format!("cannot lock {}: {error}", path.display()));
        make_dir(&dir).map_err(failed)?;
        remove_leftovers(&dir);
        lock(&path).map_err(failed)
    }

    /// The path of the wait file of a record: a process that waits for the answer holds its lock.
    fn wait_file(&self, id: &str) -> Result<PathBuf, BookError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(format!("`{id}` is not the id of an approval or a question").into());
        }
        Ok(self.dir.join("waiting").join(id))
    }
}

/// One entry of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Entry<R> {
    Parsed(Box<R>),
    /// JSON that is no record of this version, and the reason.
    Unreadable(Value, #[serde(skip)] String),
}

impl<R: FiledInquiry> Entry<R> {
    /// Parses an entry.
    fn of(value: Value) -> Self {
        match serde_json::from_value(value.clone()) {
            Ok(record) => Self::Parsed(Box::new(record)),
            Err(error) => Self::Unreadable(value, error.to_string()),
        }
    }

    /// The record, if the entry could be parsed.
    fn parsed(&self) -> Option<&R> {
        match self {
            Self::Parsed(record) => Some(record),
            Self::Unreadable(..) => None,
        }
    }

    fn parsed_mut(&mut self) -> Option<&mut R> {
        match self {
            Self::Parsed(record) => Some(record),
            Self::Unreadable(..) => None,
        }
    }

    /// Returns whether this is a parsed record with this id.
    fn has_id(&self, id: &str) -> bool {
        self.parsed().is_some_and(|record| record.id() == id)
    }
}

/// Opens a file for writing, created with mode 0600 if it is missing.
fn open_private_file(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

/// Creates a directory with mode 0700, with its parents.
fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A locked wait file. Dropping this removes the file and ends the lock.
struct WaitLock {
    path: PathBuf,
    _locked: File,
}

impl WaitLock {
    /// Waits for the lock.
    fn begin(path: &Path) -> io::Result<Self> {
        loop {
            let file = open_private_file(path, false)?;
            file.lock()?;
            if let Some(wait_file) = Self::of(path, file) {
                return Ok(wait_file);
            }
        }
    }

    /// Takes the lock unless another process or another call of this one has it.
    fn try_begin(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = open_private_file(path, false)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if let Some(wait_file) = Self::of(path, file) {
                return Ok(Some(wait_file));
            }
        }
    }

    /// Wraps a locked file, if the path still names it: another process may have removed it as a leftover before it was locked.
    fn of(path: &Path, locked: File) -> Option<Self> {
        let is_there = fs::metadata(path)
            .is_ok_and(|there| locked.metadata().is_ok_and(|mine| mine.ino() == there.ino()));
        is_there.then(|| Self { path: path.to_owned(), _locked: locked })
    }
}

impl Drop for WaitLock {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Removes the wait files of killed processes, which are those that can be locked.
fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            drop(fs::remove_file(&path));
        }
    }
}

impl<R: FiledInquiry> InquiryBook<R> for BookFile<R> {
    fn list(&self) -> Result<Vec<R>, BookError> {
        let parsed = |entry| match entry {
            Entry::Parsed(record) => Some(*record),
            Entry::Unreadable(..) => None,
        };
        Ok(self.entries()?.into_iter().filter_map(parsed).collect())
    }

    fn put(&self, record: &R) -> Result<(), BookError> {
        let now = record.asked();
        let stays = |one: &Entry<R>| {
            one.parsed().is_none_or(|one| one.id() != record.id() && !one.is_outdated(now))
        };
        self.change(|all| {
            all.retain(stays);
            all.push(Entry::Parsed(Box::new(record.clone())));
        })
    }

    fn write_answer(&self, id: &str, answer: R::Answer, now: SystemTime) -> Result<R, AnswerError> {
        if !self.contains(id).map_err(AnswerError::Record)? {
            return Err(AnswerError::Unknown);
        }
        let settle = |all: &mut Vec<Entry<R>>| {
            let found = all.iter_mut().filter_map(Entry::parsed_mut).find(|one| one.id() == id);
            let found = found.ok_or(AnswerError::Unknown)?;
            found.write_answer(answer, now).map(|()| found.clone())
        };
        self.change(settle).map_err(AnswerError::Record)?
    }

    fn take(&self, id: &str) -> Result<Option<R>, BookError> {
        if !self.contains(id)? {
            return Ok(None);
        }
        self.change(|all| {
            let at = all.iter().position(|one| one.has_id(id))?;
            match all.remove(at) {
                Entry::Parsed(record) => Some(*record),
                Entry::Unreadable(..) => None,
            }
        })
    }

    fn update(&self, id: &str, change: &mut dyn FnMut(&mut R)) -> Result<bool, BookError> {
        if !self.contains(id)? {
            return Ok(false);
        }
        self.change(|all| {
            let found = all.iter_mut().filter_map(Entry::parsed_mut).find(|one| one.id() == id);
            found.map(change).is_some()
        })
    }

    /// A hash of inode, size and time of the file: each change makes a new file.
    fn version(&self) -> u64 {
        let Ok(file) = fs::metadata(self.path()) else { return 0 };
        let mut hasher = DefaultHasher::new();
        (file.ino(), file.len(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
        hasher.finish()
    }

    fn hold(&self, id: &str) -> Result<WaitGuard, BookError> {
        self.lock_waiting(id, WaitLock::begin).map(WaitGuard::by)
    }

    fn claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        Ok(self.lock_waiting(id, WaitLock::try_begin)?.map(WaitGuard::by))
    }

    fn is_held(&self, id: &str) -> Result<bool, BookError> {
        let path = self.wait_file(id)?;
        let failed =
            |error: io::Error| BookError(format!("cannot look at {}: {error}", path.display()));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use windlass_core::{
        Answer, ApprovalId, ApprovalState, ContentHash, ModelCallPosition, Requester, Scope,
        SessionId,
    };

    use super::*;

    fn approval(id: &str) -> Approval {
        Approval {
            id: ApprovalId::new(id),
            call: None,
            subject: ContentHash::of(id.as_bytes()),
            settled: ApprovalState::Denied("no".into()),
            scope: Scope::Project,
            session: SessionId::new("s"),
            workspace: "/w".into(),
            tool: "bash".into(),
            input: Some(serde_json::json!({"command": "make"})),
            shown: Some("make".into()),
            effects: "exec make".into(),
            rule: "mode ask".into(),
            at: SystemTime::UNIX_EPOCH,
            asker: Requester { agent: Some("reviewer".into()), ..Requester::default() },
            directory: Some("sub".into()),
            expires: None,
            who: None,
            reason: None,
            edited: None,
            rights: None,
            denies: Vec::new(),
            offers: Vec::new(),
            rules: Vec::new(),
            has_run: false,
            ended: None,
            call_subject: None,
            can_be_remembered: true,
            made: ModelCallPosition::default(),
            is_journaled: false,
        }
    }

    #[test]
    fn a_record_is_read_by_another_instance() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let book = ApprovalFile::in_state(&state);
        assert!(book.list().unwrap().is_empty());
        assert!(!book.remove("a").unwrap());
        assert!(!state.exists(), "reading creates no file");
        book.put(&approval("a")).unwrap();
        book.put(&approval("b")).unwrap();
        let changed = Approval { settled: ApprovalState::Allowed, ..approval("a") };
        book.put(&changed).unwrap();
        let other = ApprovalFile::in_state(&state);
        assert_eq!(other.list().unwrap(), [approval("b"), changed]);
        let mode = fs::metadata(state.join("approvals.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(other.remove("a").unwrap());
        assert!(!book.remove("a").unwrap());
    }

    #[test]
    fn one_of_several_threads_removes_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        for round in 0..20 {
            let id = format!("a{round}");
            book.put(&approval(&id)).unwrap();
            let taken: usize = std::thread::scope(|scope| {
                let take = || usize::from(book.remove(&id).unwrap());
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(taken, 1);
        }
    }

    /// Every other round, one thread takes the record away instead of answering it: then one thread has it, never two.
    #[test]
    fn only_one_of_eight_answers_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let id = format!("a{round}");
            let pending =
                Approval { settled: ApprovalState::Pending, scope: Scope::Once, ..approval(&id) };
            ApprovalFile::in_state(dir.path()).put(&pending).unwrap();
            let answer = |number: usize| {
                let book = ApprovalFile::in_state(dir.path());
                if round % 2 == 1 && number == 0 {
                    return match book.take(&id).unwrap() {
                        Some(taken) => usize::from(taken.settled == ApprovalState::Pending),
                        None => 0,
                    };
                }
                let answer = Answer::deny(number.to_string());
                usize::from(book.write_answer(&id, answer, SystemTime::UNIX_EPOCH).is_ok())
            };
            let counted: usize = std::thread::scope(|scope| {
                let answer = &answer;
                let threads: Vec<_> =
                    (0..8).map(|number| scope.spawn(move || answer(number))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(counted, 1, "round {round}");
        }
    }

    #[test]
    fn a_damaged_file_allows_nothing_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        fs::write(book.path(), "garbage").unwrap();
        assert!(book.list().unwrap_err().to_string().contains("is damaged"));
        assert!(book.put(&approval("a")).is_err());
        assert_eq!(fs::read_to_string(book.path()).unwrap(), "garbage");
    }

    #[test]
    fn an_entry_that_cannot_be_parsed_is_skipped_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        book.put(&approval("a")).unwrap();
        let file = dir.path().join("approvals.json");
        let mut all: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        all.insert(0, serde_json::json!({"id": "b", "settled": "perhaps"}));
        fs::write(&file, serde_json::to_vec(&all).unwrap()).unwrap();
        assert_eq!(book.list().unwrap(), [approval("a")]);
        let [skipped] = &book.skipped().unwrap()[..] else { panic!("one is broken") };
        assert!(skipped.contains("entry 1") && skipped.contains("perhaps"), "{skipped}");
        book.put(&approval("c")).unwrap();
        assert!(book.remove("a").unwrap());
        assert!(!book.remove("b").unwrap());
        assert_eq!(book.list().unwrap(), [approval("c")]);
        assert!(fs::read_to_string(&file).unwrap().contains("perhaps"), "nothing is lost");
    }

    #[test]
    fn a_late_answer_is_refused_and_the_record_is_removed_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        let pending = |id: &str, day: u64| Approval {
            settled: ApprovalState::Pending,
            scope: Scope::Once,
            at: SystemTime::UNIX_EPOCH + Duration::from_hours(24 * day),
            ..approval(id)
        };
        book.put(&pending("a", 0)).unwrap();
        let day = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_hours(24 * day);
        let settle =
            |id: &str, answer: Answer, now| book.write_answer(id, answer, now).map(|one| one.id);
        assert_eq!(settle("a", Answer::allow(), day(8)), Err(AnswerError::Expired));
        book.put(&pending("b", 30)).unwrap();
        assert_eq!(settle("a", Answer::allow(), day(30)), Err(AnswerError::Expired));
        book.put(&pending("c", 40)).unwrap();
        assert_eq!(settle("a", Answer::allow(), day(40)), Err(AnswerError::Unknown));
        assert_eq!(settle("c", Answer::allow(), day(46)), Ok(ApprovalId::new("c")));
        assert_eq!(settle("c", Answer::deny("no"), day(46)), Err(AnswerError::Answered));
    }

    #[test]
    fn a_killed_process_does_not_wait_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        assert!(!book.is_held("a1").unwrap());
        let held = book.hold("a1").unwrap();
        assert!(ApprovalFile::in_state(dir.path()).is_held("a1").unwrap());
        // A file without a lock is what a killed process leaves.
        fs::write(dir.path().join("waiting/a2"), "").unwrap();
        assert!(!book.is_held("a2").unwrap());
        let other = book.hold("a3").unwrap();
        assert!(book.is_held("a1").unwrap() && book.is_held("a3").unwrap());
        assert!(book.claim("a1").unwrap().is_none(), "another one has it");
        drop((held, other));
        let claim = book.claim("a1").unwrap().unwrap();
        assert!(book.is_held("a1").unwrap() && book.claim("a1").unwrap().is_none());
        drop(claim);
        assert!(fs::read_dir(dir.path().join("waiting")).unwrap().next().is_none());
        for id in ["", "..", "a/b", "../approvals.json"] {
            assert!(book.hold(id).is_err() && book.is_held(id).is_err(), "{id}");
        }
    }
}
