//! The upper bound of what a session may do: tools, rules, mode, sandbox, network, and the identity behind it.
//!
//! Rights only ever shrink. [`Rights::narrow`] is the only operation, and the fields are private, so the rights of a child are by
//! construction the intersection of its parent's and its own: a decision is the strictest of all layers.

use std::sync::Arc;

use crate::{
    ActiveRule, Confinement, ContentHash, Mode, NetworkAccess, Policy, Predicate, Principal,
    SandboxLevel, ToolSelection,
};

/// The upper bound of what a session may do.
///
/// ```
/// use windlass_core::{SessionLimits, Mode, Predicate, Rights};
/// let parent = Rights::all().narrow(SessionLimits { mode: Some(Mode::Plan), ..SessionLimits::default() });
/// let child = parent.narrow(SessionLimits { mode: Some(Mode::Yolo), ..SessionLimits::default() });
/// assert_eq!(child.modes().collect::<Vec<_>>(), [Mode::Plan, Mode::Yolo], "both bind, so the stricter one counts");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rights {
    tools: Predicate,
    /// Rules and modes of each narrowing. Every layer binds.
    layers: Vec<Arc<Policy>>,
    sandbox: Option<SandboxLevel>,
    net: Option<NetworkAccess>,
    principal: Principal,
}

/// Limits that narrow the rights of a session. Fields that are not set change nothing.
///
/// ```
/// use windlass_core::{SandboxLevel, SessionLimits, NetworkAccess, Predicate};
/// let reviewer = SessionLimits {
///     tools: Predicate::allow(["read", "grep", "bash"]),
///     sandbox: Some(SandboxLevel::ReadOnly),
///     net: Some(NetworkAccess::None),
///     ..SessionLimits::default()
/// };
/// # drop(reviewer);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SessionLimits {
    /// Tools that it may see and call.
    pub tools: Predicate,
    /// Mode for effects that none of `rules` is about.
    pub mode: Option<Mode>,
    /// Rules in addition to all others. A rule that allows overrides `mode`, but never a decision of an outer layer.
    pub rules: Vec<ActiveRule>,
    /// Minimum sandbox of its programs.
    pub sandbox: Option<SandboxLevel>,
    /// Hosts that its calls and programs may reach.
    pub net: Option<NetworkAccess>,
    /// Identity behind its calls.
    pub principal: Option<Principal>,
}

impl From<Predicate> for SessionLimits {
    fn from(tools: Predicate) -> Self {
        Self { tools, ..Self::default() }
    }
}

impl From<&ToolSelection> for SessionLimits {
    fn from(selection: &ToolSelection) -> Self {
        selection.predicate().into()
    }
}

impl Rights {
    /// Returns all rights that the policy of the engine leaves.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns a hash of the rights, the same in every process.
    pub(crate) fn digest(&self) -> ContentHash {
        let rules = |layer: &Policy| layer.rules().iter().map(ToString::to_string).collect();
        let layers: Vec<(Mode, Vec<String>)> =
            self.layers.iter().map(|layer| (layer.mode(), rules(layer))).collect();
        let text = format!("{:?} {layers:?} {:?} {:?}", self.tools, self.sandbox, self.net);
        ContentHash::of(text.as_bytes())
    }

    /// Returns the intersection of these rights and the limits.
    #[must_use]
    pub fn narrow(&self, limits: SessionLimits) -> Self {
        let mut layers = self.layers.clone();
        if limits.mode.is_some() || !limits.rules.is_empty() {
            let layer = Policy::new(limits.mode.unwrap_or(Mode::Yolo));
            layers.push(Arc::new(limits.rules.into_iter().fold(layer, Policy::with_ruling)));
        }
        Self {
            tools: self.tools.clone().and(limits.tools),
            layers,
            sandbox: stricter(self.sandbox, limits.sandbox, SandboxLevel::stricter),
            net: stricter(self.net.clone(), limits.net, |a, b| a.intersection(&b)),
            principal: limits.principal.unwrap_or_else(|| self.principal.clone()),
        }
    }

    /// Returns the tools that may be seen and called.
    pub fn tools(&self) -> &Predicate {
        &self.tools
    }

    /// Returns the mode of each layer.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        self.layers.iter().map(|layer| layer.mode())
    }

    /// Returns whether rules or modes bind besides the engine's.
    pub(crate) fn has_layers(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Returns the rules and modes that bind besides the engine's.
    pub(crate) fn layers(&self) -> &[Arc<Policy>] {
        &self.layers
    }

    /// Returns the minimum sandbox of programs.
    pub fn sandbox(&self) -> Option<SandboxLevel> {
        self.sandbox
    }

    /// Returns the hosts that calls and programs may reach at most; `None` for no limit.
    pub fn net(&self) -> Option<&NetworkAccess> {
        self.net.as_ref()
    }

    /// Returns the confinement of programs: that of the machine's settings, or a stricter one if these rights require it.
    pub(crate) fn confine(&self, of_machine: &Confinement) -> Confinement {
        let (level, network) = (of_machine.level, &of_machine.network);
        Confinement {
            level: self.sandbox.map_or(level, |own| own.stricter(level)),
            network: self
                .net
                .as_ref()
                .map_or_else(|| network.clone(), |own| network.intersection(own)),
            backend: of_machine.backend,
        }
    }

    /// Returns the identity behind the calls.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }
}

/// Returns the stricter of two limits, where each may be missing.
fn stricter<T>(one: Option<T>, other: Option<T>, of: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        CommandLine, Decision, Effect, EffectKinds, Effects, PathPattern, Session, SessionId,
    };

    const HOSTS: [&str; 4] = ["docs.rs", "example.com", "a.example.org", "b.a.example.org"];

    fn rule(decision: Decision, text: &str) -> ActiveRule {
        ActiveRule::new(decision, text.parse().expect("a rule"))
    }

    fn tools() -> Vec<Predicate> {
        vec![
            Predicate::All,
            Predicate::None,
            Predicate::allow(["read"]),
            Predicate::deny(["bash"]),
            Predicate::Within(EffectKinds::READ),
        ]
    }

    fn rules() -> Vec<Vec<ActiveRule>> {
        vec![
            vec![],
            vec![rule(Decision::Allow, "write docs/**")],
            vec![rule(Decision::Deny, "write docs/**"), rule(Decision::Allow, "read /data/**")],
            vec![rule(Decision::Ask, "read a"), rule(Decision::Deny, "exec rm")],
            vec![rule(Decision::Allow, "net docs.rs"), rule(Decision::Deny, "tool bash")],
        ]
    }

    fn nets() -> Vec<Option<NetworkAccess>> {
        ["none", "full", "docs.rs", "*.example.org", "docs.rs,a.example.org"]
            .iter()
            .map(|text| text.parse().ok())
            .chain([None])
            .collect()
    }

    fn modes() -> Vec<Option<Mode>> {
        Mode::NAMES.iter().map(|(_, mode)| Some(*mode)).chain([None]).collect()
    }

    fn levels() -> Vec<Option<SandboxLevel>> {
        SandboxLevel::NAMES.iter().map(|(_, level)| Some(*level)).chain([None]).collect()
    }

    /// Returns limits in four groups, so that each group holds fields that influence each other: tools; modes with rules; modes with
    /// networks; levels.
    fn limits_by_kind() -> [Vec<SessionLimits>; 4] {
        let with_modes = |limit: &dyn Fn(SessionLimits) -> Vec<SessionLimits>| {
            let of_mode = |mode| limit(SessionLimits { mode, ..SessionLimits::default() });
            modes().into_iter().flat_map(of_mode).collect()
        };
        [
            tools().into_iter().map(SessionLimits::from).collect(),
            with_modes(&|of| {
                rules().into_iter().map(|rules| SessionLimits { rules, ..of.clone() }).collect()
            }),
            with_modes(&|of| {
                nets().into_iter().map(|net| SessionLimits { net, ..of.clone() }).collect()
            }),
            levels()
                .into_iter()
                .map(|sandbox| SessionLimits { sandbox, ..SessionLimits::default() })
                .collect(),
        ]
    }

    /// Returns combinations of all kinds of limits, few enough for a test of all pairs.
    fn mixed_limits() -> Vec<SessionLimits> {
        let (modes, levels) = (modes(), levels());
        let (tools, rules, nets) = (tools(), rules(), nets());
        (0..150)
            .map(|at| SessionLimits {
                tools: tools[at % tools.len()].clone(),
                mode: modes[at / 5 % modes.len()],
                rules: rules[at / 7 % rules.len()].clone(),
                sandbox: levels[at / 3 % levels.len()],
                net: nets[at / 11 % nets.len()].clone(),
                principal: None,
            })
            .collect()
    }

    fn effects() -> Vec<Effect> {
        let file = |path: &str| PathPattern::file(path);
        let mut effects = vec![
            Effect::Read(file("/w/a")),
            Effect::Read(file("/w/docs/a")),
            Effect::Read(file("/data/a")),
            Effect::Write(file("/w/docs/a")),
            Effect::Write(file("/w/src/a")),
            Effect::Delete(file("/w/docs/a")),
            Effect::Write(file("/srv/a")),
            Effect::Exec(CommandLine::words(["rm", "a"])),
            Effect::Exec(CommandLine::words(["make"])),
            Effect::State("todo".into()),
            Effect::Mcp { server: "s".into(), tool: "t".into() },
        ];
        effects.extend(
            HOSTS.map(|host| Effect::Net {
                origin: format!("https://{host}"),
                method: "GET".into(),
            }),
        );
        effects
    }

    /// Checks that a child has exactly the rights that both its parent and its own limits give.
    fn check_child(of_parent: &SessionLimits, requested: &SessionLimits, effects: &[Effect]) {
        let parent = Rights::all().narrow(of_parent.clone());
        let child = parent.narrow(requested.clone());
        let alone = Rights::all().narrow(requested.clone());
        let session = Session::new(SessionId::new("s"));
        for (name, kinds) in [
            ("read", EffectKinds::READ),
            ("bash", EffectKinds::EXEC),
            ("write", EffectKinds::WRITE),
        ] {
            let admits = |rights: &Rights| rights.tools().admits(name, kinds, &session);
            assert_eq!(admits(&child), admits(&parent) && admits(&alone), "{name}");
        }
        let engine = Policy::new(Mode::Auto);
        let policies = [&child, &parent, &alone].map(|rights| engine.narrowed(rights));
        for effect in effects {
            let [child, parent, alone] = policies.each_ref().map(|policy| {
                let effects = Effects::from(effect.clone());
                let verdict = policy.decide("bash", effects, Path::new("/w"));
                (verdict.decision_to_run(), verdict.keeps())
            });
            let name = format!("{effect}: {of_parent:?} {requested:?}");
            assert_eq!(child.0, parent.0.max(alone.0), "{name}");
            // The mode of one and the sandbox of the other can keep less than each alone.
            assert!(child.1 >= parent.1.max(alone.1), "{name}");
        }
        for rights in [&parent, &alone] {
            assert!(child.sandbox() >= rights.sandbox() || rights.sandbox().is_none());
            for host in HOSTS {
                let reaches = |rights: &Rights| rights.net().is_none_or(|net| net.admits(host));
                assert!(!reaches(&child) || reaches(rights), "{host}");
            }
        }
    }

    #[test]
    fn child_has_at_most_the_rights_of_its_parent_and_its_own() {
        let effects = effects();
        for all in limits_by_kind() {
            for of_parent in &all {
                for requested in &all {
                    check_child(of_parent, requested, &effects);
                }
            }
        }
        let mixed = mixed_limits();
        for (at, of_parent) in mixed.iter().enumerate() {
            for requested in mixed.iter().skip(at % 23).step_by(23) {
                check_child(of_parent, requested, &effects);
            }
        }
    }

    #[test]
    fn programs_get_the_stricter_confinement() {
        let of_machine = Confinement { network: NetworkAccess::Full, ..Confinement::default() };
        let limits = SessionLimits {
            sandbox: Some(SandboxLevel::ReadOnly),
            net: "docs.rs".parse().ok(),
            ..SessionLimits::default()
        };
        let confined = Rights::all().narrow(limits).confine(&of_machine);
        assert_eq!(confined.to_string(), "sandbox read-only, network docs.rs");
        assert_eq!(Rights::all().confine(&of_machine), of_machine);
    }

    #[test]
    fn principal_is_inherited_unless_another_one_is_named() {
        let agent = Principal::Agent { name: "reviewer".into() };
        let named = SessionLimits { principal: Some(agent.clone()), ..SessionLimits::default() };
        let parent = Rights::all().narrow(named);
        assert_eq!(parent.narrow(SessionLimits::default()).principal(), &agent);
        assert_eq!(Rights::all().principal(), &Principal::default());
    }
}
