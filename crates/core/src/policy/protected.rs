//! Files that hold the leash itself: changing one asks, whatever the mode and the rules say.

use std::path::{Component, Path};

use crate::Effect;

/// Why changing this always asks, if it does.
pub(super) fn protected(effect: &Effect) -> Option<&'static str> {
    let (Effect::Write(at) | Effect::Delete(at)) = effect else { return None };
    reason(&at.path)
}

fn reason(path: &Path) -> Option<&'static str> {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_str().unwrap_or_default().to_ascii_lowercase()),
        _ => None,
    });
    while let Some(part) = parts.next() {
        match part.as_str() {
            ".aiexclude" => return Some("what is hidden from tools"),
            ".windlass" | ".mcp.json" => return Some("our configuration"),
            ".claude" | ".hex" | ".hygge" | ".agents" => {
                return match parts.next().as_deref() {
                    Some(
                        "settings.json"
                        | "settings.local.json"
                        | "hooks.toml"
                        | "hooks.json"
                        | "hooks",
                    ) => Some("hooks"),
                    _ => None,
                };
            }
            ".git" => {
                return match parts.next().as_deref() {
                    Some("hooks" | "config" | "config.worktree") => Some("what git runs"),
                    _ => None,
                };
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leash_is_recognised() {
        for (path, is) in [
            ("/w/.aiexclude", true),
            ("/w/sub/.aiexclude", true),
            ("/w/.git/hooks/pre-commit", true),
            ("/w/.GIT/hooks/pre-commit", true),
            ("/w/.git/config", true),
            ("/w/.git/HEAD", false),
            ("/w/.windlass/config.toml", true),
            ("/w/.mcp.json", true),
            ("/w/.claude/settings.json", true),
            ("/w/.claude/settings.local.json", true),
            ("/w/.claude/hooks/check.sh", true),
            ("/w/.claude/commands/a.md", false),
            ("/w/.hex/settings.json", true),
            ("/w/.hygge/hooks.toml", true),
            ("/w/.agents/hooks.toml", true),
            ("/w/src/hooks/a.rs", false),
            ("/w/.gitignore", false),
        ] {
            assert_eq!(reason(Path::new(path)).is_some(), is, "{path}");
        }
    }
}
