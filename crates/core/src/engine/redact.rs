//! Stage 11: known secrets are taken out of everything that is stored, shown or sent to a model.

use std::borrow::Cow;

use serde_json::Value;

use super::Shared;
use crate::{Content, Output};

/// Values that must not be seen.
///
/// ```
/// use windlass_core::Secrets;
/// let secrets = Secrets::new([("DB_PASSWORD", "hunter2hunter2")]);
/// assert_eq!(secrets.redact("login hunter2hunter2 ok"), "login [secret DB_PASSWORD] ok");
/// ```
#[derive(Default)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Shorter values are words, not secrets: taking them out would destroy texts.
    const SHORTEST: usize = 8;

    /// Secrets by name and value.
    pub fn new<N: Into<String>, V: Into<String>>(
        secrets: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut secrets: Vec<(String, String)> = secrets
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(_, value): &(String, String)| value.len() >= Self::SHORTEST)
            .collect();
        // The longest first: one secret may be the beginning of another.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self(secrets)
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (name, value) in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), &format!("[secret {name}]")));
            }
        }
        text
    }

    /// Takes them out of a value, at every depth.
    pub fn redact_json(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_json(value)),
            Value::Object(map) => map.values_mut().for_each(|value| self.redact_json(value)),
            _ => {}
        }
    }

    fn redact_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

pub(super) fn redact(engine: &Shared, output: &mut Output) {
    let secrets = &engine.secrets;
    for content in &mut output.content {
        match content {
            Content::Text { text } => secrets.redact_string(text),
            Content::Json { value } => secrets.redact_json(value),
            Content::Image { .. } | Content::ResourceLink { .. } => {}
        }
    }
    if !secrets.0.is_empty() {
        output.metadata.values_mut().for_each(|value| secrets.redact_json(value));
    }
}
