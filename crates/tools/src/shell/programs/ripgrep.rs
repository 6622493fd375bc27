//! `rg`: it searches, and some options make it run other programs on what it reads.

use windlass_core::OnlyReads;

use super::options;
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The option table of `rg`.
const OPTIONS: &str = "\
    e,regexp= f,file=< A,after-context= B,before-context= C,context= F,fixed-strings P,pcre2 s,case-sensitive i,ignore-case S,smart-case \
    v,invert-match w,word-regexp x,line-regexp U,multiline multiline-dotall m,max-count= d,max-depth,maxdepth= g,glob= iglob= t,type= \
    T,type-not= type-list hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent no-ignore-dot no-ignore-global no-messages no-config \
    u,unrestricted L,follow one-file-system max-filesize= a,text binary c,count count-matches l,files-with-matches files-without-match files \
    n,line-number N,no-line-number H,with-filename I,no-filename heading no-heading column no-column b,byte-offset o,only-matching \
    r,replace= color= colors= p,pretty q,quiet json vimgrep stats trim M,max-columns= max-columns-preview 0,null sort= sortr= j,threads= \
    E,encoding= context-separator= passthru crlf null-data no-unicode line-buffered block-buffered mmap no-mmap engine= stop-on-nonmatch \
    path-separator= include-zero debug trace V,version h,help . \
    pre=! pre-glob=! hostname-bin=! hyperlink-format=! z,search-zip! type-add=! ignore-file=<";

/// Adds the searches of `rg`: the first operand is a pattern unless an option gives it, the others are directories.
pub(super) fn rg(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let parsed = options::parse(&[OPTIONS], words, 1, facts);
    let has_pattern = parsed.has(&["regexp", "file", "files", "type-list", "version", "help"]);
    let paths = parsed.operands.get(usize::from(!has_pattern)..).unwrap_or_default();
    for word in paths.iter().filter_map(|at| words.get(*at)).filter(|word| word.text != "-") {
        facts.add_tree_search(word);
    }
    if paths.is_empty() {
        facts.add_search_here();
    }
}
