//! The listing of tools as MCP has it. The rest of MCP belongs to its own crate; the listing is here because the command line
//! prints it too, and both must say the same.

use serde_json::{Map, Value, json};

use crate::{Kinds, Spec};

/// What MCP tells of a tool before any call: hints, derived from the kinds of effects.
///
/// ```
/// use windlass_core::{Kinds, wire::annotations};
/// assert!(annotations(Kinds::READ).read_only);
/// assert!(annotations(Kinds::READ | Kinds::WRITE).destructive);
/// assert!(annotations(Kinds::NET).open_world);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the four independent hints of the protocol")]
pub struct Annotations {
    /// Changes nothing outside its own session.
    pub read_only: bool,
    /// May change or remove what is there, not only add to it.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// May deal with what is not on this machine.
    pub open_world: bool,
}

/// The hints that follow from the most that a call can do. They err on the side of caution: a program may do anything.
///
/// ```
/// use windlass_core::{Kinds, wire::annotations};
/// let read = annotations(Kinds::READ | Kinds::STATE);
/// assert!(read.read_only && read.idempotent && !read.destructive && !read.open_world);
/// ```
pub fn annotations(kinds: Kinds) -> Annotations {
    let others = Kinds::EXEC | Kinds::AGENT | Kinds::MCP | Kinds::PLUGIN;
    let read_only = !kinds.has_side_effects();
    Annotations {
        read_only,
        destructive: kinds.intersects(Kinds::WRITE | Kinds::DELETE | others),
        idempotent: read_only,
        open_world: kinds.intersects(Kinds::NET | others),
    }
}

impl Annotations {
    /// As MCP spells them.
    ///
    /// ```
    /// use windlass_core::{Kinds, wire::annotations};
    /// assert_eq!(annotations(Kinds::READ).to_value()["readOnlyHint"], true);
    /// ```
    pub fn to_value(self) -> Value {
        json!({
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        })
    }
}

/// One tool of a `tools/list`. MCP takes any JSON Schema, so this one is whole.
///
/// ```
/// use windlass_core::{AnyTool, Handle, testing::MockTool, wire::mcp_definition};
/// let tool: Handle = MockTool::named("deploy").into();
/// assert_eq!(mcp_definition(&tool.spec())["inputSchema"]["type"], "object");
/// ```
pub fn mcp_definition(spec: &Spec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), spec.name.as_ref().into());
    if let Some(title) = &spec.title {
        tool.insert("title".into(), title.as_ref().into());
    }
    tool.insert("description".into(), spec.description.as_str().into());
    tool.insert("inputSchema".into(), object_schema(&spec.input_schema));
    tool.insert("annotations".into(), annotations(spec.kinds).to_value());
    tool.into()
}

/// The answer to `tools/list`.
///
/// ```
/// assert_eq!(windlass_core::wire::mcp_definitions(&[]), serde_json::json!({"tools": []}));
/// ```
pub fn mcp_definitions<'s>(specs: impl IntoIterator<Item = &'s Spec>) -> Value {
    let tools: Vec<Value> = specs.into_iter().map(mcp_definition).collect();
    json!({"tools": tools})
}

/// The schema, which must say that it is one of an object.
fn object_schema(schema: &Value) -> Value {
    let mut map = schema.as_object().cloned().unwrap_or_default();
    map.insert("type".into(), "object".into());
    map.into()
}
