//! Programs that read or list whole directories, and ways to the environment of another process.
//!
//! In a command, `TREE` stands for the directory and `OPTION` for one of the options; `$T` is a scratch directory.

use super::readers::{Reader, reader};

/// Programs that read whole trees. Their output is cut down to texts like a canary.
pub(super) const TREE_READERS: &[Reader] = &[
    reader("grep", "grep -rahs . TREE", &[""]),
    reader("find", "find TREE -type f -exec cat {} +", &[""]),
    reader("find", "find TREE -type f -print0 | xargs -0 strings", &[""]),
    reader("tar", "tar -cf - -P TREE", &[""]),
    reader(
        "cp",
        "cp -rL TREE \"$T/copy\"; cat \"$T\"/copy/* \"$T\"/copy/.[a-z]* \"$T\"/copy/*/* \"$T\"/copy/.*/*",
        &[""],
    ),
    reader("diff", "mkdir \"$T/empty\"; diff -rNa TREE \"$T/empty\"", &[""]),
    reader("git", "git grep --no-index --no-exclude-standard -ah . -- TREE", &[""]),
    reader(
        "python3",
        "python3 -c 'import os,sys; [sys.stdout.buffer.write(open(os.path.join(d,f),\"rb\").read()) for d,_,n in os.walk(sys.argv[1]) for f in n if os.path.isfile(os.path.join(d,f))]' TREE",
        &[""],
    ),
    reader(
        "perl",
        "perl -MFile::Find -e 'find(sub { if (-f && open(F,q(<),$_)) { print <F> } }, shift)' TREE",
        &[""],
    ),
    reader(
        "bash",
        "shopt -s globstar dotglob; for f in TREE/**; do [ -f \"$f\" ] && printf '%s\\n' \"$(<\"$f\")\"; done",
        &[""],
    ),
    reader("zip", "zip -q -0 -r - TREE", &[""]),
    reader(
        "node",
        "node -e 'const fs=require(\"fs\"); for (const f of fs.readdirSync(process.argv[1],{recursive:true})) try { console.log(fs.readFileSync(process.argv[1]+\"/\"+f,\"latin1\")) } catch {}' TREE",
        &[""],
    ),
];

/// Programs that list a directory.
pub(super) const DIRECTORY_LISTERS: &[Reader] = &[
    reader("ls", "ls OPTION TREE", &["", "-A", "-la", "-R", "-f", "-m"]),
    reader("find", "find TREE OPTION", &["", "-maxdepth 1", "-type f", "-printf '%f\\n'"]),
    reader("bash", "echo TREE/*", &[""]),
    reader("bash", "compgen -f TREE/", &[""]),
    reader("bash", "cd TREE && printf '%s\\n' *", &[""]),
    reader("du", "du -a TREE", &[""]),
    reader("tar", "tar -cvPf /dev/null TREE", &[""]),
    reader("dir", "dir -a TREE", &[""]),
    reader("stat", "stat -c %n TREE/*", &[""]),
    reader(
        "python3",
        "python3 -c 'import os,sys; print(OPTION(sys.argv[1]))' TREE",
        &["os.listdir"],
    ),
    reader("perl", "perl -e 'opendir(D,shift); print readdir(D)' TREE", &[""]),
    reader("node", "node -p 'require(\"fs\").readdirSync(process.argv[1])' TREE", &[""]),
    reader("git", "mkdir \"$T/empty\"; git diff --no-index --name-only \"$T/empty\" TREE", &[""]),
    reader("cp", "cp -rv TREE \"$T/copy\"", &[""]),
];

/// Ways to the environment of the binary that started the command.
pub(super) const ENVIRONMENT_READERS: &[Reader] = &[
    reader("tr", "tr '\\0' '\\n' </proc/$PPID/environ", &[""]),
    reader(
        "python3",
        "python3 -c 'import sys; print(open(\"/proc/%s/environ\" % sys.argv[1]).read())' $PPID",
        &[""],
    ),
    reader(
        "bash",
        "while read -rd '' variable; do echo \"$variable\"; done </proc/$PPID/environ",
        &[""],
    ),
    reader("cat", "cat /proc/$PPID/task/*/environ", &[""]),
];
