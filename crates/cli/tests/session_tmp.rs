//! The `/tmp` of a session: programs and file tools mean the same directory, and no other session has it.

use serde_json::{Value, json};

use crate::support::Home;

/// Makes a call that must succeed, in the mode that asks about the most effects. Returns the text of its result.
fn call_text(home: &Home, session: &str, tool: &str, input: &Value) -> String {
    let (code, answer) = home.call(&["--mode", "ask", "--session", session], tool, input);
    assert_eq!(code, 0, "{tool} {input}: {answer}");
    answer["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Returns a path in the machine's own `/tmp` at which there is no file.
fn unused_tmp_path() -> String {
    let made = tempfile::Builder::new().prefix("note-").tempfile_in("/tmp").expect("a file");
    made.path().to_str().expect("a name").to_owned()
}

#[test]
fn file_tools_and_programs_mean_the_same_directory() {
    for home in [Home::new_outside_tmp(), Home::new()] {
        let note = unused_tmp_path();
        call_text(&home, "s1", "write", &json!({"path": note, "content": "by a tool\n"}));
        let cat = json!({"command": format!("cat {note}")});
        assert!(call_text(&home, "s1", "bash", &cat).contains("by a tool"));
        let (_, other) = home.call(&["--mode", "ask", "--session", "s2"], "bash", &cat);
        assert_eq!(other["metadata"]["exit_code"], json!(1), "{other}");
        let (code, other) =
            home.call(&["--mode", "ask", "--session", "s2"], "read", &json!({"path": note}));
        assert_eq!((code, &other["outcome"]), (1, &json!("error")), "{other}");

        let append = json!({"command": format!("echo by a program >> {note}")});
        call_text(&home, "s1", "bash", &append);
        let read = call_text(&home, "s1", "read", &json!({"path": note}));
        assert!(read.contains("by a tool") && read.contains("by a program"), "{read}");
        let edit = json!({"path": note, "old_string": "by a tool", "new_string": "edited"});
        call_text(&home, "s1", "edit", &edit);
        let found = call_text(&home, "s1", "grep", &json!({"pattern": "edited", "path": note}));
        assert!(found.contains("edited"), "{found}");
        assert!(!std::path::Path::new(&note).exists(), "the machine's own is untouched");
    }
}

#[test]
fn a_change_is_undone_in_its_session() {
    let home = Home::new_outside_tmp();
    let note = unused_tmp_path();
    call_text(&home, "s1", "write", &json!({"path": note, "content": "one\n"}));
    let changes = home.run(&["undo", "--list", "--json", "--session", "s1"]).lines();
    let undo = json!({"call": changes[0]["call"]});
    let (code, foreign) = home.call(&["--mode", "yolo", "--session", "s2"], "undo", &undo);
    assert_eq!((code, &foreign["outcome"]), (1, &json!("error")), "{foreign}");
    assert!(foreign.to_string().contains("in the /tmp of session s1"), "{foreign}");
    let is_there = || {
        let options = ["--mode", "ask", "--session", "s1"];
        home.call(&options, "read", &json!({"path": note})).0 == 0
    };
    // A person's undo, its undo, and the session's own.
    let undone = home.run(&["undo", "--json"]).lines().remove(0);
    assert_eq!((&undone["outcome"], is_there()), (&json!("ok"), false), "{undone}");
    let again = ["undo", "--json", "--call", undone["call"].as_str().expect("a call")];
    let undone = home.run(&again).lines().remove(0);
    assert_eq!((&undone["outcome"], is_there()), (&json!("ok"), true), "{undone}");
    call_text(&home, "s1", "undo", &undo);
    assert!(!is_there());
    assert!(!std::path::Path::new(&note).exists());
}
