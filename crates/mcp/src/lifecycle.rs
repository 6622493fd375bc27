//! The two lifecycles of the protocol, and the check that a request declares its own.

use rmcp::model::{ErrorData, ProtocolVersion, RequestMetaObject};

/// Lifecycle of the protocol that a request follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// A connection opened with `initialize`, up to version 2025-11-25.
    Initialized,
    /// Stateless requests that carry their own metadata, since version 2026-07-28.
    Stateless,
}

impl Lifecycle {
    /// Returns the lifecycle of a protocol version.
    pub(crate) fn of_version(version: Option<&ProtocolVersion>) -> Self {
        match version {
            Some(version) if !version.has_initialize() => Self::Stateless,
            _ => Self::Initialized,
        }
    }

    /// Returns the lifecycle of a request: the one in its metadata, or else that of the initialized connection.
    pub(crate) fn of_request(
        meta: &RequestMetaObject,
        initialized: bool,
    ) -> Result<Self, ErrorData> {
        let Some(version) = meta.protocol_version() else {
            return if initialized { Ok(Self::Initialized) } else { Err(unknown_version()) };
        };
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
            let known = ProtocolVersion::KNOWN_VERSIONS;
            return Err(ErrorData::unsupported_protocol_version(version, known));
        }
        let missing = meta.missing_required_keys(&version);
        if missing.is_empty() {
            Ok(Self::of_version(Some(&version)))
        } else {
            Err(missing_metadata(&missing))
        }
    }
}

/// Makes the error of a request without a protocol version before `initialize`.
fn unknown_version() -> ErrorData {
    let text = "the request came before `initialize` and does not say which protocol it speaks; begin with `initialize`, \
                or set io.modelcontextprotocol/protocolVersion in `_meta`";
    ErrorData::invalid_params(text, None)
}

/// Makes the error of a request without required metadata.
fn missing_metadata(missing: &[&str]) -> ErrorData {
    let text =
        format!("the request lacks, or has in a wrong form, in `_meta`: {}", missing.join(", "));
    ErrorData::invalid_params(text, None)
}
