//! Rules that a person is offered together with a single approval, each as it would be written in a configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Rule;
use super::remedy::{common_directory, escaped_glob, rule_for, rules_for_command};
use crate::{Effect, Effects, PathPattern, Secrets};

/// Maximum number of offered rules.
const MAX_OFFERED_RULES: usize = 4;

/// Returns the rules under which the same call would not ask again: for changes below the common directory of all changed files, for build
/// directories, and for a command by its words. Paths are relative to the workspace. A rule that would contain a secret is left out.
///
/// `suffices` decides about the call under added rules. If no rule is enough alone, those are offered that are enough together.
pub(crate) fn offers(
    effects: &Effects,
    built: &[PathBuf],
    workspace: &Path,
    secrets: &Secrets,
    suffices: &dyn Fn(&[Rule]) -> bool,
) -> Vec<String> {
    let offered = possible_rules(effects, built, workspace, secrets);
    let parsed: Vec<Rule> = offered.iter().filter_map(|rule| rule.parse().ok()).collect();
    let is_enough = |rule: &String| rule.parse::<Rule>().is_ok_and(|rule| suffices(&[rule]));
    let enough: Vec<String> = offered.iter().filter(|rule| is_enough(rule)).cloned().collect();
    match enough.is_empty() {
        false => enough,
        true if offered.len() > 1 && suffices(&parsed) => offered,
        true => Vec::new(),
    }
}

/// Returns rules that each allow a part of these effects.
fn possible_rules(
    effects: &Effects,
    built: &[PathBuf],
    workspace: &Path,
    secrets: &Secrets,
) -> Vec<String> {
    let changed: Vec<&Path> = effects
        .iter()
        .filter_map(Effect::changed_path)
        .map(|at| at.path.as_path())
        .filter(|path| path.starts_with(workspace) && !built.iter().any(|one| one == path))
        .collect();
    let mut rules = rules_for_changes(&changed, workspace);
    rules.extend(built.iter().filter_map(|path| rule_below(path, workspace)));
    for effect in effects {
        match effect {
            // A rule for one of several parts would not be enough.
            Effect::Exec(command) if command.commands.len() == 1 => {
                rules.extend(rules_for_command(command, &[]).unwrap_or_default());
            }
            Effect::Net { .. } | Effect::Mcp { .. } => rules.extend(rule_for(effect)),
            _ => {}
        }
    }
    rules.dedup();
    rules.retain(|rule| secrets.is_secret_free(rule));
    rules.truncate(MAX_OFFERED_RULES);
    rules
}

/// Returns rules for the changed files: for their common directory, or, if that is the whole workspace, first a narrow one for the
/// entries at its top that contain them, then the broad one.
fn rules_for_changes(changed: &[&Path], workspace: &Path) -> Vec<String> {
    let Some(directory) = common_directory(changed) else { return Vec::new() };
    if directory != workspace {
        return rule_below(directory, workspace).into_iter().collect();
    }
    let narrow = rule_for_top_entries(changed, workspace);
    let whole = if changed.len() == 1 { None } else { rule_below(directory, workspace) };
    narrow.into_iter().chain(whole).collect()
}

/// Maximum number of files and directories at the top of the workspace that one rule names.
const MAX_TOP_ENTRIES: usize = 4;

/// Returns a rule for the files and directories at the top of the workspace that contain these files, if they are few.
fn rule_for_top_entries(changed: &[&Path], workspace: &Path) -> Option<String> {
    let top = |path: &&Path| {
        let inside = path.strip_prefix(workspace).ok()?;
        let first = Path::new(inside.components().next()?.as_os_str());
        let pattern =
            if first == inside { PathPattern::file(first) } else { PathPattern::tree(first) };
        Some(escaped_glob(&pattern))
    };
    let tops: BTreeSet<String> = changed.iter().map(top).collect::<Option<_>>()?;
    let tops: Vec<String> = tops.into_iter().collect();
    let text = match &tops[..] {
        [one] => format!("write {one}"),
        // A comma would separate two names.
        several
            if several.len() > MAX_TOP_ENTRIES || several.iter().any(|one| one.contains(',')) =>
        {
            return None;
        }
        several => format!("write {{{}}}", several.join(",")),
    };
    let rule: Rule = text.parse().ok()?;
    let is_covered =
        |path: &&Path| rule.matches(&Effect::Write(PathPattern::file(*path)), workspace);
    changed.iter().all(is_covered).then_some(text)
}

/// Returns a rule for changes below a directory of the workspace, or `None` if it is outside.
fn rule_below(directory: &Path, workspace: &Path) -> Option<String> {
    let inside = directory.strip_prefix(workspace).ok()?;
    let text = if inside.as_os_str().is_empty() {
        "write **".to_owned()
    } else {
        format!("write {}", escaped_glob(&PathPattern::tree(inside)))
    };
    let rule: Rule = text.parse().ok()?;
    let inside = Effect::Write(PathPattern::file(directory.join("a")));
    rule.matches(&inside, workspace).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{CommandLine, Confinement, DecisionContext, Mode, Policy, SandboxLevel};

    #[test]
    fn offers_the_directory_the_command_and_each_build_directory() {
        let write = |path: &str| Effect::Write(PathPattern::file(path));
        let effects = |all: Vec<Effect>| all.into_iter().collect::<Effects>();
        let exec = |words: &str| Effect::Exec(CommandLine::words(words.split(' ')));
        for (all, built, expected) in [
            (vec![write("/w/src/a.rs")], vec![], vec!["write src/**"]),
            (vec![write("/w/src/a.rs"), write("/w/src/b/c.rs")], vec![], vec!["write src/**"]),
            (
                vec![write("/w/src/a.rs"), write("/w/b")],
                vec![],
                vec!["write {b,src/**}", "write **"],
            ),
            (vec![write("/w/b"), write("/w/a")], vec![], vec!["write {a,b}", "write **"]),
            (vec![write("/w/b"), write("/w/a,c")], vec![], vec!["write **"]),
            (vec![write("/w/{x}"), write("/w/a")], vec![], vec!["write {[{]x[}],a}", "write **"]),
            (
                "abcde".chars().map(|it| write(&format!("/w/{it}"))).collect(),
                vec![],
                vec!["write **"],
            ),
            (vec![write("/w/notes.md")], vec![], vec!["write notes.md"]),
            (vec![write("/w/a*")], vec![], vec!["write a[*]"]),
            (vec![write("/w/we[i]rd/a")], vec![], vec!["write we[[]i]rd/**"]),
            (vec![write("/srv/a")], vec![], vec![]),
            (
                vec![exec("cargo build")],
                vec!["/w/target"],
                vec!["write target/**", "exec cargo build"],
            ),
            (vec![write("/w/target")], vec!["/w/target"], vec!["write target/**"]),
            (vec![Effect::Exec(CommandLine::opaque("$x", "?"))], vec![], vec![]),
        ] {
            let built: Vec<PathBuf> = built.iter().map(PathBuf::from).collect();
            let all = effects(all.clone());
            let found = possible_rules(&all, &built, Path::new("/w"), &Secrets::default());
            assert_eq!(found, expected, "{all:?}");
        }
    }

    /// A command with the files that it changes itself, and those that the shell's redirections change.
    struct Case {
        words: &'static str,
        own: &'static [&'static str],
        redirected: &'static [&'static str],
        /// Changes that only the run showed.
        found: &'static [&'static str],
        built: &'static [&'static str],
        expected: &'static [&'static str],
    }

    #[test]
    fn no_rule_is_offered_under_which_the_same_call_asks_again() {
        let case = Case {
            words: "make x",
            own: &[],
            redirected: &[],
            found: &[],
            built: &[],
            expected: &[],
        };
        let workspace = Path::new("/w");
        let confinement = Confinement { level: SandboxLevel::Workspace, ..Confinement::default() };
        let policy = Policy::new(Mode::Ask).with_confinement(confinement);
        for case in [
            Case { found: &["/w/out/a"], expected: &["write out/**", "exec make x"], ..case },
            Case { built: &["/w/target"], expected: &["write target/**", "exec make x"], ..case },
            Case {
                words: "touch a",
                own: &["/w/a"],
                expected: &["write a", "exec touch a"],
                ..case
            },
            Case { words: "echo 1", redirected: &["/w/nv"], expected: &["write nv"], ..case },
            Case {
                redirected: &["/w/nv"],
                found: &["/w/out/a"],
                expected: &["write {nv,out/**}", "write **"],
                ..case
            },
            Case {
                found: &["/w/src/a"],
                built: &["/w/target"],
                expected: &["exec make x"],
                ..case
            },
            Case {
                words: "echo 1",
                redirected: &["/w/src/a"],
                built: &["/w/target"],
                expected: &["write src/**", "write target/**", "exec echo 1"],
                ..case
            },
            Case { words: "echo 1", redirected: &["/srv/a"], ..case },
        ] {
            let file = |path: &&str| PathPattern::file(*path);
            let changed = || case.own.iter().chain(case.redirected).map(file);
            let mut command = CommandLine::words(case.words.split(' '));
            command.redirected = case.redirected.iter().map(file).collect();
            for part in &mut command.commands {
                part.changes = case.own.iter().map(file).collect();
            }
            let before: Effects =
                changed().map(Effect::Write).chain([Effect::Exec(command.clone())]).collect();
            let built: Vec<PathBuf> = case.built.iter().map(PathBuf::from).collect();
            let changes: Effects = changed()
                .chain(case.found.iter().map(file))
                .chain(built.iter().map(PathPattern::tree))
                .map(Effect::Write)
                .collect();
            let changes = Arc::new(changes);
            let situation = DecisionContext::default();
            let suffices = |rules: &[Rule]| {
                policy.allows_run_with(
                    rules,
                    "bash",
                    &before,
                    Some(&changes),
                    workspace,
                    &situation,
                )
            };
            let all = changes.iter().cloned().chain([Effect::Exec(command)]).collect();
            let found = offers(&all, &built, workspace, &Secrets::default(), &suffices);
            assert_eq!(found, case.expected, "{before}");
        }
    }
}
