//! `windlass trust`: shows the files of a workspace that take effect, and trusts them; lists trusted workspaces; revokes trust.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::people::{Difference, FileChange};
use windlass::quote;
use windlass::tool::diff::DiffFormat;
use windlass_hub::real_workspace;
use windlass_hub::trust::{
    Acting, ActingFileRole, ActingFiles, Change, Trusted, TrustedWorkspaces, listed,
};

use crate::options::Global;
use crate::person::{self, Person};
use crate::terminal::{Paint, add};
use crate::{setup, terminal};

/// `windlass trust`
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The workspace to trust [default: that of --workspace].
    dir: Option<PathBuf>,
    /// List the trusted workspaces, and whether their files have changed since.
    #[arg(long, conflicts_with_all = ["dir", "revoke"])]
    list: bool,
    /// Stop trusting the workspace.
    #[arg(long)]
    revoke: bool,
}

/// Trusts the workspace, after a question at a terminal. Exit code 1 if the person says no, a hook cannot be pinned or the configuration
/// cannot be used.
pub(super) fn run(global: &Global, command: &Trust) -> Result<ExitCode> {
    let state = setup::state_directory(global)?;
    if command.list {
        return list(global, &state);
    }
    if command.revoke {
        return revoke(global, &state, &workspace_dir(global, command)?);
    }
    let workspace = real_workspace(&workspace_dir(global, command)?)?;
    let mut found = ActingFiles::in_workspace(&workspace)?;
    found.add_scripts(&workspace, &setup::hub(global)?.hooks_of_person()?)?;
    let before = TrustedWorkspaces::load(&state).get(&workspace);
    let changes = match &before {
        Some(known) => known.changes(&workspace, &found)?,
        None => Vec::new(),
    };
    let (in_force, is_usable) = match setup::hub(global)?.warnings_of(&workspace, &found) {
        Ok(warnings) => (warnings, true),
        Err(error) => {
            let why = anyhow::Error::from(error);
            (vec![format!("no command runs here until this is mended: {why:#}")], false)
        }
    };
    for warning in found.warnings.iter().chain(&in_force) {
        terminal::note(global, warning);
    }
    let code = ExitCode::from(u8::from(!found.unaccepted.is_empty() || !is_usable));
    let line = format!("trusted: {}\n", workspace.display());
    if must_ask(global) {
        let paint = Paint::of(global);
        let shown = match &before {
            Some(before) => {
                TrustedChanges { before, state: &state, changes: &changes, paint }.text(&found)
            }
            None => quote::visible(&files_text(&found, &changes)).into_owned(),
        };
        let question = format!("\nTrust {} with exactly this? [y/N] ", workspace.display());
        if !person::show_and_ask(&shown, &quote::visible(&question))? {
            terminal::print("not trusted\n")?;
            return Ok(ExitCode::from(1));
        }
        TrustedWorkspaces::trust(&state, &workspace, &found)?;
        terminal::print(&line)?;
        return Ok(code);
    }
    TrustedWorkspaces::trust(&state, &workspace, &found)?;
    if global.json {
        let file = |file: &Acting| json!({"path": workspace.join(&file.path), "text": file.text()});
        let files: Vec<Value> = found.files.iter().map(file).collect();
        let changes: Vec<String> = changes.iter().map(Change::to_string).collect();
        let unaccepted = found.unaccepted.iter();
        let unaccepted: Vec<Value> = unaccepted
            .map(|hook| json!({"hook": hook.hook, "gate": hook.is_gate, "why": hook.to_string()}))
            .collect();
        let answer = json!({
            "trusted": workspace, "files": files, "changes": changes, "not_accepted": unaccepted,
        });
        terminal::print_json(&answer)?;
    } else {
        terminal::print(&format!("{line}{}", files_text(&found, &changes)))?;
    }
    Ok(code)
}

/// Returns the workspace that the command is about.
fn workspace_dir(global: &Global, command: &Trust) -> Result<PathBuf> {
    match &command.dir {
        Some(dir) => Ok(dir.clone()),
        None => setup::workspace_path(global),
    }
}

/// Returns whether to show the files and ask first. In a script and with `--yes` or `--json`, the command itself is the person's consent.
fn must_ask(global: &Global) -> bool {
    !global.yes && !global.json && Person::at_terminal(Paint::of(global)).is_some()
}

/// Returns all files that would take effect, in groups, with control characters made visible.
fn files_text(found: &ActingFiles, changes: &[Change]) -> String {
    let mut text = String::new();
    if !changes.is_empty() {
        add(&mut text, format_args!("\nsince it was trusted: {}\n", listed(changes)));
    }
    if found.files.is_empty() {
        text.push_str("nothing in it takes effect; a file that appears later asks again\n");
    }
    let mut heading = "";
    for file in &found.files {
        if file.role.heading() != heading {
            heading = file.role.heading();
            add(&mut text, format_args!("\n{heading}\n"));
        }
        let content = file.text();
        add(
            &mut text,
            format_args!("\n{}:\n{}", quote::path(&file.path), quote::visible(&content)),
        );
        text.push_str(if content.ends_with('\n') { "" } else { "\n" });
        add_meaning(&mut text, file);
    }
    add_absent(&mut text, &found.absent);
    add_unaccepted(&mut text, found);
    text
}

/// The changes since the files were trusted.
struct TrustedChanges<'a> {
    before: &'a Trusted,
    state: &'a Path,
    changes: &'a [Change],
    paint: Paint,
}

impl TrustedChanges<'_> {
    /// Returns the changed files line by line and the unchanged ones by name, with control characters made visible.
    fn text(&self, found: &ActingFiles) -> String {
        let mut text = String::new();
        if self.changes.is_empty() {
            text.push_str("\nnothing changed since it was trusted\n");
        } else {
            let changes = quote::visible(&listed(self.changes)).into_owned();
            add(&mut text, format_args!("\nsince it was trusted: {changes}\n\n"));
        }
        for change in self.changes {
            text.push_str(&self.file_diff(&quote::unpath(&change.path), found));
        }
        let is_other =
            |file: &&Acting| self.changes.iter().all(|one| one.path != quote::path(&file.path));
        let others: Vec<_> =
            found.files.iter().filter(is_other).map(|file| quote::path(&file.path)).collect();
        if !others.is_empty() {
            add(&mut text, format_args!("\nas it was trusted: {}\n", others.join(", ")));
        }
        let mut rest = String::new();
        add_absent(&mut rest, &found.absent);
        add_unaccepted(&mut rest, found);
        text + &quote::visible(&rest)
    }

    /// Returns the diff of one file, and its meaning now.
    fn file_diff(&self, path: &Path, found: &ActingFiles) -> String {
        let now = found.files.iter().find(|file| file.path == path);
        let before = self.before.copy(self.state, path);
        let verb = match (&before, now) {
            (_, None) => "delete",
            (None, _) => "create",
            (Some(_), Some(_)) => "change",
        };
        let after = now.map(|file| file.bytes.clone());
        let change = FileChange { path: path.to_owned(), verb, before, after, detail: None };
        let look = if self.paint.is_on() { DiffFormat::colour() } else { DiffFormat::plain() };
        let look = look.words(self.paint.is_on()).whole();
        let mut text = Difference::between(&[change], &[], Path::new(""), &look, None).whole;
        let mut meaning = String::new();
        if let Some(file) = now {
            add_meaning(&mut meaning, file);
        }
        text.push_str(&quote::visible(&meaning));
        text
    }
}

/// Appends the hooks that cannot be pinned.
fn add_unaccepted(text: &mut String, found: &ActingFiles) {
    for hook in &found.unaccepted {
        let kind = if hook.is_gate { "gate" } else { "hook" };
        let effect = if hook.is_gate { "it refuses what it is asked" } else { "it does not run" };
        let name = quote::visible(&hook.hook);
        add(text, format_args!("\nthe {kind} {name} is not accepted, {effect}: {hook}\n"));
    }
}

/// Appends the absent files that hooks would load if they existed.
fn add_absent(text: &mut String, absent: &[PathBuf]) {
    const MAX_SHOWN: usize = 20;
    if absent.is_empty() {
        return;
    }
    let shown = absent.iter().take(MAX_SHOWN);
    let names: Vec<_> = shown.map(|path| quote::path(path)).collect();
    let more = absent.len().saturating_sub(MAX_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    add(
        text,
        format_args!(
            "\nthe hooks could also reach {}{more}, where nothing is; if a file appears there, they refuse\n",
            names.join(", ")
        ),
    );
}

/// Appends the commands of a hook file, or the reason why a file has no effect.
fn add_meaning(text: &mut String, file: &Acting) {
    if let (ActingFileRole::CommandTool, Err(why)) =
        (file.role, file.to_command_file(Path::new("")).definition())
    {
        add(text, format_args!("not a tool: {why}\n"));
    }
    let Some(hooks) = file.to_hook_file() else { return };
    let (hooks, warnings) = hooks.read();
    for hook in hooks {
        let (point, command) = (hook.point, hook.command.to_string());
        add(text, format_args!("runs at {point}: {}\n", quote::visible(&command)));
    }
    for warning in warnings {
        add(text, format_args!("{}\n", quote::visible(&warning)));
    }
}

/// Prints the trusted workspaces and whether trust is in force.
fn list(global: &Global, state: &Path) -> Result<ExitCode> {
    let known = TrustedWorkspaces::load(state);
    let mut lines = Vec::new();
    for workspace in known.workspaces() {
        let path = quote::unpath(workspace);
        let is = match known.get(&path) {
            None => "trusted by an earlier version: it asks again".to_owned(),
            Some(_) if !path.is_dir() => "gone".to_owned(),
            Some(trusted) => match &trusted.changes(&path, &ActingFiles::in_workspace(&path)?)?[..]
            {
                [] => "as it was trusted".to_owned(),
                changes => format!("not in force: {}", listed(changes)),
            },
        };
        lines.push((workspace.to_owned(), is));
    }
    if global.json {
        let entry = |(workspace, is): &(String, String)| json!({"workspace": workspace, "is": is});
        for line in &lines {
            terminal::print_json(&entry(line))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for (workspace, is) in lines {
        add(&mut text, format_args!("{workspace}  {is}\n"));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Stops trusting a workspace. Exit code 1 if it was not trusted.
fn revoke(global: &Global, state: &Path, dir: &Path) -> Result<ExitCode> {
    // The workspace may be deleted.
    let workspace = std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir))?;
    let was_known = TrustedWorkspaces::revoke(state, &workspace)?;
    if global.json {
        terminal::print_json(&json!({"revoked": workspace, "was_trusted": was_known}))?;
    } else {
        let what = if was_known { "no longer trusted" } else { "was not trusted" };
        terminal::print(&format!("{what}: {}\n", workspace.display()))?;
    }
    Ok(ExitCode::from(u8::from(!was_known)))
}
