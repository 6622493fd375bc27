//! Queries on the catalog: checkpoints, the undos of calls, and contents.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Row};
use windlass_core::{
    CallId, ChangeWithoutHistory, Checkpoint, CheckpointQuery, ContentHash, OpenedContent,
};

use super::catalog::{self, StorageForm, Totals, path_bytes};
use super::compress;
use super::delta::SharedEnds;
use super::encoding::{Body, decode, decode_origin};
use super::frame_plan::MAX_DEPTH;
use super::objects::Objects;
use super::slot::damaged;
use crate::StoreError;
use crate::database::Database;

/// A connection for queries on the catalog.
pub(super) struct CatalogReader<'a> {
    pub(super) database: &'a Database,
    pub(super) connection: &'a Connection,
}

impl CatalogReader<'_> {
    /// The number of checkpoints, the moment of the oldest, and the totals.
    pub(super) fn counts(&self) -> Result<(u64, Option<i64>, Totals), StoreError> {
        let connection = self.connection;
        let read = || {
            Ok((
                catalog::count(connection)?,
                catalog::oldest(connection)?,
                catalog::totals(connection)?,
            ))
        };
        self.database.patiently(read).map_err(|error| self.database.error("read", &error))
    }

    /// The checkpoints that match a query, the newest first.
    pub(super) fn checkpoints(
        &self,
        query: &CheckpointQuery,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        match query {
            CheckpointQuery::Call(call) => self.all("call = ?", call.as_str()),
            CheckpointQuery::Turn(turn) => self.all("turn = ?", turn.as_str()),
            CheckpointQuery::Session(session) => self.all("session = ?", session.as_str()),
            CheckpointQuery::Workspace(workspace) => {
                self.all("workspace = ?", path_bytes(workspace))
            }
            CheckpointQuery::LastOfSession(session) => {
                self.last_step("session = ?", session.as_str())
            }
            CheckpointQuery::LastOfWorkspace(workspace) => {
                self.last_step("workspace = ?", path_bytes(workspace))
            }
        }
    }

    /// All checkpoints that match a condition on `?1`.
    fn all(
        &self,
        condition: &str,
        key: impl rusqlite::ToSql,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let mut found = Vec::new();
        self.visit_checkpoints(condition, [key], |checkpoint| {
            found.push(checkpoint);
            true
        })?;
        Ok(found)
    }

    /// The checkpoints of the newest call that is not undone and counts as a step of undo, and of newer calls that are not undone and do
    /// not count.
    fn last_step(
        &self,
        condition: &str,
        key: impl rusqlite::ToSql + Copy,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let condition = format!("{condition} AND is_undo = 0");
        let mut calls: Vec<CallId> = Vec::new();
        // Decodes only the origin of undone calls: their lists of changes may be long.
        self.visit_bodies(&condition, [key], |body, undos| {
            let Some(origin) = decode_origin(body) else { return Ok(None) };
            if undos.undo_in_effect(&origin.call)?.is_some() {
                return Ok(Some(true));
            }
            let Some(body) = decode(body) else { return Ok(None) };
            if !calls.contains(&origin.call) {
                calls.push(origin.call);
            }
            let without_history = &body.without_history;
            let is_step = !body.changes.is_empty() || without_history.is_empty();
            Ok(Some(!is_step && !without_history.iter().any(ChangeWithoutHistory::is_step)))
        })?;
        let mut found = Vec::new();
        for call in calls {
            // The plus keeps SQLite from using the index of the session or workspace.
            self.visit_checkpoints(
                &format!("+{condition} AND call = ?2"),
                (key, call.as_str()),
                |checkpoint| {
                    found.push(checkpoint);
                    true
                },
            )?;
        }
        Ok(found)
    }

    /// Passes matching checkpoints to the visitor until it returns false.
    fn visit_checkpoints(
        &self,
        condition: &str,
        keys: impl rusqlite::Params,
        mut visitor: impl FnMut(Checkpoint) -> bool,
    ) -> Result<(), StoreError> {
        self.visit_bodies(condition, keys, |body, undos| {
            let Some(Body { origin, changes, without_history }) = decode(body) else {
                return Ok(None);
            };
            let undone_by = undos.undo_in_effect(&origin.call)?;
            Ok(Some(visitor(Checkpoint { origin, changes, without_history, undone_by })))
        })
    }

    /// Passes the encoded bodies of matching checkpoints to the visitor until it returns `Some(false)`; `None` means that it cannot
    /// decode one.
    fn visit_bodies(
        &self,
        condition: &str,
        keys: impl rusqlite::Params,
        mut visitor: impl FnMut(&[u8], &mut Undos<'_>) -> rusqlite::Result<Option<bool>>,
    ) -> Result<(), StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let sql =
            format!("SELECT body FROM checkpoints WHERE {condition} ORDER BY moment DESC, id DESC");
        let mut statement = self.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(keys).map_err(failed)?;
        let mut undos = Undos::new(self.connection);
        while let Some(row) = rows.next().map_err(failed)? {
            let body = row.get_ref(0).and_then(|body| Ok(body.as_blob()?)).map_err(failed)?;
            match visitor(body, &mut undos).map_err(failed)? {
                Some(true) => {}
                Some(false) => break,
                None => return Err(self.damaged("a checkpoint in it cannot be understood")),
            }
        }
        Ok(())
    }

    /// The undo of a call, if that undo is not itself undone.
    pub(super) fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, StoreError> {
        let undone_by = Undos::new(self.connection).undo_in_effect(call);
        undone_by.map_err(|error| self.database.error("read", &error))
    }

    /// Opens a content of the catalog; `None` if it is not there.
    pub(super) fn open(
        &self,
        hash: &ContentHash,
        objects: &Objects,
    ) -> Result<Option<OpenedContent>, StoreError> {
        match self.stored(hash)? {
            None => Ok(None),
            Some(stored) if matches!(stored.form, StorageForm::NewFile | StorageForm::File) => {
                objects.open(hash).map(Some)
            }
            Some(stored) => self.content(hash, stored, objects).map(OpenedContent::Bytes).map(Some),
        }
    }

    /// Rebuilds a content from its row and the rows of its bases, and checks its hash.
    fn content(
        &self,
        hash: &ContentHash,
        mut stored: StoredContent,
        objects: &Objects,
    ) -> Result<Vec<u8>, StoreError> {
        let mut deltas = Vec::new();
        let mut next = *hash;
        let mut bytes = loop {
            let bytes = match stored.form {
                StorageForm::NewFile | StorageForm::File => objects.read(&next)?,
                StorageForm::Plain => stored.body,
                StorageForm::Lost => return Err(StoreError::Lost(*hash)),
                StorageForm::Compressed => {
                    compress::decompress(&stored.body, stored.middle_bytes()).map_err(|why| {
                        self.damaged(&format!("a content in it cannot be expanded: {why}"))
                    })?
                }
            };
            let Some(base) = stored.base else { break bytes };
            if deltas.len() > MAX_DEPTH as usize {
                return Err(self.damaged("a content in it is told by too many others"));
            }
            deltas.push((stored.common, bytes));
            next = base;
            let missing = || self.damaged("a content in it is missing its base");
            stored = self.stored(&next)?.ok_or_else(missing)?;
        };
        while let Some((common, middle)) = deltas.pop() {
            bytes = common
                .apply(&bytes, &middle)
                .ok_or_else(|| self.damaged("a content in it does not follow from its base"))?;
        }
        if ContentHash::of(&bytes) == *hash {
            Ok(bytes)
        } else {
            Err(self.damaged("a content in it is not what its hash says"))
        }
    }

    /// Reads the row of a content.
    fn stored(&self, hash: &ContentHash) -> Result<Option<StoredContent>, StoreError> {
        self.connection
            .prepare_cached(
                "SELECT form, length, base, prefix, suffix, body FROM contents WHERE hash = ?",
            )
            .and_then(|mut statement| {
                statement.query_row([hash.as_bytes()], StoredContent::read).optional()
            })
            .map_err(|error| self.database.error("read", &error))
    }

    /// The error for a damaged catalog.
    fn damaged(&self, why: &str) -> StoreError {
        damaged(&self.database.path, why)
    }
}

/// The undos of calls, cached.
struct Undos<'a> {
    connection: &'a Connection,
    /// The newest undo of each call that was looked up.
    newest: HashMap<CallId, Option<CallId>>,
    /// All undos were read: a call that is missing in `newest` has none.
    has_all: bool,
}

impl<'a> Undos<'a> {
    /// After this many lookups one by one, all undos are read at once.
    const MAX_SINGLE_QUERIES: usize = 100;

    fn new(connection: &'a Connection) -> Self {
        Self { connection, newest: HashMap::new(), has_all: false }
    }

    /// The newest undo of a call, if it is in effect. An undo can be undone, and that undo too: along the chain, every second one is in
    /// effect.
    fn undo_in_effect(&mut self, call: &CallId) -> rusqlite::Result<Option<CallId>> {
        let Some(first) = self.newest(call)? else { return Ok(None) };
        let mut undone = HashSet::new();
        let mut last = first.clone();
        // A ring of undos cannot come from this program, but must not cause an endless loop.
        while let Some(next) = self.newest(&last)?.filter(|next| !undone.contains(next)) {
            undone.insert(std::mem::replace(&mut last, next));
        }
        Ok((undone.len() % 2 == 0).then_some(first))
    }

    /// The newest undo of a call, in effect or not.
    fn newest(&mut self, call: &CallId) -> rusqlite::Result<Option<CallId>> {
        if let Some(known) = self.newest.get(call) {
            return Ok(known.clone());
        }
        if !self.has_all && self.newest.len() >= Self::MAX_SINGLE_QUERIES {
            self.read_all()?;
        }
        if self.has_all {
            return Ok(self.newest.get(call).cloned().flatten());
        }
        let newest: Option<String> = self
            .connection
            .prepare_cached(
                "SELECT undo FROM undoes WHERE call = ? ORDER BY moment DESC, id DESC LIMIT 1",
            )?
            .query_row([call.as_str()], |row| row.get(0))
            .optional()?;
        let newest = newest.map(CallId::new);
        self.newest.insert(call.clone(), newest.clone());
        Ok(newest)
    }

    /// Reads all undos into the cache.
    fn read_all(&mut self) -> rusqlite::Result<()> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT call, undo FROM undoes ORDER BY call, moment, id")?;
        let rows = statement.query_map([], |row| {
            Ok((CallId::new(row.get::<_, String>(0)?), CallId::new(row.get::<_, String>(1)?)))
        })?;
        for row in rows {
            let (call, undo) = row?;
            // The last one of a call, which is the newest, stays.
            self.newest.insert(call, Some(undo));
        }
        self.has_all = true;
        Ok(())
    }
}

/// A row of `contents`.
struct StoredContent {
    form: StorageForm,
    length: usize,
    base: Option<ContentHash>,
    common: SharedEnds,
    body: Vec<u8>,
}

impl StoredContent {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let base: Option<[u8; 32]> = row.get(2)?;
        let form: u8 = row.get(0)?;
        let form = StorageForm::read(form)
            .ok_or_else(|| rusqlite::Error::IntegralValueOutOfRange(0, i64::from(form)))?;
        Ok(Self {
            form,
            length: row.get(1)?,
            base: base.map(ContentHash::from_bytes),
            common: SharedEnds { prefix: row.get(3)?, suffix: row.get(4)? },
            body: row.get::<_, Option<Vec<u8>>>(5)?.unwrap_or_default(),
        })
    }

    /// The number of bytes between the ends that it shares with its base.
    fn middle_bytes(&self) -> usize {
        self.length.saturating_sub(self.common.prefix).saturating_sub(self.common.suffix)
    }
}
