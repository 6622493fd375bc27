//! Runs a program with strace on one of its threads, for at most a minute.
//!
//! The first thread is traced from its first call. To trace only the worker, a first strace stops the program when that thread sets its
//! name, which is its first call. Then a second strace, for this thread only, replaces the first, and the program continues.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::fault::{self, CallTarget, Fault, Thread, TracedCall};

/// A program that runs longer is killed and counts as hanging.
const RUN_TIMEOUT: Duration = Duration::from_mins(1);

/// The pause between two checks for an event.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// The line of strace for a stopped thread.
const STOPPED: &str = "--- stopped by SIGSTOP ---";

/// A program with its arguments and environment.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) words: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) home: PathBuf,
    /// The directory for its output, and for that of strace.
    pub(super) place: PathBuf,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct RunResult {
    /// `None` if it did not end within the timeout.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The log of strace.
    pub(super) log: String,
}

impl RunResult {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Returns whether the fault was injected.
    pub(super) fn was_injected(&self) -> bool {
        self.log.contains("(INJECTED)") || self.was_killed()
    }

    /// Returns whether the fault hit a call about a kernel object, where no disk error can occur. Threads wake each other a different
    /// number of times in each run, so the n-th call is not always the same call.
    pub(super) fn hit_another_call(&self) -> bool {
        let injected = self.log.lines().find(|line| line.contains("(INJECTED)"));
        let arguments = injected.and_then(|line| line.split_once('('));
        arguments.is_some_and(|(_, arguments)| target_of(arguments) == CallTarget::Kernel)
    }

    pub(super) fn was_killed(&self) -> bool {
        self.log.contains("+++ killed by SIGKILL +++")
    }

    /// Describes a panic, a hang or a crash, which no fault excuses; `None` if there was none.
    pub(super) fn crash(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some(format!("it did not end within {} s", RUN_TIMEOUT.as_secs()));
        };
        let panicked = self.stderr.contains("panicked") || status.code() == Some(101);
        let signal = status.signal().filter(|_| !self.was_killed());
        match (panicked, signal) {
            (true, _) => Some("it panicked".to_owned()),
            (_, Some(signal)) => Some(format!("it ended by signal {signal}")),
            _ => None,
        }
    }

    /// The traced calls, in their order.
    pub(super) fn calls_made(&self, thread: Thread) -> Vec<TracedCall> {
        let mut times: HashMap<&str, usize> = HashMap::new();
        let mut calls_made = Vec::new();
        for (name, arguments) in self.log.lines().filter_map(|line| line.split_once('(')) {
            let Some(call) = fault::calls().find(|call| *call == name) else { continue };
            let nth = times.entry(call).or_default();
            *nth += 1;
            calls_made.push(TracedCall { thread, call, nth: *nth, target: target_of(arguments) });
        }
        calls_made
    }
}

/// The target of a call, from its arguments in the log. Releasing a lock counts as a call about a kernel object, because it cannot fail.
fn target_of(arguments: &str) -> CallTarget {
    if arguments.contains("l_type=F_UNLCK") {
        return CallTarget::Kernel;
    }
    let first = arguments.split([',', ')']).next().unwrap_or_default();
    let kernel = ["<anon_inode:", "<pipe:", "<socket:", "<UNIX"];
    if kernel.iter().any(|kind| first.contains(kind)) {
        CallTarget::Kernel
    } else {
        CallTarget::Files
    }
}

/// Fails if strace is missing or may not trace.
pub(super) fn check_that_strace_works() -> Result<()> {
    let output = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output()
        .context("cannot start `strace`; `cargo xtask setup` installs it")?;
    if !output.status.success() {
        let last_lines = String::from_utf8_lossy(&output.stderr);
        bail!("strace cannot trace here, so no fault can be injected: {}", last_lines.trim_end());
    }
    Ok(())
}

impl Program {
    /// Runs the program without strace.
    pub(super) fn run(&self) -> Result<RunResult> {
        let (first, rest) = self.words.split_first().context("no program")?;
        let mut child = self.start(first, rest)?;
        let status = end(&mut child, Instant::now() + RUN_TIMEOUT)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.result(status)
    }

    /// Runs the program with strace on one thread, with a fault, or without one to log its calls.
    pub(super) fn trace(&self, thread: Thread, fault: Option<&Fault>) -> Result<RunResult> {
        let mut options = vec!["-qq".into(), "-y".into(), "-o".into(), self.log().into()];
        options.extend(["-e".into(), fault.map_or_else(all_calls, |fault| only(fault.call))]);
        if let Some(fault) = fault {
            options.extend(["-e".into(), fault.injection().into()]);
        }
        fs::write(self.log(), "")?;
        match thread {
            Thread::Main => self.trace_main(options),
            Thread::Worker => self.trace_worker(&options),
        }
    }

    /// Counts the threads of the program that make calls which could fail. Threads of child programs do not count.
    pub(super) fn count_threads(&self) -> Result<usize> {
        let mut calls = all_calls();
        calls.push(",clone3");
        let options = ["-f".into(), "-qq".into(), "-y".into(), "-o".into(), self.log().into()];
        let result = self.trace_main([options.into(), vec!["-e".into(), calls]].concat())?;
        Ok(threads(&result.log).len())
    }

    fn trace_main(&self, mut options: Vec<OsString>) -> Result<RunResult> {
        options.extend(self.words.iter().cloned());
        let mut strace = self.start(&"strace".into(), &options)?;
        let status = end(&mut strace, Instant::now() + RUN_TIMEOUT)?;
        if status.is_none() {
            kill_process_group(pid(strace.id())?, Signal::KILL)?;
            strace.wait()?;
        }
        self.result(status)
    }

    fn trace_worker(&self, options: &[OsString]) -> Result<RunResult> {
        let deadline = Instant::now() + RUN_TIMEOUT;
        let mut child = self.start_to_worker()?;
        let Some(worker) = self.worker(&mut child, deadline)? else {
            // The program ended without a worker.
            let status = end(&mut child, deadline)?;
            return self.ended(child, status);
        };
        let program = child.id();
        kill_process(tracer(program)?, Signal::KILL)?;
        while tracer(program).is_ok() {
            sleep(POLL_INTERVAL);
        }
        let mut strace = Command::new("strace")
            .args(options)
            .args(["-p", &worker.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        while !fs::read_to_string(self.log())?.contains(STOPPED) {
            if let Some(status) = strace.try_wait()? {
                bail!("strace did not get hold of the worker ({status})");
            }
            sleep(POLL_INTERVAL);
        }
        kill_process(pid(program)?, Signal::CONT)?;
        let status = end(&mut child, deadline)?;
        if status.is_none() {
            child.kill()?;
        }
        // strace ends with the traced program.
        strace.wait()?;
        self.ended(child, status)
    }

    /// Starts the program so that it stops at the first call of its worker. The program is our child, strace is not.
    fn start_to_worker(&self) -> Result<Child> {
        fs::write(self.stop_log(), "")?;
        let mut options: Vec<OsString> = vec!["-D".into(), "-f".into(), "-qq".into(), "-o".into()];
        options.push(self.stop_log().into());
        options
            .extend(["-e", "trace=prctl", "-e", "inject=prctl:signal=STOP:when=1"].map(Into::into));
        options.extend(self.words.iter().cloned());
        self.start(&"strace".into(), &options)
    }

    /// Waits for the worker to stop and returns its id; `None` if the program ends without a worker, or hangs. The first thread stops at
    /// the same call, and is continued.
    fn worker(&self, child: &mut Child, deadline: Instant) -> Result<Option<u32>> {
        let mut has_gone_on = false;
        while Instant::now() < deadline {
            let log = fs::read_to_string(self.stop_log())?;
            for line in log.lines().filter(|line| line.contains(STOPPED)) {
                let id: Option<u32> = line.split(' ').next().and_then(|id| id.parse().ok());
                let id = id.with_context(|| format!("strace wrote {line:?}"))?;
                if id != child.id() {
                    return Ok(Some(id));
                }
                if !has_gone_on {
                    kill_process(pid(id)?, Signal::CONT)?;
                    has_gone_on = true;
                }
            }
            if child.try_wait()?.is_some() {
                return Ok(None);
            }
            sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    fn ended(&self, mut child: Child, status: Option<ExitStatus>) -> Result<RunResult> {
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.result(status)
    }

    fn start(&self, program: &OsString, arguments: &[OsString]) -> Result<Child> {
        Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(File::create(self.place.join("stdout"))?)
            .stderr(File::create(self.place.join("stderr"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not start {}", program.display()))
    }

    fn result(&self, status: Option<ExitStatus>) -> Result<RunResult> {
        Ok(RunResult {
            status,
            stdout: read(&self.place.join("stdout"))?,
            stderr: read(&self.place.join("stderr"))?,
            log: read(&self.log())?,
        })
    }

    fn log(&self) -> PathBuf {
        self.place.join("log")
    }

    fn stop_log(&self) -> PathBuf {
        self.place.join("stop.log")
    }
}

/// The threads of a program that make calls which could fail, from a log that also has the calls of its children. A `close` does not fail.
fn threads(log: &str) -> HashSet<&str> {
    let first = log.split(' ').next().unwrap_or_default();
    // A new thread has `parent_tid`, a new process does not.
    let id_at = |line: &'_ str| line.find("parent_tid=[").map(|at| at + "parent_tid=[".len());
    let calls_made = log.lines().filter_map(|line| line.get(id_at(line)?..)?.split(']').next());
    let ours: HashSet<&str> = calls_made.chain([first]).collect();
    let can_fail = |line: &&str| {
        let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        call.is_some_and(|(name, arguments)| {
            let is_traced = name != "close" && fault::calls().any(|known| known == name);
            is_traced && target_of(arguments) == CallTarget::Files
        })
    };
    let busy = log.lines().filter(can_fail).filter_map(|line| line.split(' ').next());
    busy.filter(|thread| ours.contains(thread)).collect()
}

/// The argument of strace for all traced calls. The question marks allow calls that this machine does not have.
fn all_calls() -> OsString {
    let calls: Vec<String> = fault::calls().map(|call| format!("?{call}")).collect();
    format!("trace={}", calls.join(",")).into()
}

fn only(call: &str) -> OsString {
    format!("trace={call}").into()
}

/// Waits for a program; `None` if it does not end before the deadline.
fn end(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        sleep(POLL_INTERVAL);
    }
}

fn read(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// The id of the process that traces a process.
fn tracer(process: u32) -> Result<Pid> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    pid(tracer.and_then(|id| id.trim().parse().ok()).unwrap_or_default())
}

fn pid(id: u32) -> Result<Pid> {
    Pid::from_raw(id.cast_signed()).context("no process")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(code: i32, stderr: &str, log: &str) -> RunResult {
        RunResult {
            status: Some(ExitStatus::from_raw(code)),
            stdout: String::new(),
            stderr: stderr.into(),
            log: log.into(),
        }
    }

    #[test]
    fn calls_are_counted_by_name() {
        let log = "\
openat(AT_FDCWD</w>, \"a(b\", O_RDONLY) = 4</w/a(b>
close(4</w/a(b>)                        = 0
write(6<anon_inode:[eventfd]>, \"\", 8)  = 8
close(5</w/d>)                          = 0
+++ exited with 0 +++
";
        let calls_made = |call, nth, target| TracedCall { thread: Thread::Main, call, nth, target };
        assert_eq!(
            result(0, "", log).calls_made(Thread::Main),
            [
                calls_made("openat", 1, CallTarget::Files),
                calls_made("close", 1, CallTarget::Files),
                calls_made("write", 1, CallTarget::Kernel),
                calls_made("close", 2, CallTarget::Files),
            ]
        );
    }

    #[test]
    fn threads_of_children_are_not_counted() {
        let log = "\
10 openat(AT_FDCWD, \"a\", O_RDONLY) = 4
10 clone3({flags=CLONE_VM|CLONE_THREAD} => {parent_tid=[11]}, 88) = 11
11  renameat(3, \"a\", 3, \"b\") = 0
11 clone3({flags=CLONE_PIDFD|CLONE_NEWNS} => {pidfd=[44]}, 64) = 12
12 openat(AT_FDCWD, \"a\", O_RDONLY) = 4
10 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>
13 close(4) = 0
10 <... clone3 resumed> => {parent_tid=[13]}, 88) = 13
10 clone3({flags=CLONE_VM|CLONE_THREAD} => {parent_tid=[14]}, 88) = 14
14 write(4<anon_inode:[eventfd]>, \"\", 8) = 8
";
        assert_eq!(threads(log), HashSet::from(["10", "11"]));
    }

    #[test]
    fn a_fault_in_a_call_about_a_kernel_object_hit_another_call() {
        for (log, expected) in [
            (
                "write(4<anon_inode:[eventfd]>, \"\", 8) = -1 ENOSPC (No space left on device) (INJECTED)\n",
                true,
            ),
            (
                "write(4<anon_inode:[eventfd]>, \"\", 8) = 8\nwrite(5</w/a>, \"\", 8) = -1 ENOSPC (No space left on device) (INJECTED)\n",
                false,
            ),
            ("write(4<anon_inode:[eventfd]>, \"\", 8) = 8\n", false),
            (
                "fcntl(7</s/j-shm>, F_SETLK, {l_type=F_UNLCK, l_len=1}) = -1 ENOLCK (No locks available) (INJECTED)\n",
                true,
            ),
            (
                "fcntl(7</s/j-shm>, F_SETLK, {l_type=F_RDLCK, l_len=1}) = -1 ENOLCK (No locks available) (INJECTED)\n",
                false,
            ),
        ] {
            assert_eq!(result(0, "", log).hit_another_call(), expected, "{log}");
        }
    }

    #[test]
    fn an_error_exit_is_no_crash() {
        let killed = "rename(\"a\", \"b\") = ?\n+++ killed by SIGKILL +++\n";
        for (code, stderr, log, crash) in [
            (0, "", "", None),
            (1 << 8, "error: no", "", None),
            (9, "", killed, None),
            (9, "", "", Some("it ended by signal 9")),
            (11, "", "", Some("it ended by signal 11")),
            (101 << 8, "", "", Some("it panicked")),
            (2 << 8, "thread 'main' panicked at", "", Some("it panicked")),
        ] {
            assert_eq!(result(code, stderr, log).crash().as_deref(), crash, "{code} {stderr}");
        }
        let hung = RunResult { status: None, ..result(0, "", "") };
        assert_eq!(hung.crash().as_deref(), Some("it did not end within 60 s"));
    }
}
