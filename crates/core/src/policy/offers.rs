//! Rules that a person is offered besides a single yes, each as it would be written in a configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Rule;
use super::remedy::{common_directory, rule_for, rules_for_command, spelled};
use crate::{Effect, Effects, PathPattern, Secrets};

/// The most rules that are offered.
const MOST: usize = 4;

/// Rules of which each allows a part of these effects without a question: changes below the directory that all changed files are in,
/// build directories, and a command by its words. Paths are relative to the workspace. A rule that would have to spell out a secret is not
/// offered.
pub(crate) fn offers(
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
    let mut rules = for_changes(&changed, workspace);
    rules.extend(built.iter().filter_map(|path| below(path, workspace)));
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
    rules.truncate(MOST);
    rules
}

/// Rules for the directory that all changed files are in. Where that is the workspace, the rule would be about every file of the project: the
/// first one is then about the files and directories at its top that these are, if they are few.
fn for_changes(changed: &[&Path], workspace: &Path) -> Vec<String> {
    let Some(directory) = common_directory(changed) else { return Vec::new() };
    if directory != workspace {
        return below(directory, workspace).into_iter().collect();
    }
    let narrow = for_tops(changed, workspace);
    let whole = if changed.len() == 1 { None } else { below(directory, workspace) };
    narrow.into_iter().chain(whole).collect()
}

/// The most files and directories at the top of the workspace that one rule names.
const MOST_TOPS: usize = 4;

/// A rule for the files and directories at the top of the workspace that hold these files.
fn for_tops(changed: &[&Path], workspace: &Path) -> Option<String> {
    let top = |path: &&Path| {
        let inside = path.strip_prefix(workspace).ok()?;
        let first = Path::new(inside.components().next()?.as_os_str());
        let pattern =
            if first == inside { PathPattern::file(first) } else { PathPattern::tree(first) };
        Some(spelled(&pattern))
    };
    let tops: BTreeSet<String> = changed.iter().map(top).collect::<Option<_>>()?;
    let tops: Vec<String> = tops.into_iter().collect();
    let text = match &tops[..] {
        [one] => format!("write {one}"),
        // A comma would separate two names.
        several if several.len() > MOST_TOPS || several.iter().any(|one| one.contains(',')) => {
            return None;
        }
        several => format!("write {{{}}}", several.join(",")),
    };
    let rule: Rule = text.parse().ok()?;
    let is_covered =
        |path: &&Path| rule.matches(&Effect::Write(PathPattern::file(*path)), workspace);
    changed.iter().all(is_covered).then_some(text)
}

/// A rule for changes below a directory of the workspace.
fn below(directory: &Path, workspace: &Path) -> Option<String> {
    let inside = directory.strip_prefix(workspace).ok()?;
    let text = if inside.as_os_str().is_empty() {
        "write **".to_owned()
    } else {
        format!("write {}", spelled(&PathPattern::tree(inside)))
    };
    let rule: Rule = text.parse().ok()?;
    let inside = Effect::Write(PathPattern::file(directory.join("a")));
    rule.matches(&inside, workspace).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn a_rule_for_the_directory_the_command_and_each_build_directory() {
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
            let found = offers(&effects(all.clone()), &built, Path::new("/w"), &Secrets::default());
            assert_eq!(found, expected, "{all:?}");
        }
    }
}
