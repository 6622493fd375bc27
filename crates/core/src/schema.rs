//! JSON Schemas of tool arguments: generates small schemas, and checks and repairs arguments.
//!
//! Models send numbers as strings, forget a parameter, or invent one. The check repairs unambiguous mistakes and explains the others
//! in the words of the tool. It knows the part of JSON Schema that tools use, and ignores unknown keywords.

mod parameter_names;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use self::parameter_names::ParameterNames;
use crate::ToolError;

/// Maximum depth of arguments. Deeper ones are an attack or a mistake.
const MAX_DEPTH: usize = 128;
/// Maximum bytes of text in arguments.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// Generates the description and the schema of a type, without parts that models do not need.
pub(crate) fn description_and_schema<T: JsonSchema>() -> (String, Value) {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    let description = schema
        .get_mut("description")
        .map(Value::take)
        .and_then(|text| text.as_str().map(join_lines))
        .unwrap_or_default();
    remove_noise(&mut schema);
    if let Value::Object(map) = &mut schema {
        map.remove("description");
        map.entry("type").or_insert("object".into());
        map.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    (description, schema)
}

/// Joins the lines of each paragraph of a doc comment, and puts each paragraph on one line.
fn join_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Removes parts that tell a model nothing: titles, number formats, the `null` of optional parameters.
fn remove_noise(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for noise in ["$schema", "title", "format"] {
                if map.get(noise).is_some_and(|value| !value.is_object()) {
                    map.remove(noise);
                }
            }
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = join_lines(text);
            }
            remove_null(map);
            map.values_mut().for_each(remove_noise);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_noise),
        _ => {}
    }
}

/// Removes `null` from the allowed types and values of a schema.
fn remove_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            map.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(options)) = map.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(options)) = map.get_mut("anyOf") {
        options.retain(|option| option.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = options.as_mut_slice() {
            let only = std::mem::take(only);
            map.remove("anyOf");
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
}

/// Checks arguments against the schema of their tool and repairs unambiguous mistakes. The caller has checked their size.
pub(crate) fn check(schema: &Value, input: &mut Value) -> Result<(), ToolError> {
    require_object(input)?;
    Checker { root: schema }.check(schema, input, &ArgumentPath::Root)
}

/// Requires an object, even if the schema does not. Turns null into an empty object, and JSON text of an object into that object.
fn require_object(input: &mut Value) -> Result<(), ToolError> {
    let wrong = |found: String| {
        ToolError::invalid_args(format!("the arguments are {found}"))
            .hint("send them as one JSON object")
    };
    match input {
        Value::Object(_) => Ok(()),
        Value::Null => {
            *input = Value::Object(Map::new());
            Ok(())
        }
        Value::String(text) => match serde_json::from_str(text) {
            Ok(parsed @ Value::Object(_)) => {
                *input = parsed;
                check_size(input)
            }
            Ok(_) => Err(wrong("a text".into())),
            Err(error) => Err(wrong(format!("a text that is not JSON: {error}"))),
        },
        other => Err(wrong(describe_value(other))),
    }
}

/// Refuses arguments that are too deep or too large. Does not recurse.
pub(crate) fn check_size(input: &Value) -> Result<(), ToolError> {
    let mut bytes = 0usize;
    let mut open = vec![(input, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(ToolError::invalid_args(format!(
                "the arguments are nested more than {MAX_DEPTH} deep"
            )));
        }
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(values) => open.extend(values.iter().map(|value| (value, depth + 1))),
            Value::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                open.extend(map.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
        if bytes > MAX_TEXT_BYTES {
            return Err(ToolError::invalid_args(format!(
                "the arguments hold more than {} MiB of text",
                MAX_TEXT_BYTES >> 20
            )));
        }
    }
    Ok(())
}

/// Drops a value of any depth without recursion.
pub(crate) fn discard(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(map) => open.extend(map.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// A position in the arguments, for messages. A linked list on the stack, so that it costs nothing unless it is printed.
enum ArgumentPath<'a> {
    Root,
    Field(&'a ArgumentPath<'a>, &'a str),
    Item(&'a ArgumentPath<'a>, usize),
}

impl std::fmt::Display for ArgumentPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => f.write_str("the arguments"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

/// Returns the value of a keyword. A schema has so few keywords that comparing them all is cheaper than hashing one name.
fn keyword<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    schema.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Checks values against parts of one schema document.
struct Checker<'s> {
    root: &'s Value,
}

impl<'s> Checker<'s> {
    /// Checks and repairs a value.
    fn check(
        &self,
        schema: &'s Value,
        value: &mut Value,
        position: &ArgumentPath<'_>,
    ) -> Result<(), ToolError> {
        let Some(schema) = self.resolve_reference(schema, 0) else { return Ok(()) };
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(options)) = keyword(schema, name) {
                self.check_any(options, value, position)?;
            }
        }
        if let Some(expected) = keyword(schema, "type") {
            coerce(expected, value, position)?;
        }
        check_enum(schema, value, position)?;
        match value {
            Value::Object(map) => self.check_object(schema, map, position),
            Value::Array(values) => self.check_array(schema, values, position),
            Value::Number(_) => check_range(schema, value, position),
            Value::String(text) => {
                let names = ["minLength", "maxLength"];
                check_length(schema, text.chars().count(), names, "characters", position)
            }
            _ => Ok(()),
        }
    }

    /// Follows `$ref`s within this document. Returns `None` if there is nothing to check.
    fn resolve_reference(&self, schema: &'s Value, depth: usize) -> Option<&'s Map<String, Value>> {
        let map = schema.as_object()?;
        let Some(Value::String(reference)) = keyword(map, "$ref") else { return Some(map) };
        let target = self.root.pointer(reference.strip_prefix('#')?)?;
        if depth < 16 { self.resolve_reference(target, depth + 1) } else { None }
    }

    /// Repairs a value to fit the first option that accepts it. Fails with the error of the first option if none does.
    fn check_any(
        &self,
        options: &'s [Value],
        value: &mut Value,
        position: &ArgumentPath<'_>,
    ) -> Result<(), ToolError> {
        let mut first_error = None;
        for option in options {
            let mut attempt = value.clone();
            match self.check(option, &mut attempt, position) {
                Ok(()) => {
                    *value = attempt;
                    return Ok(());
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Checks and repairs the members of an object. Removes optional members that are null.
    fn check_object(
        &self,
        schema: &'s Map<String, Value>,
        map: &mut Map<String, Value>,
        position: &ArgumentPath<'_>,
    ) -> Result<(), ToolError> {
        let none = Map::new();
        let known = keyword(schema, "properties").and_then(Value::as_object);
        let required: Vec<&str> = keyword(schema, "required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // An optional parameter that is null counts as missing.
        map.retain(|name, value| {
            !value.is_null()
                || required.contains(&name.as_str())
                || known.and_then(|known| known.get(name)).is_none_or(allows_null)
        });
        let is_closed = keyword(schema, "additionalProperties") == Some(&Value::Bool(false));
        ParameterNames { known: known.unwrap_or(&none), required: &required, given: map, position }
            .check(is_closed)?;
        for (name, value) in map.iter_mut() {
            let property = known
                .and_then(|known| known.get(name))
                .or_else(|| keyword(schema, "additionalProperties"));
            if let Some(property) = property {
                self.check(property, value, &ArgumentPath::Field(position, name))?;
            }
        }
        Ok(())
    }

    /// Checks and repairs the items of an array.
    fn check_array(
        &self,
        schema: &'s Map<String, Value>,
        values: &mut [Value],
        position: &ArgumentPath<'_>,
    ) -> Result<(), ToolError> {
        check_length(schema, values.len(), ["minItems", "maxItems"], "items", position)?;
        let Some(items) = keyword(schema, "items") else { return Ok(()) };
        for (at, value) in values.iter_mut().enumerate() {
            self.check(items, value, &ArgumentPath::Item(position, at))?;
        }
        Ok(())
    }
}

/// Returns whether a schema allows null.
fn allows_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => {
            schema.get("enum").is_none()
                && schema.get("anyOf").is_none()
                && schema.get("$ref").is_none()
        }
    }
}

/// Checks that a value is one of the values of `enum` or `const`.
fn check_enum(
    schema: &Map<String, Value>,
    value: &Value,
    position: &ArgumentPath<'_>,
) -> Result<(), ToolError> {
    let options = match (keyword(schema, "enum"), keyword(schema, "const")) {
        (Some(Value::Array(options)), _) => options.as_slice(),
        (_, Some(only)) => std::slice::from_ref(only),
        _ => return Ok(()),
    };
    if options.contains(value) {
        return Ok(());
    }
    let names: Vec<String> = options
        .iter()
        .map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned))
        .collect();
    Err(ToolError::invalid_args(format!(
        "{position} is {}; it must be one of: {}",
        describe_value(value),
        names.join(", ")
    )))
}

/// Checks that a number is within the bounds.
fn check_range(
    schema: &Map<String, Value>,
    value: &Value,
    position: &ArgumentPath<'_>,
) -> Result<(), ToolError> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let bound = |name| keyword(schema, name).and_then(Value::as_f64);
    let fits = bound("minimum").is_none_or(|low| number >= low)
        && bound("maximum").is_none_or(|high| number <= high)
        && bound("exclusiveMinimum").is_none_or(|low| number > low)
        && bound("exclusiveMaximum").is_none_or(|high| number < high);
    if fits {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!("{position} is {value}; it must be {}", range(schema))))
}

/// Describes the allowed range of a number.
fn range(schema: &Map<String, Value>) -> String {
    let shown = |keyword: &str| schema.get(keyword).map(ToString::to_string);
    if let (Some(low), Some(high)) = (shown("minimum"), shown("maximum")) {
        return format!("between {low} and {high}");
    }
    let low = shown("exclusiveMinimum").map(|low| format!("more than {low}"));
    let low = low.or_else(|| shown("minimum").map(|low| format!("{low} or more")));
    let high = shown("exclusiveMaximum").map(|high| format!("less than {high}"));
    let high = high.or_else(|| shown("maximum").map(|high| format!("{high} or less")));
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} and {high}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "within its range".into(),
    }
}

/// Checks the length of a text or array. `names` are the keywords of the minimum and the maximum.
fn check_length(
    schema: &Map<String, Value>,
    len: usize,
    names: [&str; 2],
    unit: &str,
    position: &ArgumentPath<'_>,
) -> Result<(), ToolError> {
    let [low, high] = names.map(|name| keyword(schema, name).and_then(Value::as_u64));
    if low.is_none_or(|low| len as u64 >= low) && high.is_none_or(|high| len as u64 <= high) {
        return Ok(());
    }
    let range = match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("at least {low}"),
        (_, high) => format!("at most {}", high.unwrap_or_default()),
    };
    Err(ToolError::invalid_args(format!("{position} has {len} {unit}; it must have {range}")))
}

/// Converts a value to one of the expected types, if there is only one way to read it. Fails if there is none.
fn coerce(
    expected: &Value,
    value: &mut Value,
    position: &ArgumentPath<'_>,
) -> Result<(), ToolError> {
    let names: Vec<&str> = match expected {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    if names.iter().any(|name| has_type(name, value)) {
        return Ok(());
    }
    match names.iter().find_map(|name| convert(name, value)) {
        Some(better) => *value = better,
        None => {
            return Err(ToolError::invalid_args(format!(
                "{position} is {}; it must be {}",
                describe_value(value),
                names.iter().map(|name| with_article(name)).collect::<Vec<_>>().join(" or ")
            )));
        }
    }
    Ok(())
}

/// Returns whether a value has the JSON Schema type with this name.
fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    }
}

/// Converts a value to a type, if there is only one way to read it.
fn convert(name: &str, value: &Value) -> Option<Value> {
    match (name, value) {
        ("integer", Value::Number(number)) => whole_number(number.as_f64()?),
        ("integer", Value::String(text)) => {
            let text = text.trim();
            text.parse::<i64>()
                .map(Value::from)
                .or_else(|_| text.parse::<u64>().map(Value::from))
                .ok()
                .or_else(|| whole_number(text.parse().ok()?))
        }
        ("number", Value::String(text)) => {
            serde_json::Number::from_f64(text.trim().parse().ok()?).map(Value::Number)
        }
        ("boolean", Value::String(text)) => match text.trim() {
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            _ => None,
        },
        ("string", Value::Number(number)) => Some(number.to_string().into()),
        ("string", Value::Bool(truth)) => Some(truth.to_string().into()),
        // Some models send a list or an object as JSON text.
        ("array" | "object", Value::String(text)) => {
            serde_json::from_str::<Value>(text).ok().filter(|parsed| has_type(name, parsed))
        }
        _ => None,
    }
}

/// Returns a number without a fraction as an integer.
#[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
fn whole_number(number: f64) -> Option<Value> {
    (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0)
        .then(|| Value::from(number as i64))
}

/// Puts `a` or `an` before the name of a type.
fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// Describes a value in a message, at most 60 characters of it.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(values) => format!("a list of {}", values.len()),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(60) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the schema of the tests.
    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to read."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
                "below": {"type": "number", "exclusiveMaximum": 5},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "mode": {"enum": ["a", "b"]},
                "edits": {"type": "array", "minItems": 1, "items": {
                    "type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"],
                    "additionalProperties": false}},
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn unambiguous_mistakes_are_repaired() {
        for (given, wanted) in [
            (json!({"path": "a", "limit": "5"}), json!({"path": "a", "limit": 5})),
            (json!({"path": "a", "limit": 5.0}), json!({"path": "a", "limit": 5})),
            (json!({"path": 7}), json!({"path": "7"})),
            (json!({"path": "a", "all": "true"}), json!({"path": "a", "all": true})),
            (json!({"path": "a", "ratio": "0.5"}), json!({"path": "a", "ratio": 0.5})),
            (json!({"path": "a", "limit": null}), json!({"path": "a"})),
            (
                json!({"path": "a", "edits": "[{\"old\":\"x\"}]"}),
                json!({"path": "a", "edits": [{"old": "x"}]}),
            ),
        ] {
            let mut value = given.clone();
            check(&schema(), &mut value).unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(value, wanted);
        }
    }

    #[test]
    fn refusals_say_the_problem_and_the_correction() {
        for (given, message) in [
            (json!(null), "`path` is missing\npath: File to read."),
            (json!({"path": null}), "path is null; it must be a string"),
            (json!({"path": "a", "pth": "a"}), "unknown parameter `pth`\ndid you mean `path`?"),
            (
                json!({"pth": "a"}),
                "unknown parameter `pth`; `path` is missing\ndid you mean `path`?",
            ),
            (
                json!({"filename": "a"}),
                "unknown parameter `filename`; `path` is missing\ndid you mean `path`?",
            ),
            (
                json!({"filename": "a", "max_results": 3}),
                "unknown parameters `filename`, `max_results`; `path` is missing\ndid you mean `path` instead of `filename`, `limit` instead of `max_results`?",
            ),
            (
                json!({"colour": 1}),
                "unknown parameter `colour`; `path` is missing\nit takes: path, limit, timeout, below, ratio, all, mode, edits",
            ),
            (
                json!({"a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 1, "a6": 1, "path": "x"}),
                "unknown parameters `a1`, `a2`, `a3`, `a4`, `a5` and 1 more\nit takes: path, limit, timeout, below, ratio, all, mode, edits",
            ),
            (json!({"path": "a", "limit": "many"}), "limit is \"many\"; it must be an integer"),
            (json!({"path": "a", "limit": 1.5}), "limit is 1.5; it must be an integer"),
            (json!({"path": "a", "limit": 0}), "limit is 0; it must be between 1 and 100"),
            (json!({"path": "a", "limit": "101"}), "limit is 101; it must be between 1 and 100"),
            (
                json!({"path": "a", "timeout": 0}),
                "timeout is 0; it must be more than 0 and 3600 or less",
            ),
            (
                json!({"path": "a", "timeout": -1}),
                "timeout is -1; it must be more than 0 and 3600 or less",
            ),
            (
                json!({"path": "a", "timeout": 3601}),
                "timeout is 3601; it must be more than 0 and 3600 or less",
            ),
            (json!({"path": "a", "below": 5}), "below is 5; it must be less than 5"),
            (json!({"path": "a", "mode": "c"}), "mode is \"c\"; it must be one of: a, b"),
            (json!({"path": "a", "edits": []}), "edits has 0 items; it must have at least 1"),
            (json!({"path": "a", "edits": [{}]}), "`old` is missing in edits[0]"),
            (
                json!({"path": "a", "edits": [{"old": "x", "ol": 1}]}),
                "unknown parameter `ol` in edits[0]\ndid you mean `old`?",
            ),
            (
                json!({"path": "a", "edits": [{"search": "x"}]}),
                "unknown parameter `search` in edits[0]; `old` is missing\ndid you mean `old`?",
            ),
            (json!(["a"]), "the arguments are a list of 1\nsend them as one JSON object"),
            (
                json!("{"),
                "the arguments are a text that is not JSON: EOF while parsing an object at line 1 column 1\nsend them as one JSON object",
            ),
            (json!({"path": ["a"]}), "path is a list of 1; it must be a string"),
        ] {
            let mut value = given.clone();
            let error = check(&schema(), &mut value).expect_err(&given.to_string());
            assert_eq!(error.to_string(), message, "{given}");
            assert_eq!(error.code(), "invalid_args");
        }
    }

    #[test]
    fn open_schema_suggests_the_missing_parameter() {
        let open = json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file."}, "text": {}},
            "required": ["path", "text"],
        });
        for (given, message) in [
            (json!({}), "`path`, `text` are missing\npath: The file."),
            (
                json!({"file": "a", "text": "b"}),
                "`path` is missing\ndid you mean `path` instead of `file`?",
            ),
        ] {
            let error = check(&open, &mut given.clone()).expect_err(&given.to_string());
            assert_eq!(error.to_string(), message, "{given}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let mut deep = json!(1);
        for _ in 0..MAX_DEPTH + 5 {
            deep = json!([deep]);
        }
        assert!(check_size(&deep).is_err());
        assert!(check_size(&json!("x".repeat(MAX_TEXT_BYTES + 1))).is_err());
        assert!(check_size(&json!("x".repeat(MAX_TEXT_BYTES))).is_ok());
    }
}
