//! What a command tries from inside. What came of it is looked at from outside, where that can be seen: a command may well write to
//! a file of that name which nobody else sees.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use windlass::process::{Backend, Confinement, ProcessSettings};
use windlass::{Mode, Session, ToolCall, Windlass};

use super::scratch;
use crate::command::block_on;
use crate::scratch::Scratch;

struct Attack {
    /// What would be reached.
    on: &'static str,
    script: &'static str,
    seen: Seen,
    held: Held,
    /// Its changes are refused as a whole, so it is a command of its own.
    is_alone: bool,
}

/// Where it is seen whether it was.
enum Seen {
    /// By the command: it succeeds.
    Inside,
    /// In the place that was made for it.
    Outside(fn(&Path) -> bool),
}

/// Who holds against it.
#[derive(Clone, Copy)]
enum Held {
    Always,
    /// Where there is no more than Landlock, from this version of it on.
    ByLandlock(u32),
    ByNamespaces,
}

impl Attack {
    const fn new(on: &'static str, script: &'static str, seen: Seen) -> Self {
        Self { on, script, seen, held: Held::Always, is_alone: false }
    }

    const fn held(self, held: Held) -> Self {
        Self { held, ..self }
    }

    const fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    fn is_held_by(&self, backend: Backend) -> bool {
        match self.held {
            Held::Always => true,
            Held::ByLandlock(from) => {
                backend.is_whole() || windlass::process::landlock_version() >= from
            }
            Held::ByNamespaces => backend.is_whole(),
        }
    }
}

const ATTACKS: &[Attack] = &[
    Attack::new(
        "a directory outside",
        r#"echo x > "$OUTSIDE/planted""#,
        Seen::Outside(|base| base.join("planted").exists()),
    ),
    Attack::new(
        "a file outside",
        r#"echo x > "$OUTSIDE/file"; truncate -s 0 "$OUTSIDE/file"; rm -f "$OUTSIDE/file""#,
        Seen::Outside(|base| std::fs::read(base.join("file")).ok().as_deref() != Some(TEXT)),
    ),
    Attack::new("a file outside by another name", r#"ln "$OUTSIDE/file" own"#, Seen::Inside),
    Attack::new(
        "modes of files outside",
        r#"chmod 777 "$OUTSIDE/mode""#,
        Seen::Outside(|base| {
            let found = base.join("mode").metadata();
            found.map_or(true, |found| found.permissions().mode() & 0o777 == 0o777)
        }),
    )
    .held(Held::ByNamespaces),
    Attack::new(
        "times of files outside",
        r#"touch -d @0 "$OUTSIDE/time""#,
        Seen::Outside(|base| base.join("time").metadata().map_or(true, |found| found.mtime() == 0)),
    )
    .held(Held::ByNamespaces),
    Attack::new(
        "what git runs",
        "echo x > .git/hooks/post-checkout; mv .git elsewhere",
        Seen::Outside(|base| {
            let hooks = base.join("work/.git/hooks").read_dir();
            hooks.map_or(true, |mut hooks| hooks.next().is_some())
        }),
    )
    .held(Held::ByNamespaces)
    .alone(),
    Attack::new("a secret", r#"cat "$OUTSIDE/secret""#, Seen::Inside),
    Attack::new("our own state", r#"ls "$STATE"/*"#, Seen::Inside),
    Attack::new("other processes", r#"kill -0 "$DOCTOR""#, Seen::Inside).held(Held::ByLandlock(6)),
    Attack::new("mounting", "mount -t tmpfs none /mnt", Seen::Inside),
    Attack::new("a setuid program", "cp /bin/true set-id && chmod u+s set-id", Seen::Inside),
];

const TEXT: &[u8] = b"outside";

/// Every attack on a place of its own: what failed, and what is not held.
pub(super) fn all(confinement: &Confinement) -> Result<String> {
    let scratch = scratch()?;
    for name in ["hooks", "objects", "refs"] {
        std::fs::create_dir_all(scratch.path().join("work/.git").join(name))?;
    }
    std::fs::write(scratch.path().join("work/.git/HEAD"), "ref: refs/heads/main\n")?;
    for name in ["file", "mode", "time", "secret"] {
        std::fs::write(scratch.path().join(name), TEXT)?;
    }
    let together = ATTACKS.iter().enumerate().filter(|(_, attack)| !attack.is_alone);
    let tries = together.map(|(number, Attack { script, .. })| {
        format!("if {{ {script}; }} > /dev/null 2>&1; then echo REACHED {number}; fi\n")
    });
    let text = run(confinement, &scratch, &tries.collect::<String>())?;
    for attack in ATTACKS.iter().filter(|attack| attack.is_alone) {
        std::fs::write(scratch.path().join("work/attack.sh"), attack.script)?;
        let settings =
            ProcessSettings { confinement: confinement.clone(), ..ProcessSettings::default() };
        told(&scratch, settings, "bash attack.sh")?;
    }
    let reached = |(number, attack): (usize, &'static Attack)| {
        let is_reached = match attack.seen {
            Seen::Inside => text.lines().any(|line| line == format!("REACHED {number}")),
            Seen::Outside(look) => look(scratch.path()),
        };
        is_reached.then_some(attack)
    };
    let (not_held, holes): (Vec<_>, Vec<_>) = ATTACKS
        .iter()
        .enumerate()
        .filter_map(reached)
        .partition(|attack| !attack.is_held_by(confinement.backend));
    ensure!(holes.is_empty(), "a command reached {}", names(&holes));
    let failed = ATTACKS.len() - not_held.len();
    Ok(if not_held.is_empty() {
        format!("{failed} attacks from inside failed")
    } else {
        format!("{failed} attacks from inside failed; it does not hold {}", names(&not_held))
    })
}

fn names(attacks: &[&Attack]) -> String {
    attacks.iter().map(|attack| attack.on).collect::<Vec<_>>().join(", ")
}

/// What says that a script came to its end.
const END: &str = "END OF ALL";

/// Runs a script in a workspace of its own; what it printed. It lies in a file: the rules would refuse what is tried here before
/// the sandbox could.
pub(super) fn run(confinement: &Confinement, scratch: &Scratch, script: &str) -> Result<String> {
    let state = scratch.path().join("state");
    let environment = vec![
        format!("OUTSIDE={}", scratch.path().display()),
        format!("STATE={}", state.display()),
        format!("DOCTOR={}", std::process::id()),
    ];
    let processes = ProcessSettings {
        confinement: confinement.clone(),
        environment,
        ..ProcessSettings::default()
    };
    std::fs::write(scratch.path().join("work/attack.sh"), format!("{script}\necho {END}\n"))?;
    let text = told(scratch, processes, "bash attack.sh")?;
    // What was not tried says nothing.
    ensure!(text.contains(END), "{text}");
    Ok(text)
}

/// What a call of bash in a workspace of its own says.
pub(super) fn told(scratch: &Scratch, processes: ProcessSettings, command: &str) -> Result<String> {
    let windlass = Windlass::builder(scratch.path().join("work"))
        .mode(Mode::Yolo)
        .deny(format!("read {}", scratch.path().join("secret").display()).parse()?)
        .state(scratch.path().join("state"))
        .processes(processes)
        .build()?;
    let session = Arc::new(Session::new(windlass.engine().new_session_id()));
    let input = json!({"command": command, "timeout": 20});
    let result = block_on(windlass.call(&session, ToolCall::new("bash", input)))?;
    Ok(result.output.to_text())
}
