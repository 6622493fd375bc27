//! What is done while calls fail: every way in which files are changed.
//!
//! All scenarios begin with the same small workspace. It has what is easily lost: modes, hard links, a symbolic link, an empty
//! directory, a file without a final newline.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::Result;

/// A command under faults, and what was done before it.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) before: &'static [Step],
    pub(super) step: Step,
    /// How many lines `huge.txt` has.
    pub(super) huge: u32,
    pub(super) promise: Promise,
    /// The sample of `cargo xtask test` takes one in so many of the faults that it would take otherwise.
    pub(super) thinned: usize,
}

/// The states that a fault may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// All is as it was or as it should become, and an undo brings back what was.
    Whole,
    /// The same, but for build directories, which an undo leaves alone.
    Built,
    /// A job makes a protected place, which is removed. It is there or it is not; nothing else is different.
    Planted,
}

const fn scenario(name: &'static str, before: &'static [Step], step: Step) -> Scenario {
    Scenario { name, before, step, huge: 10, promise: Promise::Whole, thinned: 1 }
}

/// A command, whose many calls are mostly those of its start.
const fn command(name: &'static str, before: &'static [Step], step: Step) -> Scenario {
    Scenario { thinned: 16, ..scenario(name, before, step) }
}

/// One command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// One call.
    Call(Call),
    /// Calls of one session, one after the other.
    Calls(&'static [Call]),
    /// A job, to its end.
    Job(Call),
    /// A call whose changes are shown to a person, who says yes.
    Approve(Call),
    /// A call of a session that goes on.
    Continue(Call),
    /// A call whose changes are held.
    Propose(Call),
    /// What is held is made.
    Apply,
    /// The last change is taken back.
    Undo,
    /// All of the session that went on is taken back.
    UndoSession,
    /// The last undo is taken back.
    UndoUndo,
    /// The next start after a command that was killed in the middle.
    Recover(&'static Killed),
}

/// A command that was killed when it made a call of this name for the last time.
#[derive(Debug)]
pub(super) struct Killed {
    pub(super) step: Step,
    pub(super) at: &'static str,
}

/// A tool and its arguments, which are all text.
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
    scenario("create", &[], Step::Call(CREATE)),
    scenario("overwrite", &[], Step::Calls(&[READ, OVERWRITE])),
    scenario("append", &[], Step::Call(APPEND)),
    scenario("append-linked", &[], Step::Call(APPEND_LINKED)),
    scenario("edit", &[], Step::Call(EDIT)),
    scenario("edit-large", &[], Step::Call(EDIT_LARGE)),
    // More than what the history keeps among others, and than what is kept in memory while it is written in place.
    Scenario { huge: 500_000, ..scenario("edit-huge", &[], Step::Call(EDIT_HUGE)) },
    scenario("edit-linked", &[], Step::Call(EDIT_LINKED)),
    scenario("patch", &[], Step::Call(PATCH)),
    scenario("unlink", &[], Step::Call(UNLINK)),
    scenario("undo", &[Step::Call(PATCH)], Step::Undo),
    scenario("undo-linked", &[Step::Call(EDIT_LINKED)], Step::Undo),
    scenario("undo-undo", &[Step::Call(PATCH), Step::Undo], Step::UndoUndo),
    // What is at a name becomes one file with another name, and a file of its own again.
    scenario("undo-joined", &[Step::Continue(EDIT_TWO), UNLINKED, REUSED], Step::UndoSession),
    scenario(
        "undo-apart",
        &[Step::Continue(EDIT_TWO), UNLINKED, REUSED, Step::UndoSession],
        Step::UndoUndo,
    ),
    scenario(
        "apply",
        &[Step::Propose(PATCH), Step::Propose(CREATE), Step::Propose(EDIT_LINKED)],
        Step::Apply,
    ),
    scenario("recover", &[], Step::Recover(&PATCH_KILLED)),
    scenario("recover-linked", &[], Step::Recover(&EDIT_LINKED_KILLED)),
    scenario("recover-undo", &[Step::Call(PATCH)], Step::Recover(&UNDO_KILLED)),
    // More than 64 changes are made as a batch.
    Scenario { thinned: 40, ..command("batch", &[], Step::Call(BATCH)) },
    command("staged", &[], Step::Approve(STAGED)),
    command("moved", &[], Step::Call(MOVED)),
    Scenario { promise: Promise::Built, ..command("build", &[], Step::Call(BUILD)) },
    Scenario {
        promise: Promise::Built,
        ..command("rebuild", &[Step::Call(BUILD)], Step::Call(REBUILD))
    },
    Scenario { promise: Promise::Planted, ..command("planted", &[PLANT], Step::Job(PLANTED)) },
];

const PATCH_KILLED: Killed = Killed { step: Step::Call(PATCH), at: "unlinkat" };
const EDIT_LINKED_KILLED: Killed = Killed { step: Step::Call(EDIT_LINKED), at: "renameat" };
const UNDO_KILLED: Killed = Killed { step: Step::Undo, at: "renameat" };

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
const UNLINKED: Step = Step::Continue(Call {
    tool: "patch",
    arguments: &[("patch", "*** Begin Patch\n*** Delete File: docs/same.md\n*** End Patch\n")],
});
const REUSED: Step = Step::Continue(Call {
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
/// A file loses one of its names. It is not undone after a copy: which file has another name is told by numbers that a copy does
/// not have.
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

// Each command first looks whether all is there: a directory that a fault keeps from being surveyed is masked, and a command that did a
// part of its work would be neither here nor there.
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
/// A script, since a command that names a protected place is judged before it runs.
const PLANT: Step = Step::Call(Call {
    tool: "write",
    arguments: &[
        ("path", "plant.sh"),
        ("content", "mkdir .husky && echo evil > .husky/pre-commit\n"),
    ],
});
const PLANTED: Call = bash(&[("command", "sh plant.sh")]);

/// Makes the workspace that every scenario begins with; with so many lines in `huge.txt`.
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
