//! Tests of the sandbox: real programs on the real kernel try to get out, to outlive their end and to exceed their limits.
#![allow(unsafe_code, reason = "some attempts need system calls")]
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
