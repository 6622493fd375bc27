//! Parses the hosts of `--net HOST,HOST…` and matches targets against them.
//!
//! A rule is a name, `*.` and a name, or an address, each with or without a port; without one it stands for the two ports of the web. Names
//! are compared label by label and as a whole, never by their beginning. A target given as an address must be listed as an address.

use super::ProxyError;
use super::target::{Host, Target, split_port};

/// Ports of a host that is listed without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Maximum characters of the list in a message.
const MAX_LIST_CHARS: usize = 200;

/// Rules for the hosts that may be reached.
#[derive(Debug)]
pub(super) struct HostRules {
    rules: Vec<HostRule>,
    text: String,
}

/// One entry of the list.
#[derive(Debug)]
struct HostRule {
    hosts: HostPattern,
    port: Option<u16>,
}

/// Hosts that an entry names.
#[derive(Debug)]
enum HostPattern {
    One(Host),
    /// All names that end in a dot and this name.
    Below(String),
}

/// Result of matching a target against the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostMatch {
    Allowed,
    /// The host is listed, but with other ports.
    OtherPort,
    NotListed,
}

impl HostRules {
    /// Parses the entries of the list.
    pub(super) fn parse(hosts: &[String]) -> Result<Self, ProxyError> {
        let rules = hosts.iter().map(|host| HostRule::parse(host)).collect::<Result<_, _>>()?;
        Ok(Self { rules, text: shortened(&hosts.join(",")) })
    }

    /// Matches a target against all rules.
    pub(super) fn match_target(&self, target: &Target) -> HostMatch {
        let mut named = self.rules.iter().filter(|rule| rule.names_host(&target.host)).peekable();
        if named.peek().is_none() {
            HostMatch::NotListed
        } else if named.any(|rule| rule.includes_port(target.port)) {
            HostMatch::Allowed
        } else {
            HostMatch::OtherPort
        }
    }

    /// Returns whether a rule names this host, with whatever port.
    pub(super) fn names_host_text(&self, host: &str) -> bool {
        let Some(HostRule { hosts: HostPattern::One(host), .. }) = HostRule::read(host) else {
            return false;
        };
        self.rules.iter().any(|rule| rule.names_host(&host))
    }

    /// Returns the list as a person wrote it, shortened.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl HostRule {
    /// Parses one entry; the error names it.
    fn parse(text: &str) -> Result<Self, ProxyError> {
        let trimmed = text.trim();
        Self::read(trimmed).ok_or_else(|| ProxyError::Rule { rule: trimmed.to_owned() })
    }

    /// Parses one entry; `None` if it is not a host.
    fn read(text: &str) -> Option<Self> {
        // An address with colons needs no brackets if no port follows.
        if let Ok(address) = text.parse() {
            return Some(Self { hosts: HostPattern::One(Host::Address(address)), port: None });
        }
        let (host, port) = split_port(text)?;
        let hosts = match host.strip_prefix("*.") {
            Some(parent) => HostPattern::Below(Host::parse_name(parent)?),
            // The port is parsed above; any port will do to parse the host.
            None => HostPattern::One(Target::parse(host, Some(1))?.host),
        };
        Some(Self { hosts, port })
    }

    /// Returns whether the rule names a host.
    fn names_host(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (HostPattern::One(listed), host) => listed == host,
            (HostPattern::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }

    /// Returns whether the rule includes a port.
    fn includes_port(&self, port: u16) -> bool {
        self.port.map_or(WEB_PORTS.contains(&port), |only| only == port)
    }
}

/// Shortens the list for messages.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LIST_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(list: &str) -> Result<HostRules, ProxyError> {
        let hosts: Vec<String> = list.split(',').map(str::to_owned).collect();
        HostRules::parse(&hosts)
    }

    fn check(list: &str, target: &str, expected: HostMatch) {
        let target = Target::parse(target, None).unwrap();
        assert_eq!(rules(list).unwrap().match_target(&target), expected, "{target} by {list}");
    }

    #[test]
    fn targets_are_matched_by_rules() {
        use HostMatch::{Allowed, NotListed, OtherPort};
        for (list, target, expected) in [
            ("docs.rs", "docs.rs:443", Allowed),
            ("docs.rs", "docs.rs:80", Allowed),
            ("docs.rs", "docs.rs:22", OtherPort),
            ("docs.rs", "DOCS.RS.:443", Allowed),
            ("Docs.RS.", "docs.rs:443", Allowed),
            (" docs.rs ", "docs.rs:443", Allowed),
            ("docs.rs", "static.docs.rs:443", NotListed),
            ("docs.rs", "docs.rs.evil.example:443", NotListed),
            ("docs.rs", "evildocs.rs:443", NotListed),
            ("docs.rs", "ocs.rs:443", NotListed),
            ("docs.rs", "1.2.3.4:443", NotListed),
            // Below a name, at any depth, but not the name.
            ("*.example.com", "a.example.com:443", Allowed),
            ("*.example.com", "A.b.EXAMPLE.com.:80", Allowed),
            ("*.example.com", "example.com:443", NotListed),
            ("*.example.com", "evilexample.com:443", NotListed),
            ("*.example.com", "a.example.com.evil.net:443", NotListed),
            ("*.example.com", "a.example.com:8080", OtherPort),
            ("*.example.com:8080", "a.example.com:8080", Allowed),
            ("*.example.com:8080", "a.example.com:443", OtherPort),
            ("*.com", "1.2.3.4:80", NotListed),
            // With a port.
            ("docs.rs:22", "docs.rs:22", Allowed),
            ("docs.rs:22", "docs.rs:443", OtherPort),
            ("docs.rs:22,docs.rs", "docs.rs:443", Allowed),
            ("docs.rs,docs.rs:22", "docs.rs:22", Allowed),
            ("docs.rs:22,python.org", "python.org:22", OtherPort),
            // Addresses, by what they are and not by how they are written.
            ("1.2.3.4", "1.2.3.4:443", Allowed),
            ("1.2.3.4", "1.2.3.5:443", NotListed),
            ("1.2.3.4", "[::ffff:1.2.3.4]:443", NotListed),
            ("1.2.3.4:22", "1.2.3.4:22", Allowed),
            ("2606:4700::1", "[2606:4700:0::1]:443", Allowed),
            ("[2606:4700::1]", "[2606:4700::1]:443", Allowed),
            ("[2606:4700::1]:22", "[2606:4700::1]:22", Allowed),
            ("[2606:4700::1]:22", "[2606:4700::1]:443", OtherPort),
        ] {
            check(list, target, expected);
        }
        let none = HostRules::parse(&[]).unwrap();
        assert_eq!(none.match_target(&Target::parse("docs.rs:443", None).unwrap()), NotListed);
    }

    #[test]
    fn malformed_rules_are_refused() {
        for rule in [
            "",
            " ",
            "*",
            "*.",
            "*.*.example.com",
            "a.*.example.com",
            "*example.com",
            "https://docs.rs",
            "docs.rs/path",
            "docs.rs:http",
            "docs.rs:0",
            "user@docs.rs",
            "127.1",
            "*.0.0.1",
            "10.0.0.0/8",
            "bücher.example",
            "[docs.rs]",
            "docs rs",
        ] {
            let error = rules(rule).unwrap_err().to_string();
            assert!(error.contains(&format!("`{}`", rule.trim())), "{error}");
        }
        assert!(rules("docs.rs,*").is_err(), "one that is wrong is enough");
    }

    #[test]
    fn long_list_is_shortened() {
        let list = vec!["a.example".to_owned(); 40];
        let text = HostRules::parse(&list).unwrap().text().to_owned();
        assert!(text.len() == MAX_LIST_CHARS + 3 && text.ends_with("..."), "{text}");
    }

    proptest! {
        #[test]
        fn case_and_the_last_dot_do_not_matter(rule in "(\\*\\.)?[a-c]{1,2}(\\.[a-c]{1,2}){0,2}", host in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}") {
            let match_target = |rule: &str, host: &str| {
                rules(rule).unwrap().match_target(&Target::parse(host, Some(443)).unwrap())
            };
            let plain = match_target(&rule, &host);
            prop_assert_eq!(match_target(&rule.to_uppercase(), &host), plain);
            prop_assert_eq!(match_target(&rule, &format!("{}.", host.to_uppercase())), plain);
        }

        #[test]
        fn names_are_compared_by_whole_labels(parent in "[a-b]{1,2}(\\.[a-b]{1,2}){0,2}", host in "[a-b]{1,2}(\\.[a-b]{1,2}){0,4}") {
            let labels = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
            let (below, all) = (labels(&parent), labels(&host));
            let expected = all.len() > below.len() && all.ends_with(&below);
            let target = Target::parse(&host, Some(443)).unwrap();
            let allowed = rules(&format!("*.{parent}")).unwrap().match_target(&target) == HostMatch::Allowed;
            prop_assert_eq!(allowed, expected);
        }
    }
}
