//! Explains why a program was not started, for the person or model that can change it.

use std::io;

use windlass_core::{ProcessRequest, ToolError};
use windlass_sandbox::{LaunchError, LaunchStep};

use super::LocalProcesses;

/// Reason why a program was not started.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The sandbox or the program could not be started.
    Launch(LaunchError),
    /// Another system call failed.
    Machine(io::Error),
    /// The program cannot be found; a sentence for the model.
    Program(String),
    /// The backend cannot hold the confinement, with an alternative.
    Backend { why: String, instead: String },
}

impl From<LaunchError> for Refusal {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Machine(error)
    }
}

impl LocalProcesses {
    /// Turns a refusal into an error with a hint.
    pub(super) fn explain(&self, request: &ProcessRequest, refusal: Refusal) -> ToolError {
        let program = shortened(&request.program.to_string());
        match refusal {
            Refusal::Program(why) => ToolError::failed(why),
            Refusal::Launch(LaunchError::Program(why)) => {
                ToolError::failed(format!("cannot execute `{program}`: {why}"))
            }
            Refusal::Launch(LaunchError::Surroundings { step: LaunchStep::Directory, source }) => {
                let directory = request.directory.display();
                ToolError::failed(format!("cannot work in {directory}: {source}"))
            }
            Refusal::Launch(error @ LaunchError::Name { .. }) => {
                ToolError::invalid_args(error.to_string())
            }
            Refusal::Launch(LaunchError::Surroundings { step, source }) => {
                let level = self.settings.confinement.level;
                ToolError::host_failed(format!(
                    "`{program}` was not run: the sandbox `{level}` cannot be set up here: {step}: {source}"
                ))
                .hint(remedy(step))
            }
            Refusal::Backend { why, instead } => {
                let confinement = &self.settings.confinement;
                ToolError::host_failed(format!(
                    "`{program}` was not run: {confinement}: that cannot be had here: {why}"
                ))
                .hint(format!("{instead}; `windlass doctor` says what holds here"))
            }
            Refusal::Launch(error) => {
                ToolError::host_failed(format!("`{program}` was not run: {error}"))
            }
            Refusal::Machine(error) => {
                ToolError::host_failed(format!("`{program}` was not run: {error}"))
            }
        }
    }
}

/// Returns the hint for a person about a step that failed.
fn remedy(step: LaunchStep) -> String {
    let first = match step {
        LaunchStep::Namespaces | LaunchStep::Identity => {
            "user namespaces are not allowed here; an administrator can allow them (user.max_user_namespaces above 0, and \
                         kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0 if the machine has them; for a \
                         container, the person who starts it), or install bubblewrap, which may be allowed to create them for us"
        }
        LaunchStep::Overlay => {
            "the kernel lets no ordinary user mount an overlay here (Linux 5.11 does)"
        }
        LaunchStep::Landlock => {
            "the kernel has no Landlock, or an old one (`lsm=` on its command line)"
        }
        _ => "`windlass doctor` says what is missing",
    };
    let weaker = match step {
        LaunchStep::Namespaces
        | LaunchStep::Identity
        | LaunchStep::Mounts
        | LaunchStep::Overlay => {
            "; with sandbox_backend = \"landlock\" in your own configuration commands run in a weaker sandbox"
        }
        _ => "",
    };
    format!("{first}{weaker}; with --sandbox off commands run without a sandbox")
}

/// Returns the beginning of a command, for messages.
fn shortened(command: &str) -> String {
    const MAX_COMMAND_BYTES: usize = 80;
    let line = command.trim_start().lines().next().unwrap_or_default();
    let cut = line.get(..line.floor_char_boundary(MAX_COMMAND_BYTES)).unwrap_or(line);
    if cut.len() < command.trim().len() { format!("{cut} …") } else { cut.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_by_their_beginning() {
        let long = "ä".repeat(100);
        for (command, named) in [
            ("true", "true".to_owned()),
            (" ls -l \n", "ls -l ".to_owned()),
            ("\none\ntwo", "one …".to_owned()),
            (&long, format!("{} …", "ä".repeat(40))),
            ("", String::new()),
        ] {
            assert_eq!(shortened(command), named);
        }
    }

    #[test]
    fn a_remedy_names_a_way() {
        assert!(remedy(LaunchStep::Namespaces).contains("user.max_user_namespaces"));
        assert!(remedy(LaunchStep::Namespaces).contains("sandbox_backend = \"landlock\""));
        assert!(!remedy(LaunchStep::Landlock).contains("sandbox_backend"));
        for step in
            [LaunchStep::Namespaces, LaunchStep::Overlay, LaunchStep::Landlock, LaunchStep::Dev]
        {
            assert!(remedy(step).ends_with("with --sandbox off commands run without a sandbox"));
        }
    }
}
