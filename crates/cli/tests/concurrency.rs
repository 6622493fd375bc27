//! Several processes at one file: nothing is lost in silence.

use serde_json::json;

use crate::support::Home;

/// Twenty lines, each to be changed by an edit of its own.
fn numbers() -> String {
    (0..20).map(|number| format!("line {number} old\n")).collect::<Vec<_>>().concat()
}

fn edit(number: usize) -> serde_json::Value {
    let line = |word: &str| format!("line {number} {word}\n");
    json!({"path": "a.txt", "old_string": line("old"), "new_string": line("new")})
}

/// Every edit that says that it was made is in the file, and every other says `stale`.
fn check(home: &Home, results: &[serde_json::Value]) {
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
    let home = Home::with(&[("a.txt", &numbers())]);
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
    check(&home, &[first, second].concat());
}

#[test]
fn cc_2_twenty_edits_from_twenty_processes() {
    let home = Home::with(&[("a.txt", &numbers())]);
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
    check(&home, &results);
}

/// Runs the same call in several processes at once; what each of them answers.
fn at_once(home: &Home, processes: usize, arguments: &[&str]) -> Vec<serde_json::Value> {
    std::thread::scope(|scope| {
        let call = || home.run(arguments).lines().remove(0);
        let running: Vec<_> = (0..processes).map(|_| scope.spawn(call)).collect();
        running.into_iter().map(|one| one.join().expect("a call")).collect()
    })
}

/// Exactly one of those who create the same file says that it did, and the file is there; one `undo` takes it back.
#[test]
fn cc_2_one_of_four_creates_a_file() {
    let home = Home::with(&[]);
    for round in 0..8 {
        let path = format!("new/{round}/a.txt");
        let input = json!({"path": path, "content": "the same\n", "mode": "create"}).to_string();
        let results = at_once(&home, 4, &["--mode", "auto", "--json", "call", "write", &input]);
        let made = results.iter().filter(|result| result["outcome"] == "ok").count();
        assert_eq!(made, 1, "{results:?}");
        let file = home.workspace().join(&path);
        assert_eq!(std::fs::read_to_string(&file).expect("the file is lost"), "the same\n");
        home.run(&["--json", "undo"]).lines();
        assert!(!file.exists(), "it was recorded twice, or not at all");
    }
}
