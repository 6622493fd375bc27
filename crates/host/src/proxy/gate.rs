//! Makes all connections to hosts, and decides which are allowed.
//!
//! First the name is checked against the rules; only an allowed name is looked up, so that no other name reaches a name server. Then the
//! addresses are checked, and a checked address is dialled, not the name again: a name server that gives another answer the next time gains
//! nothing.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::record::RefusedHost;
use super::rules::{HostMatch, HostRules};
use super::target::Target;
use crate::dial::{self, SystemResolver};

/// Checks targets and connects to them.
#[derive(Debug)]
pub(super) struct Gate {
    rules: HostRules,
    /// Hosts whose addresses need not be public; `None` for all.
    private: Option<HostRules>,
    time_limit: Duration,
}

/// Error for a target that was not reached.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// Sentence for a model.
    pub(super) text: String,
}

/// Kind of failure, by which the protocols choose their reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The rules forbid it; with the reason to record, if it is not just that the host is not listed.
    Refused(Option<String>),
    NoSuchHost,
    NoAnswer(io::ErrorKind),
    TooLate,
}

impl Failure {
    /// Returns the refusal to record; `None` if the host failed for another reason.
    pub(super) fn refusal(&self, target: &Target) -> Option<RefusedHost> {
        match &self.kind {
            FailureKind::Refused(reason) => {
                Some(RefusedHost { target: target.to_string(), reason: reason.clone() })
            }
            _ => None,
        }
    }

    /// Returns the failure if the session's budget for the network is spent.
    pub(super) fn over_budget(target: &Target) -> Self {
        let why = "the session may move no more bytes over the network";
        Self {
            kind: FailureKind::Refused(Some(why.to_owned())),
            text: format!("{target} is not reached: {why}"),
        }
    }

    /// Returns the failure for a target that is not listed.
    fn refused(text: String) -> Self {
        Self { kind: FailureKind::Refused(None), text }
    }
}

impl Gate {
    pub(super) fn new(rules: HostRules, private: Option<HostRules>, time_limit: Duration) -> Self {
        Self { rules, private, time_limit }
    }

    /// Connects to a host, if that is allowed, within the time limit.
    pub(super) async fn open(&self, target: &Target) -> Result<TcpStream, Failure> {
        self.check_rules(target)?;
        timeout(self.time_limit, self.reach(target)).await.unwrap_or_else(|_| {
            let text = format!("{target} did not answer within {} s", self.time_limit.as_secs());
            Err(Failure { kind: FailureKind::TooLate, text })
        })
    }

    /// Fails if the rules do not list the target.
    fn check_rules(&self, target: &Target) -> Result<(), Failure> {
        let Target { host, port } = target;
        let list = self.rules.text();
        match self.rules.match_target(target) {
            HostMatch::Allowed => Ok(()),
            HostMatch::NotListed => Err(Failure::refused(format!(
                "host {host} is not among those that this command may reach ({list})"
            ))),
            HostMatch::OtherPort => Err(Failure::refused(format!(
                "port {port} of host {host} is not among those that this command may reach ({list}; a host without a port \
                 stands for its ports 80 and 443)"
            ))),
        }
    }

    /// Looks a target up and connects to one of its addresses.
    async fn reach(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.keep_dialable(target, resolve(target).await?)?;
        dial::connect_to_first(addresses).await.map_err(|error| Failure {
            text: format!("cannot connect to {target}: {error}"),
            kind: FailureKind::NoAnswer(error.kind()),
        })
    }

    /// Returns the addresses that may be dialled; fails if there are none.
    fn keep_dialable(
        &self,
        target: &Target,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let may_be_private = self
            .private
            .as_ref()
            .is_none_or(|hosts| hosts.match_target(target) == HostMatch::Allowed);
        match dial::keep_dialable(&mut addresses, may_be_private) {
            Ok(()) if addresses.is_empty() => Err(no_such_host(target, "it has no address")),
            Ok(()) => Ok(addresses),
            Err(reason) => {
                let reason =
                    format!("{reason}; a rule that names it: --allow 'net {}'", rule(target));
                let text = format!("host {} cannot be reached from here: {reason}", target.host);
                Err(Failure { kind: FailureKind::Refused(Some(reason)), text })
            }
        }
    }
}

/// Returns the host as a rule names it: without the ports of the web.
fn rule(target: &Target) -> String {
    if matches!(target.port, 80 | 443) { target.host.to_string() } else { target.to_string() }
}

/// Looks up the addresses of a target.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, Failure> {
    let found = dial::lookup(&SystemResolver, &target.host, target.port).await;
    found.map_err(|error| no_such_host(target, &error.to_string()))
}

/// Returns the failure for a host whose addresses are not found.
fn no_such_host(target: &Target, why: &str) -> Failure {
    let text = format!("cannot find host {}: {why}", target.host);
    Failure { kind: FailureKind::NoSuchHost, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::MAX_ADDRESSES;

    fn gate(allow_private: bool) -> Gate {
        let rules = |host: &str| HostRules::parse(&[host.to_owned()]).unwrap();
        let private = rules(if allow_private { "docs.rs" } else { "docs.rs:22" });
        Gate::new(rules("docs.rs"), Some(private), Duration::from_secs(30))
    }

    fn check(allow_private: bool, found: &[&str], expected: Result<&[&str], &str>) {
        let target = Target::parse("docs.rs:443", None).unwrap();
        let addresses = found.iter().map(|address| address.parse().unwrap()).collect();
        let admitted = gate(allow_private).keep_dialable(&target, addresses);
        let admitted = match &admitted {
            Ok(addresses) => Ok(addresses.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Err(failure) => Err(failure
                .refusal(&target)
                .map_or_else(|| failure.text.clone(), |it| it.to_string())),
        };
        let expected = expected.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(admitted, expected.map_err(str::to_owned), "{found:?}");
    }

    #[test]
    fn only_public_addresses_are_dialled() {
        let loopback = "not reached: docs.rs:443 (127.0.0.1 is not a public address: loopback; \
                        a rule that names it: --allow 'net docs.rs')";
        check(false, &["8.8.8.8:443"], Ok(&["8.8.8.8:443"]));
        check(false, &["10.0.0.1:443", "8.8.8.8:443", "[::1]:443"], Ok(&["8.8.8.8:443"]));
        check(false, &["127.0.0.1:443"], Err(loopback));
        check(false, &["127.0.0.1:443", "[::ffff:8.8.8.8]:443"], Err(loopback));
        check(true, &["127.0.0.1:443", "10.0.0.1:443"], Ok(&["127.0.0.1:443", "10.0.0.1:443"]));
        check(false, &[], Err("cannot find host docs.rs: it has no address"));
        check(false, &["8.8.8.8:443"; 20], Ok(&["8.8.8.8:443"; MAX_ADDRESSES]));
    }
}
