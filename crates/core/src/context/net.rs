//! The door to the network: checks each request against the grant.

use super::Context;
use crate::engine::situation;
use crate::policy::is_plain;
use crate::{
    DecidedBy, Effect, ExplainedDecision, HttpRequest, HttpResponse, Mode, Network, NetworkTerms,
    ToolError,
};

/// The door to the network. Sends a request if the call was granted its origin and method. Redirects are returned as responses:
/// [`HttpResponse::redirect`] makes the next request of one, and [`Context::extend`] asks for its effect.
///
/// ```
/// use windlass_core::{Context, HttpRequest, Output, ToolError};
///
/// /// The plan declared `request.effect()`.
/// async fn first_kilobyte(cx: &Context, request: HttpRequest) -> Result<Output, ToolError> {
///     let mut response = cx.net()?.follow(request).await?;
///     let (bytes, _) = response.collect(1_000).await?;
///     Ok(Output::text(String::from_utf8_lossy(&bytes)))
/// }
/// ```
#[derive(Clone, Copy)]
pub struct NetDoor<'a> {
    cx: &'a Context,
    network: &'a dyn Network,
}

impl std::fmt::Debug for NetDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetDoor").finish_non_exhaustive()
    }
}

impl Context {
    /// Returns the door to the network; each request needs the effect `Net` of its origin and method.
    pub fn net(&self) -> Result<NetDoor<'_>, ToolError> {
        let network = self.0.host.network();
        let network =
            network.ok_or_else(|| ToolError::host_failed("this machine has no network"))?;
        Ok(NetDoor { cx: self, network })
    }
}

impl Context {
    /// Returns whether the host of a granted effect may have an address that is not public: a rule of the person names the host, or
    /// the person approved an address or this machine itself.
    pub(super) fn may_reach_private(&self, effect: &Effect) -> bool {
        let inner = &self.0;
        let Effect::Net { origin, .. } = effect else { return false };
        let by_person = |decided: &ExplainedDecision| {
            matches!(decided.settled_by, Some(DecidedBy::Approval { .. }))
        };
        let is_agreed = inner.grant.deciding(effect, by_person).unwrap_or_default();
        (is_agreed && is_plain(origin)) || self.is_named(effect)
    }

    /// Returns the same for the programs of a call. Such a host was named by the call itself, not by a redirect, so a general
    /// permission by the person is enough, too.
    pub(super) fn program_may_reach_private(&self, effect: &Effect) -> bool {
        let inner = &self.0;
        let Effect::Net { origin, .. } = effect else { return false };
        let beforehand = |decided: &ExplainedDecision| {
            matches!(decided.settled_by, Some(DecidedBy::Beforehand | DecidedBy::Person))
        };
        let is_any_allowed = inner.policy.mode() == Mode::Yolo
            || inner.grant.deciding(effect, beforehand).unwrap_or_default();
        (is_any_allowed && is_plain(origin)) || self.may_reach_private(effect)
    }

    /// Returns whether a rule of the person names this host, so that it may have an address that is not public.
    pub(super) fn is_named(&self, effect: &Effect) -> bool {
        let inner = &self.0;
        let situation = situation(&*inner.host, inner.session_files.get(), &inner.session);
        inner.policy.names_host(effect, &situation)
    }
}

impl NetDoor<'_> {
    /// Maximum number of redirects that [`NetDoor::follow`] takes.
    pub const MAX_REDIRECTS: usize = 10;

    /// Sends one request; returns when the head of the response has arrived. A redirect is a response like others. The bytes of the
    /// connection count for the session's budget.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ToolError> {
        let inner = &self.cx.0;
        inner.lineage.check_open()?;
        request.check()?;
        let effect = request.effect();
        if !inner.grant.covers(&effect) {
            return Err(ToolError::undeclared_effect(format!(
                "the tool wanted to {effect} without having declared it"
            )));
        }
        let meter = inner.session.ledger().clone();
        if !crate::TrafficMeter::pass(&*meter, 0) {
            return Err(ToolError::busy(
                "the budget of this session is used up: it may move no more bytes over the network",
            ));
        }
        let may_reach_private = self.cx.may_reach_private(&effect);
        self.network.send(request, NetworkTerms { may_reach_private, meter }).await
    }

    /// Sends a request and follows its redirects, each of which is decided on as a new effect. If one is refused, returns the error
    /// of that decision.
    pub async fn follow(&self, mut request: HttpRequest) -> Result<HttpResponse, ToolError> {
        for _ in 0..=Self::MAX_REDIRECTS {
            let response = self.send(request.clone()).await?;
            let Some(next) = response.redirect(&request)? else { return Ok(response) };
            self.cx.extend(next.effect()).await?;
            request = next;
        }
        Err(ToolError::failed(format!(
            "{} redirects further after {} redirects",
            request.url,
            Self::MAX_REDIRECTS
        )))
    }
}
