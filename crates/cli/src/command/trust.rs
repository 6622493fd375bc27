//! `windlass trust`: shows what would take effect, and makes it.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::options::{Global, Trust};
use crate::terminal::add;
use crate::trust::Role;
use crate::{setup, terminal, trust};

pub(super) fn run(global: &Global, command: &Trust) -> Result<ExitCode> {
    let workspace = match &command.dir {
        Some(dir) => std::fs::canonicalize(dir)?,
        None => setup::workspace(global)?,
    };
    let state = setup::state(global)?;
    let (acting, warnings) = trust::acting(&workspace);
    trust::trust(&state, &workspace, &acting)?;
    for warning in &warnings {
        terminal::note(global, warning);
    }
    if global.json {
        let files: Vec<_> =
            acting.iter().map(|file| json!({"path": file.path, "text": file.text})).collect();
        terminal::print_json(&json!({"trusted": workspace, "files": files}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("trusted: {}\n", workspace.display());
    if acting.is_empty() {
        text.push_str("nothing in it takes effect; a file that appears later asks again\n");
    }
    for file in acting {
        add(&mut text, format_args!("\n{}:\n{}\n", file.path.display(), file.text));
        if let (Role::CommandTool, Err(why)) = (file.role, file.into_command_file().definition()) {
            add(&mut text, format_args!("not a tool: {why}\n"));
        }
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
