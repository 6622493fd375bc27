//! The network: one request, one answer, nothing that happens by itself.

mod host_name;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use host_name::HostName;
pub use url::HttpUrl;

use crate::{BoxFuture, Effect, Meter, ToolError, quote};

/// Talks to other machines. One request is sent and one answer comes back: redirects are not followed, and nothing is added that the
/// request does not say (no cookies, no credentials, no proxy).
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
/// # impl windlass_core::Meter for Unlimited { fn pass(&self, _: u64) -> bool { true } }
/// # let terms = NetworkTerms { may_reach_private: false, meter: Arc::new(Unlimited) };
///
/// let mut response = Echo.send(HttpRequest::get("https://docs.rs".parse()?), terms).await?;
/// assert_eq!(response.collect(5).await?, (b"https".to_vec(), true), "the rest was cut");
/// # Ok(())
/// # }
/// ```
pub trait Network: Send + Sync {
    /// Sends one request; returns when the head of the answer is there.
    fn send(
        &self,
        request: HttpRequest,
        terms: NetworkTerms,
    ) -> BoxFuture<'_, Result<HttpResponse, ToolError>>;
}

/// The terms on which a request is sent: what was decided, not what the tool wants.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::NetworkTerms;
/// # #[derive(Debug)] struct Unlimited;
/// # impl windlass_core::Meter for Unlimited { fn pass(&self, _: u64) -> bool { true } }
/// let terms = NetworkTerms { may_reach_private: false, meter: Arc::new(Unlimited) };
/// assert!(terms.meter.pass(100));
/// ```
#[derive(Debug, Clone)]
pub struct NetworkTerms {
    /// The host may have an address that is not public: a rule names the host, or a person agreed to the address.
    pub may_reach_private: bool,
    /// Counts the bytes of the connection in both directions, and says when it is enough.
    pub meter: Arc<dyn Meter>,
}

/// A request of the HTTP protocol.
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
    /// `GET`, `POST` …
    pub method: String,
    /// The address.
    pub url: HttpUrl,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The most that the answer may take.
    pub limits: HttpLimits,
}

/// The most that an answer may take. Beyond a limit, it is an error that says which.
///
/// ```
/// use windlass_core::HttpLimits;
/// let short = HttpLimits { body_bytes: 64 << 10, ..HttpLimits::default() };
/// assert!(short.body_bytes < short.wire_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// The time to find the host and connect.
    pub connect_time: Duration,
    /// The time between two pieces of the answer.
    pub idle_time: Duration,
    /// The time for all of it.
    pub total_time: Duration,
    /// The bytes of the head.
    pub header_bytes: usize,
    /// The bytes of the body as they come over the network.
    pub wire_bytes: u64,
    /// The bytes of the body when they are unpacked.
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

/// The names of headers that only the connection sets. A request that brings one could be read as two.
const RESERVED: [&str; 10] = [
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

/// The names of headers that only one origin may see.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: impl Into<String>, url: HttpUrl) -> Self {
        let method = method.into().to_ascii_uppercase();
        let limits = HttpLimits::default();
        Self { method, url, headers: Vec::new(), body: Vec::new(), limits }
    }

    /// A request for what is at an address.
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

    /// Replaces the limits of the answer.
    #[must_use]
    pub fn with_limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The effect that a call has to be granted before this is sent.
    pub fn effect(&self) -> Effect {
        self.url.effect(&self.method)
    }

    /// Checks that it is one request, whoever reads it: no line breaks in names and values, and no header that says where it ends.
    pub fn check(&self) -> Result<(), ToolError> {
        let bad = |what: &str, text: &str| {
            ToolError::invalid_args(format!("{what} `{}` cannot be sent", quote::visible(text)))
        };
        if !is_token(&self.method) || matches!(&*self.method, "CONNECT" | "TRACE") {
            return Err(bad("the method", &self.method));
        }
        for (name, value) in &self.headers {
            let is_reserved = RESERVED.iter().any(|it| name.eq_ignore_ascii_case(it));
            if !is_token(name) || is_reserved {
                return Err(bad("the header", name));
            }
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return Err(bad("the value of the header", name));
            }
        }
        Ok(())
    }

    /// The request that follows a redirect of this one: without credentials if it leads to another origin, and as `GET` without the
    /// body where browsers do so.
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
                |name: &str| CREDENTIALS.iter().any(|it| name.eq_ignore_ascii_case(it));
            next.headers.retain(|(name, _)| !is_credential(name));
        }
        Ok(next)
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

fn is_token(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}

/// An answer of the HTTP protocol: the head, and the body as it comes.
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
    /// The status code.
    pub status: u16,
    /// The address that was asked.
    pub url: HttpUrl,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
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
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The request that this answer redirects to, if it does. Its [effect](HttpRequest::effect) is a new one: a call asks for it by
    /// [`Context::extend`](crate::Context::extend) before it is sent.
    pub fn redirect(&self, request: &HttpRequest) -> Result<Option<HttpRequest>, ToolError> {
        match (self.status, self.header("location")) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                request.redirected(self.status, location).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads at most so many bytes of the body; the flag says that there is more.
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

/// The body of an answer. Dropped, the connection ends.
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
    /// The next piece; `None` at the end. After an error there is nothing more.
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
    fn what_could_be_read_as_two_requests_is_not_sent() {
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
