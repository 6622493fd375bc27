//! Everyday work inside behaves as outside: the same exit codes, the same files, and caches that a later session finds again.
//!
//! Nothing is fetched: dependencies are files of the project, and later runs find them in the caches alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::project::{Project, add_rust, link_or_copy};
use super::write_file;
use crate::support::{RunResult, installed};

#[test]
fn git_begins_a_repository() {
    let project = Project::new(&[("a.txt", "one\n")])
        .ignoring(&[".git/objects/", ".git/index", ".git/logs/", ".git/refs/"])
        .comparing(&["result.txt", ".git/HEAD", ".git/config"]);
    project.run(
        "set -e; git init -q -b main; git add a.txt; git commit -q -m one
         git log --format='%an <%ae> %cn %s' >result.txt; git ls-tree -r HEAD >>result.txt; git fsck --strict",
    );
}

#[test]
fn git_works_in_a_repository() {
    let project = Project::new(&[("a.txt", "one\n"), ("c.txt", "three\n")])
        .prepared("git init -q -b main && git add . && git commit -q -m one")
        .ignoring(&[".git/objects/", ".git/index", ".git/logs/", ".git/refs/"])
        .comparing(&["result.txt", "b.txt", "c.txt", ".git/HEAD", ".git/config"]);
    project.run(
        "set -e; git mv a.txt b.txt; git commit -q -m moved; echo more >>c.txt; git stash -q; git stash list
         git switch -q -c side; echo new >d.txt; git add d.txt; git commit -q -m new; git stash pop -q",
    );
    // In another session: what the first one did is there.
    project.run(
        "set -e; git log --format='%an <%ae> %cn %s' >result.txt; git status --short >>result.txt
         git ls-tree -r HEAD >>result.txt; git branch >>result.txt; git fsck --strict",
    );
}

#[test]
fn cargo_builds_and_adds_a_dependency() {
    // Each is a workspace of its own: cargo would look for one in the directories above.
    let manifest = |name| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n"
        )
    };
    let project = Project::new(&[
        ("app/Cargo.toml", &manifest("app")),
        (
            "app/src/main.rs",
            "fn main() { println!(\"{}\", helper::answer() + distant::answer()); }\n",
        ),
        ("helper/Cargo.toml", &manifest("helper")),
        ("helper/src/lib.rs", "pub fn answer() -> u32 { 40 }\n"),
        ("distant/Cargo.toml", &manifest("distant")),
        ("distant/src/lib.rs", "pub fn answer() -> u32 { 2 }\n"),
    ])
    .with_home(add_rust)
    .prepared("cd distant && git init -q -b main && git add . && git commit -q -m one")
    .ignoring(&["app/target/", "distant/.git/", "gone/", "app/Cargo.lock", "app/Cargo.toml"])
    .comparing(&["result.txt", "helper/Cargo.toml"]);
    project.run(
        "set -e; (cd app && cargo add -q --offline --path ../helper && cargo add -q --git \"file://$PWD/../distant\" distant)
         (cd app && cargo build -q); app/target/debug/app >result.txt; grep -c '^helper' app/Cargo.toml >>result.txt",
    );
    let text = project.run("cd app && cargo build --offline -v 2>&1");
    assert!(text.contains("Fresh app") && !text.contains("Compiling"), "{text}");
    // The source is in cargo's cache, so the repository is not asked again.
    let text = project.run("mv distant gone && cd app && find target -mindepth 1 -delete && cargo build --offline 2>&1 && ./target/debug/app");
    assert!(text.contains("Compiling distant"), "{text}");
}

/// Puts `node` and `npm` of the tests into a home directory: those of the machine may be missing or of any age.
fn install_npm(home: &Path) {
    let place = home.join(".cargo");
    link_or_copy(&installed("WINDLASS_TEST_NODE"), &place.join("bin/node"));
    let mut copied = Command::new("cp");
    copied.arg("-r").arg(installed("WINDLASS_TEST_NPM")).arg(place.join("npm"));
    assert!(copied.status().expect("cp runs").success());
    let npm = place.join("bin/npm");
    write_file(&npm, "#!/bin/sh\nexec node \"${0%/*}/../npm/bin/npm-cli.js\" \"$@\"\n");
    std::fs::set_permissions(npm, PermissionsExt::from_mode(0o755)).expect("a mode");
}

#[test]
fn npm_installs_from_its_cache() {
    let prepare = r#"
        mkdir package; echo 'module.exports = 42' >package/index.js
        echo '{"name": "tiny", "version": "1.0.0"}' >package/package.json
        tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - package | gzip -n >tiny-1.0.0.tgz; rm -r package
        sum=sha512-$(openssl dgst -sha512 -binary tiny-1.0.0.tgz | base64 -w0)
        sed -i "s|INTEGRITY|$sum|" app/package-lock.json"#;
    let project = Project::new(&[
        ("app/package.json", r#"{"name": "app", "version": "1.0.0", "dependencies": {"tiny": "1.0.0"}}"#),
        (
            "app/package-lock.json",
            r#"{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
                "": {"name": "app", "version": "1.0.0", "dependencies": {"tiny": "1.0.0"}},
                "node_modules/tiny": {"version": "1.0.0", "integrity": "INTEGRITY",
                    "resolved": "https://registry.example.org/tiny/-/tiny-1.0.0.tgz"}}}"#,
        ),
        ("local/package.json", r#"{"name": "local", "version": "1.0.0", "dependencies": {"tiny": "file:../tiny-1.0.0.tgz"}}"#),
        (
            "local/package-lock.json",
            r#"{"name": "local", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
                "": {"name": "local", "version": "1.0.0", "dependencies": {"tiny": "file:../tiny-1.0.0.tgz"}},
                "node_modules/tiny": {"version": "1.0.0", "resolved": "file:../tiny-1.0.0.tgz"}}}"#,
        ),
    ])
    .with_home(install_npm)
    .prepared(prepare)
    .comparing(&["result.txt", "app/node_modules/tiny/index.js", "app/package-lock.json"]);
    project.run("cd local && npm ci --offline --no-audit --no-fund && node -p 'require(\"tiny\")' >../result.txt");
    project.run("npm cache add ./tiny-1.0.0.tgz && rm tiny-1.0.0.tgz");
    // The lock file names the registry; only the cache can have answered.
    project.run("cd app && npm ci --offline --no-audit --no-fund && node -p 'require(\"tiny\")' >>../result.txt");
}

/// A wheel is a zip file with three files about itself.
const WHEEL: &str = r"
mkdir wheels && python3 - <<'END'
import zipfile
with zipfile.ZipFile('wheels/tiny-1.0.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny.py', 'answer = 42\n')
    wheel.writestr('tiny-1.0.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n')
    wheel.writestr('tiny-1.0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('tiny-1.0.0.dist-info/RECORD', 'tiny.py,,\n')
END
";

#[test]
fn pip_installs_a_wheel_into_a_virtual_environment() {
    let project = Project::new(&[]).prepared(WHEEL).comparing(&["result.txt"]);
    project.run(
        "set -e; python3 -m venv .venv; .venv/bin/pip install -q --no-index --find-links wheels tiny
         .venv/bin/python -c 'import tiny; print(tiny.answer)' >result.txt",
    );
    let text = project
        .run(". .venv/bin/activate && pip install --no-index tiny && python -c 'import tiny'");
    assert!(text.contains("already satisfied"), "{text}");
}

#[test]
fn pytest_runs_tests() {
    // Its packages are written in Python alone, so the machine's own interpreter can use them.
    let packages =
        ask_python("import os, pytest; print(os.path.dirname(os.path.dirname(pytest.__file__)))");
    let copy = format!(
        "mkdir vendor; for name in pytest _pytest py.py pluggy iniconfig packaging pygments exceptiongroup tomli
         do [ ! -e '{packages}'/$name ] || cp -r '{packages}'/$name vendor; done; find vendor -name __pycache__ -prune -exec rm -r {{}} +",
    );
    let project = Project::new(&[
        ("test_sums.py", "def test_sum(tmp_path):\n    (tmp_path / 'a').write_text('x')\n    assert 1 + 1 == 2\n"),
        ("test_files.py", "import pathlib\ndef test_here():\n    assert pathlib.Path('test_sums.py').exists()\n"),
    ])
    .prepared(&copy)
    .comparing(&[".pytest_cache/v/cache/nodeids"]);
    let text = project.run("PYTHONPATH=vendor python3 -m pytest -q");
    assert!(text.contains("2 passed"), "{text}");
    // pytest's cache is in the workspace.
    let text = project.run("PYTHONPATH=vendor python3 -m pytest -q --ff; sed -i 's/== 2/== 3/' test_sums.py; PYTHONPATH=vendor python3 -m pytest -q; test $? = 1");
    assert!(text.contains("1 failed, 1 passed"), "{text}");
    let text = project.run("PYTHONPATH=vendor python3 -m pytest -q --lf; test $? = 1");
    assert!(text.contains("1 failed") && !text.contains("passed"), "{text}");
}

#[test]
fn make_builds_what_changed() {
    let project = Project::new(&[
        ("Makefile", "all: hello\nhello: main.o greet.o\n\tcc -o $@ $^\n%.o: %.c greet.h\n\tcc -c -o $@ $<\n"),
        ("main.c", "#include \"greet.h\"\nint main(void) { greet(); return 0; }\n"),
        ("greet.c", "#include <stdio.h>\n#include \"greet.h\"\nvoid greet(void) { puts(\"hello\"); }\n"),
        ("greet.h", "void greet(void);\n"),
    ])
    .comparing(&["result.txt"]);
    project.run("make && ./hello >result.txt");
    let text = project.run("make");
    assert!(text.contains("up to date") || text.contains("Nothing to be done"), "{text}");
    let text = project.run("echo '/* more */' >>greet.c && make");
    assert!(text.contains("greet.c") && !text.contains("main.c"), "{text}");
}

/// A module proxy is a directory: a list, and three files for each version.
const GO_PROXY: &str = r#"
mkdir -p proxy/example.org/tiny/@v && python3 - <<'END'
import zipfile
place = 'proxy/example.org/tiny/@v/'
open(place + 'list', 'w').write('v1.0.0\n')
open(place + 'v1.0.0.info', 'w').write('{"Version": "v1.0.0"}')
open(place + 'v1.0.0.mod', 'w').write('module example.org/tiny\n')
with zipfile.ZipFile(place + 'v1.0.0.zip', 'w') as module:
    module.writestr('example.org/tiny@v1.0.0/go.mod', 'module example.org/tiny\n')
    module.writestr('example.org/tiny@v1.0.0/tiny.go', 'package tiny\n\nfunc Answer() int { return 42 }\n')
END
"#;

#[test]
fn go_builds_from_its_module_cache() {
    assert!(super::is_installed("go"), "go is missing: `cargo xtask setup` installs it");
    let project = Project::new(&[
        ("go.mod", "module example.org/app\n\ngo 1.19\n\nrequire example.org/tiny v1.0.0\n"),
        ("main.go", "package main\n\nimport \"example.org/tiny\"\n\nfunc main() { println(tiny.Answer()) }\n"),
    ])
    .prepared(GO_PROXY)
    .comparing(&["result.txt", "go.mod", "go.sum"]);
    project.run(
        "set -e; export GOPROXY=\"file://$PWD/proxy\" GOSUMDB=off GOTOOLCHAIN=local
         go mod tidy; go build -o app .; ./app 2>result.txt",
    );
    // Without the proxy, the module and the compiled packages come from the caches.
    let text = project.run(
        "set -e; export GOPROXY=off GOSUMDB=off GOTOOLCHAIN=local; rm -r proxy app
         go build -x -o app . 2>&1 | grep -c /compile || true; ./app 2>>result.txt; go vet .",
    );
    assert!(text.starts_with("0\n"), "something was compiled again: {text}");
}

#[test]
fn uv_runs_a_project() {
    let uv = PathBuf::from(ask_python("import uv; print(uv.find_uv_bin())"));
    let project = Project::new(&[
        (
            "pyproject.toml",
            "[project]\nname = \"app\"\nversion = \"1.0.0\"\nrequires-python = \">=3.8\"\n",
        ),
        ("main.py", "import sys\nprint(sys.prefix != sys.base_prefix)\n"),
    ])
    .with_home(|home| link_or_copy(&uv, &home.join(".cargo/bin/uv")))
    .comparing(&["result.txt", "uv.lock"]);
    let script =
        "uv run --offline --no-python-downloads main.py >result.txt && test -d \"$(uv cache dir)\"";
    project.run(script);
    project.run(script);
}

/// Runs a script in the Python environment of the tests, and returns its output.
fn ask_python(script: &str) -> String {
    let mut python = Command::new(installed("WINDLASS_TEST_PYTHON"));
    let ran = RunResult::from_output(python.args(["-c", script]).output().expect("python runs"));
    assert_eq!(ran.code, 0, "a package is missing: `cargo xtask setup` installs it: {ran:?}");
    ran.stdout.trim().to_owned()
}
