//! The hosts of `--net HOST,HOST…`, and whether a target is among them.
//!
//! A rule is a name, `*.` and a name, or an address, each with a port or without; without one it stands for the two ports of the
//! web. Names are compared label by label and as a whole, never by how they begin. An address is reached as an address only if it
//! is listed as one.

use super::ProxyError;
use super::target::{Host, Target, split_port};

/// The ports of a host that is listed without one.
const WEB: [u16; 2] = [80, 443];

/// How much of the list a refusal repeats.
const MAX_TEXT: usize = 200;

/// The hosts that may be reached.
#[derive(Debug)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    text: String,
}

#[derive(Debug)]
struct Rule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug)]
enum Hosts {
    One(Host),
    /// All names that end in a dot and this one.
    Below(String),
}

/// What the rules say of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// The host is listed, with other ports.
    OtherPort,
    NotListed,
}

impl Rules {
    pub(super) fn parse(hosts: &[String]) -> Result<Self, ProxyError> {
        let rules = hosts.iter().map(|host| Rule::parse(host)).collect::<Result<_, _>>()?;
        Ok(Self { rules, text: shortened(&hosts.join(",")) })
    }

    pub(super) fn judge(&self, target: &Target) -> Verdict {
        let mut named = self.rules.iter().filter(|rule| rule.names(&target.host)).peekable();
        if named.peek().is_none() {
            Verdict::NotListed
        } else if named.any(|rule| rule.has(target.port)) {
            Verdict::Allowed
        } else {
            Verdict::OtherPort
        }
    }

    /// The list as a person wrote it, shortened.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, ProxyError> {
        let trimmed = text.trim();
        Self::read(trimmed).ok_or_else(|| ProxyError::Rule { rule: trimmed.to_owned() })
    }

    fn read(text: &str) -> Option<Self> {
        // An address with colons needs no brackets where no port follows.
        if let Ok(address) = text.parse() {
            return Some(Self { hosts: Hosts::One(Host::Address(address)), port: None });
        }
        let (host, port) = split_port(text)?;
        let hosts = match host.strip_prefix("*.") {
            Some(parent) => Hosts::Below(Host::parse_name(parent)?),
            // The port is read above; any other will do to read the host.
            None => Hosts::One(Target::parse(host, Some(1))?.host),
        };
        Some(Self { hosts, port })
    }

    fn names(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::One(listed), host) => listed == host,
            (Hosts::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Hosts::Below(_), Host::Address(_)) => false,
        }
    }

    fn has(&self, port: u16) -> bool {
        self.port.map_or(WEB.contains(&port), |only| only == port)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(list: &str) -> Result<Rules, ProxyError> {
        let hosts: Vec<String> = list.split(',').map(str::to_owned).collect();
        Rules::parse(&hosts)
    }

    fn check(list: &str, target: &str, expected: Verdict) {
        let target = Target::parse(target, None).unwrap();
        assert_eq!(rules(list).unwrap().judge(&target), expected, "{target} by {list}");
    }

    #[test]
    fn targets_by_rules() {
        use Verdict::{Allowed, NotListed, OtherPort};
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
        let none = Rules::parse(&[]).unwrap();
        assert_eq!(none.judge(&Target::parse("docs.rs:443", None).unwrap()), NotListed);
    }

    #[test]
    fn what_is_no_rule() {
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
    fn a_long_list_is_shortened() {
        let list = vec!["a.example".to_owned(); 40];
        let text = Rules::parse(&list).unwrap().text().to_owned();
        assert!(text.len() == MAX_TEXT + 3 && text.ends_with("..."), "{text}");
    }

    proptest! {
        #[test]
        fn case_and_the_last_dot_do_not_matter(rule in "(\\*\\.)?[a-c]{1,2}(\\.[a-c]{1,2}){0,2}", host in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}") {
            let judge = |rule: &str, host: &str| {
                rules(rule).unwrap().judge(&Target::parse(host, Some(443)).unwrap())
            };
            let plain = judge(&rule, &host);
            prop_assert_eq!(judge(&rule.to_uppercase(), &host), plain);
            prop_assert_eq!(judge(&rule, &format!("{}.", host.to_uppercase())), plain);
        }

        #[test]
        fn names_are_compared_by_whole_labels(parent in "[a-b]{1,2}(\\.[a-b]{1,2}){0,2}", host in "[a-b]{1,2}(\\.[a-b]{1,2}){0,4}") {
            let labels = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
            let (below, all) = (labels(&parent), labels(&host));
            let expected = all.len() > below.len() && all.ends_with(&below);
            let target = Target::parse(&host, Some(443)).unwrap();
            let allowed = rules(&format!("*.{parent}")).unwrap().judge(&target) == Verdict::Allowed;
            prop_assert_eq!(allowed, expected);
        }
    }
}
