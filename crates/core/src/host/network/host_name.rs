//! Host names in their canonical spelling.
//!
//! Rules are compared with this text, and names are resolved by it. So it admits little: letters, digits, hyphens and underscores
//! in labels, or an address in its plain form. A name that ends in a number is refused, since some resolvers read `127.1` or
//! `0x7f000001` as an address.

use std::fmt;
use std::net::IpAddr;

/// A host, by name or by address.
///
/// ```
/// use windlass_core::HostName;
/// let text = |text| HostName::parse(text).map(|host| host.to_string());
/// assert_eq!(text("DOCS.rs.").as_deref(), Some("docs.rs"));
/// assert_eq!(text("127.0.0.1").as_deref(), Some("127.0.0.1"));
/// assert_eq!(text("0x7f.1"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostName {
    /// A name in lower case, without a dot at its end.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

impl HostName {
    /// Parses a name, or an address without brackets.
    pub fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(address) => Some(Self::Address(address)),
            Err(_) => Self::parse_name(text).map(Self::Name),
        }
    }

    /// Parses a name, and returns its canonical form.
    ///
    /// ```
    /// use windlass_core::HostName;
    /// assert_eq!(HostName::parse_name("Docs.RS").as_deref(), Some("docs.rs"));
    /// assert_eq!(HostName::parse_name("docs.rs/x"), None);
    /// ```
    pub fn parse_name(text: &str) -> Option<String> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let last = text.rsplit('.').next()?;
        let valid = text.len() <= 253 && text.split('.').all(is_label) && !is_number(last);
        valid.then(|| text.to_ascii_lowercase())
    }

    /// Returns whether a reader can tell from the text that the host is this machine or a given address.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Self::Address(_) => true,
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Returns whether a text is a valid label of a host name.
fn is_label(label: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(known)
}

/// Returns whether a label is a decimal or hexadecimal number.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or(label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
