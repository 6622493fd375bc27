//! The proxy of `--net HOST,HOST…`: the one way out of a network namespace that has no other.
//!
//! A confined program sees a port of its own loopback. Whoever connects there reaches us, outside, and may ask for a host in any of
//! three ways: by an HTTP request with an absolute address, by `CONNECT`, by SOCKS5. We look the name up, so no lookup of theirs
//! leaves the namespace, and connect only to hosts that are listed and to addresses that are public, judged by the address that
//! is dialled. What then passes is not looked at: there is no interception of TLS, and who answers behind a listed name (a
//! content network serves thousands) is not known here.
//!
//! The variables of [`Proxy::environment`] are a courtesy, not the confinement. A program that ignores them reaches nobody.

mod body;
mod environment;
mod forward;
mod gate;
mod http;
mod lines;
mod record;
mod request;
mod rules;
mod side;
mod socks;
mod target;
#[cfg(test)]
mod tests;
mod tunnel;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use windlass_core::Meter;

use self::gate::{Failure, Gate};
use self::record::{Pulse, Record};
pub use self::record::{RefusedHost, Traffic};
use self::rules::Rules;
use self::side::Side;
use self::target::Target;

/// How long to wait when the kernel has no connection to give, for want of descriptors or memory.
const RECOVERY: Duration = Duration::from_millis(50);

/// What a longer time is shortened to: a point in time must exist to be waited for.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// A proxy at work. Dropped, it ends, and all connections through it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

/// How far a proxy goes.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// Listed hosts may have addresses that are not public.
    pub allow_private: bool,
    /// Those of the listed hosts that may have such addresses anyway.
    pub private_hosts: Vec<String>,
    /// How many connections there are at once; others wait until one ends.
    pub max_connections: usize,
    /// Within which time a client must have said what it wants.
    pub head_time: Duration,
    /// Within which time a host must be found and answer.
    pub connect_time: Duration,
    /// After which time without a byte in either direction a connection is closed.
    pub idle_time: Duration,
    /// Who counts the bytes, and says when it is enough.
    pub meter: Option<Arc<dyn Meter>>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            allow_private: false,
            private_hosts: Vec::new(),
            max_connections: 128,
            head_time: Duration::from_secs(30),
            connect_time: Duration::from_secs(30),
            idle_time: Duration::from_mins(5),
            meter: None,
        }
    }
}

impl ProxySettings {
    fn bounded(self) -> Self {
        Self {
            head_time: self.head_time.min(LONGEST),
            connect_time: self.connect_time.min(LONGEST),
            idle_time: self.idle_time.min(LONGEST),
            ..self
        }
    }
}

/// Why a proxy was not started.
#[derive(Debug)]
pub enum ProxyError {
    /// This is not a host.
    Rule {
        /// As a person wrote it.
        rule: String,
    },
    /// The listener cannot be used.
    Listener(io::Error),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule } => write!(
                f,
                "`{rule}` is not a host for --net: write a name (`docs.rs`; in its `xn--` form if it has other letters), all names \
                 below one (`*.python.org`) or an address, and `:PORT` after it if that is not 80 or 443"
            ),
            Self::Listener(_) => {
                f.write_str("cannot listen for the connections of a confined program")
            }
        }
    }
}

impl std::error::Error for ProxyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rule { .. } => None,
            Self::Listener(error) => Some(error),
        }
    }
}

impl Proxy {
    /// Serves whoever connects to a listener. To be called inside a runtime that has its network and its clock.
    pub fn serve(
        listener: std::net::TcpListener,
        hosts: &[String],
        settings: ProxySettings,
    ) -> Result<Self, ProxyError> {
        let rules = Rules::parse(hosts)?;
        let runtime = Handle::try_current().map_err(io::Error::other);
        let runtime = runtime.map_err(ProxyError::Listener)?;
        listener.set_nonblocking(true).map_err(ProxyError::Listener)?;
        let listener = TcpListener::from_std(listener).map_err(ProxyError::Listener)?;
        let settings = settings.bounded();
        let private =
            (!settings.allow_private).then(|| Rules::parse(&settings.private_hosts)).transpose()?;
        let gate = Gate::new(rules, private, settings.connect_time);
        let shared =
            Arc::new(Shared { gate, record: Record::new(settings.meter.clone()), settings });
        let accepting = runtime.spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, accepting })
    }

    /// Whether these are hosts, for whoever has to say so before there is anything to serve.
    pub fn check(hosts: &[String]) -> Result<(), ProxyError> {
        Rules::parse(hosts).map(drop)
    }

    /// What a program must be told to find a proxy at this port of its loopback.
    pub fn environment(port: u16) -> Vec<(String, String)> {
        environment::variables(port)
    }

    /// Whom the program wanted to reach and must not: each once, in the order of the first attempts, and not without end.
    pub fn refused(&self) -> Vec<RefusedHost> {
        self.shared.record.refused().0
    }

    /// Whether more were refused than [`Proxy::refused`] lists.
    pub fn has_refused_more(&self) -> bool {
        self.shared.record.refused().1
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.record.traffic()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What all connections have in common.
#[derive(Debug)]
struct Shared {
    gate: Gate,
    settings: ProxySettings,
    record: Record,
}

impl Shared {
    /// Connects to a host, if that is allowed. What is not allowed is noted.
    async fn open(&self, target: &Target) -> Result<Side, Failure> {
        let opened = if self.record.may_pass_on(0) {
            self.gate.open(target).await
        } else {
            Err(Failure::over_budget(target))
        };
        match opened {
            Ok(stream) => {
                self.record.connected();
                Ok(Side::new(stream))
            }
            Err(failure) => {
                if let Some(note) = failure.note(target) {
                    self.record.refuse(note);
                }
                Err(failure)
            }
        }
    }

    fn pulse(&self) -> Pulse<'_> {
        Pulse::new(&self.record, self.settings.idle_time)
    }
}

/// Takes connections for as long as it is let. The set owns them: when this future is dropped, they are too.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let limit = shared.settings.max_connections.max(1);
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        if open.len() >= limit {
            open.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => drop(open.spawn(serve(Arc::clone(&shared), stream))),
            Err(_) => sleep(RECOVERY).await,
        }
    }
}

/// Serves one connection: its first byte tells which language the client speaks.
async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut client = Side::new(stream);
    let deadline = Instant::now() + shared.settings.head_time;
    let first = timeout_at(deadline, client.first_byte()).await;
    match first.ok().flatten() {
        None => {}
        Some(socks::VERSION) => socks::serve(&shared, client, deadline).await,
        Some(socks::OLD_VERSION) => client.end_with(&socks::OLD_REFUSAL).await,
        Some(first) if first.is_ascii_alphabetic() => http::serve(&shared, client, deadline).await,
        Some(_) => client.end_with(&http::not_understood()).await,
    }
}
