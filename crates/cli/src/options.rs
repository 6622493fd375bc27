//! The options that every command takes. Those of one command stand beside it, in `command/`. The doc comments are the help texts
//! and, through `windlass docs cli`, the manual.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use windlass::process::Level;
use windlass::session::SessionId;
use windlass::tool::Role;
use windlass::{Mode, Rule};

use crate::command::Command;

/// Run the tool calls of language models: fast, confined, reversible, on the record.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes, before or after its name.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The workspace.
    #[arg(short = 'C', long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Where sessions, journal and outputs live [default: the platform's state directory].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// One more configuration file, over all others.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What happens where no rule decides: ask, auto, plan, deny, yolo.
    #[arg(long, global = true, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Allow these effects, for example 'write docs/**' (repeatable).
    #[arg(long, global = true, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,
    /// Deny these effects; wins over every --allow (repeatable).
    #[arg(long, global = true, value_name = "RULE")]
    pub(crate) deny: Vec<Rule>,
    /// Only these tools, separated by commas; an empty list means none.
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) tools: Option<String>,
    /// All tools but these.
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) without: Option<String>,
    /// A named set of tools: explorer, planner, coder (also called full).
    #[arg(long, global = true, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// How programs run: off, read-only, workspace, staged, discard.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) sandbox: Option<Level>,
    /// Whom programs can talk to: none, full, or hosts separated by commas.
    #[arg(long, global = true, value_name = "HOSTS")]
    pub(crate) net: Option<String>,
    /// Append to this session; it is created if there is none [default: a new one].
    #[arg(long, global = true, value_name = "ID", value_parser = session_id)]
    pub(crate) session: Option<SessionId>,
    /// Hold changes of files as proposals instead of making them; see `windlass proposals`.
    #[arg(long, global = true)]
    pub(crate) proposals: bool,
    /// Approve what would be asked (never what is denied).
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Answer with JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but the answer.
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    /// Colours: auto, always, never.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Ids become file names and columns: letters, digits, `-`, `_` and `.`, at most 64.
pub(crate) fn session_id(text: &str) -> Result<SessionId, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
        return Err("a session id is 1 to 64 letters, digits, `-`, `_` or `.`".into());
    }
    Ok(SessionId::new(text))
}
