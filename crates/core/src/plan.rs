//! A tool whose calls are planned: what is decided on is what runs.
//!
//! Some calls cannot be decided on by their arguments alone. `undo` has to look at the history, `git` at the repository, `test` at the
//! files of the project, and `bash` has to read the command. Such a tool finds that out once, in [`PlannedTool::plan`]. The engine decides
//! on the effects of the plan, and hands the same plan to [`PlannedTool::call`], so nothing is read or parsed a second time.
//!
//! A [`Tool`] whose arguments say it all is a planned tool too: its plan are its arguments.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::parse_args;
use crate::{
    About, AnyTool, BoxFuture, Context, Effects, Kinds, Output, Scene, Spec, Tool, ToolError,
};

/// A tool that plans each call before it is decided on.
///
/// Write a [`Tool`] where the arguments alone say what a call does; every `Tool` is a `PlannedTool`.
///
/// ```
/// use std::path::PathBuf;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use windlass_core::{Context, Effects, Kinds, Output, Planned, PlannedTool, Scene, ToolError};
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
///     const KINDS: Kinds = Kinds::READ;
///     type Args = Args;
///     /// The file that was found.
///     type Plan = PathBuf;
///
///     fn plan(&self, _: Args, scene: &Scene<'_>) -> Result<Planned<PathBuf>, ToolError> {
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
    /// The name that models call it by: `[a-z][a-z0-9_]*`, at most 64 characters.
    const NAME: &'static str;

    /// The kinds of effects that any call of this tool can have. Listings, roles and MCP annotations go by it; a call that
    /// declares more is refused as a fault of the tool.
    const KINDS: Kinds;

    /// A call depends on what earlier calls changed, as one of `undo` does: it is planned when all earlier calls of its turn have
    /// ended.
    const LOOKS_BACK: bool = false;

    /// The arguments. They should refuse unknown fields.
    type Args: DeserializeOwned + JsonSchema;

    /// All that `call` needs: the arguments that are left, and what was found out about them.
    type Plan: Send + Sync + 'static;

    /// Finds out what the call would do. The engine asks once per call; an error ends the call before anything is decided on.
    ///
    /// Nothing is granted yet, so the answer must not tell the model about files that it may not see. Until the call runs, the machine
    /// can change: the doors of [`Context`] check each path and each change again, and the plan must not be taken for a proof.
    fn plan(&self, args: Self::Args, scene: &Scene<'_>) -> Result<Planned<Self::Plan>, ToolError>;

    /// Does what was planned. `cx` holds the only doors to the machine.
    fn call(
        &self,
        cx: &Context,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send;

    /// Copies the plan for a trial, if a call does nothing but change files through its context. It then runs first where changes are
    /// only proposed, and a person who is asked is shown what would become of each file.
    fn copy_for_trial(&self, _: &Self::Plan) -> Option<Self::Plan> {
        None
    }

    /// How long a call may take, if the plan says so; otherwise the engine's own limit holds.
    fn time_limit(&self, _: &Self::Plan) -> Option<Duration> {
        None
    }

    /// Whether a person has to agree to this call each time, whatever the rules and the mode allow.
    fn needs_person(&self, _: &Self::Plan) -> bool {
        false
    }

    /// Whether calls take as long as they take: the engine's own limit of time does not hold for them.
    fn is_long_running(&self) -> bool {
        false
    }

    /// Facts for lists, manuals and prompts; see [`Tool::about`].
    fn about(&self) -> About {
        About::default()
    }
}

/// What a call wants to do, and the plan to do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned<Plan> {
    /// The effects that are decided on. Paths may be as the model wrote them.
    pub effects: Effects,
    /// What the call is given once it is allowed.
    pub plan: Plan,
}

/// A call with its plan. Only [`AnyTool::plan`] makes one. It runs only with a [`Context`], and a context is made only from a
/// [`Grant`](crate::Grant), which only a policy can give.
///
/// ```
/// use windlass_core::{Handle, PlannedCall, testing::{EmptyHost, MockTool, with_scene}};
/// let tool = Handle::from(MockTool::named("ping"));
/// with_scene(&EmptyHost::default(), |scene| {
///     let call: Box<dyn PlannedCall + '_> = tool.plan(serde_json::json!({}), scene)?.plan;
///     assert_eq!(call.time_limit(), None, "the limit of the engine holds");
///     Ok::<(), windlass_core::ToolError>(())
/// })?;
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
pub trait PlannedCall: Send + Sync {
    /// How long it may take, if the engine's own limit is not the right one.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Whether a person has to agree each time; see [`PlannedTool::needs_person`].
    fn needs_person(&self) -> bool {
        false
    }

    /// Copies the call for a trial; see [`PlannedTool::copy_for_trial`].
    fn copy_for_trial(&self) -> Option<Box<dyn PlannedCall + '_>> {
        None
    }

    /// Does it.
    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a;
}

/// A tool without a plan: its arguments are all that a call needs.
impl<T: Tool> PlannedTool for T {
    const NAME: &'static str = <T as Tool>::NAME;
    const KINDS: Kinds = <T as Tool>::KINDS;
    const LOOKS_BACK: bool = <T as Tool>::LOOKS_BACK;
    type Args = <T as Tool>::Args;
    type Plan = <T as Tool>::Args;

    fn plan(&self, args: Self::Args, _: &Scene<'_>) -> Result<Planned<Self::Plan>, ToolError> {
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

    fn about(&self) -> About {
        Tool::about(self)
    }
}

impl<T: PlannedTool> AnyTool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn kinds(&self) -> Kinds {
        T::KINDS
    }

    fn looks_back(&self) -> bool {
        T::LOOKS_BACK
    }

    fn spec(&self) -> Spec {
        Spec::of::<T::Args>(Cow::Borrowed(T::NAME), self.about(), T::KINDS)
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        scene: &Scene<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let Planned { effects, plan } = PlannedTool::plan(self, parse_args(input)?, scene)?;
        Ok(Planned { effects, plan: Box::new(TypedCall { tool: self, plan }) })
    }
}

/// A call of a typed tool.
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
