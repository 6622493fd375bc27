//! URLs, parsed strictly: a text has the same meaning for rules, for people and for the connection.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::HostName;
use crate::{Effect, ToolError, quote};

/// Maximum bytes of a URL.
const MAX_URL_BYTES: usize = 8 << 10;

/// An absolute URL with the scheme `http` or `https`, without user, password and fragment.
///
/// ```
/// use windlass_core::HttpUrl;
/// let url: HttpUrl = "HTTPS://Docs.rs/serde?q=a b#top".parse()?;
/// assert_eq!(url.to_string(), "https://docs.rs/serde?q=a%20b");
/// assert_eq!(url.origin(), "https://docs.rs:443");
/// assert_eq!(url.join("../tokio")?.to_string(), "https://docs.rs/tokio");
/// assert!("http://user@docs.rs/".parse::<HttpUrl>().is_err());
/// assert!("http://0x7f.1/".parse::<HttpUrl>().is_err());
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    is_secure: bool,
    host: HostName,
    port: u16,
    /// Path and query; begins with a slash, and everything that is not plain ASCII is escaped.
    target: String,
}

impl HttpUrl {
    /// Returns whether the scheme is `https`.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the host.
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// Returns the port, also if it is the default one of the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns path and query, as they appear in a request.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns scheme, host and port, as an [`Effect::Net`] names them.
    pub fn origin(&self) -> String {
        format!("{}://{}:{}", self.scheme(), self.bracketed(), self.port)
    }

    /// Returns the host as a request names it: with the port if that is not the default one.
    pub fn authority(&self) -> String {
        if self.port == usual_port(self.is_secure) {
            self.bracketed()
        } else {
            format!("{}:{}", self.bracketed(), self.port)
        }
    }

    /// Returns the effect of a request to this URL.
    ///
    /// ```
    /// let url: windlass_core::HttpUrl = "http://127.0.0.1:8080/a".parse()?;
    /// assert_eq!(url.effect("get").to_string(), "net GET http://127.0.0.1:8080");
    /// # Ok::<(), windlass_core::ToolError>(())
    /// ```
    pub fn effect(&self, method: &str) -> Effect {
        Effect::Net { origin: self.origin(), method: method.to_ascii_uppercase() }
    }

    /// Resolves a reference that appears in the response of this URL: a `Location` header, a link.
    pub fn join(&self, reference: &str) -> Result<Self, ToolError> {
        let reference = reference.trim_matches(' ');
        let plain = reference.split('#').next().unwrap_or_default();
        if let Some((scheme, rest)) = plain.split_once(':')
            && is_scheme(scheme)
        {
            // Programs disagree about the meaning of `https:docs.rs`.
            return if rest.starts_with("//") {
                plain.parse()
            } else {
                Err(refused(reference, MISSING_SLASHES))
            };
        }
        if plain.starts_with("//") {
            return format!("{}:{plain}", self.scheme()).parse();
        }
        let (path, _) = split_query(&self.target);
        let target = if plain.is_empty() {
            self.target.clone()
        } else if plain.starts_with('?') {
            format!("{path}{plain}")
        } else if plain.starts_with('/') {
            plain.to_owned()
        } else {
            let directory = path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/");
            format!("{directory}{plain}")
        };
        let target = clean_target(&target).ok_or_else(|| refused(reference, BAD_CHARACTERS))?;
        Ok(Self { target, ..self.clone() })
    }

    fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Returns the host, with brackets around an IPv6 address.
    fn bracketed(&self) -> String {
        match self.host {
            HostName::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.to_string(),
        }
    }
}

const MISSING_SLASHES: &str = "two slashes have to follow the scheme";
const BAD_CHARACTERS: &str = "it has characters that no address has";

impl FromStr for HttpUrl {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        let refused = |why| refused(text, why);
        if text.len() > MAX_URL_BYTES {
            return Err(refused("it is too long"));
        }
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| refused("it is not an absolute address"))?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(refused("only http and https are spoken")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(refused("a user or password in an address is not taken"));
        }
        let (host, port) = read_authority(authority, usual_port(is_secure)).ok_or_else(|| {
            refused("it has no host that is a plain name (in its `xn--` form) or address")
        })?;
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let target = clean_target(&target).ok_or_else(|| refused(BAD_CHARACTERS))?;
        Ok(Self { is_secure, host, port, target })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.target)
    }
}

/// Makes the error for an invalid URL.
fn refused(text: &str, why: &str) -> ToolError {
    let shown: String = text.chars().take(200).collect();
    ToolError::failed(format!("`{}` cannot be asked for: {why}", quote::visible(&shown)))
}

fn usual_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Parses host and port.
fn read_authority(text: &str, usual_port: u16) -> Option<(HostName, u16)> {
    let (host, rest) = if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']')?;
        (HostName::Address(address.parse::<Ipv6Addr>().ok()?.into()), rest)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        (HostName::parse(host)?, rest)
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => usual_port,
        Some("") => usual_port,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0)?
        }
        _ => return None,
    };
    Some((host, port))
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

/// Escapes special characters and resolves the steps `.` and `..`. Control characters and backslashes are refused, since programs
/// disagree about their meaning.
fn clean_target(target: &str) -> Option<String> {
    if target.len() > MAX_URL_BYTES || target.chars().any(|c| c.is_control() || c == '\\') {
        return None;
    }
    let (path, query) = split_query(target);
    let mut steps: Vec<&str> = Vec::new();
    let mut ends_in_directory = false;
    for step in path.split('/').skip(1) {
        ends_in_directory = matches!(step, "." | "..");
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let slash = if ends_in_directory && !steps.is_empty() { "/" } else { "" };
    let path = format!("/{}{slash}", steps.join("/"));
    let whole = match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    Some(whole.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && !b"\"<>`{}|^".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_has_one_meaning() {
        for (text, expected) in [
            ("http://docs.rs", Some("http://docs.rs/")),
            ("http://docs.rs:80/", Some("http://docs.rs/")),
            ("http://docs.rs:", Some("http://docs.rs/")),
            ("https://docs.rs:80/a?b#c", Some("https://docs.rs:80/a?b")),
            ("http://docs.rs?a=/b", Some("http://docs.rs/?a=/b")),
            ("http://docs.rs./a/./b/../c", Some("http://docs.rs/a/c")),
            ("http://docs.rs/../../a", Some("http://docs.rs/a")),
            ("http://docs.rs/a/..", Some("http://docs.rs/")),
            ("http://docs.rs/ü \"", Some("http://docs.rs/%C3%BC%20%22")),
            ("http://[::1]:8080/", Some("http://[::1]:8080/")),
            ("http://127.0.0.1/", Some("http://127.0.0.1/")),
            ("docs.rs", None),
            ("ftp://docs.rs/", None),
            ("file:///etc/passwd", None),
            ("http:///a", None),
            ("http://user:pass@docs.rs/", None),
            ("http://docs.rs@evil/", None),
            ("http://docs.rs\\@evil/", None),
            ("http://docs.rs\t/", None),
            ("http://docs.rs/\r\nHost: evil", None),
            ("http://docs.rs:0/", None),
            ("http://docs.rs:99999/", None),
            ("http://docs.rs:+80/", None),
            ("http://127.1/", None),
            ("http://2130706433/", None),
            ("http://0x7f000001/", None),
            ("http://0177.0.0.1/", None),
            ("http://[::1%25eth0]/", None),
            ("http://[127.0.0.1]/", None),
            ("http://bücher.example/", None),
            ("http://１２７.0.0.1/", None),
        ] {
            let found = text.parse::<HttpUrl>().ok().map(|url| url.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn references_are_resolved_relative_to_their_url() {
        let base: HttpUrl = "https://a.example:8443/b/c?d".parse().expect("an address");
        for (reference, expected) in [
            ("", Some("https://a.example:8443/b/c?d")),
            ("#x", Some("https://a.example:8443/b/c?d")),
            ("?e", Some("https://a.example:8443/b/c?e")),
            ("e", Some("https://a.example:8443/b/e")),
            ("../e", Some("https://a.example:8443/e")),
            ("/e?f", Some("https://a.example:8443/e?f")),
            ("//other/e", Some("https://other/e")),
            ("http://169.254.169.254/latest", Some("http://169.254.169.254/latest")),
            ("HTTP://Other", Some("http://other/")),
            ("./a:b", Some("https://a.example:8443/b/a:b")),
            ("https:evil", None),
            ("javascript:alert(1)", None),
            ("file:///etc/passwd", None),
            ("//user@other/", None),
            ("/a\r\nX: y", None),
            ("\\\\evil", None),
        ] {
            let found = base.join(reference).ok().map(|url| url.to_string());
            assert_eq!(found.as_deref(), expected, "{reference:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_parsed_url_is_written_the_same(text in "https?://[a-zA-Z0-9.:@\\[\\]-]{1,12}.{0,30}") {
            if let Ok(url) = text.parse::<HttpUrl>() {
                let again: HttpUrl = url.to_string().parse().expect("it was written by us");
                proptest::prop_assert_eq!(&again, &url);
                proptest::prop_assert!(url.to_string().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
