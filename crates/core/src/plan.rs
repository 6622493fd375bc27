//! Tools that plan each call: the policy decides on the plan, and the same plan runs.
//!
//! The effects of some calls do not follow from their arguments alone. `undo` has to read the history, `git` the repository, `test` the
//! files of the project, and `bash` has to parse the command. Such a tool does that once, in [`PlannedTool::plan`]. The engine decides on
//! the effects of the plan, and passes the same plan to [`PlannedTool::call`], so nothing is read or parsed a second time.
//!
//! A [`Tool`] is a planned tool too: its plan is its arguments.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::parse_args;
use crate::{
    AnyTool, BoxFuture, Context, EffectKinds, Effects, Output, PlanContext, Tool, ToolDetails,
    ToolError, ToolSpec,
};

/// A tool that plans each call before it is decided on.
///
/// Implement [`Tool`] instead if the effects follow from the arguments alone; every `Tool` is a `PlannedTool`.
///
/// ```
/// use std::path::PathBuf;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use windlass_core::{Context, Effects, EffectKinds, Output, Planned, PlannedTool, PlanContext, ToolError};
///
/// struct Manifest;
///
/// /// Show the manifest of the project.
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Args {}
///
/// impl PlannedTool for Manifest {
///     const NAME: &'static str = "manifest";
///     const KINDS: EffectKinds = EffectKinds::READ;
///     type Args = Args;
///     /// The file that was found.
///     type Plan = PathBuf;
///
///     fn plan(&self, _: Args, scene: &PlanContext<'_>) -> Result<Planned<PathBuf>, ToolError> {
///         let names = ["Cargo.toml", "package.json"].map(PathBuf::from);
///         let found = names.into_iter().find(|name| scene.kind(name).is_some());
///         let path = found.ok_or_else(|| ToolError::failed("the project has no manifest"))?;
///         Ok(Planned { effects: Effects::read(&path), plan: path })
///     }
///
///     async fn call(&self, cx: &Context, path: PathBuf) -> Result<Output, ToolError> {
///         let text = std::io::read_to_string(cx.files().open(&path)?.file);
///         Ok(Output::text(text.map_err(|error| ToolError::failed(error.to_string()))?))
///     }
/// }
///
/// # use windlass_core::testing::{EmptyHost, plan_effects};
/// let effects = plan_effects(&EmptyHost::default(), &Manifest, serde_json::json!({}));
/// assert_eq!(effects.unwrap_err().message().text, "the project has no manifest");
/// ```
pub trait PlannedTool: Send + Sync + 'static {
    /// Name by which models call it: `[a-z][a-z0-9_]*`, at most 64 characters.
    const NAME: &'static str;

    /// Kinds of effects that any call of this tool can have. Listings, roles and MCP annotations depend on it; a call that declares more is
    /// refused as a fault of the tool.
    const KINDS: EffectKinds;

    /// True if a call depends on the changes of earlier calls, as `undo` does: it is planned after all earlier calls of its turn have
    /// ended.
    const LOOKS_BACK: bool = false;

    /// Type of the arguments. It should refuse unknown fields.
    type Args: DeserializeOwned + JsonSchema;

    /// Data that `call` needs: the remaining arguments and the results of planning.
    type Plan: Send + Sync + 'static;

    /// Plans a call. The engine plans once per call; an error ends the call before any decision.
    ///
    /// Nothing is granted yet, so the result must not tell the model about files that it may not see. The machine can change until the call
    /// runs: the doors of [`Context`] check each path and each change again, and the plan is no proof that they are unchanged.
    fn plan(
        &self,
        args: Self::Args,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<Self::Plan>, ToolError>;

    /// Runs the planned call. `cx` holds the only doors to the machine.
    fn call(
        &self,
        cx: &Context,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send;

    /// Copies the plan for a trial run, if a call changes only files and only through its context. The trial runs first, on proposals, and
    /// shows a person who is asked the changes of each file.
    fn copy_for_trial(&self, _: &Self::Plan) -> Option<Self::Plan> {
        None
    }

    /// Returns the time limit of a call, if the plan sets one; otherwise the engine's limit holds.
    fn time_limit(&self, _: &Self::Plan) -> Option<Duration> {
        None
    }

    /// Returns whether a person must approve this call each time, whatever the rules and the mode allow.
    fn needs_person(&self, _: &Self::Plan) -> bool {
        false
    }

    /// Returns whether calls may run without a time limit instead of the engine's.
    fn is_long_running(&self) -> bool {
        false
    }

    /// Returns facts for lists, manuals and prompts; see [`Tool::about`].
    fn about(&self) -> ToolDetails {
        ToolDetails::default()
    }
}

/// The effects of a call, and the plan to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned<Plan> {
    /// Effects to decide on. Paths may be as the model wrote them.
    pub effects: Effects,
    /// Data that the call gets once it is allowed.
    pub plan: Plan,
}

/// A call with its plan. Only [`AnyTool::plan`] makes one. It runs only with a [`Context`], and a context is made only from a
/// [`Grant`](crate::Grant), which only a policy can give.
///
/// ```
/// use windlass_core::{ToolHandle, PlannedCall, testing::{EmptyHost, MockTool, with_scene}};
/// let tool = ToolHandle::from(MockTool::named("ping"));
/// with_scene(&EmptyHost::default(), |scene| {
///     let call: Box<dyn PlannedCall + '_> = tool.plan(serde_json::json!({}), scene)?.plan;
///     assert_eq!(call.time_limit(), None, "the limit of the engine holds");
///     Ok::<(), windlass_core::ToolError>(())
/// })?;
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
pub trait PlannedCall: Send + Sync {
    /// Returns the time limit of the call, if it differs from the engine's.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns whether a person must approve it each time; see [`PlannedTool::needs_person`].
    fn needs_person(&self) -> bool {
        false
    }

    /// Copies the call for a trial run; see [`PlannedTool::copy_for_trial`].
    fn copy_for_trial(&self) -> Option<Box<dyn PlannedCall + '_>> {
        None
    }

    /// Runs the call.
    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a;
}

/// A tool whose plan is its arguments.
impl<T: Tool> PlannedTool for T {
    const NAME: &'static str = <T as Tool>::NAME;
    const KINDS: EffectKinds = <T as Tool>::KINDS;
    const LOOKS_BACK: bool = <T as Tool>::LOOKS_BACK;
    type Args = <T as Tool>::Args;
    type Plan = <T as Tool>::Args;

    fn plan(
        &self,
        args: Self::Args,
        _: &PlanContext<'_>,
    ) -> Result<Planned<Self::Plan>, ToolError> {
        Ok(Planned { effects: self.effects(&args), plan: args })
    }

    fn call(
        &self,
        cx: &Context,
        args: Self::Plan,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send {
        Tool::call(self, cx, args)
    }

    fn copy_for_trial(&self, args: &Self::Plan) -> Option<Self::Plan> {
        Tool::copy_for_trial(self, args)
    }

    fn time_limit(&self, args: &Self::Plan) -> Option<Duration> {
        Tool::time_limit(self, args)
    }

    fn needs_person(&self, args: &Self::Plan) -> bool {
        Tool::needs_person(self, args)
    }

    fn is_long_running(&self) -> bool {
        Tool::is_long_running(self)
    }

    fn about(&self) -> ToolDetails {
        Tool::about(self)
    }
}

impl<T: PlannedTool> AnyTool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn kinds(&self) -> EffectKinds {
        T::KINDS
    }

    fn looks_back(&self) -> bool {
        T::LOOKS_BACK
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::of::<T::Args>(Cow::Borrowed(T::NAME), self.about(), T::KINDS)
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let Planned { effects, plan } = PlannedTool::plan(self, parse_args(input)?, scene)?;
        Ok(Planned { effects, plan: Box::new(TypedCall { tool: self, plan }) })
    }
}

/// A planned call of a typed tool.
struct TypedCall<'t, T: PlannedTool> {
    tool: &'t T,
    plan: T::Plan,
}

impl<T: PlannedTool> PlannedCall for TypedCall<'_, T> {
    fn time_limit(&self) -> Option<Duration> {
        let unlimited = self.tool.is_long_running().then_some(Duration::MAX);
        self.tool.time_limit(&self.plan).or(unlimited)
    }

    fn needs_person(&self) -> bool {
        self.tool.needs_person(&self.plan)
    }

    fn copy_for_trial(&self) -> Option<Box<dyn PlannedCall + '_>> {
        let plan = self.tool.copy_for_trial(&self.plan)?;
        Some(Box::new(Self { tool: self.tool, plan }))
    }

    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move { self.tool.call(cx, self.plan).await })
    }
}
