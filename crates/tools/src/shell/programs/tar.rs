//! `tar`: listing reads; everything else writes, and several options run programs.

use windlass_core::OnlyReads;

use super::options;
use crate::shell::found::Found;
use crate::shell::syntax::Word;

const LISTING: &str = "\
    t,list v,verbose f,file=< z,gzip,gunzip j,bzip2 J,xz zstd a,auto-compress n,seek full-time numeric-owner wildcards no-wildcards \
    exclude= strip-components= force-local utc totals";

pub(super) fn tar(words: &[Word], found: &mut Found) {
    let Some(first) = words.get(1) else { return };
    let mode = first.text.trim_start_matches('-');
    // `tf`, `-tzf`, `--list`: the archive is read, and nothing else is done.
    let lists = !first.text.starts_with("--") && mode.starts_with('t') || first.text == "--list";
    if !lists {
        found.risk(1, "writes files");
        for word in words.iter().skip(1) {
            note_option(words, word, found);
        }
        return;
    }
    found.reads(OnlyReads::Always);
    let mut dashed = words.to_vec();
    if let Some(first) = dashed.get_mut(1).filter(|first| !first.text.starts_with('-')) {
        // Letters without a dash take their values in order; with one `f` at the end both are the same.
        if first.text.find('f').is_some_and(|at| at + 1 < first.text.len()) {
            found.risk(1, "is written in an old way");
        }
        first.text.insert(0, '-');
    }
    let sorted = options::sort(&[LISTING], &dashed, 1, found);
    // Compression may run a program of the system.
    if sorted.has(&["z", "j", "J", "zstd", "a"]) {
        found.reads(OnlyReads::InSandbox);
    }
}

fn note_option(words: &[Word], word: &Word, found: &mut Found) {
    const RUN: &[&str] = &[
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
        "-I",
        "-F",
        "--rmt-command",
    ];
    let at = words.iter().position(|other| std::ptr::eq(other, word)).unwrap_or(1);
    if RUN.iter().any(|option| word.text.starts_with(option))
        || (word.text.starts_with("--") && word.text.len() > 2)
    {
        found.risk(at, "may make it run another program");
    }
}
