//! The identity behind a session, an answer or a record.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An identity that acts: a person, an agent, or the holder of a token.
///
/// ```
/// use windlass_core::Principal;
/// assert_eq!(Principal::default(), Principal::Person { name: None });
/// assert_eq!(Principal::Agent { name: "reviewer".into() }.to_string(), "agent reviewer");
/// let text = serde_json::to_string(&Principal::Token { name: "ci".into() })?;
/// assert_eq!(text, r#"{"kind":"token","name":"ci"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Principal {
    /// A person, with a name if the front door knows it.
    Person {
        /// The name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An agent that acts for a person.
    Agent {
        /// The name of its type.
        name: String,
    },
    /// The holder of a server's token.
    Token {
        /// The name of the token, never its value.
        name: String,
    },
}

impl Principal {
    /// Returns whether this is the person of this machine, without a name. Records omit this usual case.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::Person { name: None }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &str| crate::quote::visible(name).into_owned();
        match self {
            Self::Person { name: None } => f.write_str("a person"),
            Self::Person { name: Some(who) } => write!(f, "person {}", name(who)),
            Self::Agent { name: who } => write!(f, "agent {}", name(who)),
            Self::Token { name: who } => write!(f, "token {}", name(who)),
        }
    }
}
