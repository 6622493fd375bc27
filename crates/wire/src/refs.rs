//! Schemas without `$ref`: every reference replaced by what it means.
//!
//! Not every provider follows references, and a schema from elsewhere may refer to itself or grow without end when it is written
//! out. So both the depth and the size are bounded; what lies beyond is left open, and the engine, which follows references,
//! still checks the arguments against all of it.

use serde_json::{Map, Value};

/// How many references may be open inside each other.
const MAX_DEPTH: usize = 16;
/// How many schemas may come out before references are no longer followed.
const MAX_SCHEMAS: usize = 2_000;

/// The same schema without references and without the definitions they refer to.
pub(super) fn inline(schema: &Value) -> Value {
    let mut inliner = Inliner { root: schema, open: Vec::new(), schemas: 0 };
    inliner.inline(schema.clone())
}

struct Inliner<'s> {
    root: &'s Value,
    open: Vec<String>,
    schemas: usize,
}

impl Inliner<'_> {
    fn inline(&mut self, schema: Value) -> Value {
        self.schemas += 1;
        let Value::Object(mut map) = schema else { return schema };
        for keyword in ["$defs", "definitions", "$schema", "$id", "$anchor", "$comment"] {
            // A parameter may have such a name; a map of parameters never comes here.
            map.shift_remove(keyword);
        }
        let reference = map.shift_remove("$ref");
        map_schemas(&mut map, &mut |schema| self.inline(schema));
        match reference {
            Some(Value::String(reference)) => self.follow(reference, map),
            _ => map.into(),
        }
    }

    /// What the reference means, with the keywords beside it put over it.
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

/// Replaces every schema directly inside this one. Parameters may be called like keywords, and values of `enum` or `default`
/// may look like schemas: neither is mistaken for one.
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
            // A reference to nowhere, or to elsewhere, says nothing.
            (json!({"items": {"$ref": "#/gone"}}), json!({"items": {}})),
            (json!({"items": {"$ref": "https://example.org/schema"}}), json!({"items": {}})),
            // One to itself is followed once.
            (json!({"items": {"$ref": "#"}}), json!({"items": {"items": {}}})),
            // What looks like a reference but is a name or a value stays.
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
