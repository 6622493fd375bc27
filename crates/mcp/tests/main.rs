//! Sessions with a server, line by line, as a client would send them.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects")]
#![expect(clippy::needless_pass_by_value, reason = "a `json!` is handed over as it is written")]

mod calls;
mod elicitation;
mod ending;
mod faults;
mod support;
mod wires;
