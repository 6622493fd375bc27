//! What a program can do in its surroundings, tried by real programs on the real kernel.
#![allow(unsafe_code, reason = "attempts at what only system calls can do")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects")]

mod attempt;
mod ending;
mod files;
mod kernel;
mod launching;
mod limits;
mod lone;
mod memory;
mod network;
mod processes;
mod protected;
mod renames;
mod set_id;
mod stage;
mod support;
mod user;
mod warden;
