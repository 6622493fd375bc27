//! The door to the network: one request, one response, no automatic steps.

mod host_name;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use host_name::HostName;
pub use url::HttpUrl;

use crate::{BoxFuture, Effect, ToolError, TrafficMeter, quote};

/// Sends HTTP requests. Each request gets one response: redirects are not followed, and nothing is added to the request (no
/// cookies, no credentials, no proxy).
///
/// ```
/// use std::sync::Arc;
/// use windlass_core::{BoxFuture, HttpBody, HttpRequest, HttpResponse, Network, NetworkTerms, ToolError};
/// # use windlass_core::{Session, SessionId};
///
/// /// A network on which every address answers with its own name.
/// struct Echo;
///
/// struct Once(Option<Vec<u8>>);
///
/// impl HttpBody for Once {
///     fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
///         Box::pin(std::future::ready(Ok(self.0.take())))
///     }
/// }
///
/// impl Network for Echo {
///     fn send(&self, request: HttpRequest, _: NetworkTerms) -> BoxFuture<'_, Result<HttpResponse, ToolError>> {
///         let body = Box::new(Once(Some(request.url.to_string().into_bytes())));
///         let response = HttpResponse { status: 200, url: request.url, headers: Vec::new(), body };
///         Box::pin(std::future::ready(Ok(response)))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// # #[derive(Debug)] struct Unlimited;
/// # impl windlass_core::TrafficMeter for Unlimited { fn pass(&self, _: u64) -> bool { true } }
/// # let terms = NetworkTerms { may_reach_private: false, meter: Arc::new(Unlimited) };
///
/// let mut response = Echo.send(HttpRequest::get("https://docs.rs".parse()?), terms).await?;
/// assert_eq!(response.collect(5).await?, (b"https".to_vec(), true), "the rest was cut");
/// # Ok(())
/// # }
/// ```
pub trait Network: Send + Sync {
    /// Sends one request; returns when the head of the response has arrived.
    fn send(
        &self,
        request: HttpRequest,
        terms: NetworkTerms,
    ) -> BoxFuture<'_, Result<HttpResponse, ToolError>>;
}

/// Conditions for sending a request, from the decision about it rather than from the tool.
#[derive(Debug, Clone)]
pub struct NetworkTerms {
    /// True if the host may have an address that is not public: a rule names the host, or a person approved the address.
    pub may_reach_private: bool,
    /// Counts the bytes of the connection in both directions, and ends it when the budget is spent.
    pub meter: Arc<dyn TrafficMeter>,
}

/// An HTTP request.
///
/// ```
/// use windlass_core::HttpRequest;
/// let url = "https://api.example/items".parse()?;
/// let request = HttpRequest::new("POST", url).with_header("content-type", "application/json").with_body("{}");
/// assert_eq!(request.effect().to_string(), "net POST https://api.example:443");
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// Method: `GET`, `POST` …
    pub method: String,
    /// Address.
    pub url: HttpUrl,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Vec<u8>,
    /// Limits of the response.
    pub limits: HttpLimits,
}

/// Limits of a response. Exceeding one is an error that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum time to resolve the host and connect.
    pub connect_time: Duration,
    /// Maximum time between two pieces of the response.
    pub idle_time: Duration,
    /// Maximum time for the whole response.
    pub total_time: Duration,
    /// Maximum bytes of the head.
    pub header_bytes: usize,
    /// Maximum bytes of the body as transferred.
    pub wire_bytes: u64,
    /// Maximum bytes of the body after decompression.
    pub body_bytes: u64,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(30),
            total_time: Duration::from_mins(2),
            header_bytes: 64 << 10,
            wire_bytes: 10 << 20,
            body_bytes: 10 << 20,
        }
    }
}

/// Headers that only the connection sets. A request with one of them could be read as two requests.
const RESERVED_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
    "accept-encoding",
];

/// Headers that are not sent to another origin.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

impl HttpRequest {
    /// Makes a request without headers and body.
    pub fn new(method: impl Into<String>, url: HttpUrl) -> Self {
        let method = method.into().to_ascii_uppercase();
        let limits = HttpLimits::default();
        Self { method, url, headers: Vec::new(), body: Vec::new(), limits }
    }

    /// Makes a `GET` request.
    pub fn get(url: HttpUrl) -> Self {
        Self::new("GET", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the limits of the response.
    #[must_use]
    pub fn with_limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the effect that a call must be granted before it may send this request.
    pub fn effect(&self) -> Effect {
        self.url.effect(&self.method)
    }

    /// Fails if a server could read the request as several: line breaks in names or values, or a header that sets the length.
    pub fn check(&self) -> Result<(), ToolError> {
        let bad = |what: &str, text: &str| {
            ToolError::invalid_args(format!("{what} `{}` cannot be sent", quote::visible(text)))
        };
        if !is_token(&self.method) || matches!(&*self.method, "CONNECT" | "TRACE") {
            return Err(bad("the method", &self.method));
        }
        for (name, value) in &self.headers {
            let is_reserved = RESERVED_HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it));
            if !is_token(name) || is_reserved {
                return Err(bad("the header", name));
            }
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return Err(bad("the value of the header", name));
            }
        }
        Ok(())
    }

    /// Returns the request that follows a redirect of this one: without credentials if it leads to another origin, and as `GET`
    /// without the body where browsers do so.
    fn redirected(&self, status: u16, location: &str) -> Result<Self, ToolError> {
        let url = self.url.join(location)?;
        let mut next = Self { url, ..self.clone() };
        let is_read = matches!(&*self.method, "GET" | "HEAD");
        if status == 303 && !is_read || matches!(status, 301 | 302) && self.method == "POST" {
            "GET".clone_into(&mut next.method);
            next.body.clear();
            next.headers.retain(|(name, _)| !starts_with(name, "content-"));
        }
        if next.url.origin() != self.url.origin() {
            let is_credential =
                |name: &str| CREDENTIAL_HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it));
            next.headers.retain(|(name, _)| !is_credential(name));
        }
        Ok(next)
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Returns whether a text is a token as HTTP defines it.
fn is_token(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}

/// An HTTP response: the head, and a body that is read in pieces.
///
/// ```
/// use windlass_core::{BoxFuture, HttpBody, HttpRequest, HttpResponse, ToolError};
///
/// struct Nothing;
///
/// impl HttpBody for Nothing {
///     fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
///         Box::pin(std::future::ready(Ok(None)))
///     }
/// }
///
/// let request = HttpRequest::get("https://docs.rs/a".parse()?).with_header("authorization", "Bearer x");
/// let headers = vec![("location".to_owned(), "https://static.docs.rs/b".to_owned())];
/// let response = HttpResponse { status: 302, url: request.url.clone(), headers, body: Box::new(Nothing) };
/// let next = response.redirect(&request)?.expect("it redirects");
/// assert_eq!(next.effect().to_string(), "net GET https://static.docs.rs:443");
/// assert!(next.headers.is_empty(), "another origin does not get the credentials");
/// # Ok::<(), ToolError>(())
/// ```
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Address of the request.
    pub url: HttpUrl,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Decompressed body.
    pub body: Box<dyn HttpBody>,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl HttpResponse {
    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the request to which this response redirects, if it does. Its [effect](HttpRequest::effect) is a new one: a call
    /// requests it with [`Context::extend`](crate::Context::extend) before sending the request.
    pub fn redirect(&self, request: &HttpRequest) -> Result<Option<HttpRequest>, ToolError> {
        match (self.status, self.header("location")) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                request.redirected(self.status, location).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads at most `most` bytes of the body. The flag is true if there are more.
    pub async fn collect(&mut self, most: usize) -> Result<(Vec<u8>, bool), ToolError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.body.chunk().await? {
            all.extend_from_slice(&chunk);
            if all.len() > most {
                all.truncate(most);
                return Ok((all, true));
            }
        }
        Ok((all, false))
    }
}

/// The body of a response. Dropping it closes the connection.
///
/// ```
/// use windlass_core::{BoxFuture, HttpBody, ToolError};
///
/// /// Pieces that are there already.
/// struct Ready(Vec<Vec<u8>>);
///
/// impl HttpBody for Ready {
///     fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
///         Box::pin(std::future::ready(Ok(self.0.pop())))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let mut body = Ready(vec![b"world".to_vec(), b"hello ".to_vec()]);
/// assert_eq!(body.chunk().await?.as_deref(), Some(&b"hello "[..]));
/// # Ok(())
/// # }
/// ```
pub trait HttpBody: Send {
    /// Returns the next piece; `None` at the end. After an error there are no further pieces.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl HttpBody for Nothing {
        fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
            Box::pin(std::future::ready(Ok(None)))
        }
    }

    fn request(method: &str) -> HttpRequest {
        HttpRequest::new(method, "https://a.example/b".parse().expect("an address"))
            .with_header("Authorization", "Bearer x")
            .with_header("Content-Type", "text/plain")
            .with_header("Accept", "text/html")
            .with_body("body")
    }

    #[test]
    fn a_redirect_becomes_another_request() {
        let all = "Authorization Content-Type Accept";
        for (method, status, location, expected) in [
            ("GET", 302, "/c", Some(("GET https://a.example/c", all, 4))),
            ("POST", 302, "/c", Some(("GET https://a.example/c", "Authorization Accept", 0))),
            ("POST", 303, "/c", Some(("GET https://a.example/c", "Authorization Accept", 0))),
            ("PUT", 301, "/c", Some(("PUT https://a.example/c", all, 4))),
            ("POST", 307, "/c", Some(("POST https://a.example/c", all, 4))),
            ("POST", 308, "//b/", Some(("POST https://b/", "Content-Type Accept", 4))),
            (
                "GET",
                302,
                "http://a.example/",
                Some(("GET http://a.example/", "Content-Type Accept", 4)),
            ),
            (
                "GET",
                302,
                "https://a.example:8443/",
                Some(("GET https://a.example:8443/", "Content-Type Accept", 4)),
            ),
            ("GET", 200, "/c", None),
            ("GET", 304, "/c", None),
        ] {
            let headers = vec![("location".to_owned(), location.to_owned())];
            let request = request(method);
            let url = request.url.clone();
            let response = HttpResponse { status, url, headers, body: Box::new(Nothing) };
            let next = response.redirect(&request).expect("an address");
            let told = next.map(|next| {
                let names: Vec<&str> = next.headers.iter().map(|(name, _)| &**name).collect();
                (format!("{} {}", next.method, next.url), names.join(" "), next.body.len())
            });
            let expected = expected.map(|(line, names, body)| (line.into(), names.into(), body));
            assert_eq!(told, expected, "{method} {status} {location}");
        }
    }

    #[test]
    fn ambiguous_requests_are_not_sent() {
        for (method, name, value, is_fine) in [
            ("GET", "accept", "text/html", true),
            ("PATCH", "x-a", "ü\t1", true),
            ("GET /x", "accept", "a", false),
            ("CONNECT", "accept", "a", false),
            ("", "accept", "a", false),
            ("GET", "Host", "evil", false),
            ("GET", "Content-Length", "0", false),
            ("GET", "transfer-encoding", "chunked", false),
            ("GET", "user-agent", "Mozilla", false),
            ("GET", "x a", "b", false),
            ("GET", "x", "a\r\nHost: evil", false),
            ("GET", "x", "a\0", false),
        ] {
            let url = "http://a/".parse().expect("an address");
            let request = HttpRequest::new(method, url).with_header(name, value);
            assert_eq!(request.check().is_ok(), is_fine, "{method} {name} {value:?}");
        }
    }
}
