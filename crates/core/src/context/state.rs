//! The door to values that persist from call to call.

use serde_json::Value;

use super::Context;
use crate::{StateEntry, StateNote, StateOwner, ToolError};

/// The owner of a value, as seen from a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateScope {
    /// The session of the call.
    Session,
    /// The workspace of the call.
    Workspace,
    /// The person who uses this machine.
    Person,
}

/// The door to values that persist from call to call. A key is accessible if the call was granted the effect `State` of it.
///
/// Blocking: call it in [`Context::blocking`] if the store may be slow.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effects, EffectKinds, Output, StateScope, testing::MockTool};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let count = MockTool::named("count")
///     .with_effects(EffectKinds::STATE, |_| Effects::state("count"))
///     .answering(|cx, _| async move {
///         let counted = cx.state().update(StateScope::Session, "count", |old| {
///             Ok(Some(json!(old.and_then(|old| old.as_u64()).unwrap_or(0) + 1)))
///         })?;
///         Ok(Output::text(counted.unwrap_or_default().to_string()))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(count)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// engine.call(&session, ToolCall::new("count", json!({}))).await;
/// let second = engine.call(&session, ToolCall::new("count", json!({}))).await;
/// assert_eq!(second.output.to_text(), "2");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StateDoor<'a>(&'a Context);

impl Context {
    /// Returns the door to persistent values; each key needs the effect `State` of it.
    pub fn state(&self) -> StateDoor<'_> {
        StateDoor(self)
    }
}

impl StateDoor<'_> {
    /// Maximum bytes of a value as JSON.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Maximum bytes of a key.
    pub const MAX_KEY: usize = 256;

    /// Maximum number of times that [`StateDoor::update`] tries again because another writer was first.
    const MAX_ATTEMPTS: usize = 1_000;

    /// Returns the value of a key, if it has one.
    pub fn get(&self, scope: StateScope, key: &str) -> Result<Option<StateEntry>, ToolError> {
        self.check_key(key)?;
        (self.0).0.engine.state().get(&self.owner_of(scope), key)
    }

    /// Replaces or removes the value if it still has this version; 0 stands for no value. Returns whether it had that version: if
    /// not, another writer was first. Redacts secrets before the value is stored.
    pub fn replace(
        &self,
        scope: StateScope,
        key: &str,
        version: u64,
        value: Option<Value>,
    ) -> Result<bool, ToolError> {
        self.check_key(key)?;
        let inner = &(self.0).0;
        if inner.grant.is_trial() {
            return Err(ToolError::denied("not allowed: the call is only tried out"));
        }
        let clean = value.map(|mut value| {
            inner.secrets.redact_json(&mut value);
            value
        });
        let bytes = clean.as_ref().map_or(0, |value| value.to_string().len());
        if bytes > Self::MAX_BYTES {
            return Err(ToolError::failed(format!(
                "the state `{key}` would have {bytes} bytes; at most {} are kept",
                Self::MAX_BYTES
            )));
        }
        let replaced =
            inner.engine.state().replace(&self.owner_of(scope), key, version, clean.as_ref())?;
        if replaced {
            let note = StateNote::new(key, clean.unwrap_or_default()).of_call(inner.call.clone());
            inner.recorder.state_changed(&inner.tool, &note, &self.0.source());
        }
        Ok(replaced)
    }

    /// Replaces the value by the result of `change`, where `None` stands for no value. Calls `change` again if another writer was
    /// first. Returns the new value.
    pub fn update(
        &self,
        scope: StateScope,
        key: &str,
        mut change: impl FnMut(Option<Value>) -> Result<Option<Value>, ToolError>,
    ) -> Result<Option<Value>, ToolError> {
        for _ in 0..Self::MAX_ATTEMPTS {
            let (old, version) = match self.get(scope, key)? {
                Some(entry) => (Some(entry.value), entry.version),
                None => (None, 0),
            };
            let new = change(old)?;
            if self.replace(scope, key, version, new.clone())? {
                return Ok(new);
            }
        }
        Err(ToolError::busy(format!("the state `{key}` is changed by others all the time")))
    }

    /// Returns the owner of values in a scope.
    fn owner_of(self, scope: StateScope) -> StateOwner {
        let inner = &(self.0).0;
        match scope {
            StateScope::Session => StateOwner::Session(inner.session.id().clone()),
            StateScope::Workspace => {
                StateOwner::Workspace(inner.session_files.get().workspace().to_owned())
            }
            StateScope::Person => StateOwner::Person,
        }
    }

    /// Checks the length of a key, and the grant for it.
    fn check_key(self, key: &str) -> Result<(), ToolError> {
        (self.0).0.lineage.check_open()?;
        if key.len() > Self::MAX_KEY {
            return Err(ToolError::invalid_args("the key of a state is too long"));
        }
        if (self.0).0.grant.may_use_state(key) {
            return Ok(());
        }
        Err(ToolError::undeclared_effect(format!(
            "the tool used the state `{key}` without having declared it"
        )))
    }
}
