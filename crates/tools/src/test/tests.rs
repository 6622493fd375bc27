//! Tables of project files with their test commands, and of recorded outputs with their reports; then real runs.
#![expect(clippy::disallowed_methods, reason = "tests read recorded outputs, and lay out projects")]

use std::path::Path;

use serde_json::{Value, json};
use windlass_core::testing::with_scene;
use windlass_core::{FileKind, Host as _, Outcome, Shell, ToolError, plain};
use windlass_host::LocalHost;

use super::formats;
use super::project::{self, Project};
use crate::testing::Workspace;

/// Finds the project of a path in a workspace with these files; its directory is relative to the workspace.
fn find(files: &[(&str, &str)], path: &str) -> Result<Project, ToolError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let host = LocalHost::open(directory.path()).unwrap();
    let mut project = with_scene(&host, |scene| {
        let path = scene.resolve(Path::new(path)).unwrap().path;
        let is_file = scene.kind(&path) == Some(FileKind::File);
        project::find(scene, &path, is_file)
    })?;
    let workspace = host.files().workspace();
    project.directory = project.directory.strip_prefix(workspace).unwrap().to_owned();
    Ok(project)
}

/// Checks the directory and test command for a path, and the command with a filter; `None` if it takes no filter.
fn check(files: &[(&str, &str)], path: &str, expected: (&str, &str), filtered: Option<&str>) {
    let project = find(files, path).unwrap();
    let directory = project.directory.to_str().unwrap();
    let (command, line) =
        (project.command.to_string(), project.command.command_line(&Shell::default()));
    assert_eq!((directory, command.as_str()), expected, "{files:?}");
    assert_eq!(
        line.text,
        project.command.program(&Shell::default()).to_string(),
        "what is decided on is what is run"
    );
    let with = project.command.filtered("name").map(|command| command.to_string());
    assert_eq!(with.ok().as_deref(), filtered, "{files:?}");
}

const NPM_JEST: &str = r#"{"scripts": {"test": "jest --coverage"}}"#;
const NPM_OTHER: &str = r#"{"scripts": {"test": "sh run-tests.sh"}}"#;
const NPM_NONE: &str = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
const NPM_VITEST: &str = r#"{"devDependencies": {"vitest": "^1"}}"#;

#[test]
fn project_files_determine_the_test_command() {
    for (files, path, expected, filtered) in [
        (
            &[("Cargo.toml", "")][..],
            "",
            ("", "cargo test --no-fail-fast"),
            Some("cargo test --no-fail-fast name"),
        ),
        (
            &[
                ("Cargo.toml", ""),
                (".config/nextest.toml", ""),
                ("crates/a/Cargo.toml", ""),
                ("crates/a/src/lib.rs", ""),
            ],
            "crates/a/src/lib.rs",
            ("crates/a", "cargo nextest run --no-fail-fast"),
            Some("cargo nextest run --no-fail-fast name"),
        ),
        (&[("go.mod", "")], "", ("", "go test -v ./..."), Some("go test -v ./... -run=name")),
        (
            &[("go.mod", ""), ("a/b.go", "")],
            "a",
            ("", "go test -v ./a/..."),
            Some("go test -v ./a/... -run=name"),
        ),
        (
            &[("go.mod", ""), ("a/b.go", "")],
            "a/b.go",
            ("", "go test -v ./a"),
            Some("go test -v ./a -run=name"),
        ),
        (&[("package.json", NPM_JEST)], "", ("", "npm test"), Some("npm test -- -t name")),
        (
            &[("package.json", NPM_JEST), ("a.test.js", "")],
            "a.test.js",
            ("", "npm test -- a.test.js"),
            Some("npm test -- a.test.js -t name"),
        ),
        (
            &[("package.json", NPM_JEST), ("pnpm-lock.yaml", "")],
            "",
            ("", "pnpm test"),
            Some("pnpm test -t name"),
        ),
        (
            &[("package.json", NPM_JEST), ("yarn.lock", "")],
            "",
            ("", "yarn test"),
            Some("yarn test -t name"),
        ),
        (
            &[("package.json", NPM_JEST), ("bun.lockb", "")],
            "",
            ("", "bun run test"),
            Some("bun run test -t name"),
        ),
        (
            &[("pnpm-lock.yaml", ""), ("packages/a/package.json", NPM_OTHER)],
            "packages/a",
            ("packages/a", "pnpm test"),
            None,
        ),
        (
            &[("package.json", NPM_VITEST), ("yarn.lock", "")],
            "",
            ("", "yarn vitest run"),
            Some("yarn vitest run -t name"),
        ),
        (
            &[("package.json", NPM_VITEST)],
            "",
            ("", "npx --no-install vitest run"),
            Some("npx --no-install vitest run -t name"),
        ),
        (
            &[(
                "package.json",
                r#"{"packageManager": "pnpm@9", "scripts": {"test": "tsc && mocha"}}"#,
            )],
            "",
            ("", "pnpm test"),
            Some("pnpm test -g name"),
        ),
        (
            &[("package.json", r#"{"scripts": {"test": "node --test"}}"#)],
            "",
            ("", "npm test"),
            Some("npm test -- --test-name-pattern=name"),
        ),
        (
            &[("package.json", NPM_NONE), ("Makefile", "test:\n\ttrue\n")],
            "",
            ("", "make test"),
            None,
        ),
        (&[("deno.json", "{}")], "", ("", "deno test"), Some("deno test --filter=name")),
        (
            &[("pytest.ini", "")],
            "",
            ("", "python3 -m pytest -q"),
            Some("python3 -m pytest -q -k name"),
        ),
        (
            &[("pyproject.toml", "[tool.pytest.ini_options]"), ("tests/test_a.py", "")],
            "tests/test_a.py",
            ("", "python3 -m pytest -q tests/test_a.py"),
            Some("python3 -m pytest -q tests/test_a.py -k name"),
        ),
        (
            &[("pyproject.toml", ""), ("uv.lock", ""), ("tests/conftest.py", "")],
            "",
            ("", "uv run python -m pytest -q"),
            Some("uv run python -m pytest -q -k name"),
        ),
        (
            &[("setup.cfg", "[tool:pytest]"), (".venv/bin/python", "")],
            "",
            ("", ".venv/bin/python -m pytest -q"),
            Some(".venv/bin/python -m pytest -q -k name"),
        ),
        (
            &[("requirements-dev.txt", "pytest==8\n"), ("poetry.lock", "")],
            "",
            ("", "poetry run python -m pytest -q"),
            Some("poetry run python -m pytest -q -k name"),
        ),
        (
            &[("tests/test_a.py", "def test_a(): pass\n")],
            "",
            ("", "python3 -m pytest -q"),
            Some("python3 -m pytest -q -k name"),
        ),
        (
            &[("test_a.py", "import unittest\n")],
            "",
            ("", "python3 -m unittest"),
            Some("python3 -m unittest -k name"),
        ),
        (
            &[("tests/test_a.py", "import unittest\n")],
            "",
            ("", "python3 -m unittest discover -s tests"),
            Some("python3 -m unittest discover -s tests -k name"),
        ),
        (
            &[("manage.py", "django")],
            "",
            ("", "python3 manage.py test"),
            Some("python3 manage.py test -k name"),
        ),
        (
            &[("pom.xml", "")],
            "",
            ("", "mvn -B --no-transfer-progress test"),
            Some("mvn -B --no-transfer-progress test -Dtest=name"),
        ),
        (
            &[("pom.xml", ""), ("mvnw", "")],
            "",
            ("", "./mvnw -B --no-transfer-progress test"),
            Some("./mvnw -B --no-transfer-progress test -Dtest=name"),
        ),
        (
            &[("build.gradle.kts", ""), ("gradlew", "")],
            "",
            ("", "./gradlew test --continue --console=plain"),
            Some("./gradlew test --continue --console=plain --tests name"),
        ),
        (&[("mix.exs", "")], "", ("", "mix test"), None),
        (
            &[("Demo.sln", "")],
            "",
            ("", "dotnet test --nologo"),
            Some("dotnet test --nologo --filter name"),
        ),
        (
            &[("CMakeLists.txt", ""), ("build/CTestTestfile.cmake", "")],
            "",
            ("", "cmake --build build && ctest --test-dir build --output-on-failure"),
            Some("cmake --build build && ctest --test-dir build --output-on-failure -R name"),
        ),
        (&[("Makefile", "all: x\ncheck: all\n\ttrue\n")], "", ("", "make check"), None),
        (&[("justfile", "test *args:\n  cargo test\n")], "", ("", "just test"), None),
        (&[("Makefile", "test:\n"), ("a/b/c.txt", "")], "a/b", ("", "make test"), None),
    ] {
        check(files, path, expected, filtered);
    }
}

#[test]
fn missing_tests_are_reported() {
    for (files, words) in [
        (&[("README.md", "")][..], "no tests were found"),
        (&[("package.json", NPM_NONE)], "no tests were found"),
        (&[("package.json", "not JSON")], "no tests were found"),
        (&[("Makefile", "test := x\n.PHONY: test\n\ttest: x\n")], "no tests were found"),
        (&[("CMakeLists.txt", "enable_testing()")], "cmake -S . -B build"),
    ] {
        let found = find(files, ".");
        let error = found.unwrap_err().to_string();
        assert!(error.contains(words), "{files:?}: {error}");
    }
}

#[test]
fn other_project_kinds_are_listed() {
    let files = [("Cargo.toml", ""), ("package.json", NPM_JEST), ("Makefile", "test:\n")];
    let project = find(&files, ".").unwrap();
    let others: Vec<String> = project.others.iter().map(ToString::to_string).collect();
    assert_eq!(others, ["npm test", "make test"]);
}

/// The expected report of a recorded output: counts, failures as (name, a part of the text), parts of the errors.
type ExpectedReport<'a> = (u64, u64, u64, &'a [(&'a str, &'a str)], &'a [&'a str]);

fn check_output(
    name: &str,
    command: &str,
    (passed, failed, ignored, failures, errors): ExpectedReport<'_>,
) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/test/outputs")
        .join(name)
        .with_extension("txt");
    let text = plain(&std::fs::read(path).unwrap());
    let report =
        formats::read(command, &text).unwrap_or_else(|| panic!("{name} is not understood"));
    let counts = (report.passed, report.failed, report.ignored);
    assert_eq!(counts, (passed, failed, ignored), "{name}: {report:#?}");
    let names: Vec<&str> = report.failures.iter().map(|failure| failure.name.as_str()).collect();
    let expected: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected, "{name}: {report:#?}");
    for (failure, (_, part)) in report.failures.iter().zip(failures) {
        assert!(failure.text.contains(part), "{name}: {failure:#?}");
    }
    assert_eq!(report.errors.len(), errors.len(), "{name}: {report:#?}");
    for (error, part) in report.errors.iter().zip(errors) {
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn recorded_outputs_are_parsed() {
    let cargo_failures: &[(&str, &str)] = &[
        ("tests::panics", "did not panic as expected"),
        (
            "tests::subtracts",
            "looking at it\n\nthread 'tests::subtracts' (25118) panicked at src/lib.rs:9:57:",
        ),
        ("result", "Error: \"no luck\""),
        ("src/lib.rs - (line 1)", "left: 3"),
    ];
    let nextest_failures: &[(&str, &str)] = &[
        ("demo tests::panics", "did not panic as expected"),
        (
            "demo tests::subtracts",
            "looking at it\n\nthread 'tests::subtracts' (25208) panicked at src/lib.rs:9:57:",
        ),
        ("demo::more result", "Error: \"no luck\""),
    ];
    for (name, command, told) in [
        ("cargo-pass", "cargo test", (1, 0, 0, &[][..], &[][..])),
        ("cargo-none", "cargo test", (0, 0, 0, &[], &[])),
        ("cargo-fail", "cargo test", (2, 4, 1, cargo_failures, &[])),
        ("cargo-error", "cargo test", (0, 0, 0, &[], &["cannot find value `c`"])),
        ("cargo-crash", "cargo test", (0, 0, 0, &[], &["SIGABRT"])),
        ("nextest-pass", "cargo nextest run", (1, 0, 5, &[], &[])),
        ("nextest-fail", "cargo nextest run", (2, 3, 1, nextest_failures, &[])),
        (
            "nextest-error",
            "cargo nextest run",
            (0, 0, 0, &[], &["error[E0425]: cannot find value `c`"]),
        ),
        ("go-pass", "go test -v ./...", (2, 0, 0, &[], &[])),
        (
            "go-fail",
            "go test -v ./...",
            (
                2,
                3,
                1,
                &[
                    ("TestTable/large", "got 4, want 5"),
                    ("TestSecond", "second is wrong"),
                    ("TestFirst", "first is wrong"),
                ],
                &[],
            ),
        ),
        (
            "go-quiet",
            "go test ./...",
            (0, 1, 0, &[("TestTable/large", "sum_test.go:21: got 4, want 5")], &[]),
        ),
        ("go-error", "go test ./...", (1, 0, 0, &[], &["undefined: Sum\n./sum_test.go:12:2"])),
        ("go-panic", "go test ./...", (0, 1, 0, &[("TestNil", "nil pointer dereference")], &[])),
        ("jest-pass", "npm test", (4, 0, 0, &[], &[])),
        (
            "jest-fail",
            "npm test",
            (
                3,
                1,
                2,
                &[("sum › subtracts", "Received: 0")],
                &["src/broken.test.js\nCannot find module"],
            ),
        ),
        ("vitest-pass", "pnpm test", (2, 0, 0, &[], &[])),
        (
            "vitest-fail",
            "pnpm test",
            (
                3,
                1,
                1,
                &[("src/sum.test.ts > sum > subtracts", "expected +0 to be 1")],
                &["Failed to load url ./nothing"],
            ),
        ),
        (
            "mocha-fail",
            "npm test",
            (1, 2, 1, &[("sum subtracts", "0 !== 1"), ("deep inside throws", "Error: no")], &[]),
        ),
        ("bun-fail", "bun test", (1, 1, 0, &[("sum > subtracts", "Received: 0")], &[])),
        ("deno-fail", "deno test", (1, 1, 0, &[("subtracts", "Values are not equal")], &[])),
        ("node-tap", "npm test", (1, 3, 1, &[("subtracts", "0 !== 1"), ("inner", "'deep'")], &[])),
        (
            "node-spec",
            "npm test",
            (1, 3, 1, &[("subtracts", "0 !== 1"), ("inner", "Error: deep")], &[]),
        ),
        ("pytest-long", "pytest", (3, 0, 0, &[], &[])),
        ("pytest-none", "pytest", (0, 0, 0, &[], &[])),
        (
            "pytest-fail",
            "make test",
            (
                2,
                2,
                2,
                &[
                    ("ERROR at setup of test_base", "no database"),
                    ("test_subtracts", "assert 0 == 1"),
                ],
                &[],
            ),
        ),
        (
            "pytest-coloured",
            "make test",
            (1, 1, 0, &[("test_subtracts", "tests/test_sum.py:9: AssertionError")], &[]),
        ),
        (
            "pytest-error",
            "python3 -m pytest -q",
            (0, 0, 0, &[], &["tests/test_new.py\nImportError"]),
        ),
        ("unittest-pass", "python3 -m unittest", (1, 0, 0, &[], &[])),
        (
            "unittest-fail",
            "python3 -m unittest",
            (
                1,
                3,
                1,
                &[
                    ("test_c (test_x.T.test_c)", "ValueError: bad"),
                    ("test_b (test_x.T.test_b)", "1 != 2 : sums"),
                    ("test_e (test_x.T.test_e) (i=1)", "1 != 0"),
                ],
                &[],
            ),
        ),
        (
            "unittest-error",
            "python3 -m unittest",
            (0, 0, 0, &[], &["No module named 'nothing_here'"]),
        ),
        ("maven-pass", "mvn test", (3, 0, 0, &[], &[])),
        (
            "maven-fail",
            "mvn test",
            (
                2,
                2,
                1,
                &[
                    ("com.example.SumTest.subtracts", "expected: <1> but was: <0>"),
                    ("com.example.SumTest.divides", "/ by zero"),
                ],
                &[],
            ),
        ),
        (
            "maven-error",
            "mvn test",
            (0, 0, 0, &[], &["Sum.java:[5,16] cannot find symbol\n  symbol:   variable c"]),
        ),
        (
            "gradle-fail",
            "./gradlew test",
            (3, 1, 1, &[("SumTest > subtracts()", "expected: <1>")], &[]),
        ),
        (
            "gradle-error",
            "./gradlew test",
            (0, 0, 0, &[], &["error: cannot find symbol\n        return a + c;"]),
        ),
        ("ctest-pass", "ctest", (1, 0, 0, &[], &[])),
        (
            "ctest-fail",
            "ctest",
            (1, 2, 0, &[("subtracts", "expected 1, got 0"), ("crashes", "")], &[]),
        ),
        ("gcc-error", "make test", (0, 0, 0, &[], &["sum.c:4:16: error: ‘c’ undeclared"])),
        (
            "dotnet-fail",
            "dotnet test",
            (2, 1, 1, &[("Demo.SumTests.Subtracts", "Values differ")], &[]),
        ),
        ("dotnet-error", "dotnet test", (0, 0, 0, &[], &["error CS0103"])),
        (
            "mix-fail",
            "mix test",
            (2, 1, 1, &[("test subtracts (SumTest)", "Assertion with == failed")], &[]),
        ),
        ("tap-fail", "bats .", (1, 1, 2, &[("subtracts", "in test file sum.bats")], &[])),
    ] {
        check_output(name, command, told);
        // The format is also found without help from the command.
        check_output(name, "./run-tests", told);
    }
}

#[test]
fn every_recorded_output_is_tested() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/test/outputs");
    let source = include_str!("tests.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            source.contains(&format!("(\"{name}\"")) || source.contains(&format!("\"{name}\",")),
            "{name}"
        );
    }
}

#[test]
fn other_texts_have_no_test_report() {
    for text in [
        "",
        "hello\n",
        "all 12 passed the door in 3 days\n",
        "ok\nok then\n",
        "Tests are good\nRan out of time\n",
        "FAIL\n",
        "error: unknown option\n1..2..3\n",
    ] {
        assert_eq!(
            formats::read("sh x", text)
                .filter(|report| !report.errors.is_empty() || report.total() > 0),
            None,
            "{text}"
        );
    }
}

/// Returns a Cargo project without dependencies.
fn cargo_project(body: &str) -> Workspace {
    let manifest =
        "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    Workspace::new(&[("Cargo.toml", manifest), ("src/lib.rs", body)])
}

const CARGO_LIBRARY: &str = "\
pub fn add(a: u64, b: u64) -> u64 { a + b }
#[test] fn adds() { assert_eq!(add(1, 2), 3); }
#[test] fn wrong() { assert_eq!(add(1, 2), 4, \"the sum\"); }
";

#[test]
fn cargo_project_is_tested() {
    let place = cargo_project(CARGO_LIBRARY);
    let result = place.call("test", json!({}));
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Error, "{text}");
    assert!(text.starts_with("FAILED: 1 failed, 1 passed (cargo test --no-fail-fast, "), "{text}");
    assert!(text.contains("--- wrong\n") && text.contains("left == right"), "{text}");
    assert!(!text.contains("Compiling") && !text.contains("... ok"), "{text}");
    let metadata = &result.output.metadata;
    assert_eq!((&metadata["passed"], &metadata["failed"]), (&json!(1), &json!(1)));
    assert_eq!((&metadata["exit_code"], &metadata["timed_out"]), (&json!(101), &json!(false)));
    let kept = place
        .text("grep", json!({"pattern": "Compiling", "path": format!("output:{}", result.call)}));
    assert!(kept.contains("demo"), "{kept}");

    let text = place.text("test", json!({"path": "src/lib.rs", "filter": "adds"}));
    assert!(text.starts_with("PASSED: 1 passed (cargo test --no-fail-fast adds, "), "{text}");
    let result = place.call("test", json!({"filter": "nothing_like_it"}));
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Error, "{text}");
    assert!(text.starts_with("FAILED: no test has the filter in its name"), "{text}");

    place.write("src/lib.rs", "pub fn add(a: u64) -> u64 { a + b }\n");
    let text = place.text("test", json!({}));
    assert!(text.starts_with("FAILED: cannot be built or loaded (1 error) ("), "{text}");
    assert!(text.contains("error[E0425]: cannot find value `b`"), "{text}");
}

#[test]
fn given_command_is_run_and_parsed() {
    let place = Workspace::new(&[("sub/go.txt", include_str!("outputs/go-fail.txt"))]);
    for (input, begin, part) in [
        (
            json!({"command": "cat go.txt; exit 1", "path": "sub"}),
            "FAILED: 3 failed, 2 passed, 1 ignored (",
            "--- TestFirst\nboth_test.go:8: first is wrong",
        ),
        (
            json!({"command": "cat sub/go.txt"}),
            "FAILED: 3 failed, 2 passed, 1 ignored, although the exit code is 0 (",
            "got 4",
        ),
        (json!({"command": "echo fine"}), "PASSED (echo fine, ", "\n\nfine"),
        (
            json!({"command": "seq 100; exit 3"}),
            "FAILED: exit code 3 (seq 100; exit 3, ",
            "\n\n41\n42\n",
        ),
        (json!({"command": "kill -SEGV $$"}), "FAILED: ended by signal 11 (SEGV) (", ""),
    ] {
        let text = place.text("test", input.clone());
        assert!(text.starts_with(begin) && text.contains(part), "{input}: {text}");
    }
}

#[test]
fn timed_out_tests_keep_their_counts() {
    let place = Workspace::new(&[("go.txt", include_str!("outputs/go-fail.txt"))]);
    let result = place.call("test", json!({"command": "cat go.txt; sleep 60", "timeout": 0.5}));
    let text = result.output.to_text();
    assert_eq!(
        (result.outcome, &result.output.metadata["timed_out"]),
        (Outcome::TimedOut, &json!(true))
    );
    assert!(
        text.starts_with("FAILED: timed out after 0.5 s; so far 3 failed, 2 passed, 1 ignored ("),
        "{text}"
    );
}

#[test]
fn invalid_arguments_are_refused() {
    let place = Workspace::new(&[("Cargo.toml", "")]);
    let check = |input: Value, words: &str| {
        let text = place.text("test", input.clone());
        assert!(text.contains(words), "{input}: {text}");
    };
    check(json!({"filter": "--help"}), "begins with `-`");
    check(json!({"filter": ""}), "empty");
    check(json!({"filter": "x", "command": "make"}), "put the filter into the command");
    check(json!({"command": " "}), "empty");
    check(json!({"path": "/etc"}), "outside of the workspace");
    check(json!({"path": "nowhere"}), "there is no `nowhere`");
    check(json!({"timeout": 0}), "timeout");
    check(json!({"timeout": 4000}), "timeout");
}
