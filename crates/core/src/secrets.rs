//! Redaction: replaces secrets by placeholders in everything that is stored, shown or sent to a model.
//!
//! A secret is found by its value, in any form in which a program passes it on ([`known`]), or by its format ([`formats`]). Values are
//! searched first, so that a value with a name gets a placeholder with that name. Both use one scanner ([`scan`]), which gives the
//! same result for a whole text and for one in pieces. A placeholder is never taken for a secret.

mod anchor_filter;
mod formats;
mod known;
mod scan;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use self::anchor_filter::AnchorFilter;
use self::known::KnownValues;
use self::scan::SecretRules as _;
pub(crate) use self::stream::RedactionStream;
use crate::{DecidedBy, Effects, ExplainedDecision, PathPattern, quote};

/// The named values to redact. Text with the format of a credential is redacted too.
///
/// ```
/// use windlass_core::Secrets;
/// let secrets = Secrets::new([("DB_PASSWORD", "hunter2hunter2")]);
/// assert_eq!(secrets.redact("login hunter2hunter2 ok"), "login [secret DB_PASSWORD] ok");
/// assert_eq!(secrets.redact("aHVudGVyMmh1bnRlcjI="), "[secret DB_PASSWORD]I=");
/// let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
/// assert_eq!(secrets.redact(&token), "[secret: GitHub token]");
/// ```
#[derive(Default)]
pub struct Secrets {
    /// The values, once they were needed.
    loaded: OnceLock<NamedValues>,
    /// Returns the values when they are needed.
    source: Option<Source>,
}

/// Returns pairs of name and value.
type Source = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// Values by name, prepared for the search.
struct NamedValues {
    values: Vec<(String, String)>,
    known: KnownValues,
    /// The filter that rules out most short texts, for all values and formats.
    anchor_filter: AnchorFilter,
}

/// The value of a secret that a tool was given, to pass on and not to show.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effect, EffectKinds, Output, Secrets, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("login")
///     .with_effects(EffectKinds::SECRET, |_| Effect::Secret("PASSWORD".into()).into())
///     .answering(|cx, _| async move {
///         let password = cx.secret("PASSWORD")?;
///         assert_eq!(format!("{password:?}"), "[secret PASSWORD]");
///         Ok(Output::text(format!("logged in with {}", password.expose())))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).policy(Policy::new(Mode::Yolo));
/// let engine = builder.secrets(Secrets::new([("PASSWORD", "hunter2hunter2")])).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("login", json!({}))).await;
/// assert_eq!(result.output.to_text(), "logged in with [secret PASSWORD]");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    name: String,
    value: String,
}

impl SecretValue {
    /// Returns the value itself.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&placeholder(&self.name))
    }
}

/// Returns the placeholder of the value with this name.
fn placeholder(name: &str) -> String {
    format!("[secret {name}]")
}

impl Secrets {
    /// Minimum bytes of a value. Shorter values are ignored, since to redact words would destroy texts.
    pub const SHORTEST: usize = 8;

    /// Makes secrets from names and values.
    pub fn new<N: Into<String>, V: Into<String>>(
        secrets: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let secrets = secrets.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { loaded: OnceLock::from(NamedValues::new(secrets.collect())), source: None }
    }

    /// Makes secrets whose values `source` returns when the first text has to be redacted.
    ///
    /// ```
    /// use windlass_core::Secrets;
    /// let secrets = Secrets::when_needed(|| vec![("PIN".into(), "0451-0451".into())]);
    /// assert_eq!(secrets.redact("it is 0451-0451"), "it is [secret PIN]");
    /// ```
    pub fn when_needed(source: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static) -> Self {
        Self { loaded: OnceLock::new(), source: Some(Box::new(source)) }
    }

    /// Returns the values. Calls the source the first time.
    fn named_values(&self) -> &NamedValues {
        let find = || self.source.as_ref().map(|source| source()).unwrap_or_default();
        self.loaded.get_or_init(|| NamedValues::new(find()))
    }

    /// Returns the names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named_values().values.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the value with this name. Tools use [`Context::secret`](crate::Context::secret) instead, which checks the grant of
    /// their call.
    pub(crate) fn get(&self, name: &str) -> Option<SecretValue> {
        let (name, value) = self.named_values().values.iter().find(|(known, _)| known == name)?;
        Some(SecretValue { name: name.clone(), value: value.clone() })
    }

    /// Replaces all secrets in a text by placeholders.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (rules, named_values) = (&*formats::ALL, self.named_values());
        if named_values.anchor_filter.rules_out(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        match scan::redact(&named_values.known, text) {
            Cow::Borrowed(text) => scan::redact(rules, text),
            Cow::Owned(text) => Cow::Owned(match scan::redact(rules, &text) {
                Cow::Borrowed(_) => text,
                Cow::Owned(redacted) => redacted,
            }),
        }
    }

    /// Returns whether a text has no secret in it.
    pub(crate) fn is_secret_free(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Borrowed(_))
    }

    /// Replaces all secrets in a JSON value, at every depth. Does not copy a value without secrets.
    pub(crate) fn redacted_json<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        if self.has_no_secret(value) {
            return Cow::Borrowed(value);
        }
        let mut value = value.clone();
        self.redact_value(&mut value);
        Cow::Owned(value)
    }

    /// Returns whether a JSON value has no secret in it.
    fn has_no_secret(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_secret_free(text),
            Value::Array(values) => values.iter().all(|value| self.has_no_secret(value)),
            Value::Object(members) => members.iter().all(|(name, value)| {
                self.is_secret_free(name)
                    && self.has_no_secret(value)
                    && placeholder_by_member_name(name, value).is_none()
            }),
            _ => true,
        }
    }

    /// Replaces all secrets in a JSON value, at every depth and also in the names of members.
    pub fn redact_json(&self, value: &mut Value) {
        self.redact_value(value);
    }

    /// Does the work of [`Self::redact_json`]. Returns whether it found a secret.
    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(values) => {
                values.iter_mut().fold(false, |found, value| self.redact_value(value) | found)
            }
            Value::Object(members) => self.redact_members(members),
            _ => false,
        }
    }

    /// Replaces all secrets in the names and values of an object. Returns whether it found a secret.
    pub(crate) fn redact_members(&self, members: &mut Map<String, Value>) -> bool {
        let mut found = false;
        for value in members.values_mut() {
            found |= self.redact_value(value);
        }
        if !members.keys().all(|name| self.is_secret_free(name)) {
            let all = std::mem::take(members).into_iter();
            members.extend(all.map(|(name, value)| (self.redact(&name).into_owned(), value)));
            found = true;
        }
        found | redact_named_members(members)
    }

    /// Replaces secrets in effects, so that they may be shown and stored.
    pub(crate) fn redact_effects(&self, effects: &Arc<Effects>) -> Arc<Effects> {
        // Most effects are about files only, and then only the path could hold a secret.
        let is_secret_free = |at: &PathPattern| self.is_secret_free(&quote::path(&at.path));
        if effects.iter().all(|effect| effect.path().is_some_and(is_secret_free)) {
            return effects.clone();
        }
        let Ok(mut value) = serde_json::to_value(&**effects) else { return Arc::default() };
        if !self.redact_value(&mut value) {
            return effects.clone();
        }
        // Effects that do not parse without their secrets are left out.
        serde_json::from_value(value).map(Arc::new).unwrap_or_default()
    }

    /// Replaces secrets in the cause of a decision. A rule or a reason may name a path with a secret in it.
    pub(crate) fn redact_cause(&self, by: &DecidedBy) -> DecidedBy {
        by.clone().map_texts(|text| self.redact(text).into_owned())
    }

    /// Replaces secrets in a decision, so that it may be shown and stored.
    pub(crate) fn redact_decided(&self, decided: &ExplainedDecision) -> ExplainedDecision {
        ExplainedDecision {
            decision: decided.decision,
            by: self.redact_cause(&decided.by),
            settled_by: decided.settled_by.as_ref().map(|by| self.redact_cause(by)),
        }
    }

    /// Finds the placeholders in a text that a redaction with these secrets can have inserted.
    ///
    /// ```
    /// use windlass_core::Secrets;
    /// let secrets = Secrets::new([("PIN", "0451-0451")]);
    /// let text = "[secret PIN] and [secret: JWT], but [secret garden]";
    /// assert_eq!(secrets.placeholders(text), ["[secret PIN]", "[secret: JWT]"]);
    /// ```
    pub fn placeholders<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let is_ours = |candidate: &str| {
            self.names().any(|name| placeholder(name) == candidate)
                || formats::placeholders().any(|format| format == candidate)
        };
        text.match_indices("[secret")
            .filter_map(|(at, _)| {
                let end = text[at..].find(']')?;
                Some(&text[at..=at + end])
            })
            .filter(|candidate| is_ours(candidate))
            .collect()
    }

    /// Replaces all secrets in a string. Returns whether it found one.
    pub(crate) fn redact_string(&self, text: &mut String) -> bool {
        match self.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        }
    }
}

/// Replaces values that the names of their members show to be secrets: `{"password": "…"}`. Returns whether it found one.
fn redact_named_members(members: &mut Map<String, Value>) -> bool {
    let mut found = false;
    for (name, value) in members {
        if let Some(placeholder) = placeholder_by_member_name(name, value) {
            *value = placeholder.into();
            found = true;
        }
    }
    found
}

/// Returns the placeholder of a text value whose member name shows that it is a secret.
fn placeholder_by_member_name(name: &str, value: &Value) -> Option<&'static str> {
    formats::placeholder_by_name(name, value.as_str()?)
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl NamedValues {
    /// Prepares the values for the search. Ignores values that are too short, and replaces special characters in names.
    fn new(mut values: Vec<(String, String)>) -> Self {
        values.retain(|(_, value)| {
            // A value with a placeholder in it could not be told from a placeholder.
            value.len() >= Secrets::SHORTEST && !value.contains("[secret")
        });
        for (name, _) in &mut values {
            *name =
                name.chars().map(|c| if is_name_character(c) { c } else { '_' }).take(64).collect();
        }
        let known = KnownValues::new(
            values.iter().map(|(name, value)| (placeholder(name), value.as_str())),
            formats::placeholders(),
        );
        let anchor_filter =
            known.anchors().anchor_filter().union(formats::ALL.anchors().anchor_filter());
        Self { values, known, anchor_filter }
    }
}

/// Returns whether a character may stand in the name of a placeholder.
fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}
