//! The catalog, the database of the history: checkpoints in the order of time, and their contents, each once.
//!
//! A checkpoint is one row, with its origin and changes in the body. It holds the contents that came with it, and a content that is a delta
//! holds its base: each content counts its holders and is removed with the last of them. The total space is kept in `totals` and
//! updated in the same transactions, so that it need not be summed.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row};
use windlass_core::{ContentHash, Origin};

use super::delta::SharedEnds;
use super::encoding::decode_origin;
use super::slot::{CheckpointId, SlotHeader};
use crate::database::Layout;
use crate::log_format::Generation;

/// The undo database. Bodies come last, so that reading the other columns never walks their pages.
pub(super) const UNDO: Layout = Layout {
    file: "undo.db",
    version: 1,
    lock_file: "undo.lock",
    lock_file_is_anchor: false,
    tables: "
    CREATE TABLE checkpoints (
        moment INTEGER NOT NULL, id BLOB NOT NULL,
        call TEXT NOT NULL, turn TEXT NOT NULL, session TEXT NOT NULL, workspace BLOB NOT NULL,
        is_undo INTEGER NOT NULL, contents BLOB NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (moment, id)) STRICT, WITHOUT ROWID;
    CREATE INDEX checkpoints_call ON checkpoints (call);
    CREATE INDEX checkpoints_turn ON checkpoints (turn);
    CREATE INDEX checkpoints_session ON checkpoints (session);
    CREATE INDEX checkpoints_workspace ON checkpoints (workspace);
    CREATE TABLE undoes (
        call TEXT NOT NULL, moment INTEGER NOT NULL, id BLOB NOT NULL, undo TEXT NOT NULL,
        PRIMARY KEY (call, moment, id)) STRICT, WITHOUT ROWID;
    CREATE TABLE contents (
        number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, holders INTEGER NOT NULL,
        form INTEGER NOT NULL, length INTEGER NOT NULL, stored INTEGER NOT NULL, depth INTEGER NOT NULL,
        base BLOB, prefix INTEGER NOT NULL, suffix INTEGER NOT NULL, body BLOB) STRICT;
    CREATE INDEX contents_files ON contents (form, hash) WHERE form IN (2, 3);
    CREATE TABLE gone (hash BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE slots (slot INTEGER PRIMARY KEY, generation BLOB NOT NULL, bytes INTEGER NOT NULL) STRICT;
    CREATE TABLE totals (
        stored INTEGER NOT NULL, dropped INTEGER NOT NULL, forgotten INTEGER NOT NULL, swept INTEGER NOT NULL) STRICT;
    INSERT INTO totals VALUES (0, 0, 0, 0);
",
};

/// The drained position of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPosition {
    pub(super) generation: Generation,
    pub(super) bytes: u64,
}

impl From<SlotHeader> for SlotPosition {
    fn from(header: SlotHeader) -> Self {
        Self { generation: header.generation, bytes: header.length }
    }
}

/// The drained position of each slot.
pub(super) fn positions(connection: &Connection) -> rusqlite::Result<HashMap<u32, SlotPosition>> {
    connection
        .prepare_cached("SELECT slot, generation, bytes FROM slots")?
        .query_map([], |row| {
            Ok((row.get(0)?, SlotPosition { generation: row.get(1)?, bytes: row.get(2)? }))
        })?
        .collect()
}

pub(super) fn set_position(
    connection: &Connection,
    slot: u32,
    position: SlotPosition,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO slots (slot, generation, bytes) VALUES (?, ?, ?)")?
        .execute((slot, &position.generation, position.bytes))
        .map(drop)
}

/// The use of the database, which decides the size of its page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheUse {
    /// A drain changes pages of five indices; with a small cache they are written and read again.
    Drain,
    /// An undo of many files reads each content once.
    Read,
}

/// Sets the size of the page cache; pages over it are freed.
pub(super) fn set_cache_size(connection: &Connection, of: CacheUse) -> rusqlite::Result<()> {
    connection.execute_batch(match of {
        CacheUse::Drain => "PRAGMA cache_size = -16384",
        CacheUse::Read => "PRAGMA cache_size = -2048",
    })
}

/// The row of `totals`: space used, numbers of dropped and forgotten checkpoints, and the last sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) stored: u64,
    pub(super) dropped: u64,
    pub(super) forgotten: u64,
    /// The time of the last sweep of unneeded object files.
    pub(super) swept: i64,
}

/// Reads the totals.
pub(super) fn totals(connection: &Connection) -> rusqlite::Result<Totals> {
    connection.prepare_cached("SELECT stored, dropped, forgotten, swept FROM totals")?.query_row(
        [],
        |row| {
            Ok(Totals {
                stored: row.get(0)?,
                dropped: row.get(1)?,
                forgotten: row.get(2)?,
                swept: row.get(3)?,
            })
        },
    )
}

/// Stores the time of the last sweep.
pub(super) fn set_swept(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE totals SET swept = ?")?.execute([now]).map(drop)
}

/// The hashes of contents with object files.
pub(super) fn object_hashes(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM contents WHERE form IN (2, 3)")
}

/// The hashes of removed contents whose object files may still exist.
pub(super) fn orphaned_objects(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM gone")
}

/// Stores that the object file of a removed content is gone.
pub(super) fn set_object_removed(
    connection: &Connection,
    hash: &ContentHash,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM gone WHERE hash = ?")?
        .execute([hash.as_bytes()])
        .map(drop)
}

/// The hashes of contents with object files that no process has tried to compress.
pub(super) fn uncompressed_objects(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM contents WHERE form = 2")
}

fn hashes(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<ContentHash>> {
    connection
        .prepare_cached(sql)?
        .query_map([], |row| row.get(0).map(ContentHash::from_bytes))?
        .collect()
}

/// The number of checkpoints.
pub(super) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached("SELECT count(*) FROM checkpoints")?.query_row([], |row| row.get(0))
}

/// The moment of the oldest checkpoint.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT moment FROM checkpoints ORDER BY moment, id LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// A checkpoint to add.
#[derive(Debug)]
pub(super) struct NewCheckpointRow<'a> {
    pub(super) moment: i64,
    pub(super) id: CheckpointId,
    pub(super) origin: &'a Origin,
    pub(super) contents: &'a [u8],
    pub(super) body: &'a [u8],
}

/// A content to add.
#[derive(Debug)]
pub(super) struct NewContentRow {
    pub(super) hash: ContentHash,
    pub(super) form: StorageForm,
    pub(super) length: u64,
    /// The disk space that it takes.
    pub(super) stored: u64,
    pub(super) depth: u32,
    pub(super) base: Option<(ContentHash, SharedEnds)>,
    pub(super) body: Option<Vec<u8>>,
}

impl NewContentRow {
    /// A content that was damaged before it was drained.
    pub(super) fn lost(hash: ContentHash) -> Self {
        let form = StorageForm::Lost;
        Self { hash, form, length: 0, stored: 0, depth: 0, base: None, body: None }
    }
}

/// The form in which the bytes of a content or a delta are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageForm {
    Plain,
    Compressed,
    /// In an object file that has not been compressed yet.
    NewFile,
    /// In an object file that is compressed if that saves space.
    File,
    /// Not stored: it was damaged before it was drained.
    Lost,
}

impl StorageForm {
    const ALL: [Self; 5] = [Self::Plain, Self::Compressed, Self::NewFile, Self::File, Self::Lost];

    /// The form with this number in the database.
    pub(super) fn read(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|form| *form as u8 == number)
    }
}

/// Changes to the catalog inside one transaction.
pub(super) struct CatalogWriter<'a> {
    connection: &'a Connection,
    /// The change of the used space.
    stored: i64,
}

/// A savepoint, with the change of space at that time.
#[derive(Clone, Copy)]
pub(super) struct CatalogSavepoint {
    stored: i64,
}

impl<'a> CatalogWriter<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, stored: 0 }
    }

    /// Begins a savepoint.
    pub(super) fn savepoint(&self) -> rusqlite::Result<CatalogSavepoint> {
        self.connection.prepare_cached("SAVEPOINT whole")?.execute([])?;
        Ok(CatalogSavepoint { stored: self.stored })
    }

    /// Releases a savepoint, or rolls back to it if `is_kept` is false.
    pub(super) fn end_savepoint(
        &mut self,
        savepoint: CatalogSavepoint,
        is_kept: bool,
    ) -> rusqlite::Result<()> {
        if !is_kept {
            self.connection.prepare_cached("ROLLBACK TO whole")?.execute([])?;
            self.stored = savepoint.stored;
        }
        self.connection.prepare_cached("RELEASE whole")?.execute([]).map(drop)
    }

    /// Adds the row of a checkpoint; returns false if it was there already.
    pub(super) fn add_checkpoint_row(
        &mut self,
        row: &NewCheckpointRow<'_>,
    ) -> rusqlite::Result<bool> {
        let origin = row.origin;
        let added = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?
            .execute((
                row.moment,
                &row.id,
                origin.call.as_str(),
                origin.turn.as_str(),
                origin.session.as_str(),
                path_bytes(&origin.workspace),
                origin.is_undo(),
                row.contents,
                row.body,
            ))?;
        if added == 0 {
            return Ok(false);
        }
        self.stored += size(row.body, row.contents);
        for call in &origin.undoes {
            self.connection
                .prepare_cached("INSERT OR IGNORE INTO undoes VALUES (?, ?, ?, ?)")?
                .execute((call.as_str(), row.moment, &row.id, origin.call.as_str()))?;
        }
        Ok(true)
    }

    /// The number of deltas between a content and a whole one; `None` if it is not in the catalog or was lost, and may be added.
    pub(super) fn depth(&self, hash: &ContentHash) -> rusqlite::Result<Option<u32>> {
        self.connection
            .prepare_cached("SELECT depth FROM contents WHERE hash = ? AND form <> 4")?
            .query_row([hash.as_bytes()], |row| row.get(0))
            .optional()
    }

    /// Adds a content without holders, and makes it a holder of its base.
    pub(super) fn add_content(&mut self, row: &NewContentRow) -> rusqlite::Result<()> {
        let (base, common) = row.base.unzip();
        let SharedEnds { prefix, suffix } = common.unwrap_or(SharedEnds { prefix: 0, suffix: 0 });
        self.connection
            .prepare_cached(
                "INSERT INTO contents (hash, holders, form, length, stored, depth, base, prefix, suffix, body) \
                 VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET \
                 form = excluded.form, length = excluded.length, stored = excluded.stored, depth = excluded.depth, \
                 base = excluded.base, prefix = excluded.prefix, suffix = excluded.suffix, body = excluded.body",
            )?
            .execute((
                row.hash.as_bytes(),
                row.form as u8,
                row.length,
                row.stored,
                row.depth,
                base.as_ref().map(ContentHash::as_bytes),
                prefix,
                suffix,
                &row.body,
            ))?;
        self.stored += row.stored.cast_signed();
        match base {
            Some(base) => self.add_holder(&base),
            None => Ok(()),
        }
    }

    /// Adds one holder to a content.
    pub(super) fn add_holder(&mut self, hash: &ContentHash) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE contents SET holders = holders + 1 WHERE hash = ?")?
            .execute([hash.as_bytes()])
            .map(drop)
    }

    /// Removes one holder of a content. Without a holder the content is removed, and so is its hold on its base.
    fn release_holder(&mut self, hash: [u8; 32]) -> rusqlite::Result<()> {
        let mut next = Some(hash);
        while let Some(hash) = next.take() {
            let released = self
                .connection
                .prepare_cached(
                    "UPDATE contents SET holders = holders - 1 WHERE hash = ? RETURNING holders, form, stored, base",
                )?
                .query_row([&hash], |row| {
                    Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get(3)?))
                })
                .optional()?;
            let Some((holders, form, stored, base)) = released else { return Ok(()) };
            if holders > 0 {
                return Ok(());
            }
            self.connection
                .prepare_cached("DELETE FROM contents WHERE hash = ?")?
                .execute([&hash])?;
            self.stored -= stored;
            if matches!(StorageForm::read(form), Some(StorageForm::NewFile | StorageForm::File)) {
                self.connection
                    .prepare_cached("INSERT OR IGNORE INTO gone VALUES (?)")?
                    .execute([&hash])?;
            }
            next = base;
        }
        Ok(())
    }

    /// Removes a checkpoint and its holds on contents.
    fn remove_checkpoint(&mut self, row: &CheckpointRow) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM checkpoints WHERE moment = ? AND id = ?")?
            .execute((row.moment, &row.id))?;
        self.stored -= size(&row.body, &row.contents);
        for hash in row.contents.as_chunks().0 {
            self.release_holder(*hash)?;
        }
        let undoes = decode_origin(&row.body).map(|origin| origin.undoes).unwrap_or_default();
        for call in undoes {
            self.connection
                .prepare_cached("DELETE FROM undoes WHERE call = ? AND moment = ? AND id = ?")?
                .execute((call.as_str(), row.moment, &row.id))?;
        }
        Ok(())
    }

    /// Drops the checkpoints before a moment, and the oldest of the rest until the quota is kept. The newest is not dropped for the quota.
    pub(super) fn drop_oldest(&mut self, before: i64, quota: u64) -> rusqlite::Result<()> {
        let stored = totals(self.connection)?.stored.cast_signed();
        let quota = i64::try_from(quota).unwrap_or(i64::MAX);
        let newest = self.first_by_moment("DESC")?.map(|row| row.id);
        let mut dropped = 0;
        while let Some(row) = self.first_by_moment("ASC")? {
            let fits = stored + self.stored <= quota;
            if row.moment >= before && (fits || newest == Some(row.id)) {
                break;
            }
            self.remove_checkpoint(&row)?;
            dropped += 1;
        }
        self.connection
            .prepare_cached("UPDATE totals SET dropped = dropped + ?")?
            .execute([dropped])
            .map(drop)
    }

    /// Removes all checkpoints of a session.
    pub(super) fn forget(&mut self, session: &str) -> rusqlite::Result<()> {
        let rows: Vec<CheckpointRow> = self
            .connection
            .prepare_cached("SELECT moment, id, contents, body FROM checkpoints WHERE session = ?")?
            .query_map([session], CheckpointRow::read)?
            .collect::<Result<_, _>>()?;
        for row in &rows {
            self.remove_checkpoint(row)?;
        }
        self.connection
            .prepare_cached("UPDATE totals SET forgotten = forgotten + ?")?
            .execute([rows.len()])
            .map(drop)
    }

    /// The first checkpoint in this order of time.
    fn first_by_moment(&self, order: &str) -> rusqlite::Result<Option<CheckpointRow>> {
        let sql = format!(
            "SELECT moment, id, contents, body FROM checkpoints ORDER BY moment {order}, id {order} LIMIT 1"
        );
        self.connection.prepare_cached(&sql)?.query_row([], CheckpointRow::read).optional()
    }

    /// Stores that an object file was compressed to this size, or with `None` that it stays uncompressed.
    pub(super) fn set_compressed_size(
        &mut self,
        hash: &ContentHash,
        stored: Option<u64>,
    ) -> rusqlite::Result<()> {
        let before: Option<i64> = self
            .connection
            .prepare_cached("SELECT stored FROM contents WHERE hash = ?")?
            .query_row([hash.as_bytes()], |row| row.get(0))
            .optional()?;
        let Some(before) = before else { return Ok(()) };
        let now = stored.map_or(before, u64::cast_signed);
        self.connection
            .prepare_cached("UPDATE contents SET form = ?, stored = ? WHERE hash = ?")?
            .execute((StorageForm::File as u8, now, hash.as_bytes()))?;
        self.stored += now - before;
        Ok(())
    }

    /// Adds the change of space to the totals.
    pub(super) fn write_totals(self) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE totals SET stored = max(0, stored + ?)")?
            .execute([self.stored])
            .map(drop)
    }
}

/// A row of `checkpoints`, for its removal.
struct CheckpointRow {
    moment: i64,
    id: CheckpointId,
    contents: Vec<u8>,
    body: Vec<u8>,
}

impl CheckpointRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { moment: row.get(0)?, id: row.get(1)?, contents: row.get(2)?, body: row.get(3)? })
    }
}

/// The approximate space of a row.
fn size(body: &[u8], contents: &[u8]) -> i64 {
    /// The approximate size of the other columns.
    const REST: usize = 128;
    i64::try_from(body.len() + contents.len() + REST).unwrap_or(i64::MAX)
}

/// The bytes of a path, as stored.
pub(super) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
