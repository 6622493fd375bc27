//! The settings of an engine, and its construction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::nested::Permits;
use super::{Engine, OnWarning, Shared, cache, schedule, toolsets};
use crate::people::{Broker, Settings as PeopleSettings};
use crate::recorder::Recorder;
use crate::registry::Registry;
use crate::sync::Lock;
use crate::{
    Approval, Attendant, History, Hook, Host, IdSource, InquiryBook, Journal, MemoryHistory,
    MemoryOutputs, MemoryState, NameClash, Outputs, Policy, QuestionRequest, Secrets,
    SequentialIds, StateStore, TextIndex, Toolbox, Toolset,
};

/// Builds an [`Engine`]. Everything but the machine has a default.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use windlass_core::{Engine, Mode, Policy, testing::EmptyHost};
/// let engine = Engine::builder(Arc::new(EmptyHost::default()))
///     .policy(Policy::new(Mode::Plan))
///     .timeout(Duration::from_secs(60))
///     .build();
/// # drop(engine);
/// ```
#[must_use]
pub struct EngineBuilder {
    host: Arc<dyn Host>,
    ids: Arc<dyn IdSource>,
    toolbox: Toolbox,
    toolsets: Vec<Arc<dyn Toolset>>,
    merges: HashMap<String, NameClash>,
    policy: Policy,
    people: PeopleSettings,
    hooks: Vec<Arc<dyn Hook>>,
    history: Arc<dyn History>,
    cache: (usize, Duration),
    at_once: usize,
    at_once_in_all: usize,
    journal: Option<Arc<dyn Journal>>,
    outputs: Arc<dyn Outputs>,
    state: Arc<dyn StateStore>,
    text_index: Option<Arc<dyn TextIndex>>,
    secrets: Secrets,
    on_warning: Option<OnWarning>,
    timeout: Duration,
    output_bytes: usize,
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder").field("toolbox", &self.toolbox).finish_non_exhaustive()
    }
}

impl EngineBuilder {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            ids: Arc::new(SequentialIds::default()),
            toolbox: Toolbox::new(),
            toolsets: Vec::new(),
            merges: HashMap::new(),
            policy: Policy::default(),
            people: PeopleSettings::default(),
            hooks: Vec::new(),
            history: Arc::new(MemoryHistory::default()),
            cache: (100, Duration::from_mins(5)),
            at_once: 10,
            at_once_in_all: 320,
            journal: None,
            outputs: Arc::new(MemoryOutputs::default()),
            state: Arc::new(MemoryState::default()),
            text_index: None,
            secrets: Secrets::default(),
            on_warning: None,
            timeout: Duration::from_mins(10),
            output_bytes: 50_000,
        }
    }

    /// Sets the tools. Default: none.
    pub fn toolbox(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Adds a source of tools that is loaded when one of its tools is first needed.
    pub fn toolset(mut self, toolset: Arc<dyn Toolset>) -> Self {
        self.toolsets.push(toolset);
        self
    }

    /// Sets how an owner's tool is merged if an earlier owner has one with the same name. Default: [`NameClash::KeepFirst`].
    pub fn merge(mut self, owner: impl Into<String>, merge: NameClash) -> Self {
        self.merges.insert(owner.into(), merge);
        self
    }

    /// Sets the rules and the mode. Default: mode `ask` without rules.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Adds an attendant of all sessions: a closure will do. Without any, a call that needs a person is denied at once.
    /// [`Engine::attend`] registers an attendant of one session.
    pub fn attendant(self, attendant: impl Attendant) -> Self {
        self.shared_attendant(Arc::new(attendant))
    }

    /// Adds an attendant of all sessions that is shared.
    pub fn shared_attendant(mut self, attendant: Arc<dyn Attendant>) -> Self {
        self.people.attendants.push(attendant);
        self
    }

    /// Approves everything that would be asked, because a person agreed in advance. Denied effects stay denied.
    pub fn approve_beforehand(mut self) -> Self {
        self.people.is_beforehand = true;
        self
    }

    /// Sets the book of approvals: open ones, and remembered answers. Default: in memory, as long as the engine lives.
    pub fn approval_book(mut self, book: Arc<dyn InquiryBook<Approval>>) -> Self {
        self.people.approvals = Some(book);
        self
    }

    /// Sets the book of questions that tools ask. Default: in memory, as long as the engine lives.
    pub fn question_book(mut self, book: Arc<dyn InquiryBook<QuestionRequest>>) -> Self {
        self.people.questions = Some(book);
        self
    }

    /// Sets the time in which a person has to answer, also after the call has ended. Default: 7 days.
    pub fn questions_expire_after(mut self, time: Duration) -> Self {
        self.people.expire_after = time;
        self
    }

    /// Adds a hook. Hooks run in the order in which they were added.
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Sets the store of the states of files before and after each change. Default: in memory, as long as the engine lives.
    pub fn history(mut self, history: Arc<dyn History>) -> Self {
        self.history = history;
        self
    }

    /// Sets the number of cached answers, and their time to live. 0 entries switch the cache off. Default: 100, 5 min.
    pub fn cache(mut self, entries: usize, ttl: Duration) -> Self {
        self.cache = (entries, ttl);
        self
    }

    /// Sets the number of calls of one session, with those below it, that run at the same time. Default: 10.
    pub fn at_once(mut self, calls: usize) -> Self {
        self.at_once = calls.max(1);
        self
    }

    /// Sets the number of calls of all sessions that run at the same time. Default: 320.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).at_once(4).at_once_in_all(64).build();
    /// # drop(engine);
    /// ```
    pub fn at_once_in_all(mut self, calls: usize) -> Self {
        self.at_once_in_all = calls.max(1);
        self
    }

    /// Sets the journal. Default: none.
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Sets the store of whole outputs. Default: in memory.
    pub fn outputs(mut self, outputs: Arc<dyn Outputs>) -> Self {
        self.outputs = outputs;
        self
    }

    /// Sets the store of values that last from call to call: todo lists, memory. Default: in memory, as long as the engine lives.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, MemoryState, testing::EmptyHost};
    /// let shared = Arc::new(MemoryState::default());
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).state_store(shared.clone()).build();
    /// # drop(engine);
    /// ```
    pub fn state_store(mut self, store: Arc<dyn StateStore>) -> Self {
        self.state = store;
        self
    }

    /// Sets the full-text index of [`Context::index`](crate::Context::index). Default: none.
    pub fn text_index(mut self, index: Arc<dyn TextIndex>) -> Self {
        self.text_index = Some(index);
        self
    }

    /// Sets the values and patterns that must not be stored, shown or sent to a model.
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets a callback for warnings that are not the fault of a call, such as a toolset that did not load. Listeners get them as events
    /// too; unlike a subscription, the callback costs nothing until there is a warning.
    pub fn on_warning(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_warning = Some(Box::new(told));
        self
    }

    /// Sets the source of ids. Default: counting, which is unique in one process only.
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the time limit of a call. Default: 10 min.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the bytes of text that a model gets of one result. Default: 50,000.
    pub fn output_bytes(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes;
        self
    }

    /// Builds the engine.
    pub fn build(self) -> Engine {
        let registry = Registry::new(self.toolbox, self.merges);
        let (toolsets, warnings) = toolsets::register(&registry, self.toolsets);
        let secrets = Arc::new(self.secrets);
        let recorder = Recorder::new(self.journal, self.host.clone(), secrets.clone());
        let recorder = Arc::new(recorder);
        let (host, ids) = (self.host.clone(), self.ids.clone());
        let shared = Shared {
            broker: Arc::new(Broker::new(self.people, host, ids, recorder.clone())),
            host: self.host,
            registry,
            toolsets,
            policy: Lock::new(Arc::new(self.policy)),
            ids: self.ids,
            hooks: self.hooks,
            history: self.history,
            cache: cache::Cache::new(self.cache.0, self.cache.1),
            scheduler: schedule::Scheduler::default(),
            permits: Permits::new(self.at_once, self.at_once_in_all),
            running: Lock::default(),
            outputs: self.outputs,
            state: self.state,
            text_index: self.text_index,
            secrets,
            recorder,
            on_warning: self.on_warning,
            timeout: self.timeout,
            output_bytes: self.output_bytes,
        };
        for warning in warnings {
            shared.warn(warning);
        }
        Engine(Arc::new(shared))
    }
}
