//! The binary, run as a person or a script would run it.

mod bad_input;
mod call;
mod config;
mod journal;
mod kill;
mod mcp;
mod mcp_clients;
mod run;
mod support;
mod tools;
