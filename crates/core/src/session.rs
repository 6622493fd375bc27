//! A session: its id, rights, budget, jobs, and the files that it has seen.

mod seen_files;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::seen_files::SeenFiles;
pub use self::seen_files::SeenRecord;
use crate::budget::Ledger;
use crate::jobs::{Job, Jobs};
use crate::sync::Lock;
use crate::{
    ActiveRule, Budget, ContentHash, Decision, Fingerprint, Layer, Overrides, Policy, Predicate,
    Principal, Proposals, Requester, Rights, SessionId, SessionLimits, Signal, Spent,
};

/// A sequence of turns with its own id, rights, seen files and jobs.
///
/// ```
/// use windlass_core::{Session, SessionId};
/// let session = Session::new(SessionId::new("s1"));
/// assert_eq!(session.id().as_str(), "s1");
/// assert!(!session.is_cancelled());
/// ```
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    parent: Option<SessionId>,
    /// Sessions above it, the outermost first.
    ancestors: Arc<[SessionId]>,
    agent: Option<String>,
    /// Model that makes the calls, for calls that do not name one.
    model: Option<String>,
    rights: Rights,
    /// Policy of the engine narrowed by the rights, as last computed.
    policy: Lock<Option<NarrowedPolicy>>,
    /// Rules that a person gave together with an answer.
    allowed: Lock<Vec<ActiveRule>>,
    overrides: Overrides,
    ledger: Arc<Ledger>,
    cancel: CancellationToken,
    interrupted: CancellationToken,
    is_for_one_call: bool,
    seen: Lock<SeenFiles>,
    /// Origin of the first untrusted text that was read. Shared with all sessions below, because a parent gets the results of its
    /// sub-agents.
    untrusted: Arc<Lock<Option<String>>>,
    proposals: Option<Arc<Proposals>>,
    /// Session whose `/tmp` it uses, if not its own.
    tmp_of: Option<SessionId>,
    /// Permits of its calls. Shared with all sessions below, so a sub-agent adds none.
    permits: Arc<OnceLock<Arc<Semaphore>>>,
    jobs: Jobs,
}

impl Session {
    /// Makes a session with all rights that the policy leaves.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            parent: None,
            ancestors: [].into(),
            agent: None,
            model: None,
            rights: Rights::all(),
            policy: Lock::default(),
            allowed: Lock::default(),
            overrides: Overrides::default(),
            ledger: Arc::default(),
            cancel: CancellationToken::new(),
            interrupted: CancellationToken::new(),
            is_for_one_call: false,
            seen: Lock::default(),
            untrusted: Arc::default(),
            proposals: None,
            tmp_of: None,
            permits: Arc::default(),
            jobs: Jobs::default(),
        }
    }

    /// Makes a session below this one: with at most its rights, one level deeper, and cancelled with it. Its proposals go to this one.
    ///
    /// ```
    /// use windlass_core::{SessionLimits, Mode, Overrides, Predicate, Session, SessionId};
    /// let parent = Session::new(SessionId::new("s1")).narrow(Predicate::allow(["read", "write"]));
    /// let limits = SessionLimits { mode: Some(Mode::Plan), ..SessionLimits::default() };
    /// let child = parent.child(SessionId::new("s2"), limits, &Overrides::default());
    /// assert_eq!(child.rights().modes().collect::<Vec<_>>(), [Mode::Plan]);
    /// ```
    #[must_use]
    pub fn child(
        &self,
        id: SessionId,
        limits: impl Into<SessionLimits>,
        overrides: &Overrides,
    ) -> Self {
        let mut overrides = overrides.over(&self.overrides);
        overrides.depth = Some(self.overrides.depth.unwrap_or(0) + 1);
        let mut child = Self::new(id);
        child.parent = Some(self.id.clone());
        child.ancestors = self.ancestors.iter().chain([&self.id]).cloned().collect();
        child.rights = self.rights.narrow(limits.into());
        child.overrides = overrides;
        child.model.clone_from(&self.model);
        child.cancel = self.cancel.child_token();
        child.interrupted = self.interrupted.child_token();
        child.ledger = Arc::new(Ledger::new(Budget::default(), Some(self.ledger.clone())));
        child.untrusted = self.untrusted.clone();
        child.permits = self.permits.clone();
        child.proposals.clone_from(&self.proposals);
        child
    }

    /// Makes a session for the trial run of a call: it has seen the same files, and its changes only become proposals.
    pub(crate) fn trial(&self, proposals: Proposals) -> Self {
        let mut trial = Self::new(self.id.clone());
        trial.parent.clone_from(&self.parent);
        trial.ancestors = self.ancestors.clone();
        trial.agent.clone_from(&self.agent);
        trial.model.clone_from(&self.model);
        trial.rights = self.rights.clone();
        trial.overrides = self.overrides.clone();
        trial.cancel = self.cancel.child_token();
        trial.interrupted = self.interrupted.child_token();
        trial.permits = self.permits.clone();
        trial.seen = Lock::new(self.seen.lock().clone());
        trial.proposals = Some(Arc::new(proposals));
        trial
    }

    /// Makes a session with the same id that uses the `/tmp` of another, for a person who undoes or applies changes of that one.
    ///
    /// ```
    /// use windlass_core::{Session, SessionId};
    /// let person = Session::new(SessionId::new("person"));
    /// let reaching = person.reaching_tmp_of(SessionId::new("s1"));
    /// assert_eq!(reaching.id(), person.id());
    /// ```
    #[must_use]
    pub fn reaching_tmp_of(&self, other: SessionId) -> Self {
        let mut session = Self::new(self.id.clone());
        session.parent.clone_from(&self.parent);
        session.ancestors = self.ancestors.clone();
        session.agent.clone_from(&self.agent);
        session.model.clone_from(&self.model);
        session.rights = self.rights.clone();
        session.overrides = self.overrides.clone();
        session.ledger = self.ledger.clone();
        session.cancel = self.cancel.child_token();
        session.interrupted = self.interrupted.child_token();
        session.untrusted = self.untrusted.clone();
        session.proposals.clone_from(&self.proposals);
        session.tmp_of = Some(other);
        session
    }

    /// Returns the session whose `/tmp` it uses.
    pub(crate) fn tmp_session(&self) -> &SessionId {
        self.tmp_of.as_ref().unwrap_or(&self.id)
    }

    /// Sets the name of the agent that makes the calls, for the people who are asked about them.
    #[must_use]
    pub fn with_agent(mut self, name: impl Into<String>) -> Self {
        self.agent = Some(name.into());
        self
    }

    /// Sets the name of the model that makes the calls, for calls that do not name one. Sessions below it inherit it.
    ///
    /// ```
    /// use windlass_core::{Session, SessionId};
    /// let session = Session::new(SessionId::new("s1")).with_model("claude");
    /// assert_eq!(session.model(), Some("claude"));
    /// ```
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Returns the model that makes the calls, if it was set.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Sets the identity behind its calls. It is recorded with each of them.
    ///
    /// ```
    /// use windlass_core::{Principal, Session, SessionId};
    /// let token = Principal::Token { name: "ci".into() };
    /// let session = Session::new(SessionId::new("s1")).for_principal(token.clone());
    /// assert_eq!(session.principal(), &token);
    /// ```
    #[must_use]
    pub fn for_principal(self, principal: Principal) -> Self {
        self.narrow(SessionLimits { principal: Some(principal), ..SessionLimits::default() })
    }

    /// Returns the identity behind its calls.
    pub fn principal(&self) -> &Principal {
        self.rights.principal()
    }

    /// Takes over the agent and parent of the session that asked, to continue in its place.
    ///
    /// ```
    /// use windlass_core::{Requester, Session, SessionId};
    /// let asker = Requester { agent: Some("reviewer".into()), parent: Some(SessionId::new("s1")), depth: 1 };
    /// let session = Session::new(SessionId::new("s2")).on_behalf_of(&asker);
    /// assert_eq!((session.agent(), session.parent()), ("reviewer", Some(&SessionId::new("s1"))));
    /// ```
    #[must_use]
    pub fn on_behalf_of(mut self, asker: &Requester) -> Self {
        self.agent.clone_from(&asker.agent);
        self.parent.clone_from(&asker.parent);
        self.ancestors = asker.parent.iter().cloned().collect();
        self.overrides.depth = Some(asker.depth).filter(|depth| *depth > 0);
        self
    }

    /// Sets a budget, in addition to those of the sessions above it.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.ledger = Arc::new(Ledger::new(budget, self.ledger.above()));
        self
    }

    /// Returns the name of its agent. Default: `main`, or `subagent` below another session.
    pub fn agent(&self) -> &str {
        let usual = if self.parent.is_some() { "subagent" } else { "main" };
        self.agent.as_deref().unwrap_or(usual)
    }

    /// Narrows the rights. They can never grow again.
    #[must_use]
    pub fn narrow(mut self, limits: impl Into<SessionLimits>) -> Self {
        self.rights = self.rights.narrow(limits.into());
        *self.policy.lock() = None;
        self
    }

    /// Returns the upper bound of what it may do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Restores rules that people gave the session with earlier answers ([`Approval::rules_of`](crate::Approval::rules_of)). Limits of its
    /// own rights still bind.
    ///
    /// ```
    /// use windlass_core::{Approval, Session, SessionId};
    /// fn go_on(id: SessionId, workspace: &std::path::Path, answers: &[Approval]) -> Session {
    ///     let rules = answers.iter().flat_map(|one| one.rules_of(&id, workspace)).cloned().collect::<Vec<_>>();
    ///     Session::new(id).with_given_rules(&rules)
    /// }
    /// assert_eq!(go_on(SessionId::new("s1"), "/w".as_ref(), &[]).id().as_str(), "s1");
    /// ```
    #[must_use]
    pub fn with_given_rules(self, rules: &[String]) -> Self {
        self.allow(rules);
        self
    }

    /// Adds rules that a person gave together with an answer. Limits of the session's own rights still bind.
    pub(crate) fn allow(&self, rules: &[String]) {
        let rulings = rules
            .iter()
            .filter_map(|rule| rule.parse().ok())
            .map(|rule| ActiveRule::new(Decision::Allow, rule).in_layer(Layer::Session));
        self.allowed.lock().extend(rulings);
        *self.policy.lock() = None;
    }

    /// Returns a policy narrowed by the rights of this session. The result is cached until the policy changes.
    pub(crate) fn narrowed(&self, engine: &Arc<Policy>) -> Arc<Policy> {
        let rights = &self.rights;
        let has_rights =
            rights.has_layers() || rights.net().is_some() || rights.sandbox().is_some();
        if !has_rights && self.allowed.lock().is_empty() {
            return engine.clone();
        }
        let mut known = self.policy.lock();
        if let Some(known) = known.as_ref().filter(|known| Arc::ptr_eq(&known.engine, engine)) {
            return known.narrowed.clone();
        }
        let allowed = self.allowed.lock().clone();
        let narrowed =
            Arc::new(allowed.into_iter().fold(engine.narrowed(rights), Policy::with_ruling));
        *known = Some(NarrowedPolicy { engine: engine.clone(), narrowed: narrowed.clone() });
        narrowed
    }

    /// Marks the session as one of a program that makes one call and ends: its jobs end then too, and the model gets a note.
    #[must_use]
    pub fn for_one_call(mut self) -> Self {
        self.is_for_one_call = true;
        self
    }

    /// Returns whether the program that made it ends after one call.
    pub fn is_for_one_call(&self) -> bool {
        self.is_for_one_call
    }

    /// Sets the limits and settings that differ for this session.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Holds changes as proposals instead of making them.
    #[must_use]
    pub fn with_proposals(mut self, proposals: Arc<Proposals>) -> Self {
        self.proposals = Some(proposals);
        self
    }

    /// Returns its proposals, if its changes are held.
    pub fn proposals(&self) -> Option<&Arc<Proposals>> {
        self.proposals.as_ref()
    }

    /// Returns its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the session that started it, if it belongs to a sub-agent.
    pub fn parent(&self) -> Option<&SessionId> {
        self.parent.as_ref()
    }

    /// Returns the sessions above it, the outermost first: their attendants are asked about its calls too.
    pub(crate) fn ancestors(&self) -> &Arc<[SessionId]> {
        &self.ancestors
    }

    /// Returns the tools that it may see and call.
    pub fn predicate(&self) -> &Predicate {
        self.rights.tools()
    }

    /// Returns the limits and settings that differ for this session.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Returns its jobs, running and ended.
    pub fn all_jobs(&self) -> Vec<Arc<Job>> {
        self.jobs.all()
    }

    /// Ends every running job, and waits until all have ended.
    pub async fn end_jobs(&self) {
        let jobs = self.jobs.all();
        let stopped =
            jobs.iter().filter(|job| job.end().is_none()).map(|job| job.stop(Signal::TERM));
        futures_util::future::join_all(stopped).await;
    }

    /// Returns the table of its jobs.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Stops every call of this session and of those below it.
    pub fn cancel(&self) {
        self.interrupted.cancel();
        self.cancel.cancel();
    }

    /// Returns whether a person interrupted it ([`Engine::interrupt`](crate::Engine::interrupt)) or it was cancelled. No further call of it
    /// begins.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Completes when it is interrupted or cancelled.
    pub fn interrupted(&self) -> impl Future<Output = ()> + Send + '_ {
        self.interrupted.cancelled()
    }

    /// Marks it as interrupted.
    pub(crate) fn mark_interrupted(&self) {
        self.interrupted.cancel();
    }

    /// Returns whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the token that cancels its calls.
    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns the name of its agent, if it was set.
    pub(crate) fn agent_name(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Returns what it has used of its budget so far, with the sessions below it.
    pub fn spent(&self) -> Spent {
        self.ledger.spent()
    }

    /// Charges a cost in millionths, which only the caller of a model knows.
    pub fn spend_cost(&self, cost: u64) {
        self.ledger.spend_cost(cost);
    }

    /// Charges bytes that one of its calls received or sent over the network.
    pub fn spend_network(&self, bytes: u64) {
        self.ledger.spend_network(bytes);
    }

    /// Returns the permits of its calls. The first call sets their number.
    pub(crate) fn permits(&self, at_once: usize) -> Arc<Semaphore> {
        self.permits.get_or_init(|| Arc::new(Semaphore::new(at_once))).clone()
    }

    /// Returns the account of its budget.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Marks the session as having read untrusted text. Keeps the first source.
    ///
    /// ```
    /// use windlass_core::{Session, SessionId};
    /// let session = Session::new(SessionId::new("s1"));
    /// assert_eq!(session.untrusted(), None);
    /// session.mark_untrusted("https://example.org");
    /// assert_eq!(session.untrusted().as_deref(), Some("https://example.org"));
    /// ```
    pub fn mark_untrusted(&self, source: &str) {
        self.untrusted.lock().get_or_insert_with(|| source.to_owned());
    }

    /// Returns the origin of the first untrusted text, if it has read any.
    pub fn untrusted(&self) -> Option<String> {
        self.untrusted.lock().clone()
    }

    /// Remembers that these lines of a file (counted from 0) were shown; `total` is the number of its lines, if known.
    pub fn saw(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        lines: Range<u64>,
        total: Option<u64>,
        hash: Option<ContentHash>,
    ) {
        self.seen.lock().saw(path, fingerprint, lines, total, hash);
    }

    /// Remembers that the session wrote a file itself, so that it counts as seen.
    pub fn wrote(&self, path: &Path, fingerprint: Fingerprint) {
        self.seen.lock().wrote(path, fingerprint);
    }

    /// Forgets the seen state of a file, because a call changed it that had not seen all of it.
    pub fn forget(&self, path: &Path) {
        self.seen.lock().forget(path);
    }

    /// Returns the changes of the seen files since the last call of this, for the record. [`Session::recall`] restores them in another
    /// process. `None` if there are none.
    pub fn take_news(&self) -> Option<SeenRecord> {
        self.seen.lock().take_news()
    }

    /// Restores seen files from the record of an earlier part of this session.
    pub fn recall(&self, news: SeenRecord) {
        self.seen.lock().recall(news);
    }

    /// Checks that the session has seen all of a file that it is about to replace, under this name or another one. With the hash of the
    /// current content, a file with the same content counts as unchanged although its times changed, and one that changed within one
    /// tick of the clock counts as changed.
    pub fn has_seen(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        hash: Option<ContentHash>,
    ) -> Result<(), Unseen> {
        self.seen.lock().check_seen(path, fingerprint, hash)
    }
}

/// The policy of an engine, and the same policy narrowed by the rights of a session.
#[derive(Debug)]
struct NarrowedPolicy {
    engine: Arc<Policy>,
    narrowed: Arc<Policy>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.jobs.kill_all();
    }
}

/// The part of a file that a session has not seen.
///
/// ```
/// use windlass_core::{Fingerprint, Session, SessionId, Unseen};
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let session = Session::new(SessionId::new("s1"));
/// let path = "/w/a.md".as_ref();
/// assert_eq!(session.has_seen(path, fingerprint, None), Err(Unseen::Never));
/// session.saw(path, fingerprint, 0..10, Some(30), None);
/// assert_eq!(session.has_seen(path, fingerprint, None), Err(Unseen::Lines(vec![10..30])));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unseen {
    /// It was never read.
    Never,
    /// It changed since.
    Changed,
    /// These lines (counted from 0; the last end may be open) were not shown: at least one range, in order.
    Lines(Vec<Range<u64>>),
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn fingerprint(modified: i64) -> Fingerprint {
        Fingerprint { device: 1, inode: 2, len: 3, modified, changed: modified }
    }

    fn unseen(lines: &[(u64, u64)]) -> Result<(), Unseen> {
        Err(Unseen::Lines(lines.iter().map(|(start, end)| *start..*end).collect()))
    }

    #[test]
    fn file_must_be_seen_whole_and_unchanged() {
        let session = Session::new(SessionId::new("s"));
        let path = Path::new("/w/a");
        assert_eq!(session.has_seen(path, fingerprint(1), None), Err(Unseen::Never));
        session.saw(path, fingerprint(1), 0..10, None, None);
        assert_eq!(session.has_seen(path, fingerprint(1), None), unseen(&[(10, u64::MAX)]));
        session.saw(path, fingerprint(1), 20..30, Some(30), None);
        assert_eq!(session.has_seen(path, fingerprint(1), None), unseen(&[(10, 20)]));
        session.saw(path, fingerprint(1), 12..15, None, None);
        assert_eq!(session.has_seen(path, fingerprint(1), None), unseen(&[(10, 12), (15, 20)]));
        session.saw(path, fingerprint(1), 5..20, None, None);
        assert_eq!(session.has_seen(path, fingerprint(1), None), Ok(()));
        assert_eq!(session.has_seen(path, fingerprint(2), None), Err(Unseen::Changed));
        session.wrote(path, fingerprint(3));
        assert_eq!(session.has_seen(path, fingerprint(3), None), Ok(()));
        session.forget(path);
        assert_eq!(session.has_seen(path, fingerprint(3), None), Err(Unseen::Never));
    }

    #[test]
    fn content_counts_more_than_times() {
        let session = Session::new(SessionId::new("s"));
        let path = Path::new("/w/a");
        let (one, two) = (Some(ContentHash::of(b"one")), Some(ContentHash::of(b"two")));
        session.saw(path, fingerprint(1), 0..1, Some(1), one);
        assert_eq!(session.has_seen(path, fingerprint(2), one), Ok(()), "only touched");
        assert_eq!(session.has_seen(path, fingerprint(1), two), Err(Unseen::Changed), "same tick");
        assert_eq!(
            session.has_seen(Path::new("/w/b"), fingerprint(2), one),
            Ok(()),
            "another name"
        );
        let other = Fingerprint { inode: 9, ..fingerprint(1) };
        assert_eq!(session.has_seen(path, other, one), Ok(()), "saved again by a rename");
        assert_eq!(session.has_seen(Path::new("/w/b"), other, one), Err(Unseen::Never));
    }

    /// Returns the changes of the seen files after a round trip through JSON.
    fn recorded(session: &Session) -> SeenRecord {
        let text = serde_json::to_string(&session.take_news().unwrap()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn seen_files_can_be_restored_in_another_session() {
        let (here, there) = (Session::new(SessionId::new("s")), Session::new(SessionId::new("s")));
        let path = Path::new("/w/caf\u{e9}\n");
        assert_eq!(here.take_news(), None);
        here.saw(path, fingerprint(1), 0..3, Some(3), Some(ContentHash::of(b"1")));
        there.recall(recorded(&here));
        assert_eq!(there.has_seen(path, fingerprint(1), None), Ok(()));
        assert_eq!(here.take_news(), None);
        here.forget(path);
        there.recall(recorded(&here));
        assert_eq!(there.has_seen(path, fingerprint(1), None), Err(Unseen::Never));
        for nonsense in [Value::Null, serde_json::json!([1]), serde_json::json!({"/w/a": {"x": 1}})]
        {
            there.recall(serde_json::from_value(nonsense).unwrap());
        }
    }
}
