//! The proxy between real sockets of the loopback interface: hosts with the behaviour of each test, clients that write raw bytes, and
//! `curl`.

mod confined;
mod curl;
mod forward;
mod hostile;
mod tunnel;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

/// Time after which a test is taken to hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, future).await.expect("this test hangs")
}

/// A host that serves until it is dropped.
struct Origin {
    address: SocketAddr,
    seen: Arc<ConnectionCounts>,
    _serving: JoinSet<()>,
}

/// Numbers of connections of a host: all, present and highest.
#[derive(Default)]
struct ConnectionCounts {
    all: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Origin {
    async fn new<F, S>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> S + Send + 'static,
        S: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(ConnectionCounts::default());
        let mut serving = JoinSet::new();
        let counts = Arc::clone(&seen);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counts = Arc::clone(&counts);
                counts.all.fetch_add(1, Ordering::SeqCst);
                let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
                counts.peak.fetch_max(now, Ordering::SeqCst);
                let served = serve(stream);
                connections.spawn(async move {
                    drop(served.await);
                    counts.now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen, _serving: serving }
    }

    /// Starts a host that sends back the bytes that it receives.
    async fn echo() -> Self {
        Self::new(|stream| async move {
            let (mut reader, mut writer) = stream.into_split();
            tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        })
        .await
    }

    /// Starts a host that answers a request with the request itself.
    async fn http() -> Self {
        Self::new(|mut stream| async move {
            let request = read_request(&mut stream).await?;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", request.len());
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(b"Connection: keep-alive\r\n\r\n").await?;
            stream.write_all(&request).await?;
            stream.shutdown().await
        })
        .await
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    fn connections(&self) -> usize {
        self.seen.all.load(Ordering::SeqCst)
    }
}

/// Reads a request with its body.
async fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    while !is_whole(&request) && stream.read_buf(&mut request).await? > 0 {}
    Ok(request)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None if head.contains("Transfer-Encoding: chunked") => body.ends_with("0\r\n\r\n"),
        None => true,
    }
}

/// A proxy with its address.
struct TestProxy {
    proxy: Proxy,
    address: SocketAddr,
}

impl TestProxy {
    fn new(hosts: &[String], settings: ProxySettings) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { proxy: Proxy::serve(listener, hosts, settings).unwrap(), address }
    }

    /// Starts a proxy for a host on the loopback interface, by name and by address.
    fn for_origin(origin: &Origin) -> Self {
        Self::for_origin_with(origin, private_settings())
    }

    fn for_origin_with(origin: &Origin, settings: ProxySettings) -> Self {
        let port = origin.port();
        Self::new(&[format!("localhost:{port}"), format!("127.0.0.1:{port}")], settings)
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and returns the whole answer.
    async fn talk(&self, said: impl AsRef<[u8]>) -> Vec<u8> {
        let mut stream = self.connect().await;
        stream.write_all(said.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    }

    /// Does the same, with the answer as text.
    async fn ask(&self, said: impl AsRef<[u8]>) -> String {
        String::from_utf8(self.talk(said).await).unwrap()
    }

    /// Opens a tunnel by `CONNECT`.
    async fn tunnel(&self, target: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let expected = b"HTTP/1.1 200 Connection established\r\n\r\n";
        assert_eq!(take(&mut stream, expected.len()).await, expected);
        stream
    }
}

fn private_settings() -> ProxySettings {
    ProxySettings { allow_private: true, ..ProxySettings::default() }
}

async fn take(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Waits until a connection is closed in any way.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest).await);
}

/// Returns the bytes of a SOCKS5 greeting and a request by name.
fn socks_by_name(name: &[u8], port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    let mut said = b"\x05\x01\0\x05\x01\0\x03".to_vec();
    said.push(length);
    said.extend_from_slice(name);
    said.extend_from_slice(&port.to_be_bytes());
    said
}

fn socks_by_address(address: SocketAddr) -> Vec<u8> {
    let mut said = b"\x05\x01\0\x05\x01\0".to_vec();
    match address.ip() {
        std::net::IpAddr::V4(address) => {
            said.push(1);
            said.extend_from_slice(&address.octets());
        }
        std::net::IpAddr::V6(address) => {
            said.push(4);
            said.extend_from_slice(&address.octets());
        }
    }
    said.extend_from_slice(&address.port().to_be_bytes());
    said
}
