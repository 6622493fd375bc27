//! Programs that run another one with its words: they are looked through, and what they run is what counts.

use windlass_core::OnlyReads;

use super::found::Found;
use super::syntax::Word;

/// A program that runs the command in its words.
struct Wrapper {
    name: &'static str,
    /// Options without a value; short ones are letters of one word.
    flags: &'static [&'static str],
    /// Options with a value, joined or behind.
    values: &'static [&'static str],
    /// How many words stand before the command.
    skip: usize,
}

const PLAIN: Wrapper = Wrapper { name: "", flags: &[], values: &[], skip: 0 };

const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "exec", ..PLAIN },
    Wrapper { name: "command", flags: &["-p"], ..PLAIN },
    Wrapper { name: "setsid", flags: &["-c", "--ctty", "-f", "--fork", "-w", "--wait"], ..PLAIN },
    Wrapper { name: "nice", values: &["-n", "--adjustment"], ..PLAIN },
    Wrapper {
        name: "stdbuf",
        values: &["-i", "-o", "-e", "--input", "--output", "--error"],
        ..PLAIN
    },
    Wrapper {
        name: "ionice",
        flags: &["-t", "--ignore"],
        values: &["-c", "--class", "-n", "--classdata"],
        ..PLAIN
    },
    Wrapper {
        name: "chrt",
        flags: &["-f", "-r", "-o", "-b", "-i", "--fifo", "--rr", "--other", "--batch", "--idle"],
        skip: 1,
        ..PLAIN
    },
    Wrapper { name: "taskset", flags: &["-c", "--cpu-list"], skip: 1, ..PLAIN },
    Wrapper {
        name: "timeout",
        flags: &["--preserve-status", "--foreground", "-v", "--verbose"],
        values: &["-k", "--kill-after", "-s", "--signal"],
        skip: 1,
    },
    Wrapper { name: "time", flags: &["-p", "-v"], ..PLAIN },
    Wrapper {
        name: "env",
        flags: &["-i", "-", "--ignore-environment"],
        values: &["-u", "--unset"],
        ..PLAIN
    },
    Wrapper {
        name: "xargs",
        flags: &["-0", "--null", "-r", "--no-run-if-empty", "-t", "--verbose", "-x", "--exit"],
        values: &[
            "-n",
            "--max-args",
            "-P",
            "--max-procs",
            "-L",
            "--max-lines",
            "-d",
            "--delimiter",
            "-s",
            "--max-chars",
            "-I",
            "-E",
        ],
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        flags: &["-n", "-E", "-H", "-S", "-k"],
        values: &["-u", "-g"],
        ..PLAIN
    },
    Wrapper { name: "doas", flags: &["-n"], values: &["-u"], ..PLAIN },
];

/// Programs that run what their words say in ways that are not followed here: a rule has to spell out all of it.
const RUNNERS: &[&str] = &[
    "flock",
    "prlimit",
    "setpriv",
    "unshare",
    "nsenter",
    "chroot",
    "runuser",
    "su",
    "sg",
    "pkexec",
    "parallel",
    "watch",
    "entr",
    "script",
    "strace",
    "ltrace",
    "valgrind",
    "perf",
    "proot",
    "fakeroot",
    "faketime",
    "systemd-run",
    "dbus-run-session",
    "xvfb-run",
    "rlwrap",
    "unbuffer",
    "numactl",
    "cpulimit",
    "at",
    "batch",
    "start-stop-daemon",
    "run-parts",
    "busybox",
    "toybox",
    "sshpass",
    "firejail",
    "bwrap",
    "direnv",
    "nix-shell",
    "mise",
    "asdf",
    "hyperfine",
    "caffeinate",
    "arch",
    "linux32",
    "linux64",
    "setarch",
    "choom",
    "coproc",
    "logrotate",
    "capsh",
    "dtach",
    "tmux",
    "screen",
];

/// What a command turns out to run.
#[derive(Debug)]
pub(super) enum Unwrapped {
    /// Itself.
    Nothing,
    /// These words, from here on; it is itself one to be allowed if it does more than that.
    Command { from: usize, is_part: bool },
    /// A script, for bash or for any shell.
    Script { text: String, is_bash: bool },
    /// Something that is not known; nothing that a rule says could cover it.
    Unknown(&'static str),
}

/// Looks through one wrapper.
pub(super) fn unwrap(words: &[Word], found: &mut Found) -> Unwrapped {
    let Some(program) = words.first() else { return Unwrapped::Nothing };
    if matches!(program.text.as_str(), "sh" | "bash" | "dash") {
        return script(words);
    }
    if program.text == "command"
        && words.get(1).is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V"))
    {
        found.reads(OnlyReads::Always);
        return Unwrapped::Nothing;
    }
    if RUNNERS.contains(&program.text.as_str()) && words.len() > 1 {
        found.risk(words.len() - 1, "is run by another program");
        return Unwrapped::Nothing;
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program.text) else {
        return Unwrapped::Nothing;
    };
    let Some(from) = command(wrapper, words) else {
        return Unwrapped::Unknown("has options that are not known here");
    };
    let is_part = match wrapper.name {
        "env" => return assignments(words, from, found),
        "sudo" | "doas" => {
            found.risk(0, "gives more rights");
            true
        }
        _ => false,
    };
    if from >= words.len() {
        return Unwrapped::Nothing;
    }
    Unwrapped::Command { from, is_part }
}

/// Where the command of a wrapper begins; `None` if an option is not known.
fn command(wrapper: &Wrapper, words: &[Word]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) =
        words.get(at).filter(|word| word.text.starts_with('-') || word.could_be_option())
    {
        let text = word.text.as_str();
        if word.could_be_option() {
            return None;
        }
        at += 1;
        if text == "--" {
            break;
        }
        let is_number = wrapper.name == "nice"
            && text.len() > 1
            && text[1..].bytes().all(|byte| byte.is_ascii_digit());
        let is_joined = |option: &str| match option.strip_prefix("--") {
            Some(_) => text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')),
            None => text.len() > 2 && text.starts_with(option),
        };
        match () {
            () if is_number || wrapper.flags.contains(&text) => {}
            () if wrapper.values.contains(&text) => at += 1,
            () if wrapper.values.iter().any(|option| is_joined(option)) => {}
            () => return None,
        }
    }
    let from = at + wrapper.skip;
    // What stands before the command must not be something else.
    let between = words.get(at..from.min(words.len())).unwrap_or_default();
    between.iter().all(|word| !word.could_be_option()).then_some(from)
}

/// `env A=b command`: variables can change what is run, so that `env` has to be allowed too.
fn assignments(words: &[Word], from: usize, found: &mut Found) -> Unwrapped {
    let is_set = |word: &&Word| word.text.contains('=') && !word.text.starts_with('=');
    let set = words.get(from..).unwrap_or_default().iter().take_while(is_set).count();
    for at in from..from + set {
        found.risk(at, "sets a variable for what it runs");
    }
    let from = from + set;
    if from >= words.len() {
        return if words.len() == 1 {
            Unwrapped::Nothing
        } else {
            Unwrapped::Command { from, is_part: true }
        };
    }
    Unwrapped::Command { from, is_part: set > 0 }
}

/// `sh -c '…'`: a script is looked into if nothing else is said.
fn script(words: &[Word]) -> Unwrapped {
    let is_bash = words.first().is_some_and(|shell| shell.text == "bash");
    let [_, option, text, ..] = words else { return Unwrapped::Nothing };
    let letters = option.text.strip_prefix('-').unwrap_or_default();
    let is_plain = !letters.is_empty()
        && letters.chars().all(|c| matches!(c, 'c' | 'e' | 'u' | 'x'))
        && letters.contains('c');
    if !is_plain || text.is_open || text.pattern.is_some() {
        return Unwrapped::Nothing;
    }
    Unwrapped::Script { text: text.text.clone(), is_bash }
}

/// Whether a script means the same to any shell as it does to bash.
pub(super) fn is_portable(script: &str) -> bool {
    let bytes = script.as_bytes();
    let is_descriptor =
        |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    let joins = bytes.windows(2).enumerate().any(|(at, pair)| match pair {
        b"&>" | b"|&" | b";&" => true,
        b">&" | b"<&" => !is_descriptor(at + 2),
        _ => false,
    });
    !joins
        && !script.contains("<<<")
        && !script.contains('!')
        && !script.contains("time")
        && script.is_ascii()
}
