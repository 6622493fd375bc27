//! Programs that run a script in the shell of another user or group, or record it: `su`, `runuser`, `sg`, `script`.

use super::{options, suspects};
use crate::shell::command_facts::{CommandFacts, InnerCommand};
use crate::shell::syntax::Word;

/// The option table of `su`, `runuser` and `sg`.
const USER_OPTIONS: &str = "\
    c,command=$ session-command=$ f,fast g,group= G,supp-group= l,login m,p,preserve-environment P,pty T,no-pty s,shell=! u,user= \
    w,whitelist-environment=";
/// The option table of `script`.
const SCRIPT_OPTIONS: &str = "\
    a,append c,command=$ e,return E,echo= f,flush force B,log-io=> I,log-in=> O,log-out=> T,log-timing=> m,logging-format= o,output-limit= \
    q,quiet t,timing?";

/// Adds the script or command in `su -c SCRIPT`, `runuser -u USER COMMAND`, `sg GROUP -c SCRIPT` or `script -c SCRIPT`.
pub(super) fn other_user(name: &str, words: &[Word], facts: &mut CommandFacts) {
    suspects::note("*", words, facts);
    let table = if name == "script" { SCRIPT_OPTIONS } else { USER_OPTIONS };
    let parsed = options::parse(&[table], words, 1, facts);
    let operands = parsed.operands.iter().filter_map(|at| words.get(*at)).cloned();
    if name == "runuser" && parsed.has(&["user"]) {
        let inner: Vec<Word> = operands.collect();
        facts.inner_commands.push(InnerCommand {
            words: inner,
            has_unknown_words: false,
            unknown_words_are_paths: false,
        });
    } else if name == "sg" && facts.scripts.is_empty() {
        facts.scripts.extend(operands.skip(1));
    }
    if facts.inner_commands.is_empty() && facts.scripts.is_empty() {
        facts.mark_unseen("starts a shell");
    }
}
