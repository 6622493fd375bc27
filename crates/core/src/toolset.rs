//! Toolsets: groups of tools of another provider, loaded when they are first needed.

use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Session, ToolError, ToolHandle, ToolSpec};

/// The result of [`Toolset::load`]: the tools, and a warning for each one that could not be loaded.
///
/// ```
/// use windlass_core::{ToolHandle, LoadedTools, testing::MockTool};
/// let mut loaded = LoadedTools::from(vec![ToolHandle::from(MockTool::named("forecast"))]);
/// loaded.warnings.push("the tide tables of this year are missing".into());
/// assert_eq!((loaded.tools.len(), loaded.warnings.len()), (1, 1));
/// ```
#[derive(Debug, Default)]
pub struct LoadedTools {
    /// The tools, in their order.
    pub tools: Vec<ToolHandle>,
    /// Warnings for a person, one sentence each.
    pub warnings: Vec<String>,
}

impl From<Vec<ToolHandle>> for LoadedTools {
    fn from(tools: Vec<ToolHandle>) -> Self {
        Self { tools, warnings: Vec::new() }
    }
}

/// A source of tools that is loaded when one of its tools is first needed: an MCP server, a plugin, a directory of command files.
///
/// Toolsets load in parallel, each within its time limit. A toolset that fails is a warning, and
/// [`Engine::load_toolset`](crate::Engine::load_toolset) tries it again.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{BoxFuture, ToolHandle, LoadedTools, Session, ToolError, Toolset, testing::MockTool};
/// # use windlass_core::{Engine, testing::EmptyHost};
///
/// struct Weather;
///
/// impl Toolset for Weather {
///     fn name(&self) -> &str {
///         "weather"
///     }
///     fn load<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>> {
///         Box::pin(async { Ok(vec![ToolHandle::from(MockTool::named("forecast"))].into()) })
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let builder = Engine::builder(Arc::new(EmptyHost::default()));
///
/// let engine = builder.toolset(Arc::new(Weather)).build();
/// let specs = engine.tools(&engine.new_session()).await;
/// assert_eq!(specs[0].name, "forecast");
/// # }
/// ```
pub trait Toolset: Send + Sync + 'static {
    /// Returns the owner name of its tools, for messages and for [`Engine::replace_tools`](crate::Engine::replace_tools).
    fn name(&self) -> &str;

    /// Loads the tools. `session` is the one that needs them; if the toolset is loaded [per session](Toolset::is_per_session), its
    /// principal, agent and rights may decide which tools it gets.
    fn load<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Result<LoadedTools, ToolError>>;

    /// Returns whether every session loads its own tools. Default: all sessions share what the first one loaded.
    fn is_per_session(&self) -> bool {
        false
    }

    /// Returns the definitions that a person has accepted, if the toolset is pinned to them.
    ///
    /// A pinned toolset is listed from here, without being loaded. When a call loads it, tools whose definition differs from the accepted
    /// one are left out with a warning.
    fn manifest(&self) -> Option<Arc<[ToolSpec]>> {
        None
    }

    /// Returns whether a tool of this name may come from here. A call by name loads only toolsets that return true. Default: the names of
    /// the manifest, or every name without a manifest.
    fn may_have(&self, tool: &str) -> bool {
        self.manifest().is_none_or(|specs| specs.iter().any(|spec| spec.name == tool))
    }

    /// Returns the time limit of one load.
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// The rule for two owners that have a tool with the same name.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Engine, NameClash, testing::{EmptyHost, MockTool}};
/// # let builder = Engine::builder(Arc::new(EmptyHost::default()));
/// let engine = builder.merge("ours", NameClash::Replace).build();
/// engine.replace_tools("theirs", vec![MockTool::named("search").into()]);
/// engine.replace_tools("ours", vec![MockTool::named("search").into()]);
/// assert_eq!(engine.tool_owner(&engine.new_session(), "search").as_deref(), Some("ours"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameClash {
    /// The earlier tool stays, and the other is left out with a warning.
    #[default]
    KeepFirst,
    /// The tool of this owner replaces the other one, with a warning.
    Replace,
}
