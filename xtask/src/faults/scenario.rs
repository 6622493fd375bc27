//! The scenarios of faults: every way in which files are changed.
//!
//! All scenarios begin with the same small workspace. It has properties that are easily lost: modes, hard links, a symbolic link, an empty
//! directory, a file without a final newline.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::Result;

/// A command under faults, and the steps before it.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) before: &'static [ScenarioStep],
    pub(super) step: ScenarioStep,
    /// The number of lines of `huge.txt`.
    pub(super) huge: u32,
    pub(super) allowed_states: AllowedStates,
    /// `cargo xtask test` divides the number of sampled faults by this.
    pub(super) sample_divisor: usize,
}

/// The states that a fault may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedStates {
    /// Everything is unchanged or everything is changed, and an undo restores the old state.
    OldOrNew,
    /// The same, except build directories, which an undo does not restore.
    Built,
    /// A job creates a protected path, which is then removed. It is there or not; nothing else differs.
    Planted,
}

const fn scenario(
    name: &'static str,
    before: &'static [ScenarioStep],
    step: ScenarioStep,
) -> Scenario {
    Scenario {
        name,
        before,
        step,
        huge: 10,
        allowed_states: AllowedStates::OldOrNew,
        sample_divisor: 1,
    }
}

/// A scenario of a sandboxed command, most of whose system calls belong to its start.
const fn command(
    name: &'static str,
    before: &'static [ScenarioStep],
    step: ScenarioStep,
) -> Scenario {
    Scenario { sample_divisor: 16, ..scenario(name, before, step) }
}

/// One command.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScenarioStep {
    /// One call.
    Call(Call),
    /// Calls of one session, one after the other.
    Calls(&'static [Call]),
    /// A background job, until it ends.
    Job(Call),
    /// A call whose changes a person approves.
    Approve(Call),
    /// A call of a session that goes on.
    Continue(Call),
    /// A call whose changes become a proposal.
    Propose(Call),
    /// Applies the proposals.
    Apply,
    /// Undoes the last change.
    Undo,
    /// Undoes all changes of the continued session.
    UndoSession,
    /// Undoes the last undo.
    UndoUndo,
    /// The next start after a command that was killed in the middle.
    Recover(&'static KilledCommand),
}

/// A command that is killed at its last call of this name.
#[derive(Debug)]
pub(super) struct KilledCommand {
    pub(super) step: ScenarioStep,
    pub(super) at: &'static str,
}

/// A tool call whose arguments are all strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: &'static [(&'static str, &'static str)],
}

impl Call {
    pub(super) fn input(&self) -> serde_json::Value {
        self.arguments.iter().map(|(name, value)| (*name, *value)).collect()
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("create", &[], ScenarioStep::Call(CREATE)),
    scenario("overwrite", &[], ScenarioStep::Calls(&[READ, OVERWRITE])),
    scenario("append", &[], ScenarioStep::Call(APPEND)),
    scenario("append-linked", &[], ScenarioStep::Call(APPEND_LINKED)),
    scenario("edit", &[], ScenarioStep::Call(EDIT)),
    scenario("edit-large", &[], ScenarioStep::Call(EDIT_LARGE)),
    // Larger than contents in a slot, and than files that are held in memory while they are written in place.
    Scenario { huge: 500_000, ..scenario("edit-huge", &[], ScenarioStep::Call(EDIT_HUGE)) },
    scenario("edit-linked", &[], ScenarioStep::Call(EDIT_LINKED)),
    scenario("patch", &[], ScenarioStep::Call(PATCH)),
    scenario("unlink", &[], ScenarioStep::Call(UNLINK)),
    scenario("undo", &[ScenarioStep::Call(PATCH)], ScenarioStep::Undo),
    scenario("undo-linked", &[ScenarioStep::Call(EDIT_LINKED)], ScenarioStep::Undo),
    scenario("undo-undo", &[ScenarioStep::Call(PATCH), ScenarioStep::Undo], ScenarioStep::UndoUndo),
    // A path becomes a hard link of another file, and a separate file again.
    scenario(
        "undo-joined",
        &[ScenarioStep::Continue(EDIT_TWO), UNLINKED, REUSED],
        ScenarioStep::UndoSession,
    ),
    scenario(
        "undo-apart",
        &[ScenarioStep::Continue(EDIT_TWO), UNLINKED, REUSED, ScenarioStep::UndoSession],
        ScenarioStep::UndoUndo,
    ),
    scenario(
        "apply",
        &[
            ScenarioStep::Propose(PATCH),
            ScenarioStep::Propose(CREATE),
            ScenarioStep::Propose(EDIT_LINKED),
        ],
        ScenarioStep::Apply,
    ),
    scenario("recover", &[], ScenarioStep::Recover(&KILLED_PATCH)),
    scenario("recover-linked", &[], ScenarioStep::Recover(&KILLED_EDIT_LINKED)),
    scenario("recover-undo", &[ScenarioStep::Call(PATCH)], ScenarioStep::Recover(&KILLED_UNDO)),
    // More than 64 changes are made as a batch.
    Scenario { sample_divisor: 40, ..command("batch", &[], ScenarioStep::Call(BATCH)) },
    command("staged", &[], ScenarioStep::Approve(STAGED)),
    command("moved", &[], ScenarioStep::Call(MOVED)),
    Scenario {
        allowed_states: AllowedStates::Built,
        ..command("build", &[], ScenarioStep::Call(BUILD))
    },
    Scenario {
        allowed_states: AllowedStates::Built,
        ..command("rebuild", &[ScenarioStep::Call(BUILD)], ScenarioStep::Call(REBUILD))
    },
    Scenario {
        allowed_states: AllowedStates::Planted,
        ..command("planted", &[PLANT], ScenarioStep::Job(PLANTED))
    },
];

const KILLED_PATCH: KilledCommand =
    KilledCommand { step: ScenarioStep::Call(PATCH), at: "unlinkat" };
const KILLED_EDIT_LINKED: KilledCommand =
    KilledCommand { step: ScenarioStep::Call(EDIT_LINKED), at: "renameat" };
const KILLED_UNDO: KilledCommand = KilledCommand { step: ScenarioStep::Undo, at: "renameat" };

const CREATE: Call = Call {
    tool: "write",
    arguments: &[("path", "new/deep/made.txt"), ("content", "made\nfrom nothing\n")],
};
const READ: Call = Call { tool: "read", arguments: &[("path", "src/one.txt")] };
const OVERWRITE: Call = Call {
    tool: "write",
    arguments: &[("path", "src/one.txt"), ("content", "all of it\nis new\n")],
};
const APPEND: Call = Call {
    tool: "write",
    arguments: &[("path", "src/two.txt"), ("content", "one line more\n"), ("mode", "append")],
};
const APPEND_LINKED: Call = Call {
    tool: "write",
    arguments: &[("path", "linked/b.txt"), ("content", "and longer\n"), ("mode", "append")],
};
const EDIT: Call = Call {
    tool: "edit",
    arguments: &[
        ("path", "run.sh"),
        ("old_string", "echo before"),
        ("new_string", "echo after, and longer"),
    ],
};
const EDIT_LARGE: Call = Call {
    tool: "edit",
    arguments: &[("path", "large.txt"), ("old_string", "line 9000\n"), ("new_string", "")],
};
const EDIT_HUGE: Call = Call {
    tool: "edit",
    arguments: &[("path", "also-huge.txt"), ("old_string", "line 9\n"), ("new_string", "")],
};
const EDIT_LINKED: Call = Call {
    tool: "edit",
    arguments: &[("path", "linked/a.txt"), ("old_string", "shared by two"), ("new_string", "our")],
};
const EDIT_TWO: Call = Call {
    tool: "edit",
    arguments: &[("path", "docs/two.md"), ("old_string", "two names"), ("new_string", "a name")],
};
const UNLINKED: ScenarioStep = ScenarioStep::Continue(Call {
    tool: "patch",
    arguments: &[("patch", "*** Begin Patch\n*** Delete File: docs/same.md\n*** End Patch\n")],
});
const REUSED: ScenarioStep = ScenarioStep::Continue(Call {
    tool: "write",
    arguments: &[("path", "docs/same.md"), ("content", "# Another file\n")],
});
const PATCH: Call = Call { tool: "patch", arguments: &[("patch", PATCH_TEXT)] };
const PATCH_TEXT: &str = "\
*** Begin Patch
*** Add File: added/here/new.txt
+a file
+that was not there
*** Update File: src/one.txt
@@
 first
-second
+second, changed
 third
*** Update File: src/two.txt
*** Move to: moved/two.txt
@@
-to be moved
+was moved
*** Update File: run.sh
@@
-echo before
+echo patched
*** Delete File: docs/old.md
*** End Patch
";
/// A file loses one of its hard links. It is not undone after a copy: hard links are recorded by inode numbers, which a copy does not
/// share.
const UNLINK: Call = Call { tool: "patch", arguments: &[("patch", UNLINK_TEXT)] };
const UNLINK_TEXT: &str = "\
*** Begin Patch
*** Delete File: docs/same.md
*** Update File: run.sh
@@
-echo before
+echo patched
*** Delete File: docs/old.md
*** End Patch
";

const fn bash(arguments: &'static [(&'static str, &'static str)]) -> Call {
    Call { tool: "bash", arguments }
}

/// The build directory of the scenarios that build.
pub(super) const BUILD_DIRECTORY: &str = "node_modules";

// Each command first checks that its files are there: a directory that a fault keeps from being surveyed is masked, and a command that did
// half of its work would leave neither the old nor the new state.
const BATCH: Call = bash(&[(
    "command",
    "test -f src/two.txt -a -f docs/old.md -a -f src/one.txt && \
     { mkdir many; for i in $(seq 66); do echo $i > many/$i; done; rm docs/old.md; mv src/two.txt many; echo more >> src/one.txt; }",
)]);
const STAGED: Call = bash(&[(
    "command",
    "test -f src/one.txt -a -f docs/old.md -a -f run.sh -a -f linked/a.txt -a -d empty && \
     { echo more >> src/one.txt; mv docs/old.md docs/new.md; chmod 600 run.sh; ln linked/a.txt linked/c.txt; rmdir empty; }",
)]);
const MOVED: Call = bash(&[(
    "command",
    "test -f src/one.txt -a -f linked/a.txt -a -L latest && \
     { mkdir deep; mv src deep/lib; mv linked renamed; ln -sfn run.sh latest; }",
)]);
const BUILD: Call = bash(&[(
    "command",
    "test -f src/one.txt && \
     { mkdir -p node_modules/a/b; echo 1 > node_modules/a/b/c; echo 2 > node_modules/d; echo more >> src/one.txt; }",
)]);
const REBUILD: Call = bash(&[(
    "command",
    "test -f node_modules/a/b/c -a -f src/two.txt && \
     { rm -r node_modules/a; mkdir node_modules/a; echo 3 > node_modules/a/new; echo 4 > node_modules/d; rm src/two.txt; }",
)]);
/// A script, because a command that names a protected path is refused before it runs.
const PLANT: ScenarioStep = ScenarioStep::Call(Call {
    tool: "write",
    arguments: &[
        ("path", "plant.sh"),
        ("content", "mkdir .husky && echo evil > .husky/pre-commit\n"),
    ],
});
const PLANTED: Call = bash(&[("command", "sh plant.sh")]);

/// Creates the workspace that every scenario begins with, with `huge` lines in `huge.txt`.
pub(super) fn make_workspace(root: &Path, huge: u32) -> Result<()> {
    for directory in ["src", "docs", "linked", "empty"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let line = |number| format!("line {number}\n");
    let lines = |count: u32| (0..count).map(line).collect::<String>();
    let (large, huge) = (lines(12_000), lines(huge));
    for (path, content, mode) in [
        ("src/one.txt", "first\nsecond\nthird\n", 0o644),
        ("src/two.txt", "keep\nto be moved\n", 0o640),
        ("run.sh", "#!/bin/sh\necho before", 0o755),
        ("docs/old.md", "# Old\n", 0o600),
        ("docs/two.md", "# A file with two names\n", 0o644),
        ("linked/a.txt", "shared by two names\n", 0o644),
        ("large.txt", large.as_str(), 0o644),
        ("huge.txt", huge.as_str(), 0o644),
    ] {
        fs::write(root.join(path), content)?;
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode))?;
    }
    for (name, other) in [
        ("linked/a.txt", "linked/b.txt"),
        ("docs/two.md", "docs/same.md"),
        ("huge.txt", "also-huge.txt"),
    ] {
        fs::hard_link(root.join(name), root.join(other))?;
    }
    symlink("src/one.txt", root.join("latest"))?;
    Ok(())
}
