//! The documented examples of the systems that Windlass learned from, on our interface and with the same visible result.
//!
//! Here are those that need no files; the others are in the crate `windlass`.

mod hex;
