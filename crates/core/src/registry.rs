//! The tools of an engine, by owner. An owner's tools can be replaced while calls run.
//!
//! The registry keeps what each owner has, and derives the [`Toolbox`] that sessions see from it. So a tool that another one had
//! replaced comes back when that owner withdraws. Calls that run keep the tool that they began with.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::sync::Lock;
use crate::toolbox::{Slot, is_name};
use crate::{Handle, Merge, Session, SessionId, Spec, Toolbox, ToolboxError};

/// A change of the tools on offer.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Engine, EventKind, testing::{EmptyHost, MockTool}};
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let mut events = engine.subscribe();
/// engine.replace_tools("weather", vec![MockTool::named("forecast").into()]);
/// let Some(EventKind::Tools(change)) = events.try_next().map(|event| event.kind) else { panic!("it is told at once") };
/// assert_eq!((change.generation, &*change.added), (1, &["forecast".to_owned()][..]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolsChanged {
    /// The number of changes so far.
    pub generation: u64,
    /// The owner whose tools were replaced.
    pub owner: Arc<str>,
    /// The session whose tools changed; all sessions without one.
    pub session: Option<SessionId>,
    /// Names that were not on offer before.
    pub added: Vec<String>,
    /// Names that are no longer on offer.
    pub removed: Vec<String>,
    /// Names whose definition changed.
    pub changed: Vec<String>,
}

/// The effect of one replacement.
#[derive(Default)]
pub(crate) struct Replacement {
    /// The change, if sessions see one.
    pub(crate) change: Option<ToolsChanged>,
    /// Whether tools that could be called are gone or replaced, so that their cached answers are stale.
    pub(crate) has_withdrawn: bool,
    pub(crate) warnings: Vec<String>,
}

/// A position in the order of owners. The order decides the order of tools, and which of two equal names stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank(pub(crate) usize);

pub(crate) struct Registry {
    owners: Lock<Owners>,
    generation: AtomicU64,
}

#[derive(Default)]
struct Owners {
    /// In the order of their ranks.
    all: Vec<Owner>,
    merges: HashMap<String, Merge>,
    shared: Arc<Toolbox>,
    sessions: Vec<SessionLayer>,
    /// Warnings of the last merge, so that each is given once.
    warned: HashSet<String>,
}

struct Owner {
    name: Arc<str>,
    slots: Vec<Arc<Slot>>,
}

/// The tools that one session has for itself.
struct SessionLayer {
    session: Weak<Session>,
    slots: Vec<(Rank, Vec<Arc<Slot>>)>,
    merged: Arc<Toolbox>,
}

impl SessionLayer {
    fn slots_of(&self, rank: Rank) -> Option<&[Arc<Slot>]> {
        self.slots.iter().find(|(other, _)| *other == rank).map(|(_, slots)| &**slots)
    }

    fn is_of(&self, session: &Session) -> bool {
        std::ptr::eq(self.session.as_ptr(), session)
    }
}

impl Registry {
    /// The owner of the tools that the engine was built with.
    pub(crate) const BUILT_IN: &'static str = "built-in";

    pub(crate) fn new(built_in: Toolbox, merges: HashMap<String, Merge>) -> Self {
        let owner = Owner { name: Self::BUILT_IN.into(), slots: built_in.slots().to_vec() };
        let owners =
            Owners { all: vec![owner], merges, shared: Arc::new(built_in), ..Owners::default() };
        Self { owners: Lock::new(owners), generation: AtomicU64::new(0) }
    }

    /// Adds an owner at the end, with the definitions that it is pinned to.
    pub(crate) fn add_owner(&self, name: &str, pinned: Option<&[Spec]>) -> (Rank, Vec<String>) {
        let mut owners = self.owners.lock();
        let rank = owners.add(name);
        let tools = pinned.unwrap_or_default().iter();
        let slots = tools.map(|spec| Arc::new(Slot::pinned(spec.clone(), rank))).collect();
        let (slots, mut warnings) = accepted(name, slots);
        if !slots.is_empty() {
            owners.all[rank.0].slots = slots;
            warnings.extend(owners.merge());
        }
        (rank, warnings)
    }

    /// The tools that all sessions have.
    pub(crate) fn shared(&self) -> Arc<Toolbox> {
        self.owners.lock().shared.clone()
    }

    /// The tools that a session has.
    pub(crate) fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        self.owners.lock().toolbox(session)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The rank of an owner, which is added if there is none of that name.
    pub(crate) fn rank_of(&self, name: &str) -> Rank {
        let mut owners = self.owners.lock();
        let found = owners.all.iter().position(|owner| *owner.name == *name);
        found.map_or_else(|| owners.add(name), Rank)
    }

    /// The owner whose tool a session gets under this name.
    pub(crate) fn owner_of(&self, session: &Session, tool: &str) -> Option<Arc<str>> {
        let owners = self.owners.lock();
        let toolbox = owners.toolbox(session);
        let slot = toolbox.slot(tool)?;
        let layer = owners.sessions.iter().find(|layer| layer.is_of(session));
        let is_of = |(at, owner): &(usize, &Owner)| {
            let own = layer.and_then(|layer| layer.slots_of(Rank(*at)));
            own.unwrap_or(&owner.slots).iter().any(|other| Arc::ptr_eq(other, slot))
        };
        owners.all.iter().enumerate().find(is_of).map(|(_, owner)| owner.name.clone())
    }

    /// Replaces all tools of an owner, for one session or for all.
    pub(crate) fn replace(
        &self,
        rank: Rank,
        session: Option<&Arc<Session>>,
        tools: Vec<Handle>,
    ) -> Replacement {
        let mut owners = self.owners.lock();
        let Some(name) = owners.all.get(rank.0).map(|owner| owner.name.clone()) else {
            return Replacement::default();
        };
        let tools = tools.into_iter().map(|tool| Arc::new(Slot::new(tool))).collect();
        let (slots, mut warnings) = accepted(&name, tools);
        let seen_by = |owners: &Owners| match session {
            Some(session) => owners.toolbox(session),
            None => owners.shared.clone(),
        };
        let before = seen_by(&owners);
        let withdrawn = owners.put(rank, session, slots);
        warnings.extend(owners.merge());
        let after = seen_by(&owners);
        let change = Difference::between(&before, &after).map(|difference| ToolsChanged {
            generation: self.generation.fetch_add(1, Ordering::AcqRel) + 1,
            owner: name,
            session: session.map(|session| session.id().clone()),
            added: difference.added,
            removed: difference.removed,
            changed: difference.changed,
        });
        let has_withdrawn = withdrawn.iter().any(|slot| slot.pinned_by.is_none());
        Replacement { change, has_withdrawn, warnings }
    }
}

impl Owners {
    fn add(&mut self, name: &str) -> Rank {
        self.all.push(Owner { name: name.into(), slots: Vec::new() });
        Rank(self.all.len() - 1)
    }

    fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        let layer = self.sessions.iter().find(|layer| layer.is_of(session));
        layer.map_or(&self.shared, |layer| &layer.merged).clone()
    }

    /// Gives an owner other slots, and returns those that it had.
    fn put(
        &mut self,
        rank: Rank,
        session: Option<&Arc<Session>>,
        slots: Vec<Arc<Slot>>,
    ) -> Vec<Arc<Slot>> {
        let Some(session) = session else {
            return std::mem::replace(&mut self.all[rank.0].slots, slots);
        };
        self.sessions.retain(|layer| layer.session.strong_count() > 0);
        let at = self.sessions.iter().position(|layer| layer.is_of(session));
        let at = at.unwrap_or_else(|| {
            let merged = self.shared.clone();
            let session = Arc::downgrade(session);
            self.sessions.push(SessionLayer { session, slots: Vec::new(), merged });
            self.sessions.len() - 1
        });
        let layer = &mut self.sessions[at].slots;
        if let Some((_, own)) = layer.iter_mut().find(|(other, _)| *other == rank) {
            return std::mem::replace(own, slots);
        }
        layer.push((rank, slots));
        Vec::new()
    }

    /// Derives the tools of all sessions anew. Returns the warnings that were not given before.
    fn merge(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        let shared = Arc::new(self.merged(None, &mut warnings));
        let merged: Vec<_> = self
            .sessions
            .iter()
            .map(|layer| Arc::new(self.merged(Some(layer), &mut warnings)))
            .collect();
        self.shared = shared;
        for (layer, merged) in self.sessions.iter_mut().zip(merged) {
            layer.merged = merged;
        }
        let mut warned = HashSet::new();
        warnings.retain(|warning| warned.insert(warning.clone()));
        warnings.retain(|warning| !self.warned.contains(warning));
        self.warned = warned;
        warnings
    }

    fn merged(&self, layer: Option<&SessionLayer>, warnings: &mut Vec<String>) -> Toolbox {
        let mut toolbox = Toolbox::new();
        for (at, owner) in self.all.iter().enumerate() {
            let own = layer.and_then(|layer| layer.slots_of(Rank(at)));
            let merge = self.merges.get(&*owner.name).copied().unwrap_or_default();
            for slot in own.unwrap_or(&owner.slots) {
                let name = slot.tool.name();
                if toolbox.slot(name).is_none() {
                    toolbox.put(slot.clone());
                } else if merge == Merge::Replace {
                    toolbox.put(slot.clone());
                    let owner = &owner.name;
                    warnings.push(format!("`{name}` of {owner} replaces a tool of the same name"));
                } else {
                    let why = ToolboxError::Duplicate(name.to_owned());
                    warnings.push(format!("a tool of {} was left out: {why}", owner.name));
                }
            }
        }
        toolbox
    }
}

/// The slots of an owner that have a valid name of their own, and a warning for each of the others.
fn accepted(owner: &str, slots: Vec<Arc<Slot>>) -> (Vec<Arc<Slot>>, Vec<String>) {
    let mut accepted: Vec<Arc<Slot>> = Vec::with_capacity(slots.len());
    let mut warnings = Vec::new();
    for slot in slots {
        let name = slot.tool.name();
        let error = if !is_name(name) {
            ToolboxError::BadName(name.to_owned())
        } else if accepted.iter().any(|other| other.tool.name() == name) {
            ToolboxError::Duplicate(name.to_owned())
        } else {
            accepted.push(slot);
            continue;
        };
        warnings.push(format!("a tool of {owner} was left out: {error}"));
    }
    (accepted, warnings)
}

/// The tools by which two toolboxes differ.
#[derive(Default)]
struct Difference {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl Difference {
    fn between(before: &Toolbox, after: &Toolbox) -> Option<Self> {
        let mut difference = Self::default();
        for slot in after.slots() {
            let name = slot.tool.name();
            match before.slot(name) {
                None => difference.added.push(name.to_owned()),
                Some(old) if Arc::ptr_eq(old, slot) || old.spec() == slot.spec() => {}
                Some(_) => difference.changed.push(name.to_owned()),
            }
        }
        let is_gone = |name: &&str| after.slot(name).is_none();
        difference.removed = before.names().filter(is_gone).map(str::to_owned).collect();
        let is_empty = difference.added.is_empty()
            && difference.removed.is_empty()
            && difference.changed.is_empty();
        (!is_empty).then_some(difference)
    }
}
