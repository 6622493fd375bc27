//! Tests of the undo history: finished checkpoints are kept, also after a kill at any moment, and dropped by the limits.

mod common;
mod crash;
mod damage;
mod limits;
mod model;
mod queries;
pub(crate) mod together;
