//! Programs that start a shell for another user, another group or a record, and give it a script.

use super::{options, suspects};
use crate::shell::found::{Found, Run};
use crate::shell::syntax::Word;

const USER: &str = "\
    c,command=$ session-command=$ f,fast g,group= G,supp-group= l,login m,p,preserve-environment P,pty T,no-pty s,shell=! u,user= \
    w,whitelist-environment=";
const SCRIPT: &str = "\
    a,append c,command=$ e,return E,echo= f,flush force B,log-io=> I,log-in=> O,log-out=> T,log-timing=> m,logging-format= o,output-limit= \
    q,quiet t,timing?";

/// `su -c SCRIPT`, `runuser -u USER COMMAND`, `sg GROUP -c SCRIPT`, `script -c SCRIPT`.
pub(super) fn other_user(name: &str, words: &[Word], found: &mut Found) {
    suspects::note("*", words, found);
    let table = if name == "script" { SCRIPT } else { USER };
    let sorted = options::sort(&[table], words, 1, found);
    let operands = sorted.operands.iter().filter_map(|at| words.get(*at)).cloned();
    if name == "runuser" && sorted.has(&["user"]) {
        let inner: Vec<Word> = operands.collect();
        found.runs.push(Run { words: inner, more: false, paths: false });
    } else if name == "sg" && found.scripts.is_empty() {
        found.scripts.extend(operands.skip(1));
    }
    if found.runs.is_empty() && found.scripts.is_empty() {
        found.unseen("starts a shell");
    }
}
