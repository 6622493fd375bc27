//! The command line as types. The doc comments are the help texts and, through `windlass docs cli`, the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use windlass_core::{Mode, Role, Rule, SessionId};

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
    /// A named set of tools: explorer, planner, coder.
    #[arg(long, global = true, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// How processes run. No tool of this version starts one.
    #[arg(long, global = true, value_name = "LEVEL", hide = true)]
    pub(crate) sandbox: Option<Sandbox>,
    /// Network of sandboxed processes. No tool of this version starts one.
    #[arg(long, global = true, value_name = "HOSTS", hide = true)]
    pub(crate) net: Option<String>,
    /// Append to this session; it is created if there is none [default: a new one].
    #[arg(long, global = true, value_name = "ID", value_parser = session_id)]
    pub(crate) session: Option<SessionId>,
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

/// How processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sandbox {
    Off,
    ReadOnly,
    Workspace,
    Staged,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one tool call and print what a model would see.
    Call(Call),
    /// Run calls from JSON lines, as models send them, and answer in the same form.
    Run(Run),
    /// List the tools that a model would be offered.
    Tools(Tools),
    /// Serve the tools to an MCP host over stdin and stdout.
    Mcp,
    /// Look at earlier sessions.
    Sessions(Sessions),
    /// Show the journal, or check that nobody changed it.
    Log(Log),
    /// Say what the policy would decide, and why.
    Policy(PolicyCommand),
    /// Let the configuration of a workspace take effect.
    Trust(Trust),
    /// Show the configuration in force and where each value comes from.
    Config(ConfigCommand),
    /// Check what works on this machine, by trying it.
    Doctor,
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// Print generated documentation.
    #[command(hide = true)]
    Docs {
        /// Which: cli or config.
        #[arg(value_parser = ["cli", "config"])]
        which: String,
    },
}

/// `windlass call`
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool's name.
    pub(crate) tool: String,
    /// Its arguments: JSON, @FILE, or - for standard input.
    #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) input: String,
}

/// `windlass run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A file of JSON lines, or - for standard input.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Print what happens meanwhile, too.
    #[arg(long)]
    pub(crate) events: bool,
}

/// `windlass tools`
#[derive(Debug, Args)]
pub(crate) struct Tools {
    /// The form of the list.
    #[arg(long, default_value = "text")]
    pub(crate) format: ToolsFormat,
}

/// The forms in which tools can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsFormat {
    Text,
    Json,
    Anthropic,
    Openai,
    Gemini,
    Mcp,
    Markdown,
}

/// `windlass sessions`
#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) what: Option<SessionsCommand>,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them, newest first.
    List,
    /// Show the calls of one.
    Show {
        /// Its id.
        #[arg(value_parser = session_id)]
        id: SessionId,
    },
    /// Print its records as JSON lines.
    Export {
        /// Its id.
        #[arg(value_parser = session_id)]
        id: SessionId,
    },
    /// Remove what its calls said and answered; the journal keeps that they happened.
    Delete {
        /// Its id.
        #[arg(value_parser = session_id)]
        id: SessionId,
    },
}

/// `windlass log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    pub(crate) what: Option<LogCommand>,
    /// Go on with what comes.
    #[arg(long)]
    pub(crate) follow: bool,
}

/// What to do with the journal.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Check the chain of records: exit code 1 and the first bad record if anything was changed.
    Verify,
}

/// `windlass policy`
#[derive(Debug, Args)]
pub(crate) struct PolicyCommand {
    #[command(subcommand)]
    pub(crate) what: PolicyWhat,
}

/// What to ask the policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyWhat {
    /// What would happen to a call, and which rule decides.
    Explain {
        /// The tool's name.
        tool: String,
        /// Its arguments as JSON.
        #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
        input: String,
    },
    /// The mode and the rules in force.
    Show,
}

/// `windlass trust`
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The workspace to trust [default: the one of --workspace].
    pub(crate) dir: Option<PathBuf>,
}

/// `windlass config`
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    pub(crate) what: Option<ConfigWhat>,
}

/// What to ask about the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigWhat {
    /// Every value in force.
    Show,
    /// One value: what it means, and where it comes from.
    Explain {
        /// Its name.
        key: String,
    },
}

/// Ids become file names and columns: letters, digits, `-`, `_` and `.`, at most 64.
fn session_id(text: &str) -> Result<SessionId, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
        return Err("a session id is 1 to 64 letters, digits, `-`, `_` or `.`".into());
    }
    Ok(SessionId::new(text))
}
