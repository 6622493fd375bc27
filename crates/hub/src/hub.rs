//! The hub: opens running engines for workspaces, all with the same settings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use windlass::changes::ContentHash;
use windlass::hooks::HookDefinition;
use windlass::journal::{Store, StoreError};
use windlass::policy::Secrets;

use crate::config::{Config, ConfigError};
use crate::settings::canonical;
use crate::trust::ActingFiles;
use crate::{HubError, HubSettings, Workspace, secrets};

/// Opens engines by workspace. All of them have the same [`HubSettings`] and share the state directory: each has its own writer there,
/// as separate processes would.
///
/// ```
/// use std::sync::Arc;
/// use serde_json::json;
/// use windlass::{Mode, ToolCall};
/// use windlass_hub::{ConfigOverrides, Hub, SessionOptions, HubSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_hub::HubError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (workspace, state) = (folder.path().join("work"), folder.path().join("state"));
/// # std::fs::create_dir(&workspace).unwrap();
/// let overrides = ConfigOverrides { mode: Some(Mode::Auto), ..ConfigOverrides::default() };
/// let hub = Hub::new(HubSettings { overrides, ..HubSettings::new(state) });
/// let open = hub.open(&workspace)?;
/// assert!(Arc::ptr_eq(&open, &hub.open(&workspace)?), "a workspace has one running engine");
/// let session = open.session(SessionOptions::default())?;
/// let write = ToolCall::new("write", json!({"path": "a.txt", "content": "a\n"}));
/// assert!(!open.call(&session, write).await.output.is_error);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
    /// Engines that are in use, by the real paths of their workspaces.
    open: Mutex<HashMap<PathBuf, Weak<Workspace>>>,
}

impl Hub {
    /// Creates a hub with these settings. Reads and opens nothing yet.
    pub fn new(settings: HubSettings) -> Self {
        Self { settings, open: Mutex::default() }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &HubSettings {
        &self.settings
    }

    /// Opens a workspace with the configuration that is in force there. While the returned value is in use, the same workspace
    /// returns the same running engine.
    pub fn open(&self, workspace: &Path) -> Result<Arc<Workspace>, HubError> {
        let workspace = real_workspace(workspace)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = open.get(&workspace).and_then(Weak::upgrade) {
            return Ok(running);
        }
        let config = Config::read(&self.settings, &workspace)?;
        let opened = Arc::new(Workspace::open(&self.settings, &workspace, config)?);
        open.retain(|_, running| running.strong_count() > 0);
        open.insert(workspace, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Opens a workspace with a configuration of the caller. The engine is not shared.
    pub fn open_with(&self, workspace: &Path, config: Config) -> Result<Workspace, HubError> {
        Workspace::open(&self.settings, &real_workspace(workspace)?, config)
    }

    /// Reads the configuration that is in force in a workspace, without opening an engine.
    pub fn config(&self, workspace: &Path) -> Result<Config, HubError> {
        Config::read(&self.settings, &real_workspace(workspace)?)
    }

    /// Adds the extra file and the overrides of the settings to a configuration.
    pub fn add_overrides(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.add_overrides(&self.settings)
    }

    /// Returns the person's own hooks, independent of any workspace.
    pub fn hooks_of_person(&self) -> Result<Vec<HookDefinition>, ConfigError> {
        let config = Config::of_person(&self.settings)?;
        Ok(config.hook_files.iter().flat_map(|file| file.read().0).collect())
    }

    /// Returns the warnings that the files of a workspace would cause once a person trusts them. Fails if they cannot be used.
    pub fn warnings_of(
        &self,
        workspace: &Path,
        found: &ActingFiles,
    ) -> Result<Vec<String>, HubError> {
        Ok(Config::if_trusted(&self.settings, workspace, found)?.warnings().to_vec())
    }

    /// Returns the secrets of the person and of a workspace, to redact records of earlier sessions.
    pub fn secrets(&self, workspace: &Path) -> Result<Secrets, HubError> {
        let workspace = real_workspace(workspace)?;
        let config = Config::read(&self.settings, &workspace)?;
        Ok(secrets::find_when_needed(
            &workspace,
            config.secret_sources("secrets"),
            &self.settings.places,
        ))
    }

    /// Opens only the journal, to read records.
    pub fn store(&self) -> Result<Store, StoreError> {
        let outside_anchor = outside_anchor(&self.settings);
        let settings = windlass::journal::StoreSettings {
            outside_anchor,
            ..windlass::journal::StoreSettings::default()
        };
        Store::open_with(&self.settings.state, settings)
    }
}

/// Returns the real path of a workspace. Rules and trust apply to real paths.
pub fn real_workspace(workspace: &Path) -> Result<PathBuf, HubError> {
    std::fs::canonicalize(workspace)
        .map_err(|source| HubError::Workspace { path: workspace.to_owned(), source })
}

/// Returns the anchor: the file outside the state directory that records the end of its journal. `None` if it is switched off or
/// has no place.
pub(crate) fn outside_anchor(settings: &HubSettings) -> Option<PathBuf> {
    let data = settings.places.data.as_ref().filter(|_| settings.has_anchor)?;
    let state = canonical(&settings.state);
    let name = ContentHash::of(state.as_os_str().as_encoded_bytes()).to_string();
    let anchors = data.join("anchors");
    // Inside the state directory, it would be restored together with an old copy of it.
    (!anchors.starts_with(&state)).then(|| anchors.join(name))
}
