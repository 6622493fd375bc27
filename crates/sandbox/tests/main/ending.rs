//! How programs end, and that nothing of them is left.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_sandbox::Ending;

use crate::attempt::{Scene, again, say};
use crate::support::{Place, soon};

#[test]
fn endings_are_told_apart() {
    for (script, ending) in [
        ("true", Ending::Exited(0)),
        ("exit 42", Ending::Exited(42)),
        ("exit 255", Ending::Exited(255)),
        ("kill -SEGV $$", Ending::Signalled(11)),
        ("kill -KILL $$", Ending::Signalled(9)),
        ("kill -TERM $$", Ending::Signalled(15)),
        ("(exit 3) & exit 4", Ending::Exited(4)),
    ] {
        for place in [Place::open(), Place::confined(), Place::fenced()] {
            assert_eq!(place.run(script).0, ending, "{script}");
        }
    }
}

/// By what the processes of one test are known: a variable, and for those that forget it a number of seconds to sleep.
pub(crate) struct Mark(String);

impl Mark {
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

/// Every process of a mark, but those that have ended and wait to be taken.
pub(crate) fn marked(mark: &Mark) -> Vec<String> {
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

/// Ways in which processes outlive those who started them, and how many there are at least before they are ended; none if they
/// are ended with the shell.
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
fn nothing_survives_its_end() {
    for (name, count, script) in WAYS {
        for (how, make) in [
            ("open", Place::open as fn() -> Place),
            ("confined", Place::confined),
            ("fenced", Place::fenced),
        ] {
            for is_dropped in [false, true] {
                let what =
                    format!("{name}, {how}, {}", if is_dropped { "dropped" } else { "killed" });
                let mark = Mark::new();
                let mut place = make();
                place.set(Mark::NAME, mark.text());
                let (mut program, mut output) = place.start(script).unwrap();
                soon(&what, || marked(&mark).len() >= *count);
                if *count == 0 {
                    let mut printed = Vec::new();
                    output.read_to_end(&mut printed).unwrap();
                    soon(&what, || program.try_wait().unwrap() == Some(Ending::Exited(0)));
                } else if is_dropped {
                    drop(program);
                } else {
                    assert_eq!(program.try_wait().unwrap(), None, "{what}");
                    program.kill();
                    assert_eq!(program.wait().unwrap(), Ending::Signalled(9), "{what}");
                    assert_eq!(marked(&mark), [""; 0], "{what}");
                }
                soon(&format!("{what}: the end of all"), || marked(&mark).is_empty());
                // Nobody is left who could write.
                output.read_to_end(&mut Vec::new()).unwrap();
            }
        }
    }
}

/// Starts something that is hard to end, says so, and waits to be killed.
pub(crate) fn launch_and_sleep(at: &Scene) {
    let mut place = if at.text("HOW") == "open" { Place::open() } else { Place::confined() };
    place.set(Mark::NAME, &at.text("CHILD"));
    let (program, _output) = place.start("setsid sleep $MARK & nohup sleep $MARK & wait").unwrap();
    say(&format!("place: {}", place.workspace().parent().unwrap().display()));
    drop(program.wait());
}

#[test]
fn when_we_are_killed_nothing_is_left() {
    for how in ["open", "confined"] {
        let mark = Mark::new();
        let mut command = again("launch and sleep");
        command.env("HOW", how).env("CHILD", mark.text()).stdout(Stdio::piped());
        let mut helper = command.spawn().unwrap();
        let mut lines = BufReader::new(helper.stdout.take().unwrap()).lines();
        let place = loop {
            let line = lines.next().expect("a place").unwrap();
            if let Some(place) = line.strip_prefix("place: ") {
                break place.to_owned();
            }
        };
        // The helper has the mark too, for those who may look into it.
        soon("its start", || marked(&mark).len() >= 3);
        helper.kill().unwrap();
        helper.wait().unwrap();
        soon("the end of all", || marked(&mark).is_empty());
        std::fs::remove_dir_all(place).unwrap();
    }
}

#[test]
fn output_ends_with_the_program() {
    for place in [Place::open(), Place::confined(), Place::fenced()] {
        let script = "setsid sleep 86400 & sleep 86400 & echo started; exit 7";
        assert_eq!(place.run(script), (Ending::Exited(7), "started\n".into()));
    }
}

#[test]
fn signals_reach_what_went_its_own_way() {
    let script = "trap 'echo main' USR1
        setsid bash -c 'trap \"echo daemon; exit\" USR1; echo ready; while :; do sleep 0.02; done' &
        (trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.02; done) &
        while ! wait; do :; done; wait; wait; echo end";
    for place in [Place::open(), Place::confined(), Place::fenced()] {
        let (program, output) = place.start(script).unwrap();
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        assert_eq!([lines.next(), lines.next()], [Some("ready".into()), Some("ready".into())]);
        // The last one to be ready may not have come to its loop.
        program.signal(libc::SIGUSR1).unwrap();
        let mut heard: Vec<String> = lines.filter(|line| line != "User defined signal 1").collect();
        heard.sort();
        assert_eq!(heard, ["child", "daemon", "end", "main"]);
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
}

/// What a signal does that is not meant to do anything.
extern "C" fn nothing(_: libc::c_int) {}

/// Waits for a program that ends by a signal which does nothing to ourselves.
pub(crate) fn start_from_a_thread(at: &Scene) {
    // SAFETY: a function that does nothing may be called at any time.
    unsafe { libc::signal(libc::SIGUSR2, nothing as *const () as usize) };
    let seconds = at.text(Mark::NAME);
    let start = move || Command::new("sleep").arg(seconds).status();
    let ended = std::thread::spawn(start).join().unwrap().unwrap();
    say(&format!("woken: {ended}"));
}

/// Children belong to the thread that made them.
#[test]
fn signals_reach_what_a_thread_started() {
    for mut place in [Place::open(), Place::confined()] {
        let mark = Mark::new();
        place.set(Mark::NAME, mark.text());
        let (program, mut output) = place.start_attempt("start a program from a thread").unwrap();
        let is_asleep = |path: &String| {
            std::fs::read(format!("{path}/cmdline")).unwrap_or_default().starts_with(b"sleep")
        };
        soon("its start", || marked(&mark).iter().any(is_asleep));
        program.signal(libc::SIGUSR2).unwrap();
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        assert!(printed.contains("woken: signal: 12"), "{printed}");
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
}

/// Somebody who keeps nothing of what it started.
#[test]
fn a_signal_to_nobody_is_no_error() {
    for place in [Place::open(), Place::confined()] {
        let (mut program, _output) = place.start("exit 3").unwrap();
        soon("its end", || program.try_wait().unwrap().is_some());
        drop(program.signal(libc::SIGTERM));
        program.kill();
    }
}
