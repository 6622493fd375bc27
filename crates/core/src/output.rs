//! The output of a call: content for the model, and the same facts as data.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The facts of a result as data: exit code, line counts, what was truncated.
///
/// ```
/// use windlass_core::{Metadata, Output};
/// let output = Output::text("12 lines, the rest is left out").with("lines", 12).with("truncated", true);
/// let facts: &Metadata = &output.metadata;
/// assert_eq!(facts["lines"], 12);
/// assert_eq!(facts["truncated"], true);
/// ```
pub type Metadata = Map<String, Value>;

/// Initial capacity for the facts that most tools give and that the engine adds.
const USUAL_METADATA_ENTRIES: usize = 8;

/// The output of a tool.
///
/// ```
/// use windlass_core::Output;
/// let output = Output::text("12 lines").with("lines", 12);
/// assert_eq!(output.to_text(), "12 lines");
/// assert_eq!(output.metadata["lines"], 12);
/// assert!(Output::error("no such file").is_error);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The content for the model, in order.
    pub content: Vec<Content>,
    /// It is a normal failure that the model should read and act on.
    #[serde(default)]
    pub is_error: bool,
    /// The same facts as data.
    #[serde(default)]
    pub metadata: Metadata,
    /// The outcome, if `is_error` does not determine it: the call's own time limit passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// One piece of an output.
///
/// ```
/// use windlass_core::Content;
/// assert_eq!(Content::text("hi").as_text(), Some("hi"));
/// let report = Content::resource_text("file:///w/report.md", "# Report");
/// assert_eq!(report.shown(), "# Report");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes, base64-encoded as every protocol expects them.
        data: String,
    },
    /// A sound.
    Audio {
        /// The media type, such as `audio/wav`.
        media_type: String,
        /// The bytes, base64-encoded.
        data: String,
    },
    /// Structured data.
    Json {
        /// The value.
        value: Value,
    },
    /// A resource with its content.
    Resource(EmbeddedResource),
    /// A resource without its content, to be fetched when it is needed.
    ResourceLink {
        /// The address, for example `output:CALL`.
        uri: String,
        /// The name to show.
        name: String,
        /// The media type, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
}

/// A file, page or other object with an address of its own, embedded in an output.
///
/// ```
/// use windlass_core::{EmbeddedResource, ResourceBody};
/// let page: EmbeddedResource = serde_json::from_str(r#"{"uri": "https://docs.example/", "text": "Hello"}"#)?;
/// assert_eq!(page.body, ResourceBody::Text("Hello".into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// The address.
    pub uri: String,
    /// The media type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The content.
    #[serde(flatten)]
    pub body: ResourceBody,
}

/// The content of an [`EmbeddedResource`].
///
/// ```
/// use windlass_core::ResourceBody;
/// assert_eq!(serde_json::to_string(&ResourceBody::Blob("AAAA".into()))?, r#"{"blob":"AAAA"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, base64-encoded.
    Blob(String),
}

impl Content {
    /// Makes text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Makes an embedded resource of text.
    pub fn resource_text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let body = ResourceBody::Text(text.into());
        Self::Resource(EmbeddedResource { uri: uri.into(), media_type: None, body })
    }

    /// Renders the content for a terminal or a text-only model.
    ///
    /// ```
    /// use windlass_core::Content;
    /// let picture = Content::Image { media_type: "image/png".into(), data: "AAAA".into() };
    /// assert_eq!(picture.shown(), "[image/png, 3 bytes]");
    /// ```
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text } => Cow::Borrowed(text),
            Self::Json { value } => Cow::Owned(value.to_string()),
            Self::Image { media_type, data } | Self::Audio { media_type, data } => {
                Cow::Owned(format!("[{}]", describe_bytes(media_type, data)))
            }
            Self::Resource(EmbeddedResource { uri, media_type, body }) => match body {
                ResourceBody::Text(text) => Cow::Borrowed(text),
                ResourceBody::Blob(data) => {
                    let kind = media_type.as_deref().unwrap_or("application/octet-stream");
                    Cow::Owned(format!("[{uri}: {}]", describe_bytes(kind, data)))
                }
            },
            Self::ResourceLink { uri, name, .. } => Cow::Owned(format!("[{name}: {uri}]")),
        }
    }

    /// Returns the text that a model has to read: text, data and the text of resources. `None` for media and links, which are never
    /// truncated.
    pub(crate) fn readable(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text { .. } | Self::Json { .. } => Some(self.shown()),
            Self::Resource(EmbeddedResource { body: ResourceBody::Text(text), .. }) => {
                Some(Cow::Borrowed(text))
            }
            Self::Resource(_)
            | Self::Image { .. }
            | Self::Audio { .. }
            | Self::ResourceLink { .. } => None,
        }
    }

    /// Returns the text of text content.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// Formats the media type and the size of bytes that cannot be shown.
fn describe_bytes(media_type: &str, base64: &str) -> String {
    format!("{media_type}, {} bytes", base64.len() / 4 * 3)
}

impl Output {
    /// Makes an output of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Makes a normal failure, for the model to read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Makes an output of structured data.
    pub fn json(value: Value) -> Self {
        Self { content: vec![Content::Json { value }], ..Self::default() }
    }

    /// Adds one fact to the metadata.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        if self.metadata.is_empty() {
            self.metadata = Metadata::with_capacity(USUAL_METADATA_ENTRIES);
        }
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Renders all content for a terminal or a text-only model.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for content in &self.content {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&content.shown());
        }
        text
    }
}

/// The way a call ended.
///
/// ```
/// use windlass_core::Outcome;
/// assert!(!Outcome::Ok.is_error());
/// assert_eq!(Outcome::Denied.exit_code(), 3);
/// assert_eq!(Outcome::TimedOut.as_str(), "timed_out");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call succeeded.
    Ok,
    /// A normal failure for the model to handle.
    Error,
    /// The call could not be carried out.
    Fault,
    /// A rule or a person denied the call.
    Denied,
    /// The call exceeded its time limit.
    TimedOut,
    /// A person or the caller cancelled the call.
    Cancelled,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::Error, Self::Fault, Self::Denied, Self::TimedOut, Self::Cancelled];

    /// Returns whether this is not [`Outcome::Ok`].
    pub fn is_error(self) -> bool {
        self != Self::Ok
    }

    /// Returns the exit code of `windlass call`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Fault => 2,
            Self::Denied => 3,
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }

    /// Returns the name in JSON and in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Fault => "fault",
            Self::Denied => "denied",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }
}
