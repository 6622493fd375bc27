//! The offered tools: in a fixed order, with valid and unique names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::registry::Rank;
use crate::{
    AnyTool, EffectKinds, PlanContext, Planned, PlannedCall, Session, ToolError, ToolHandle,
    ToolSpec, nearest,
};

/// A collection of tools.
///
/// ```
/// use windlass_core::{Toolbox, testing::MockTool};
/// let mut tools = Toolbox::new();
/// tools.add(MockTool::named("greet"))?;
/// assert!(tools.add(MockTool::named("greet")).is_err(), "names are unique");
/// assert!(tools.add(MockTool::named("Not A Name")).is_err());
/// assert_eq!(tools.names().collect::<Vec<_>>(), ["greet"]);
/// # Ok::<(), windlass_core::ToolboxError>(())
/// ```
#[derive(Debug, Default, Clone)]
pub struct Toolbox {
    entries: Vec<Arc<Slot>>,
    index: HashMap<String, usize>,
}

/// A tool with its spec, which is computed on first use.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The tool, or a stand-in if only its definition is known.
    pub(crate) tool: ToolHandle,
    /// Owner that has to be loaded before the tool can be called.
    pub(crate) pinned_by: Option<Rank>,
    /// Description that replaces the tool's own.
    description: Option<String>,
    spec: OnceLock<ToolSpec>,
}

impl Slot {
    /// Makes a slot for a tool that can be called.
    pub(crate) fn new(tool: ToolHandle) -> Self {
        Self { tool, pinned_by: None, description: None, spec: OnceLock::new() }
    }

    /// Makes a slot for a tool of which only the accepted definition is known so far.
    pub(crate) fn pinned(spec: ToolSpec, owner: Rank) -> Self {
        Self { pinned_by: Some(owner), ..Self::new(ToolHandle::from(PinnedTool(spec))) }
    }

    /// Returns the spec, with the replaced description if there is one.
    pub(crate) fn spec(&self) -> &ToolSpec {
        self.spec.get_or_init(|| {
            let mut spec = self.tool.spec();
            if let Some(description) = &self.description {
                spec.description.clone_from(description);
            }
            spec
        })
    }
}

/// Stand-in for a tool whose toolset is not loaded: has its accepted definition, and cannot be planned.
struct PinnedTool(ToolSpec);

impl AnyTool for PinnedTool {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn kinds(&self) -> EffectKinds {
        self.0.kinds
    }

    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn plan<'a>(
        &'a self,
        _: serde_json::Value,
        _: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        Err(ToolError::internal(format!("the tool `{}` is not loaded", self.0.name)))
    }
}

/// The reason why a tool was refused or not found.
///
/// ```
/// use windlass_core::{Toolbox, ToolboxError, testing::MockTool};
/// let mut tools = Toolbox::new();
/// tools.add(MockTool::named("ping"))?;
/// assert_eq!(tools.add(MockTool::named("ping")), Err(ToolboxError::Duplicate("ping".into())));
/// assert_eq!(tools.remove("pong").unwrap_err().to_string(), "there is no tool `pong`");
/// # Ok::<(), ToolboxError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The name is not valid for every provider.
    #[error(
        "`{0}` cannot be the name of a tool: it must be [a-z][a-z0-9_]*, at most 64 characters"
    )]
    BadName(String),
    /// There is a tool of this name already.
    #[error("there is a tool `{0}` already")]
    Duplicate(String),
    /// There is no tool of this name.
    #[error("there is no tool `{0}`")]
    Unknown(String),
}

impl Toolbox {
    /// Makes an empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a toolbox with a table of built-in tools.
    pub fn of(table: &'static [&'static dyn crate::AnyTool]) -> Result<Self, ToolboxError> {
        let mut tools = Self::new();
        for tool in table {
            tools.add(ToolHandle::Static(*tool))?;
        }
        Ok(tools)
    }

    /// Adds a tool at the end. Fails if its name is not valid or not new.
    pub fn add(&mut self, tool: impl Into<ToolHandle>) -> Result<(), ToolboxError> {
        let tool = tool.into();
        let name = tool.name().to_owned();
        if !is_valid_name(&name) {
            return Err(ToolboxError::BadName(name));
        }
        if self.index.contains_key(&name) {
            return Err(ToolboxError::Duplicate(name));
        }
        self.index.insert(name, self.entries.len());
        self.entries.push(Arc::new(Slot::new(tool)));
        Ok(())
    }

    /// Adds all tools of another toolbox, or none if one of the names is taken.
    pub fn merge(&mut self, other: Self) -> Result<(), ToolboxError> {
        if let Some(name) = other.names().find(|name| self.index.contains_key(*name)) {
            return Err(ToolboxError::Duplicate(name.to_owned()));
        }
        for slot in other.entries {
            self.index.insert(slot.tool.name().to_owned(), self.entries.len());
            self.entries.push(slot);
        }
        Ok(())
    }

    /// Removes a tool; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Result<(), ToolboxError> {
        let at = self.index.remove(name).ok_or_else(|| ToolboxError::Unknown(name.to_owned()))?;
        self.entries.remove(at);
        self.index.values_mut().filter(|index| **index > at).for_each(|index| *index -= 1);
        Ok(())
    }

    /// Replaces the description that models get of a tool.
    pub fn describe(
        &mut self,
        name: &str,
        description: impl Into<String>,
    ) -> Result<(), ToolboxError> {
        let at = *self.index.get(name).ok_or_else(|| ToolboxError::Unknown(name.to_owned()))?;
        self.entries[at] = Arc::new(Slot {
            description: Some(description.into()),
            ..Slot::new(self.entries[at].tool.clone())
        });
        Ok(())
    }

    /// Returns a toolbox of the tools with these names, in this toolbox's order, and the names that are not in it.
    pub fn select<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> (Self, Vec<&'a str>) {
        let (known, missing): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| self.index.contains_key(*name));
        let mut selected = Self::new();
        for slot in self.entries.iter().filter(|slot| known.contains(&slot.tool.name())) {
            selected.index.insert(slot.tool.name().to_owned(), selected.entries.len());
            selected.entries.push(slot.clone());
        }
        (selected, missing)
    }

    /// Returns a tool by name.
    pub fn get(&self, name: &str) -> Option<&ToolHandle> {
        self.slot(name).map(|slot| &slot.tool)
    }

    /// Returns the definition that models get of a tool.
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.slot(name).map(|slot| slot.spec())
    }

    /// Returns the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|slot| slot.tool.name())
    }

    /// Returns the definitions that models get in this session, in order.
    pub fn specs(&self, session: &Session) -> Vec<&ToolSpec> {
        self.admitted(session).map(|slot| slot.spec()).collect()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all slots, in order.
    pub(crate) fn slots(&self) -> &[Arc<Slot>] {
        &self.entries
    }

    /// Replaces the tool with the same name, or adds it at the end.
    pub(crate) fn put(&mut self, slot: Arc<Slot>) {
        let name = slot.tool.name();
        if let Some(at) = self.index.get(name) {
            self.entries[*at] = slot;
        } else {
            self.index.insert(name.to_owned(), self.entries.len());
            self.entries.push(slot);
        }
    }

    /// Returns the slot of a tool by name.
    pub(crate) fn slot(&self, name: &str) -> Option<&Arc<Slot>> {
        self.index.get(name).map(|at| &self.entries[*at])
    }

    /// Returns the tools that a session may see and call.
    pub(crate) fn admitted(&self, session: &Session) -> impl Iterator<Item = &Arc<Slot>> {
        self.entries
            .iter()
            .filter(|slot| session.predicate().admits(slot.tool.name(), slot.tool.kinds(), session))
    }

    /// Returns the name of the admitted tool that a wrong name probably meant.
    pub(crate) fn nearest(&self, name: &str, session: &Session) -> Option<&str> {
        nearest(name, self.admitted(session).map(|slot| slot.tool.name()))
    }
}

/// Returns whether a name is valid for every provider: `[a-z][a-z0-9_]*`, at most 64 characters.
pub(crate) fn is_valid_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
