//! HTTP against real servers on the loopback, most of them hostile.

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
    BoxFuture, HttpLimits, HttpRequest, Network as _, NetworkTerms, ToolError, TrafficMeter,
};

use super::{HttpSettings, LocalNetwork};
use crate::dial::Resolver;

/// Behaviour of a server after its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterResponse {
    /// Closes the connection.
    Close,
    /// Waits until the client is gone.
    Hold,
    /// Sends the end of the response again and again.
    Repeat,
}

/// A server that sends these bytes for every request. It reports the requests through the channel.
struct Server {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>, then: AfterResponse) -> Self {
        Self::start_with(answer.into(), Vec::new(), then).await
    }

    /// Starts a server whose response has an end that may be repeated.
    async fn start_with(answer: Vec<u8>, end: Vec<u8>, then: AfterResponse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
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
                    while then == AfterResponse::Repeat && !is_gone {
                        is_gone = stream.write_all(&end).await.is_err();
                    }
                    if then == AfterResponse::Hold {
                        // The client says nothing more, so this ends when it goes.
                        stream.read_buf(&mut request).await.ok();
                    }
                });
            }
        });
        Self { address, requests }
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

/// A meter that allows a number of bytes.
#[derive(Debug)]
struct Counter {
    bytes: AtomicU64,
    max_bytes: u64,
}

impl TrafficMeter for Counter {
    fn pass(&self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.max_bytes
    }
}

fn terms(may_reach_private: bool) -> NetworkTerms {
    let meter = Arc::new(Counter { bytes: AtomicU64::new(0), max_bytes: u64::MAX });
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

/// Returns a response with a compressed body.
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
        (format!("{ok}\r\nto the end"), AfterResponse::Close, Ok("to the end")),
        (format!("{ok}Content-Length: 3\r\n\r\nabcdef"), AfterResponse::Hold, Ok("abc")),
        (format!("{ok}Content-Length: 0\r\n\r\n"), AfterResponse::Hold, Ok("")),
        (
            format!(
                "{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n"
            ),
            AfterResponse::Hold,
            Ok("abcde"),
        ),
        (
            format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{ok}Content-Length: 1\r\n\r\na"),
            AfterResponse::Hold,
            Ok("a"),
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), AfterResponse::Hold, Ok("")),
        (
            format!("{ok}Content-Length: 9\r\n\r\nabc"),
            AfterResponse::Close,
            Err("cut after 3 of 9 bytes"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n9\r\nabc"),
            AfterResponse::Close,
            Err("cut in the middle of the body"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"),
            AfterResponse::Hold,
            Err("longer than it says"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            AfterResponse::Hold,
            Err("a chunk has no size"),
        ),
        (
            format!("{ok}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc"),
            AfterResponse::Close,
            Err("cut in the middle of the body"),
        ),
        (
            format!("{ok}Content-Length: 99999999999999\r\n\r\nshort"),
            AfterResponse::Close,
            Err("cut after 5 of 99999999999999 bytes"),
        ),
        (format!("{ok}Content-Length: -1\r\n\r\nx"), AfterResponse::Hold, Err("not a number")),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n".into(),
            AfterResponse::Hold,
            Err("another protocol"),
        ),
        ("SSH-2.0-OpenSSH\r\n".into(), AfterResponse::Hold, Err("does not answer in HTTP/1.1")),
        (format!("{ok}X"), AfterResponse::Close, Err("cut in the middle of a line")),
        (String::new(), AfterResponse::Close, Err("cut in the middle of a line")),
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
        let server = Server::start(packed(coding, &body), AfterResponse::Hold).await;
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
async fn endless_response_is_cut_by_its_limit() {
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
        let server = Server::start_with(answer, end, AfterResponse::Repeat).await;
        let error = get(server.request()).await.expect_err(why).to_string();
        assert!(error.contains(why), "{head}: {error}");
    }
}

#[tokio::test]
async fn small_body_that_decompresses_to_a_large_one_is_cut() {
    let zeros = vec![0; 64 << 20];
    for (coding, body) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros))] {
        let server = Server::start(packed(coding, &body), AfterResponse::Hold).await;
        let error = get(server.request()).await.expect_err(coding).to_string();
        assert!(error.contains("longer than it may be"), "{coding}: {error}");
    }
}

#[tokio::test]
async fn silent_server_ends_in_a_timeout() {
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
        let server = Server::start(answer, AfterResponse::Hold).await;
        let error = get(server.request().with_limits(limits)).await.expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn request_has_the_given_headers_and_the_user_agent() {
    let mut server =
        Server::start("HTTP/1.1 302 Found\r\nLocation: /c\r\n\r\n", AfterResponse::Close).await;
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
    assert_eq!(server.requests.recv().await.as_deref(), Some(expected.as_str()));
}

/// A resolver that returns these addresses for every name.
#[derive(Debug)]
struct FixedAddresses(Vec<SocketAddr>);

impl Resolver for FixedAddresses {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

#[tokio::test]
async fn private_address_is_refused_for_any_name() {
    let mut server = Server::start("HTTP/1.1 200 OK\r\n\r\nsecret", AfterResponse::Close).await;
    let port = server.address.port();
    let resolver = Arc::new(FixedAddresses(vec![server.address]));
    let network = LocalNetwork::new(HttpSettings { resolver });
    for host in ["public.example", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let url = format!("http://{host}:{port}/").parse().unwrap();
        let error = network.send(HttpRequest::get(url), terms(false)).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("is not a public address"), "{host}: {error}");
        assert!(error.ends_with(&format!("`net {host}:{port}`")), "{host}: {error}");
    }
    assert!(server.requests.try_recv().is_err(), "no server was asked");
    let url = format!("http://public.example:{port}/").parse().unwrap();
    let mut response = network.send(HttpRequest::get(url), terms(true)).await.unwrap();
    assert_eq!(response.collect(100).await.unwrap().0, b"secret");
    let unknown =
        LocalNetwork::new(HttpSettings { resolver: Arc::new(FixedAddresses(Vec::new())) });
    let url = "http://unknown.example/".parse().unwrap();
    let error = unknown.send(HttpRequest::get(url), terms(true)).await.unwrap_err();
    assert!(error.to_string().contains("has no address"), "{error}");
}

#[tokio::test]
async fn every_byte_counts_and_the_meter_stops_the_request() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let mut server = Server::start(answer, AfterResponse::Hold).await;
    let network = LocalNetwork::new(HttpSettings::default());
    let meter = Arc::new(Counter { bytes: AtomicU64::new(0), max_bytes: u64::MAX });
    let terms = NetworkTerms { may_reach_private: true, meter: meter.clone() };
    let mut response = network.send(server.request(), terms).await.unwrap();
    response.collect(100).await.unwrap();
    let requests = server.requests.recv().await.unwrap();
    assert_eq!(meter.bytes.load(Ordering::Relaxed), (requests.len() + answer.len()) as u64);

    let meter =
        Arc::new(Counter { bytes: AtomicU64::new(0), max_bytes: requests.len() as u64 + 1 });
    let terms = NetworkTerms { may_reach_private: true, meter };
    let error = network.send(server.request(), terms).await.unwrap_err();
    assert_eq!(error.code(), "busy", "{error}");
}

#[tokio::test]
async fn https_is_refused_before_any_connection() {
    let mut server = Server::start("HTTP/1.1 200 OK\r\n\r\n", AfterResponse::Close).await;
    let url = format!("https://{}/", server.address).parse().unwrap();
    let error = get(HttpRequest::get(url)).await.unwrap_err().to_string();
    assert!(error.contains("https is not spoken yet"), "{error}");
    assert!(server.requests.try_recv().is_err());
}
