//! `tar`: listing reads; everything else writes, and several options run programs.

use windlass_core::OnlyReads;

use super::options::{self, Sorted};
use crate::shell::found::Found;
use crate::shell::syntax::Word;

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

pub(super) fn tar(words: &[Word], found: &mut Found) {
    let dashed = dashed(words);
    let words = dashed.as_slice();
    let sorted = options::sort(&[OPTIONS], words, 1, found);
    let lists = sorted.has(&["t"]) && !sorted.has(&["c", "x", "r", "u", "A", "delete", "d"]);
    note_files(words, &sorted, lists, found);
    if !lists {
        return found.risk(1, "writes files");
    }
    found.reads(OnlyReads::Always);
    // Compression may run a program of the system.
    if sorted.has(&["z", "j", "J", "zstd", "lzma", "lzip", "lzop", "a"]) {
        found.reads(OnlyReads::InSandbox);
    }
}

fn note_files(words: &[Word], sorted: &Sorted, lists: bool, found: &mut Found) {
    let writes = sorted.has(&["c", "r", "u", "A", "delete"]);
    for (at, archive) in sorted.values("f").filter(|(_, archive)| archive.text != "-") {
        if is_remote(&archive.text) && !sorted.has(&["force-local"]) {
            found.risk(at, "is on another machine");
            found.unseen("starts a program that talks to another machine");
            continue;
        }
        if writes { found.write(archive) } else { found.read(archive) }
    }
    for (_, place) in sorted.values("C").filter(|_| !lists) {
        if writes { found.read_tree(place) } else { found.write_tree(place) }
    }
    if writes && sorted.values("C").next().is_none() {
        sorted
            .operands
            .iter()
            .filter_map(|at| words.get(*at))
            .for_each(|word| found.read_tree(word));
    }
}

/// `host:archive`.
fn is_remote(archive: &str) -> bool {
    archive.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

/// Letters without a dash take their values in order: `xfC a.tar d` is `-x -f a.tar -C d`. The number of words stays the same, so
/// that risks name the right ones.
fn dashed(words: &[Word]) -> Vec<Word> {
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
