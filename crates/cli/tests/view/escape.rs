//! Attempts to get out of the sandbox, made by a real program of a real session. Every attempt also has to succeed without a sandbox
//! where the machine allows it: an attempt that never works shows nothing.
//!
//! By default every attempt is made once in every way to start a program and at every level. `WINDLASS_ESCAPES=10000` asks for that many
//! tries in all.

mod attempts;
mod outside;
mod protected;
mod reach;
mod scene;
mod sessions;
mod starts;
mod swapper;

use std::process::Command;

use attempts::OutsideResult;
pub(super) use scene::is_root;
use scene::{Scene, write_file};
pub(super) use starts::python;
use starts::{STARTS, Start, make_repository};

/// Tries in all, over all tests of this file.
const TRIES: &str = "WINDLASS_ESCAPES";

#[test]
fn no_attempt_of_a_command_succeeds() {
    check(Start::Bash);
}

#[test]
fn no_attempt_of_a_job_succeeds() {
    check(Start::Job);
}

#[test]
fn no_attempt_of_a_test_succeeds() {
    check(Start::Test);
}

#[test]
fn no_attempt_of_a_command_tool_succeeds() {
    check(Start::CommandTool);
}

#[test]
fn no_attempt_of_a_hook_succeeds() {
    check(Start::Hook);
}

#[test]
fn no_attempt_of_what_git_runs_succeeds() {
    check(Start::Git);
}

/// Without a sandbox the attempts succeed.
#[test]
fn attempts_succeed_outside() {
    let scene = Scene::new().without_harmful();
    let mut command = scene.with_descriptors();
    command.arg(python()).args(["driver.py", "--all"]);
    let output = command.output().expect("Python runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected: Vec<String> = scene
        .attempts
        .iter()
        .filter(|one| match one.outside {
            OutsideResult::Works => true,
            OutsideResult::WorksForRoot => is_root(),
            OutsideResult::Varies | OutsideResult::NotTried => false,
        })
        .map(|one| one.name.clone())
        .collect();
    let count = scene.attempts.len();
    let found = scene.end(&printed);
    let missing: Vec<&String> = expected.iter().filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "these show nothing: {missing:#?}\n{printed}");
    assert!(found.len() * 10 >= count * 6, "only {} of {count} succeed outside", found.len());
}

/// Git itself runs what such a repository names: that the tool does not get out is no accident.
#[test]
fn git_runs_the_program_outside() {
    let scene = Scene::new();
    make_repository(&scene, &format!("{} driver.py", python().display()));
    for words in [["status", "--short"], ["add", "new.txt"]] {
        let loot = scene.ground.path("work/loot.txt");
        write_file(&loot, "");
        write_file(&scene.ground.path("work/attempts.json"), "[]");
        let mut command = Command::new("git");
        scene.ground.home.prepare(&mut command).args(words).output().expect("git runs");
        let text = std::fs::read_to_string(loot).expect("a file");
        assert!(text.contains("tried 0"), "git {words:?} runs nothing");
    }
    scene.end("");
}

#[test]
fn the_table_is_long_enough_and_its_names_are_unique() {
    let scene = Scene::new();
    let mut names: Vec<&str> = scene.attempts.iter().map(|one| &*one.name).collect();
    let count = names.len();
    assert!(count >= 200, "{count}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    scene.end("");
}

/// Makes all attempts of the table in one way to start a program, at every level that it has.
fn check(start: Start) {
    let levels = STARTS.iter().find(|(one, _)| *one == start).expect("a way").1;
    let mut holes = Vec::new();
    for round in 0..round_count() {
        for level in levels {
            let scene = Scene::new();
            let count = scene.attempts.len();
            let printed = start.run(&scene, level);
            if start.certainly_runs() {
                let loot = std::fs::read_to_string(scene.ground.path("work/loot.txt"));
                let all = format!("{printed}{}", loot.unwrap_or_default());
                assert!(
                    all.contains(&format!("tried {count}")),
                    "{level}: it did not run: {printed}"
                );
                let has_none = all.contains("inherited descriptors: none");
                assert!(has_none, "{level}: descriptors were passed on: {printed}");
            }
            let found = scene.end(&printed);
            holes.extend(found.iter().map(|name| format!("{start:?}, {level}, {round}: {name}")));
        }
    }
    assert!(holes.is_empty(), "{} succeeded:\n{}", holes.len(), holes.join("\n"));
}

/// Rounds that make up the tries that were asked for; one if nothing was.
fn round_count() -> usize {
    let Some(wanted) = std::env::var(TRIES).ok().and_then(|text| text.parse::<usize>().ok()) else {
        return 1;
    };
    let scene = Scene::new();
    let starts: usize = STARTS.iter().map(|(_, levels)| levels.len()).sum();
    let each = scene.attempts.len() * starts;
    scene.end("");
    wanted.div_ceil(each).max(1)
}
