//! The errors of a launch, and the setup steps that they name.

use std::io;

/// The reason why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A path, an argument or a variable has a NUL in it.
    #[error("{what} cannot have a NUL in it")]
    Name {
        /// The kind of value, such as `an argument`.
        what: &'static str,
    },
    /// The machine gave no process, socket or memory for the warden.
    #[error("a process could not be made: {0}")]
    Machine(#[source] io::Error),
    /// The sandbox could not be set up.
    #[error("{step}: {source}")]
    Surroundings {
        /// The step that failed.
        step: LaunchStep,
        /// The error of that step.
        source: io::Error,
    },
    /// The sandbox was ready, but the program itself could not be executed.
    #[error("{0}")]
    Program(#[source] io::Error),
}

/// Defines the steps with their numbers and their error messages.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $number:literal $words:literal;)*) => {
        /// A step in the setup of a program's sandbox.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub enum LaunchStep {
            $($(#[$doc])* $name = $number,)*
        }

        impl LaunchStep {
            /// Returns the step with this number; [`Start`](Self::Start) for an unknown one.
            pub(crate) fn of(number: i32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    _ => Self::Start,
                }
            }
        }

        impl std::fmt::Display for LaunchStep {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $words,)*
                })
            }
        }
    };
}

steps! {
    /// Creates the namespaces.
    Namespaces = 0 "new namespaces could not be made";
    /// Maps the user and the group into the user namespace.
    Identity = 1 "the user could not be taken into the namespace";
    /// Makes the mounts private to the mount namespace.
    Mounts = 2 "mounts could not be made private";
    /// Mounts writable files and directories.
    Writable = 3 "a writable directory could not be mounted";
    /// Mounts `/proc`.
    Proc = 4 "/proc could not be mounted";
    /// Mounts `/dev`.
    Dev = 5 "/dev could not be mounted";
    /// Mounts read-only files and directories.
    ReadOnly = 6 "a read-only directory could not be mounted";
    /// Mounts an overlay.
    Overlay = 7 "an overlay could not be mounted";
    /// Protects paths of the workspace.
    Protected = 8 "a protected path could not be protected";
    /// Masks paths.
    Masked = 9 "a secret path could not be masked";
    /// Makes the new root and enters it.
    Root = 10 "its root file system could not be made";
    /// Sets up the network.
    Network = 11 "its own network could not be set up";
    /// Drops capabilities and forbids new privileges.
    Privileges = 12 "privileges could not be dropped";
    /// Sets the resource limits.
    Limits = 13 "limits could not be set";
    /// Applies the Landlock rules.
    Landlock = 14 "Landlock could not be applied";
    /// Installs the seccomp filters.
    Seccomp = 15 "the filter of system calls could not be applied";
    /// Enters the working directory.
    Directory = 16 "the working directory could not be entered";
    /// Sets up standard input, output and error.
    Descriptors = 17 "its input and output could not be set up";
    /// Starts the program's process.
    Start = 18 "the process could not be started";
    /// Executes the program.
    Program = 19 "the program could not be executed";
}
