//! Windlass as its embedders use it: real files, the built-in tools, one builder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that does not get what it expects should stop"
)]

mod builder;
mod seeds;
