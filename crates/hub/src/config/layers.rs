//! Reads the layers of a configuration in order, and decides which files of a workspace are in force.

use std::path::Path;

use windlass::policy::Layer;

use super::{Config, ConfigError, wrong_override};
use crate::trust::{
    Acting, ActingFileRole, ActingFiles, Change, TrustedContents, TrustedWorkspaces, listed,
};
use crate::{HubError, HubSettings, hook_files, rules};

impl Config {
    /// Reads all layers for a workspace.
    pub(crate) fn read(settings: &HubSettings, workspace: &Path) -> Result<Self, HubError> {
        let mut config = Self::default();
        config.add_own(settings)?;
        config.add_trusted(workspace, &settings.state)?;
        config.add_overrides(settings)?;
        Ok(config)
    }

    /// Reads only the files that the person has written.
    pub(crate) fn of_person(settings: &HubSettings) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.add_own(settings)?;
        config.add_config_file(settings)?;
        Ok(config)
    }

    /// Returns the configuration that would be in force if a person trusted these files of the workspace. Leaves out the layers
    /// above.
    pub(crate) fn if_trusted(
        settings: &HubSettings,
        workspace: &Path,
        found: &ActingFiles,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.add_own(settings)?;
        config.add_narrowing(workspace, &found.files)?;
        Ok(config)
    }

    /// Adds the layers that override all others: the extra file, then the overrides.
    pub(crate) fn add_overrides(&mut self, settings: &HubSettings) -> Result<(), ConfigError> {
        self.add_config_file(settings)?;
        let overrides = &settings.overrides;
        if let Some(mode) = overrides.mode {
            self.set("mode", mode.to_string());
        }
        if let Some(level) = overrides.sandbox {
            self.set("sandbox", level.to_string());
        }
        if let Some(hosts) = &overrides.net {
            self.set("net", hosts.as_str());
        }
        for (key, rules) in [("allow", &overrides.allow), ("deny", &overrides.deny)] {
            if !rules.is_empty() {
                let rules = toml::Value::from(rules.clone());
                rules::check(&rules).map_err(wrong_override(key))?;
                self.set(key, rules);
            }
        }
        Ok(())
    }

    /// Adds the person's own `config.toml` and `hooks.json`.
    fn add_own(&mut self, settings: &HubSettings) -> Result<(), ConfigError> {
        let Some(own) = &settings.places.config else { return Ok(()) };
        self.add_file(&own.join("config.toml"), false, Layer::User)?;
        hook_files::read_personal(own)?.map_or(Ok(()), |file| self.add_hook_file(file))
    }

    /// Adds the extra configuration file of the settings.
    fn add_config_file(&mut self, settings: &HubSettings) -> Result<(), ConfigError> {
        let Some(file) = &settings.config_file else { return Ok(()) };
        if file.extension().is_some_and(|extension| extension == "json") {
            return Err(ConfigError::Json(file.clone()));
        }
        self.add_file(file, true, Layer::Flags)
    }

    /// Adds the workspace's files as far as a person trusts them.
    fn add_trusted(&mut self, workspace: &Path, state: &Path) -> Result<(), HubError> {
        let found = ActingFiles::in_workspace(workspace)?;
        let Some(trusted) = TrustedWorkspaces::load(state).get(workspace) else {
            if found.acts() {
                self.warn([not_in_force(&found, &[])]);
            }
            self.warn(found.warnings);
            return Ok(());
        };
        let changes = trusted.changes(workspace, &found)?;
        if !changes.is_empty() {
            self.warn([not_in_force(&found, &changes)]);
            let held =
                trusted.held_restrictions(&found, &TrustedContents::in_state(state), &changes);
            self.only_gates = true;
            self.closed = held.closed;
            self.add_narrowing(workspace, &held.files)?;
            self.trusted = Some(trusted);
            return Ok(());
        }
        let tools = found.files.iter().filter(|file| file.role == ActingFileRole::CommandTool);
        self.command_tools.extend(tools.map(|file| file.to_command_file(workspace)));
        self.add_narrowing(workspace, &found.files)?;
        self.warn(found.warnings);
        self.trusted = Some(trusted);
        Ok(())
    }

    /// Adds the settings and the hooks of trusted files.
    fn add_narrowing(&mut self, workspace: &Path, files: &[Acting]) -> Result<(), ConfigError> {
        for file in files {
            if file.role == ActingFileRole::Config {
                self.add_workspace(&file.text(), &workspace.join(&file.path))?;
            }
            if let Some(file) = file.to_hook_file() {
                self.add_hook_file(file)?;
            }
        }
        Ok(())
    }
}

/// Returns the warning about a workspace that a person has not trusted, or that changed since.
fn not_in_force(found: &ActingFiles, changes: &[Change]) -> String {
    let any = |is: fn(ActingFileRole) -> bool| found.files.iter().any(|file| is(file.role));
    let kinds = [
        ("the configuration", any(|role| role == ActingFileRole::Config)),
        ("the command tools", any(|role| role == ActingFileRole::CommandTool)),
        ("the hooks", any(|role| matches!(role, ActingFileRole::Hooks(_)))),
    ];
    let there: Vec<&str> = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| *kind).collect();
    let what = match &there[..] {
        [] => "what this workspace brings is".to_owned(),
        ["the configuration"] => "the configuration of this workspace is".to_owned(),
        [one] => format!("{one} of this workspace are"),
        [all @ .., last] => format!("{} and {last} of this workspace are", all.join(", ")),
    };
    let since = if changes.is_empty() {
        String::new()
    } else {
        let changes = listed(changes);
        format!(", and what was trusted and refuses still holds; since it was trusted: {changes}")
    };
    format!("{what} not in force: `windlass trust` shows and allows what is there{since}")
}
