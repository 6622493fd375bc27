//! The gate: the one place from which a connection to a host is made.
//!
//! First the rules, on the name; only then is it looked up, so that a name that is not listed never reaches a name server. Then the
//! addresses, and what is dialled is an address that was judged, not the name again: a name server that gives another answer
//! the next time gains nothing.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::record::RefusedHost;
use super::rules::{Rules, Verdict};
use super::target::Target;
use crate::dial::{self, SystemResolver};

#[derive(Debug)]
pub(super) struct Gate {
    rules: Rules,
    /// Hosts whose addresses need not be public; `None`: all.
    private: Option<Rules>,
    time: Duration,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// For a model to read.
    pub(super) text: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The rules are against it; with what else is to be noted of it.
    Refused(Option<String>),
    NoSuchHost,
    NoAnswer(io::ErrorKind),
    TooLate,
}

impl Failure {
    /// The refusal as it is noted; `None` if the host failed for another reason.
    pub(super) fn note(&self, target: &Target) -> Option<RefusedHost> {
        match &self.kind {
            FailureKind::Refused(reason) => {
                Some(RefusedHost { target: target.to_string(), reason: reason.clone() })
            }
            _ => None,
        }
    }

    /// No more may be moved over the network, whoever it is to.
    pub(super) fn over_budget(target: &Target) -> Self {
        let why = "the session may move no more bytes over the network";
        Self {
            kind: FailureKind::Refused(Some(why.to_owned())),
            text: format!("{target} is not reached: {why}"),
        }
    }

    fn refused(text: String) -> Self {
        Self { kind: FailureKind::Refused(None), text }
    }
}

impl Gate {
    pub(super) fn new(rules: Rules, private: Option<Rules>, time: Duration) -> Self {
        Self { rules, private, time }
    }

    /// Connects to a host, if that is allowed.
    pub(super) async fn open(&self, target: &Target) -> Result<TcpStream, Failure> {
        self.judge(target)?;
        timeout(self.time, self.reach(target)).await.unwrap_or_else(|_| {
            let text = format!("{target} did not answer within {} s", self.time.as_secs());
            Err(Failure { kind: FailureKind::TooLate, text })
        })
    }

    fn judge(&self, target: &Target) -> Result<(), Failure> {
        let Target { host, port } = target;
        let list = self.rules.text();
        match self.rules.judge(target) {
            Verdict::Allowed => Ok(()),
            Verdict::NotListed => Err(Failure::refused(format!(
                "host {host} is not among those that this command may reach ({list})"
            ))),
            Verdict::OtherPort => Err(Failure::refused(format!(
                "port {port} of host {host} is not among those that this command may reach ({list}; a host without a port \
                 stands for its ports 80 and 443)"
            ))),
        }
    }

    async fn reach(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.keep_dialable(target, resolve(target).await?)?;
        dial::connect_to_first(addresses).await.map_err(|error| Failure {
            text: format!("cannot connect to {target}: {error}"),
            kind: FailureKind::NoAnswer(error.kind()),
        })
    }

    /// Those addresses that may be dialled.
    fn keep_dialable(
        &self,
        target: &Target,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let may_be_private =
            self.private.as_ref().is_none_or(|hosts| hosts.judge(target) == Verdict::Allowed);
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

/// The host as a rule names it: the ports of the web need not stand there.
fn rule(target: &Target) -> String {
    if matches!(target.port, 80 | 443) { target.host.to_string() } else { target.to_string() }
}

async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, Failure> {
    let found = dial::lookup(&SystemResolver, &target.host, target.port).await;
    found.map_err(|error| no_such_host(target, &error.to_string()))
}

fn no_such_host(target: &Target, why: &str) -> Failure {
    let text = format!("cannot find host {}: {why}", target.host);
    Failure { kind: FailureKind::NoSuchHost, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::MAX_ADDRESSES;

    fn gate(allow_private: bool) -> Gate {
        let rules = |host: &str| Rules::parse(&[host.to_owned()]).unwrap();
        let private = rules(if allow_private { "docs.rs" } else { "docs.rs:22" });
        Gate::new(rules("docs.rs"), Some(private), Duration::from_secs(30))
    }

    fn check(allow_private: bool, found: &[&str], expected: Result<&[&str], &str>) {
        let target = Target::parse("docs.rs:443", None).unwrap();
        let addresses = found.iter().map(|address| address.parse().unwrap()).collect();
        let admitted = gate(allow_private).keep_dialable(&target, addresses);
        let admitted = match &admitted {
            Ok(addresses) => Ok(addresses.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Err(failure) => {
                Err(failure.note(&target).map_or_else(|| failure.text.clone(), |it| it.to_string()))
            }
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
