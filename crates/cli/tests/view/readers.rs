//! Programs that read a file, each in its own way, and print it in some form.
//!
//! In a command, `FILE` stands for the file and `OPTION` for one of the options; `$T` is a scratch directory. What packs or compresses
//! is piped through what unpacks, so that the text can be found. A program that is not on the machine is left out.

/// A way to read a file.
#[derive(Debug)]
pub(super) struct Reader {
    /// Programs that it takes, with a space between them; the first gives it its name.
    pub(super) programs: &'static str,
    pub(super) command: &'static str,
    pub(super) options: &'static [&'static str],
}

pub(super) const fn reader(
    programs: &'static str,
    command: &'static str,
    options: &'static [&'static str],
) -> Reader {
    Reader { programs, command, options }
}

pub(super) const READERS: &[Reader] = &[
    // Coreutils and other small programs, by name or by standard input.
    reader("cat", "cat OPTION FILE", &["", "-A", "-n", "-b", "-E", "-s", "-v"]),
    reader("cat", "cat OPTION <FILE", &["", "-n", "-"]),
    reader("tac", "tac OPTION FILE", &["", "-b", "-s z", "-r"]),
    reader("head", "head OPTION FILE", &["", "-n1", "-c 30", "-v", "-n -1"]),
    reader("tail", "tail OPTION FILE", &["", "-n1", "-c 30", "-n +1", "-v"]),
    reader("nl", "nl OPTION FILE", &["", "-ba", "-w1", "-s:"]),
    reader(
        "od",
        "od OPTION FILE",
        &["-c", "-An", "-An -b", "-An -tx1", "-An -tu1", "-An -a", "-A d -x"],
    ),
    reader("xxd", "xxd OPTION FILE", &["", "-p", "-u -p", "-c 20", "-i"]),
    reader("hexdump", "hexdump OPTION FILE", &["", "-C", "-c", "-v -C"]),
    reader("strings", "strings OPTION FILE", &["", "-n 6", "-a -t x"]),
    reader("fold", "fold OPTION FILE", &["-w 7", "-b -w 13", "-s"]),
    reader("fmt", "fmt OPTION FILE", &["", "-w 20", "-s", "-u"]),
    reader("pr", "pr OPTION FILE", &["-t", "-n", "-d -t", "-T"]),
    reader("cut", "cut OPTION FILE", &["-c1-30", "-b2-", "-d: -f1-", "-c-25"]),
    reader("paste", "paste OPTION FILE", &["", "-s", "-d: -s", "/dev/null"]),
    reader("join", "join -a2 OPTION /dev/null FILE", &["", "-t,", "-i"]),
    reader("sort", "sort OPTION FILE", &["", "-r", "-u", "-m", "-R", "-f"]),
    reader("uniq", "uniq OPTION FILE", &["", "-c", "-d", "-D"]),
    reader("comm", "comm OPTION /dev/null FILE", &["", "-1", "-13"]),
    reader("expand", "expand OPTION FILE", &["", "-i", "-t 3"]),
    reader("unexpand", "unexpand OPTION FILE", &["", "-a", "-t 3"]),
    reader("tsort", "tsort FILE", &[""]),
    reader("shuf", "shuf OPTION FILE", &["", "-n 1", "-r -n 3"]),
    reader(
        "split",
        "split OPTION FILE \"$T/x\"; cat \"$T\"/x*",
        &["-b 9", "-l 1", "-n 2", "-C 20"],
    ),
    reader("csplit", "csplit -s OPTION -f \"$T/x\" FILE 2; cat \"$T\"/x*", &["", "-k", "-n 3"]),
    reader("base64", "base64 OPTION FILE", &["", "-w 0", "-w 11"]),
    reader("base32", "base32 OPTION FILE", &["", "-w 0", "-w 11"]),
    reader("basenc", "basenc OPTION FILE", &["--base64", "--base16", "--base32", "--base64url"]),
    reader("tr", "tr OPTION <FILE", &["a-z A-Z", "a-z n-za-m", "-s x", "-d 0-9"]),
    reader("rev", "rev FILE", &[""]),
    reader("tee", "tee OPTION <FILE", &["", "\"$T/x\"", "-a \"$T/x\""]),
    reader(
        "dd",
        "set -- FILE; dd if=\"$1\" OPTION",
        &["", "bs=1", "bs=5 count=9", "conv=ucase", "conv=swab | dd conv=swab", "status=none"],
    ),
    reader("date", "date -f FILE", &[""]),
    reader("factor", "factor <FILE", &[""]),
    reader("numfmt", "numfmt --invalid=OPTION <FILE", &["warn", "ignore", "fail"]),
    reader("wc", "set -- FILE; wc --files0-from=\"$1\"", &[""]),
    reader("du", "set -- FILE; du --files0-from=\"$1\"", &[""]),
    reader("stdbuf", "stdbuf OPTION cat FILE", &["-o0", "-oL"]),
    reader("column", "column OPTION FILE", &["", "-t", "-x"]),
    reader("colrm", "colrm 35 <FILE", &[""]),
    reader("look", "look OPTION '' FILE", &["", "-a"]),
    reader("iconv", "iconv -t OPTION FILE", &["utf-16le", "utf-32be", "latin1", "utf-7"]),
    // Copies, moves and links.
    reader(
        "cp",
        "cp OPTION FILE \"$T/x\"; cat \"$T/x\"",
        &["", "-L", "-a -L", "--reflink=auto", "--sparse=always"],
    ),
    reader(
        "mv",
        "set -- FILE; mv OPTION \"$1\" \"$T/x\" && cat \"$T/x\" && mv \"$T/x\" \"$1\"",
        &["", "-f", "-n"],
    ),
    reader(
        "ln",
        "mkdir -p made; ln OPTION FILE made/$$-$BASHPID && cat made/$$-$BASHPID; rm -f made/$$-$BASHPID",
        &["-L", "-L -f"],
    ),
    reader("install", "install OPTION FILE \"$T/x\"; cat \"$T/x\"", &["", "-m 600", "-C", "-p"]),
    reader("rsync", "rsync -L OPTION FILE \"$T/x\"; cat \"$T/x\"", &["", "-a", "-c", "-z"]),
    // Archives and compression.
    reader("tar", "tar -h -P -OPTION - FILE | tar -xO", &["cf", "cvf", "cSf"]),
    reader(
        "tar",
        "printf '%s\\n' FILE >\"$T/l\"; tar -h -P OPTION -cf - -T \"$T/l\" | strings -n 20",
        &["", "-H pax", "-H ustar"],
    ),
    reader("cpio", "printf '%s\\n' FILE | cpio -L -o OPTION | strings", &["", "-H newc", "-H tar"]),
    reader(
        "zip python3",
        "set -- FILE; zip OPTION - \"$1\" >\"$T/z\"; python3 -c 'import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); print([z.read(n) for n in z.namelist()])' \"$T/z\"",
        &["-q", "-q -0", "-q -9", "-q -j"],
    ),
    reader("gzip", "gzip OPTION FILE | gzip -dc", &["-c -f", "-c -f -9"]),
    reader("gzip", "gzip -dcf FILE", &[""]),
    reader("bzip2", "bzip2 -c OPTION <FILE | bzip2 -dc", &["", "-1"]),
    reader("xz", "xz -c OPTION <FILE | xz -dc", &["", "-0"]),
    reader("zstd", "zstd -q -c OPTION FILE | zstd -q -dc", &["-f", "-f -1"]),
    reader("ar", "cp FILE \"$T/y\" && ar rcs \"$T/x\" \"$T/y\" && ar p \"$T/x\"", &[""]),
    // Comparisons and searches.
    reader(
        "diff",
        "diff OPTION /dev/null FILE",
        &["", "-u", "-y -W 120", "-c", "--line-format=%L"],
    ),
    reader("cmp", "cmp -l FILE /dev/zero | awk '{printf \"%s\", $2}'", &[""]),
    reader("sdiff", "sdiff -w 130 OPTION FILE /dev/null", &["", "-b"]),
    reader("diff3", "diff3 OPTION FILE /dev/null /dev/null", &["", "-T"]),
    reader("patch", "printf x >\"$T/x\"; diff -u \"$T/x\" FILE | patch -s -o - \"$T/x\"", &[""]),
    reader(
        "grep",
        "grep OPTION FILE",
        &["''", "-n .", "-o '[a-z]*'", "-c ''; grep -a .", "-H x -e .", "-z .", "-v 0"],
    ),
    reader("egrep", "egrep OPTION FILE", &["'.*'", "-h '(a|b)'", "-o '.{20}'"]),
    reader("fgrep", "fgrep OPTION '' FILE", &["", "-n", "-h"]),
    reader(
        "find",
        "set -- FILE; find -L \"$1\" OPTION",
        &["-exec cat {} \\;", "-exec head {} +", "-type f -exec grep . {} \\;"],
    ),
    reader(
        "find",
        "set -- FILE; find -L \"$1\" -OPTION | xargs -0 cat",
        &["print0", "printf '%p\\0'"],
    ),
    reader("xargs", "xargs -a FILE OPTION echo", &["", "-n1", "-t"]),
    // Editors, pagers and languages of a line.
    reader(
        "awk",
        "awk OPTION FILE",
        &["1", "'{print length($0), $0}'", "'{print toupper($0)}'", "-F a '{print $0}'"],
    ),
    reader(
        "awk",
        "set -- FILE; awk -v f=\"$1\" 'BEGIN { while ((getline line < f) > 0) print line }'",
        &[""],
    ),
    reader(
        "sed",
        "sed OPTION FILE",
        &["''", "-n p", "-n l", "'s/./&\\n/g'", "-u 1q", "y/abc/abc/"],
    ),
    reader("sed", "set -- FILE; echo x | sed \"r $1\"", &[""]),
    reader("less", "less OPTION FILE | cat", &["", "-N", "-F", "-S"]),
    reader("more", "more OPTION FILE | cat", &["", "-d", "-s"]),
    reader("ed", "printf ',p\\nq\\n' | ed -s FILE", &[""]),
    reader("vim", "vim -u NONE -i NONE -n -es OPTION -c '%p' -c 'qa!' FILE", &["", "-R", "-b"]),
    reader("jq", "jq OPTION FILE", &["-R .", "-Rs .", "-R @base64"]),
    reader("jq", "set -- FILE; jq -n --OPTION x \"$1\" '$x'", &["rawfile"]),
    reader(
        "sqlite3",
        "set -- FILE; sqlite3 :memory: \"select OPTION(readfile('$1'))\"",
        &["hex", "quote", "upper", "''||"],
    ),
    reader(
        "sqlite3",
        "set -- FILE; sqlite3 :memory: 'create table t(x)' \".import '$1' t\" 'select * from t'",
        &[""],
    ),
    reader("openssl", "openssl enc -in FILE OPTION", &["-base64", "-base64 -A"]),
    reader(
        "openssl",
        "openssl enc -aes-128-cbc -k x -pbkdf2 -in FILE | openssl enc -d -aes-128-cbc -k x -pbkdf2",
        &[""],
    ),
    reader(
        "curl",
        "set -- FILE; curl -s OPTION \"file://$(cd \"$(dirname \"$1\")\" && pwd)/${1##*/}\"",
        &["", "-v", "-r 0-60"],
    ),
    reader("m4", "m4 OPTION FILE", &["", "-P"]),
    // The shell itself.
    reader("bash", "while read -r line; do echo \"$line\"; done <FILE", &[""]),
    reader("bash", "echo \"$(<FILE)\"", &[""]),
    reader(
        "bash",
        "mapfile OPTION lines <FILE; printf '%s\\n' \"${lines[@]}\"",
        &["", "-t", "-n 1"],
    ),
    reader("bash", "OPTION FILE", &["source", ".", "bash", "sh", "bash -x", "bash -v"]),
    reader("bash", "set -- FILE; BASH_ENV=$1 bash -c :", &[""]),
    reader("bash", "exec 9<FILE; cat <&9; cat /proc/self/fd/9", &[""]),
    reader("bash", "set -- FILE; bash -c 'history -r \"$0\"; history' \"$1\"", &[""]),
    // Languages.
    reader(
        "python3",
        "python3 -c 'import sys; print(OPTION)' FILE",
        &[
            "open(sys.argv[1]).read()",
            "open(sys.argv[1],\"rb\").read().hex()",
            "open(sys.argv[1]).read()[::-1]",
            "__import__(\"pathlib\").Path(sys.argv[1]).read_text()",
            "__import__(\"linecache\").getline(sys.argv[1], 1)",
            "list(__import__(\"fileinput\").input())",
            "__import__(\"base64\").b85encode(b\"\") or open(sys.argv[1]).readlines()",
        ],
    ),
    reader(
        "python3",
        "python3 -c 'import sys,mmap; f=open(sys.argv[1],\"rb\"); print(mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)[:])' FILE",
        &[""],
    ),
    reader(
        "python3",
        "python3 -c 'import sys,os; d,n=os.path.split(sys.argv[1]); r=os.open(d or \".\",os.O_RDONLY|os.O_DIRECTORY); print(os.read(os.open(n,os.O_RDONLY,dir_fd=r),99))' FILE",
        &[""],
    ),
    reader(
        "python3",
        "python3 -c 'import sys,os; i=os.open(sys.argv[1],0); sys.stdout.flush(); os.OPTION' FILE",
        &["sendfile(1,i,0,99)", "write(1,os.pread(i,99,0))"],
    ),
    reader("python3", "python3 FILE", &[""]),
    reader("python3", "python3 -m OPTION FILE", &["base64 -e", "tokenize", "quopri"]),
    reader(
        "perl",
        "perl OPTION FILE",
        &[
            "-pe 1",
            "-ne 'print unpack(q(H*),$_)'",
            "-0777 -ne 'print scalar reverse'",
            "-MMIME::Base64 -ne 'print encode_base64($_)'",
        ],
    ),
    reader("perl", "perl -e 'sysopen(F,shift,0); sysread(F,$x,99); print $x' FILE", &[""]),
    reader(
        "node",
        "node -e 'const fs=require(\"fs\"); const f=process.argv[1]; console.log(OPTION)' FILE",
        &[
            "fs.readFileSync(f,\"utf8\")",
            "fs.readFileSync(f).toString(\"base64\")",
            "fs.readFileSync(f).toString(\"hex\")",
        ],
    ),
    reader(
        "ruby",
        "ruby -e 'puts OPTION' FILE",
        &["File.read(ARGV[0])", "IO.readlines(ARGV[0]).join", "ARGF.read"],
    ),
    reader("php", "php -r 'readfile($argv[1]);' FILE", &[""]),
    reader("lua", "lua -e 'print(io.open(arg[1]):read(\"a\"))' FILE", &[""]),
    // Builders and what belongs to them.
    reader(
        "make",
        "set -- FILE; printf '$(info $(file <%s))\\nall:;@:\\n' \"$1\" | make OPTION -f -",
        &["", "-s", "-n"],
    ),
    reader("gcc", "gcc -E OPTION -x c FILE", &["", "-P", "-w"]),
    reader(
        "gcc",
        "set -- FILE; printf '.incbin \"%s\"\\n' \"$1\" | gcc -c -x assembler - -o \"$T/o\"; strings -n 20 \"$T/o\"",
        &[""],
    ),
    reader("gcc", "set -- FILE; gcc @\"$1\"", &[""]),
    reader("ld", "set -- FILE; ld @\"$1\"", &[""]),
    reader("nm", "set -- FILE; nm @\"$1\"", &[""]),
    reader("as", "as OPTION FILE -o \"$T/o\"", &["", "-al"]),
    reader(
        "objcopy",
        "objcopy -I binary -O OPTION FILE \"$T/o\"; cat \"$T/o\"",
        &["binary", "verilog"],
    ),
    reader("objdump", "objdump -s -b binary FILE", &[""]),
    reader("gdb", "gdb -nx -batch OPTION FILE", &["-x"]),
    // Git.
    reader(
        "git",
        "git diff --no-index OPTION /dev/null FILE",
        &["", "--stat -p", "-U0", "--word-diff"],
    ),
    reader(
        "git",
        "git init -q \"$T/r\"; set -- \"$(git --git-dir=\"$T/r/.git\" hash-object -w FILE)\"; git --git-dir=\"$T/r/.git\" OPTION \"$1\"",
        &["cat-file -p", "cat-file blob", "show"],
    ),
    reader(
        "git",
        "set -- FILE; cd \"$(dirname \"$1\")\" && git grep --no-index OPTION -e . -- \"${1##*/}\"",
        &["", "-h", "-n"],
    ),
    reader(
        "git",
        "git init -q \"$T/r\"; git --git-dir=\"$T/r/.git\" -c user.name=a -c user.email=b commit -q --allow-empty -F FILE; git --git-dir=\"$T/r/.git\" log",
        &[""],
    ),
    reader("git", "git stripspace OPTION <FILE", &["", "-s", "-c"]),
    reader("ssh", "ssh -F FILE nowhere.invalid", &[""]),
];
