//! The chain of the journal: each record's hash covers its fields and the hash of the record before it.
//!
//! A body enters by its own hash, so the bodies of a deleted session can be emptied while the chain holds. There is no key: a process that
//! can write the state directory can make a new chain. Every change is detected unless all later records and the anchor are rewritten
//! too.

use rusqlite::{Connection, OptionalExtension as _, Row, types::ValueRef};
use windlass_core::RecordKind;

use crate::tables::TableCache;

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// The last record of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainHead {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
}

impl ChainHead {
    /// The head of a journal without records.
    pub(crate) const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredKind {
    /// A call passed the policy and is about to begin.
    Started,
    /// A call ended, whether it had begun or not.
    Finished,
    /// A job that a call had started ended, and had changed files.
    JobEnded,
    /// A running call asked for effects that its plan did not declare, and policy decided.
    Extended,
    /// Recovery finished or took back changes that a killed process had left unfinished.
    Recovered,
    /// A person was asked whether a call may run.
    Approval,
    /// A person answered whether a call may run.
    ApprovalAnswered,
    /// A tool asked a person a question.
    Question,
    /// A person answered the question of a tool.
    QuestionAnswered,
    /// A message of a person, a model or an agent.
    Message,
    /// A request to a model.
    Request,
    /// State of a session changed.
    State,
    /// The state of a task changed.
    Task,
    /// A session began, or went on in another workspace.
    SessionStarted,
    /// A session was deleted: the bodies of its records up to here are gone.
    SessionDeleted,
    /// The journal did not reach its anchor, or had none: records before this one may have been cut off.
    TailLost,
    /// A kind that this version does not know.
    Unknown,
}

impl StoredKind {
    const KNOWN: [Self; 16] = [
        Self::Started,
        Self::Finished,
        Self::JobEnded,
        Self::Extended,
        Self::Recovered,
        Self::Approval,
        Self::ApprovalAnswered,
        Self::Question,
        Self::QuestionAnswered,
        Self::Message,
        Self::Request,
        Self::State,
        Self::Task,
        Self::SessionStarted,
        Self::SessionDeleted,
        Self::TailLost,
    ];

    /// The name of the kind in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished => "finished",
            Self::JobEnded => "job_ended",
            Self::Extended => "extended",
            Self::Recovered => "recovered",
            Self::Approval => "approval",
            Self::ApprovalAnswered => "approval_answered",
            Self::Question => "question",
            Self::QuestionAnswered => "question_answered",
            Self::Message => "message",
            Self::Request => "request",
            Self::State => "state",
            Self::Task => "task",
            Self::SessionStarted => "session_started",
            Self::SessionDeleted => "session_deleted",
            Self::TailLost => "tail_lost",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether records of this kind belong to a session, and neither begin nor end a call.
    pub(crate) fn is_note(self) -> bool {
        use StoredKind::{
            Approval, ApprovalAnswered, Extended, Message, Question, QuestionAnswered, Request,
            State, Task,
        };
        matches!(
            self,
            Approval
                | ApprovalAnswered
                | Extended
                | Question
                | QuestionAnswered
                | Message
                | Request
                | State
                | Task
        )
    }

    /// Parses a name in the journal; an unknown one is [`StoredKind::Unknown`].
    pub(crate) fn parse(name: &[u8]) -> Self {
        Self::KNOWN
            .into_iter()
            .find(|kind| kind.as_str().as_bytes() == name)
            .unwrap_or(Self::Unknown)
    }
}

impl From<RecordKind> for StoredKind {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Started => Self::Started,
            RecordKind::Finished(_) => Self::Finished,
            RecordKind::JobEnded => Self::JobEnded,
            RecordKind::Extended => Self::Extended,
            RecordKind::Recovered => Self::Recovered,
            RecordKind::Approval => Self::Approval,
            RecordKind::ApprovalAnswered => Self::ApprovalAnswered,
            RecordKind::Question => Self::Question,
            RecordKind::QuestionAnswered => Self::QuestionAnswered,
            RecordKind::Message => Self::Message,
            RecordKind::Request => Self::Request,
            RecordKind::State => Self::State,
            RecordKind::Task => Self::Task,
        }
    }
}

/// The fields of a record to append. An empty session, turn, call or tool means that the record has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub(crate) at: i64,
    pub(crate) session: &'a str,
    pub(crate) turn: &'a str,
    pub(crate) call: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) kind: StoredKind,
    pub(crate) outcome: Option<&'a str>,
    pub(crate) body: &'a str,
}

/// The end of the journal inside a transaction that holds the write lock; records are appended here.
#[derive(Debug)]
pub(crate) struct Chain<'tx> {
    pub(crate) connection: &'tx Connection,
    pub(crate) head: ChainHead,
    /// Pending rows and cached contents of the derived tables.
    pub(crate) table_cache: TableCache,
}

impl<'tx> Chain<'tx> {
    /// Reads the last record of the journal.
    pub(crate) fn at_end(connection: &'tx Connection) -> rusqlite::Result<Self> {
        let mut statement =
            connection.prepare_cached("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1")?;
        let head = statement
            .query_row([], |row| Ok(ChainHead { seq: row.get(0)?, hash: row.get(1)? }))
            .optional()?;
        let head = head.unwrap_or(ChainHead::START);
        Ok(Self { connection, head, table_cache: TableCache::default() })
    }

    /// Appends a record and returns its number.
    pub(crate) fn append(&mut self, entry: &NewRecord<'_>) -> rusqlite::Result<u64> {
        let seq = self.head.seq + 1;
        let body_hash = *blake3::hash(entry.body.as_bytes()).as_bytes();
        let hash = HashedFields {
            seq: seq.cast_signed(),
            at: entry.at,
            session: entry.session.as_bytes(),
            turn: entry.turn.as_bytes(),
            call: entry.call.as_bytes(),
            tool: entry.tool.as_bytes(),
            kind: entry.kind.as_str().as_bytes(),
            outcome: entry.outcome.map(str::as_bytes),
            body_hash: &body_hash,
        }
        .hash(&self.head.hash);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO journal (seq, at, session, turn, call, tool, kind, outcome, body_hash, hash, body) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        statement.execute((
            seq,
            entry.at,
            entry.session,
            entry.turn,
            entry.call,
            entry.tool,
            entry.kind.as_str(),
            entry.outcome,
            &body_hash,
            &hash,
            entry.body,
        ))?;
        self.head = ChainHead { seq, hash };
        Ok(seq)
    }

    /// The stored hash of the record with this number, if there is one.
    pub(crate) fn hash_of(&self, seq: u64) -> rusqlite::Result<Option<Hash>> {
        self.connection
            .prepare_cached("SELECT hash FROM journal WHERE seq = ?")?
            .query_row([seq], |row| row.get(0))
            .optional()
    }
}

/// The fields that the hash of a record covers, as bytes, so that damaged text can be hashed too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashedFields<'row> {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) session: &'row [u8],
    pub(crate) turn: &'row [u8],
    pub(crate) call: &'row [u8],
    pub(crate) tool: &'row [u8],
    pub(crate) kind: &'row [u8],
    pub(crate) outcome: Option<&'row [u8]>,
    pub(crate) body_hash: &'row [u8],
}

impl HashedFields<'_> {
    /// Hashes the fields together with the previous record's hash. Each text is hashed with its length, so that moving a letter from one
    /// field to the next changes the hash.
    pub(crate) fn hash(&self, previous: &Hash) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(previous);
        hasher.update(&self.seq.to_le_bytes());
        hasher.update(&self.at.to_le_bytes());
        for text in [self.session, self.turn, self.call, self.tool, self.kind] {
            update_sized(&mut hasher, text);
        }
        match self.outcome {
            Some(outcome) => update_sized(&mut hasher, outcome),
            None => {
                hasher.update(&u64::MAX.to_le_bytes());
            }
        }
        update_sized(&mut hasher, self.body_hash);
        *hasher.finalize().as_bytes()
    }
}

/// Hashes the length of the bytes and the bytes.
fn update_sized(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// The columns of a record, in the order of [`StoredRecord::read`].
pub(crate) const COLUMNS: &str =
    "seq, at, session, turn, call, tool, kind, outcome, body_hash, hash, body";

/// A record as raw bytes of the database, which may be damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRecord<'row> {
    pub(crate) fields: HashedFields<'row>,
    pub(crate) hash: &'row [u8],
    pub(crate) body: Option<&'row [u8]>,
}

impl<'row> StoredRecord<'row> {
    /// Reads a row with [`COLUMNS`].
    pub(crate) fn read(row: &'row Row<'_>) -> rusqlite::Result<Self> {
        let fields = HashedFields {
            seq: row.get(0)?,
            at: row.get(1)?,
            session: bytes(row, 2)?.unwrap_or_default(),
            turn: bytes(row, 3)?.unwrap_or_default(),
            call: bytes(row, 4)?.unwrap_or_default(),
            tool: bytes(row, 5)?.unwrap_or_default(),
            kind: bytes(row, 6)?.unwrap_or_default(),
            outcome: bytes(row, 7)?,
            body_hash: bytes(row, 8)?.unwrap_or_default(),
        };
        Ok(Self { fields, hash: bytes(row, 9)?.unwrap_or_default(), body: bytes(row, 10)? })
    }
}

/// The raw bytes of a text or blob column; `None` for other types.
pub(crate) fn bytes<'row>(
    row: &'row Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<&'row [u8]>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: HashedFields<'static> = HashedFields {
        seq: 7,
        at: 9,
        session: b"session",
        turn: b"turn",
        call: b"call",
        tool: b"tool",
        kind: b"started",
        outcome: None,
        body_hash: &[3; 32],
    };

    #[test]
    fn every_field_and_the_previous_record_are_in_the_hash() {
        let other = [
            HashedFields { seq: 8, ..FIELDS },
            HashedFields { at: 8, ..FIELDS },
            HashedFields { session: b"sessio", ..FIELDS },
            HashedFields { turn: b"Turn", ..FIELDS },
            HashedFields { call: b"calls", ..FIELDS },
            HashedFields { tool: b"", ..FIELDS },
            HashedFields { kind: b"finished", ..FIELDS },
            HashedFields { outcome: Some(b""), ..FIELDS },
            HashedFields { outcome: Some(b"ok"), ..FIELDS },
            HashedFields { body_hash: &[4; 32], ..FIELDS },
            HashedFields { session: b"sessiont", turn: b"urn", ..FIELDS },
        ];
        let mut hashes: Vec<Hash> = other.iter().map(|fields| fields.hash(&[0; 32])).collect();
        hashes.push(FIELDS.hash(&[0; 32]));
        hashes.push(FIELDS.hash(&[1; 32]));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn the_hash_is_the_same_in_every_version() {
        let hash = blake3::Hash::from_bytes(FIELDS.hash(&ChainHead::START.hash)).to_hex();
        assert_eq!(
            hash.as_str(),
            "48b7767a49ed6d5fa673a1ff136f40564da72c5bdd1da976c2807c8d1d609ecc"
        );
    }

    #[test]
    fn kinds_come_back_by_name() {
        for kind in StoredKind::KNOWN {
            assert_eq!(StoredKind::parse(kind.as_str().as_bytes()), kind);
        }
        assert_eq!(StoredKind::parse(b"Started"), StoredKind::Unknown);
    }
}
