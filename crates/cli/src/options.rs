//! The command line as types. The doc comments are the help texts and, through `windlass docs cli`, the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use windlass_core::{Level, Mode, Role, Rule, Scope, SessionId};

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
    /// A named set of tools: explorer, planner, coder.
    #[arg(long, global = true, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// How programs run: off, read-only, workspace, staged.
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
    /// Take back what calls did to files, or show what can be taken back.
    Undo(UndoCommand),
    /// Look at changes that are only proposed; apply or drop them.
    Proposals(ProposalsCommand),
    /// Look at earlier sessions.
    Sessions(Sessions),
    /// Look at programs that go on behind the calls of running sessions, or end them.
    Jobs(JobsCommand),
    /// Show the journal, or check that nobody changed it.
    Log(Log),
    /// Run the calls of an earlier session again in a copy of the workspace, and show what differs.
    #[command(
        after_help = "What a person was asked then is answered as it was answered then. What would reach beyond the copy \
        (other files, the network, MCP servers, people) is skipped. Exit code 1 when something differs."
    )]
    Replay(Replay),
    /// Say what the policy would decide and why, test it, and answer or take back approvals.
    Policy(PolicyCommand),
    /// Let the configuration, the command tools and the hooks of a workspace take effect.
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

/// `windlass undo`
#[derive(Debug, Args)]
#[command(
    after_help = "Without options, the last change of this workspace that is not undone yet is taken back; \
    repeating it walks back. With --session ID, all changes of that session. An undo is a change itself: \
    --call of it does it again."
)]
pub(crate) struct UndoCommand {
    /// Show the changes of this workspace (or of --session ID), the newest first.
    #[arg(long)]
    pub(crate) list: bool,
    /// Take back the changes of this call.
    #[arg(long, value_name = "ID", conflicts_with_all = ["turn", "list"])]
    pub(crate) call: Option<String>,
    /// Take back the changes of this turn.
    #[arg(long, value_name = "ID", conflicts_with = "list")]
    pub(crate) turn: Option<String>,
    /// Only say what would happen.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `windlass proposals`
#[derive(Debug, Args)]
pub(crate) struct ProposalsCommand {
    #[command(subcommand)]
    pub(crate) what: Option<ProposalsWhat>,
}

/// What to do with proposals: those of --session ID, or of the only session that has any.
#[derive(Debug, Subcommand)]
pub(crate) enum ProposalsWhat {
    /// List them.
    List,
    /// Show what would change, word by word.
    Show {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
    /// Make the changes, all or none.
    Apply {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
    /// Forget them.
    Drop {
        /// Only these files, or what is below these directories.
        paths: Vec<PathBuf>,
    },
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

/// `windlass jobs`
#[derive(Debug, Args)]
pub(crate) struct JobsCommand {
    #[command(subcommand)]
    pub(crate) what: Option<JobsWhat>,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsWhat {
    /// List them.
    List,
    /// Print what one has printed.
    Output {
        /// Its id.
        job: String,
        /// Go on with what comes, until it ends.
        #[arg(long)]
        follow: bool,
    },
    /// End one, with everything that it started.
    Kill {
        /// Its id.
        job: String,
        /// What to tell it first.
        #[arg(long, default_value = "TERM")]
        signal: String,
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
    /// Print all records, or those of --session ID, for other programs.
    Export {
        /// JSON lines, or OpenTelemetry spans as OTLP/JSON.
        #[arg(long, default_value = "jsonl")]
        format: ExportFormat,
    },
}

/// The forms in which the journal can be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Otlp,
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
    /// List the questions that are open and the answers that are remembered.
    Approvals,
    /// Say yes to an open question, and make its call at once in its session.
    Approve {
        /// The question's id.
        id: String,
        /// For how long the answer counts: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
        /// A reason for the model to read.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Other arguments for the call, as JSON or `-`. They are decided on anew.
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Say no to an open question; its call ends as denied in its session.
    Deny {
        /// The question's id.
        id: String,
        /// What the model is told.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// For how long the answer counts: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
    },
    /// Forget remembered answers and open questions.
    Revoke {
        /// Their ids.
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Run the examples that policy files carry; exit code 1 when one is decided otherwise.
    #[command(after_help = "A policy file is a configuration file with examples:\n\n\
        mode = \"ask\"\n\
        allow = [\"exec git status\"]\n\n\
        [[example]]\n\
        tool = \"bash\"\n\
        input = { command = \"git status\" }\n\
        expect = \"allow\"                  # or ask, or deny\n\
        rule = \"allow exec git status\"    # what must decide; may be left out\n\n\
        A file is tested alone: with the options of the command line, without other configuration.")]
    Test {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// What would be decided now about each call of an earlier session.
    Replay {
        /// The session's id.
        #[arg(value_parser = session_id)]
        id: SessionId,
    },
}

/// `windlass replay`
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The session's id.
    #[arg(value_parser = session_id)]
    pub(crate) id: SessionId,
    /// Begin with the workspace as it is now, not as it was before the session.
    #[arg(long)]
    pub(crate) as_is: bool,
    /// Leave out of the copy what `.gitignore` and the like hide.
    #[arg(long)]
    pub(crate) without_ignored: bool,
}

/// `windlass trust`
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The workspace to trust [default: the one of --workspace].
    pub(crate) dir: Option<PathBuf>,
    /// Show which workspaces are trusted, and whether they are still as they were.
    #[arg(long, conflicts_with_all = ["dir", "revoke"])]
    pub(crate) list: bool,
    /// Trust it no longer.
    #[arg(long)]
    pub(crate) revoke: bool,
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
