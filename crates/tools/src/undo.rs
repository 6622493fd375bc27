//! `undo`: restores the files that calls changed, whichever tool made the change.
//!
//! A model may undo the changes of its own session, except for files that are hidden from tools now: restoring a file is writing it. A
//! person, on the command line, may undo the changes of any session: that is `UndoAny`, the same tool with more ways to select
//! changes.

mod without_history;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CallId, CheckpointQuery, Conflict, Context, Effect, EffectKinds, Effects, FileObject,
    FileState, Output, PathPattern, PlanContext, Planned, PlannedTool, Reach, SessionId,
    ToolDetails, ToolError, TurnId, UndoDoor, UndoPlan, UndoStep, quote,
};

use crate::cut::Cutter;
use crate::diff::{self, DiffFormat, FileVersion, ThreeWayNames};
use crate::document::Document;
use crate::format::{self, Root};

/// Limit of the paths that are declared separately. Above it, the directories are declared, because a person does not read a list of
/// thousands.
const MAX_DECLARED: usize = 200;
/// Limit of the files whose diffs are shown.
const MAX_SHOWN: usize = 20;
/// Limit of the lines shown of one conflict.
const MAX_DIFF_LINES: usize = 120;
/// Limit of the paths that are named.
const MAX_NAMED: usize = 100;

/// Kinds of effects of both undo tools.
const UNDO_KINDS: EffectKinds =
    EffectKinds::WRITE.with(EffectKinds::DELETE).with(EffectKinds::STATE);

/// The `undo` tool for models.
pub(crate) struct Undo;

/// Undo the last file change of this session, or the change of `call`, whichever tool made it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Id of the call to undo; default: the last call that changed files.
    #[serde(default)]
    call: Option<String>,
    /// Only report what would be undone.
    #[serde(default)]
    dry_run: bool,
}

impl PlannedTool for Undo {
    const NAME: &'static str = "undo";
    const KINDS: EffectKinds = UNDO_KINDS;
    const LOOKS_BACK: bool = true;
    type Args = Args;
    type Plan = UndoCallPlan;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Undo")
    }

    fn plan(
        &self,
        args: Args,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<UndoCallPlan>, ToolError> {
        let mut undo = scene.undo_plan(&args.query(scene.session()))?;
        let is_own = undo.origins.iter().all(|one| one.session == *scene.session());
        if !is_own {
            return Err(ToolError::failed("that change was made in another session")
                .hint("a person can take it back with `windlass undo --call`"));
        }
        undo.leave_out_hidden(|path| scene.is_hidden(path));
        Ok(UndoCallPlan { undo, is_dry: args.dry_run }.with_effects(scene))
    }

    async fn call(&self, cx: &Context, plan: UndoCallPlan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| take_back(cx, &plan.undo, plan.is_dry, Asker::Model)).await?
    }
}

/// The planned restoration, path by path.
pub(crate) struct UndoCallPlan {
    undo: UndoPlan,
    /// True if the call only reports the undo.
    is_dry: bool,
}

impl UndoCallPlan {
    /// Pairs the plan with its effects.
    fn with_effects(self, scene: &PlanContext<'_>) -> Planned<Self> {
        Planned { effects: self.effects(scene), plan: self }
    }

    /// Returns the effects of the undo. Files that are hidden from tools are not named; a person's undo restores them all the same.
    fn effects(&self, scene: &PlanContext<'_>) -> Effects {
        let state = Effects::state("undo");
        if self.is_dry || !self.undo.conflicts.is_empty() {
            return state;
        }
        let is_seen = |way: &&UndoStep| !scene.is_hidden(&way.path);
        if self.undo.ways.len() <= MAX_DECLARED {
            return self.undo.declared().filter(is_seen).map(way_effect).fold(state, Effects::and);
        }
        let mut declared = HashSet::new();
        let mut effects = state;
        for way in self.undo.declared() {
            let place = top_level_directory(&way.path, scene.workspace());
            let is_tree = place.reach == Reach::Tree;
            let key = (place.path.clone(), is_tree, way.then == FileState::Absent);
            // One visible file declares its directory: the others need no check.
            if !declared.contains(&key) && is_seen(&way) {
                declared.insert(key);
                effects = effects.and(restoration_effect(way, place));
            }
        }
        effects
    }
}

impl Args {
    /// Returns the query for the changes that the arguments select.
    fn query(&self, session: &SessionId) -> CheckpointQuery {
        match &self.call {
            Some(call) => CheckpointQuery::Call(CallId::new(call.as_str())),
            None => CheckpointQuery::LastOfSession(session.clone()),
        }
    }
}

/// The undo tool for a person, who may undo the changes of any session.
pub(crate) struct UndoAny;

/// Take back changes of files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnyArgs {
    /// Those of this call.
    #[serde(default)]
    call: Option<String>,
    /// Those of this turn.
    #[serde(default)]
    turn: Option<String>,
    /// Those of this session.
    #[serde(default)]
    session: Option<String>,
    /// Only report what would be undone.
    #[serde(default)]
    dry_run: bool,
}

impl PlannedTool for UndoAny {
    const NAME: &'static str = "undo";
    const KINDS: EffectKinds = UNDO_KINDS;
    const LOOKS_BACK: bool = true;
    type Args = AnyArgs;
    type Plan = UndoCallPlan;

    fn plan(
        &self,
        args: AnyArgs,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<UndoCallPlan>, ToolError> {
        let undo = scene.undo_plan(&args.query(scene.workspace()))?;
        Ok(UndoCallPlan { undo, is_dry: args.dry_run }.with_effects(scene))
    }

    async fn call(&self, cx: &Context, plan: UndoCallPlan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| take_back(cx, &plan.undo, plan.is_dry, Asker::Person)).await?
    }
}

impl AnyArgs {
    /// Returns the query for the changes that the arguments select.
    fn query(&self, workspace: &Path) -> CheckpointQuery {
        match (&self.call, &self.turn, &self.session) {
            (Some(call), _, _) => CheckpointQuery::Call(CallId::new(call.as_str())),
            (_, Some(turn), _) => CheckpointQuery::Turn(TurnId::new(turn.as_str())),
            (_, _, Some(session)) => CheckpointQuery::Session(SessionId::new(session.as_str())),
            (None, None, None) => CheckpointQuery::LastOfWorkspace(workspace.to_owned()),
        }
    }
}

/// Returns the top-level directory of the workspace that contains a path; the path itself if there is none.
fn top_level_directory(path: &Path, workspace: &Path) -> PathPattern {
    let inside = path.strip_prefix(workspace).map(Path::components);
    match inside.map(|mut parts| (parts.next(), parts.next())) {
        Ok((Some(first), Some(_))) => PathPattern::tree(workspace.join(first)),
        _ => PathPattern::entry(path),
    }
}

/// Returns the effect of restoring one path.
fn way_effect(way: &UndoStep) -> Effect {
    restoration_effect(way, PathPattern::entry(&way.path))
}

/// Returns the effect of restoring a path: deleting it, or writing it.
fn restoration_effect(way: &UndoStep, path: PathPattern) -> Effect {
    match way.then {
        FileState::Absent => Effect::Delete(path),
        _ => Effect::Write(path),
    }
}

/// The party that asks for an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    Model,
    Person,
}

/// Performs or reports an undo, or explains why it is impossible.
fn take_back(
    cx: &Context,
    plan: &UndoPlan,
    is_dry: bool,
    asker: Asker,
) -> Result<Output, ToolError> {
    let undo = cx.undo()?;
    if !plan.conflicts.is_empty() {
        return report_conflicts(cx, undo, plan, is_dry);
    }
    if plan.is_without_history() {
        // The previous change becomes the next one to undo only after a person saw this warning; a model's call does not count.
        if plan.previous.is_some() && !is_dry && asker == Asker::Person {
            undo.perform(plan)?;
        }
        return without_history::refusal(cx, plan, is_dry, asker);
    }
    let report = UndoReport::of(cx, undo, plan, is_dry)?;
    let is_all_left = report.paths.is_empty() && !plan.left_out.is_empty();
    if !is_dry && !is_all_left {
        undo.perform(plan)?;
    }
    Ok(report.output(cx, plan))
}

/// The restored paths, for the output.
struct UndoReport {
    /// Directory that relative paths of the call are based on.
    base: PathBuf,
    /// One line for each of the first paths; further paths have none.
    lines: Vec<String>,
    /// Names of all restored paths.
    paths: Vec<String>,
    /// Diffs of the first changed files.
    diffs: Vec<String>,
    /// True if nothing is restored, so that every line says what an undo would do.
    is_dry: bool,
}

impl UndoReport {
    /// Collects lines and diffs for all paths of a plan.
    fn of(
        cx: &Context,
        undo: UndoDoor<'_>,
        plan: &UndoPlan,
        is_dry: bool,
    ) -> Result<Self, ToolError> {
        let base = cx.files().resolve(Path::new("."))?.path;
        let mut report =
            Self { base, lines: Vec::new(), paths: Vec::new(), diffs: Vec::new(), is_dry };
        let sources: HashSet<&PathBuf> =
            plan.ways.iter().filter_map(|way| way.moved_from.as_ref()).collect();
        let mut restored: HashMap<FileObject, u64> = HashMap::new();
        for file in plan.ways.iter().filter_map(|way| file_object(&way.then)) {
            *restored.entry(file).or_default() += 1;
        }
        for way in plan.ways.iter().filter(|way| !way.is_directory_time()) {
            if !sources.contains(&way.path) {
                report.add(cx, undo, way, &restored)?;
            }
        }
        Ok(report)
    }

    /// Adds the line of one path, and its diff if it changes content.
    fn add(
        &mut self,
        cx: &Context,
        undo: UndoDoor<'_>,
        way: &UndoStep,
        restored: &HashMap<FileObject, u64>,
    ) -> Result<(), ToolError> {
        let name = Root::recorded(&self.base, &way.path).show(Path::new(""));
        let mut line = format!("{} {name}", verb_for(way, self.is_dry));
        if let Some(from) = &way.moved_from {
            line =
                format!("{line} (from {})", Root::recorded(&self.base, from).show(Path::new("")));
        }
        // Removed and new files have a line but no diff, and the number of lines is limited.
        let has_diff = way.then != FileState::Absent && way.now != FileState::Absent;
        if self.diffs.len() < MAX_SHOWN
            && (has_diff || self.lines.len() < MAX_NAMED)
            && let Some((before, after)) = decode_both(undo, way)?
        {
            let changes = diff::unified_diff(&before, &after, Cutter::of(cx));
            line = format!("{line} (+{} -{})", changes.added, changes.removed);
            if has_diff {
                self.diffs.push(format!("{name}\n{}", changes.text));
            }
        }
        if self.lines.len() < MAX_NAMED {
            add_lost_names(&mut line, way, restored, self.is_dry);
            self.lines.push(line);
        }
        self.paths.push(name);
        Ok(())
    }

    /// Returns the output of the tool.
    fn output(mut self, cx: &Context, plan: &UndoPlan) -> Output {
        let is_dry = self.is_dry;
        let done = if is_dry { "would undo" } else { "undid" };
        let what = describe_calls(plan);
        let left_out = self.left_out(plan);
        if self.paths.is_empty() && !left_out.is_empty() {
            let call =
                plan.calls_with_history().first().map(ToString::to_string).unwrap_or_default();
            let was = if is_dry { "would be" } else { "was" };
            let words = format!("nothing {was} undone of {what}\n{}", left_out_remark(&left_out));
            let hint = format!("a person can undo it: windlass undo --call {call}");
            return Output::error(format!("{words}\n{hint}")).with("left_out", left_out);
        }
        let count = self.paths.len();
        if count > self.lines.len() {
            self.lines.push(format!("and {} more", count - self.lines.len()));
        }
        let mut text = format!("{done} {what}\n{}", self.lines.join("\n"));
        for diff in &self.diffs {
            text.push_str("\n\n");
            text.push_str(diff);
        }
        let undone: Vec<String> =
            plan.calls_with_history().iter().map(ToString::to_string).collect();
        let staying = without_history::names_without_history(&self.base, plan);
        if !staying.is_empty() {
            format::push_line(&mut text, &without_history::unchanged_remark(&staying, is_dry));
        }
        if !left_out.is_empty() {
            format::push_line(&mut text, &left_out_remark(&left_out));
        }
        if let ([call], false, false) = (undone.as_slice(), left_out.is_empty(), is_dry) {
            // This call becomes the undo of all changes, so it has to be undone first.
            let first = cx.call_id();
            let how = format!(
                "a person can restore it, too: windlass undo --call {first}, then windlass undo --call {call}"
            );
            format::push_line(&mut text, &how);
        }
        let output = Output::text(text).with("undone", undone).with("paths", self.paths);
        let output = output.with("dry_run", is_dry);
        let output =
            if staying.is_empty() { output } else { output.with("without_history", staying) };
        if left_out.is_empty() { output } else { output.with("left_out", left_out) }
    }

    /// Returns the names of the paths that are not restored.
    fn left_out(&self, plan: &UndoPlan) -> Vec<String> {
        let name = |path: &PathBuf| Root::recorded(&self.base, path).show(Path::new(""));
        plan.left_out.iter().map(name).collect()
    }
}

/// Says which paths were left out, and why.
fn left_out_remark(left_out: &[String]) -> String {
    let named = left_out.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = left_out.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("[left out, because tools may not write it by now: {named}{more}]")
}

/// Adds a remark about hard links that cannot be restored because they are outside of the workspace or removed.
fn add_lost_names(
    line: &mut String,
    way: &UndoStep,
    restored: &HashMap<FileObject, u64>,
    is_dry: bool,
) {
    let is_new = way.is_apart || way.now.hash() != way.then.hash();
    let is_joined = way.linked_with.is_some() || way.moved_from.is_some();
    let (FileState::File { object: Some(object), .. }, true, false) =
        (&way.then, is_new, is_joined)
    else {
        return;
    };
    let back = file_object(&way.then).and_then(|file| restored.get(&file)).copied();
    let lost = object.links.saturating_sub(back.unwrap_or(1));
    if lost > 0 {
        let names = if lost == 1 { "name" } else { "names" };
        let is = if is_dry { "would be a file of its own" } else { "is a file of its own now" };
        *line = format!(
            "{line}; it {is}: {lost} other {names} (hard links) that it had cannot be found in the workspace"
        );
    }
}

/// Returns the inode of a file's state, regardless of its number of hard links.
fn file_object(state: &FileState) -> Option<FileObject> {
    match state {
        FileState::File { object, .. } => object.map(|object| FileObject { links: 0, ..object }),
        _ => None,
    }
}

/// Names the calls whose changes are undone, with their tools.
fn describe_calls(plan: &UndoPlan) -> String {
    let calls =
        if plan.is_without_history() { plan.calls() } else { plan.calls_with_history().to_vec() };
    let tools: Vec<String> = calls
        .iter()
        .filter_map(|call| plan.origins.iter().find(|one| one.call == *call))
        .map(|one| format!("{} ({})", one.call, one.tool))
        .take(10)
        .collect();
    let more = calls.len().saturating_sub(tools.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", tools.join(", "))
}

/// Returns the verb for the restoration of a path, which is done or, in a dry run, would be done.
fn verb_for(way: &UndoStep, is_dry: bool) -> &'static str {
    let (done, would) = match (&way.now, &way.then) {
        (_, FileState::Absent) => ("removed", "would remove"),
        _ if way.moved_from.is_some() => ("moved back", "would move back"),
        (FileState::Absent, FileState::Directory { .. }) => ("made again", "would make again"),
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) if a == b => {
            ("restored permissions or times of", "would restore permissions or times of")
        }
        _ => ("restored", "would restore"),
    };
    if is_dry { would } else { done }
}

/// Returns the present and the restored content as text; `None` if one is not text, is too large, or is hidden.
fn decode_both(undo: UndoDoor<'_>, way: &UndoStep) -> Result<Option<(String, String)>, ToolError> {
    let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
    if undo.is_hidden(&way.path) || is_directory(&way.now) || is_directory(&way.then) {
        return Ok(None);
    }
    let now = match (&way.moved_from, &way.now) {
        (Some(from), _) => undo.present(from)?,
        (None, FileState::File { .. }) => undo.present(&way.path)?,
        _ => Some(Vec::new()),
    };
    let then = match way.then {
        FileState::File { len, .. } if len > UndoDoor::MAX_SHOWN => None,
        FileState::File { hash, .. } => Some(undo.content(&hash)?),
        _ => Some(Vec::new()),
    };
    Ok(now.and_then(decode_text).zip(then.and_then(decode_text)))
}

/// Decodes the bytes of a file; `None` if they are not text.
fn decode_text(bytes: Vec<u8>) -> Option<String> {
    Document::parse(bytes).ok().map(|document| document.to_text().into_owned())
}

/// Explains that nothing was undone: names each file that changed since, with that change and the change that the undo would make.
fn report_conflicts(
    cx: &Context,
    undo: UndoDoor<'_>,
    plan: &UndoPlan,
    is_dry: bool,
) -> Result<Output, ToolError> {
    let base = cx.files().resolve(Path::new("."))?.path;
    let was = if is_dry { "would be" } else { "was" };
    let count = format::count(plan.conflicts.len(), "file was", "files were");
    let mut words =
        vec![format!("conflict: nothing {was} undone, since {count} changed in the meantime")];
    for conflict in plan.conflicts.iter().take(MAX_SHOWN) {
        let name = Root::recorded(&base, &conflict.path).show(Path::new(""));
        words.push(format!("{name}: {} (left by {})", conflict.why(), conflict.call));
        words.extend(render_three_way(undo, conflict, &name)?);
    }
    let more = plan.conflicts.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.push(
        "undo the newer changes first, or bring the file back to what the call had left".into(),
    );
    let paths: Vec<String> = plan
        .conflicts
        .iter()
        .map(|conflict| Root::recorded(&base, &conflict.path).show(Path::new("")))
        .collect();
    Ok(Output::error(words.join("\n")).with("conflicts", paths))
}

/// Describes a state that has no content to show; `None` for a regular or missing file.
fn describe_other_kind(state: &FileState) -> Option<String> {
    match state {
        FileState::Directory { .. } => Some("a directory".into()),
        FileState::Symlink { target, .. } => {
            Some(format!("a symbolic link to {}", quote::path(target)))
        }
        FileState::Other => Some("something that is no file".into()),
        FileState::File { .. } | FileState::Absent => None,
    }
}

/// Renders the change made since the call beside the change that the undo would make; `None` if the file is hidden or its content is gone.
fn render_three_way(
    undo: UndoDoor<'_>,
    conflict: &Conflict,
    name: &str,
) -> Result<Option<String>, ToolError> {
    if undo.is_hidden(&conflict.path) {
        return Ok(None);
    }
    if let Some(what) = describe_other_kind(&conflict.now) {
        return Ok(Some(format!("there is {what} now")));
    }
    let path = Path::new(name);
    let kept = |state: &FileState| state.hash().and_then(|hash| undo.content(&hash).ok());
    let (left, now, wanted) =
        (kept(&conflict.left), undo.present(&conflict.path)?, kept(&conflict.wanted));
    if left.is_none() && wanted.is_none() {
        return Ok(None);
    }
    let left = left.as_deref().map(|bytes| FileVersion::of(path, bytes));
    let now = now.as_deref().map(|bytes| FileVersion::of(path, bytes));
    let wanted = wanted.as_deref().map(|bytes| FileVersion::of(path, bytes));
    let look = DiffFormat::plain().max_lines(MAX_DIFF_LINES);
    Ok(Some(diff::render_conflict(
        left.as_ref(),
        now.as_ref(),
        wanted.as_ref(),
        ThreeWayNames::default(),
        &look,
    )))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests check files that a tool wrote")]
mod tests {
    use serde_json::json;
    use windlass_core::Outcome;

    use crate::testing::Workspace;

    const BOTH: &str = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n--- a/keys/k\n+++ b/keys/k\n@@ -1 +1 @@\n-one\n+two\n";

    #[test]
    fn model_does_not_restore_hidden_files() {
        let workspace = Workspace::new(&[("a", "one\n"), ("keys/k", "one\n")]);
        let patched = workspace.call("patch", json!({"patch": BOTH}));
        assert_eq!(patched.outcome, Outcome::Ok, "{}", patched.output.to_text());
        workspace.write(".aiexclude", "keys\n");
        let dry = workspace.text("undo", json!({"dry_run": true}));
        assert!(dry.contains("[left out, because tools may not write it by now: keys/k]"), "{dry}");
        let undone = workspace.call("undo", json!({}));
        let text = undone.output.to_text();
        assert_eq!(undone.outcome, Outcome::Ok, "{text}");
        assert_eq!(
            (workspace.read("a"), workspace.read("keys/k")),
            (b"one\n".to_vec(), b"two\n".to_vec())
        );
        assert_eq!(undone.output.metadata["left_out"], json!(["keys/k"]));
        // The output told the person this command.
        let (undo, patch) = (undone.call.to_string(), patched.call.to_string());
        assert!(
            text.contains(&format!(
                "windlass undo --call {undo}, then windlass undo --call {patch}"
            )),
            "{text}"
        );
        for call in [undo, patch] {
            let result = workspace.undo_as_person(json!({"call": call}));
            assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
        }
        assert_eq!(
            (workspace.read("a"), workspace.read("keys/k")),
            (b"one\n".to_vec(), b"one\n".to_vec())
        );
    }

    #[test]
    fn dry_run_speaks_of_the_future() {
        let workspace = Workspace::new(&[("a", "one\n"), ("b", "one\n"), ("c", "one\n")]);
        let patch = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** Delete File: b\n\
             *** Add File: new\n+x\n*** Update File: c\n*** Move to: d\n*** End Patch";
        let patched = workspace.call("patch", json!({"patch": patch})).call;
        for (is_dry, expected) in [
            (
                true,
                [
                    "would undo",
                    "would restore a",
                    "would restore b",
                    "would remove new",
                    "would move back c",
                ],
            ),
            (false, ["undid", "restored a", "restored b", "removed new", "moved back c"]),
        ] {
            let text = workspace.text("undo", json!({"dry_run": is_dry, "call": patched}));
            let [head, lines @ ..] = expected;
            let body = text.split("\n\n").next().unwrap_or_default();
            assert!(body.starts_with(head), "{text}");
            for line in body.lines().skip(1).take(4) {
                assert!(lines.iter().any(|start| line.starts_with(start)), "{line}: {text}");
            }
        }
        let written = workspace.call("write", json!({"path": "other", "content": "x\n"})).call;
        workspace.write("other", "another hand\n");
        for (is_dry, expected) in
            [(true, "conflict: nothing would be undone"), (false, "conflict: nothing was undone")]
        {
            let input = json!({"dry_run": is_dry, "call": written});
            let text = workspace.call("undo", input).output.to_text();
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn person_restores_hidden_files() {
        let workspace = Workspace::new(&[("plain", "one\n")]);
        let patch = "*** Begin Patch\n*** Update File: plain\n*** Move to: keys/k\n@@\n-one\n+two\n*** End Patch";
        workspace.text("patch", json!({"patch": patch}));
        workspace.write(".aiexclude", "keys\n");
        let undone = workspace.call("undo", json!({}));
        let text = undone.output.to_text();
        assert_eq!(undone.outcome, Outcome::Error, "{text}");
        assert!(text.starts_with("nothing was undone of"), "{text}");
        assert_eq!(
            undone.output.metadata["left_out"],
            json!(["keys", "keys/k", "plain"]),
            "{text}"
        );
        assert_eq!(workspace.read("keys/k"), b"two\n");
        assert!(!workspace.path("plain").exists(), "its content would show what is hidden");
        let result = workspace.undo_as_person(json!({}));
        assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
        assert_eq!(workspace.read("plain"), b"one\n");
        assert!(!workspace.path("keys").exists());
    }

    #[test]
    fn directories_with_left_out_files_stay() {
        let workspace = Workspace::new(&[]);
        let patch = "*** Begin Patch\n*** Add File: new/deep/x\n+x\n*** Add File: new/keys/k\n+k\n*** End Patch";
        let result = workspace.call("patch", json!({"patch": patch}));
        assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
        workspace.write(".aiexclude", "keys\n");
        let undone = workspace.call("undo", json!({}));
        assert_eq!(undone.outcome, Outcome::Ok, "{}", undone.output.to_text());
        assert!(!workspace.path("new/deep").exists());
        assert_eq!(workspace.read("new/keys/k"), b"k\n");
    }
}
