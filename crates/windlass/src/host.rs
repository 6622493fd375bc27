//! Hosts: the implementation of the doors that tools use, on this machine ([`LocalHost`]) or one of your own ([`Host`]).
//!
//! ```
//! use std::sync::Arc;
//! use windlass::engine::Engine;
//! use windlass::host::LocalHost;
//! # let folder = tempfile::tempdir().unwrap();
//! let host = LocalHost::open(folder.path())?;
//! let engine = Engine::builder(Arc::new(host)).build();
//! # drop(engine);
//! # Ok::<(), windlass::files::FileError>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | use this machine | [`LocalHost`], [`LocalNetwork`], [`HttpSettings`] |
//! | write a host of your own | [`Host`], [`Clock`], [`Network`], [`Files`](crate::files::Files), [`Processes`](crate::process::Processes) |
//! | send requests from a tool | [`NetDoor`](crate::tool::NetDoor), [`HttpRequest`], [`HttpResponse`] |

pub use windlass_core::{
    Clock, Host, HostName, HttpBody, HttpLimits, HttpRequest, HttpResponse, HttpUrl, Network,
    NetworkTerms,
};
pub use windlass_host::{
    HttpSettings, Isolated, IsolatedChange, IsolatedChangeKind, Isolation, LocalHost, LocalNetwork,
    Resolver, SystemClock, SystemResolver,
};
