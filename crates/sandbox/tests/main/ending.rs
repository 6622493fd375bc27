//! Endings of programs: every process of theirs ends, output is complete, signals reach all of them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_sandbox::Ending;

use crate::attempt::{AttemptContext, print_line, self_command};
use crate::support::{TestSandbox, wait_until};

#[test]
fn exit_codes_and_signals_are_reported() {
    for (script, ending) in [
        ("true", Ending::Exited(0)),
        ("exit 42", Ending::Exited(42)),
        ("exit 255", Ending::Exited(255)),
        ("kill -SEGV $$", Ending::Signalled(11)),
        ("kill -KILL $$", Ending::Signalled(9)),
        ("kill -TERM $$", Ending::Signalled(15)),
        ("(exit 3) & exit 4", Ending::Exited(4)),
    ] {
        for sandbox in [TestSandbox::unconfined(), TestSandbox::confined(), TestSandbox::fenced()] {
            assert_eq!(sandbox.run(script).0, ending, "{script}");
        }
    }
}

/// A unique number by which the processes of one test are found: in a variable, or, if that is lost, as their seconds to sleep.
pub(crate) struct ProcessMark(String);

impl ProcessMark {
    pub(crate) const NAME: &str = "MARK";

    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("3{:010}{next:04}", std::process::id()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Lists the directories in `/proc` of all processes with a mark, without zombies.
pub(crate) fn processes_with_mark(mark: &ProcessMark) -> Vec<String> {
    let has = |bytes: &[u8]| bytes.windows(mark.0.len()).any(|part| part == mark.0.as_bytes());
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes
        .filter(|path| path.file_name().unwrap().to_str().unwrap().parse::<i32>().is_ok())
        .filter(|path| {
            let read = |name| std::fs::read(path.join(name)).unwrap_or_default();
            has(&read("environ")) || has(&read("cmdline"))
        })
        .map(|path| path.display().to_string())
        .collect()
}

/// Scripts whose processes try to outlive the program: name, minimum number of processes before the end (0 if the shell exits by itself),
/// script.
const WAYS: &[(&str, usize, &str)] = &[
    ("in the background", 2, "sleep $MARK &\nwait"),
    ("nohup", 2, "nohup sleep $MARK >/dev/null 2>&1 & wait"),
    ("disown", 2, "sleep $MARK & disown -a; sleep $MARK"),
    ("setsid", 2, "setsid sleep $MARK & sleep $MARK"),
    (
        "a daemon: two forks, a session of its own, nothing open",
        2,
        "setsid bash -c 'sleep $MARK <&- >&- 2>&- & exit'; sleep $MARK",
    ),
    ("a daemon that keeps the output open", 0, "setsid sleep $MARK & exit 0"),
    ("signals ignored", 1, "trap '' HUP INT TERM; sleep $MARK"),
    ("stopped", 2, "bash -c 'kill -STOP $$; sleep $MARK' & sleep $MARK"),
    ("output into a process", 2, "exec > >(tee -a /dev/null) 2>&1; sleep $MARK"),
    ("a writer to a named pipe", 3, "mkfifo p; (while :; do echo c; sleep 1; done) > p & cat p"),
    ("a process group of its own", 2, "set -m; sleep $MARK & set +m; sleep $MARK"),
    (
        "no variables and another name",
        2,
        "env -i setsid bash -c \"exec -a kworker sleep $MARK\" & sleep $MARK",
    ),
    (
        "forks again and again",
        2,
        "worker() { sleep 0.02; worker & exit; }; (set -m; worker &); sleep $MARK",
    ),
    ("a shell that ends at once", 0, "sleep $MARK & echo started; exit 0"),
];

#[test]
fn no_process_survives_the_end_of_its_program() {
    for (name, count, script) in WAYS {
        for (how, make) in [
            ("open", TestSandbox::unconfined as fn() -> TestSandbox),
            ("confined", TestSandbox::confined),
            ("fenced", TestSandbox::fenced),
        ] {
            for is_dropped in [false, true] {
                let what =
                    format!("{name}, {how}, {}", if is_dropped { "dropped" } else { "killed" });
                let mark = ProcessMark::new();
                let mut sandbox = make();
                sandbox.set(ProcessMark::NAME, mark.text());
                let (mut program, mut output) = sandbox.start(script).unwrap();
                wait_until(&what, || processes_with_mark(&mark).len() >= *count);
                if *count == 0 {
                    let mut printed = Vec::new();
                    output.read_to_end(&mut printed).unwrap();
                    wait_until(&what, || program.try_wait().unwrap() == Some(Ending::Exited(0)));
                } else if is_dropped {
                    drop(program);
                } else {
                    assert_eq!(program.try_wait().unwrap(), None, "{what}");
                    program.kill();
                    assert_eq!(program.wait().unwrap(), Ending::Signalled(9), "{what}");
                    assert_eq!(processes_with_mark(&mark), [""; 0], "{what}");
                }
                wait_until(&format!("{what}: the end of all"), || {
                    processes_with_mark(&mark).is_empty()
                });
                // No process is left that could write.
                output.read_to_end(&mut Vec::new()).unwrap();
            }
        }
    }
}

/// Starts a program with daemons, prints its directory, and waits to be killed.
pub(crate) fn launch_and_sleep(at: &AttemptContext) {
    let mut sandbox =
        if at.text("HOW") == "open" { TestSandbox::unconfined() } else { TestSandbox::confined() };
    sandbox.set(ProcessMark::NAME, &at.text("CHILD"));
    let (program, _output) =
        sandbox.start("setsid sleep $MARK & nohup sleep $MARK & wait").unwrap();
    print_line(&format!("place: {}", sandbox.workspace().parent().unwrap().display()));
    drop(program.wait());
}

#[test]
fn no_process_is_left_after_the_caller_is_killed() {
    for how in ["open", "confined"] {
        let mark = ProcessMark::new();
        let mut command = self_command("launch and sleep");
        command.env("HOW", how).env("CHILD", mark.text()).stdout(Stdio::piped());
        let mut helper = command.spawn().unwrap();
        let mut lines = BufReader::new(helper.stdout.take().unwrap()).lines();
        let sandbox = loop {
            let line = lines.next().expect("a directory").unwrap();
            if let Some(sandbox) = line.strip_prefix("place: ") {
                break sandbox.to_owned();
            }
        };
        // The helper has the mark too, if its environment can be read.
        wait_until("its start", || processes_with_mark(&mark).len() >= 3);
        helper.kill().unwrap();
        helper.wait().unwrap();
        wait_until("the end of all", || processes_with_mark(&mark).is_empty());
        std::fs::remove_dir_all(sandbox).unwrap();
    }
}

#[test]
fn daemons_do_not_keep_the_output_open() {
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined(), TestSandbox::fenced()] {
        let script = "setsid sleep 86400 & sleep 86400 & echo started; exit 7";
        assert_eq!(sandbox.run(script), (Ending::Exited(7), "started\n".into()));
    }
}

#[test]
fn signals_reach_daemons_and_background_processes() {
    let script = "trap 'echo main' USR1
        setsid bash -c 'trap \"echo daemon; exit\" USR1; echo ready; while :; do sleep 0.02; done' &
        (trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.02; done) &
        while ! wait; do :; done; wait; wait; echo end";
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined(), TestSandbox::fenced()] {
        let (program, output) = sandbox.start(script).unwrap();
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        assert_eq!([lines.next(), lines.next()], [Some("ready".into()), Some("ready".into())]);
        // The last process that is ready may not have reached its loop.
        program.signal(libc::SIGUSR1).unwrap();
        let mut received: Vec<String> =
            lines.filter(|line| line != "User defined signal 1").collect();
        received.sort();
        assert_eq!(received, ["child", "daemon", "end", "main"]);
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
}

/// A signal handler that does nothing.
extern "C" fn nothing(_: libc::c_int) {}

/// Starts `sleep` from a thread and waits until a signal ends it; this process ignores the signal.
pub(crate) fn start_from_a_thread(at: &AttemptContext) {
    // SAFETY: a function that does nothing may be called at any time.
    unsafe { libc::signal(libc::SIGUSR2, nothing as *const () as usize) };
    let seconds = at.text(ProcessMark::NAME);
    let start = move || Command::new("sleep").arg(seconds).status();
    let ended = std::thread::spawn(start).join().unwrap().unwrap();
    print_line(&format!("woken: {ended}"));
}

/// Children belong to the thread that made them.
#[test]
fn signals_reach_children_of_a_thread() {
    for mut sandbox in [TestSandbox::unconfined(), TestSandbox::confined()] {
        let mark = ProcessMark::new();
        sandbox.set(ProcessMark::NAME, mark.text());
        let (program, mut output) = sandbox.start_attempt("start a program from a thread").unwrap();
        let is_asleep = |path: &String| {
            std::fs::read(format!("{path}/cmdline")).unwrap_or_default().starts_with(b"sleep")
        };
        wait_until("its start", || processes_with_mark(&mark).iter().any(is_asleep));
        program.signal(libc::SIGUSR2).unwrap();
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        assert!(printed.contains("woken: signal: 12"), "{printed}");
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
}

/// A program whose processes have all ended already.
#[test]
fn signal_and_kill_after_the_end_do_no_harm() {
    for sandbox in [TestSandbox::unconfined(), TestSandbox::confined()] {
        let (mut program, _output) = sandbox.start("exit 3").unwrap();
        wait_until("its end", || program.try_wait().unwrap().is_some());
        drop(program.signal(libc::SIGTERM));
        program.kill();
    }
}
