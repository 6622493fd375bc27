//! Resolves `$ref` in schemas: replaces every reference by its target.
//!
//! Not every provider follows references, and a schema from elsewhere may refer to itself or grow exponentially when references are
//! expanded. So depth and size are bounded; schemas beyond the bounds are left open. The engine follows references and still checks
//! the arguments against the full schema.

use serde_json::{Map, Value};

/// Maximum depth of references inside references.
const MAX_DEPTH: usize = 16;
/// Number of emitted schemas after which references are no longer followed.
const MAX_SCHEMAS: usize = 2_000;

/// Returns the schema without references and without the definitions to which they refer.
pub(super) fn inline(schema: &Value) -> Value {
    let mut inliner = Inliner { root: schema, open: Vec::new(), schemas: 0 };
    inliner.inline(schema.clone())
}

/// The state of resolving references: those that are open, and the number of schemas so far.
struct Inliner<'s> {
    root: &'s Value,
    open: Vec<String>,
    schemas: usize,
}

impl Inliner<'_> {
    /// Returns a schema in which references are replaced by what they refer to.
    fn inline(&mut self, schema: Value) -> Value {
        self.schemas += 1;
        let Value::Object(mut map) = schema else { return schema };
        for keyword in ["$defs", "definitions", "$schema", "$id", "$anchor", "$comment"] {
            // A parameter may have such a name, but maps of parameters are not passed to this function.
            map.shift_remove(keyword);
        }
        let reference = map.shift_remove("$ref");
        map_schemas(&mut map, &mut |schema| self.inline(schema));
        match reference {
            Some(Value::String(reference)) => self.follow(reference, map),
            _ => map.into(),
        }
    }

    /// Returns the target of a reference; keywords next to the reference override those of the target.
    fn follow(&mut self, reference: String, beside: Map<String, Value>) -> Value {
        let too_much = self.open.len() >= MAX_DEPTH || self.schemas >= MAX_SCHEMAS;
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target.filter(|_| !too_much && !self.open.contains(&reference)) else {
            return beside.into();
        };
        self.open.push(reference);
        let meant = self.inline(target.clone());
        self.open.pop();
        match meant {
            Value::Object(mut map) => {
                map.extend(beside);
                map.into()
            }
            other => other,
        }
    }
}

/// Replaces every schema directly inside this one. Does not mistake parameters that are named like keywords, or values of `enum`
/// and `default` that look like schemas.
pub(super) fn map_schemas(
    schema: &mut Map<String, Value>,
    replace: &mut dyn FnMut(Value) -> Value,
) {
    for (keyword, held) in schema.iter_mut() {
        match (keyword.as_str(), held) {
            ("properties" | "patternProperties", Value::Object(named)) => {
                for inner in named.values_mut() {
                    *inner = replace(inner.take());
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(list)) => {
                for inner in list {
                    *inner = replace(inner.take());
                }
            }
            ("additionalProperties", Value::Bool(_)) => {}
            (
                "items"
                | "additionalProperties"
                | "not"
                | "propertyNames"
                | "contains"
                | "if"
                | "then"
                | "else",
                held,
            ) => *held = replace(held.take()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_written_out() {
        for (given, wanted) in [
            (
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}),
                json!({"type": "string"}),
            ),
            (
                json!({"items": {"$ref": "#/definitions/A", "description": "mine"},
                    "definitions": {"A": {"type": "string", "description": "theirs"}}}),
                json!({"items": {"type": "string", "description": "mine"}}),
            ),
            (
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/a~1b"}, "a/b": {"type": "null"}}}),
                json!({"type": "null"}),
            ),
            // An unresolvable or external reference becomes an open schema.
            (json!({"items": {"$ref": "#/gone"}}), json!({"items": {}})),
            (json!({"items": {"$ref": "https://example.org/schema"}}), json!({"items": {}})),
            // A reference to itself is followed once.
            (json!({"items": {"$ref": "#"}}), json!({"items": {"items": {}}})),
            // Names and values that look like references stay.
            (
                json!({"properties": {"$ref": {"type": "string"}, "$defs": {}}, "default": {"$ref": "#"}}),
                json!({"properties": {"$ref": {"type": "string"}, "$defs": {}}, "default": {"$ref": "#"}}),
            ),
        ] {
            assert_eq!(inline(&given), wanted, "{given}");
        }
    }

    #[test]
    fn references_that_multiply_are_bounded() {
        let mut definitions = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
            let both = json!({"properties": {"a": next, "b": next}});
            definitions.insert(level.to_string(), both);
        }
        let bomb = json!({"$ref": "#/$defs/0", "$defs": definitions});
        assert!(inline(&bomb).to_string().len() < 200_000);
    }
}
