//! Implements the network door: HTTP/1.1, one connection for each request.
//!
//! A request goes to an address that was checked, and contains only what the caller gave: no cookies, no credentials of the machine, no
//! proxy of the environment. The response is read by strict rules and within limits of time and size, so that two readers of the same bytes
//! agree on its end.

mod body;
mod connection;
mod decode;
mod head;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use windlass_core::{
    BoxFuture, HttpRequest, HttpResponse, HttpUrl, Network, NetworkTerms, ToolError,
};

use self::body::{Body, Framing};
use self::connection::Connection;
use self::decode::BodyDecoder;
use self::head::Head;
use crate::dial::{self, Resolver, SystemResolver};

/// Value of the `User-Agent` header.
const USER_AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// Talks HTTP to other machines.
///
/// ```
/// use windlass_host::{HttpSettings, LocalNetwork};
/// let network = LocalNetwork::new(HttpSettings::default());
/// # drop(network);
/// ```
#[derive(Debug)]
pub struct LocalNetwork {
    settings: HttpSettings,
}

/// Settings of a [`LocalNetwork`].
///
/// ```
/// let settings = windlass_host::HttpSettings::default();
/// # drop(settings);
/// ```
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolver>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver) }
    }
}

impl LocalNetwork {
    /// Creates a network door with these settings.
    pub fn new(settings: HttpSettings) -> Self {
        Self { settings }
    }

    /// Sends a request and reads the head of the response. Skips interim responses (1xx).
    async fn exchange(
        &self,
        request: HttpRequest,
        terms: NetworkTerms,
    ) -> Result<HttpResponse, ToolError> {
        request.check()?;
        let url = request.url.clone();
        let limits = request.limits;
        let mut connection = self.connect(&request, terms).await?;
        connection.write(&request_bytes(&request)).await?;
        let head = loop {
            let head = Head::read(&mut connection).await?;
            match head.status {
                101 => return Err(failed(&url, "it switched to another protocol")),
                // Interim responses; their bytes count for the limit of the head.
                100..200 => {}
                _ => break head,
            }
        };
        let framing = Framing::of(&request.method, &head).map_err(|why| failed(&url, why))?;
        let decoder = match framing {
            Framing::Empty => BodyDecoder::Identity,
            _ => BodyDecoder::for_head(&head).map_err(|why| failed(&url, &why.to_string()))?,
        };
        let body = Box::new(Body::new(connection, framing, decoder, limits));
        Ok(HttpResponse { status: head.status, url, headers: head.headers, body })
    }

    /// Connects to an address of the host that may be dialled, within the time limit.
    async fn connect(
        &self,
        request: &HttpRequest,
        terms: NetworkTerms,
    ) -> Result<Connection, ToolError> {
        let (url, limits) = (&request.url, &request.limits);
        if url.is_secure() {
            return Err(failed(url, "https is not spoken yet")
                .hint("use another way to get it, or an http address"));
        }
        let within = |time: Duration| {
            failed(url, &format!("it did not answer within {} s", time.as_secs_f64()))
        };
        let dialled = async {
            let found = dial::lookup(&*self.settings.resolver, url.host(), url.port()).await;
            let mut addresses = found.map_err(|error| {
                failed(url, &format!("the host {} is not found: {error}", url.host()))
            })?;
            dial::keep_dialable(&mut addresses, terms.may_reach_private).map_err(|why| {
                let rule = format!("net {}", authority(url));
                failed(url, &why.to_string())
                    .hint(format!("to allow it: a rule that names the host, `{rule}`"))
            })?;
            if addresses.is_empty() {
                return Err(failed(url, &format!("the host {} has no address", url.host())));
            }
            dial::connect_to_first(addresses).await.map_err(|error| failed(url, &error.to_string()))
        };
        let time = limits.connect_time.min(limits.total_time);
        let stream = timeout(time, dialled).await.map_err(|_| within(time))??;
        Ok(Connection::new(stream, url.clone(), *limits, terms.meter))
    }
}

impl Network for LocalNetwork {
    fn send(
        &self,
        request: HttpRequest,
        terms: NetworkTerms,
    ) -> BoxFuture<'_, Result<HttpResponse, ToolError>> {
        Box::pin(self.exchange(request, terms))
    }
}
/// Returns the bytes of a request.
/// The bytes of a request.
fn request_bytes(request: &HttpRequest) -> Vec<u8> {
    let HttpRequest { method, url, headers, body, .. } = request;
    let mut text = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nAccept-Encoding: gzip, br, zstd\r\nConnection: close\r\n",
        url.target(),
        url.authority()
    );
    if !body.is_empty() || matches!(&**method, "POST" | "PUT" | "PATCH") {
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        text.push_str("Accept: */*\r\n");
    }
    for (name, value) in headers {
        text.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
/// Returns host and port as a network rule names them.
/// Host and port, as a rule names them.
fn authority(url: &HttpUrl) -> String {
    let origin = url.origin();
    origin.split_once("://").map_or(origin.clone(), |(_, rest)| rest.to_owned())
}

/// Returns the error for a URL that could not be fetched.
fn failed(url: &HttpUrl, why: &str) -> ToolError {
    ToolError::failed(format!("cannot get {url}: {why}"))
}
