//! Why a program could not be started.

use std::io;

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Something about it is no name: there is a NUL in it.
    #[error("{what} cannot have a NUL in it")]
    Name {
        /// What it is about.
        what: &'static str,
    },
    /// The machine could not be asked at all.
    #[error("a process could not be made: {0}")]
    Machine(#[source] io::Error),
    /// The surroundings could not be made.
    #[error("{step}: {source}")]
    Surroundings {
        /// What was tried.
        step: Step,
        /// Why not.
        source: io::Error,
    },
    /// The program itself could not be executed.
    #[error("{0}")]
    Program(#[source] io::Error),
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $number:literal $words:literal;)*) => {
        /// A step on the way to the surroundings of a program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Step {
            $($(#[$doc])* $name = $number,)*
        }

        impl Step {
            pub(crate) fn of(number: i32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    _ => Self::Start,
                }
            }
        }

        impl std::fmt::Display for Step {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $words,)*
                })
            }
        }
    };
}

steps! {
    /// New namespaces.
    Namespaces = 0 "new namespaces could not be made";
    /// Who we are in them.
    Identity = 1 "the user could not be taken into the namespace";
    /// Mounts of its own.
    Mounts = 2 "mounts could not be made private";
    /// The directories that it may change.
    Writable = 3 "a writable directory could not be mounted";
    /// A file system of its own processes.
    Proc = 4 "/proc could not be mounted";
    /// Devices.
    Dev = 5 "/dev could not be mounted";
    /// The files and directories that it may only read.
    ReadOnly = 6 "a read-only directory could not be mounted";
    /// An overlay.
    Overlay = 7 "an overlay could not be mounted";
    /// A place that must stay as it is.
    Protected = 8 "a protected path could not be protected";
    /// A path that it must not open.
    Masked = 9 "a secret path could not be masked";
    /// Its root.
    Root = 10 "its root file system could not be made";
    /// Its network.
    Network = 11 "its own network could not be set up";
    /// What it may not do.
    Privileges = 12 "privileges could not be dropped";
    /// Limits.
    Limits = 13 "limits could not be set";
    /// Landlock.
    Landlock = 14 "Landlock could not be applied";
    /// The filter of system calls.
    Seccomp = 15 "the filter of system calls could not be applied";
    /// Where it starts.
    Directory = 16 "the working directory could not be entered";
    /// Its input and output.
    Descriptors = 17 "its input and output could not be set up";
    /// The process itself.
    Start = 18 "the process could not be started";
    /// The program.
    Program = 19 "the program could not be executed";
}
