use serde_json::{Value, json};

use crate::support::Home;

fn home_with_calls(calls: usize) -> Home {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let line = json!({"tool": "read", "input": {"path": "a"}}).to_string() + "\n";
    let ran = home.run_with_input(&["run", "--session", "one"], line.repeat(calls).as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    home
}

#[test]
fn changed_byte_is_found_and_its_record_named() {
    let home = home_with_calls(5);
    let whole = home.run(&["log", "verify", "--json"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    let connection =
        rusqlite::Connection::open(home.state().join("journal.db")).expect("the journal");
    let changed = connection
        .execute("UPDATE journal SET body = replace(body, 'hello', 'jello') WHERE seq = 5 AND body LIKE '%hello%'", [])
        .expect("a change");
    let changed = changed
        + usize::from(changed == 0)
            * connection
                .execute("UPDATE journal SET tool = 'reae' WHERE seq = 5", [])
                .expect("a change");
    assert_eq!(changed, 1);
    drop(connection);
    let ran = home.run(&["log", "verify"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("record 5"), "{ran:?}");
    assert_eq!(home.run(&["log", "verify", "--json"]).lines()[0]["ok"], false);
}

#[test]
fn changed_rows_beside_the_journal_are_named() {
    for (sql, named) in [
        ("DELETE FROM sessions", "session one in `sessions` was removed"),
        (
            "UPDATE calls SET outcome = 'denied' WHERE finished = 3",
            "(session one) in `calls` was changed: outcome",
        ),
        (
            "INSERT INTO open_calls VALUES ('c', 'one', 't', 'write', 2, 4000, 1)",
            "call c (session one) in `calls` was changed: started",
        ),
    ] {
        let home = home_with_calls(3);
        assert_eq!(home.run(&["log", "verify"]).code, 0);
        let connection =
            rusqlite::Connection::open(home.state().join("journal.db")).expect("the journal");
        connection.execute(sql, []).expect("a change");
        drop(connection);
        let ran = home.run(&["log", "verify"]);
        assert_eq!(ran.code, 1, "{sql}: {ran:?}");
        assert!(ran.stdout.starts_with("not whole: ") && ran.stdout.contains(named), "{ran:?}");
        let told = home.run(&["log", "verify", "--json"]).lines().remove(0);
        assert_eq!((&told["ok"], &told["count"]), (&json!(false), &json!(1)), "{told}");
    }
}

#[test]
fn truncated_journal_is_found() {
    let home = home_with_calls(3);
    let connection =
        rusqlite::Connection::open(home.state().join("journal.db")).expect("the journal");
    connection
        .execute("DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)", [])
        .expect("a change");
    drop(connection);
    assert_eq!(home.run(&["log", "verify"]).code, 1);
}

#[test]
fn sessions_are_listed_shown_exported_and_deleted() {
    let home = home_with_calls(2);
    let list = home.run(&["sessions", "--json"]).lines();
    assert_eq!((list.len(), &list[0]["id"], &list[0]["calls"]), (1, &json!("one"), &json!(2)));
    assert!(home.run(&["sessions", "list"]).stdout.contains("one"));
    assert!(home.run(&["sessions", "show", "one"]).stdout.contains("read"));
    let exported = home.run(&["sessions", "export", "one"]);
    assert!(exported.stdout.contains("hello"), "{exported:?}");
    assert_eq!(home.run(&["sessions", "delete", "one"]).code, 0);
    assert!(!home.run(&["log", "--json"]).stdout.contains("hello"));
    assert_eq!(home.run(&["log", "verify"]).code, 0, "a deletion is on record, not a break");
    let unknown = home.run(&["sessions", "show", "two"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("two"), "{unknown:?}");
    assert_eq!(home.run(&["log", "--session", "two"]).code, 2);
}

#[test]
fn log_prints_a_timeline() {
    let home = home_with_calls(1);
    home.call(&["--session", "one"], "read", &json!({"path": "missing"}));
    let ran = home.run(&["log", "--session", "one"]);
    assert!(ran.stdout.contains("read ok") && ran.stdout.contains("read error"), "{ran:?}");
    assert!(!ran.stdout.contains('\x1b'));
    assert!(home.run(&["log", "--color", "always"]).stdout.contains('\x1b'));
}

#[test]
fn secrets_of_the_environment_do_not_reach_model_or_journal() {
    let home = Home::with_workspace(&[("a", "token is tok-1234567890abcdef\n")]);
    let output = home
        .command(&["call", "read", r#"{"path":"a"}"#])
        .env("MY_TOKEN", "tok-1234567890abcdef")
        .output()
        .expect("runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("[secret MY_TOKEN]"), "{output:?}");
    assert!(!home.run(&["log", "--json"]).stdout.contains("1234567890abcdef"));
}

#[test]
fn many_processes_share_one_journal() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let line = json!({"tool": "read", "input": {"path": "a"}}).to_string() + "\n";
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                assert_eq!(
                    home.run_with_input(&["run"], line.repeat(20).as_bytes()).lines().len(),
                    20
                );
            });
        }
    });
    let verified = home.run(&["log", "verify", "--json"]).lines();
    assert_eq!(verified[0]["ok"], true);
    let finished =
        home.run(&["log", "--json"]).lines().iter().filter(|row| row["kind"] == "finished").count();
    assert_eq!(finished, 120);
}

#[test]
fn doctor_checks_everything() {
    let ran = Home::new().run(&["doctor", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.lines().remove(0);
    let status = |name: &str| {
        let checks = report["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["name"] == name).expect(name)["status"].clone()
    };
    for name in [
        "workspace",
        "configuration",
        "journal",
        "confinement",
        "atomic writes",
        "sandbox",
        "network",
        "staged runs",
        "process trees",
        "undo",
        "undo history",
    ] {
        assert_eq!(status(name), "works", "{report}");
    }
}

/// Runs the binary in a namespace in which no further ones can be made, as on a machine that forbids them.
fn without_namespaces(home: &Home, arguments: &[&str]) -> std::process::Output {
    without_namespaces_after("", home, arguments)
}

/// Does the same after a line of shell.
fn without_namespaces_after(first: &str, home: &Home, arguments: &[&str]) -> std::process::Output {
    let windlass = home.command(arguments);
    let mut command = std::process::Command::new("unshare");
    let script =
        format!("{first}\necho 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"");
    command.env_clear().current_dir(home.workspace());
    command.args(["--user", "--map-root-user", "sh", "-c", &script]);
    command.arg(windlass.get_program()).args(windlass.get_args());
    for (name, value) in windlass.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("unshare, of util-linux")
}

/// Returns the status and the text of each of doctor's checks.
fn doctor_checks(output: &std::process::Output) -> impl Fn(&str) -> (String, String) + use<> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    move |name| {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == name).expect(name);
        let text = |key: &str| check[key].as_str().expect("words").to_owned();
        (text("status"), text("found"))
    }
}

#[test]
fn doctor_claims_only_what_it_could_try() {
    let check = doctor_checks(&without_namespaces(&Home::new(), &["doctor", "--json"]));
    for name in ["sandbox", "namespaces", "network", "staged runs", "process trees"] {
        let (status, found) = check(name);
        assert_eq!(status, "broken", "{name}: {found}");
        assert!(found.contains("new namespaces could not be made"), "{name}: {found}");
        assert!(found.contains("user.max_user_namespaces"), "{name}: {found}");
    }
    let (status, found) = check("Landlock alone");
    assert_eq!(status, "works", "{found}");
    assert!(found.starts_with("not in use: "), "{found}");
}

/// Doctor reports for each backend whether it works and whether the configuration uses it.
#[test]
fn doctor_tries_each_sandbox_backend() {
    let not_held = "it does not hold modes of files outside, times of files outside, what git runs";
    for (backend, settled) in [
        ("namespaces", "namespaces"),
        ("bubblewrap", "bubblewrap"),
        ("landlock", "Landlock alone"),
        ("auto", "namespaces"),
    ] {
        let home = Home::new();
        std::fs::create_dir_all(home.config()).expect("a directory");
        let config = format!("sandbox_backend = \"{backend}\"\n");
        std::fs::write(home.config().join("config.toml"), config).expect("a file");
        let check = doctor_checks(&home.command(&["doctor", "--json"]).output().expect("a report"));
        let by_landlock = backend == "landlock";
        for name in ["namespaces", "bubblewrap", "Landlock alone"] {
            let is_used = name == settled;
            let (status, found) = check(name);
            assert_eq!(status, "works", "{backend}, {name}: {found}");
            assert_eq!(found.starts_with("in use: "), is_used, "{backend}, {name}: {found}");
            assert_eq!(found.ends_with(not_held), name == "Landlock alone", "{name}: {found}");
        }
        assert_eq!(check("sandbox").1.contains(not_held), by_landlock);
        assert_eq!(check("staged runs").0, if by_landlock { "absent" } else { "works" });

        let output = without_namespaces(&home, &["doctor", "--json"]);
        let check = doctor_checks(&output);
        let is_refused = !matches!(backend, "landlock" | "auto");
        for name in ["sandbox", "network", "process trees"] {
            let (status, found) = check(name);
            assert_eq!(status == "works", !is_refused, "{backend}, {name}: {found}");
        }
        assert_eq!(output.status.success(), !is_refused, "{backend}");
        for name in ["namespaces", "bubblewrap"] {
            assert_eq!(
                check(name).0,
                if name == backend { "broken" } else { "absent" },
                "{backend}"
            );
        }
        assert_eq!(check("Landlock alone").1.starts_with("in use: "), !is_refused);
    }
}

/// Commands are refused with what to do about it, unless a person has said that less will do; then each result says so.
#[test]
fn weaker_sandbox_is_used_only_if_chosen_and_is_reported() {
    let call =
        ["--mode", "yolo", "call", "bash", r#"{"command": "echo b > b.txt; echo x > ../x"}"#];
    for (config, is_refused) in [
        ("", true),
        ("sandbox_backend = \"namespaces\"\n", true),
        ("sandbox_backend = \"landlock\"\n", false),
        ("sandbox_backend = \"auto\"\n", false),
    ] {
        let home = Home::new();
        std::fs::create_dir_all(home.config()).expect("a directory");
        std::fs::write(home.config().join("config.toml"), config).expect("a file");
        let output = without_namespaces(&home, &call);
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let said = said.concat();
        assert_eq!(said.contains("sandbox_backend = \"landlock\""), is_refused, "{config}{said}");
        assert_eq!(said.contains("weaker sandbox (Landlock alone)"), !is_refused, "{config}{said}");
        assert_eq!(said.contains("changed while it ran: A b.txt"), !is_refused, "{config}{said}");
        assert_eq!(home.workspace().join("b.txt").exists(), !is_refused, "{config}{said}");
        assert!(!home.workspace().join("../x").exists(), "{config}{said}");
    }
}

/// Bubblewrap provides namespaces where they are forbidden for us, if it may. In this test it gives out one that was made before.
#[test]
fn bubblewrap_is_used_where_namespaces_are_forbidden() {
    let call =
        ["--mode", "yolo", "call", "bash", r#"{"command": "echo b > b.txt; echo x > ../x"}"#];
    let home = Home::new();
    let programs = home.config().join("bin");
    std::fs::create_dir_all(&programs).expect("a directory");
    let [bwrap, holder] = ["bwrap", "holder"].map(|name| programs.join(name));
    let made = format!("#!/bin/sh\ncat {}\nread end\n", holder.display());
    std::fs::write(&bwrap, made).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&bwrap, mode).expect("a program");
    // Who holds it ends with who asks for it.
    let first = format!(
        "export PATH={}:$PATH; own=$(readlink /proc/self/ns/user)
         unshare --user --map-current-user setpriv --pdeathsig KILL sleep 60 > /dev/null 2>&1 &
         while [ \"$(readlink /proc/$!/ns/user)\" = \"$own\" ] || ! grep -q . /proc/$!/uid_map
         do sleep 0.01; done; echo $! > {}",
        programs.display(),
        holder.display()
    );
    let output = without_namespaces_after(&first, &home, &call);
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success() || said.contains("../x"), "{said}");
    assert!(home.workspace().join("b.txt").exists(), "{said}");
    assert!(!home.workspace().join("../x").exists(), "{said}");
    assert!(!said.contains("weaker"), "{said}");
    assert_eq!(home.run(&["undo"]).code, 0);
    assert!(!home.workspace().join("b.txt").exists(), "what it did can be undone");
}

/// Commands whose changes cannot be undone or can affect other processes do not run without asking.
#[test]
fn rules_treat_a_weaker_sandbox_as_none() {
    for (backend, is_asked) in [("namespaces", false), ("landlock", true)] {
        let home = Home::with_workspace(&[("script", "echo b > b.txt\n")]);
        std::fs::create_dir_all(home.config()).expect("a directory");
        let config = format!("sandbox_backend = \"{backend}\"\n");
        std::fs::write(home.config().join("config.toml"), config).expect("a file");
        let ran = home.run(&["--mode", "auto", "call", "bash", r#"{"command": "bash script"}"#]);
        assert_eq!(home.workspace().join("b.txt").exists(), !is_asked, "{backend}: {ran:?}");
    }
}

#[test]
fn secrets_are_neither_shown_nor_recorded() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    let text = format!("open-sesame-4711, b3Blbi1zZXNhbWUtNDcxMQ==, other-word-9, {token}\n");
    let home = Home::with_workspace(&[
        (".env", "API_TOKEN=open-sesame-4711\n"),
        ("key", "other-word-9\n"),
        ("a", &text),
    ]);
    std::fs::create_dir_all(home.config()).expect("a directory");
    let key = home.workspace().join("key");
    let config = format!("secrets = {{ NAMED = \"file:{}\" }}\n", key.display());
    std::fs::write(home.config().join("config.toml"), config).expect("a file");
    let line = json!({"tool": "read", "input": {"path": "a", "numbers": false}}).to_string() + "\n";
    let ran = home.run_with_input(&["run", "--session", "one"], line.as_bytes());
    let expected =
        "[secret API_TOKEN], [secret API_TOKEN]Q==, [secret NAMED], [secret: GitHub token]";
    assert!(ran.stdout.contains(expected), "{ran:?}");
    let exported = home.run(&["sessions", "export", "one"]).stdout;
    assert!(exported.contains(expected), "{exported}");
    for secret in ["open-sesame", "b3Blbi1z", "other-word", "ghp_"] {
        assert!(!ran.stdout.contains(secret) && !exported.contains(secret), "{secret}");
    }
}

/// A secret in the name of a file leaves the machine no more than one in a text.
#[test]
fn export_redacts_secrets_in_names() {
    const SECRET: &str = "s3cr3tv4lueXYZ987";
    let home = Home::with_workspace(&[(&format!("file-{SECRET}.txt"), "x\n")]);
    let run = |arguments: &[&str]| {
        let output = home.command(arguments).env("MY_API_TOKEN", SECRET).output().expect("runs");
        crate::support::RunResult::from_output(output)
    };
    let rule = format!("read file-{SECRET}.txt");
    let options = ["--session", "one", "--mode", "auto", "--allow", &rule];
    for (tool, input) in [
        ("read", json!({"path": format!("file-{SECRET}.txt")})),
        ("write", json!({"path": format!("new-{SECRET}"), "content": "x"})),
        ("bash", json!({"command": format!("touch made-{SECRET}")})),
        ("list", json!({})),
        ("read", json!({"path": format!("missing-{SECRET}")})),
    ] {
        let ran = run(&[&["call", tool, &input.to_string(), "--json"], &options[..]].concat());
        assert!(!ran.stdout.contains(SECRET), "{tool}: {ran:?}");
    }
    for command in [
        &["log", "export", "--format", "jsonl"][..],
        &["log", "export", "--format", "otlp"],
        &["sessions", "export", "one"],
        &["log", "--json"],
        &["log"],
    ] {
        let ran = run(command);
        assert!(ran.code == 0 && ran.stdout.contains("one"), "{command:?}: {ran:?}");
        assert!(!ran.stdout.contains(SECRET), "{command:?}: {}", ran.stdout);
    }
    let recorded = std::fs::read(home.state().join("journal.db-wal")).expect("records");
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    assert!(!holds(&recorded), "it is not on the record either");
}

/// An export leaves out a secret that became known only after it was recorded.
#[test]
fn export_redacts_secrets_that_became_known_later() {
    const SECRET: &str = "s3cr3tv4lueXYZ987";
    let home = Home::with_workspace(&[(&format!("file-{SECRET}.txt"), "x\n")]);
    let input = json!({"path": format!("file-{SECRET}.txt")}).to_string();
    let ran = home.run(&["call", "read", &input, "--session", "one"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for command in [
        &["log", "export", "--format", "jsonl"][..],
        &["log", "export", "--format", "otlp"],
        &["sessions", "export", "one"],
    ] {
        assert!(
            home.run(command).stdout.contains(SECRET),
            "{command:?}: it is not known as a secret yet"
        );
        let known = home.command(command).env("MY_API_TOKEN", SECRET).output().expect("runs");
        let known = String::from_utf8_lossy(&known.stdout).into_owned();
        assert!(known.contains("[secret MY_API_TOKEN]"), "{command:?}: {known}");
        assert!(!known.contains(SECRET), "{command:?}: {known}");
    }
}

/// The journal knows of a state that was put back whole, because it is anchored outside of it.
#[test]
fn state_restored_from_an_older_copy_is_found() {
    for front_door in ["call", "run"] {
        let home = home_with_calls(2);
        let state = home.state();
        let older = state.with_file_name("older");
        let shell = |script: &str| {
            let done = std::process::Command::new("sh")
                .args(["-ec", script, "sh"])
                .args([&state, &older])
                .status();
            assert!(done.expect("sh runs").success(), "{script}");
        };
        shell("cp -a \"$1\" \"$2\"");
        let input = json!({"path": "a"}).to_string();
        if front_door == "call" {
            home.run(&["call", "read", &input, "--session", "two"]);
        } else {
            let line = json!({"tool": "read", "input": {"path": "a"}}).to_string();
            home.run_with_input(&["run", "--session", "two"], line.as_bytes());
        }
        shell("rm -r \"$1\"; cp -a \"$2\" \"$1\"");
        let ran = home.run(&["log", "verify"]);
        assert_eq!(ran.code, 1, "{front_door}: {ran:?}");
        assert!(ran.stdout.contains("put back from an older copy"), "{front_door}: {ran:?}");
    }
}

#[test]
fn replay_leaves_no_anchor() {
    let home = home_with_calls(1);
    let anchors = home.state().join("../../share/windlass/anchors");
    let count = || std::fs::read_dir(&anchors).expect("anchors").count();
    assert_eq!(count(), 2, "of the journal, and of its last writer");
    let ran = home.run(&["replay", "one"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(count(), 2);
}

/// A beginning that only one id has stands for that id.
#[test]
fn ids_can_be_shortened() {
    let home = Home::new();
    for session in ["review-1", "review-2", "other"] {
        let input = json!({"path": session, "content": "x\n"});
        assert_eq!(home.call(&["--mode", "auto", "--session", session], "write", &input).0, 0);
    }
    for arguments in [
        &["sessions", "show", "oth"][..],
        &["sessions", "export", "oth"],
        &["log", "--session", "oth"],
        &["undo", "--list", "--session", "oth"],
        &["policy", "replay", "oth"],
        &["replay", "oth"],
    ] {
        let ran = home.run(arguments);
        assert!(ran.code <= 1 && !ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
        let id = arguments.iter().position(|one| *one == "oth").expect("an id");
        for (given, told) in [("review", "review-1, review-2"), ("nope", "nope")] {
            let mut arguments = arguments.to_vec();
            arguments[id] = given;
            let ran = home.run(&arguments);
            assert!(ran.code == 2 && ran.stderr.contains(told), "{arguments:?}: {ran:?}");
        }
    }
    let change = home.run(&["undo", "--list", "--json"]).lines().remove(0);
    let id = change["call"].as_str().expect("an id").to_owned();
    let ran = home.run(&["undo", "--call", &id[..id.len() - 1]]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!home.workspace().join("other").exists());
    let ran = home.run(&["undo", "--call", &id[..1]]);
    assert!(ran.code == 2 && ran.stderr.contains("several call ids"), "{ran:?}");
    let ran = home.run(&["sessions", "delete", "oth"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // A session that is appended to is the one of that very name.
    home.call(&["--session", "rev"], "list", &json!({}));
    assert_eq!(home.run(&["log", "--session", "rev", "--json"]).lines()[0]["session"], "rev");
}

#[test]
fn log_filters_records() {
    let home = Home::with_workspace(&[("a", "x\n")]);
    home.call(&[], "read", &json!({"path": "a"}));
    home.call(&[], "read", &json!({"path": "missing"}));
    home.call(&[], "write", &json!({"path": "b", "content": "x"}));
    let rows = |options: &[&str]| -> Vec<String> {
        let rows = home.run(&[&["log", "--json"], options].concat()).lines();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| format!("{} {}", text(row, "tool"), text(row, "outcome"))).collect()
    };
    assert_eq!(rows(&["--outcome", "denied"]), ["write denied"]);
    assert_eq!(rows(&["--tool", "read", "--outcome", "ok"]), ["read ok"]);
    assert_eq!(rows(&["--tool", "read", "-n", "1"]), ["read error"]);
    assert_eq!(rows(&["-n", "2"]), rows(&[])[rows(&[]).len() - 2..]);
    assert_eq!(rows(&["--since", "1h"]), rows(&[]));
    assert!(rows(&["--since", "0s"]).is_empty() && rows(&["-n", "0"]).is_empty());
    for (option, value) in [("--outcome", "okay"), ("--since", "soon"), ("-n", "few")] {
        assert_eq!(home.run(&["log", option, value]).code, 2, "{option} {value}");
    }
}
