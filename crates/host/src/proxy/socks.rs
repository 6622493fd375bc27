//! A client that speaks SOCKS5 (RFC 1928): without authentication, `CONNECT` only, to names and addresses.
//!
//! A name goes through the same reader as everywhere else, so that one with a zero byte in it is none.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::gate::{Failure, FailureKind};
use super::side::Side;
use super::target::{Host, Target};
use super::{Shared, tunnel};

/// The first byte of all that a client says.
pub(super) const VERSION: u8 = 5;

/// The first byte of the version before, which we do not speak.
pub(super) const OLD_VERSION: u8 = 4;

/// "Rejected", in the version before.
pub(super) const OLD_REFUSAL: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];

/// "No authentication", the only method that we have, and "none of yours".
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;

const CONNECT: u8 = 1;

/// What a request is answered with.
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
    /// With an address of ours that says nothing: where we connect from is not theirs to know.
    fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Serves a client, from its greeting on.
pub(super) async fn serve(shared: &Shared, mut client: Side, deadline: Instant) {
    let asked = timeout_at(deadline, ask(&mut client)).await;
    let target = match asked {
        Ok(Ok(target)) => target,
        Ok(Err(Unasked::Method)) => return client.end_with(&[VERSION, NO_METHOD]).await,
        Ok(Err(Unasked::Request(reply))) => return client.end_with(&reply.bytes()).await,
        Ok(Err(Unasked::Gone)) | Err(_) => return,
    };
    match shared.open(&target).await {
        Ok(origin) => {
            if client.writer.write_all(&Reply::Succeeded.bytes()).await.is_ok() {
                tunnel::run(client, origin, &shared.pulse()).await;
            }
        }
        Err(failure) => client.end_with(&reply_to(&failure).bytes()).await,
    }
}

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

/// Why a client asked for nobody.
#[derive(Debug, PartialEq, Eq)]
enum Unasked {
    /// It has no way to introduce itself that we know.
    Method,
    /// Its request is answered at once.
    Request(Reply),
    Gone,
}

impl From<io::Error> for Unasked {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Greets, and hears whom the client wants to reach.
async fn ask(client: &mut Side) -> Result<Target, Unasked> {
    read_greeting(&mut client.reader).await?;
    client.writer.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    read_request(&mut client.reader).await
}

async fn read_greeting(from: &mut (impl AsyncRead + Unpin)) -> Result<(), Unasked> {
    let [_version, count] = read(from).await?;
    let mut methods = vec![0; usize::from(count)];
    from.read_exact(&mut methods).await?;
    methods.contains(&NO_AUTHENTICATION).then_some(()).ok_or(Unasked::Method)
}

async fn read_request(from: &mut (impl AsyncRead + Unpin)) -> Result<Target, Unasked> {
    let [version, command, reserved, kind] = read(from).await?;
    if version != VERSION || reserved != 0 {
        return Err(Unasked::Request(Reply::GeneralFailure));
    }
    let host = match kind {
        1 => Some(Host::Address(Ipv4Addr::from(read::<4>(from).await?).into())),
        3 => read_name(from).await?,
        4 => Some(Host::Address(Ipv6Addr::from(read::<16>(from).await?).into())),
        _ => return Err(Unasked::Request(Reply::AddressTypeNotSupported)),
    };
    let port = u16::from_be_bytes(read(from).await?);
    if command != CONNECT {
        return Err(Unasked::Request(Reply::CommandNotSupported));
    }
    match host {
        Some(host) if port != 0 => Ok(Target { host, port }),
        _ => Err(Unasked::Request(Reply::GeneralFailure)),
    }
}

/// A name; `None` if it is none.
async fn read_name(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Host>> {
    let [length] = read(from).await?;
    let mut name = vec![0; usize::from(length)];
    from.read_exact(&mut name).await?;
    Ok(std::str::from_utf8(&name).ok().and_then(Host::parse))
}

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
            (&[5, 1, 2], Err(Unasked::Method)),
            (&[5, 0], Err(Unasked::Method)),
            (&[5, 2, 0], Err(Unasked::Gone)),
            (&[5], Err(Unasked::Gone)),
        ] {
            assert_eq!(read_greeting(&mut &greeting[..]).await, expected, "{greeting:?}");
        }
    }

    async fn check(request: &[u8], expected: Result<&str, Unasked>) {
        let read = read_request(&mut &request[..]).await.map(|target| target.to_string());
        assert_eq!(read, expected.map(str::to_owned), "{}", request.escape_ascii());
    }

    #[tokio::test]
    async fn requests() {
        let failed = |reply| Err(Unasked::Request(reply));
        check(b"\x05\x01\0\x01\x01\x02\x03\x04\0\x50", Ok("1.2.3.4:80")).await;
        check(b"\x05\x01\0\x03\x07DOCS.RS\x01\xbb", Ok("docs.rs:443")).await;
        check(b"\x05\x01\0\x03\x071.2.3.4\x01\xbb", Ok("1.2.3.4:443")).await;
        check(
            b"\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\x50",
            Ok("[2001:db8::1]:80"),
        )
        .await;
        // A name that is none, as some resolver would read it.
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
        check(b"\x05\x01\0\x01\x01\x02", Err(Unasked::Gone)).await;
        check(b"\x05\x01\0\x03\xffabc", Err(Unasked::Gone)).await;
    }
}
