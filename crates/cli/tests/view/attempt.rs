//! Attempts to read something, many in one call.
//!
//! Each runs in a subshell of its own with a scratch directory `$T`, and its output stands between two markers, so that it is known
//! to have run and what it printed.

use serde_json::Value;

use super::encodings::without_white_space;
use super::reach::Reach;
use super::readers::Reader;
use super::world::{Canary, World};
use super::{Random, is_installed};
use crate::support::RunResult;

/// The number of attempts in one call: fewer calls are faster, but the output must fit into one result.
const ATTEMPTS_PER_CALL: usize = 30;
/// The maximum output of one attempt.
const OUTPUT_BYTES_PER_ATTEMPT: usize = 700;

/// One attempt to get at a canary.
#[derive(Debug)]
pub(super) struct Attempt<'w> {
    pub(super) reader: &'static Reader,
    pub(super) reach: Option<Reach>,
    /// Any of these shows that it succeeded.
    pub(super) canaries: Vec<&'w Canary>,
    pub(super) commands: String,
}

impl<'w> Attempt<'w> {
    /// A reader with a random option, pointed at the file of a canary.
    pub(super) fn on_file(
        reader: &'static Reader,
        reach: Reach,
        world: &'w World,
        index: usize,
        random: &mut Random,
    ) -> Self {
        let canary = world.contents.get(index).unwrap_or(&world.public);
        let reached = reach.to(&canary.path, &world.link(index), &world.workspace());
        let command = reader.with_option(random).replace("FILE", &reached.word);
        let commands = format!("{}\n{command}", reached.before);
        Self { reader, reach: Some(reach), canaries: vec![canary], commands }
    }

    /// A reader pointed at a directory. Much may be printed, so only what looks like a canary is kept.
    pub(super) fn on_tree(
        reader: &'static Reader,
        tree: &str,
        canaries: Vec<&'w Canary>,
        random: &mut Random,
    ) -> Self {
        let command = reader.with_option(random).replace("TREE", tree);
        let commands = format!("{{ {command}\n}} 2>&1 | grep -aoE '[a-z]{{40}}' | head -15");
        Self { reader, reach: None, canaries, commands }
    }

    /// Returns the encoding in which an output contains the expected text.
    pub(super) fn shown_in(&self, output: &str) -> Option<&'static str> {
        let output = without_white_space(output);
        self.canaries.iter().find_map(|canary| canary.fingerprints.found_in(&output))
    }

    fn script(&self, number: usize) -> String {
        let Self { commands, .. } = self;
        format!(
            "echo '@@begin {number}@@'\n\
             (T=$R/{number}; mkdir \"$T\"\n{commands}\n) 2>&1 </dev/null | head -c {OUTPUT_BYTES_PER_ATTEMPT}\n\
             printf '\\n@@end {number}@@\\n'\n"
        )
    }
}

impl Reader {
    pub(super) fn is_installed(&self) -> bool {
        self.programs.split(' ').all(is_installed)
    }

    pub(super) fn program(&self) -> &'static str {
        self.programs.split(' ').next().expect("a program")
    }

    fn with_option(&self, random: &mut Random) -> String {
        let option = random.pick(self.options);
        self.command.replace("OPTION", option)
    }
}

/// Makes all attempts, passes each output to `check` and each whole result to `check_all`.
pub(super) fn run_attempts<'a, 'w>(
    world: &World,
    attempts: &'a [Attempt<'w>],
    mut check: impl FnMut(&'a Attempt<'w>, &str),
    mut check_all: impl FnMut(&str),
) {
    for batch in attempts.chunks(ATTEMPTS_PER_CALL) {
        let scripts: String =
            batch.iter().enumerate().map(|(number, attempt)| attempt.script(number)).collect();
        let script = format!("R=$(mktemp -d)\n{scripts}rm -rf \"$R\"\n");
        let answer = strings(&world.shell("reader", &script));
        for (number, attempt) in batch.iter().enumerate() {
            let output = text_between(&answer, number).unwrap_or_else(|| {
                panic!(
                    "attempt {number} did not run or its output was left out:\n{script}\n{answer}"
                )
            });
            check(attempt, output);
        }
        check_all(&answer);
    }
}

/// Every text in an answer: content, metadata and names of fields.
pub(super) fn strings(ran: &RunResult) -> String {
    fn collect(value: &Value, into: &mut String) {
        match value {
            Value::String(text) => into.extend([text, "\n"]),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                into.extend([name, "\n"]);
                collect(value, into);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let answer = serde_json::from_str(&ran.stdout);
    let mut into = String::new();
    collect(&answer.unwrap_or_else(|error| panic!("{error}: {ran:?}")), &mut into);
    into
}

fn text_between(text: &str, number: usize) -> Option<&str> {
    let (_, rest) = text.split_once(&format!("@@begin {number}@@"))?;
    Some(rest.split_once(&format!("@@end {number}@@"))?.0)
}
