//! The one table of programs: the kind of each program, its options, and the words with which it does more.
//!
//! A row of a program that only reads or changes files lists all its options, because an unknown one is a risk. The options of a
//! wrapper are needed to find the command behind them. A project tool lists the options before its subcommand, and its *suspects*:
//! words with which it does more than its name says (see [`suspects`](super::suspects)). Reporting subcommands have their own table
//! (see [`subcommands`](super::subcommands)).

use super::files::FileUse;
use super::read_only::OperandKind;

/// A row of the table.
pub(in crate::shell) struct Program {
    /// Names of the program, separated by blanks.
    names: &'static str,
    pub(in crate::shell) kind: ProgramKind,
    /// The option table; see [`options`](super::options).
    pub(in crate::shell) options: &'static str,
    /// Words with which the program does more than its name says; see [`suspects`](super::suspects).
    pub(in crate::shell) suspects: &'static str,
}

/// The kind of a program, by what it does with its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum ProgramKind {
    /// Reads and prints.
    Reads(OperandKind),
    /// Changes the files in its operands.
    ChangesFiles(FileUse),
    /// A wrapper: runs the command in its words.
    Wraps(Wrapper),
    /// Works on files, or does the work that the files of a project describe. `runs` lists the subcommands that run the command behind
    /// them; `*` stands for the program itself.
    Tool { runs: &'static str },
    /// Runs code from its words or its files.
    RunsCode,
    /// Changes the shell, so that later words change their meaning, or evaluates words as code.
    ChangesShell,
}

/// The form of a program that runs the command in its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) struct Wrapper {
    /// Number of words between the options and the command: 1 for `timeout 5 ls`.
    pub(in crate::shell) words_before_command: usize,
    pub(in crate::shell) inner_form: InnerForm,
    pub(in crate::shell) policy: WrapperPolicy,
}

/// The form in which a wrapper takes its command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum InnerForm {
    /// Words that are run as they are.
    Words,
    /// Words that are joined into a script for a shell.
    Joined,
    /// Words that are a script each.
    Scripts,
    /// Words up to `:::`, to which more are added.
    Template,
}

/// The need of a rule for the wrapper itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum WrapperPolicy {
    /// No rule is needed: only the inner command counts.
    Transparent,
    /// The wrapper is a command that a rule has to allow too.
    OwnCommand,
    /// Like `OwnCommand`, because the wrapper gives other rights or uses another machine.
    OtherRights,
}

/// Returns the row of a program, by one of its names.
pub(in crate::shell) fn find(name: &str) -> Option<&'static Program> {
    let name = if is_loader(name) { "ld.so" } else { name };
    PROGRAMS.iter().find(|program| program.is_named(name))
}

/// Returns the names of the programs that only read and have options.
#[cfg(test)]
pub(in crate::shell) fn readers() -> impl Iterator<Item = &'static str> {
    let has_options =
        |row: &&Program| matches!(row.kind, ProgramKind::Reads(it) if it != OperandKind::Anything);
    PROGRAMS.iter().filter(has_options).flat_map(|row| row.names.split(' '))
}

/// Returns whether a program is the dynamic loader (`ld-linux-x86-64.so.2`), which runs the program in its words.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld-2."].iter().any(|start| name.starts_with(start))
        || name.starts_with("ld64.so")
}

impl Program {
    /// Returns whether this is one of the program's names.
    pub(in crate::shell) fn is_named(&self, name: &str) -> bool {
        self.names.split(' ').any(|known| known == name)
    }

    /// Returns whether the program only reads whatever words are added: none of its options or operands does more.
    pub(in crate::shell) fn takes_any_words(&self) -> bool {
        let ProgramKind::Reads(operands) = self.kind else { return false };
        let does_more = |option: &str| option.ends_with(['!', '>', '$']);
        !matches!(operands, OperandKind::InAndOut | OperandKind::None | OperandKind::Program)
            && !self.options.split_whitespace().any(does_more)
    }

    /// Returns a row without suspects.
    const fn new(names: &'static str, kind: ProgramKind, options: &'static str) -> Self {
        Self { names, kind, options, suspects: "" }
    }

    /// Sets the suspects of a row.
    const fn suspecting(mut self, suspects: &'static str) -> Self {
        self.suspects = suspects;
        self
    }
}

/// A row of a program that only reads.
const fn reader(names: &'static str, operands: OperandKind, options: &'static str) -> Program {
    Program::new(names, ProgramKind::Reads(operands), options)
}

/// A row of a program that changes files.
const fn changer(names: &'static str, file_use: FileUse, options: &'static str) -> Program {
    Program::new(names, ProgramKind::ChangesFiles(file_use), options)
}

/// A row of a wrapper that needs no rule of its own.
const fn wrapper(names: &'static str, options: &'static str) -> Program {
    wrapper_as(names, 0, InnerForm::Words, WrapperPolicy::Transparent, options)
}

/// A row of a wrapper of any form.
const fn wrapper_as(
    names: &'static str,
    words_before_command: usize,
    inner_form: InnerForm,
    policy: WrapperPolicy,
    options: &'static str,
) -> Program {
    Program::new(
        names,
        ProgramKind::Wraps(Wrapper { words_before_command, inner_form, policy }),
        options,
    )
}

/// A row of a tool without subcommands that run a command.
const fn tool(names: &'static str, options: &'static str, suspects: &'static str) -> Program {
    Program::new(names, ProgramKind::Tool { runs: "" }, options).suspecting(suspects)
}

/// A row of a tool with subcommands (`runs`) behind which a command stands.
const fn runner(
    names: &'static str,
    runs: &'static str,
    options: &'static str,
    suspects: &'static str,
) -> Program {
    Program::new(names, ProgramKind::Tool { runs }, options).suspecting(suspects)
}

/// A row of a program that runs code. Every option is a suspect.
const fn code_runner(names: &'static str) -> Program {
    Program::new(names, ProgramKind::RunsCode, "").suspecting("-* +*")
}

/// The rows. Programs with a language of their own have a module instead.
#[rustfmt::skip]
const PROGRAMS: &[Program] = &[
    // Programs that read and print.
    reader("cat tac", OperandKind::Files, "\
        A,show-all b,number-nonblank before e E,show-ends n,number s,squeeze-blank t T,show-tabs u v,show-nonprinting \
        r,regex separator="),
    reader("head tail", OperandKind::Files, "\
        NUMBER n,lines= c,bytes= q,quiet,silent v,verbose z,zero-terminated f F follow? retry pid= s,sleep-interval="),
    reader("wc", OperandKind::Files, "c,bytes m,chars l,lines L,max-line-length w,words total= files0-from=^"),
    reader("cut paste", OperandKind::Files, "\
        b,bytes= c,characters= d,delimiter,delimiters= f,fields= s,only-delimited,serial z,zero-terminated complement \
        n output-delimiter="),
    reader("nl", OperandKind::Files, "\
        b,body-numbering= d,section-delimiter= f,footer-numbering= h,header-numbering= i,line-increment= l,join-blank-lines= \
        n,number-format= p,no-renumber s,number-separator= v,starting-line-number= w,number-width="),
    reader("rev", OperandKind::Files, "h,help V,version"),
    reader("fold", OperandKind::Files, "NUMBER b,bytes c,characters s,spaces w,width="),
    reader("fmt", OperandKind::Files, "NUMBER c,crown-margin p,prefix= s,split-only t,tagged-paragraph u,uniform-spacing w,width= g,goal="),
    reader("expand unexpand", OperandKind::Files, "NUMBER a,all first-only i,initial t,tabs="),
    reader("tr", OperandKind::Words, "c,C,complement d,delete s,squeeze-repeats t,truncate-set1"),
    reader("comm join", OperandKind::Files, "\
        NUMBER a= e= i,ignore-case j= o= t= v= 1 2 3 12 13 23 123 check-order nocheck-order header z,zero-terminated \
        total output-delimiter="),
    reader("column", OperandKind::Files, "\
        t,table s,separator= o,output-separator= N,table-columns= R,table-right= c,columns= x,fillrows n J,json \
        l,table-columns-limit="),
    reader("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum", OperandKind::Files, "\
        b,binary t,text c,check tag z,zero quiet status strict w,warn ignore-missing r s a,algorithm= l,length= \
        untagged"),
    reader("base64 base32", OperandKind::Files, "d,decode i,ignore-garbage w,wrap="),
    reader("od", OperandKind::Files, "\
        A,address-radix= endian= j,skip-bytes= N,read-bytes= S= strings? t,format= v,output-duplicates w,width? a b c d f h i l o s x e \
        B D F H I L O X"),
    reader("hexdump hd", OperandKind::Files, "\
        b,one-byte-octal c,one-byte-char C,canonical d,two-bytes-decimal o,two-bytes-octal x,two-bytes-hex X,one-byte-hex L,color? \
        e,format= f,format-file=< n,length= s,skip= v,no-squeezing h,help V,version"),
    reader("strings", OperandKind::Files, "\
        @FILE NUMBER a,all d,data f,print-file-name n,bytes= t,radix= w,include-all-whitespace o T,target= e,encoding= unicode= U= \
        s,output-separator= h,help v,V,version"),
    reader("uniq", OperandKind::InAndOut, "\
        c,count d,repeated D all-repeated? f,skip-fields= group? i,ignore-case s,skip-chars= u,unique \
        z,zero-terminated w,check-chars="),
    reader("sort", OperandKind::Files, "\
        b,ignore-leading-blanks d,dictionary-order f,ignore-case g,general-numeric-sort h,human-numeric-sort \
        i,ignore-nonprinting M,month-sort n,numeric-sort r,reverse R,random-sort V,version-sort sort= c C check? \
        m,merge k,key= s,stable S,buffer-size= t,field-separator= u,unique z,zero-terminated parallel= batch-size= \
        debug files0-from=^ random-source=< o,output=> T,temporary-directory=! compress-program=!"),
    reader("grep egrep fgrep", OperandKind::Pattern, "\
        NUMBER E,extended-regexp F,fixed-strings G,basic-regexp P,perl-regexp e,regexp= f,file=< i,ignore-case y \
        no-ignore-case v,invert-match w,word-regexp x,line-regexp z,null-data s,no-messages m,max-count= b,byte-offset \
        n,line-number line-buffered H,with-filename h,no-filename label= o,only-matching q,quiet,silent binary-files= \
        a,text I d,directories= D,devices= r,recursive R,dereference-recursive include= exclude= exclude-from=< \
        exclude-dir= L,files-without-match l,files-with-matches c,count T,initial-tab Z,null B,before-context= \
        A,after-context= C,context= color,colour? U,binary"),
    reader("jq", OperandKind::Program, "\
        n,null-input r,raw-output j,join-output a,ascii-output s,slurp c,compact-output C,color-output \
        M,monochrome-output S,sort-keys e,exit-status R,raw-input tab arg== argjson== args jsonargs indent= stream \
        unbuffered raw-output0 seq f,from-file^ slurpfile==^ rawfile==^ L=^ h,help V,version"),
    reader("ls dir vdir", OperandKind::Listed, "\
        1 a,all A,almost-all author b,escape block-size= B,ignore-backups c C color? d,directory D f F classify? \
        file-type format= full-time g group-directories-first G,no-group h,human-readable si H \
        dereference-command-line hide= hyperlink? i,inode I,ignore= k l L,dereference m n,numeric-uid-gid N,literal o \
        p indicator-style= q,hide-control-chars Q,quote-name quoting-style= r,reverse R,recursive s,size S sort= t \
        time= time-style= T= u U v w= x X Z,context zero"),
    reader("tree", OperandKind::Trees, "\
        APART a d f l x L= R^ P= I= ignore-case matchdirs metafirst prune noreport charset= filelimit= gitignore si du timefmt= p u g s \
        h H= T= D F q N Q i A S n C v t c U r sort= dirsfirst filesfirst J X nolinks inodes device fromfile^ info^ help version o=>"),
    reader("du", OperandKind::Trees, "\
        0,null a,all apparent-size B,block-size= b,bytes c,total D,dereference-args d,max-depth= h,human-readable \
        inodes k L,dereference l,count-links m P,no-dereference S,separate-dirs si s,summarize t,threshold= time? \
        time-style= X,exclude-from=< exclude= x,one-file-system files0-from=^"),
    reader("df", OperandKind::Words, "\
        a,all B,block-size= h,human-readable H,si i,inodes k l,local P,portability output? total t,type= T,print-type \
        x,exclude-type="),
    reader("stat", OperandKind::Files, "L,dereference f,file-system c,format= printf= t,terse cached="),
    reader("file", OperandKind::Files, "\
        b,brief i,mime mime-type mime-encoding L,dereference h,no-dereference k,keep-going N,no-pad r,raw \
        s,special-files 0,print0 F,separator= E C,compile! m,magic-file=! f,files-from=< z,uncompress! Z!"),
    reader("realpath readlink", OperandKind::Files, "\
        e,canonicalize-existing m,canonicalize-missing f,canonicalize L,logical P,physical q,quiet,silent relative-to= \
        relative-base= s,strip,no-symlinks z,zero n,no-newline v,verbose"),
    reader("basename dirname", OperandKind::Words, "a,multiple s,suffix= z,zero"),
    reader("diff", OperandKind::Trees, "\
        NUMBER normal q,brief s,report-identical-files c C= context? u U= unified? e,ed n,rcs y,side-by-side W,width= left-column \
        suppress-common-lines p,show-c-function F,show-function-line= label= t,expand-tabs T,initial-tab tabsize= suppress-blank-empty \
        r,recursive no-dereference N,new-file unidirectional-new-file ignore-file-name-case no-ignore-file-name-case x,exclude= \
        X,exclude-from=< S,starting-file= from-file=< to-file=< i,ignore-case E,ignore-tab-expansion Z,ignore-trailing-space \
        b,ignore-space-change w,ignore-all-space B,ignore-blank-lines I,ignore-matching-lines= a,text strip-trailing-cr d,minimal \
        horizon-lines= speed-large-files color? palette= l,paginate v,version"),
    reader("cmp", OperandKind::Files, "b,print-bytes i,ignore-initial= l,verbose n,bytes= s,quiet,silent v,version"),
    reader("pwd", OperandKind::None, "L P"),
    reader("whoami tty arch nproc logname users uptime", OperandKind::None, "p s a,all ignore="),
    reader("id groups", OperandKind::Words, "a g,group G,groups n,name r,real u,user z,zero Z"),
    reader("uname", OperandKind::None, "\
        a,all s,kernel-name n,nodename r,kernel-release v,kernel-version m,machine p,processor i,hardware-platform \
        o,operating-system"),
    reader("hostname", OperandKind::None, "f,fqdn s,short i,ip-address I d,domain"),
    reader("ps", OperandKind::Words, "\
        A a d deselect N T e r C= G,Group= U,User= g= group,p= pid= ppid= q,quick-pid= s,sid= t,tty= u= user= c context D= f F format= j l L M O= o= \
        cols,columns,width= cumulative forest H headers lines,rows= m no-headers,no-heading n= sort,k= w y V,version Z P S info help? date-format= signames"),
    reader("free", OperandKind::None, "b k m g h,human t,total w,wide si l"),
    reader("lscpu lsblk", OperandKind::None, "a,all b,bytes e,extended? J,json p parse? o,output= f,fs l,list n,noheadings"),
    reader("which whereis", OperandKind::Words, "a,all b m s"),
    reader("type", OperandKind::Words, "a t p P f"),
    reader("printenv", OperandKind::Words, "0,null"),
    reader("echo", OperandKind::Anything, ""),
    reader("true false :", OperandKind::Anything, ""),
    reader("expr", OperandKind::Anything, ""),
    reader("sleep exit return break continue", OperandKind::Words, "NUMBER help version"),
    reader("seq", OperandKind::Words, "NUMBER f,format= s,separator= w,equal-width help version"),
    reader("locale getconf", OperandKind::Words, "a,all-locales m,charmaps k,keyword-name c,category-name"),
    reader("cal", OperandKind::Words, "NUMBER 1 3 m y s j"),
    reader("pgrep", OperandKind::Words, "l,list-name a,list-full f,full x,exact n,newest o,oldest c,count u,euid= P,parent= d,delimiter="),
    reader("shuf", OperandKind::Files, "e,echo i,input-range= n,head-count= o,output=> random-source=< r,repeat z,zero-terminated"),
    reader("xxd", OperandKind::InAndOut, "\
        WORDS a,autoskip b,bits C,capitalize c,cols= d e E,EBCDIC g,groupsize= i,include l,len= n,name= o= \
        p,ps,plain,postscript r,revert s,seek= u v,version"),
    reader("zcat bzcat xzcat zstdcat", OperandKind::Files, "f,force q,quiet v,verbose k,keep c,stdout,to-stdout d,decompress o=> rm!"),
    reader("nm", OperandKind::Files, "\
        @FILE a,debug-syms A,o,print-file-name B C demangle? no-demangle recurse-limit no-recurse-limit D,dynamic e f,format= g,extern-only \
        ifunc-chars= j,just-symbols l,line-numbers n,v,numeric-sort p,no-sort P,portability r,reverse-sort S,print-size s,print-armap \
        plugin=! quiet size-sort special-syms synthetic t,radix= target= u,undefined-only U,defined-only unicode= W,no-weak X= \
        with-symbol-versions h,help V,version"),
    reader("size", OperandKind::Files, "@FILE A B G format= o d x radix= t,totals f common target= h,H,help v,V,version"),
    reader("readelf", OperandKind::Files, "\
        @FILE a,all h,file-header l,program-headers,segments S,section-headers,sections g,section-groups t,section-details e,headers \
        s,syms,symbols dyn-syms lto-syms sym-base= C demangle? no-demangle recurse-limit no-recurse-limit U,unicode= n,notes r,relocs \
        u,unwind d,dynamic V,version-info A,arch-specific I,histogram W,wide c,archive-index D,use-dynamic L,lint,enable-checks \
        x,hex-dump= p,string-dump= R,relocated-dump= z,decompress T,silent-truncation H,help v,version"),
    reader("objdump", OperandKind::Files, "\
        @FILE a,archive-headers f,file-headers p,private-headers P,private= h,headers,section-headers x,all-headers d D,disassemble-all \
        disassemble? S,source source-comment? s,full-contents g,debugging e,debugging-tags G,stabs t,syms T,dynamic-syms r,reloc \
        R,dynamic-reloc i,info b,target= m,architecture= j,section= M,disassembler-options= file-start-context I,include=^ l,line-numbers \
        F,file-offsets C demangle? recurse-limit no-recurse-limit w,wide z,disassemble-zeroes start-address= stop-address= no-addresses \
        prefix-addresses show-raw-insn no-show-raw-insn insn-width= no-show-raw-insn visualize-jumps? H,help v,version"),
    reader("addr2line", OperandKind::Words, "\
        @FILE a,addresses b,target= e,exe=< i,inlines j,section= p,pretty-print s,basenames f,functions C demangle? R,recurse-limit \
        r,no-recurse-limit h,help v,version"),
    reader("c++filt", OperandKind::Words, "\
        @FILE _,strip-underscore n,no-strip-underscore p,no-params i,no-verbose t,types r,no-recurse-limit R,recurse-limit s,format= h,help \
        v,version"),
    reader("tokei scc", OperandKind::Trees, "\
        NUMBER f,files by-file s,sort= e,exclude= t,type= o,output=! json csv md quiet exclude-dir= include-lang= exclude-lang= c,compact \
        C,columns= h,help V,version"),
    reader("cloc", OperandKind::Trees, "\
        WORDS by-file by-file-by-lang by-percent= json csv md quiet hide-rate sum-one vcs=! exclude-dir= exclude-ext= include-ext= \
        include-lang= exclude-lang= h,help version"),
    reader("lsb_release lsmod pidof tput", OperandKind::Words, "a,all d,description i,id r,release c,codename s,short T= h b q u"),
    reader("jobs times", OperandKind::Words, "l n p r s"),
    reader("tsort", OperandKind::Files, "help version"),
    reader("numfmt factor", OperandKind::Words, "\
        from= to= d,delimiter= field= format= grouping header? invalid= padding= round= suffix= from-unit= to-unit= \
        h,exponents z,zero-terminated"),
    reader("yes", OperandKind::Words, "help version"),
    // Programs that change the files in their operands.
    changer("rm", FileUse::Remove, "f,force i I interactive? one-file-system no-preserve-root preserve-root? r,R,recursive d,dir v,verbose"),
    changer("rmdir", FileUse::Remove, "ignore-fail-on-non-empty p,parents v,verbose"),
    changer("unlink", FileUse::Remove, ""),
    changer("shred", FileUse::Remove, "f,force n,iterations= random-source=< s,size= u remove? v,verbose x,exact z,zero"),
    changer("mkdir", FileUse::Create, "m,mode= p,parents v,verbose Z context?"),
    changer("touch", FileUse::Create, "a c,no-create d,date= f h,no-dereference m r,reference=< t= time="),
    changer("tee", FileUse::Create, "a,append i,ignore-interrupts p output-error?"),
    changer("truncate", FileUse::Create, "c,no-create o,io-blocks r,reference=< s,size="),
    changer("mkfifo", FileUse::Create, "m,mode= Z context?"),
    changer("chmod", FileUse::SetAttributes, "\
        c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P r w x X s t u g o a"),
    changer("chown", FileUse::SetAttributes, "\
        c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference from= H L P"),
    changer("chgrp", FileUse::SetAttributes, "\
        c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P"),
    changer("cp", FileUse::Copy, "\
        a,archive attributes-only backup? b copy-contents d f,force i,interactive H l,link L,dereference n,no-clobber P,no-dereference p \
        preserve? no-preserve= parents R,r,recursive reflink? remove-destination sparse= strip-trailing-slashes s,symbolic-link S,suffix= \
        t,target-directory= T,no-target-directory u update? v,verbose x,one-file-system Z context? debug keep-directory-symlink"),
    changer("mv", FileUse::Copy, "\
        backup? b f,force i,interactive n,no-clobber no-copy exchange strip-trailing-slashes S,suffix= t,target-directory= \
        T,no-target-directory u update? v,verbose Z,context debug"),
    changer("ln", FileUse::Link, "\
        backup? b d,F,directory f,force i,interactive L,logical n,no-dereference P,physical r,relative s,symbolic S,suffix= \
        t,target-directory= T,no-target-directory v,verbose"),
    changer("install", FileUse::Copy, "\
        backup? b c C,compare d,directory D g,group= m,mode= o,owner= p,preserve-timestamps s,strip strip-program=! S,suffix= \
        t,target-directory= T,no-target-directory v,verbose Z context? preserve-context debug"),
    // Wrappers: they run the command in their words.
    wrapper("nohup", ""),
    wrapper("builtin", ""),
    wrapper("exec", "c l a="),
    wrapper("command", "p"),
    wrapper("setsid", "c,ctty f,fork w,wait"),
    wrapper("nice", "NUMBER n,adjustment="),
    wrapper("stdbuf", "i,input= o,output= e,error="),
    wrapper("ionice", "c,class= n,classdata= t,ignore p,pid= P,pgid= u,uid="),
    wrapper_as("chrt", 1, InnerForm::Words, WrapperPolicy::Transparent, "\
        a,all-tasks b,batch d,deadline f,fifo i,idle m,max o,other r,rr R,reset-on-fork T,sched-runtime= \
        P,sched-period= D,sched-deadline= p,pid v,verbose"),
    wrapper_as("taskset", 1, InnerForm::Words, WrapperPolicy::Transparent, "a,all-tasks c,cpu-list p,pid"),
    wrapper_as("timeout", 1, InnerForm::Words, WrapperPolicy::Transparent, "f,foreground k,kill-after= p,preserve-status s,signal= v,verbose"),
    wrapper("time", "p,portability v,verbose f,format= o,output=> a,append q,quiet"),
    wrapper("xargs", "\
        0,null a,arg-file=< d,delimiter= E= e,eof? I= i,replace? L= l,max-lines? n,max-args= o,open-tty P,max-procs= \
        p,interactive process-slot-var= r,no-run-if-empty s,max-chars= show-limits t,verbose x,exit"),
    wrapper("prlimit", "\
        c,core? d,data? e,nice? f,fsize? i,sigpending? l,memlock? m,rss? n,nofile? q,msgqueue? r,rtprio? s,stack? \
        t,cpu? u,nproc? v,as? x,locks? y,rttime? noheadings o,output= p,pid= raw verbose"),
    wrapper("choom", "n,adjust= p,pid="),
    wrapper("caffeinate", "d i m s u t= w="),
    wrapper("unbuffer eatmydata catchsegv chronic cross-env dumb-init", "p"),
    wrapper("numactl", "a,all i,interleave= p,preferred= m,membind= N,cpunodebind= C,physcpubind= l,localalloc b,balancing"),
    wrapper_as("setarch", 1, InnerForm::Words, WrapperPolicy::Transparent, "\
        B,32bit F,fdpic-funcptrs I,short-inode L,addr-compat-layout R,addr-no-randomize S,whole-seconds \
        T,sticky-timeouts X,read-implies-exec Z,mmap-page-zero 3,3gb 4gb uname-2.6 v,verbose"),
    wrapper("linux32 linux64 i386 x86_64", "B,32bit R,addr-no-randomize v,verbose"),
    wrapper_as("ld.so", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "\
        list verify inhibit-cache library-path= glibc-hwcaps-prepend= glibc-hwcaps-mask= inhibit-rpath= audit=! \
        preload=! argv0= list-tunables list-diagnostics"),
    wrapper_as("busybox toybox", 0, InnerForm::Words, WrapperPolicy::OwnCommand, ""),
    wrapper_as("sudo", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        A,askpass! b,background B,bell C,close-from= D,chdir= E preserve-env? e,edit! g,group= H,set-home h,host= \
        i,login! k,reset-timestamp K,remove-timestamp l,list n,non-interactive P,preserve-groups p,prompt= R,chroot= \
        r,role= S,stdin s,shell! t,type= T,command-timeout= U,other-user= u,user= v,validate"),
    wrapper_as("doas", 0, InnerForm::Words, WrapperPolicy::OtherRights, "C=! L n s! u= a="),
    wrapper_as("pkexec", 0, InnerForm::Words, WrapperPolicy::OtherRights, "disable-internal-agent keep-cwd user="),
    wrapper_as("gosu su-exec chpst", 1, InnerForm::Words, WrapperPolicy::OtherRights, ""),
    wrapper_as("setpriv", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        c,clear-groups d,dump groups= inh-caps= ambient-caps= init-groups keep-groups list-caps no-new-privs rgid= \
        ruid= egid= euid= regid= reuid= bounding-set= securebits= pdeathsig= selinux-label= apparmor-profile= \
        reset-env"),
    wrapper_as("unshare", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        i m n p u U C T ipc? mount? net? pid? uts? user? cgroup? time? f,fork kill-child? mount-proc? map-user= \
        map-group= map-users= map-groups= r,map-root-user c,map-current-user map-auto propagation= setgroups= R,root= \
        w,wd= S,setuid= G,setgid= monotonic= boottime= keep-caps l,load-interp="),
    wrapper_as("nsenter", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        a,all t,target= m,mount? u,uts? i,ipc? n,net? p,pid? U,user? C,cgroup? T,time? S,setuid= G,setgid= \
        preserve-credentials r,root? w,wd? W,wdns? e,env F,no-fork Z,follow-context c,join-cgroup keep-caps"),
    wrapper_as("chroot", 1, InnerForm::Words, WrapperPolicy::OtherRights, "groups= userspec= skip-chdir"),
    wrapper_as("bwrap", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        args=! argv0= unshare-all share-net unshare-user unshare-user-try unshare-ipc unshare-pid unshare-net \
        unshare-uts unshare-cgroup unshare-cgroup-try userns= userns2= pidns= uid= gid= hostname= chdir= clearenv \
        setenv== unsetenv= lock-file= sync-fd= bind== bind-try== dev-bind== dev-bind-try== ro-bind== ro-bind-try== \
        remount-ro= exec-label= file-label= proc= dev= tmpfs= mqueue= dir= file== bind-data== ro-bind-data== symlink== \
        seccomp= block-fd= userns-block-fd= info-fd= json-status-fd= new-session die-with-parent as-pid-1 cap-add= \
        cap-drop= perms= size= chmod== level-prefix"),
    wrapper_as("firejail proot systemd-inhibit", 0, InnerForm::Words, WrapperPolicy::OtherRights, "q,quiet"),
    wrapper_as("systemd-run", 0, InnerForm::Words, WrapperPolicy::OtherRights, "\
        no-ask-password scope u,unit= p,property= description= slice= slice-inherit expand-environment= \
        r,remain-after-exit send-sighup service-type= uid= gid= nice= working-directory= d,same-dir E,setenv= t,pty \
        P,pipe q,quiet G,collect S,shell! on-active= on-boot= on-startup= on-unit-active= on-unit-inactive= \
        on-calendar= user system H,host= M,machine= no-block wait"),
    wrapper_as("strace ltrace", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "\
        NUMBER a,columns= A,output-append-mode b,detach-on= c,summary-only C,summary d,debug D daemonize? \
        e,trace,expr= E,env= f,follow-forks ff F i,instruction-pointer I,interruptible= k stack-traces? \
        n,syscall-number O,summary-syscall-overhead= o,output=> p,attach= P,trace-path= q quiet? \
        r relative-timestamps? s,string-limit= S,summary-sort-by= t T syscall-times? u,user= U,summary-columns= \
        v,no-abbrev w,summary-wall-clock x X,const-print-style= y decode-fds? Y decode-pids? z,successful-only \
        Z,failed-only l= L N"),
    wrapper_as("valgrind", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "\
        tool= q,quiet v,verbose log-file=> leak-check? show-leak-kinds= track-origins= error-exitcode= num-callers= \
        suppressions=< gen-suppressions= trace-children="),
    wrapper_as("flock", 1, InnerForm::Words, WrapperPolicy::OwnCommand, "\
        s,shared e,x,exclusive u,unlock n,nb,nonblock w,wait,timeout= o,close E,conflict-exit-code= F,no-fork verbose \
        fcntl"),
    wrapper_as("faketime", 1, InnerForm::Words, WrapperPolicy::OwnCommand, "f m p="),
    wrapper_as("fakeroot dbus-run-session xvfb-run rlwrap cpulimit", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "a,auto-servernum n,server-num= s,server-args= l= u,unknown-is-real"),
    wrapper_as("direnv", 2, InnerForm::Words, WrapperPolicy::OwnCommand, ""),
    wrapper_as("sshpass", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "p= f=< d= e"),
    wrapper_as("watch", 0, InnerForm::Joined, WrapperPolicy::OwnCommand, "\
        b,beep c,color C,no-color d,differences? e,errexit g,chgexit n,interval= p,precise q,equexit= r,no-rerun \
        t,no-title w,no-wrap x,exec"),
    wrapper_as("entr", 0, InnerForm::Words, WrapperPolicy::OwnCommand, "a c d n p r s x z"),
    wrapper_as("parallel", 0, InnerForm::Template, WrapperPolicy::OwnCommand, "\
        NUMBER j,jobs= k,keep-order n,max-args= N= L= m,xargs X,context-replace I= a,arg-file=< C,colsep= d,delimiter= \
        0,null eta progress bar dry-run,dryrun halt= joblog= results= retries= timeout= tag q,quote r,no-run-if-empty \
        t,verbose,v u,ungroup line-buffer,lb will-cite group plain"),
    wrapper_as("ssh", 1, InnerForm::Joined, WrapperPolicy::OtherRights, "\
        4 6 A a C f G g K k M N n q s T t V v X x Y y B=! b= c= D=! E=! e= F=! I=! i= J=! L=! l= m= O=! o=! p= Q= R=! \
        S=! W=! w=!"),
    wrapper_as("hyperfine", 0, InnerForm::Scripts, WrapperPolicy::OwnCommand, "\
        w,warmup= r,runs= m,min-runs= M,max-runs= p,prepare=$ s,setup=$ c,cleanup=$ conclude=$ S,shell=! N \
        i,ignore-failure style= export-json=> export-csv=> export-markdown=> n,command-name= L,parameter-list== \
        P,parameter-scan==! show-output time-unit= u="),
    // Tools that work on files, or do the work that the files of a project describe.
    tool("ninja samu meson", "C= j= k= v,verbose quiet", "-f* -C* -t* -d*"),
    tool("cmake ctest cpack", "S= B= G= D= U= j= A= T= C= build= install= preset= parallel=", "WORDS -P*! -E*! -C* --build-run* -D*RULE_LAUNCH*! -DCMAKE*COMPILER*! -DCMAKE_*LAUNCHER*! -S*! --script*!"),
    tool("bazel bazelisk buck2", "", "--bazelrc*! --run_under*! --config* --startup*!"),
    tool("just task mage rake invoke", "f,justfile= d,working-directory= set== shell= q,quiet l,list n,dry-run", "-f*! --justfile*! -d* --working-directory* --set* --shell*! -c*! --command*!"),
    tool("rustc rustdoc rustup", "", "WORDS run! -C* -o* --out-dir* --emit* -Z*! --codegen* -Clinker*! --test-runtool*!"),
    tool("go", "C=", "WORDS -C* -exec*! -toolexec*! -vettool*! -o* -overlay*! -modfile* -ldflags* -gcflags* -asmflags* -mod* --exec*! \
        --toolexec*! --vettool*!"),
    runner("npm", "exec x", "\
        prefix= C= g,global s,silent w,workspace= ws,workspaces registry= loglevel= userconfig= globalconfig= cache= \
        y,yes tag= access= omit= include= ignore-scripts force,f", "\
        --prefix* -C* --cwd* --script-shell*! --shell*! --userconfig*! --globalconfig*! --node-options*! -c*! --call*! \
        --package* --ignore-scripts=false --dir* --registry* --git*! --editor*! --viewer*! --init-module*! explore!"),
    runner("pnpm yarn", "exec dlx", "prefix= C,dir= cwd= s,silent F,filter= r,recursive w,workspace-root registry= loglevel= reporter=", "\
        --prefix* -C* --cwd* --script-shell*! --shell*! --userconfig*! --globalconfig*! --node-options*! -c*! --call*! \
        --package* --ignore-scripts=false --dir* --registry* --shell-mode*! node!"),
    runner("npx bunx pnpx uvx", "*", "y,yes no no-install q,quiet ignore-existing p,package= c,call= from= with=", "\
        --prefix* -C* --cwd* --script-shell*! --shell*! --node-options*! -c*! --call*! --package* -p* --registry* \
        --from* --with*"),
    runner("pip pip3 pipx pipenv", "run", "python= isolated v,verbose q,quiet log= proxy= timeout= cache-dir= no-cache-dir", "\
        --target* -t* --prefix* --root* -i* --index-url* --extra-index-url* -e* --editable* -r* --python* --config* \
        -C* --directory* --log* --report* shell!"),
    runner("uv poetry pdm hatch rye conda mamba micromamba", "run exec", "C,directory= project= config-file= q,quiet v,verbose offline n,no-cache n= p,python= e,env=", "\
        --target* -t* --prefix* --root* -i* --index-url* --extra-index-url* -e* --editable* -r* --python* --config* \
        -C* --directory* shell!"),
    runner("bundle bundler", "exec", "", "--gemfile* --path*"),
    tool("mise asdf", "C= q v", "exec! x! run! shell!"),
    tool("pytest py.test tox nox", "c= C= rootdir= p= o= n= k= m= q,quiet v,verbose x", "\
        -p*! -c*! --rootdir* -o*! --override-ini*! --confcutdir* --basetemp* -e* --pdbcls*! --junit-xml* --junitxml* \
        --pastebin* --log-file*"),
    tool("mvn gradle gradlew sbt ant lein", "f,file= s,settings= D= P= p,project-dir= b,build-file= I,init-script= q,quiet", "-D* -f* --file* -s* --settings* -I*! --init-script*! -b* -c* -p* --project-dir* -P* -S*!"),
    tool("gcc cc g++ c++ clang clang++ cpp gfortran ld as ar ranlib strip objcopy", "", "WORDS -o* -wrapper*! -B*! -fplugin*! -specs*! -Xclang*! -load*! @*! -T* -Wp,* -Wl,* -iplugindir*! -plugin*! --config*! \
        --plugin*! -M*!"),
    runner("javac kotlinc scalac dotnet msbuild swift xcodebuild zig nim crystal ghc stack cabal dune opam mix rebar3 flutter dart gem rails rspec rubocop composer phpunit", "exec", "", "WORDS runner! console! eval! -agentlib*! -javaagent*! -agentpath*! -XX:OnError*! -XX:OnOutOfMemoryError*! --exec*! -e*! -o* --eval*! \
        -Xplugin*! -pgm*! -F*!"),
    tool("tsc eslint prettier jest vitest mocha ava webpack vite rollup esbuild parcel next nuxt ng turbo nx lerna stylelint biome svelte-check vue-tsc playwright cypress tailwindcss sass babel swc", "c,config= p,project=", "\
        -o* --out* --config*! -c*! --resolve-plugins* --rulesdir*! --plugin*! --require*! -r*! --loader*! --import*! \
        --node-options*! --exec*! --watch* --globalSetup*! --testRunner*!"),
    runner("mypy ruff black isort flake8 pylint pyright bandit coverage sphinx-build mkdocs pre-commit yapf autopep8 pyflakes pycodestyle vulture pydocstyle djlint alembic", "run", "", "--config*! --python-executable*! --init-hook*! --load-plugins*! --rcfile*! -c*! --plugin*! --stdin*"),
    tool("rustfmt gofmt golangci-lint staticcheck clang-format clang-tidy cppcheck shellcheck shfmt hadolint yamllint markdownlint actionlint taplo typos codespell protoc buf swagger openapi-generator hugo", "", "-o* --out* --output* -load*! --load*! --plugin*! -p* --config*! --rule*!"),
    tool("gzip gunzip xz unxz bzip2 bunzip2 zstd unzstd lz4 zip unzip 7z", "", "-T* -TT*! --unzip-command*! -o* -d* -O* -P*"),
    tool("scp rsync", "", "\
        -o*! -F*! -e*! --rsh*! --rsync-path*! -J*! -S*! -D*! -b*! -L* -R* -W* -E* -I* -i* --files-from* --temp-dir* \
        --log-file* --write-batch*"),
    tool("nc ncat netcat", "", "-e*! --exec*! -c*! --sh-exec*! -l*"),
    tool("patch", "", "-e*! --ed*! -o* -d* -i* --output* --directory* --input* --reject-file* -r*"),
    tool("split", "", "--filter*!"),
    tool("yq xq", "", "-i* --inplace* --in-place* -s* --split-exp*"),
    tool("less more most man", "", "-*! +*!"),
    tool("kill pkill killall mktemp csplit dos2unix unix2dos iconv sync bc logger renice ping dig nslookup host whois clear reset stty sponge pv ts hexyl diffstat dpkg-query lsof ss netstat vmstat iostat dmesg", "", "-o* --output* --exec*!"),
    // Programs that run code.
    code_runner("\
        python python2 python3 pypy pypy3 ruby perl php lua luajit node nodejs deno bun Rscript julia tclsh guile irb \
        ipython ts-node ts-node-dev tsx osascript groovy scala jshell erl elixir iex ghci runghc swipl racket sbcl clojure"),
    code_runner("sh bash dash zsh ksh mksh ash fish csh tcsh rbash"),
    code_runner("vim vi nvim view ex emacs nano ed expect gdb lldb rr perf bpftrace dtrace"),
    code_runner("sqlite3 psql mysql mariadb mongosh redis-cli").suspecting("*"),
    code_runner("\
        su runuser sg newgrp script at batch crontab start-stop-daemon run-parts logrotate capsh dtach tmux screen \
        nix-shell nix flatpak-spawn machinectl lxc incus vagrant qemu-x86_64 wine").suspecting("*"),
    code_runner("socat telnet sftp java"),
    code_runner("docker podman nerdctl").suspecting("-v* --volume* --mount* --privileged* -f* --file* -H* --host* --config* --entrypoint* --device* --pid* --net* --network* -c*"),
    code_runner("gh glab hub"),
    code_runner("kubectl oc").suspecting("-f* --file* --config* -c* --kubeconfig* --exec*! --token*"),
    code_runner("helm terraform tofu ansible ansible-playbook packer pulumi").suspecting("-f* --config* -c* --kubeconfig* -var* --post-renderer*! -chdir*"),
    // Commands that change the shell.
    Program::new("\
        export alias unalias shopt eval source . trap enable hash declare typeset local readonly unset let read mapfile \
        readarray getopts complete compgen compopt bind fc history pushd popd shift logout suspend caller disown umask \
        ulimit wait", ProgramKind::ChangesShell, ""),
];
