//! Tests of the engine from outside: every test uses [`windlass_core::Engine`] as an embedder does.
//!
//! Time is paused in tests that wait. Concurrency is tested with barriers and counters, never by measuring time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that does not get what it expects should stop"
)]

mod engine;
mod seeds;
mod support;
