//! `windlass trust`: shows what would take effect, and makes it.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::options::{Global, Trust};
use crate::terminal::add;
use crate::{setup, terminal, trust};

pub(super) fn run(global: &Global, command: &Trust) -> Result<ExitCode> {
    let workspace = match &command.dir {
        Some(dir) => std::fs::canonicalize(dir)?,
        None => setup::workspace(global)?,
    };
    let state = setup::state(global)?;
    let acting = trust::acting(&workspace)?;
    trust::trust(&state, &workspace, &acting)?;
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
    for file in &acting {
        add(&mut text, format_args!("\n{}:\n{}\n", file.path.display(), file.text));
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
