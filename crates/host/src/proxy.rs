//! The proxy of `--net HOST,HOST…`: the only way out of a network namespace that has no other.
//!
//! A confined program sees a port of its own loopback interface. A client that connects there reaches this proxy, outside of the namespace,
//! and may ask for a host in three ways: by an HTTP request with an absolute URL, by `CONNECT`, or by SOCKS5. The proxy looks up the name,
//! so that no lookup leaves the namespace, and connects only to listed hosts with public addresses, judged by the address that is dialled.
//! The bytes that pass afterwards are not inspected: TLS is not intercepted, and the proxy does not know which server answers behind a
//! listed name (a content network serves thousands).
//!
//! The variables of [`Proxy::environment`] are a convenience, not the confinement. A program that ignores them reaches no host.

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
use windlass_core::TrafficMeter;

use self::gate::{Failure, Gate};
use self::record::{Record, TrafficMonitor};
pub use self::record::{RefusedHost, Traffic};
use self::rules::HostRules;
use self::side::ConnectionSide;
use self::target::Target;

/// Wait before the next attempt if the kernel cannot accept a connection, for want of descriptors or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Maximum time of a setting, because a deadline must be a representable point in time.
const MAX_TIME: Duration = Duration::from_hours(24 * 365);

/// A running proxy. When it is dropped, it ends, with all connections through it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

/// Limits and permissions of a proxy.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// Listed hosts may have addresses that are not public.
    pub allow_private: bool,
    /// Listed hosts that may have such addresses even if `allow_private` is false.
    pub private_hosts: Vec<String>,
    /// Maximum connections at once; further ones wait until one ends.
    pub max_connections: usize,
    /// Maximum time until a client has sent its request.
    pub head_time: Duration,
    /// Maximum time until a host is found and answers.
    pub connect_time: Duration,
    /// Maximum time without a byte in either direction before a connection is closed.
    pub idle_time: Duration,
    /// Counts the bytes, and ends connections once the budget is spent.
    pub meter: Option<Arc<dyn TrafficMeter>>,
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
    /// Limits all times.
    fn with_bounded_times(self) -> Self {
        Self {
            head_time: self.head_time.min(MAX_TIME),
            connect_time: self.connect_time.min(MAX_TIME),
            idle_time: self.idle_time.min(MAX_TIME),
            ..self
        }
    }
}

/// Error when a proxy is started.
#[derive(Debug)]
pub enum ProxyError {
    /// A text in the list is not a host.
    Rule {
        /// The text as a person wrote it.
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
    /// Serves clients that connect to a listener. Must be called inside a runtime with network and time enabled.
    pub fn serve(
        listener: std::net::TcpListener,
        hosts: &[String],
        settings: ProxySettings,
    ) -> Result<Self, ProxyError> {
        let rules = HostRules::parse(hosts)?;
        let runtime = Handle::try_current().map_err(io::Error::other);
        let runtime = runtime.map_err(ProxyError::Listener)?;
        listener.set_nonblocking(true).map_err(ProxyError::Listener)?;
        let listener = TcpListener::from_std(listener).map_err(ProxyError::Listener)?;
        let settings = settings.with_bounded_times();
        let private = (!settings.allow_private)
            .then(|| HostRules::parse(&settings.private_hosts))
            .transpose()?;
        let gate = Gate::new(rules, private, settings.connect_time);
        let shared =
            Arc::new(Shared { gate, record: Record::new(settings.meter.clone()), settings });
        let accepting = runtime.spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, accepting })
    }

    /// Fails if a text in the list is not a host. For callers that check settings before a proxy starts.
    pub fn check(hosts: &[String]) -> Result<(), ProxyError> {
        HostRules::parse(hosts).map(drop)
    }

    /// Returns the environment variables by which programs find a proxy at this port of their loopback interface. Names of that
    /// interface go around the proxy, except those among `hosts`, which the program may reach on the machine's.
    pub fn environment(port: u16, hosts: &[String]) -> Vec<(String, String)> {
        environment::variables(port, hosts)
    }

    /// Returns the hosts that the program tried to reach and must not: each once, in the order of the first attempts, up to a limit.
    pub fn refused(&self) -> Vec<RefusedHost> {
        self.shared.record.refused().0
    }

    /// Returns whether more hosts were refused than [`Proxy::refused`] lists.
    pub fn has_refused_more(&self) -> bool {
        self.shared.record.refused().1
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.record.traffic()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// State that all connections share.
#[derive(Debug)]
struct Shared {
    gate: Gate,
    settings: ProxySettings,
    record: Record,
}

impl Shared {
    /// Connects to a host, if that is allowed. Records a refusal.
    async fn open(&self, target: &Target) -> Result<ConnectionSide, Failure> {
        let opened = if self.record.count_against_budget(0) {
            self.gate.open(target).await
        } else {
            Err(Failure::over_budget(target))
        };
        match opened {
            Ok(stream) => {
                self.record.connected();
                Ok(ConnectionSide::new(stream))
            }
            Err(failure) => {
                if let Some(refusal) = failure.refusal(target) {
                    self.record.refuse(refusal);
                }
                Err(failure)
            }
        }
    }

    /// Creates the monitor of one connection.
    fn monitor(&self) -> TrafficMonitor<'_> {
        TrafficMonitor::new(&self.record, self.settings.idle_time)
    }
}

/// Accepts connections forever. The set owns them, so that they end when this future is dropped.
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
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Serves one connection. Its first byte shows which protocol the client speaks.
async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut client = ConnectionSide::new(stream);
    let deadline = Instant::now() + shared.settings.head_time;
    let first = timeout_at(deadline, client.first_byte()).await;
    match first.ok().flatten() {
        None => {}
        Some(socks::VERSION) => socks::serve(&shared, client, deadline).await,
        Some(socks::SOCKS4_VERSION) => client.close_with(&socks::SOCKS4_REFUSAL).await,
        Some(first) if first.is_ascii_alphabetic() => http::serve(&shared, client, deadline).await,
        Some(_) => client.close_with(&http::unknown_protocol_response()).await,
    }
}
