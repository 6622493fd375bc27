//! The store from outside: what is promised about it, tried on real files with real processes.

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
