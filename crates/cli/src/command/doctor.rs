//! `windlass doctor`: finds out what works on this machine by trying it.

mod attack;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use windlass::process::{
    Backend, Confinement, Grammar, NetworkAccess, ProcessSettings, SandboxLevel,
};
use windlass::session::{IdSource as _, RandomIds};
use windlass::{Mode, Outcome, ToolCall, Windlass};

use windlass_hub::Recording;

use super::block_on;
use crate::options::Global;
use crate::scratch::Scratch;
use crate::setup;
use crate::terminal::{self, Paint};

/// One check and its result.
struct Check {
    name: &'static str,
    /// The test that was made, in words.
    how: &'static str,
    found: CheckResult,
}

/// The result of a check.
enum CheckResult {
    /// The feature works; the text gives details.
    Works(String),
    /// The machine or the configuration does not have it, which is no fault.
    Absent(String),
    /// The check failed; the text says why.
    Broken(String),
}

impl CheckResult {
    /// Returns the text of the result.
    fn text(&self) -> &str {
        match self {
            Self::Works(text) | Self::Absent(text) | Self::Broken(text) => text,
        }
    }
}

impl From<Result<String>> for CheckResult {
    fn from(result: Result<String>) -> Self {
        result.map_or_else(|error| Self::Broken(format!("{error:#}")), Self::Works)
    }
}

/// Makes all checks and prints them. Exit code 1 if one is broken.
pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let configured = configuration(global);
    if configured.is_err() {
        return report(global, &checks_without_configuration(global, configured));
    }
    let check = |name, how, found: Result<String>| Check { name, how, found: found.into() };
    let checks = [
        check("workspace", "opened it and resolved a path in it", workspace(global)),
        Check { name: "configuration", how: "read every layer", found: configured.into() },
        check("shell", "looked for it and let it run `exit`", shell(global)),
        check("command tools", "read every file", command_tools(global)),
        check("journal", "opened it and followed its chain", journal(global)),
        check(
            "confinement",
            "tried to read a file outside through a link and through /proc",
            confinement(),
        ),
        check(
            "atomic writes",
            "replaced a file and looked for what was left behind",
            atomic_writes(),
        ),
        check("sandbox", "let a command attack the machine from inside", sandbox(global)),
        backend_check(global, "namespaces", Backend::Namespaces),
        backend_check(global, "bubblewrap", Backend::Bubblewrap),
        backend_check(global, "Landlock alone", Backend::Landlock),
        check(
            "system calls",
            "let a command ask the kernel for its filters and try calls that have no place in a command",
            system_calls(global),
        ),
        check("network", "let a command look for a way out", network(global)),
        Check {
            name: "staged runs",
            how: "let a command delete everything, and took it back",
            found: staged(global),
        },
        check("process trees", "let a command leave processes behind", process_trees(global)),
        check("limits", "let a command use more memory than it may", limits(global)),
        Check {
            name: "Landlock",
            how: "asked the kernel; a second fence around what the sandbox allows",
            found: landlock(),
        },
        check("undo", "changed, created and moved files, and took it all back", undo()),
        check("undo history", "opened it", history(global)),
    ];
    report(global, &checks)
}

/// Makes the checks that are possible without a valid configuration.
fn checks_without_configuration(global: &Global, configured: Result<String>) -> Vec<Check> {
    let check = |name, how, found: Result<String>| Check { name, how, found: found.into() };
    let reason = "the configuration has to be put right first".to_owned();
    vec![
        check("workspace", "opened it and resolved a path in it", workspace(global)),
        check("configuration", "read every layer", configured),
        check("journal", "opened it and followed its chain", journal(global)),
        Check { name: "the rest", how: "tried nothing", found: CheckResult::Absent(reason) },
    ]
}

/// Prints the checks as a report or as JSON. Returns exit code 1 if one is broken.
fn report(global: &Global, checks: &[Check]) -> Result<ExitCode> {
    if global.json {
        let report: Vec<_> = checks.iter().map(as_json).collect();
        terminal::print_json(&json!({"version": env!("CARGO_PKG_VERSION"), "checks": report}))?;
    } else {
        print(checks, Paint::of(global))?;
    }
    let broken = checks.iter().any(|check| matches!(check.found, CheckResult::Broken(_)));
    Ok(ExitCode::from(u8::from(broken)))
}

/// Returns a check as JSON.
fn as_json(check: &Check) -> serde_json::Value {
    let status = match check.found {
        CheckResult::Works(_) => "works",
        CheckResult::Absent(_) => "absent",
        CheckResult::Broken(_) => "broken",
    };
    json!({"name": check.name, "status": status, "found": check.found.text(), "how": check.how})
}

/// Prints each check with its mark, and the test below it.
fn print(checks: &[Check], paint: Paint) -> Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    for check in checks {
        let mark = match check.found {
            CheckResult::Works(_) => paint.green("ok "),
            CheckResult::Absent(_) => paint.dim("-- "),
            CheckResult::Broken(_) => paint.red("NOT"),
        };
        let found = windlass::quote::visible(check.found.text());
        writeln!(out, "{mark} {:<14} {found}", check.name)?;
        if !check.how.is_empty() {
            writeln!(out, "    {:<14} {}", "", paint.dim(check.how))?;
        }
    }
    Ok(())
}

/// Opens the workspace, and returns its path.
fn workspace(global: &Global) -> Result<String> {
    let workspace = setup::workspace_path(global)?;
    Windlass::builder(&workspace).build()?;
    Ok(workspace.display().to_string())
}

/// Reads the configuration, and returns its mode, number of rules and warnings.
fn configuration(global: &Global) -> Result<String> {
    let config = setup::hub(global)?.config(&global.workspace)?;
    let (mode, rules) = (config.mode()?, config.rules().len());
    let warnings = match config.warnings() {
        [] => String::new(),
        warnings => format!("; {}", warnings.join("; ")),
    };
    Ok(format!("mode {mode}, {rules} rules{warnings}"))
}

/// Runs `exit` in the configured shell, and returns whether Windlass can parse the shell's commands.
fn shell(global: &Global) -> Result<String> {
    let workspace = setup::workspace_path(global)?;
    let config = setup::hub(global)?.config(&workspace)?;
    let (shell, confinement) = (config.shell()?, effective_confinement(global)?);
    let settings = ProcessSettings { shell, confinement, ..ProcessSettings::default() };
    let settings = settings.with_shell_found(&workspace)?;
    let shell = settings.shell.clone();
    let known = match shell.grammar() {
        Grammar::Bash | Grammar::Posix => "its commands are understood",
        _ => {
            "its commands are not understood, so that what rules say of single commands does not allow them"
        }
    };
    let text = attack::bash_output(&new_scratch()?, settings, "exit")?;
    // A remark about the sandbox may follow.
    let is_silent = text.starts_with("[no output") && !text.contains("exit code");
    ensure!(is_silent || shell.grammar() == Grammar::Unknown, "{shell}: {text}");
    ensure!(!text.starts_with("cannot execute"), "{shell}: {text}");
    Ok(format!("{shell}: {known}"))
}

/// Reads the command tools of the person and of a trusted workspace, and returns their names; fails if a file is invalid.
fn command_tools(global: &Global) -> Result<String> {
    let hub = setup::hub(global)?;
    let config = hub.config(&global.workspace)?;
    let own = hub.settings().places.command_tools();
    let (mut files, mut wrong) =
        own.map_or_else(Default::default, |own| windlass::tool::command_files(&own));
    files.extend_from_slice(config.command_tools());
    let mut names = Vec::new();
    for file in &files {
        match file.definition() {
            Ok(definition) => names.push(definition.name().to_owned()),
            Err(why) => wrong.push(why),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(if names.is_empty() { "there are none".to_owned() } else { names.join(", ") })
}

/// Verifies the journal, and returns the number of its records.
fn journal(global: &Global) -> Result<String> {
    let state = setup::state_directory(global)?;
    let verified = setup::hub(global)?.store()?.verify()?;
    Ok(format!("{} records in {}, whole", verified.records, state.display()))
}

/// Creates a temporary directory with an empty workspace `work`; dropping it removes it.
fn new_scratch() -> Result<Scratch> {
    let scratch = Scratch::new("doctor")?;
    scratch.directory("work")?;
    Ok(scratch)
}

/// Makes a call in the workspace of a temporary directory.
fn call_in(
    scratch: &Scratch,
    mode: Mode,
    tool: &str,
    input: serde_json::Value,
) -> Result<windlass::CallResult> {
    let windlass = Windlass::builder(scratch.path().join("work")).mode(mode).build()?;
    let session = Arc::new(windlass::Session::new(windlass.engine().new_session_id()));
    block_on(windlass.call(&session, ToolCall::new(tool, input)))
}

/// Checks that the tool `read` cannot leave the workspace.
fn confinement() -> Result<String> {
    let scratch = new_scratch()?;
    std::fs::write(scratch.path().join("outside"), "outside")?;
    std::os::unix::fs::symlink("../outside", scratch.path().join("work/link"))?;
    for path in ["link", "../outside", "/proc/self/root/etc/hostname"] {
        let result = call_in(&scratch, Mode::Auto, "read", json!({"path": path}))?;
        ensure!(result.outcome != Outcome::Ok, "{path} could be read: nothing here is confined");
    }
    Ok("no link, no `..` and no /proc leads out".into())
}

/// Checks that writing a file leaves no temporary file behind.
fn atomic_writes() -> Result<String> {
    let scratch = new_scratch()?;
    let result =
        call_in(&scratch, Mode::Auto, "write", json!({"path": "new.txt", "content": "new\n"}))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    let remaining: Vec<_> = std::fs::read_dir(scratch.path().join("work"))?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure!(
        remaining.iter().all(|name| name == "new.txt"),
        "something was left behind: {remaining:?}"
    );
    Ok("a file is wholly old or wholly new".into())
}

/// Returns the confinement that a command would get with these options on this machine.
fn effective_confinement(global: &Global) -> Result<Confinement> {
    let workspace = setup::workspace_path(global)?;
    let confinement = setup::hub(global)?.config(&workspace)?.confinement()?;
    let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    Ok(settings.settled(&workspace).confinement)
}

/// Attacks the machine from a command in the configured sandbox, and returns a summary; fails if an attack succeeds or the sandbox is off.
fn sandbox(global: &Global) -> Result<String> {
    let confinement = effective_confinement(global)?;
    ensure!(confinement.level != SandboxLevel::Off, "it is off: commands can do all that you can");
    let found = attack::attack_all(&confinement)?;
    Ok(format!("{found} ({confinement})"))
}

/// Attacks the machine from a command in a sandbox of this backend, even if the configuration uses another one.
fn backend_check(global: &Global, name: &'static str, backend: Backend) -> Check {
    let used = effective_confinement(global);
    let is_used = used.is_ok_and(|used| used.level != SandboxLevel::Off && used.backend == backend);
    let use_of_it = if is_used { "in use" } else { "not in use" };
    let found = match attack::attack_all(&Confinement { backend, ..Confinement::default() }) {
        Ok(found) => CheckResult::Works(format!("{use_of_it}: {found}")),
        Err(error) if is_used => CheckResult::Broken(format!("{use_of_it}: {error:#}")),
        Err(error) => CheckResult::Absent(format!("{use_of_it}, and could not be: {error:#}")),
    };
    Check { name, how: "let a command attack the machine from inside", found }
}

/// Checks that a command runs under seccomp filters, and that they refuse a set-id file.
fn system_calls(global: &Global) -> Result<String> {
    let confinement = effective_confinement(global)?;
    if confinement.level == SandboxLevel::Off {
        return Ok("not filtered: the sandbox is off".to_owned());
    }
    let script = "while read -r name value; do case $name in Seccomp*) echo \"$name $value\";; esac; done < /proc/self/status\n\
        cp /bin/true set-id && chmod u+s set-id 2>/dev/null && echo REACHED";
    let text = attack::run_script(&confinement, &new_scratch()?, script)?;
    let ours = seccomp_filters(&std::fs::read_to_string("/proc/self/status")?);
    let inside = seccomp_filters(&text);
    ensure!(
        inside > ours,
        "a command runs under {inside} filters, and we under {ours}: there is none of ours"
    );
    ensure!(!text.contains("REACHED"), "a command made a file set-id, which the filter refuses");
    Ok(format!(
        "filtered: a command runs under {} more than we do",
        plural(inside - ours, "filter")
    ))
}

/// Returns the number of seccomp filters in the text of `/proc/self/status`.
fn seccomp_filters(status: &str) -> u32 {
    let number = |line: &str| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok();
    status.lines().find_map(number).unwrap_or(0)
}

/// Returns a count with its noun, in the plural unless it is 1.
fn plural(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Checks that a command cannot connect to a server on this machine, unless the network is open.
fn network(global: &Global) -> Result<String> {
    let confinement = effective_confinement(global)?;
    if confinement.network == NetworkAccess::Full || confinement.level == SandboxLevel::Off {
        return Ok("open: commands can reach every host".into());
    }
    let scratch = new_scratch()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let script = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo REACHED; true");
    let text = attack::run_script(&confinement, &scratch, &script)?;
    ensure!(!text.contains("REACHED"), "a command reached a server on this machine");
    Ok(match confinement.network {
        NetworkAccess::Hosts(hosts) => format!("only to {}", hosts.join(", ")),
        _ => "closed, also to this machine itself".to_owned(),
    })
}

/// Checks staged runs; `Absent` with the Landlock backend, which has no stage.
fn staged(global: &Global) -> CheckResult {
    match effective_confinement(global) {
        Ok(used) if used.backend == Backend::Landlock => CheckResult::Absent(
            "Landlock alone has no stage: what commands do to the workspace cannot be taken back"
                .into(),
        ),
        _ => undo_of_a_command().into(),
    }
}

/// Lets a command delete all files of a workspace, and undoes that.
fn undo_of_a_command() -> Result<String> {
    let scratch = new_scratch()?;
    let work = scratch.path().join("work");
    std::fs::create_dir_all(work.join("src"))?;
    std::fs::write(work.join("src/main.rs"), "fn main() {}\n")?;
    let windlass =
        Windlass::builder(&work).mode(Mode::Auto).state(scratch.path().join("state")).build()?;
    let session = Arc::new(windlass::Session::new(windlass.engine().new_session_id()));
    let remove = ToolCall::new("bash", json!({"command": "rm -rf *"}));
    let result = block_on(windlass.call(&session, remove))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    ensure!(std::fs::read_dir(&work)?.count() == 0, "the command did not do what it was told");
    let result = block_on(windlass.undo(&session, windlass::Undo::Last))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    ensure!(std::fs::read(work.join("src/main.rs"))? == b"fn main() {}\n", "it did not come back");
    Ok("what commands do to the workspace can be taken back".into())
}

/// Checks that processes which a command starts in the background end with it.
fn process_trees(global: &Global) -> Result<String> {
    let scratch = new_scratch()?;
    let marker = format!("windlass-doctor-{:x}", RandomIds::default().next());
    let script = format!(
        "export {marker}=1; setsid sleep 300 & (setsid sleep 300 &) ; nohup sleep 300 >/dev/null 2>&1 &",
        marker = marker.replace('-', "_")
    );
    attack::run_script(&effective_confinement(global)?, &scratch, &script)?;
    let marker = marker.replace('-', "_");
    let remaining = std::fs::read_dir("/proc")?.flatten().filter(|process| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.windows(marker.len()).any(|part| part == marker.as_bytes())
    });
    let remaining = remaining.count();
    ensure!(remaining == 0, "{remaining} processes outlived their command");
    Ok("nothing outlives its command".into())
}

/// Checks that a command cannot use more memory than its limit, and returns the way in which memory is counted.
fn limits(global: &Global) -> Result<String> {
    const MEMORY_LIMIT: u64 = 64 << 20;
    let scratch = new_scratch()?;
    let confinement = effective_confinement(global)?;
    let processes =
        ProcessSettings { confinement, memory: MEMORY_LIMIT, ..ProcessSettings::default() };
    // `tail` keeps a line without an end in memory.
    let greedy = "echo BEGIN; head -c 1G /dev/zero | tail -n 1 | wc -c";
    let text = attack::bash_output(&scratch, processes, greedy)?;
    ensure!(text.contains("BEGIN"), "{text}");
    ensure!(!text.contains("1073741824"), "a command used a gigabyte where 64 MiB are allowed");
    Ok(match windlass::process::control_group() {
        Some(place) => format!("counted by the kernel, in {}", place.display()),
        None => "counted ten times a second: no control group is delegated to us".to_owned(),
    })
}

/// Returns the version of Landlock in the kernel.
fn landlock() -> CheckResult {
    match windlass::process::landlock_version() {
        0 => CheckResult::Absent(
            "the kernel has none: the mounts of the sandbox are the only fence".into(),
        ),
        version => CheckResult::Works(format!("version {version}")),
    }
}

/// Lets a tool change, move and create files, and undoes that.
fn undo() -> Result<String> {
    let scratch = new_scratch()?;
    let work = scratch.path().join("work");
    std::fs::write(work.join("old.txt"), "old\n")?;
    let windlass =
        Windlass::builder(&work).mode(Mode::Auto).state(scratch.path().join("state")).build()?;
    let session = Arc::new(windlass::Session::new(windlass.engine().new_session_id()));
    let patch = "*** Begin Patch\n*** Update File: old.txt\n*** Move to: moved/new.txt\n@@\n-old\n+new\n\
        *** Add File: added.txt\n+added\n*** End Patch\n";
    let result =
        block_on(windlass.call(&session, ToolCall::new("patch", json!({"patch": patch}))))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    let result = block_on(windlass.undo(&session, windlass::Undo::Last))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    let remaining: Vec<_> =
        std::fs::read_dir(&work)?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(
        remaining.iter().all(|name| name == "old.txt"),
        "something was left behind: {remaining:?}"
    );
    ensure!(std::fs::read(work.join("old.txt"))? == b"old\n", "the old content did not come back");
    Ok("what tools change can be taken back".into())
}

/// Opens the undo history, and returns its size.
fn history(global: &Global) -> Result<String> {
    let setup = setup::Setup::for_person(global, Recording::Whole)?;
    let Some(history) = setup.windlass.lasting_history() else {
        return Ok("nothing is kept".into());
    };
    let status = history.status()?;
    let oldest = status
        .oldest
        .map_or_else(String::new, |at| format!(", since {}", windlass::journal::utc(at)));
    let size = windlass::tool::format_size(status.bytes);
    let changes = if status.checkpoints == 1 { "change" } else { "changes" };
    Ok(format!("{} {changes}, {size}{oldest}", status.checkpoints))
}
