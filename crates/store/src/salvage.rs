//! Reads the records of a damaged journal, from the first record up to the damage.
//!
//! It repairs and writes nothing: readable records are passed to the caller.

use std::path::Path;

use rusqlite::Connection;

use crate::chain::COLUMNS;
use crate::database::{Access, Database};
use crate::{JournalRow, StoreError, StoreSettings};

/// The result of reading a damaged journal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Salvaged {
    /// The number of records that were read.
    pub records: u64,
    /// The number of the last of them, 0 if there is none.
    pub last_seq: u64,
    /// The error that stopped the reading; none if the end was reached.
    pub stopped: Option<String>,
}

/// Passes each readable record to `visit`, in order, without checking hashes; [`crate::Store::verify`] checks them.
pub fn salvage(
    state_dir: &Path,
    mut visit: impl FnMut(JournalRow),
) -> Result<Salvaged, StoreError> {
    let database = Database::in_state(state_dir, StoreSettings::default().patience)?;
    let connection =
        database.connect_bare(Access::Read).map_err(|error| database.error("open", &error))?;
    let mut salvaged = Salvaged { records: 0, last_seq: 0, stopped: None };
    if let Err(error) = read_records(&connection, &mut salvaged, &mut visit) {
        salvaged.stopped = Some(error.to_string());
    }
    Ok(salvaged)
}

/// Reads records until the end or the first error.
fn read_records(
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
