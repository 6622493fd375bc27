//! The documented examples and the rows of the systems that Windlass learned from, as far as they need files; the others are in
//! the crate `windlass-core`.

mod agentctl;
mod errata;
mod hector;
mod hex;
mod hooks;
mod hygge;
mod policy;
