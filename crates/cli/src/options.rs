//! The options that every command takes. The options of a single command are in its file in `command/`. The doc comments are the help
//! texts and, through `windlass docs cli`, the manual.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Parser, ValueEnum};
use windlass::process::SandboxLevel;
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
    /// The workspace: the directory whose files the tools read and change.
    #[arg(short = 'C', long, global = true, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// The state directory: sessions, journal and kept outputs [default: the platform's].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// One more configuration file, which takes precedence over all others; lists of rules add up.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The default for effects that no rule decides: ask, auto, plan, deny, yolo.
    #[arg(long, global = true, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Allow an effect, for example 'write docs/**' (repeatable).
    #[arg(long, global = true, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,
    /// Deny an effect; wins over every --allow (repeatable).
    #[arg(long, global = true, value_name = "RULE")]
    pub(crate) deny: Vec<Rule>,
    /// Offer only these tools, separated by commas; an empty list means none.
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) tools: Option<String>,
    /// Offer all tools but these, separated by commas.
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) without: Option<String>,
    /// Restrict the session to a named set of tools: explorer, planner, coder (also called full).
    #[arg(long, global = true, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// The sandbox level of commands: off, read-only, workspace, staged, discard.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) sandbox: Option<SandboxLevel>,
    /// The hosts that commands can reach: none, full, or names separated by commas.
    #[arg(long, global = true, value_name = "HOSTS")]
    pub(crate) net: Option<String>,
    /// Add the calls to this session, which is created if it does not exist [default: a new one].
    #[arg(long, global = true, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<SessionId>,
    /// Keep file changes as proposals instead of making them; see `windlass proposals`.
    #[arg(long, global = true)]
    pub(crate) proposals: bool,
    /// Answer yes to every approval without asking; what is denied stays denied.
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no notes, hints or warnings, only the result.
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    /// Use colours: auto (on a terminal), always, never.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
}

/// The values of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Parses a session id: 1 to 64 letters, digits, `-`, `_` or `.`, because ids become file names.
pub(crate) fn parse_session_id(text: &str) -> Result<SessionId> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
        bail!("a session id is 1 to 64 letters, digits, `-`, `_` or `.`");
    }
    Ok(SessionId::new(text))
}
