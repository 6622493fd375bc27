//! Documented examples and weaknesses of the systems that Windlass learned from ("seeds"), as far as they need files; the others are in the
//! crate `windlass-core`.

mod agentctl;
mod errata;
mod hector;
mod hex;
mod hooks;
mod hygge;
mod policy;
