//! Secrets: taken out of everything that is stored, shown or sent to a model.
//!
//! A secret is known by its value, in whatever form a program passes it on ([`known`]), or by its format ([`formats`]). Values come
//! first, so that what has a name is called by it. Both are looked for in one way ([`scan`]), which is the same for a whole text and
//! for one that comes in pieces. What takes the place of a secret is never taken for one.

mod formats;
mod glance;
mod known;
mod scan;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use self::glance::Glance;
use self::known::Known;
use self::scan::Rules as _;
pub(crate) use self::stream::Stream;
use crate::{Decided, DecidedBy, Effects, PathPattern, quote};

/// Values that must not be seen, by name; besides them, whatever has the format of a credential is not seen.
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
    found: OnceLock<Named>,
    /// Where the values come from, if they were not needed yet.
    source: Option<Source>,
}

type Source = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// Values by name, ready to be looked for.
struct Named {
    values: Vec<(String, String)>,
    known: Known,
    /// The table that rules out most short texts, of all values and formats.
    glance: Glance,
}

/// A secret that a tool was given: to be passed on, not to be shown.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effect, Kinds, Output, Secrets, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("login")
///     .with_effects(Kinds::SECRET, |_| Effect::Secret("PASSWORD".into()).into())
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
    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&placeholder(&self.name))
    }
}

/// What takes the place of a value.
fn placeholder(name: &str) -> String {
    format!("[secret {name}]")
}

impl Secrets {
    /// Shorter values are words, not secrets: taking them out would destroy texts.
    pub const SHORTEST: usize = 8;

    /// Secrets by name and value.
    pub fn new<N: Into<String>, V: Into<String>>(
        secrets: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let secrets = secrets.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { found: OnceLock::from(Named::new(secrets.collect())), source: None }
    }

    /// Secrets that are asked for when the first text is to be cleaned, and only then.
    ///
    /// ```
    /// use windlass_core::Secrets;
    /// let secrets = Secrets::when_needed(|| vec![("PIN".into(), "0451-0451".into())]);
    /// assert_eq!(secrets.redact("it is 0451-0451"), "it is [secret PIN]");
    /// ```
    pub fn when_needed(source: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static) -> Self {
        Self { found: OnceLock::new(), source: Some(Box::new(source)) }
    }

    fn named(&self) -> &Named {
        let find = || self.source.as_ref().map(|source| source()).unwrap_or_default();
        self.found.get_or_init(|| Named::new(find()))
    }

    /// The names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named().values.iter().map(|(name, _)| name.as_str())
    }

    /// The value of that name. Not for tools: they go by the grant of their call, with [`Context::secret`](crate::Context::secret).
    pub(crate) fn get(&self, name: &str) -> Option<SecretValue> {
        let (name, value) = self.named().values.iter().find(|(known, _)| known == name)?;
        Some(SecretValue { name: name.clone(), value: value.clone() })
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (rules, named) = (&*formats::ALL, self.named());
        if named.glance.rules_out(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        match scan::clean(&named.known, text) {
            Cow::Borrowed(text) => scan::clean(rules, text),
            Cow::Owned(text) => Cow::Owned(match scan::clean(rules, &text) {
                Cow::Borrowed(_) => text,
                Cow::Owned(clean) => clean,
            }),
        }
    }

    /// Returns whether a text has no secret in it.
    pub(crate) fn is_clean(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Borrowed(_))
    }

    /// A value without them, at every depth. Most have none, and are not copied.
    pub(crate) fn cleaned_json<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        if self.is_clean_json(value) {
            return Cow::Borrowed(value);
        }
        let mut value = value.clone();
        self.clean_json(&mut value);
        Cow::Owned(value)
    }

    /// Returns whether there is nothing to take out of a value.
    fn is_clean_json(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_clean(text),
            Value::Array(values) => values.iter().all(|value| self.is_clean_json(value)),
            Value::Object(members) => members.iter().all(|(name, value)| {
                self.is_clean(name)
                    && self.is_clean_json(value)
                    && told_by_name(name, value).is_none()
            }),
            _ => true,
        }
    }

    /// Takes them out of a value, at every depth, the names of its members included.
    pub fn redact_json(&self, value: &mut Value) {
        self.clean_json(value);
    }

    /// The same; whether there was something to take out.
    fn clean_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(values) => {
                values.iter_mut().fold(false, |found, value| self.clean_json(value) | found)
            }
            Value::Object(members) => self.clean_members(members),
            _ => false,
        }
    }

    pub(crate) fn clean_members(&self, members: &mut Map<String, Value>) -> bool {
        let mut found = false;
        for value in members.values_mut() {
            found |= self.clean_json(value);
        }
        if !members.keys().all(|name| self.is_clean(name)) {
            let all = std::mem::take(members).into_iter();
            members.extend(all.map(|(name, value)| (self.redact(&name).into_owned(), value)));
            found = true;
        }
        found | clean_named(members)
    }

    /// Effects as they may be shown and stored.
    pub(crate) fn redact_effects(&self, effects: &Arc<Effects>) -> Arc<Effects> {
        // Most are about files alone, and then all that could be a secret is the path.
        let is_clean = |at: &PathPattern| self.is_clean(&quote::path(&at.path));
        if effects.iter().all(|effect| effect.path().is_some_and(is_clean)) {
            return effects.clone();
        }
        let Ok(mut value) = serde_json::to_value(&**effects) else { return Arc::default() };
        if !self.clean_json(&mut value) {
            return effects.clone();
        }
        // What cannot be told without its secrets is not told.
        serde_json::from_value(value).map(Arc::new).unwrap_or_default()
    }

    /// The cause of a decision as it may be shown and stored: a rule or a reason may name a path with a secret in it.
    pub(crate) fn redact_cause(&self, by: &DecidedBy) -> DecidedBy {
        by.clone().map_texts(|text| self.redact(text).into_owned())
    }

    /// A decision as it may be shown and stored.
    pub(crate) fn redact_decided(&self, decided: &Decided) -> Decided {
        Decided {
            decision: decided.decision,
            by: self.redact_cause(&decided.by),
            settled_by: decided.settled_by.as_ref().map(|by| self.redact_cause(by)),
        }
    }

    /// What stands in a text for something that was taken out.
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

    pub(crate) fn redact_string(&self, text: &mut String) -> bool {
        match self.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
        }
    }
}

/// A value may be told by the name of its member alone: `{"password": "…"}` is the same in JSON as in a text.
fn clean_named(members: &mut Map<String, Value>) -> bool {
    let mut found = false;
    for (name, value) in members {
        if let Some(says) = told_by_name(name, value) {
            *value = says.into();
            found = true;
        }
    }
    found
}

/// What takes the place of a text that the name of its member tells to be a secret.
fn told_by_name(name: &str, value: &Value) -> Option<&'static str> {
    formats::by_name(name, value.as_str()?)
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Named {
    fn new(mut values: Vec<(String, String)>) -> Self {
        values.retain(|(_, value)| {
            // What looks like one of our own words cannot be told from it.
            value.len() >= Secrets::SHORTEST && !value.contains("[secret")
        });
        for (name, _) in &mut values {
            *name = name.chars().map(|c| if is_of_name(c) { c } else { '_' }).take(64).collect();
        }
        let known = Known::new(
            values.iter().map(|(name, value)| (placeholder(name), value.as_str())),
            formats::placeholders(),
        );
        let glance = known.anchors().glance().or(formats::ALL.anchors().glance());
        Self { values, known, glance }
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}
