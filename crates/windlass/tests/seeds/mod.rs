//! The documented examples of the systems that Windlass learned from, as far as they need files; the others are in the crate
//! `windlass-core`.

mod hex;
