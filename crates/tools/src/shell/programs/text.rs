//! Programs that only print: what they take is in one table.

use windlass_core::OnlyReads;

use super::options::{self, Sorted};
use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// A program that reads and prints.
pub(super) struct Reader {
    /// By which names it is known.
    names: &'static str,
    /// See [`options`].
    options: &'static str,
    operands: Operands,
}

/// What the words are that are no options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Not names of files.
    Words,
    /// Files.
    Files,
    /// Directories with all that is in them, or files; the present one if there are none.
    Trees,
    /// The same, but only with `-r` or `-R` more than the names in them.
    Listed,
    /// A pattern, then files or, with `-r`, trees.
    Pattern,
    /// A program, then files.
    Program,
    /// A file; a second one is written.
    InAndOut,
    /// None: one would change something.
    None,
}

const READERS: &[Reader] = &[
    Reader {
        names: "cat tac",
        options: "A,show-all b,number-nonblank before e E,show-ends n,number s,squeeze-blank t T,show-tabs u v,show-nonprinting r,regex separator=",
        operands: Operands::Files,
    },
    Reader {
        names: "head tail",
        options: "NUMBER n,lines= c,bytes= q,quiet,silent v,verbose z,zero-terminated f F,follow? retry pid= s,sleep-interval=",
        operands: Operands::Files,
    },
    Reader {
        names: "wc",
        options: "c,bytes m,chars l,lines L,max-line-length w,words total= files0-from=!",
        operands: Operands::Files,
    },
    Reader {
        names: "cut paste",
        options: "b,bytes= c,characters= d,delimiter,delimiters= f,fields= s,only-delimited,serial z,zero-terminated complement n output-delimiter=",
        operands: Operands::Files,
    },
    Reader {
        names: "nl rev fold fmt expand unexpand",
        options: "NUMBER a,all b= s,spaces w,width= t,tabs= i,initial n= v= d= f= h= l= p c u first-only bytes",
        operands: Operands::Files,
    },
    Reader {
        names: "tr",
        options: "c,C,complement d,delete s,squeeze-repeats t,truncate-set1",
        operands: Operands::Words,
    },
    Reader {
        names: "comm join",
        options: "NUMBER a= e= i,ignore-case j= o= t= v= 1 2 3 12 13 23 123 check-order nocheck-order header z,zero-terminated total output-delimiter=",
        operands: Operands::Files,
    },
    Reader {
        names: "column",
        options: "t,table s,separator= o,output-separator= N,table-columns= R,table-right= c,columns= x,fillrows n J,json l,table-columns-limit=",
        operands: Operands::Files,
    },
    Reader {
        names: "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum",
        options: "b,binary t,text c,check tag z,zero quiet status strict w,warn ignore-missing r s a,algorithm= l,length= untagged",
        operands: Operands::Files,
    },
    Reader {
        names: "base64 base32",
        options: "d,decode i,ignore-garbage w,wrap=",
        operands: Operands::Files,
    },
    Reader {
        names: "od hexdump hd strings",
        options: "A,address-radix= j,skip-bytes= N,read-bytes= S,strings= t,format,radix= v,output-duplicates w,width? a,all b c d o s n,bytes= x e= C f",
        operands: Operands::Files,
    },
    Reader {
        names: "uniq",
        options: "c,count d,repeated D all-repeated? f,skip-fields= group? i,ignore-case s,skip-chars= u,unique z,zero-terminated w,check-chars=",
        operands: Operands::InAndOut,
    },
    Reader {
        names: "sort",
        options: "b,ignore-leading-blanks d,dictionary-order f,ignore-case g,general-numeric-sort h,human-numeric-sort i,ignore-nonprinting \
            M,month-sort n,numeric-sort r,reverse R,random-sort V,version-sort sort= c,check? C m,merge k,key= s,stable \
            S,buffer-size= t,field-separator= u,unique z,zero-terminated parallel= batch-size= debug files0-from=! random-source=< \
            o,output=> T,temporary-directory=! compress-program=!",
        operands: Operands::Files,
    },
    Reader {
        names: "grep egrep fgrep",
        options: "NUMBER E,extended-regexp F,fixed-strings G,basic-regexp P,perl-regexp e,regexp= f,file=< i,ignore-case y no-ignore-case \
            v,invert-match w,word-regexp x,line-regexp z,null-data s,no-messages m,max-count= b,byte-offset n,line-number line-buffered \
            H,with-filename h,no-filename label= o,only-matching q,quiet,silent binary-files= a,text I d,directories= D,devices= \
            r,recursive R,dereference-recursive include= exclude= exclude-from=< exclude-dir= L,files-without-match l,files-with-matches \
            c,count T,initial-tab Z,null B,before-context= A,after-context= C,context= color,colour? U,binary",
        operands: Operands::Pattern,
    },
    Reader {
        names: "jq",
        options: "n,null-input r,raw-output j,join-output a,ascii-output s,slurp c,compact-output C,color-output M,monochrome-output S,sort-keys \
            e,exit-status R,raw-input tab arg= argjson= indent= stream unbuffered raw-output0 seq f,from-file!",
        operands: Operands::Program,
    },
    Reader {
        names: "ls dir vdir",
        options: "1 a,all A,almost-all author b,escape block-size= B,ignore-backups c C color? d,directory D f F,classify? file-type format= full-time \
            g group-directories-first G,no-group h,human-readable si H dereference-command-line hide= hyperlink? i,inode I,ignore= k l L,dereference m \
            n,numeric-uid-gid N,literal o p indicator-style= q,hide-control-chars Q,quote-name quoting-style= r,reverse R,recursive s,size S sort= \
            t time= time-style= T= u U v w= x X Z,context zero",
        operands: Operands::Listed,
    },
    Reader {
        names: "tree",
        options: "a d f l x L= R P= I= ignore-case matchdirs prune noreport charset= filelimit= gitignore si du timefmt= p u g s h D F q N Q i A S n C \
            v t c U r sort? dirsfirst filesfirst J X inodes device fromfile! o=>",
        operands: Operands::Trees,
    },
    Reader {
        names: "du",
        options: "0,null a,all apparent-size B,block-size= b,bytes c,total D,dereference-args d,max-depth= h,human-readable inodes k L,dereference l,count-links m \
            P,no-dereference S,separate-dirs si s,summarize t,threshold= time? time-style= X,exclude-from=< exclude= x,one-file-system files0-from=!",
        operands: Operands::Trees,
    },
    Reader {
        names: "df",
        options: "a,all B,block-size= h,human-readable H,si i,inodes k l,local P,portability output? total t,type= T,print-type x,exclude-type=",
        operands: Operands::Files,
    },
    Reader {
        names: "stat",
        options: "L,dereference f,file-system c,format= printf= t,terse cached=",
        operands: Operands::Files,
    },
    Reader {
        names: "file",
        options: "b,brief i,mime mime-type mime-encoding L,dereference h,no-dereference k,keep-going N,no-pad r,raw s,special-files 0,print0 F,separator= E \
            C,compile! m,magic-file=! f,files-from=< z,uncompress! Z!",
        operands: Operands::Files,
    },
    Reader {
        names: "realpath readlink",
        options: "e,canonicalize-existing m,canonicalize-missing f,canonicalize L,logical P,physical q,quiet,silent relative-to= relative-base= s,strip,no-symlinks z,zero n,no-newline v,verbose",
        operands: Operands::Files,
    },
    Reader {
        names: "basename dirname",
        options: "a,multiple s,suffix= z,zero",
        operands: Operands::Words,
    },
    Reader {
        names: "diff cmp",
        options: "NUMBER normal q,brief s,report-identical-files c C,context= u U,unified? e,ed n,rcs y,side-by-side W,width= left-column suppress-common-lines \
            p,show-c-function F,show-function-line= label= t,expand-tabs T,initial-tab tabsize= r,recursive no-dereference N,new-file unidirectional-new-file \
            ignore-file-name-case x,exclude= X,exclude-from=< S,starting-file= from-file=< to-file=< i,ignore-case,ignore-initial= E,ignore-tab-expansion \
            Z,ignore-trailing-space b,ignore-space-change,print-bytes w,ignore-all-space B,ignore-blank-lines I,ignore-matching-lines= a,text strip-trailing-cr \
            d,minimal horizon-lines= speed-large-files color? palette= l,verbose bytes= silent quiet",
        operands: Operands::Trees,
    },
    Reader { names: "pwd", options: "L P", operands: Operands::None },
    Reader {
        names: "whoami tty arch nproc logname users uptime",
        options: "p s a,all ignore=",
        operands: Operands::None,
    },
    Reader {
        names: "id groups",
        options: "a g,group G,groups n,name r,real u,user z,zero Z",
        operands: Operands::Words,
    },
    Reader {
        names: "uname",
        options: "a,all s,kernel-name n,nodename r,kernel-release v,kernel-version m,machine p,processor i,hardware-platform o,operating-system",
        operands: Operands::None,
    },
    Reader {
        names: "hostname",
        options: "f,fqdn s,short i,ip-address I d,domain",
        operands: Operands::None,
    },
    // It has options of three kinds, and none that does more than print.
    Reader { names: "ps", options: "", operands: Operands::Words },
    Reader {
        names: "free",
        options: "b k m g h,human t,total w,wide si l",
        operands: Operands::None,
    },
    Reader {
        names: "lscpu lsblk nproc",
        options: "a,all b,bytes e,extended? J,json p,parse? o,output= f,fs l,list n,noheadings",
        operands: Operands::None,
    },
    Reader { names: "which whereis", options: "a,all b m s", operands: Operands::Words },
    Reader { names: "type", options: "a t p P f", operands: Operands::Words },
    Reader { names: "printenv", options: "0,null", operands: Operands::Words },
    Reader { names: "echo", options: "", operands: Operands::Words },
    Reader {
        names: "true false : sleep seq exit return break continue",
        options: "",
        operands: Operands::Words,
    },
    Reader { names: "expr", options: "", operands: Operands::Words },
    Reader {
        names: "locale getconf",
        options: "a,all-locales m,charmaps k,keyword-name c,category-name",
        operands: Operands::Words,
    },
    Reader { names: "cal", options: "NUMBER 1 3 m y s j", operands: Operands::Words },
    Reader {
        names: "pgrep",
        options: "l,list-name a,list-full f,full x,exact n,newest o,oldest c,count u,euid= P,parent= d,delimiter=",
        operands: Operands::Words,
    },
];

/// The row of a program.
pub(super) fn find(name: &str) -> Option<&'static Reader> {
    READERS.iter().find(|reader| reader.names.split(' ').any(|known| known == name))
}

impl Reader {
    pub(super) fn look(&self, words: &[Word], found: &mut Found) {
        found.reads(OnlyReads::Always);
        if self.operands == Operands::Words && self.options.is_empty() {
            return;
        }
        let sorted = options::sort(&[self.options], words, 1, found);
        let at = |index: &usize| words.get(*index).filter(|word| word.text != "-");
        let operands: Vec<&Word> = sorted.operands.iter().filter_map(at).collect();
        match self.operands {
            Operands::Words => {}
            Operands::Files => operands.iter().for_each(|word| found.read(word)),
            Operands::Trees => look_through(&operands, found),
            Operands::Listed if sorted.has(&["R", "recursive"]) => look_through(&operands, found),
            Operands::Listed => operands.iter().for_each(|word| found.read_tree(word)),
            Operands::Pattern => look_with_pattern(words, &sorted, found),
            Operands::Program => operands.iter().skip(1).for_each(|word| found.read(word)),
            Operands::InAndOut => in_and_out(words, &sorted, found),
            Operands::None => {
                if let Some(first) = sorted.operands.first() {
                    found.risk(*first, "would change something");
                }
            }
        }
    }
}

fn look_with_pattern(words: &[Word], sorted: &Sorted, found: &mut Found) {
    let skip = usize::from(!sorted.has(&["e", "regexp", "f", "file"]));
    // `-d recurse` is the same as `-r`.
    let is_recursive = sorted.has(&["r", "R", "recursive", "d", "directories"]);
    let places = sorted.operands.get(skip..).unwrap_or_default();
    for word in places.iter().filter_map(|at| words.get(*at)).filter(|word| word.text != "-") {
        if is_recursive { found.search(word) } else { found.read(word) }
    }
    if is_recursive && places.is_empty() {
        found.search_here();
    }
}

fn look_through(places: &[&Word], found: &mut Found) {
    for word in places {
        found.search(word);
    }
    if places.is_empty() {
        found.search_here();
    }
}

fn in_and_out(words: &[Word], sorted: &Sorted, found: &mut Found) {
    if let Some(word) = sorted.operands.first().and_then(|at| words.get(*at)) {
        found.read(word);
    }
    for at in sorted.operands.iter().skip(1) {
        found.risk(*at, "is the file that it writes");
        if let Some(word) = words.get(*at) {
            found.write(word);
        }
    }
    // The first word may become two files.
    if let Some(at) = sorted
        .operands
        .first()
        .filter(|at| words.get(**at).is_some_and(|word| word.pattern.is_some()))
    {
        found.risk(*at, "could be more than one file, of which the second is written");
    }
}
