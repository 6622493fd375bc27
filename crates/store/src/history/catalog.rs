//! The database of the history: checkpoints in the order of time, and their contents, each once.
//!
//! A checkpoint is one row, with all that was done in its body. It holds the contents that came with it, and a content that is told
//! by a delta holds its base: each content counts its holders and goes with the last of them. How much space all takes is kept in
//! `totals`, in step with the rest, so that nothing needs to be added up to find out.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row};
use windlass_core::{ContentHash, Origin};

use super::delta::Common;
use super::encoding::decode_origin;
use super::slot::{Generation, Header, Id};
use crate::database::Layout;

/// Bodies come last, so that reading what is before them never walks their pages.
pub(super) const UNDO: Layout = Layout {
    file: "undo.db",
    version: 1,
    head: "undo.lock",
    is_chain: false,
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

/// Up to where a slot is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) generation: Generation,
    pub(super) bytes: u64,
}

impl From<Header> for Position {
    fn from(header: Header) -> Self {
        Self { generation: header.generation, bytes: header.length }
    }
}

pub(super) fn positions(connection: &Connection) -> rusqlite::Result<HashMap<u32, Position>> {
    connection
        .prepare_cached("SELECT slot, generation, bytes FROM slots")?
        .query_map([], |row| {
            Ok((row.get(0)?, Position { generation: row.get(1)?, bytes: row.get(2)? }))
        })?
        .collect()
}

pub(super) fn set_position(
    connection: &Connection,
    slot: u32,
    position: Position,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO slots (slot, generation, bytes) VALUES (?, ?, ?)")?
        .execute((slot, &position.generation, position.bytes))
        .map(drop)
}

/// What is done with the database, by which it is known how many of its pages are worth their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Pages of five indices change, which otherwise go to the disk and come back.
    Drain,
    /// An undo of many files reads each content once.
    Read,
}

/// Bounds the pages that are held; those over the bound are let go of.
pub(super) fn hold_pages(connection: &Connection, of: Use) -> rusqlite::Result<()> {
    connection.execute_batch(match of {
        Use::Drain => "PRAGMA cache_size = -16384",
        Use::Read => "PRAGMA cache_size = -2048",
    })
}

/// Numbers about all that is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) stored: u64,
    pub(super) dropped: u64,
    pub(super) forgotten: u64,
    /// When it was last looked for files that nobody needs.
    pub(super) swept: i64,
}

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

pub(super) fn set_swept(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE totals SET swept = ?")?.execute([now]).map(drop)
}

/// The contents that have files of their own.
pub(super) fn files(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM contents WHERE form IN (2, 3)")
}

/// Those that had files, which may still be there.
pub(super) fn gone(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM gone")
}

pub(super) fn set_removed(connection: &Connection, hash: &ContentHash) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM gone WHERE hash = ?")?
        .execute([hash.as_bytes()])
        .map(drop)
}

/// The contents with files that nobody has tried to make small.
pub(super) fn new_files(connection: &Connection) -> rusqlite::Result<Vec<ContentHash>> {
    hashes(connection, "SELECT hash FROM contents WHERE form = 2")
}

fn hashes(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<ContentHash>> {
    connection
        .prepare_cached(sql)?
        .query_map([], |row| row.get(0).map(ContentHash::from_bytes))?
        .collect()
}

/// How many checkpoints there are.
pub(super) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached("SELECT count(*) FROM checkpoints")?.query_row([], |row| row.get(0))
}

/// When the oldest was made.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT moment FROM checkpoints ORDER BY moment, id LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// A checkpoint as it is added.
#[derive(Debug)]
pub(super) struct NewRow<'a> {
    pub(super) moment: i64,
    pub(super) id: Id,
    pub(super) origin: &'a Origin,
    pub(super) contents: &'a [u8],
    pub(super) body: &'a [u8],
}

/// A content as it is added.
#[derive(Debug)]
pub(super) struct NewContentRow {
    pub(super) hash: ContentHash,
    pub(super) form: Form,
    pub(super) length: u64,
    /// The space that it takes.
    pub(super) stored: u64,
    pub(super) depth: u32,
    pub(super) base: Option<(ContentHash, Common)>,
    pub(super) body: Option<Vec<u8>>,
}

impl NewContentRow {
    /// One that cannot be had any more.
    pub(super) fn lost(hash: ContentHash) -> Self {
        let form = Form::Lost;
        Self { hash, form, length: 0, stored: 0, depth: 0, base: None, body: None }
    }
}

/// How the bytes of a content, or of what differs, are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Compressed,
    /// In a file among the objects that could perhaps be smaller.
    NewFile,
    /// In a file among the objects.
    File,
    /// Not at all: it was damaged before it came here.
    Lost,
}

impl Form {
    const ALL: [Self; 5] = [Self::Plain, Self::Compressed, Self::NewFile, Self::File, Self::Lost];

    pub(super) fn read(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|form| *form as u8 == number)
    }
}

/// Changes of the catalog inside of one transaction.
pub(super) struct Entering<'a> {
    connection: &'a Connection,
    /// How much more space is taken.
    stored: i64,
}

/// The beginning of something that is entered as a whole or not at all.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    stored: i64,
}

impl<'a> Entering<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, stored: 0 }
    }

    /// Begins something that is entered as a whole or not at all.
    pub(super) fn mark(&self) -> rusqlite::Result<Mark> {
        self.connection.prepare_cached("SAVEPOINT whole")?.execute([])?;
        Ok(Mark { stored: self.stored })
    }

    /// Keeps what was entered since the mark, or takes it out again.
    pub(super) fn settle_mark(&mut self, mark: Mark, is_kept: bool) -> rusqlite::Result<()> {
        if !is_kept {
            self.connection.prepare_cached("ROLLBACK TO whole")?.execute([])?;
            self.stored = mark.stored;
        }
        self.connection.prepare_cached("RELEASE whole")?.execute([]).map(drop)
    }

    /// Whether the checkpoint was not there yet.
    pub(super) fn add(&mut self, row: &NewRow<'_>) -> rusqlite::Result<bool> {
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
                bytes_of(&origin.workspace),
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

    /// How far a content is from one that is whole, if it is there. One that was lost may come again.
    pub(super) fn depth(&self, hash: &ContentHash) -> rusqlite::Result<Option<u32>> {
        self.connection
            .prepare_cached("SELECT depth FROM contents WHERE hash = ? AND form <> 4")?
            .query_row([hash.as_bytes()], |row| row.get(0))
            .optional()
    }

    /// Adds a content that nobody holds yet.
    pub(super) fn add_content(&mut self, row: &NewContentRow) -> rusqlite::Result<()> {
        let (base, common) = row.base.unzip();
        let Common { prefix, suffix } = common.unwrap_or(Common { prefix: 0, suffix: 0 });
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
            Some(base) => self.hold(&base),
            None => Ok(()),
        }
    }

    pub(super) fn hold(&mut self, hash: &ContentHash) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE contents SET holders = holders + 1 WHERE hash = ?")?
            .execute([hash.as_bytes()])
            .map(drop)
    }

    /// Takes one holder from a content; with the last one it goes, and does not hold its base any more.
    fn release(&mut self, hash: [u8; 32]) -> rusqlite::Result<()> {
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
            if matches!(Form::read(form), Some(Form::NewFile | Form::File)) {
                self.connection
                    .prepare_cached("INSERT OR IGNORE INTO gone VALUES (?)")?
                    .execute([&hash])?;
            }
            next = base;
        }
        Ok(())
    }

    fn remove(&mut self, row: &OldRow) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM checkpoints WHERE moment = ? AND id = ?")?
            .execute((row.moment, &row.id))?;
        self.stored -= size(&row.body, &row.contents);
        for hash in row.contents.as_chunks().0 {
            self.release(*hash)?;
        }
        let undoes = decode_origin(&row.body).map(|origin| origin.undoes).unwrap_or_default();
        for call in undoes {
            self.connection
                .prepare_cached("DELETE FROM undoes WHERE call = ? AND moment = ? AND id = ?")?
                .execute((call.as_str(), row.moment, &row.id))?;
        }
        Ok(())
    }

    /// Drops what was made before this moment, and the oldest of the rest until no more space is taken than this. The newest stays.
    pub(super) fn drop_oldest(&mut self, before: i64, quota: u64) -> rusqlite::Result<()> {
        let stored = totals(self.connection)?.stored.cast_signed();
        let quota = i64::try_from(quota).unwrap_or(i64::MAX);
        let newest = self.end("DESC")?.map(|row| row.id);
        let mut dropped = 0;
        while let Some(row) = self.end("ASC")? {
            let fits = stored + self.stored <= quota;
            if row.moment >= before && (fits || newest == Some(row.id)) {
                break;
            }
            self.remove(&row)?;
            dropped += 1;
        }
        self.connection
            .prepare_cached("UPDATE totals SET dropped = dropped + ?")?
            .execute([dropped])
            .map(drop)
    }

    /// Removes all of a session.
    pub(super) fn forget(&mut self, session: &str) -> rusqlite::Result<()> {
        let rows: Vec<OldRow> = self
            .connection
            .prepare_cached("SELECT moment, id, contents, body FROM checkpoints WHERE session = ?")?
            .query_map([session], OldRow::read)?
            .collect::<Result<_, _>>()?;
        for row in &rows {
            self.remove(row)?;
        }
        self.connection
            .prepare_cached("UPDATE totals SET forgotten = forgotten + ?")?
            .execute([rows.len()])
            .map(drop)
    }

    /// The first checkpoint in this order of time.
    fn end(&self, order: &str) -> rusqlite::Result<Option<OldRow>> {
        let sql = format!(
            "SELECT moment, id, contents, body FROM checkpoints ORDER BY moment {order}, id {order} LIMIT 1"
        );
        self.connection.prepare_cached(&sql)?.query_row([], OldRow::read).optional()
    }

    /// A large content is as small as it gets, which may take another space than before.
    pub(super) fn settle(
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
            .execute((Form::File as u8, now, hash.as_bytes()))?;
        self.stored += now - before;
        Ok(())
    }

    /// Writes down how much space all takes now.
    pub(super) fn close(self) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("UPDATE totals SET stored = max(0, stored + ?)")?
            .execute([self.stored])
            .map(drop)
    }
}

/// A checkpoint that is to be removed.
struct OldRow {
    moment: i64,
    id: Id,
    contents: Vec<u8>,
    body: Vec<u8>,
}

impl OldRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { moment: row.get(0)?, id: row.get(1)?, contents: row.get(2)?, body: row.get(3)? })
    }
}

/// The space that a row takes, about.
fn size(body: &[u8], contents: &[u8]) -> i64 {
    const REST: usize = 128;
    i64::try_from(body.len() + contents.len() + REST).unwrap_or(i64::MAX)
}

/// A path as it is kept.
pub(super) fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
