//! `windlass config`: the values in force, and where each comes from.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass::quote;
use windlass_hub::{KEYS, key};

use crate::options::Global;
use crate::terminal::add;
use crate::{places, setup, terminal};

/// `windlass config`
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    what: Option<ConfigWhat>,
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

/// A comment that says where the person's own configuration is looked for.
fn own_file() -> String {
    let Some(directory) = places::all().config else {
        return "# no place for your own configuration: HOME is not set\n".to_owned();
    };
    let file = directory.join("config.toml");
    let is = if file.exists() { "" } else { " (not there)" };
    format!("# your own configuration: {}{is}\n", quote::path(&file))
}

pub(super) fn run(global: &Global, command: ConfigCommand) -> Result<ExitCode> {
    let config = setup::hub(global)?.config(&global.workspace)?;
    for warning in config.warnings() {
        terminal::note(global, warning);
    }
    match command.what.unwrap_or(ConfigWhat::Show) {
        ConfigWhat::Show if global.json => {
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
        ConfigWhat::Show => {
            let mut text = own_file();
            for key in KEYS {
                let (value, said) = config.explain(key);
                let source = said.last().map(|(_, source)| source.to_string()).unwrap_or_default();
                add(&mut text, format_args!("{} = {value}  # {source}\n", key.name));
            }
            terminal::print(&text)?;
        }
        ConfigWhat::Explain { key: name } => {
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
