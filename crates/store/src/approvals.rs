//! Approvals in one file, for people to look at: questions that are open, and answers that are remembered.
//!
//! The file is the person's own (0600), outside every workspace, replaced as a whole and never seen half-written; whoever changes it
//! holds a lock that dies with them. A file that cannot be understood allows nothing: it is an error, and its content stays. Nor does a
//! single entry that cannot be understood: it is passed over, and stays where it is for a person to look at.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use windlass_core::{Approval, ApprovalBook, ApprovalId, Scope, Settled, settle_in};

/// The approvals of one state directory.
///
/// ```
/// use windlass_core::ApprovalBook;
/// use windlass_store::ApprovalFile;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let book = ApprovalFile::in_state(state);
/// assert!(book.list()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ApprovalFile {
    dir: PathBuf,
}

impl ApprovalFile {
    /// The approvals of a state directory. Nothing is made before something is kept.
    pub fn in_state(state_dir: &Path) -> Self {
        Self { dir: state_dir.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.dir.join("approvals.json")
    }

    /// The entries that are passed over because they cannot be understood: why, one line each.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let state = dir.path();
    /// std::fs::write(state.join("approvals.json"), "[{\"id\": \"a1\"}]")?;
    /// let book = windlass_store::ApprovalFile::in_state(state);
    /// assert!(book.skipped()?[0].contains("entry 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped(&self) -> Result<Vec<String>, String> {
        let path = self.path();
        let why = |(at, entry): (usize, &Entry)| {
            let Entry::Broken(_, why) = entry else { return None };
            let path = path.display();
            Some(format!("entry {} of {path} is passed over, it allows nothing: {why}", at + 1))
        };
        Ok(self.entries()?.iter().enumerate().filter_map(why).collect())
    }

    /// What is in the file, understood or not.
    fn entries(&self) -> Result<Vec<Entry>, String> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let values: Vec<Value> = serde_json::from_slice(&bytes).map_err(|error| {
            format!("{} is damaged ({error}); move it away to begin anew", path.display())
        })?;
        Ok(values.into_iter().map(Entry::of).collect())
    }

    /// Returns whether there is such an entry. A look takes no lock and makes no file.
    fn has(&self, id: &ApprovalId) -> Result<bool, String> {
        Ok(self.entries()?.iter().any(|one| one.is(id)))
    }

    /// Changes the list, alone.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Entry>) -> T) -> Result<T, String> {
        let told = |what: &str, error: std::io::Error| {
            format!("cannot {what} {}: {error}", self.path().display())
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.dir).map_err(|error| told("make the directory of", error))?;
        let lock = own_file(&self.dir.join("approvals.lock"), false)
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(|error| told("lock", error))?;
        let before = self.entries()?;
        let mut all = before.clone();
        let result = change(&mut all);
        if all != before {
            self.replace(&all).map_err(|error| told("write", error))?;
        }
        drop(lock);
        Ok(result)
    }

    fn replace(&self, all: &[Entry]) -> std::io::Result<()> {
        let new = self.dir.join("approvals.json.new");
        let mut file = own_file(&new, true)?;
        file.write_all(&serde_json::to_vec_pretty(all)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path())
    }
}

/// One entry of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Entry {
    Whole(Box<Approval>),
    /// Not an approval that this version knows; and why.
    Broken(Value, #[serde(skip)] String),
}

impl Entry {
    fn of(value: Value) -> Self {
        match serde_json::from_value(value.clone()) {
            Ok(approval) => Self::Whole(Box::new(approval)),
            Err(error) => Self::Broken(value, error.to_string()),
        }
    }

    fn whole_mut(&mut self) -> Option<&mut Approval> {
        match self {
            Self::Whole(approval) => Some(approval),
            Self::Broken(..) => None,
        }
    }

    fn is(&self, id: &ApprovalId) -> bool {
        matches!(self, Self::Whole(approval) if approval.id == *id)
    }
}

fn own_file(path: &Path, truncate: bool) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

impl ApprovalBook for ApprovalFile {
    fn list(&self) -> Result<Vec<Approval>, String> {
        let whole = |entry| match entry {
            Entry::Whole(approval) => Some(*approval),
            Entry::Broken(..) => None,
        };
        Ok(self.entries()?.into_iter().filter_map(whole).collect())
    }

    fn put(&self, approval: &Approval) -> Result<(), String> {
        self.change(|all| {
            all.retain(|one| !one.is(&approval.id));
            all.push(Entry::Whole(Box::new(approval.clone())));
        })
    }

    fn remove(&self, id: &ApprovalId) -> Result<bool, String> {
        Ok(self.take(id)?.is_some())
    }

    fn settle(&self, id: &ApprovalId, settled: Settled, scope: Scope) -> Result<bool, String> {
        if !self.has(id)? {
            return Ok(false);
        }
        self.change(|all| {
            settle_in(all.iter_mut().filter_map(Entry::whole_mut), id, settled, scope)
        })
    }

    fn take(&self, id: &ApprovalId) -> Result<Option<Approval>, String> {
        if !self.has(id)? {
            return Ok(None);
        }
        self.change(|all| {
            let at = all.iter().position(|one| one.is(id))?;
            match all.remove(at) {
                Entry::Whole(approval) => Some(*approval),
                Entry::Broken(..) => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use windlass_core::{Asker, ContentHash, SessionId};

    use super::*;

    fn approval(id: &str) -> Approval {
        Approval {
            id: ApprovalId::new(id),
            subject: ContentHash::of(id.as_bytes()),
            settled: Settled::Denied("no".into()),
            scope: Scope::Project,
            session: SessionId::new("s"),
            workspace: "/w".into(),
            tool: "bash".into(),
            input: Some(serde_json::json!({"command": "make"})),
            effects: "exec make".into(),
            rule: "mode ask".into(),
            at: SystemTime::UNIX_EPOCH,
            asker: Asker { agent: Some("reviewer".into()), ..Asker::default() },
            directory: Some("sub".into()),
        }
    }

    #[test]
    fn what_is_put_is_there_for_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let book = ApprovalFile::in_state(&state);
        assert!(book.list().unwrap().is_empty());
        assert!(!book.remove(&ApprovalId::new("a")).unwrap());
        assert!(!state.exists(), "looking makes nothing");
        book.put(&approval("a")).unwrap();
        book.put(&approval("b")).unwrap();
        let changed = Approval { settled: Settled::Allowed, ..approval("a") };
        book.put(&changed).unwrap();
        let other = ApprovalFile::in_state(&state);
        assert_eq!(other.list().unwrap(), [approval("b"), changed]);
        let mode = fs::metadata(state.join("approvals.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(other.remove(&ApprovalId::new("a")).unwrap());
        assert!(!book.remove(&ApprovalId::new("a")).unwrap());
    }

    #[test]
    fn one_of_many_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let book = ApprovalFile::in_state(dir.path());
        for round in 0..20 {
            let id = format!("a{round}");
            book.put(&approval(&id)).unwrap();
            let taken: usize = std::thread::scope(|scope| {
                let take = || usize::from(book.remove(&ApprovalId::new(&*id)).unwrap());
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(taken, 1);
        }
    }

    /// Every other round, one of those who answer takes the question away instead: then one of them has it, never two.
    #[test]
    fn one_of_eight_answers_counts() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let id = ApprovalId::new(format!("a{round}"));
            let pending = Approval { settled: Settled::Pending, ..approval(id.as_str()) };
            ApprovalFile::in_state(dir.path()).put(&pending).unwrap();
            let answer = |number: usize| {
                let book = ApprovalFile::in_state(dir.path());
                if round % 2 == 1 && number == 0 {
                    return match book.take(&id).unwrap() {
                        Some(taken) => usize::from(taken.settled == Settled::Pending),
                        None => 0,
                    };
                }
                let settled = Settled::Denied(number.to_string());
                usize::from(book.settle(&id, settled, Scope::Once).unwrap())
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
        assert!(book.list().unwrap_err().contains("is damaged"));
        assert!(book.put(&approval("a")).is_err());
        assert_eq!(fs::read_to_string(book.path()).unwrap(), "garbage");
    }

    #[test]
    fn an_entry_that_cannot_be_understood_is_passed_over_and_stays() {
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
        assert!(book.remove(&ApprovalId::new("a")).unwrap());
        assert!(!book.remove(&ApprovalId::new("b")).unwrap());
        assert_eq!(book.list().unwrap(), [approval("c")]);
        assert!(fs::read_to_string(&file).unwrap().contains("perhaps"), "nothing is lost");
    }
}
