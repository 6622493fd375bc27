//! The documented examples of the systems from which Windlass learned, on our interface and with the same visible result.
//!
//! These examples need no files; the others are in the crate `windlass`.

mod hex;
