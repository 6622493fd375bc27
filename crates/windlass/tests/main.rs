//! Windlass as its embedders use it: real files, the built-in tools, one builder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::format_collect,
    clippy::format_push_string,
    clippy::cast_possible_truncation,
    reason = "a test that does not get what it expects should stop, and its texts are short"
)]

mod approvals;
mod budgets;
mod builder;
mod command_tools;
mod commands;
mod doors;
mod examples;
mod hooks;
mod incidents;
mod rights;
mod seeds;
mod shells;
mod support;
mod undo;
