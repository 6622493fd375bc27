//! Failure messages of many programs, and the paths that are found in them.

use windlass_core::PathUse::{Chown, Read, Write};

use super::*;

#[test]
fn messages_name_paths() {
    use Symptom::{Denied, Missing, Overflow, ReadOnly};
    for (message, path, used, symptom) in [
        ("cat: /x/y: No such file or directory", "/x/y", Read, Missing),
        ("cat: .env: No such file or directory", ".env", Read, Missing),
        ("cat: my file.txt: No such file or directory", "my file.txt", Read, Missing),
        ("bash: line 1: /x/y: No such file or directory", "/x/y", Read, Missing),
        ("bash: /opt/x: Read-only file system", "/opt/x", Write, ReadOnly),
        ("/bin/sh: 1: cannot open /x/y: No such file", "/x/y", Read, Missing),
        ("/bin/sh: 1: cannot create /x/y: Directory nonexistent", "/x/y", Write, Missing),
        ("ls: cannot access '/x/a b': No such file or directory", "/x/a b", Read, Missing),
        ("ls: cannot access ‘/x/y’: No such file or directory", "/x/y", Read, Missing),
        ("ls: cannot open directory '/x': Permission denied", "/x", Read, Denied),
        ("touch: cannot touch '/x/y': No such file or directory", "/x/y", Write, Missing),
        ("mkdir: cannot create directory ‘/x’: Read-only file system", "/x", Write, ReadOnly),
        ("rm: cannot remove '/x/y': No such file or directory", "/x/y", Write, Missing),
        ("./run.sh: 1: cannot create f: Read-only file system", "f", Write, ReadOnly),
        ("tee: /x/y: Permission denied", "/x/y", Write, Denied),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/x/y'", "/x/y", Read, Missing),
        ("PermissionError: [Errno 13] Permission denied: 'a.txt'", "a.txt", Read, Denied),
        ("OSError: [Errno 30] Read-only file system: '/x/y'", "/x/y", Write, ReadOnly),
        ("OSError: [Errno 75] Value too large for defined data type: 'f'", "f", Write, Overflow),
        ("Error: ENOENT: no such file or directory, open '/x/y'", "/x/y", Read, Missing),
        ("Error: EACCES: permission denied, open '/x/y'", "/x/y", Read, Denied),
        ("Error: EROFS: read-only file system, mkdir '/x'", "/x", Write, ReadOnly),
        ("error: couldn't open `/x/y`: No such file (os error 2)", "/x/y", Read, Missing),
        ("open /x/y: no such file or directory", "/x/y", Read, Missing),
        ("fatal error: /x/y.h: No such file or directory", "/x/y.h", Read, Missing),
        ("java.io.FileNotFoundException: /x/y (No such file or directory)", "/x/y", Read, Missing),
        ("No such file or directory @ rb_sysopen - /x/y (Errno::ENOENT)", "/x/y", Read, Missing),
        ("make: *** No rule to make target '/x/y', needed by 'all'.", "/x/y", Read, Missing),
        ("curl: (37) Couldn't open file /x/y", "/x/y", Read, Missing),
        ("can't open file '/x/it's here': No such file", "/x/it's here", Read, Missing),
        ("cat: ~/x: No such file or directory", "~/x", Read, Missing),
        ("tool: config=/x/y does not exist.", "/x/y", Read, Missing),
        ("sh: 1: /x/create.csv: not found", "/x/create.csv", Read, Missing),
        ("bash: f: Value too large for defined data type", "f", Write, Overflow),
        ("chown: changing ownership of 'f': Invalid argument", "f", Chown, Symptom::Chown),
        ("chgrp: changing group of 'f': Invalid argument", "f", Chown, Symptom::Chown),
    ] {
        let expected = PathMention { path: path.to_owned(), used, symptom };
        let found = mentions(message, "");
        assert!(found.contains(&expected), "{message}: {found:?}");
        assert!(found.len() <= 3, "{message}: {found:?}");
    }
}

#[test]
fn other_lines_name_no_paths() {
    for text in [
        "",
        "all is well\n",
        "File \"/usr/lib/x.py\", line 3",
        "404 of 500 done",
        "No such file or directory",
    ] {
        assert_eq!(mentions(text, ""), [], "{text}");
    }
    let data = format!("/x/y: No such file or directory {}", "x".repeat(MAX_LINE_BYTES));
    assert_eq!(mentions(&data, ""), [], "a line of data");
}

#[test]
fn the_failing_program_is_no_mention() {
    for message in [
        "/opt/x/run.sh: line 3: f: Read-only file system",
        "/opt/x/run.sh: cannot create 'f': Read-only file system",
    ] {
        let found = mentions(message, "");
        let paths: Vec<&str> = found.iter().map(|mention| mention.path.as_str()).collect();
        assert_eq!(paths, ["f"], "{message}");
    }
}

#[test]
fn a_path_may_stand_in_a_line_before() {
    let text =
        "Error: cannot read /x/y\n\nCaused by:\n    No such file or directory (os error 2)\n";
    let paths: Vec<String> = mentions(text, "").into_iter().map(|mention| mention.path).collect();
    assert_eq!(paths, ["/x/y"]);
}

#[test]
fn a_redirected_path_is_a_write() {
    let message = "bash: line 1: /x/y: No such file or directory";
    for (command, used) in [
        ("echo a > /x/y", Write),
        ("echo a >>'/x/y'", Write),
        ("cat < /x/y", Read),
        ("cat /x/y > z", Read),
    ] {
        assert_eq!(mentions(message, command)[0].used, used, "{command}");
    }
}

#[test]
fn the_last_mentions_are_kept() {
    let lines: Vec<String> =
        (0..100).map(|n| format!("cat: /x/{n}: No such file or directory")).collect();
    let text = lines.join("\n");
    let found = mentions(&text, "");
    assert_eq!(found.len(), MAX_MENTIONS);
    assert_eq!((&*found[0].path, &*found[19].path), ("/x/80", "/x/99"));
}
