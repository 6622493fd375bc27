//! The assembly: turns one plain struct of [`HubSettings`] into running engines and their sessions.
//!
//! A front door (the command line, an MCP server, a program of your own) fills [`HubSettings`] and asks a [`Hub`] for workspaces. The
//! hub reads the layers of configuration, decides which files of a workspace are trusted, finds secrets and hooks, and builds an
//! engine of the facade `windlass`. It prints nothing and reads no environment: warnings go to [`OnWarning`], and directories and
//! variables come in [`Places`].

mod config;
mod error;
mod hook_files;
mod hub;
mod job_socket;
mod repository;
mod rules;
mod secrets;
mod settings;
pub mod trust;
mod workspace;

pub use config::{
    Config, ConfigError, ConfigSource, InWorkspace, KEYS, Key, KeyKind, UnknownKey, key,
};
pub use error::HubError;
pub use hub::{Hub, real_workspace};
pub use job_socket::{JobQuestion, JobSocket, JobsError, ask_jobs};
pub use settings::{
    ConfigOverrides, Environment, HubSettings, OnWarning, People, Places, Recording,
    SessionOptions, ToolChoice,
};
pub use workspace::Workspace;
