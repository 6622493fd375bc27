//! The heap of this process, measured in a process of its own.

use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::thread;

use windlass_sandbox::share_heap;

/// Tells the test below that it is the process that measures itself.
const ALONE: &str = "WINDLASS_TEST_HEAP";

/// How much memory this process used at most, in kB.
fn most_used() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Allocates 32 MiB in small pieces, and frees all but a few of them.
fn use_memory() -> Vec<Box<[u8; 512]>> {
    let mut pieces: Vec<_> = (0..64 << 10).map(|_| Box::new(black_box([1; 512]))).collect();
    pieces.retain({
        let mut number = 0;
        move |_| {
            number += 1;
            number % 1000 == 0
        }
    });
    pieces
}

#[test]
fn what_one_thread_frees_another_uses_again() {
    if std::env::var_os(ALONE).is_some() {
        share_heap();
        let before = most_used();
        let mut kept = Vec::new();
        for _ in 0..4 {
            kept.push(thread::spawn(use_memory).join().unwrap());
            // The thread that ended is not the one whose heap the next gets.
            kept.push(use_memory());
        }
        let used = most_used() - before;
        assert!(used < 48 << 10, "{used} kB");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let name = "heap::what_one_thread_frees_another_uses_again";
    let done = Command::new(program).args([name, "--exact"]).env(ALONE, "1").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
