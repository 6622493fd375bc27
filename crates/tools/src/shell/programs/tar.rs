//! `tar`: a listing only reads; everything else writes, and several options run programs.

use windlass_core::OnlyReads;

use super::options::{self, ParsedOptions};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The option table of `tar`.
const OPTIONS: &str = "\
    t,list c,create x,extract,get r,append u,update A,catenate,concatenate d,diff,compare delete f,file= C,directory= v,verbose \
    z,gzip,gunzip,ungzip j,bzip2 J,xz zstd lzma lzip lzop a,auto-compress no-auto-compress I,use-compress-program=! \
    F,info-script,new-volume-script=! to-command=! checkpoint? checkpoint-action=! rsh-command=! rmt-command=! exclude= X,exclude-from=< \
    T,files-from=^ null exclude-vcs exclude-vcs-ignores exclude-caches strip-components= transform,xform= show-transformed-names \
    p,preserve-permissions,same-permissions k,keep-old-files keep-newer-files skip-old-files overwrite U,unlink-first recursive-unlink^ \
    m,touch O,to-stdout h,dereference P,absolute-names^ wildcards no-wildcards anchored no-anchored no-recursion recursion owner= group= \
    mode= mtime= sort= numeric-owner no-same-owner same-owner no-same-permissions W,verify w,interactive,confirmation l,check-links \
    one-file-system S,sparse N,newer,after-date= remove-files^ g,listed-incremental=> G,incremental L,tape-length= M,multi-volume n,seek \
    warning= R,block-number B,read-full-records b,blocking-factor= H,format= pax-option= V,label= totals? utc full-time index-file=> \
    one-top-level? backup? suffix= ignore-failed-read force-local i,ignore-zeros hard-dereference acls xattrs selinux";

/// Adds the accesses of `tar`, and a risk unless it only lists an archive.
pub(super) fn tar(words: &[Word], facts: &mut CommandFacts) {
    let dashed = with_dashes(words);
    let words = dashed.as_slice();
    let parsed = options::parse(&[OPTIONS], words, 1, facts);
    let lists = parsed.has(&["t"]) && !parsed.has(&["c", "x", "r", "u", "A", "delete", "d"]);
    note_files(words, &parsed, lists, facts);
    if !lists {
        return facts.add_risk(1, "writes files");
    }
    facts.set_only_reads(OnlyReads::Always);
    // Compression may run a program of the system.
    if parsed.has(&["z", "j", "J", "zstd", "lzma", "lzip", "lzop", "a"]) {
        facts.set_only_reads(OnlyReads::InSandbox);
    }
}

/// Adds accesses to the archive, the directory of `-C` and the packed files. `lists` is true if the command only lists the archive.
fn note_files(words: &[Word], parsed: &ParsedOptions, lists: bool, facts: &mut CommandFacts) {
    let writes = parsed.has(&["c", "r", "u", "A", "delete"]);
    for (at, archive) in parsed.values("f").filter(|(_, archive)| archive.text != "-") {
        if is_remote(&archive.text) && !parsed.has(&["force-local"]) {
            facts.add_risk(at, "is on another machine");
            facts.mark_unseen("starts a program that talks to another machine");
            continue;
        }
        if writes { facts.add_write(archive) } else { facts.add_read(archive) }
    }
    for (_, directory) in parsed.values("C").filter(|_| !lists) {
        if writes { facts.add_tree_read(directory) } else { facts.add_tree_write(directory) }
    }
    if writes && parsed.values("C").next().is_none() {
        parsed
            .operands
            .iter()
            .filter_map(|at| words.get(*at))
            .for_each(|word| facts.add_tree_read(word));
    }
}

/// Returns whether an archive is on another machine: `host:archive`.
fn is_remote(archive: &str) -> bool {
    archive.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

/// Rewrites options without a dash: `xfC a.tar d` becomes `-x -f a.tar -C d`. The number of words stays the same, so that risks refer to
/// the right words.
fn with_dashes(words: &[Word]) -> Vec<Word> {
    const WITH_VALUE: &str = "fCIFXTNgLbHV";
    let mut dashed = words.to_vec();
    let Some(first) = words.get(1).filter(|first| !first.text.starts_with('-')) else {
        return dashed;
    };
    let takes: Vec<char> = first.text.chars().filter(|c| WITH_VALUE.contains(*c)).collect();
    let flags: String = first.text.chars().filter(|c| !WITH_VALUE.contains(*c)).collect();
    for (at, letter) in takes.iter().enumerate() {
        if let Some(value) = dashed.get_mut(2 + at) {
            value.text.insert_str(0, &format!("-{letter}"));
        }
    }
    if let Some(word) = dashed.get_mut(1) {
        word.text = format!("-{flags}");
    }
    dashed
}
