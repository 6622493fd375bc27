//! One conversation: its id, its rights, what it has seen of the files.

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
    Asker, Budget, ContentHash, Decision, Fingerprint, Layer, Limits, Overrides, Policy, Predicate,
    Principal, Proposals, Rights, Ruling, SessionId, Signal, Spent,
};

/// One conversation.
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
    /// The sessions above it, the outermost first.
    ancestors: Arc<[SessionId]>,
    agent: Option<String>,
    /// The model whose calls these are, where a call does not say another.
    model: Option<String>,
    rights: Rights,
    /// The policy of the engine narrowed by the rights, as it was last computed.
    policy: Lock<Option<NarrowedPolicy>>,
    /// Rules that a person gave with an answer.
    allowed: Lock<Vec<Ruling>>,
    overrides: Overrides,
    ledger: Arc<Ledger>,
    cancel: CancellationToken,
    interrupted: CancellationToken,
    is_for_one_call: bool,
    seen: Lock<SeenFiles>,
    /// Where the first text came from that somebody else may have written. One for a session and all below it: what a sub-agent
    /// has read, its parent is told.
    untrusted: Arc<Lock<Option<String>>>,
    proposals: Option<Arc<Proposals>>,
    /// The session whose `/tmp` it has, if not its own.
    tmp_of: Option<SessionId>,
    /// The permits of its calls. One for a session and all below it: a sub-agent does not add to them.
    permits: Arc<OnceLock<Arc<Semaphore>>>,
    jobs: Jobs,
}

impl Session {
    /// A session with all rights that the policy leaves it.
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

    /// A session below this one: at most its rights, one deeper, cancelled with it. What it proposes is proposed by this one.
    ///
    /// ```
    /// use windlass_core::{Limits, Mode, Overrides, Predicate, Session, SessionId};
    /// let parent = Session::new(SessionId::new("s1")).narrow(Predicate::allow(["read", "write"]));
    /// let limits = Limits { mode: Some(Mode::Plan), ..Limits::default() };
    /// let child = parent.child(SessionId::new("s2"), limits, &Overrides::default());
    /// assert_eq!(child.rights().modes().collect::<Vec<_>>(), [Mode::Plan]);
    /// ```
    #[must_use]
    pub fn child(&self, id: SessionId, limits: impl Into<Limits>, overrides: &Overrides) -> Self {
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

    /// A session in which a call is tried out: it has seen what this one has, and what it changes is only proposed.
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

    /// The same session with the `/tmp` of another: for a person who takes back or applies what that one did.
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

    /// The session whose `/tmp` it has.
    pub(crate) fn tmp_session(&self) -> &SessionId {
        self.tmp_of.as_ref().unwrap_or(&self.id)
    }

    /// With the name of the agent whose calls these are, for the people who are asked about them.
    #[must_use]
    pub fn with_agent(mut self, name: impl Into<String>) -> Self {
        self.agent = Some(name.into());
        self
    }

    /// With the name of the model whose calls these are, for calls that do not name one. A session below it has it too.
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

    /// The model whose calls these are, if one was named.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Makes another identity the one behind its calls. It is on record with each of them.
    ///
    /// ```
    /// use windlass_core::{Principal, Session, SessionId};
    /// let token = Principal::Token { name: "ci".into() };
    /// let session = Session::new(SessionId::new("s1")).for_principal(token.clone());
    /// assert_eq!(session.principal(), &token);
    /// ```
    #[must_use]
    pub fn for_principal(self, principal: Principal) -> Self {
        self.narrow(Limits { principal: Some(principal), ..Limits::default() })
    }

    /// The identity behind its calls.
    pub fn principal(&self) -> &Principal {
        self.rights.principal()
    }

    /// With the agent and the parent of the one that asked a question, to go on in its place.
    ///
    /// ```
    /// use windlass_core::{Asker, Session, SessionId};
    /// let asker = Asker { agent: Some("reviewer".into()), parent: Some(SessionId::new("s1")), depth: 1 };
    /// let session = Session::new(SessionId::new("s2")).on_behalf_of(&asker);
    /// assert_eq!((session.agent(), session.parent()), ("reviewer", Some(&SessionId::new("s1"))));
    /// ```
    #[must_use]
    pub fn on_behalf_of(mut self, asker: &Asker) -> Self {
        self.agent.clone_from(&asker.agent);
        self.parent.clone_from(&asker.parent);
        self.ancestors = asker.parent.iter().cloned().collect();
        self.overrides.depth = Some(asker.depth).filter(|depth| *depth > 0);
        self
    }

    /// With a limit of what it may do, besides those of the sessions above it.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.ledger = Arc::new(Ledger::new(budget, self.ledger.above()));
        self
    }

    /// The agent that it belongs to: `main` where nothing else was said, `subagent` below another session.
    pub fn agent(&self) -> &str {
        let usual = if self.parent.is_some() { "subagent" } else { "main" };
        self.agent.as_deref().unwrap_or(usual)
    }

    /// With fewer rights. They can never grow again.
    #[must_use]
    pub fn narrow(mut self, limits: impl Into<Limits>) -> Self {
        self.rights = self.rights.narrow(limits.into());
        *self.policy.lock() = None;
        self
    }

    /// The most that it may do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Goes on with rules that people gave the session with earlier answers ([`Approval::rules_of`](crate::Approval::rules_of)). Limits
    /// of its own rights bind all the same.
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

    /// Adds rules that a person gave with an answer. Limits of the session's own rights bind all the same.
    pub(crate) fn allow(&self, rules: &[String]) {
        let rulings = rules
            .iter()
            .filter_map(|rule| rule.parse().ok())
            .map(|rule| Ruling::new(Decision::Allow, rule).in_layer(Layer::Session));
        self.allowed.lock().extend(rulings);
        *self.policy.lock() = None;
    }

    /// A policy narrowed by the rights of this session. It is computed once for each policy.
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

    /// For a program that makes one call and ends: a job of it ends then too, and the model is told so.
    #[must_use]
    pub fn for_one_call(mut self) -> Self {
        self.is_for_one_call = true;
        self
    }

    /// Tells whether the program that made it ends after one call.
    pub fn is_for_one_call(&self) -> bool {
        self.is_for_one_call
    }

    /// With these limits and settings.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// With changes held as proposals instead of made.
    #[must_use]
    pub fn with_proposals(mut self, proposals: Arc<Proposals>) -> Self {
        self.proposals = Some(proposals);
        self
    }

    /// What it proposes, if its changes are held.
    pub fn proposals(&self) -> Option<&Arc<Proposals>> {
        self.proposals.as_ref()
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session that started it, if it is a sub-agent's.
    pub fn parent(&self) -> Option<&SessionId> {
        self.parent.as_ref()
    }

    /// The sessions above it, the outermost first: their attendants are asked about its calls too.
    pub(crate) fn ancestors(&self) -> &Arc<[SessionId]> {
        &self.ancestors
    }

    /// The tools that it may see and call.
    pub fn predicate(&self) -> &Predicate {
        self.rights.tools()
    }

    /// Its limits and settings.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// The programs that go on behind its calls, and those that have ended.
    pub fn all_jobs(&self) -> Vec<Arc<Job>> {
        self.jobs.all()
    }

    /// Ends every program that goes on behind its calls, and waits for that.
    pub async fn end_jobs(&self) {
        let jobs = self.jobs.all();
        let stopped =
            jobs.iter().filter(|job| job.end().is_none()).map(|job| job.stop(Signal::TERM));
        futures_util::future::join_all(stopped).await;
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Stops every call of this session and of those below it.
    pub fn cancel(&self) {
        self.interrupted.cancel();
        self.cancel.cancel();
    }

    /// Tells whether a person interrupted it ([`Engine::interrupt`](crate::Engine::interrupt)), or it was stopped. No call of it
    /// begins any more.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Ends when it is interrupted or stopped.
    pub fn interrupted(&self) -> impl Future<Output = ()> + Send + '_ {
        self.interrupted.cancelled()
    }

    pub(crate) fn mark_interrupted(&self) {
        self.interrupted.cancel();
    }

    /// Whether it was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The name of the agent whose calls these are, if it was given one.
    pub(crate) fn agent_name(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// What it has done so far, with the sessions below it.
    pub fn spent(&self) -> Spent {
        self.ledger.spent()
    }

    /// Counts what was paid for it, in millionths: models cost, and only their callers know how much.
    pub fn spend_cost(&self, cost: u64) {
        self.ledger.spend_cost(cost);
    }

    /// Counts bytes that one of its calls brought in or sent out over the network.
    pub fn spend_network(&self, bytes: u64) {
        self.ledger.spend_network(bytes);
    }

    /// The permits of its calls; the first engine that asks says how many there are.
    pub(crate) fn permits(&self, at_once: usize) -> Arc<Semaphore> {
        self.permits.get_or_init(|| Arc::new(Semaphore::new(at_once))).clone()
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Remembers that it has read what somebody else may have written; the first source is kept.
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

    /// Where the first text came from that somebody else may have written, if it has read any.
    pub fn untrusted(&self) -> Option<String> {
        self.untrusted.lock().clone()
    }

    /// Remembers that these lines of a file (counted from 0) were shown; `total` if all of its lines are known.
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

    /// Remembers what the session wrote itself: it counts as seen.
    pub fn wrote(&self, path: &Path, fingerprint: Fingerprint) {
        self.seen.lock().wrote(path, fingerprint);
    }

    /// Forgets what was seen of a file: it was changed by a call that had not seen all of it.
    pub fn forget(&self, path: &Path) {
        self.seen.lock().forget(path);
    }

    /// Returns what the session has learnt of files since the last call of this, for the record: with it, [`Session::recall`] makes
    /// another process know what this one has seen. `None` if nothing.
    pub fn take_news(&self) -> Option<SeenRecord> {
        self.seen.lock().take_news()
    }

    /// Takes over what was recorded of an earlier part of this session.
    pub fn recall(&self, news: SeenRecord) {
        self.seen.lock().recall(news);
    }

    /// Whether the session has seen all of what it is about to replace: the object under this name, or the same object under
    /// another. With the hash of what is there, a file that was only touched, or saved again as it was, counts as unchanged; and one
    /// that changed within one tick of the clock as changed.
    pub fn has_seen(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        hash: Option<ContentHash>,
    ) -> Result<(), Unseen> {
        self.seen.lock().knows(path, fingerprint, hash)
    }
}

/// The policy of an engine, and the same narrowed by the rights of a session.
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

/// What of a file a session does not know.
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
    fn a_file_must_be_seen_whole_and_unchanged() {
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
    fn content_says_more_than_times() {
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

    /// What a session has to say, written to a record and read back.
    fn recorded(session: &Session) -> SeenRecord {
        let text = serde_json::to_string(&session.take_news().unwrap()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_seen_can_be_recalled_elsewhere() {
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
