//! What the engine promises, tested from outside: every test goes through [`windlass_core::Engine`] as an embedder would.
//!
//! Time is paused where a test waits, and what runs at the same time is found out with barriers and counters, never with a
//! stopwatch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that does not get what it expects should stop"
)]

mod engine;
mod seeds;
mod support;
