//! Several processes change the same file: no change is lost without a message.

use serde_json::json;

use crate::support::Home;

/// Returns twenty lines, each to be changed by its own edit.
fn numbered_lines() -> String {
    (0..20).map(|number| format!("line {number} old\n")).collect::<Vec<_>>().concat()
}

fn edit(number: usize) -> serde_json::Value {
    let line = |word: &str| format!("line {number} {word}\n");
    json!({"path": "a.txt", "old_string": line("old"), "new_string": line("new")})
}

/// Checks that the file has every edit that reported success, and that every other edit reported `stale`.
fn check_edits(home: &Home, results: &[serde_json::Value]) {
    let text = std::fs::read_to_string(home.workspace().join("a.txt")).expect("the file");
    assert_eq!(text.lines().count(), 20, "{text}");
    for (number, result) in results.iter().enumerate() {
        let is_there = text.contains(&format!("line {number} new\n"));
        match result["outcome"].as_str() {
            Some("ok") => assert!(is_there, "edit {number} is lost: {text}"),
            _ => assert!(!is_there && result.to_string().contains("stale"), "{result}"),
        }
    }
    let left = std::fs::read_dir(home.workspace()).expect("the workspace").count();
    assert_eq!(left, 1, "something was left beside the file");
}

#[test]
fn cc_2_twenty_edits_from_two_processes() {
    let home = Home::with_workspace(&[("a.txt", &numbered_lines())]);
    let half = |from: usize| {
        let calls: Vec<_> = (from..from + 10)
            .map(|number| json!({"name": "edit", "input": edit(number)}))
            .collect();
        home.run_with_input(&["--mode", "auto", "run"], format!("{}\n", json!(calls)).as_bytes())
            .lines()
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| half(0));
        let second = half(10);
        (first.join().expect("the first half"), second)
    });
    check_edits(&home, &[first, second].concat());
}

#[test]
fn cc_2_twenty_edits_from_twenty_processes() {
    let home = Home::with_workspace(&[("a.txt", &numbered_lines())]);
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..20)
            .map(|number| {
                let (home, input) = (&home, edit(number).to_string());
                scope.spawn(move || {
                    home.run(&["--mode", "auto", "--json", "call", "edit", &input])
                        .lines()
                        .remove(0)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().expect("an edit")).collect()
    });
    check_edits(&home, &results);
}

/// Runs the same call in several processes at once, and returns their results.
fn run_at_once(home: &Home, processes: usize, arguments: &[&str]) -> Vec<serde_json::Value> {
    std::thread::scope(|scope| {
        let call = || home.run(arguments).lines().remove(0);
        let running: Vec<_> = (0..processes).map(|_| scope.spawn(call)).collect();
        running.into_iter().map(|one| one.join().expect("a call")).collect()
    })
}

/// Runs two calls in two processes at once, and returns their results.
fn run_both(home: &Home, calls: &[(&str, serde_json::Value); 2]) -> Vec<serde_json::Value> {
    let start = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let call = |(tool, input): &(&str, serde_json::Value)| {
            let input = input.to_string();
            start.wait();
            home.run(&["--mode", "auto", "--json", "call", tool, &input]).lines().remove(0)
        };
        let running: Vec<_> = calls.iter().map(|one| scope.spawn(move || call(one))).collect();
        running.into_iter().map(|one| one.join().expect("a call")).collect()
    })
}

/// Undoes all changes.
fn undo_all(home: &Home, made: usize) {
    for _ in 0..made {
        let ran = home.run(&["undo"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(home.run(&["undo"]).code, 1, "more was recorded than made");
}

/// Returns calls that change a line of a file from `old` to `new`, one for each tool that can.
fn changing_calls(line: &str) -> [(&'static str, serde_json::Value); 3] {
    let (old, new) = (format!("{line} old"), format!("{line} new"));
    let patch =
        format!("*** Begin Patch\n*** Update File: a.txt\n@@\n-{old}\n+{new}\n*** End Patch\n");
    [
        ("edit", json!({"path": "a.txt", "old_string": old, "new_string": new})),
        ("patch", json!({"patch": patch})),
        ("bash", json!({"command": format!("sed -i 's/{old}/{new}/' a.txt")})),
    ]
}

/// Two processes change two lines of one file, each in every way: what is said to be made is there, what is not there is said.
#[test]
fn cc_2_two_processes_change_a_file_in_every_way() {
    let text = "first old\nbetween\nmore\nbetween\nsecond old\n";
    let append = json!({"path": "a.txt", "content": "appended new\n", "mode": "append"});
    let mut others: Vec<_> = changing_calls("second").map(|way| ("second new", way)).into();
    others.push(("appended new", ("write", append)));
    for first in changing_calls("first") {
        for (added, second) in &others {
            let home = Home::with_workspace(&[("a.txt", text)]);
            let answers = run_both(&home, &[first.clone(), second.clone()]);
            let now = std::fs::read_to_string(home.workspace().join("a.txt")).expect("the file");
            let mut made = 0;
            for (answer, new) in answers.iter().zip(["first new", added]) {
                let is_ok = answer["outcome"] == "ok";
                assert_eq!(now.contains(new), is_ok, "{first:?} {second:?}: {now}\n{answers:?}");
                let is_told = is_ok || answer.to_string().contains("stale");
                assert!(is_told, "{answer}");
                made += usize::from(is_ok);
            }
            assert!(made > 0, "{answers:?}");
            undo_all(&home, made);
            let now = std::fs::read_to_string(home.workspace().join("a.txt")).expect("the file");
            assert_eq!(now, text, "{first:?} {second:?}");
        }
    }
}

/// Two processes create one file, each in every way: one of them does.
#[test]
fn cc_2_two_processes_create_a_file_in_every_way() {
    let ways = |text: &str| {
        let patch = format!("*** Begin Patch\n*** Add File: d/new.txt\n+{text}\n*** End Patch\n");
        let write = json!({"path": "d/new.txt", "content": format!("{text}\n"), "mode": "create"});
        let command = format!("mkdir -p d && set -o noclobber && echo {text} > d/new.txt");
        [
            ("write", write),
            ("patch", json!({"patch": patch})),
            ("bash", json!({"command": command})),
        ]
    };
    for first in ways("first") {
        for second in ways("second") {
            let home = Home::with_workspace(&[]);
            let answers = run_both(&home, &[first.clone(), second.clone()]);
            let is_ok = |number: usize| answers[number]["outcome"] == "ok";
            assert!(is_ok(0) != is_ok(1), "{first:?} {second:?}: {answers:?}");
            let now = std::fs::read_to_string(home.workspace().join("d/new.txt"));
            let winner = if is_ok(0) { "first\n" } else { "second\n" };
            assert_eq!(now.expect("the file is lost"), winner, "{answers:?}");
            undo_all(&home, 1);
            // The call that failed may have made the directory, and could not remove it when the file of the other was in it.
            let left = std::fs::read_dir(home.workspace().join("d"));
            assert_eq!(left.map_or(0, Iterator::count), 0, "{answers:?}");
        }
    }
}

/// A process whose job ends, with all that is to be done then, beside commands of another process: all that is said to be made is there
/// once.
#[test]
fn cc_2_a_job_ends_beside_a_command_of_another_process() {
    let plant = "while ! test -e go; do :; done; mkdir -p target; echo built > target/out; echo evil > .envrc\n";
    for _ in 0..3 {
        let home =
            Home::with_workspace(&[("plant.sh", plant), (".gitignore", "target\n"), ("log", "")]);
        let calls = [
            json!({"name": "bash", "input": {"command": "sh plant.sh", "background": true}}),
            json!({"name": "bash", "input": {"command": "while test -e .envrc || ! test -e target/out; do sleep 0.02; done"}}),
        ];
        let input: String = calls.iter().map(|call| format!("{call}\n")).collect();
        let ran = std::thread::scope(|scope| {
            let job = scope.spawn(|| {
                home.run_with_input(&["--mode", "auto", "run"], input.as_bytes()).lines()
            });
            std::fs::write(home.workspace().join("go"), "").expect("a file");
            for number in 0..5 {
                let command = json!({"command": format!("echo {number} >> log")});
                let (code, answer) = home.call(&["--mode", "auto"], "bash", &command);
                assert_eq!(code, 0, "{answer}");
            }
            job.join().expect("the job")
        });
        let read = |name: &str| std::fs::read_to_string(home.workspace().join(name));
        assert_eq!(read("log").expect("the log"), "0\n1\n2\n3\n4\n", "{ran:?}");
        assert_eq!(read("target/out").expect("built"), "built\n", "{ran:?}");
        assert!(!home.workspace().join(".envrc").exists(), "{ran:?}");
        let listed = home.run(&["undo", "--list", "--json"]).lines();
        let removals = listed.iter().filter(|one| one.to_string().contains(".envrc")).count();
        assert_eq!(removals, 1, "{listed:?}");
        let is_recorded = |one: &&serde_json::Value| one["changes"] != json!([]);
        assert_eq!(listed.iter().filter(is_recorded).count(), 6, "{listed:?}");
        // The end of the job names what has no history.
        let named: Vec<String> = listed
            .iter()
            .filter_map(|one| one["without_history"].as_array())
            .flatten()
            .map(|one| one["path"].to_string())
            .collect();
        assert!(named.iter().any(|path| path.ends_with("target/out\"")), "{listed:?}");
    }
}

/// Exactly one of those who create the same file says that it did, and the file is there; one `undo` takes it back.
#[test]
fn cc_2_one_of_four_creates_a_file() {
    let home = Home::with_workspace(&[]);
    for round in 0..8 {
        let path = format!("new/{round}/a.txt");
        let input = json!({"path": path, "content": "the same\n", "mode": "create"}).to_string();
        let results = run_at_once(&home, 4, &["--mode", "auto", "--json", "call", "write", &input]);
        let made = results.iter().filter(|result| result["outcome"] == "ok").count();
        assert_eq!(made, 1, "{results:?}");
        let file = home.workspace().join(&path);
        assert_eq!(std::fs::read_to_string(&file).expect("the file is lost"), "the same\n");
        home.run(&["--json", "undo"]).lines();
        assert!(!file.exists(), "it was recorded twice, or not at all");
    }
}
