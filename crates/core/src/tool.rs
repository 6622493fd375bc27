//! Tools: the trait for their authors, the trait that the engine sees, calls and their results.
//!
//! An author implements [`Tool`]: a name, typed arguments, the effects of one call, and the call itself. If the effects depend on more
//! than the arguments, the author implements [`PlannedTool`](crate::PlannedTool); every `Tool` is one too. The engine sees [`AnyTool`],
//! which a blanket implementation gives to every planned tool. Tools whose schema is known only at run time implement it through
//! [`DynamicTool`](crate::DynamicTool).

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    CallId, Context, EffectKinds, Effects, Outcome, Output, PlanContext, Planned, PlannedCall,
    SessionId, ToolError, TurnId, schema,
};

/// A tool in the form in which its author writes it. Everything else is derived from this.
///
/// The doc comment of `Args` is the description that the model reads; the doc comments of its fields describe the parameters.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use windlass_core::{Context, Effects, EffectKinds, Output, Tool, ToolError};
///
/// struct Shout;
///
/// /// Say a text in capital letters.
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Args {
///     /// What to say.
///     text: String,
/// }
///
/// impl Tool for Shout {
///     const NAME: &'static str = "shout";
///     const KINDS: EffectKinds = EffectKinds::NONE;
///     type Args = Args;
///     fn effects(&self, _: &Args) -> Effects {
///         Effects::none()
///     }
///     async fn call(&self, _: &Context, args: Args) -> Result<Output, ToolError> {
///         Ok(Output::text(args.text.to_uppercase()))
///     }
/// }
///
/// use windlass_core::AnyTool;
/// assert_eq!(Shout.spec().description, "Say a text in capital letters.");
/// ```
pub trait Tool: Send + Sync + 'static {
    /// Name by which models call it: `[a-z][a-z0-9_]*`, at most 64 characters.
    const NAME: &'static str;

    /// Kinds of effects that any call of this tool can have. Listings, roles and MCP annotations depend on it; a call that declares more is
    /// refused as a fault of the tool.
    const KINDS: EffectKinds;

    /// Type of the arguments. It should refuse unknown fields.
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// True if a call depends on the changes of earlier calls: its effects are computed after all earlier calls of its turn have ended.
    const LOOKS_BACK: bool = false;

    /// Returns the effects of a call. If they do not follow from the arguments, implement [`PlannedTool`](crate::PlannedTool) instead.
    fn effects(&self, args: &Self::Args) -> Effects;

    /// Runs the call. `cx` holds the only doors to the machine.
    fn call(
        &self,
        cx: &Context,
        args: Self::Args,
    ) -> impl Future<Output = Result<Output, ToolError>> + Send;

    /// Copies the arguments for a trial run, if a call changes only files and only through its context. The trial runs first, on proposals,
    /// and shows a person who is asked the changes of each file.
    fn copy_for_trial(&self, _: &Self::Args) -> Option<Self::Args> {
        None
    }

    /// Returns the time limit of a call, if its arguments set one; otherwise the engine's limit holds.
    fn time_limit(&self, _: &Self::Args) -> Option<Duration> {
        None
    }

    /// Returns whether a person must approve this call each time, whatever the rules and the mode allow.
    fn needs_person(&self, _: &Self::Args) -> bool {
        false
    }

    /// Returns whether calls may run without a time limit instead of the engine's.
    fn is_long_running(&self) -> bool {
        false
    }

    /// Returns facts for lists, manuals and prompts that the arguments do not contain: a title, guidance, examples, the output schema.
    fn about(&self) -> ToolDetails {
        ToolDetails::default()
    }
}

/// Facts about a tool for lists, manuals and prompts, beyond its description and the schema of its arguments.
///
/// ```
/// use serde_json::json;
/// use windlass_core::ToolDetails;
/// let about = ToolDetails::titled("Forecast")
///     .with_guidance("Ask for several days at once.")
///     .with_example("the next three days", json!({"city": "Oslo", "days": 3}));
/// assert_eq!(about.examples[0].input["days"], 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolDetails {
    /// Name for people.
    pub title: Option<Cow<'static, str>>,
    /// Advice on when and how to use the tool, for the instructions of a model. It is not part of the list of tools, which is sent with
    /// each request and has to be short.
    pub guidance: Option<Cow<'static, str>>,
    /// Advice to add to the error if the arguments do not fit the schema, such as the tool to use instead.
    pub beyond: Option<Cow<'static, str>>,
    /// Calls that show how to use the arguments.
    pub examples: Vec<Example>,
    /// JSON Schema of the structured data in an answer, for tools that answer with [`Content::Json`](crate::Content::Json).
    pub output_schema: Option<Value>,
}

/// An example call of a tool.
///
/// ```
/// use serde_json::json;
/// use windlass_core::ToolDetails;
/// let about = ToolDetails::default().with_example("all errors of a day", json!({"level": "error"}));
/// assert_eq!(about.examples[0].description, "all errors of a day");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Example {
    /// Purpose of the call, in a few words.
    pub description: Cow<'static, str>,
    /// Arguments of the call.
    pub input: Value,
}

impl ToolDetails {
    /// Makes facts with this title.
    pub fn titled(title: impl Into<Cow<'static, str>>) -> Self {
        Self { title: Some(title.into()), ..Self::default() }
    }

    /// Adds advice for a model whose arguments do not fit the schema.
    #[must_use]
    pub fn with_beyond(mut self, beyond: impl Into<Cow<'static, str>>) -> Self {
        self.beyond = Some(beyond.into());
        self
    }

    /// Adds advice for the instructions of a model.
    #[must_use]
    pub fn with_guidance(mut self, guidance: impl Into<Cow<'static, str>>) -> Self {
        self.guidance = Some(guidance.into());
        self
    }

    /// Adds an example call.
    #[must_use]
    pub fn with_example(mut self, description: impl Into<Cow<'static, str>>, input: Value) -> Self {
        self.examples.push(Example { description: description.into(), input });
        self
    }

    /// Sets the output schema to that of the type `T`.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use windlass_core::ToolDetails;
    /// #[derive(JsonSchema)]
    /// struct Counts {
    ///     lines: u64,
    /// }
    /// let schema = ToolDetails::default().with_output::<Counts>().output_schema.expect("just given");
    /// assert_eq!(schema["properties"]["lines"]["type"], "integer");
    /// ```
    #[must_use]
    pub fn with_output<T: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema::description_and_schema::<T>().1);
        self
    }
}

/// The definition of a tool: the part that a model gets, and the facts that the engine knows before any call.
///
/// ```
/// use windlass_core::{EffectKinds, Toolbox, testing::MockTool};
/// let mut tools = Toolbox::new();
/// tools.add(MockTool::named("ping"))?;
/// tools.describe("ping", "Check that the server answers.")?;
/// let spec = tools.spec("ping").expect("it was just added");
/// assert_eq!((&*spec.name, &*spec.description), ("ping", "Check that the server answers."));
/// assert_eq!((&spec.input_schema["type"], spec.kinds), (&"object".into(), EffectKinds::NONE));
/// # Ok::<(), windlass_core::ToolboxError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Name by which models call it.
    pub name: Cow<'static, str>,
    /// Purpose of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Kinds of effects that a call can have at most.
    pub kinds: EffectKinds,
    /// Facts for lists, manuals and prompts.
    pub about: ToolDetails,
}

impl ToolSpec {
    /// Makes the spec of a tool whose schema is known only at run time.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::{ToolDetails, EffectKinds, ToolSpec};
    /// let spec = ToolSpec::new("echo", "Say it again.", json!({"type": "object"}), EffectKinds::NONE)
    ///     .with_about(ToolDetails::titled("Echo"));
    /// assert_eq!(spec.about.title.as_deref(), Some("Echo"));
    /// ```
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<String>,
        input_schema: Value,
        kinds: EffectKinds,
    ) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, input_schema, kinds, about: ToolDetails::default() }
    }

    /// Replaces the facts for lists, manuals and prompts.
    #[must_use]
    pub fn with_about(mut self, about: ToolDetails) -> Self {
        self.about = about;
        self
    }

    /// Makes the spec of a typed tool, with schema and description from the doc comments of `Args`.
    pub(crate) fn of<Args: JsonSchema>(
        name: Cow<'static, str>,
        about: ToolDetails,
        kinds: EffectKinds,
    ) -> Self {
        let (description, input_schema) = schema::description_and_schema::<Args>();
        Self { name, description, input_schema, kinds, about }
    }
}

/// A tool in the form that the engine uses.
///
/// ```
/// use windlass_core::{AnyTool, Effects, ToolHandle, EffectKinds, testing::MockTool};
///
/// fn line(tool: &dyn AnyTool) -> String {
///     format!("{}: {}", tool.name(), tool.kinds().names().join(", "))
/// }
/// let publish: ToolHandle =
///     MockTool::named("publish").with_effects(EffectKinds::WRITE, |_| Effects::write("index.html")).into();
/// assert_eq!(line(&*publish), "publish: write");
/// ```
pub trait AnyTool: Send + Sync + 'static {
    /// Returns its name. Cheap, unlike [`AnyTool::spec`].
    fn name(&self) -> &str;

    /// Returns the kinds of effects that a call can have at most.
    fn kinds(&self) -> EffectKinds;

    /// Returns whether a call depends on the changes of earlier calls; see [`Tool::LOOKS_BACK`].
    fn looks_back(&self) -> bool {
        false
    }

    /// Returns its definition. Computed each time; a [`Toolbox`](crate::Toolbox) caches it.
    fn spec(&self) -> ToolSpec;

    /// Plans a call with arguments that fit the schema. Returns its effects, with paths as the model wrote them, and the call to run. The
    /// engine plans once per call, and again only if a hook replaces the arguments.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_core::{Effects, ToolHandle, EffectKinds, testing::{EmptyHost, MockTool, plan_effects}};
    /// let tool: ToolHandle = MockTool::named("look")
    ///     .with_effects(EffectKinds::READ, |input| Effects::read(input["path"].as_str().unwrap_or(".")))
    ///     .into();
    /// let effects = plan_effects(&EmptyHost::default(), &*tool, json!({"path": "src/../a.md"}))?;
    /// assert_eq!(effects.to_string(), "read src/../a.md");
    /// # Ok::<(), windlass_core::ToolError>(())
    /// ```
    fn plan<'a>(
        &'a self,
        input: Value,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError>;
}

/// Parses arguments that already fit the schema. If serde still refuses them, the error has its message.
pub(crate) fn parse_args<Args: DeserializeOwned>(input: Value) -> Result<Args, ToolError> {
    serde_json::from_value(input).map_err(|error| ToolError::invalid_args(error.to_string()))
}

/// A tool in a toolbox: one of the built-in table, or one made at run time.
///
/// ```
/// use windlass_core::{ToolHandle, testing::MockTool};
/// let tool = ToolHandle::from(MockTool::named("ping"));
/// assert!(matches!(&tool, ToolHandle::Shared(_)));
/// assert_eq!(tool.clone().name(), "ping");
/// ```
#[derive(Clone)]
pub enum ToolHandle {
    /// A tool from a `const` table.
    Static(&'static dyn AnyTool),
    /// A tool made at run time.
    Shared(Arc<dyn AnyTool>),
}

impl Deref for ToolHandle {
    type Target = dyn AnyTool;
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Static(tool) => *tool,
            Self::Shared(tool) => &**tool,
        }
    }
}

impl<T: AnyTool> From<T> for ToolHandle {
    fn from(tool: T) -> Self {
        Self::Shared(Arc::new(tool))
    }
}

impl std::fmt::Debug for ToolHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tool").field(&self.name()).finish()
    }
}

/// A call in the form in which a model requests it.
///
/// ```
/// use windlass_core::ToolCall;
/// let call = ToolCall::new("read", serde_json::json!({"path": "README.md"})).with_id("toolu_1");
/// assert_eq!(call.id.as_deref(), Some("toolu_1"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The model's own id of the call, repeated in the result.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Arguments; `null` counts as `{}`.
    pub input: Value,
    /// Settings that differ for this call.
    pub overrides: Overrides,
    /// Id of the message that contains the call, if the caller knows it.
    pub message: Option<String>,
    /// Model that makes the call, if the caller knows it; otherwise that of the session.
    pub model: Option<String>,
}

impl ToolCall {
    /// Makes a call of the tool `name`.
    pub fn new(name: impl Into<String>, input: Value) -> Self {
        Self {
            id: None,
            name: name.into(),
            input,
            overrides: Overrides::default(),
            message: None,
            model: None,
        }
    }

    /// Sets the model's own id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the id of the message that contains the call. It is recorded with the call.
    ///
    /// ```
    /// use windlass_core::ToolCall;
    /// let call = ToolCall::new("read", serde_json::json!({})).in_message("msg_1").by_model("claude");
    /// assert_eq!((call.message.as_deref(), call.model.as_deref()), (Some("msg_1"), Some("claude")));
    /// ```
    #[must_use]
    pub fn in_message(mut self, id: impl Into<String>) -> Self {
        self.message = Some(id.into());
        self
    }

    /// Sets the name of the model that makes the call. It is recorded with the call.
    #[must_use]
    pub fn by_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the settings that differ for this call.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }
}

/// Settings that may differ for a session or for one call; `None` changes nothing.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Overrides;
/// let session = Overrides { timeout: Some(Duration::from_secs(60)), seed: Some(7), ..Overrides::default() };
/// let call = Overrides { timeout: Some(Duration::from_secs(1)), ..Overrides::default() };
/// let both = call.over(&session);
/// assert_eq!((both.timeout, both.seed), (Some(Duration::from_secs(1)), Some(7)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Directory from which relative paths start, instead of the workspace. Must be inside the workspace.
    pub work_dir: Option<std::path::PathBuf>,
    /// Time after which the call is stopped.
    pub timeout: Option<Duration>,
    /// Time after which a command becomes a job of the session, so that the call does not wait for it.
    pub soft_limit: Option<Duration>,
    /// Bytes of text that the model gets; the rest is kept under `output:CALL`.
    pub output_bytes: Option<usize>,
    /// Seed for tools and models that draw random numbers.
    pub seed: Option<u64>,
    /// Depth in sub-agents.
    pub depth: Option<u32>,
}

impl Overrides {
    /// Returns these settings, with those of `below` for fields that are not set.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        Self {
            work_dir: self.work_dir.clone().or_else(|| below.work_dir.clone()),
            timeout: self.timeout.or(below.timeout),
            soft_limit: self.soft_limit.or(below.soft_limit),
            output_bytes: self.output_bytes.or(below.output_bytes),
            seed: self.seed.or(below.seed),
            depth: self.depth.or(below.depth),
        }
    }
}

/// The recorded end of a call.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Outcome, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let call = ToolCall::new("pong", json!({})).with_id("toolu_1");
/// let result = engine.call(&engine.new_session(), call).await;
/// assert_eq!((result.outcome, result.code), (Outcome::Fault, Some("unknown_tool")));
/// assert_eq!(result.tool_use_id.as_deref(), Some("toolu_1"));
/// assert!(result.output.to_text().contains("`ping`"), "the text names the tool that was probably meant");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CallResult {
    /// Our own id of the call.
    pub call: CallId,
    /// Session of the call.
    pub session: SessionId,
    /// Turn of the call.
    pub turn: TurnId,
    /// Call that made it, if another call did.
    pub parent_call: Option<CallId>,
    /// The model's id of the call, if it gave one.
    pub tool_use_id: Option<String>,
    /// Name of the tool, as it was called.
    pub tool: String,
    /// The way in which it ended.
    pub outcome: Outcome,
    /// Output for the model; also for errors, as readable text.
    pub output: Output,
    /// Stable error code, if it did not end with an output of the tool.
    pub code: Option<&'static str>,
    /// Time that it took.
    pub duration: Duration,
}
