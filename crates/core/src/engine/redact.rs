//! Stage 11: secrets are taken out of what a tool answered.

use super::Shared;
use crate::{Content, EmbeddedResource, Output, ResourceBody};

pub(super) fn redact(engine: &Shared, output: &mut Output) {
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
