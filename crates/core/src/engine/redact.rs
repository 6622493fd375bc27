//! Stage 11: known secrets are taken out of everything that is stored, shown or sent to a model.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::Shared;
use crate::{Content, Effects, Output};

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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    /// Effects as they may be shown and stored.
    pub(crate) fn redact_effects(&self, effects: &Arc<Effects>) -> Arc<Effects> {
        if self.0.is_empty() {
            return effects.clone();
        }
        let clean = serde_json::to_value(&**effects).and_then(|mut value| {
            self.redact_json(&mut value);
            serde_json::from_value(value)
        });
        clean.map_or_else(|_| effects.clone(), Arc::new)
    }

    /// How much of the beginning of a text can be judged before more of it comes: all but what may be the beginning of a secret.
    fn judged(&self, text: &str) -> usize {
        let longest = self.0.first().map_or(0, |(_, value)| value.len());
        let is_beginning = |tail: &str| {
            self.0.iter().any(|(_, value)| value.len() > tail.len() && value.starts_with(tail))
        };
        let from = text.ceil_char_boundary((text.len() + 1).saturating_sub(longest));
        let mut tails = text[from..].char_indices().map(|(at, _)| from + at);
        let mut end = tails.find(|at| is_beginning(&text[*at..])).unwrap_or(text.len());
        // One that lies across the end must stay whole.
        while let Some(start) = self.0.iter().find_map(|(_, value)| {
            let mut found = text.match_indices(value.as_str()).map(|(at, _)| at);
            found.find(|at| *at < end && at + value.len() > end)
        }) {
            end = start;
        }
        end
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

/// Takes secrets out of a text that comes in pieces, wherever it is cut.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// What may be the beginning of a secret.
    held: String,
}

impl Stream {
    /// What can be told now that this piece has come.
    pub(crate) fn push<'t>(&mut self, secrets: &Secrets, piece: &'t str) -> Cow<'t, str> {
        if secrets.is_empty() {
            return Cow::Borrowed(piece);
        }
        self.held.push_str(piece);
        let rest = self.held.split_off(secrets.judged(&self.held));
        let judged = std::mem::replace(&mut self.held, rest);
        Cow::Owned(secrets.redact(&judged).into_owned())
    }

    /// The rest, now that no more comes.
    pub(crate) fn end(&mut self, secrets: &Secrets) -> String {
        secrets.redact(&std::mem::take(&mut self.held)).into_owned()
    }
}

pub(super) fn redact(engine: &Shared, output: &mut Output) {
    let secrets = &engine.secrets;
    for content in &mut output.content {
        match content {
            Content::Text { text } => secrets.redact_string(text),
            Content::Json { value } => secrets.redact_json(value),
            Content::ResourceLink { uri, name, .. } => {
                secrets.redact_string(uri);
                secrets.redact_string(name);
            }
            Content::Image { .. } => {}
        }
    }
    if !secrets.0.is_empty() {
        output.metadata.values_mut().for_each(|value| secrets.redact_json(value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_secret_comes_through_in_pieces(pieces in proptest::collection::vec("[ab]{0,9}", 0..8)) {
            // Secrets that begin, end and overlap each other.
            let secrets = Secrets::new([("A", "abababab"), ("B", "ababababb"), ("C", "bbaababab"), ("D", "aaaabbbb")]);
            let mut stream = Stream::default();
            let mut told: String = pieces.iter().map(|piece| stream.push(&secrets, piece)).collect();
            told.push_str(&stream.end(&secrets));
            prop_assert!(secrets.0.iter().all(|(_, value)| !told.contains(value.as_str())), "{}", told);
            let whole = pieces.concat();
            if secrets.redact(&whole) == whole {
                prop_assert_eq!(told, whole);
            }
        }
    }
}
