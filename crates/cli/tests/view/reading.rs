//! No program reads what its session may not read, whichever program, by whichever way to the file.
//!
//! The attempts are generated: every canary of a scratch world by several ways, every program on random canaries with random
//! options. `WINDLASS_TEST_SEED` makes others. The control makes the same attempts without the sandbox, where they must succeed.

use std::collections::BTreeSet;

use serde_json::json;

use super::Random;
use super::attempt::{Attempt, run_attempts, strings};
use super::encodings::FragmentIndex;
use super::reach::{BY_NAME, BY_OTHER_MEANS, Reach};
use super::readers::{READERS, Reader};
use super::trees::{DIRECTORY_LISTERS, ENVIRONMENT_READERS, TREE_READERS};
use super::world::{Confinement, World};

const SEED: u64 = 20_261_117;
/// So many random files are tried with each reader.
const FILES_PER_READER: usize = 4;
/// So many random ways lead to each file.
const WAYS_PER_FILE: usize = 6;
/// So many different programs must have run.
const MIN_PROGRAMS: usize = 50;
/// Directories that hold canaries, as seen from the workspace. The last holds all of them.
const TREES: &[&str] = &[".", "$HOME", "$HOME/.local/state/windlass", "../outside", ".."];

/// Levels of the sandbox beside the default.
const LEVELS: &[&str] = &["read-only", "staged"];

fn seed() -> u64 {
    let parse = |seed: String| seed.parse().expect("WINDLASS_TEST_SEED is a number");
    std::env::var("WINDLASS_TEST_SEED").map_or(SEED, parse)
}

#[test]
fn no_program_reads_a_file_denied_to_its_session() {
    let seed = seed();
    let mut random = Random(seed);
    let world = World::new(Confinement::Level("workspace"), &mut random);
    let attempts = forbidden_attempts(&world, &mut random);
    let mut found = Vec::new();
    let mut leaks = BTreeSet::new();
    let everything = FragmentIndex::of(world.forbidden_texts());
    let check = |attempt: &Attempt<'_>, output: &str| {
        if let Some(encoding) = attempt.shown_in(output) {
            found.push(format!("{encoding}: {}", attempt.commands.trim()));
        }
    };
    run_attempts(&world, &attempts, check, |answer| leaks.extend(everything.found_in(answer)));
    assert!(
        found.is_empty() && leaks.is_empty(),
        "{} of {} attempts read what they must not, with WINDLASS_TEST_SEED={seed}:\n{}\nread:\n{}",
        found.len(),
        attempts.len(),
        first_lines(&found),
        leaks.into_iter().collect::<Vec<_>>().join("\n"),
    );
}

#[test]
fn without_the_sandbox_the_same_attempts_succeed() {
    let seed = seed();
    let mut random = Random(seed);
    let world = World::new(Confinement::Off, &mut random);
    let attempts = forbidden_attempts(&world, &mut random);
    let mut missed = Vec::new();
    let mut successful = BTreeSet::new();
    let mut tried = BTreeSet::new();
    let check = |attempt: &Attempt<'_>, output: &str| {
        let aspects = control_aspects(attempt);
        tried.extend(aspects.clone());
        if attempt.shown_in(output).is_some() {
            successful.extend(aspects);
        } else {
            missed.push(format!("{}\n\t=> {}", attempt.commands.trim(), output.trim()));
        }
    };
    run_attempts(&world, &attempts, check, |_| ());
    assert!(
        missed.len() * 10 <= attempts.len(),
        "{} of {} attempts cannot succeed, so they prove nothing (WINDLASS_TEST_SEED={seed}):\n{}",
        missed.len(),
        attempts.len(),
        first_lines(&missed),
    );
    let never: Vec<_> = tried.difference(&successful).collect();
    assert!(never.is_empty(), "these never succeed: {never:#?}\n{}", first_lines(&missed));
    let programs: BTreeSet<_> = attempts.iter().map(|attempt| attempt.reader.program()).collect();
    assert!(programs.len() >= MIN_PROGRAMS, "only {} programs ran: {programs:?}", programs.len());
}

#[test]
fn programs_read_allowed_files() {
    let seed = seed();
    let mut random = Random(seed);
    let world = World::new(Confinement::Level("workspace"), &mut random);
    let public = world.contents.len();
    let mut attempts: Vec<_> = installed(READERS)
        .map(|reader| Attempt::on_file(reader, Reach::Direct, &world, public, &mut random))
        .collect();
    let own = BY_NAME.iter().filter(|reach| **reach != Reach::ParentRoot).chain(BY_OTHER_MEANS);
    for reach in own {
        attempts.push(Attempt::on_file(
            simple_reader_for(*reach),
            *reach,
            &world,
            public,
            &mut random,
        ));
    }
    let mut missed = Vec::new();
    let check = |attempt: &Attempt<'_>, output: &str| {
        if attempt.shown_in(output).is_none() {
            missed.push(format!("{}\n\t=> {}", attempt.commands.trim(), output.trim()));
        }
    };
    run_attempts(&world, &attempts, check, |_| ());
    assert!(missed.is_empty(), "with WINDLASS_TEST_SEED={seed}:\n{}", first_lines(&missed));
}

#[test]
fn every_level_of_the_sandbox_hides_the_same() {
    for level in LEVELS {
        let mut random = Random(seed());
        let world = World::new(Confinement::Level(level), &mut random);
        let everything = FragmentIndex::of(world.forbidden_texts());
        let files = 0..world.contents.len();
        let attempts: Vec<_> = files
            .map(|index| {
                let reach = *random.pick(BY_NAME);
                Attempt::on_file(simple_reader_for(reach), reach, &world, index, &mut random)
            })
            .collect();
        let mut leaks = BTreeSet::new();
        run_attempts(
            &world,
            &attempts,
            |_, _| (),
            |answer| leaks.extend(everything.found_in(answer)),
        );
        assert!(leaks.is_empty(), "level {level}: {leaks:#?}");
    }
}

/// Here the command can be understood before it runs, so it may be denied as well; either way nothing is read.
#[test]
fn command_that_names_a_denied_file_does_not_read_it_either() {
    let seed = seed();
    let mut random = Random(seed);
    let world = World::new(Confinement::Level("workspace"), &mut random);
    let everything = FragmentIndex::of(world.forbidden_texts());
    for reader in installed(READERS) {
        let reach = *random.pick(BY_NAME);
        let attempt =
            Attempt::on_file(reader, reach, &world, any_file(&world, &mut random), &mut random);
        let command = format!("T=$(mktemp -d); {} 2>&1", attempt.commands.trim());
        let ran = world.call("reader", &json!({"command": command}));
        let leaks = everything.found_in(&strings(&ran));
        assert!(leaks.is_empty(), "with WINDLASS_TEST_SEED={seed}: {command}\n{leaks:?}");
    }
}

/// Everything that a program may try and must not achieve.
fn forbidden_attempts<'w>(world: &'w World, random: &mut Random) -> Vec<Attempt<'w>> {
    let ways = [BY_NAME, BY_OTHER_MEANS].concat();
    let mut attempts = Vec::new();
    for index in 0..world.contents.len() {
        for _ in 0..WAYS_PER_FILE {
            let reach = *random.pick(&ways);
            attempts.push(Attempt::on_file(simple_reader_for(reach), reach, world, index, random));
        }
    }
    for reader in installed(READERS) {
        for _ in 0..FILES_PER_READER {
            let reach = *random.pick(BY_NAME);
            attempts.push(Attempt::on_file(reader, reach, world, any_file(world, random), random));
        }
    }
    for reader in installed(TREE_READERS) {
        for tree in TREES {
            attempts.push(Attempt::on_tree(
                reader,
                tree,
                world.forbidden_texts().collect(),
                random,
            ));
        }
    }
    for reader in installed(DIRECTORY_LISTERS) {
        for name in &world.names {
            let tree = format!("'{}'", name.path.display());
            attempts.push(Attempt::on_tree(reader, &tree, vec![name], random));
        }
    }
    for reader in installed(ENVIRONMENT_READERS) {
        attempts.push(Attempt::on_tree(reader, "", vec![&world.variable], random));
    }
    attempts
}

/// A fast program that can read what is reached in this way.
fn simple_reader_for(reach: Reach) -> &'static Reader {
    const BY_NAME: Reader = Reader {
        programs: "cat",
        command: "OPTION FILE",
        // Half of them encode, so that redaction does not hide what was read.
        options: &[
            "cat",
            "tac",
            "cat <",
            "awk 1",
            "rev",
            "base64",
            "od -An -tx1",
            "tr a-z n-za-m <",
        ],
    };
    const BY_LIST: Reader = Reader {
        programs: "xargs",
        command: "OPTION",
        options: &[
            "xargs -0 cat <FILE",
            "xargs -0 -a FILE head",
            "sort --files0-from=FILE",
            "tar -chPf - --null -T FILE | tar -xO",
            "while read -rd '' f; do cat \"$f\"; done <FILE",
        ],
    };
    const BY_DESCRIPTOR: Reader = Reader {
        programs: "cat",
        command: "OPTION",
        options: &["cat FILE", "cat <&7", "head -n 1 <&7", "cat /proc/self/fd/7", "tac <&7"],
    };
    match reach {
        Reach::Listing => &BY_LIST,
        Reach::Descriptor => &BY_DESCRIPTOR,
        _ => &BY_NAME,
    }
}

fn installed(readers: &'static [Reader]) -> impl Iterator<Item = &'static Reader> {
    readers.iter().filter(|reader| reader.is_installed())
}

fn any_file(world: &World, random: &mut Random) -> usize {
    let indices: Vec<usize> = (0..world.contents.len()).collect();
    *random.pick(&indices)
}

/// Everything of which the control must see at least one attempt succeed.
fn control_aspects(attempt: &Attempt<'_>) -> Vec<String> {
    let place = match &attempt.canaries[..] {
        [canary] => format!("place {}", canary.path.display()),
        _ => "any place".to_owned(),
    };
    vec![format!("command {}", attempt.reader.command), format!("way {:?}", attempt.reach), place]
}

/// The first of many lines.
fn first_lines(lines: &[String]) -> String {
    lines.iter().take(40).map(|line| format!("{line}\n")).collect()
}
