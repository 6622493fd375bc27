//! `windlass config`: prints the configuration in force and the source of each value.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass::quote;
use windlass_hub::{KEYS, key};

use crate::options::Global;
use crate::terminal::add;
use crate::{setup, terminal, user_dirs};

/// `windlass config`
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    subcommand: Option<ConfigSubcommand>,
}

/// The subcommands of `windlass config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigSubcommand {
    /// Show every value in force.
    Show,
    /// Explain one value: its meaning, and each layer that sets it.
    Explain {
        /// The name of the key.
        key: String,
    },
}

/// Returns a comment line with the path of the person's own configuration file.
fn own_file_comment() -> String {
    let Some(directory) = user_dirs::places().config else {
        return "# no place for your own configuration: HOME is not set\n".to_owned();
    };
    let file = directory.join("config.toml");
    let is = if file.exists() { "" } else { " (not there)" };
    format!("# your own configuration: {}{is}\n", quote::path(&file))
}

/// Prints all values or one, as text or JSON.
pub(super) fn run(global: &Global, command: ConfigCommand) -> Result<ExitCode> {
    let config = setup::hub(global)?.config(&global.workspace)?;
    for warning in config.warnings() {
        terminal::note(global, warning);
    }
    match command.subcommand.unwrap_or(ConfigSubcommand::Show) {
        ConfigSubcommand::Show if global.json => {
            let all: serde_json::Map<_, _> = KEYS
                .iter()
                .map(|key| {
                    let (value, said) = config.explain(key);
                    let source = said.last().map(|(_, source)| source.to_string());
                    (key.name.to_owned(), json!({"value": value, "source": source}))
                })
                .collect();
            terminal::print_json(&all.into())?;
        }
        ConfigSubcommand::Show => {
            let mut text = own_file_comment();
            for key in KEYS {
                let (value, said) = config.explain(key);
                let source = said.last().map(|(_, source)| source.to_string()).unwrap_or_default();
                add(&mut text, format_args!("{} = {value}  # {source}\n", key.name));
            }
            terminal::print(&text)?;
        }
        ConfigSubcommand::Explain { key: name } => {
            let key = key(&name)?;
            let (value, said) = config.explain(key);
            if global.json {
                let said: Vec<_> = said
                    .iter()
                    .map(|(value, source)| json!({"value": value, "source": source.to_string()}))
                    .collect();
                terminal::print_json(
                    &json!({"key": key.name, "value": value, "about": key.about, "said": said}),
                )?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut text = format!("{} = {value}\n{}\n", key.name, key.about);
            for (value, source) in said {
                add(&mut text, format_args!("  {value}  from {source}\n"));
            }
            terminal::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
