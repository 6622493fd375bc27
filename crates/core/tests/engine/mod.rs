//! One module for each thing that the engine promises.

mod approvals;
mod arguments;
mod attendants;
mod bounds;
mod cache;
mod changes;
mod effects;
mod endings;
mod events;
mod hooks;
mod journal;
mod lookup;
mod nested;
mod overrides;
mod plans;
mod policy;
mod printed;
mod provenance;
mod redaction;
mod remembered;
mod rights;
mod schedule;
mod session_tmp;
mod stages;
mod toolbox;
mod toolsets;
