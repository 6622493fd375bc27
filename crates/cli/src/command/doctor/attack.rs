//! Attacks from inside a sandbox. Their success is checked from outside where possible: a command may well write to a file that only it
//! sees.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;
use windlass::process::{Backend, Confinement, ProcessSettings};
use windlass::{Mode, Session, ToolCall, Windlass};

use super::new_scratch;
use crate::command::block_on;
use crate::scratch::Scratch;

/// One attack.
struct Attack {
    /// The thing that a successful attack reaches.
    target: &'static str,
    /// The shell commands of the attack.
    script: &'static str,
    detection: Detection,
    defence: Defence,
    /// Runs in a command of its own, because its changes are refused as a whole.
    is_alone: bool,
}

/// The way to find out whether an attack succeeded.
enum Detection {
    /// The script's exit status tells.
    Inside,
    /// The function inspects the temporary directory from outside.
    Outside(fn(&Path) -> bool),
}

/// The kinds of sandbox that must stop an attack.
#[derive(Clone, Copy)]
enum Defence {
    /// Every sandbox.
    All,
    /// Sandboxes with namespaces, and Landlock alone from this version on.
    ByLandlock(u32),
    /// Only sandboxes with namespaces.
    ByNamespaces,
}

impl Attack {
    /// Makes an attack that every sandbox must stop and that runs together with others.
    const fn new(target: &'static str, script: &'static str, detection: Detection) -> Self {
        Self { target, script, detection, defence: Defence::All, is_alone: false }
    }

    /// Sets the kinds of sandbox that must stop it.
    const fn stopped_by(self, defence: Defence) -> Self {
        Self { defence, ..self }
    }

    /// Gives the attack a command of its own.
    const fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// Returns whether a sandbox of this backend must stop the attack.
    fn must_be_stopped_by(&self, backend: Backend) -> bool {
        match self.defence {
            Defence::All => true,
            Defence::ByLandlock(from) => {
                backend.is_whole() || windlass::process::landlock_version() >= from
            }
            Defence::ByNamespaces => backend.is_whole(),
        }
    }
}

/// All attacks.
const ATTACKS: &[Attack] = &[
    Attack::new(
        "a directory outside",
        r#"echo x > "$OUTSIDE/planted""#,
        Detection::Outside(|base| base.join("planted").exists()),
    ),
    Attack::new(
        "a file outside",
        r#"echo x > "$OUTSIDE/file"; truncate -s 0 "$OUTSIDE/file"; rm -f "$OUTSIDE/file""#,
        Detection::Outside(|base| {
            std::fs::read(base.join("file")).ok().as_deref() != Some(OUTSIDE_CONTENT)
        }),
    ),
    Attack::new("a file outside by another name", r#"ln "$OUTSIDE/file" own"#, Detection::Inside),
    Attack::new(
        "modes of files outside",
        r#"chmod 777 "$OUTSIDE/mode""#,
        Detection::Outside(|base| {
            let found = base.join("mode").metadata();
            found.map_or(true, |found| found.permissions().mode() & 0o777 == 0o777)
        }),
    )
    .stopped_by(Defence::ByNamespaces),
    Attack::new(
        "times of files outside",
        r#"touch -d @0 "$OUTSIDE/time""#,
        Detection::Outside(|base| {
            base.join("time").metadata().map_or(true, |found| found.mtime() == 0)
        }),
    )
    .stopped_by(Defence::ByNamespaces),
    Attack::new(
        "what git runs",
        "echo x > .git/hooks/post-checkout; mv .git elsewhere",
        Detection::Outside(|base| {
            let hooks = base.join("work/.git/hooks").read_dir();
            hooks.map_or(true, |mut hooks| hooks.next().is_some())
        }),
    )
    .stopped_by(Defence::ByNamespaces)
    .alone(),
    Attack::new("a secret", r#"cat "$OUTSIDE/secret""#, Detection::Inside),
    Attack::new("our own state", r#"ls "$STATE"/*"#, Detection::Inside),
    Attack::new("other processes", r#"kill -0 "$DOCTOR""#, Detection::Inside)
        .stopped_by(Defence::ByLandlock(6)),
    Attack::new("mounting", "mount -t tmpfs none /mnt", Detection::Inside),
    Attack::new("a setuid program", "cp /bin/true set-id && chmod u+s set-id", Detection::Inside),
];

/// The content of the files outside the workspace.
const OUTSIDE_CONTENT: &[u8] = b"outside";

/// Makes every attack in a temporary directory. Returns a summary, with the attacks that this backend is not expected to stop; fails if
/// another attack succeeds.
pub(super) fn attack_all(confinement: &Confinement) -> Result<String> {
    let scratch = new_scratch()?;
    for name in ["hooks", "objects", "refs"] {
        std::fs::create_dir_all(scratch.path().join("work/.git").join(name))?;
    }
    std::fs::write(scratch.path().join("work/.git/HEAD"), "ref: refs/heads/main\n")?;
    for name in ["file", "mode", "time", "secret"] {
        std::fs::write(scratch.path().join(name), OUTSIDE_CONTENT)?;
    }
    let together = ATTACKS.iter().enumerate().filter(|(_, attack)| !attack.is_alone);
    let tries = together.map(|(number, Attack { script, .. })| {
        format!("if {{ {script}; }} > /dev/null 2>&1; then echo REACHED {number}; fi\n")
    });
    let text = run_script(confinement, &scratch, &tries.collect::<String>())?;
    for attack in ATTACKS.iter().filter(|attack| attack.is_alone) {
        std::fs::write(scratch.path().join("work/attack.sh"), attack.script)?;
        let settings =
            ProcessSettings { confinement: confinement.clone(), ..ProcessSettings::default() };
        bash_output(&scratch, settings, "bash attack.sh")?;
    }
    let reached = |(number, attack): (usize, &'static Attack)| {
        let is_reached = match attack.detection {
            Detection::Inside => text.lines().any(|line| line == format!("REACHED {number}")),
            Detection::Outside(look) => look(scratch.path()),
        };
        is_reached.then_some(attack)
    };
    let (expected, unexpected): (Vec<_>, Vec<_>) = ATTACKS
        .iter()
        .enumerate()
        .filter_map(reached)
        .partition(|attack| !attack.must_be_stopped_by(confinement.backend));
    ensure!(unexpected.is_empty(), "a command reached {}", names(&unexpected));
    let failed = ATTACKS.len() - expected.len();
    Ok(if expected.is_empty() {
        format!("{failed} attacks from inside failed")
    } else {
        format!("{failed} attacks from inside failed; it does not hold {}", names(&expected))
    })
}

/// Joins the targets of attacks.
fn names(attacks: &[&Attack]) -> String {
    attacks.iter().map(|attack| attack.target).collect::<Vec<_>>().join(", ")
}

/// The line that a script prints after its last command.
const END_MARKER: &str = "END OF ALL";

/// Runs a script in the workspace of a temporary directory, and returns its output; fails if it does not run to its end. The script is in
/// a file, because the rules would refuse the commands before the sandbox could.
pub(super) fn run_script(
    confinement: &Confinement,
    scratch: &Scratch,
    script: &str,
) -> Result<String> {
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
    std::fs::write(
        scratch.path().join("work/attack.sh"),
        format!("{script}\necho {END_MARKER}\n"),
    )?;
    let text = bash_output(scratch, processes, "bash attack.sh")?;
    // An attack that was not made proves nothing.
    ensure!(text.contains(END_MARKER), "{text}");
    Ok(text)
}

/// Runs a command with the tool `bash` in the mode `yolo`, and returns the text of the result.
pub(super) fn bash_output(
    scratch: &Scratch,
    processes: ProcessSettings,
    command: &str,
) -> Result<String> {
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
