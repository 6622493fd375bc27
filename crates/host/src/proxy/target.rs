//! Host and port that a client asks for, parsed once from the form that its protocol uses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

pub(super) use windlass_core::HostName as Host;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Target {
    /// Parses `host:port` or `[address]:port`; without a port it is `default_port`.
    pub(super) fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = split_port(text)?;
        let port = port.or(default_port)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
                Host::Address(address.into())
            }
            None => Host::parse(host)?,
        };
        Some(Self { host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Splits off `:port`, if there is one, but not the colons inside brackets.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let beyond_brackets = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text.get(beyond_brackets..)?.find(':') {
        None => Some((text, None)),
        Some(colon) => {
            let (host, port) = text.split_at_checked(beyond_brackets + colon)?;
            Some((host, Some(self::port(port.strip_prefix(':')?)?)))
        }
    }
}

/// Parses a port of digits alone; the standard library would also accept `+80`.
fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = Target::parse(text, None).map(|target| target.to_string());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn hosts_with_ports() {
        for (text, expected) in [
            ("docs.rs:443", Some("docs.rs:443")),
            ("DOCS.rs:443", Some("docs.rs:443")),
            ("docs.rs.:443", Some("docs.rs:443")),
            ("docs.rs..:443", None),
            ("_dns.xn--bcher-kva.example:80", Some("_dns.xn--bcher-kva.example:80")),
            ("localhost:1", Some("localhost:1")),
            ("1.2.3.4:80", Some("1.2.3.4:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("[2606:4700::0:1]:80", Some("[2606:4700::1]:80")),
            ("[::ffff:1.2.3.4]:80", Some("[::ffff:1.2.3.4]:80")),
            // Without a valid port.
            ("docs.rs", None),
            ("docs.rs:", None),
            ("docs.rs:0", None),
            ("docs.rs:+80", None),
            ("docs.rs: 80", None),
            ("docs.rs:65536", None),
            ("docs.rs:80:80", None),
            // Addresses in forms that are not accepted.
            ("::1:80", None),
            ("[1.2.3.4]:80", None),
            ("[fe80::1%25eth0]:80", None),
            ("[::1]80", None),
            ("[::1:80", None),
            ("127.1:80", None),
            ("2130706433:80", None),
            ("0x7f000001:80", None),
            ("0x7f.1:80", None),
            ("0177.0.0.01:80", None),
            ("1.2.3.4.:80", None),
            ("1.2.3.256:80", None),
            // Not names.
            ("", None),
            (":80", None),
            (".:80", None),
            (".docs.rs:80", None),
            ("docs..rs:80", None),
            ("user@docs.rs:80", None),
            ("evil\0.docs.rs:80", None),
            ("docs.rs\\@evil:80", None),
            ("docs%2ers:80", None),
            ("docs.rs/:80", None),
            ("docs rs:80", None),
            ("*.docs.rs:80", None),
            ("bücher.example:80", None),
            ("ｄocs.rs:80", None),
        ] {
            check(text, expected);
        }
        let label = "a".repeat(63);
        check(&format!("{label}.example:80"), Some(&format!("{label}.example:80")));
        check(&format!("{label}a.example:80"), None);
        let longest = ["a.".repeat(126), "a".to_owned()].concat();
        check(&format!("{longest}:80"), Some(&format!("{longest}:80")));
        check(&format!("{longest}.a:80"), None);
    }

    #[test]
    fn default_port_is_used() {
        let found = Target::parse("docs.rs", Some(80)).map(|target| target.to_string());
        assert_eq!(found.as_deref(), Some("docs.rs:80"));
        let found = Target::parse("[::1]", Some(80)).map(|target| target.to_string());
        assert_eq!(found.as_deref(), Some("[::1]:80"));
    }

    proptest! {
        #[test]
        fn parsed_target_is_printed_the_same(text in ".{0,40}(:[0-9]{1,6})?") {
            if let Some(target) = Target::parse(&text, Some(80)) {
                prop_assert_eq!(Target::parse(&target.to_string(), None), Some(target));
            }
        }
    }
}
