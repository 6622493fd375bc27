//! Runs a program with strace at one of its threads, and never for longer than a minute.
//!
//! Its first thread is traced from its first call. To trace the worker alone, strace first stops the program where that thread
//! gives itself its name, which is the first thing that it does. Then a second strace, for this thread only, takes the place of the
//! first, and the program goes on.

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

use super::fault::{self, Fault, Made, On, Thread};

/// A program that takes longer does not end.
const LIMIT: Duration = Duration::from_mins(1);

const BETWEEN_LOOKS: Duration = Duration::from_micros(500);

/// What strace says of a thread that has come to a stop.
const STOPPED: &str = "--- stopped by SIGSTOP ---";

/// A program with its arguments, and what it sees of the machine.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) words: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) home: PathBuf,
    /// Where its output goes, and strace's.
    pub(super) place: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Ran {
    /// `None` if it did not end by itself in time.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// What strace wrote down.
    pub(super) log: String,
}

impl Ran {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Whether the fault came to pass.
    pub(super) fn was_hit(&self) -> bool {
        self.log.contains("(INJECTED)") || self.was_killed()
    }

    /// Whether the fault met a call about the kernel alone, which no disk can make fail: threads wake each other a different number of
    /// times in each run, so the number of a call is not always that of the same call.
    pub(super) fn went_astray(&self) -> bool {
        let injected = self.log.lines().find(|line| line.contains("(INJECTED)"));
        let arguments = injected.and_then(|line| line.split_once('('));
        arguments.is_some_and(|(_, arguments)| on(arguments) == On::Kernel)
    }

    pub(super) fn was_killed(&self) -> bool {
        self.log.contains("+++ killed by SIGKILL +++")
    }

    /// What no fault excuses: a panic, a hang, a crash.
    pub(super) fn disgrace(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some(format!("it did not end within {} s", LIMIT.as_secs()));
        };
        let panicked = self.stderr.contains("panicked") || status.code() == Some(101);
        let signal = status.signal().filter(|_| !self.was_killed());
        match (panicked, signal) {
            (true, _) => Some("it panicked".to_owned()),
            (_, Some(signal)) => Some(format!("it ended by signal {signal}")),
            _ => None,
        }
    }

    /// The calls that were made, in their order.
    pub(super) fn made(&self, thread: Thread) -> Vec<Made> {
        let mut times: HashMap<&str, usize> = HashMap::new();
        let mut made = Vec::new();
        for (name, arguments) in self.log.lines().filter_map(|line| line.split_once('(')) {
            let Some(call) = fault::calls().find(|call| *call == name) else { continue };
            let nth = times.entry(call).or_default();
            *nth += 1;
            made.push(Made { thread, call, nth: *nth, on: on(arguments) });
        }
        made
    }
}

/// Tells from the arguments of a call, which strace was asked to say, whether it is about files. Letting go of a lock asks no disk for
/// anything, and the kernel does not refuse it.
fn on(arguments: &str) -> On {
    if arguments.contains("l_type=F_UNLCK") {
        return On::Kernel;
    }
    let first = arguments.split([',', ')']).next().unwrap_or_default();
    let kernel = ["<anon_inode:", "<pipe:", "<socket:", "<UNIX"];
    if kernel.iter().any(|kind| first.contains(kind)) { On::Kernel } else { On::Files }
}

/// Fails where strace is missing or may not trace.
pub(super) fn check_that_strace_works() -> Result<()> {
    let output = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output()
        .context("cannot start `strace`; `cargo xtask setup` installs it")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("strace cannot trace here, so no fault can be injected: {}", said.trim_end());
    }
    Ok(())
}

impl Program {
    /// Without strace.
    pub(super) fn run(&self) -> Result<Ran> {
        let (first, rest) = self.words.split_first().context("no program")?;
        let mut child = self.start(first, rest)?;
        let status = end(&mut child, Instant::now() + LIMIT)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.ran(status)
    }

    /// With a fault in one thread, or with none to see which calls it makes.
    pub(super) fn trace(&self, thread: Thread, fault: Option<&Fault>) -> Result<Ran> {
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

    /// How many threads of the program make calls that could fail. Programs that it starts have threads of their own.
    pub(super) fn count_threads(&self) -> Result<usize> {
        let mut calls = all_calls();
        calls.push(",clone3");
        let options = ["-f".into(), "-qq".into(), "-y".into(), "-o".into(), self.log().into()];
        let ran = self.trace_main([options.into(), vec!["-e".into(), calls]].concat())?;
        Ok(threads(&ran.log).len())
    }

    fn trace_main(&self, mut options: Vec<OsString>) -> Result<Ran> {
        options.extend(self.words.iter().cloned());
        let mut strace = self.start(&"strace".into(), &options)?;
        let status = end(&mut strace, Instant::now() + LIMIT)?;
        if status.is_none() {
            kill_process_group(pid(strace.id())?, Signal::KILL)?;
            strace.wait()?;
        }
        self.ran(status)
    }

    fn trace_worker(&self, options: &[OsString]) -> Result<Ran> {
        let deadline = Instant::now() + LIMIT;
        let mut child = self.start_to_worker()?;
        let Some(worker) = self.worker(&mut child, deadline)? else {
            // It came to its end before it had one.
            let status = end(&mut child, deadline)?;
            return self.ended(child, status);
        };
        let program = child.id();
        kill_process(tracer(program)?, Signal::KILL)?;
        while tracer(program).is_ok() {
            sleep(BETWEEN_LOOKS);
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
            sleep(BETWEEN_LOOKS);
        }
        kill_process(pid(program)?, Signal::CONT)?;
        let status = end(&mut child, deadline)?;
        if status.is_none() {
            child.kill()?;
        }
        // It ends with what it traces.
        strace.wait()?;
        self.ended(child, status)
    }

    /// Starts the program so that it stops when its worker does its first call. It is our child, strace is not.
    fn start_to_worker(&self) -> Result<Child> {
        fs::write(self.stop_log(), "")?;
        let mut options: Vec<OsString> = vec!["-D".into(), "-f".into(), "-qq".into(), "-o".into()];
        options.push(self.stop_log().into());
        options
            .extend(["-e", "trace=prctl", "-e", "inject=prctl:signal=STOP:when=1"].map(Into::into));
        options.extend(self.words.iter().cloned());
        self.start(&"strace".into(), &options)
    }

    /// The id of the worker, once it has stopped; `None` if the program ends without one, or hangs. The first thread makes such a
    /// call, too, and goes on.
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
            sleep(BETWEEN_LOOKS);
        }
        Ok(None)
    }

    fn ended(&self, mut child: Child, status: Option<ExitStatus>) -> Result<Ran> {
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        self.ran(status)
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

    fn ran(&self, status: Option<ExitStatus>) -> Result<Ran> {
        Ok(Ran {
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

/// The threads of a program, by its log with those of all its children, that make calls which could fail. A close does not fail.
fn threads(log: &str) -> HashSet<&str> {
    let first = log.split(' ').next().unwrap_or_default();
    // Where a new thread is told to its parent, but no new process is.
    let told = |line: &'_ str| line.find("parent_tid=[").map(|at| at + "parent_tid=[".len());
    let made = log.lines().filter_map(|line| line.get(told(line)?..)?.split(']').next());
    let ours: HashSet<&str> = made.chain([first]).collect();
    let can_fail = |line: &&str| {
        let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        call.is_some_and(|(name, arguments)| {
            let is_walked = name != "close" && fault::calls().any(|known| known == name);
            is_walked && on(arguments) == On::Files
        })
    };
    let busy = log.lines().filter(can_fail).filter_map(|line| line.split(' ').next());
    busy.filter(|thread| ours.contains(thread)).collect()
}

/// What strace is to look at. A call that this machine does not have is no error.
fn all_calls() -> OsString {
    let calls: Vec<String> = fault::calls().map(|call| format!("?{call}")).collect();
    format!("trace={}", calls.join(",")).into()
}

fn only(call: &str) -> OsString {
    format!("trace={call}").into()
}

/// Waits for the end of a program; `None` if it does not come in time.
fn end(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        sleep(BETWEEN_LOOKS);
    }
}

fn read(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// Who traces a process.
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

    fn ran(code: i32, stderr: &str, log: &str) -> Ran {
        Ran {
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
        let made = |call, nth, on| Made { thread: Thread::Main, call, nth, on };
        assert_eq!(
            ran(0, "", log).made(Thread::Main),
            [
                made("openat", 1, On::Files),
                made("close", 1, On::Files),
                made("write", 1, On::Kernel),
                made("close", 2, On::Files),
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
    fn a_fault_of_the_kernel_alone_is_astray() {
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
            assert_eq!(ran(0, "", log).went_astray(), expected, "{log}");
        }
    }

    #[test]
    fn a_refusal_is_no_disgrace() {
        let killed = "rename(\"a\", \"b\") = ?\n+++ killed by SIGKILL +++\n";
        for (code, stderr, log, disgrace) in [
            (0, "", "", None),
            (1 << 8, "error: no", "", None),
            (9, "", killed, None),
            (9, "", "", Some("it ended by signal 9")),
            (11, "", "", Some("it ended by signal 11")),
            (101 << 8, "", "", Some("it panicked")),
            (2 << 8, "thread 'main' panicked at", "", Some("it panicked")),
        ] {
            assert_eq!(ran(code, stderr, log).disgrace().as_deref(), disgrace, "{code} {stderr}");
        }
        let hung = Ran { status: None, ..ran(0, "", "") };
        assert_eq!(hung.disgrace().as_deref(), Some("it did not end within 60 s"));
    }
}
