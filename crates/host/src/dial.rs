//! Connects to a host: looks up its addresses, keeps those that may be dialled, and takes the first that answers.
//!
//! The address that is judged is the address that is dialled; the name is not looked up again. So a name server that gives another answer
//! the next time gains nothing.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::{BoxFuture, HostName, is_public_address, special_purpose};

/// Maximum addresses of a host that are tried.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// Time to wait for an address before the next one is tried in parallel.
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
    /// Returns the addresses of a name, each with this port.
    fn lookup<'a>(&'a self, name: &'a str, port: u16)
    -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// Error for a host of which no address is public.
#[derive(Debug)]
pub(crate) struct NotPublicAddress {
    address: IpAddr,
    /// Purpose for which the address is reserved, such as `loopback`.
    purpose: &'static str,
}

impl fmt::Display for NotPublicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a public address: {}", self.address, self.purpose)
    }
}

/// Looks up names as the machine is configured to.
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

/// Returns the addresses of a host; an address needs no lookup.
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

/// Removes addresses that may not be dialled, and those beyond [`MAX_ADDRESSES`]. Fails if no address is left because none is public.
pub(crate) fn keep_dialable(
    addresses: &mut Vec<SocketAddr>,
    may_be_private: bool,
) -> Result<(), NotPublicAddress> {
    let first = addresses.first().map(SocketAddr::ip);
    addresses.retain(|address| may_be_private || is_public_address(address.ip()));
    addresses.truncate(MAX_ADDRESSES);
    match first {
        Some(first) if addresses.is_empty() => {
            let purpose = special_purpose(first).unwrap_or("special");
            Err(NotPublicAddress { address: first, purpose })
        }
        _ => Ok(()),
    }
}

/// Connects to all addresses, each a little later than the one before, and returns the first connection. Fails with the last error.
pub(crate) async fn connect_to_first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
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
    async fn refused_address_is_followed_by_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        // No program listens on another loopback address at this port.
        let bad = SocketAddr::new("127.0.0.77".parse().unwrap(), good.port());
        assert_eq!(connect_to_first(vec![bad, good]).await.unwrap().peer_addr().unwrap(), good);
        assert_eq!(
            connect_to_first(vec![bad]).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(connect_to_first(vec![]).await.is_err());
    }
}
