//! `windlass config`: the values in force, and where each comes from.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use windlass_hub::{KEYS, key};

use crate::options::{ConfigCommand, ConfigWhat, Global};
use crate::terminal::add;
use crate::{setup, terminal};

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
            let mut text = String::new();
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
