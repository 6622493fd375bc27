//! The tools of an engine, by owner. An owner's tools can be replaced while calls run.
//!
//! The registry stores the tools of each owner, and derives the [`Toolbox`] of each session from them. So a tool that was replaced by
//! another owner's comes back when that owner withdraws its own. Running calls keep the tool that they began with.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::sync::Lock;
use crate::toolbox::{Slot, is_valid_name};
use crate::{NameClash, Session, SessionId, ToolHandle, ToolSpec, Toolbox, ToolboxError};

/// A change of the offered tools.
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
    /// Number of changes so far.
    pub generation: u64,
    /// Owner whose tools were replaced.
    pub owner: Arc<str>,
    /// Session whose tools changed; `None` for all sessions.
    pub session: Option<SessionId>,
    /// Names that were not offered before.
    pub added: Vec<String>,
    /// Names that are no longer offered.
    pub removed: Vec<String>,
    /// Names whose definition changed.
    pub changed: Vec<String>,
}

/// The result of one replacement of an owner's tools.
#[derive(Default)]
pub(crate) struct Replacement {
    /// Change that sessions see, if any.
    pub(crate) change: Option<ToolsChanged>,
    /// True if callable tools were removed or replaced, so that their cached answers are stale.
    pub(crate) has_withdrawn: bool,
    pub(crate) warnings: Vec<String>,
}

/// Position in the order of owners. It decides the order of tools, and which of two tools with the same name stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank(pub(crate) usize);

/// Tools of all owners, and a counter of their changes.
pub(crate) struct Registry {
    owners: Lock<Owners>,
    generation: AtomicU64,
}

/// Owners, with the toolboxes derived from them.
#[derive(Default)]
struct Owners {
    /// Owners by rank.
    all: Vec<Owner>,
    merges: HashMap<String, NameClash>,
    shared: Arc<Toolbox>,
    sessions: Vec<SessionLayer>,
    /// Warnings of the last merge, so that each is reported once.
    warned: HashSet<String>,
}

/// One owner of tools.
struct Owner {
    name: Arc<str>,
    slots: Vec<Arc<Slot>>,
}

/// Tools that one session has for itself, and the toolbox derived with them.
struct SessionLayer {
    session: Weak<Session>,
    slots: Vec<(Rank, Vec<Arc<Slot>>)>,
    merged: Arc<Toolbox>,
}

impl SessionLayer {
    /// Returns the session's own tools of an owner, if it has some.
    fn slots_of(&self, rank: Rank) -> Option<&[Arc<Slot>]> {
        self.slots.iter().find(|(other, _)| *other == rank).map(|(_, slots)| &**slots)
    }

    /// Returns whether this is the layer of a session.
    fn is_of(&self, session: &Session) -> bool {
        std::ptr::eq(self.session.as_ptr(), session)
    }
}

impl Registry {
    /// Owner of the tools that the engine was built with.
    pub(crate) const BUILT_IN: &'static str = "built-in";

    /// Makes a registry with the built-in tools, and the rules for equal names by owner.
    pub(crate) fn new(built_in: Toolbox, merges: HashMap<String, NameClash>) -> Self {
        let owner = Owner { name: Self::BUILT_IN.into(), slots: built_in.slots().to_vec() };
        let owners =
            Owners { all: vec![owner], merges, shared: Arc::new(built_in), ..Owners::default() };
        Self { owners: Lock::new(owners), generation: AtomicU64::new(0) }
    }

    /// Adds an owner at the end, with the definitions that it is pinned to. Returns its rank and warnings.
    pub(crate) fn add_owner(&self, name: &str, pinned: Option<&[ToolSpec]>) -> (Rank, Vec<String>) {
        let mut owners = self.owners.lock();
        let rank = owners.add(name);
        let tools = pinned.unwrap_or_default().iter();
        let slots = tools.map(|spec| Arc::new(Slot::pinned(spec.clone(), rank))).collect();
        let (slots, mut warnings) = valid_slots(name, slots);
        if !slots.is_empty() {
            owners.all[rank.0].slots = slots;
            warnings.extend(owners.merge());
        }
        (rank, warnings)
    }

    /// Returns the tools that all sessions have.
    pub(crate) fn shared(&self) -> Arc<Toolbox> {
        self.owners.lock().shared.clone()
    }

    /// Returns the tools of a session.
    pub(crate) fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        self.owners.lock().toolbox(session)
    }

    /// Returns the number of changes so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the rank of an owner. Adds the owner if there is none with this name.
    pub(crate) fn rank_of(&self, name: &str) -> Rank {
        let mut owners = self.owners.lock();
        let found = owners.all.iter().position(|owner| *owner.name == *name);
        found.map_or_else(|| owners.add(name), Rank)
    }

    /// Returns the owner of the tool that a session gets under this name.
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
        tools: Vec<ToolHandle>,
    ) -> Replacement {
        let mut owners = self.owners.lock();
        let Some(name) = owners.all.get(rank.0).map(|owner| owner.name.clone()) else {
            return Replacement::default();
        };
        let tools = tools.into_iter().map(|tool| Arc::new(Slot::new(tool))).collect();
        let (slots, mut warnings) = valid_slots(&name, tools);
        let seen_by = |owners: &Owners| match session {
            Some(session) => owners.toolbox(session),
            None => owners.shared.clone(),
        };
        let before = seen_by(&owners);
        let withdrawn = owners.put(rank, session, slots);
        warnings.extend(owners.merge());
        let after = seen_by(&owners);
        let change = ToolboxDiff::between(&before, &after).map(|diff| ToolsChanged {
            generation: self.generation.fetch_add(1, Ordering::AcqRel) + 1,
            owner: name,
            session: session.map(|session| session.id().clone()),
            added: diff.added,
            removed: diff.removed,
            changed: diff.changed,
        });
        let has_withdrawn = withdrawn.iter().any(|slot| slot.pinned_by.is_none());
        Replacement { change, has_withdrawn, warnings }
    }
}

impl Owners {
    /// Adds an owner without tools at the end.
    fn add(&mut self, name: &str) -> Rank {
        self.all.push(Owner { name: name.into(), slots: Vec::new() });
        Rank(self.all.len() - 1)
    }

    /// Returns the toolbox of a session.
    fn toolbox(&self, session: &Session) -> Arc<Toolbox> {
        let layer = self.sessions.iter().find(|layer| layer.is_of(session));
        layer.map_or(&self.shared, |layer| &layer.merged).clone()
    }

    /// Replaces the tools of an owner, for one session or for all, and returns the previous ones.
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

    /// Derives the toolboxes of all sessions again. Returns the warnings that were not reported before.
    fn merge(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        let shared = Arc::new(self.merged_toolbox(None, &mut warnings));
        let merged: Vec<_> = self
            .sessions
            .iter()
            .map(|layer| Arc::new(self.merged_toolbox(Some(layer), &mut warnings)))
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

    /// Derives a toolbox from all owners, with the session's own tools in `layer`.
    fn merged_toolbox(&self, layer: Option<&SessionLayer>, warnings: &mut Vec<String>) -> Toolbox {
        let mut toolbox = Toolbox::new();
        for (at, owner) in self.all.iter().enumerate() {
            let own = layer.and_then(|layer| layer.slots_of(Rank(at)));
            let merge = self.merges.get(&*owner.name).copied().unwrap_or_default();
            for slot in own.unwrap_or(&owner.slots) {
                let name = slot.tool.name();
                if toolbox.slot(name).is_none() {
                    toolbox.put(slot.clone());
                } else if merge == NameClash::Replace {
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

/// Returns the tools of an owner that have a valid and unique name, and a warning for each of the others.
fn valid_slots(owner: &str, slots: Vec<Arc<Slot>>) -> (Vec<Arc<Slot>>, Vec<String>) {
    let mut valid_slots: Vec<Arc<Slot>> = Vec::with_capacity(slots.len());
    let mut warnings = Vec::new();
    for slot in slots {
        let name = slot.tool.name();
        let error = if !is_valid_name(name) {
            ToolboxError::BadName(name.to_owned())
        } else if valid_slots.iter().any(|other| other.tool.name() == name) {
            ToolboxError::Duplicate(name.to_owned())
        } else {
            valid_slots.push(slot);
            continue;
        };
        warnings.push(format!("a tool of {owner} was left out: {error}"));
    }
    (valid_slots, warnings)
}

/// Names by which two toolboxes differ.
#[derive(Default)]
struct ToolboxDiff {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl ToolboxDiff {
    /// Compares two toolboxes. Returns `None` if they are equal.
    fn between(before: &Toolbox, after: &Toolbox) -> Option<Self> {
        let mut diff = Self::default();
        for slot in after.slots() {
            let name = slot.tool.name();
            match before.slot(name) {
                None => diff.added.push(name.to_owned()),
                Some(old) if Arc::ptr_eq(old, slot) || old.spec() == slot.spec() => {}
                Some(_) => diff.changed.push(name.to_owned()),
            }
        }
        let is_gone = |name: &&str| after.slot(name).is_none();
        diff.removed = before.names().filter(is_gone).map(str::to_owned).collect();
        let is_empty = diff.added.is_empty() && diff.removed.is_empty() && diff.changed.is_empty();
        (!is_empty).then_some(diff)
    }
}
