//! The history: what is recorded is there, also after a kill at any moment, and goes when it has to.

mod common;
mod crash;
mod damage;
mod limits;
mod looking_back;
mod model;
pub(crate) mod together;
