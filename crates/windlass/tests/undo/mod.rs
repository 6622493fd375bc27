//! Tests of undo: random sessions, and single cases.

mod commands;
mod conflicts;
mod failures;
mod inspections;
mod jobs;
mod killed_build;
mod kinds;
mod many;
mod one_engine;
mod player;
mod races;
mod sessions;
mod without_history;
