//! Tools without a type of their own: closures, and tools whose schema is known only at run time.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::parse_args;
use crate::{
    AnyTool, BoxFuture, Context, EffectKinds, Effects, Output, PlanContext, Planned, PlannedCall,
    ToolDetails, ToolError, ToolSpec,
};

/// Condition under which a person must approve a call.
type Condition<Args> = Option<Arc<dyn Fn(&Args) -> bool + Send + Sync>>;
/// Computes the effects of a call from its arguments.
type EffectsOf<Args> = Arc<dyn Fn(&Args) -> Effects + Send + Sync>;
/// Runs a call.
type CallOf<Args> =
    Arc<dyn Fn(Context, Args) -> BoxFuture<'static, Result<Output, ToolError>> + Send + Sync>;

/// A tool made of a closure with typed arguments and declared effects.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use windlass_core::{AnyTool, Effects, FunctionTool, EffectKinds, Output};
///
/// /// Add two numbers.
/// #[derive(Deserialize, JsonSchema)]
/// struct Args {
///     /// One.
///     a: i64,
///     /// The other.
///     b: i64,
/// }
///
/// let add = FunctionTool::new("add", EffectKinds::NONE, |_: &Args| Effects::none(), |_, args: Args| async move {
///     Ok(Output::text((args.a + args.b).to_string()))
/// });
/// assert_eq!(add.spec().description, "Add two numbers.");
/// ```
pub struct FunctionTool<Args> {
    name: Cow<'static, str>,
    kinds: EffectKinds,
    effects: EffectsOf<Args>,
    call: CallOf<Args>,
    needs_person: Condition<Args>,
    about: ToolDetails,
    args: PhantomData<fn() -> Args>,
}

impl<Args> FunctionTool<Args> {
    /// Requires that a person approves each call whose arguments fulfil a condition, whatever the rules and the mode allow.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use windlass_core::{Effects, FunctionTool, EffectKinds, Output};
    /// # /// Pay an amount.
    /// # #[derive(Deserialize, JsonSchema)]
    /// # struct Pay {
    /// #     /// The amount.
    /// #     amount: u64,
    /// # }
    /// let pay = FunctionTool::new("pay", EffectKinds::NONE, |_: &Pay| Effects::none(), |_, _| async { Ok(Output::text("paid")) })
    ///     .needs_person_if(|args| args.amount > 100);
    /// # drop(pay);
    /// ```
    #[must_use]
    pub fn needs_person_if(
        mut self,
        condition: impl Fn(&Args) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.needs_person = Some(Arc::new(condition));
        self
    }

    /// Adds facts for lists, manuals and prompts.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use windlass_core::{ToolDetails, AnyTool, Effects, FunctionTool, EffectKinds, Output};
    /// # /// Pay an amount.
    /// # #[derive(Deserialize, JsonSchema)]
    /// # struct Pay {}
    /// let pay = FunctionTool::new("pay", EffectKinds::NONE, |_: &Pay| Effects::none(), |_, _| async { Ok(Output::text("paid")) })
    ///     .about(ToolDetails::titled("Pay an amount"));
    /// assert_eq!(pay.spec().about.title.as_deref(), Some("Pay an amount"));
    /// ```
    #[must_use]
    pub fn about(mut self, about: ToolDetails) -> Self {
        self.about = about;
        self
    }

    /// Makes a tool without effects: it computes its answer from its arguments alone.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// use windlass_core::{AnyTool, FunctionTool, EffectKinds, Output};
    /// # /// Count characters.
    /// # #[derive(Deserialize, JsonSchema)]
    /// # struct Count {
    /// #     /// The text.
    /// #     text: String,
    /// # }
    /// let count = FunctionTool::pure("count", |_, args: Count| async move {
    ///     Ok(Output::text(args.text.chars().count().to_string()))
    /// });
    /// assert_eq!(count.kinds(), EffectKinds::NONE);
    /// ```
    pub fn pure<F, Fut>(name: impl Into<Cow<'static, str>>, call: F) -> Self
    where
        F: Fn(Context, Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        Self::new(name, EffectKinds::NONE, |_| Effects::none(), call)
    }

    /// Makes a tool of that name, with the kinds that its calls can have at most, the effects of one call, and the call.
    pub fn new<F, Fut>(
        name: impl Into<Cow<'static, str>>,
        kinds: EffectKinds,
        effects: impl Fn(&Args) -> Effects + Send + Sync + 'static,
        call: F,
    ) -> Self
    where
        F: Fn(Context, Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let call: CallOf<Args> = Arc::new(move |cx, args| Box::pin(call(cx, args)));
        Self {
            name: name.into(),
            kinds,
            effects: Arc::new(effects),
            call,
            needs_person: None,
            about: ToolDetails::default(),
            args: PhantomData,
        }
    }
}

impl<Args> std::fmt::Debug for FunctionTool<Args> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<Args: DeserializeOwned + JsonSchema + Send + Sync + 'static> AnyTool for FunctionTool<Args> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kinds(&self) -> EffectKinds {
        self.kinds
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::of::<Args>(self.name.clone(), self.about.clone(), self.kinds)
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        _: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let args = parse_args(input)?;
        let effects = (self.effects)(&args);
        let needs_person = self.needs_person.as_ref().is_some_and(|needs| needs(&args));
        Ok(Planned {
            effects,
            plan: Box::new(FunctionCall { call: &self.call, args, needs_person }),
        })
    }
}

/// A tool whose schema is known only at run time: one of an MCP server, a plugin, a command file.
///
/// ```
/// use serde_json::json;
/// use windlass_core::{AnyTool, DynamicTool, Effects, EffectKinds, Output, ToolSpec};
///
/// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
/// let spec = ToolSpec::new("echo", "Say it again.", schema, EffectKinds::NONE);
/// let echo = DynamicTool::new(spec, |_| Effects::none(), |_, input| async move { Ok(Output::json(input)) });
/// assert_eq!(echo.name(), "echo");
/// ```
pub struct DynamicTool {
    spec: ToolSpec,
    effects: EffectsOf<Value>,
    call: CallOf<Value>,
}

impl DynamicTool {
    /// Makes a tool with this spec; the closures compute the effects of a call and run it.
    pub fn new<F, Fut>(
        spec: ToolSpec,
        effects: impl Fn(&Value) -> Effects + Send + Sync + 'static,
        call: F,
    ) -> Self
    where
        F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let call: CallOf<Value> = Arc::new(move |cx, input| Box::pin(call(cx, input)));
        Self { spec, effects: Arc::new(effects), call }
    }
}

impl std::fmt::Debug for DynamicTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamicTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl AnyTool for DynamicTool {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn kinds(&self) -> EffectKinds {
        self.spec.kinds
    }

    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        _: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let effects = (self.effects)(&input);
        Ok(Planned {
            effects,
            plan: Box::new(FunctionCall { call: &self.call, args: input, needs_person: false }),
        })
    }
}

/// A planned call of a closure.
struct FunctionCall<'t, Args> {
    call: &'t CallOf<Args>,
    args: Args,
    needs_person: bool,
}

impl<Args: Send + Sync> PlannedCall for FunctionCall<'_, Args> {
    fn needs_person(&self) -> bool {
        self.needs_person
    }

    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a,
    {
        (self.call)(cx.clone(), self.args)
    }
}
