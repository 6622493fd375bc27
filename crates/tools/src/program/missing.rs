//! Notes for a program that failed because of its sandbox: a path is not in its view, masked or read-only, or there is no network.
//!
//! Programs say only "No such file or directory". This module takes the paths from such messages at the end of the output and asks the host
//! whether the view is the reason. A program that succeeded gets no notes.

mod mentions;
mod network;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_core::{
    Absence, Context, Job, NetworkAccess, Output, PathUse, ProcessEnd, SandboxLevel, quote,
};

use self::mentions::{PathMention, Symptom, mentions};
use crate::format::{push_line, short};

/// Bytes at the end of the output that are searched for messages.
const SEARCHED_BYTES: u64 = 64 << 10;
/// Limit of notes about paths in one output.
const MAX_NOTES: usize = 3;
/// Limit of a path's length in a note.
const MAX_PATH_CHARACTERS: usize = 300;

/// The notes about one failed program.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// The notes as text.
    notes: Vec<String>,
    /// The same as JSON.
    listed: Vec<Value>,
}

impl Missing {
    /// Searches the output of a failed program and asks the host about the paths in it. Blocking.
    pub(crate) fn of(cx: &Context, job: &Job) -> Self {
        let to = job.printed();
        let from = to.saturating_sub(SEARCHED_BYTES);
        let text: String = cx.printed(job, from..to).map(|piece| piece.text).collect();
        let mut missing = Self::default();
        missing.add_network(cx, job, &text);
        let directory = changed_directory(job.command());
        for mention in mentions(&text, job.command()) {
            let absence = explain(job, &mention, directory.as_deref());
            if let Some(absence) = absence.filter(|absence| can_cause(mention.symptom, absence)) {
                missing.add(&mention, &absence, job.is_job() && !job.is_staged());
            }
        }
        missing
    }

    /// Returns the number of bytes that the notes add to an output.
    pub(crate) fn len(&self) -> usize {
        self.notes.iter().map(|note| note.len() + 1).sum()
    }

    /// Appends the notes, one per line.
    pub(crate) fn append_to(&self, text: &mut String) {
        for note in &self.notes {
            push_line(text, note);
        }
    }

    /// Adds the notes to the metadata of an output.
    pub(crate) fn facts(self, output: Output) -> Output {
        if self.listed.is_empty() { output } else { output.with("absent", self.listed) }
    }

    /// Adds a note about a path, up to the limit, and its JSON entry.
    fn add(&mut self, mention: &PathMention, absence: &Absence, is_job: bool) {
        let note = match absence {
            Absence::ReadOnly { rule: None } if is_job && is_in_git(&mention.path) => {
                git_note(&mention.path)
            }
            _ => note_text(&mention.path, mention.used, absence),
        };
        if !self.notes.contains(&note) && self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
        self.listed.push(json!({"path": mention.path, "reason": absence.name()}));
    }

    /// Adds a note about the network if the program seems to have missed it.
    fn add_network(&mut self, cx: &Context, job: &Job, text: &str) {
        let is_off = cx.processes().is_ok_and(|door| door.confinement().level == SandboxLevel::Off);
        if is_off || *job.network() == NetworkAccess::Full {
            return;
        }
        let mut hosts = job.refused_hosts();
        let exit_code = match job.end().map(|end| end.how) {
            Some(ProcessEnd::Exited(code)) => Some(code),
            _ => None,
        };
        self.notes.extend(own_loopback(job.network(), job.command(), exit_code));
        match network::missed_hosts(text, job.command(), exit_code) {
            Some(named) if hosts.is_empty() => hosts = named,
            None if hosts.is_empty() => return,
            _ => {}
        }
        if let NetworkAccess::Hosts(listed) = job.network() {
            let is_missed = !hosts.is_empty();
            hosts.retain(|host| !listed.contains(host));
            // The network rules allow these hosts, so the failure has another reason.
            if is_missed && hosts.is_empty() {
                return;
            }
        }
        self.notes.push(network_note(job.network(), &hosts));
        self.listed.push(json!({"reason": "no network", "hosts": hosts}));
    }
}

/// Returns the note for a failed command that names a host on the machine's loopback that it may reach: a program that does not ask the
/// proxy connects to the sandbox's own loopback.
fn own_loopback(network: &NetworkAccess, command: &str, exit_code: Option<i32>) -> Option<String> {
    let NetworkAccess::Hosts(listed) = network else { return None };
    let is_loopback =
        |host: &&String| ["127.", "localhost", "[::1]"].iter().any(|start| host.starts_with(start));
    let host = listed.iter().filter(is_loopback).find(|host| command.contains(host.as_str()))?;
    (exit_code != Some(0)).then(|| {
        format!(
            "[{host} of the machine is behind the proxy that HTTP_PROXY names; a program that connects directly reaches the sandbox's own \
             loopback]"
        )
    })
}

/// Returns the note for a program that could not reach the network. `missed` lists the hosts, if they are known.
fn network_note(network: &NetworkAccess, missed: &[String]) -> String {
    let quoted: Vec<String> = missed.iter().map(|host| format!("\"{host}\"")).collect();
    let names = if missed.is_empty() { "HOST".to_owned() } else { missed.join(",") };
    if let NetworkAccess::Hosts(listed) = network {
        let others = if missed.is_empty() { "others".to_owned() } else { quoted.join(", ") };
        let listed = listed.join(",");
        return format!(
            "[no network but to {listed}, through the proxy that HTTPS_PROXY names: add {others} to `net` of bash (a person: --net {listed},{names})]"
        );
    }
    let list = if missed.is_empty() { "\"HOST\"".to_owned() } else { quoted.join(",") };
    format!("[no network: call bash with net:[{list}] (a person: --net {names})]")
}

/// Asks the host why a path is absent, first in the directory that the command changed to.
fn explain(job: &Job, mention: &PathMention, directory: Option<&Path>) -> Option<Absence> {
    let path = Path::new(&mention.path);
    let is_relative = path.is_relative() && !path.starts_with("~");
    let within = directory.filter(|_| is_relative).map(|directory| directory.join(path));
    within
        .and_then(|within| job.explain(&within, mention.used))
        .or_else(|| job.explain(path, mention.used))
}

/// Returns the directory of a leading `cd DIRECTORY`, with which many commands begin.
fn changed_directory(command: &str) -> Option<PathBuf> {
    let rest = command.trim_start().strip_prefix("cd ")?.trim_start();
    let mut characters = rest.chars();
    let word = match characters.next()? {
        quote @ ('\'' | '"') => characters.as_str().split(quote).next()?,
        _ => rest.split(|c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|')).next()?,
    };
    (!word.is_empty() && !word.contains('$')).then(|| word.into())
}

/// Returns whether a reason can cause this symptom. A message often names an existing path beside the missing one.
fn can_cause(symptom: Symptom, absence: &Absence) -> bool {
    match absence {
        Absence::Masked { .. } | Absence::Outside { .. } => {
            matches!(symptom, Symptom::Missing | Symptom::Denied | Symptom::ReadOnly)
        }
        Absence::ReadOnly { .. } | Absence::System { .. } => {
            matches!(symptom, Symptom::Denied | Symptom::ReadOnly)
        }
        Absence::Unmapped { .. } => matches!(symptom, Symptom::Denied | Symptom::Overflow),
        Absence::OneOwner => symptom == Symptom::Chown,
    }
}

/// Returns whether a path contains a directory named `.git`.
fn is_in_git(path: &str) -> bool {
    Path::new(path).iter().any(|name| name.eq_ignore_ascii_case(".git"))
}

/// Returns the note for a job that tried to change a repository.
fn git_note(path: &str) -> String {
    let path = quote::path(Path::new(path));
    let path = short(&path, MAX_PATH_CHARACTERS);
    format!(
        "[read-only here: {path}; git directories are read-only for jobs: run the git command without `background`]"
    )
}

/// Returns the note about an absent path for the model, with the rule that would allow access.
fn note_text(path: &str, used: PathUse, absence: &Absence) -> String {
    let path = quote::path(Path::new(path));
    let path = short(&path, MAX_PATH_CHARACTERS);
    let option = |rule: &String| format!("--allow '{}'", rule.replace('\'', r"'\''"));
    match absence {
        Absence::Masked { reason } => {
            format!("[masked: {path} ({reason}); programs cannot see it]")
        }
        Absence::Outside { rule: None } => format!("[not in the sandbox's view: {path}]"),
        Absence::Outside { rule: Some(rule) } => {
            format!("[not in the sandbox's view: {path}; a person can allow it: {}]", option(rule))
        }
        Absence::ReadOnly { rule: None } => format!("[read-only here: {path}]"),
        Absence::ReadOnly { rule: Some(rule) } => {
            format!("[read-only here: {path}; a person can allow writing: {}]", option(rule))
        }
        Absence::System { directory } => {
            format!("[read-only: {} is part of the system]", directory.display())
        }
        Absence::Unmapped { owner, group } => {
            let done = if used == PathUse::Read { "read" } else { "changed" };
            let belongs = owner_text(*owner, *group);
            format!("[{path} belongs to {belongs} into the sandbox, so it could not be {done}]")
        }
        Absence::OneOwner => format!(
            "[the owner of {path} was not changed: other users and groups are not mapped into the sandbox]"
        ),
    }
}

/// Returns the unmapped owner or group of a file as text.
fn owner_text(owner: Option<u32>, group: Option<u32>) -> String {
    match (owner, group) {
        (Some(owner), Some(group)) => {
            format!("user {owner} and group {group}, which are not mapped")
        }
        (Some(owner), None) => format!("user {owner}, who is not mapped"),
        (None, group) => format!("group {}, which is not mapped", group.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_name_the_reason_and_the_rule() {
        let rule = |text: &str| Some(text.to_owned());
        let masked = Absence::Masked { reason: "a file of secrets".into() };
        for (path, used, absence, expected) in [
            (
                ".env",
                PathUse::Read,
                masked,
                "[masked: .env (a file of secrets); programs cannot see it]",
            ),
            (
                "/data/in.csv",
                PathUse::Read,
                Absence::Outside { rule: rule("read /data/in.csv") },
                "[not in the sandbox's view: /data/in.csv; a person can allow it: --allow 'read /data/in.csv']",
            ),
            (
                "/it's",
                PathUse::Read,
                Absence::Outside { rule: rule("read /it's") },
                r"[not in the sandbox's view: /it's; a person can allow it: --allow 'read /it'\''s']",
            ),
            (
                "~/.ssh/x",
                PathUse::Write,
                Absence::Outside { rule: None },
                "[not in the sandbox's view: ~/.ssh/x]",
            ),
            (
                "/opt/x",
                PathUse::Write,
                Absence::ReadOnly { rule: rule("write /opt/x") },
                "[read-only here: /opt/x; a person can allow writing: --allow 'write /opt/x']",
            ),
            (
                "/usr/x",
                PathUse::Write,
                Absence::System { directory: "/usr".into() },
                "[read-only: /usr is part of the system]",
            ),
            (
                "/w/f",
                PathUse::Write,
                Absence::Unmapped { owner: Some(1001), group: None },
                "[/w/f belongs to user 1001, who is not mapped into the sandbox, so it could not be changed]",
            ),
            (
                "f",
                PathUse::Read,
                Absence::Unmapped { owner: None, group: Some(7) },
                "[f belongs to group 7, which is not mapped into the sandbox, so it could not be read]",
            ),
        ] {
            assert_eq!(note_text(path, used, &absence), expected);
        }
    }

    #[test]
    fn network_note_names_the_argument() {
        let hosts =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        for (listed, missed, expected) in [
            (
                &[][..],
                &[][..],
                "[no network: call bash with net:[\"HOST\"] (a person: --net HOST)]",
            ),
            (
                &[],
                &["docs.rs", "a.b:99"],
                "[no network: call bash with net:[\"docs.rs\",\"a.b:99\"] (a person: --net docs.rs,a.b:99)]",
            ),
            (
                &["docs.rs"],
                &["a.example.net"],
                "[no network but to docs.rs, through the proxy that HTTPS_PROXY names: add \"a.example.net\" to `net` of bash (a person: --net docs.rs,a.example.net)]",
            ),
            (
                &["docs.rs", "x.y"],
                &[],
                "[no network but to docs.rs,x.y, through the proxy that HTTPS_PROXY names: add others to `net` of bash (a person: --net docs.rs,x.y,HOST)]",
            ),
        ] {
            let network = match listed {
                [] => NetworkAccess::None,
                listed => NetworkAccess::Hosts(hosts(listed)),
            };
            assert_eq!(network_note(&network, &hosts(missed)), expected);
        }
    }

    #[test]
    fn note_explains_the_loopback_of_the_machine() {
        let granted = NetworkAccess::Hosts(vec!["docs.rs".into(), "127.0.0.1:8799".into()]);
        for (network, command, exit_code, is_told) in [
            (&granted, "curl http://127.0.0.1:8799/x", Some(7), true),
            (&granted, "curl http://127.0.0.1:8799/x", Some(0), false),
            (&granted, "curl http://127.0.0.1:3000/x", Some(7), false),
            (&granted, "curl http://docs.rs", Some(7), false),
            (&NetworkAccess::None, "curl http://127.0.0.1:8799/x", Some(7), false),
        ] {
            let note = own_loopback(network, command, exit_code);
            assert_eq!(note.is_some(), is_told, "{command}: {note:?}");
        }
    }

    #[test]
    fn leading_cd_is_recognized() {
        for (command, expected) in [
            ("cd sub && cat x", Some("sub")),
            ("cd 'a b'; ls", Some("a b")),
            ("  cd /w/sub\ncat x", Some("/w/sub")),
            ("cd \"$DIR\" && x", None),
            ("cd && x", None),
            ("cat cd x", None),
        ] {
            assert_eq!(changed_directory(command), expected.map(PathBuf::from), "{command}");
        }
    }
}
