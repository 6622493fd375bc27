//! The way to a host: its addresses, those of them that may be dialled, and the first that answers.
//!
//! The address that is judged is the one that is dialled, never the name again: a name server that gives another answer the next
//! time gains nothing.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::{BoxFuture, HostName, is_public_address, special_purpose};

/// The number of addresses of a host that are tried.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// The time that an address is waited for before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Finds the addresses of names.
///
/// ```
/// use std::{io, net::SocketAddr};
/// use windlass_core::BoxFuture;
/// use windlass_host::Resolver;
///
/// /// Knows one machine.
/// #[derive(Debug)]
/// struct Known(SocketAddr);
///
/// impl Resolver for Known {
///     fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
///         Box::pin(std::future::ready(Ok(vec![self.0])))
///     }
/// }
/// ```
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of a name, with this port.
    fn lookup<'a>(&'a self, name: &'a str, port: u16)
    -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// Asks as the machine is configured to.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup<'a>(
        &'a self,
        name: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(lookup_host((name, port)).await?.collect()) })
    }
}

/// The addresses of a host.
pub(crate) async fn lookup(
    resolver: &dyn Resolver,
    host: &HostName,
    port: u16,
) -> io::Result<Vec<SocketAddr>> {
    match host {
        HostName::Address(address) => Ok(vec![SocketAddr::new(*address, port)]),
        HostName::Name(name) => resolver.lookup(name, port).await,
    }
}

/// Leaves only addresses that may be dialled. The error says why none is left.
pub(crate) fn admit(addresses: &mut Vec<SocketAddr>, may_be_private: bool) -> Result<(), String> {
    let first = addresses.first().map(SocketAddr::ip);
    addresses.retain(|address| may_be_private || is_public_address(address.ip()));
    addresses.truncate(MAX_ADDRESSES);
    match first {
        Some(first) if addresses.is_empty() => {
            let purpose = special_purpose(first).unwrap_or("special");
            Err(format!("{first} is not a public address: {purpose}"))
        }
        _ => Ok(()),
    }
}

/// The first address that answers. Each gets a head start before the next, so that one that is never answered costs little.
pub(crate) async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => drop(attempts.spawn(TcpStream::connect(address))),
            None if attempts.is_empty() => return Err(failed),
            None => {}
        }
        let head_start = if waiting.len() == 0 { Duration::MAX } else { HEAD_START };
        match timeout(head_start, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failed = error,
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_is_followed_by_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        // Nobody listens on another loopback address at this port.
        let bad = SocketAddr::new("127.0.0.77".parse().unwrap(), good.port());
        assert_eq!(race(vec![bad, good]).await.unwrap().peer_addr().unwrap(), good);
        assert_eq!(race(vec![bad]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(race(vec![]).await.is_err());
    }
}
