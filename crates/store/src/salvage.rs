//! Reading what is left of a damaged journal, from the first record to the place of the damage.
//!
//! Nothing is repaired and nothing is written: what can be had is handed on, and the person decides where it goes.

use std::path::Path;

use rusqlite::Connection;

use crate::chain::COLUMNS;
use crate::database::{Access, Database};
use crate::{JournalRow, Settings, StoreError};

/// What could be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Salvaged {
    /// How many records.
    pub records: u64,
    /// The number of the last of them, 0 if there is none.
    pub last_seq: u64,
    /// What kept us from reading on; none if the end was reached.
    pub stopped: Option<String>,
}

/// Hands on each record that can still be read, in order. Whether they are unchanged is for [`crate::Store::verify`] to say.
pub fn salvage(
    state_dir: &Path,
    mut visit: impl FnMut(JournalRow),
) -> Result<Salvaged, StoreError> {
    let database = Database::in_state(state_dir, Settings::default().patience)?;
    let connection =
        database.connect_bare(Access::Read).map_err(|error| database.error("open", &error))?;
    let mut salvaged = Salvaged { records: 0, last_seq: 0, stopped: None };
    if let Err(error) = read_on(&connection, &mut salvaged, &mut visit) {
        salvaged.stopped = Some(error.to_string());
    }
    Ok(salvaged)
}

fn read_on(
    connection: &Connection,
    salvaged: &mut Salvaged,
    visit: &mut dyn FnMut(JournalRow),
) -> rusqlite::Result<()> {
    let sql = format!("SELECT {COLUMNS} FROM journal NOT INDEXED ORDER BY seq");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row = JournalRow::read(row)?;
        salvaged.records += 1;
        salvaged.last_seq = row.seq;
        visit(row);
    }
    Ok(())
}
