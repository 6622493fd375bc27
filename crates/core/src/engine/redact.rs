//! Stage 11: replaces secrets in the output of a tool.

use super::Shared;
use crate::{Content, EmbeddedResource, Output, ResourceBody};

/// Replaces secrets by placeholders in all text, data and links of an output; media are left as they are.
pub(super) fn redact_output(engine: &Shared, output: &mut Output) {
    let secrets = &engine.secrets;
    for content in &mut output.content {
        match content {
            Content::Text { text } => drop(secrets.redact_string(text)),
            Content::Json { value } => secrets.redact_json(value),
            Content::ResourceLink { uri, name, .. } => {
                secrets.redact_string(uri);
                secrets.redact_string(name);
            }
            Content::Resource(EmbeddedResource { uri, body, .. }) => {
                secrets.redact_string(uri);
                if let ResourceBody::Text(text) = body {
                    secrets.redact_string(text);
                }
            }
            Content::Image { .. } | Content::Audio { .. } => {}
        }
    }
    secrets.redact_members(&mut output.metadata);
}
