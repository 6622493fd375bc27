//! Tests of the public interface of the store, with real files and processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod child;
mod common;
mod crash;
mod damage;
mod full_disk;
mod history;
mod index;
mod numbers;
mod older_copy;
mod processes;
mod sessions;
mod spool;
mod state;
mod tamper;
mod writing;
