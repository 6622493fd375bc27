//! Serves a client that speaks SOCKS5 (RFC 1928): without authentication, only `CONNECT`, to names and addresses.
//!
//! Names go through the same parser as everywhere else, so that a name with a zero byte is refused.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::gate::{Failure, FailureKind};
use super::side::ConnectionSide;
use super::target::{Host, Target};
use super::{Shared, tunnel};

/// First byte of every message of a client.
pub(super) const VERSION: u8 = 5;

/// First byte of SOCKS4, which is not supported.
pub(super) const SOCKS4_VERSION: u8 = 4;

/// Reply of SOCKS4 for a rejected request.
pub(super) const SOCKS4_REFUSAL: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];

/// Authentication methods: "no authentication", the only one supported, and "none of yours".
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

/// Command to connect to a host.
const CONNECT: u8 = 1;

/// Code of the reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// Returns the bytes of the reply, with a null address: the client need not know from where the proxy connects.
    fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Serves a client, beginning with its greeting.
pub(super) async fn serve(shared: &Shared, mut client: ConnectionSide, deadline: Instant) {
    let asked = timeout_at(deadline, read_target(&mut client)).await;
    let target = match asked {
        Ok(Ok(target)) => target,
        Ok(Err(RequestError::Method)) => return client.close_with(&[VERSION, NO_METHOD]).await,
        Ok(Err(RequestError::Request(reply))) => return client.close_with(&reply.bytes()).await,
        Ok(Err(RequestError::Closed)) | Err(_) => return,
    };
    match shared.open(&target).await {
        Ok(origin) => {
            if client.writer.write_all(&Reply::Succeeded.bytes()).await.is_ok() {
                tunnel::run(client, origin, &shared.monitor()).await;
            }
        }
        Err(failure) => client.close_with(&reply_to(&failure).bytes()).await,
    }
}

/// Returns the reply for a failure.
fn reply_to(failure: &Failure) -> Reply {
    match failure.kind {
        FailureKind::Refused(_) => Reply::NotAllowed,
        FailureKind::NoAnswer(io::ErrorKind::ConnectionRefused) => Reply::ConnectionRefused,
        FailureKind::NoAnswer(io::ErrorKind::NetworkUnreachable) => Reply::NetworkUnreachable,
        FailureKind::NoSuchHost | FailureKind::NoAnswer(_) | FailureKind::TooLate => {
            Reply::HostUnreachable
        }
    }
}

/// Reason why a client sent no usable request.
#[derive(Debug, PartialEq, Eq)]
enum RequestError {
    /// It offers no authentication method that the proxy supports.
    Method,
    /// Its request is answered with this reply.
    Request(Reply),
    /// The connection ended.
    Closed,
}

impl From<io::Error> for RequestError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// Exchanges greetings, and reads the target that the client asks for.
async fn read_target(client: &mut ConnectionSide) -> Result<Target, RequestError> {
    read_greeting(&mut client.reader).await?;
    client.writer.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    read_request(&mut client.reader).await
}

/// Reads a greeting; fails without a supported authentication method.
async fn read_greeting(from: &mut (impl AsyncRead + Unpin)) -> Result<(), RequestError> {
    let [_version, count] = read(from).await?;
    let mut methods = vec![0; usize::from(count)];
    from.read_exact(&mut methods).await?;
    methods.contains(&NO_AUTHENTICATION).then_some(()).ok_or(RequestError::Method)
}

/// Reads a request.
async fn read_request(from: &mut (impl AsyncRead + Unpin)) -> Result<Target, RequestError> {
    let [version, command, reserved, kind] = read(from).await?;
    if version != VERSION || reserved != 0 {
        return Err(RequestError::Request(Reply::GeneralFailure));
    }
    let host = match kind {
        1 => Some(Host::Address(Ipv4Addr::from(read::<4>(from).await?).into())),
        3 => read_name(from).await?,
        4 => Some(Host::Address(Ipv6Addr::from(read::<16>(from).await?).into())),
        _ => return Err(RequestError::Request(Reply::AddressTypeNotSupported)),
    };
    let port = u16::from_be_bytes(read(from).await?);
    if command != CONNECT {
        return Err(RequestError::Request(Reply::CommandNotSupported));
    }
    match host {
        Some(host) if port != 0 => Ok(Target { host, port }),
        _ => Err(RequestError::Request(Reply::GeneralFailure)),
    }
}

/// Reads a name; `None` if it is not a valid host name.
async fn read_name(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Host>> {
    let [length] = read(from).await?;
    let mut name = vec![0; usize::from(length)];
    from.read_exact(&mut name).await?;
    Ok(std::str::from_utf8(&name).ok().and_then(Host::parse))
}

/// Reads `N` bytes.
async fn read<const N: usize>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn greetings() {
        for (greeting, expected) in [
            (&[5, 1, 0][..], Ok(())),
            (&[5, 3, 1, 2, 0], Ok(())),
            (&[5, 1, 2], Err(RequestError::Method)),
            (&[5, 0], Err(RequestError::Method)),
            (&[5, 2, 0], Err(RequestError::Closed)),
            (&[5], Err(RequestError::Closed)),
        ] {
            assert_eq!(read_greeting(&mut &greeting[..]).await, expected, "{greeting:?}");
        }
    }

    async fn check(request: &[u8], expected: Result<&str, RequestError>) {
        let read = read_request(&mut &request[..]).await.map(|target| target.to_string());
        assert_eq!(read, expected.map(str::to_owned), "{}", request.escape_ascii());
    }

    #[tokio::test]
    async fn requests() {
        let failed = |reply| Err(RequestError::Request(reply));
        check(b"\x05\x01\0\x01\x01\x02\x03\x04\0\x50", Ok("1.2.3.4:80")).await;
        check(b"\x05\x01\0\x03\x07DOCS.RS\x01\xbb", Ok("docs.rs:443")).await;
        check(b"\x05\x01\0\x03\x071.2.3.4\x01\xbb", Ok("1.2.3.4:443")).await;
        check(
            b"\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\x50",
            Ok("[2001:db8::1]:80"),
        )
        .await;
        // Invalid names, some of which a resolver would accept.
        for name in [&b"docs\0.rs"[..], b"", b"127.1", b"a b", b"\xff\xfe", b"docs.rs\0", b"*.rs"] {
            let length = [u8::try_from(name.len()).unwrap()];
            let request = [b"\x05\x01\0\x03", &length[..], name, b"\0\x50"].concat();
            check(&request, failed(Reply::GeneralFailure)).await;
        }
        check(b"\x05\x01\0\x03\x07docs.rs\0\0", failed(Reply::GeneralFailure)).await;
        check(b"\x05\x01\x01\x01\x01\x02\x03\x04\0\x50", failed(Reply::GeneralFailure)).await;
        check(b"\x04\x01\0\x01\x01\x02\x03\x04\0\x50", failed(Reply::GeneralFailure)).await;
        // Bind and UDP.
        check(b"\x05\x02\0\x01\x01\x02\x03\x04\0\x50", failed(Reply::CommandNotSupported)).await;
        check(b"\x05\x03\0\x01\x01\x02\x03\x04\0\x50", failed(Reply::CommandNotSupported)).await;
        check(b"\x05\x01\0\x02\x01\x02\x03\x04\0\x50", failed(Reply::AddressTypeNotSupported))
            .await;
        check(b"\x05\x01\0\x01\x01\x02", Err(RequestError::Closed)).await;
        check(b"\x05\x01\0\x03\xffabc", Err(RequestError::Closed)).await;
    }
}
