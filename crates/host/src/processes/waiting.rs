//! Finds out whether a program only waits for a person to type.

use std::fs;
use std::path::Path;

/// Number of the system call `read`.
#[cfg(target_arch = "x86_64")]
const READ_SYSTEM_CALL: &str = "0";
#[cfg(not(target_arch = "x86_64"))]
const READ_SYSTEM_CALL: &str = "63";

/// Returns whether a process below a warden reads from a terminal, or from its standard input if that is open.
pub(super) fn waits_for_input(warden: i32, has_input: bool) -> bool {
    descendants(warden).into_iter().any(|pid| reads_input(pid, has_input))
}

/// Returns whether a process is blocked in a read from a terminal or from its open standard input.
fn reads_input(pid: i32, has_input: bool) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(call) = fs::read_to_string(process.join("syscall")) else { return false };
    let mut words = call.split_whitespace();
    if words.next() != Some(READ_SYSTEM_CALL) {
        return false;
    }
    let number =
        words.next().and_then(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let Some(number) = number else { return false };
    let Ok(target) = fs::read_link(process.join("fd").join(number.to_string())) else {
        return false;
    };
    target.starts_with("/dev/pts") || target == Path::new("/dev/tty") || (number == 0 && has_input)
}

/// Returns the ids of all processes below one.
pub(super) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(children(pid));
        at += 1;
    }
    found
}

/// Returns the ids of the child processes of a process.
fn children(pid: i32) -> Vec<i32> {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let Ok(tasks) = fs::read_dir(tasks) else { return Vec::new() };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}
