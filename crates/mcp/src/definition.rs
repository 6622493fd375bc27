//! Tool definitions in the form of MCP: for `tools/list`, and for the command line, which prints the same.

use serde_json::{Map, Value, json};

use windlass_core::{EffectKinds, ToolSpec};

/// Hints about a tool that MCP lists, derived from the kinds of its effects.
///
/// ```
/// use {windlass_core::EffectKinds, windlass_mcp::annotations};
/// assert!(annotations(EffectKinds::READ).read_only);
/// assert!(annotations(EffectKinds::READ | EffectKinds::WRITE).destructive);
/// assert!(annotations(EffectKinds::NET).open_world);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the four independent hints of the protocol")]
pub struct Annotations {
    /// The tool changes nothing outside its own session.
    pub read_only: bool,
    /// The tool may change or remove existing data, not only add to it.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// The tool may access something outside this machine.
    pub open_world: bool,
}

/// Derives the hints from the kinds of effects that a call can have. Errs on the side of caution: a program may do anything.
///
/// ```
/// use {windlass_core::EffectKinds, windlass_mcp::annotations};
/// let read = annotations(EffectKinds::READ | EffectKinds::STATE);
/// assert!(read.read_only && read.idempotent && !read.destructive && !read.open_world);
/// ```
pub fn annotations(kinds: EffectKinds) -> Annotations {
    let others = EffectKinds::EXEC | EffectKinds::AGENT | EffectKinds::MCP | EffectKinds::PLUGIN;
    let read_only = !kinds.has_side_effects();
    Annotations {
        read_only,
        destructive: kinds.intersects(EffectKinds::WRITE | EffectKinds::DELETE | others),
        idempotent: read_only,
        open_world: kinds.intersects(EffectKinds::NET | others),
    }
}

impl Annotations {
    /// Converts to the JSON of MCP.
    ///
    /// ```
    /// use {windlass_core::EffectKinds, windlass_mcp::annotations};
    /// assert_eq!(annotations(EffectKinds::READ).to_value()["readOnlyHint"], true);
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

/// Makes the definition of one tool for `tools/list`. MCP accepts any JSON Schema, so the schema is complete.
///
/// ```
/// use {windlass_core::{AnyTool, ToolHandle, testing::MockTool}, windlass_mcp::definition};
/// let tool: ToolHandle = MockTool::named("deploy").into();
/// assert_eq!(definition(&tool.spec())["inputSchema"]["type"], "object");
/// ```
pub fn definition(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), spec.name.as_ref().into());
    if let Some(title) = &spec.about.title {
        tool.insert("title".into(), title.as_ref().into());
    }
    tool.insert("description".into(), spec.description.as_str().into());
    tool.insert("inputSchema".into(), object_schema(&spec.input_schema));
    if let Some(schema) = &spec.about.output_schema {
        tool.insert("outputSchema".into(), object_schema(schema));
    }
    tool.insert("annotations".into(), annotations(spec.kinds).to_value());
    tool.into()
}

/// Makes the result of `tools/list`.
///
/// ```
/// assert_eq!(windlass_mcp::definitions(&[]), serde_json::json!({"tools": []}));
/// ```
pub fn definitions<'s>(specs: impl IntoIterator<Item = &'s ToolSpec>) -> Value {
    let tools: Vec<Value> = specs.into_iter().map(definition).collect();
    json!({"tools": tools})
}

/// Returns the schema with `"type": "object"`, which MCP requires.
fn object_schema(schema: &Value) -> Value {
    let mut map = schema.as_object().cloned().unwrap_or_default();
    map.insert("type".into(), "object".into());
    map.into()
}

#[cfg(test)]
mod tests {
    use windlass_core::ToolDetails;

    use super::*;

    #[test]
    fn hints_follow_from_the_kinds() {
        let shown = |kinds: EffectKinds| {
            let Annotations { read_only, destructive, idempotent, open_world } = annotations(kinds);
            [(read_only, 'r'), (destructive, 'd'), (idempotent, 'i'), (open_world, 'o')]
                .into_iter()
                .filter_map(|(said, letter)| said.then_some(letter))
                .collect::<String>()
        };
        for (kinds, wanted) in [
            (EffectKinds::NONE, "ri"),
            (EffectKinds::READ, "ri"),
            (EffectKinds::READ | EffectKinds::STATE | EffectKinds::ASK, "ri"),
            (EffectKinds::WRITE, "d"),
            (EffectKinds::READ | EffectKinds::DELETE, "d"),
            (EffectKinds::NET, "o"),
            (EffectKinds::READ | EffectKinds::NET | EffectKinds::SECRET, "o"),
            (EffectKinds::EXEC, "do"),
            (EffectKinds::MCP, "do"),
            (EffectKinds::AGENT, "do"),
            (EffectKinds::PLUGIN, "do"),
            (EffectKinds::ALL, "do"),
        ] {
            assert_eq!(shown(kinds), wanted, "{:?}", kinds.names());
        }
    }

    #[test]
    fn a_tool_list_has_the_form_of_the_protocol() {
        let tool =
            windlass_core::ToolHandle::from(windlass_core::testing::MockTool::named("deploy"));
        let listed = json!({
            "name": "deploy",
            "description": "A tool for tests.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        });
        assert_eq!(definitions(&[tool.spec()]), json!({"tools": [listed]}));
    }

    #[test]
    fn schemas_are_complete_and_have_the_type_object() {
        let schema = json!({"oneOf": [{"$ref": "#/$defs/X"}], "$defs": {"X": {}}});
        let mut about = ToolDetails::titled("A");
        about.output_schema = Some(json!({"properties": {"n": {}}}));
        let tool = definition(
            &ToolSpec::new("a", "Does it.", schema, EffectKinds::READ).with_about(about),
        );
        assert_eq!(tool["title"], "A");
        assert_eq!(tool["outputSchema"], json!({"properties": {"n": {}}, "type": "object"}));
        let schema =
            json!({"oneOf": [{"$ref": "#/$defs/X"}], "$defs": {"X": {}}, "type": "object"});
        assert_eq!(tool["inputSchema"], schema);
    }
}
