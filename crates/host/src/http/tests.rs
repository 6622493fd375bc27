//! Real servers on the loopback, most of them hostile.

mod door;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use windlass_core::{
    BoxFuture, HttpLimits, HttpRequest, Meter, Network as _, NetworkTerms, ToolError,
};

use super::{HttpSettings, LocalNetwork};
use crate::dial::Resolver;

/// What a server does after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Closes the connection.
    Close,
    /// Waits until the client is gone.
    Hold,
    /// Says the same again and again.
    Repeat,
}

/// A server that answers every request with these bytes; what it was asked comes through the channel.
struct Server {
    address: SocketAddr,
    asked: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        Self::start_with(answer.into(), Vec::new(), then).await
    }

    /// The same with an end that may be repeated.
    async fn start_with(answer: Vec<u8>, end: Vec<u8>, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, end, sender) = (answer.clone(), end.clone(), sender.clone());
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    sender.send(String::from_utf8_lossy(&request).into_owned()).ok();
                    let mut is_gone = stream.write_all(&answer).await.is_err();
                    is_gone |= stream.write_all(&end).await.is_err();
                    while then == Then::Repeat && !is_gone {
                        is_gone = stream.write_all(&end).await.is_err();
                    }
                    if then == Then::Hold {
                        // The client says nothing more, so this ends when it goes.
                        stream.read_buf(&mut request).await.ok();
                    }
                });
            }
        });
        Self { address, asked }
    }

    fn request(&self) -> HttpRequest {
        HttpRequest::get(format!("http://{}/a?b", self.address).parse().unwrap())
            .with_limits(LIMITS)
    }
}

const LIMITS: HttpLimits = HttpLimits {
    connect_time: Duration::from_secs(20),
    idle_time: Duration::from_secs(20),
    total_time: Duration::from_secs(20),
    header_bytes: 4 << 10,
    wire_bytes: 64 << 10,
    body_bytes: 128 << 10,
};

/// Counts, up to a limit.
#[derive(Debug)]
struct Counter {
    bytes: AtomicU64,
    most: u64,
}

impl Meter for Counter {
    fn pass(&self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most
    }
}

fn terms(may_reach_private: bool) -> NetworkTerms {
    let meter = Arc::new(Counter { bytes: AtomicU64::new(0), most: u64::MAX });
    NetworkTerms { may_reach_private, meter }
}

async fn get(request: HttpRequest) -> Result<(u16, Vec<u8>), ToolError> {
    let network = LocalNetwork::new(HttpSettings::default());
    let mut response = network.send(request, terms(true)).await?;
    let (body, _) = response.collect(usize::MAX).await?;
    Ok((response.status, body))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// An answer of which the body is packed like this.
fn packed(coding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn bodies_end_where_they_say() {
    let ok = "HTTP/1.1 200 OK\r\n";
    for (answer, then, expected) in [
        (format!("{ok}\r\nto the end"), Then::Close, Ok("to the end")),
        (format!("{ok}Content-Length: 3\r\n\r\nabcdef"), Then::Hold, Ok("abc")),
        (format!("{ok}Content-Length: 0\r\n\r\n"), Then::Hold, Ok("")),
        (
            format!(
                "{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n"
            ),
            Then::Hold,
            Ok("abcde"),
        ),
        (
            format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{ok}Content-Length: 1\r\n\r\na"),
            Then::Hold,
            Ok("a"),
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), Then::Hold, Ok("")),
        (format!("{ok}Content-Length: 9\r\n\r\nabc"), Then::Close, Err("cut after 3 of 9 bytes")),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n9\r\nabc"),
            Then::Close,
            Err("cut in the middle of the body"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"),
            Then::Hold,
            Err("longer than it says"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            Then::Hold,
            Err("a chunk has no size"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc"),
            Then::Close,
            Err("cut in the middle of the body"),
        ),
        (
            format!("{ok}Content-Length: 99999999999999\r\n\r\nshort"),
            Then::Close,
            Err("cut after 5 of 99999999999999 bytes"),
        ),
        (format!("{ok}Content-Length: -1\r\n\r\nx"), Then::Hold, Err("not a number")),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n".into(), Then::Hold, Err("another protocol")),
        ("SSH-2.0-OpenSSH\r\n".into(), Then::Hold, Err("does not answer in HTTP/1.1")),
        (format!("{ok}X"), Then::Close, Err("cut in the middle of a line")),
        (String::new(), Then::Close, Err("cut in the middle of a line")),
    ] {
        let server = Server::start(answer.clone(), then).await;
        match (get(server.request()).await, expected) {
            (Ok((_, body)), Ok(expected)) => assert_eq!(body, expected.as_bytes(), "{answer}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{answer}: {error}");
            }
            (found, _) => panic!("{answer}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn packed_bodies_are_unpacked_and_checked() {
    let text = b"hello".repeat(4_000);
    let brotli = b"\x0b\x02\x80hello\x03".to_vec();
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 3);
        bytes
    };
    for (coding, body, expected) in [
        ("gzip", gzip(&text), Ok(&text[..])),
        ("GZIP", [gzip(&text), gzip(b"!")].concat(), Ok(&[&text[..], b"!"].concat())),
        ("zstd", zstd(&text), Ok(&text)),
        ("br", brotli.clone(), Ok(b"hello")),
        ("identity", b"plain".to_vec(), Ok(b"plain")),
        ("gzip", cut(gzip(&text)), Err("ends too early")),
        ("zstd", cut(zstd(&text)), Err("ends too early")),
        ("br", cut(brotli), Err("ends too early")),
        ("gzip", b"not gzip at all".to_vec(), Err("cannot be unpacked")),
        ("zstd", b"not zstd at all".to_vec(), Err("cannot be unpacked")),
        ("gzip, gzip", gzip(&gzip(&text)), Err("packed more than once")),
        ("compress", b"x".to_vec(), Err("not known")),
    ] {
        let server = Server::start(packed(coding, &body), Then::Hold).await;
        match (get(server.request()).await, expected) {
            (Ok((_, body)), Ok(expected)) => assert_eq!(body, expected, "{coding}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{coding}: {error}");
            }
            (found, _) => panic!("{coding}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn what_has_no_end_is_cut_by_its_limit() {
    for (head, end, why) in [
        ("", &b"X-A: b\r\n"[..], "more bytes than it may have"),
        ("X-A: ", b"bbbbbbbbbbbb", "more bytes than it may have"),
        ("\r\n", &[b'A'; 4096], "more than 65536 bytes"),
        ("Transfer-Encoding: chunked\r\n\r\n", b"1\r\nB\r\n", "more than 65536 bytes"),
        ("Transfer-Encoding: chunked\r\n\r\n1;", b"extension", "more bytes than it may have"),
        ("Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n", "more bytes than it may have"),
        ("\r\n", b"", "more bytes than it may have"),
    ] {
        let status = if end.is_empty() { "100 Continue" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\n{head}").into_bytes();
        let end = if end.is_empty() { answer.clone() } else { end.to_vec() };
        let server = Server::start_with(answer, end, Then::Repeat).await;
        let error = get(server.request()).await.expect_err(why).to_string();
        assert!(error.contains(why), "{head}: {error}");
    }
}

#[tokio::test]
async fn a_small_body_that_becomes_a_large_one_is_cut() {
    let zeros = vec![0; 64 << 20];
    for (coding, body) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros))] {
        let server = Server::start(packed(coding, &body), Then::Hold).await;
        let error = get(server.request()).await.expect_err(coding).to_string();
        assert!(error.contains("longer than it may be"), "{coding}: {error}");
    }
}

#[tokio::test]
async fn whoever_says_nothing_is_not_waited_for() {
    let short = Duration::from_millis(50);
    for (answer, limits, why) in [
        ("", HttpLimits { idle_time: short, ..LIMITS }, "nothing came for 0.05 s"),
        ("", HttpLimits { total_time: short, ..LIMITS }, "was not there within 0.05 s"),
        ("HTTP/1.1 200 OK\r\nX", HttpLimits { idle_time: short, ..LIMITS }, "nothing came"),
        (
            "HTTP/1.1 200 OK\r\n\r\nx",
            HttpLimits { total_time: short, ..LIMITS },
            "was not there within",
        ),
    ] {
        let server = Server::start(answer, Then::Hold).await;
        let error = get(server.request().with_limits(limits)).await.expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_request_says_what_it_was_told_and_who_asks() {
    let mut server = Server::start("HTTP/1.1 302 Found\r\nLocation: /c\r\n\r\n", Then::Close).await;
    let request = server.request().with_header("X-Own", "1");
    let network = LocalNetwork::new(HttpSettings::default());
    let response = network.send(request.clone(), terms(true)).await.unwrap();
    assert_eq!((response.status, response.header("Location")), (302, Some("/c")), "not followed");
    let next = response.redirect(&request).unwrap().unwrap();
    assert_eq!(next.url.to_string(), format!("http://{}/c", server.address));
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /a?b HTTP/1.1\r\nHost: {}\r\nUser-Agent: windlass/{version}\r\nAccept-Encoding: gzip, br, zstd\r\n\
         Connection: close\r\nAccept: */*\r\nX-Own: 1\r\n\r\n",
        server.address
    );
    assert_eq!(server.asked.recv().await.as_deref(), Some(expected.as_str()));
}

/// Answers every name with these addresses.
#[derive(Debug)]
struct Says(Vec<SocketAddr>);

impl Resolver for Says {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[tokio::test]
async fn only_the_address_that_is_dialled_counts() {
    let mut server = Server::start("HTTP/1.1 200 OK\r\n\r\nsecret", Then::Close).await;
    let port = server.address.port();
    let resolver = Arc::new(Says(vec![server.address]));
    let network = LocalNetwork::new(HttpSettings { resolver });
    for host in ["public.example", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let url = format!("http://{host}:{port}/").parse().unwrap();
        let error = network.send(HttpRequest::get(url), terms(false)).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("is not a public address"), "{host}: {error}");
        assert!(error.ends_with(&format!("`net {host}:{port}`")), "{host}: {error}");
    }
    assert!(server.asked.try_recv().is_err(), "nobody was asked");
    let url = format!("http://public.example:{port}/").parse().unwrap();
    let mut response = network.send(HttpRequest::get(url), terms(true)).await.unwrap();
    assert_eq!(response.collect(100).await.unwrap().0, b"secret");
    let nobody = LocalNetwork::new(HttpSettings { resolver: Arc::new(Says(Vec::new())) });
    let url = "http://nobody.example/".parse().unwrap();
    let error = nobody.send(HttpRequest::get(url), terms(true)).await.unwrap_err();
    assert!(error.to_string().contains("has no address"), "{error}");
}

#[tokio::test]
async fn every_byte_counts_and_the_meter_ends_it() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let mut server = Server::start(answer, Then::Hold).await;
    let network = LocalNetwork::new(HttpSettings::default());
    let meter = Arc::new(Counter { bytes: AtomicU64::new(0), most: u64::MAX });
    let terms = NetworkTerms { may_reach_private: true, meter: meter.clone() };
    let mut response = network.send(server.request(), terms).await.unwrap();
    response.collect(100).await.unwrap();
    let asked = server.asked.recv().await.unwrap();
    assert_eq!(meter.bytes.load(Ordering::Relaxed), (asked.len() + answer.len()) as u64);

    let meter = Arc::new(Counter { bytes: AtomicU64::new(0), most: asked.len() as u64 + 1 });
    let terms = NetworkTerms { may_reach_private: true, meter };
    let error = network.send(server.request(), terms).await.unwrap_err();
    assert_eq!(error.code(), "busy", "{error}");
}

#[tokio::test]
async fn https_is_refused_before_anybody_is_asked() {
    let mut server = Server::start("HTTP/1.1 200 OK\r\n\r\n", Then::Close).await;
    let url = format!("https://{}/", server.address).parse().unwrap();
    let error = get(HttpRequest::get(url)).await.unwrap_err().to_string();
    assert!(error.contains("https is not spoken yet"), "{error}");
    assert!(server.asked.try_recv().is_err());
}
