//! The binary, run as a person or a script would run it.

#![allow(
    clippy::expect_used,
    clippy::format_collect,
    reason = "a test that cannot go on should stop, and say where"
)]

mod ask_by_effect;
mod bad_input;
mod call;
mod command_tools;
mod concurrency;
mod config;
mod demo;
mod disguises;
mod doors;
mod git_elsewhere;
mod hooks;
mod incidents;
mod interrupt;
mod journal;
mod json;
mod kill;
mod mcp;
mod mcp_clients;
mod messages;
mod old_state;
mod person;
mod policy;
mod replay;
mod run;
mod session_tmp;
mod support;
mod terminal;
mod tools;
mod undo;
mod view;
