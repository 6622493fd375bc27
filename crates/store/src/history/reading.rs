//! Looking back: checkpoints by what they are asked for, which of them were undone, and contents.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Row};
use windlass_core::{CallId, Checkpoint, ContentHash, Opened, Query, WithoutHistory};

use super::catalog::{self, Form, Totals, bytes_of};
use super::compress;
use super::delta::Common;
use super::encoding::{Body, decode, decode_origin};
use super::objects::Objects;
use super::plan::MAX_DEPTH;
use super::slot::damaged;
use crate::StoreError;
use crate::database::Database;

/// Reading from the catalog.
pub(super) struct Reading<'a> {
    pub(super) database: &'a Database,
    pub(super) connection: &'a Connection,
}

impl Reading<'_> {
    /// How many checkpoints there are, when the oldest was made, and the rest.
    pub(super) fn numbers(&self) -> Result<(u64, Option<i64>, Totals), StoreError> {
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

    /// The checkpoints that are meant, the newest first.
    pub(super) fn checkpoints(&self, query: &Query) -> Result<Vec<Checkpoint>, StoreError> {
        match query {
            Query::Call(call) => self.all("call = ?", call.as_str()),
            Query::Turn(turn) => self.all("turn = ?", turn.as_str()),
            Query::Session(session) => self.all("session = ?", session.as_str()),
            Query::Workspace(workspace) => self.all("workspace = ?", bytes_of(workspace)),
            Query::LastOfSession(session) => self.last("session = ?", session.as_str()),
            Query::LastOfWorkspace(workspace) => self.last("workspace = ?", bytes_of(workspace)),
        }
    }

    fn all(&self, which: &str, key: impl rusqlite::ToSql) -> Result<Vec<Checkpoint>, StoreError> {
        let mut found = Vec::new();
        self.visit(which, [key], |checkpoint| {
            found.push(checkpoint);
            true
        })?;
        Ok(found)
    }

    /// Those of the newest call in effect that is a step of undoing, and of the newer ones that are none.
    fn last(
        &self,
        which: &str,
        key: impl rusqlite::ToSql + Copy,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let which = format!("{which} AND is_undo = 0");
        let mut calls: Vec<CallId> = Vec::new();
        // What they changed may be a long list, and only the newest is needed.
        self.visit_bodies(&which, [key], |body, undos| {
            let Some(origin) = decode_origin(body) else { return Ok(None) };
            if undos.in_effect(&origin.call)?.is_some() {
                return Ok(Some(true));
            }
            let Some(body) = decode(body) else { return Ok(None) };
            if !calls.contains(&origin.call) {
                calls.push(origin.call);
            }
            let without_history = &body.without_history;
            let is_step = !body.changes.is_empty() || without_history.is_empty();
            Ok(Some(!is_step && !without_history.iter().any(WithoutHistory::is_step)))
        })?;
        let mut found = Vec::new();
        for call in calls {
            // The plus keeps SQLite from going through the whole session or workspace.
            self.visit(&format!("+{which} AND call = ?2"), (key, call.as_str()), |checkpoint| {
                found.push(checkpoint);
                true
            })?;
        }
        Ok(found)
    }

    /// Hands on what is found, until the visitor has enough.
    fn visit(
        &self,
        which: &str,
        keys: impl rusqlite::Params,
        mut visitor: impl FnMut(Checkpoint) -> bool,
    ) -> Result<(), StoreError> {
        self.visit_bodies(which, keys, |body, undos| {
            let Some(Body { origin, changes, without_history }) = decode(body) else {
                return Ok(None);
            };
            let undone_by = undos.in_effect(&origin.call)?;
            Ok(Some(visitor(Checkpoint { origin, changes, without_history, undone_by })))
        })
    }

    /// The same for checkpoints as they are kept. The visitor has none for one that it does not understand.
    fn visit_bodies(
        &self,
        which: &str,
        keys: impl rusqlite::Params,
        mut visitor: impl FnMut(&[u8], &mut Undos<'_>) -> rusqlite::Result<Option<bool>>,
    ) -> Result<(), StoreError> {
        let failed = |error: rusqlite::Error| self.database.error("read", &error);
        let sql =
            format!("SELECT body FROM checkpoints WHERE {which} ORDER BY moment DESC, id DESC");
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

    /// The undo that took a call back, if it is in effect.
    pub(super) fn undone_by(&self, call: &CallId) -> Result<Option<CallId>, StoreError> {
        let undone_by = Undos::new(self.connection).in_effect(call);
        undone_by.map_err(|error| self.database.error("read", &error))
    }

    /// Opens bytes that were kept.
    pub(super) fn open(
        &self,
        hash: &ContentHash,
        objects: &Objects,
    ) -> Result<Option<Opened>, StoreError> {
        match self.kept(hash)? {
            None => Ok(None),
            Some(kept) if matches!(kept.form, Form::NewFile | Form::File) => {
                objects.open(hash).map(Some)
            }
            Some(kept) => self.content(hash, kept, objects).map(Opened::Bytes).map(Some),
        }
    }

    fn content(
        &self,
        hash: &ContentHash,
        mut kept: Kept,
        objects: &Objects,
    ) -> Result<Vec<u8>, StoreError> {
        let mut deltas = Vec::new();
        let mut next = *hash;
        let mut bytes = loop {
            let bytes = match kept.form {
                Form::NewFile | Form::File => objects.read(&next)?,
                Form::Plain => kept.body,
                Form::Lost => return Err(StoreError::Lost(*hash)),
                Form::Compressed => {
                    compress::expand(&kept.body, kept.between()).map_err(|why| {
                        self.damaged(&format!("a content in it cannot be expanded: {why}"))
                    })?
                }
            };
            let Some(base) = kept.base else { break bytes };
            if deltas.len() > MAX_DEPTH as usize {
                return Err(self.damaged("a content in it is told by too many others"));
            }
            deltas.push((kept.common, bytes));
            next = base;
            let missing = || self.damaged("a content in it is missing its base");
            kept = self.kept(&next)?.ok_or_else(missing)?;
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

    fn kept(&self, hash: &ContentHash) -> Result<Option<Kept>, StoreError> {
        self.connection
            .prepare_cached(
                "SELECT form, length, base, prefix, suffix, body FROM contents WHERE hash = ?",
            )
            .and_then(|mut statement| statement.query_row([hash.as_bytes()], Kept::read).optional())
            .map_err(|error| self.database.error("read", &error))
    }

    fn damaged(&self, why: &str) -> StoreError {
        damaged(&self.database.path, why)
    }
}

/// Which calls were undone by which.
struct Undos<'a> {
    connection: &'a Connection,
    /// The newest undo of a call, as far as it was asked for.
    newest: HashMap<CallId, Option<CallId>>,
    /// Whether all are known that there are.
    is_whole: bool,
}

impl<'a> Undos<'a> {
    /// So many are asked for one by one.
    const FEW: usize = 100;

    fn new(connection: &'a Connection) -> Self {
        Self { connection, newest: HashMap::new(), is_whole: false }
    }

    /// The newest undo of a call, if that is in effect. Undos can be undone, and that too: every second one is.
    fn in_effect(&mut self, call: &CallId) -> rusqlite::Result<Option<CallId>> {
        let Some(first) = self.newest(call)? else { return Ok(None) };
        let mut undone = HashSet::new();
        let mut last = first.clone();
        // Calls that undo each other in a ring are not of our making, but must not keep us here.
        while let Some(next) = self.newest(&last)?.filter(|next| !undone.contains(next)) {
            undone.insert(std::mem::replace(&mut last, next));
        }
        Ok((undone.len() % 2 == 0).then_some(first))
    }

    fn newest(&mut self, call: &CallId) -> rusqlite::Result<Option<CallId>> {
        if let Some(known) = self.newest.get(call) {
            return Ok(known.clone());
        }
        if !self.is_whole && self.newest.len() >= Self::FEW {
            self.read_all()?;
        }
        if self.is_whole {
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

    fn read_all(&mut self) -> rusqlite::Result<()> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT call, undo FROM undoes ORDER BY call, moment, id")?;
        let rows = statement.query_map([], |row| {
            Ok((CallId::new(row.get::<_, String>(0)?), CallId::new(row.get::<_, String>(1)?)))
        })?;
        for row in rows {
            let (call, undo) = row?;
            // The last of a call stays.
            self.newest.insert(call, Some(undo));
        }
        self.is_whole = true;
        Ok(())
    }
}

/// A content as it is kept.
struct Kept {
    form: Form,
    length: usize,
    base: Option<ContentHash>,
    common: Common,
    body: Vec<u8>,
}

impl Kept {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let base: Option<[u8; 32]> = row.get(2)?;
        let form: u8 = row.get(0)?;
        let form = Form::read(form)
            .ok_or_else(|| rusqlite::Error::IntegralValueOutOfRange(0, i64::from(form)))?;
        Ok(Self {
            form,
            length: row.get(1)?,
            base: base.map(ContentHash::from_bytes),
            common: Common { prefix: row.get(3)?, suffix: row.get(4)? },
            body: row.get::<_, Option<Vec<u8>>>(5)?.unwrap_or_default(),
        })
    }

    /// How many bytes are between what it has in common with its base.
    fn between(&self) -> usize {
        self.length.saturating_sub(self.common.prefix).saturating_sub(self.common.suffix)
    }
}
