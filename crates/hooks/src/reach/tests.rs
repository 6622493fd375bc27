use super::*;
use windlass_core::{Author, Host as _};
use windlass_host::LocalHost;

use crate::{HookFile, HookShape};

/// Returns the files that a shell text reaches in a workspace with these files, and whether each exists.
fn reached(files: &[(&str, &str)], command: &str) -> Result<Vec<(String, bool)>, String> {
    reached_as(files, &serde_json::json!({"event": "pre_tool", "command": command}))
}

/// Returns the files that a hook reaches in a workspace with these files, and whether each exists.
fn reached_as(
    files: &[(&str, &str)],
    hook: &serde_json::Value,
) -> Result<Vec<(String, bool)>, String> {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap();
    for (name, content) in files {
        let path = workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let text = serde_json::json!({"hooks": [hook]}).to_string();
    let (author, shape) = (Author::Workspace, HookShape::Windlass);
    let file = HookFile { path: "hooks.json".into(), text, author, shape };
    let host = LocalHost::open(&workspace).unwrap();
    let pins = reached_files(&file.read().0[0], host.files()).map_err(|error| error.to_string())?;
    Ok(pins.iter().map(|pin| (pin.path.display().to_string(), pin.hash.is_some())).collect())
}

/// Returns the reached files that exist.
fn present(files: &[(&str, &str)], command: &str) -> Result<Vec<String>, String> {
    let reached = reached(files, command)?;
    Ok(reached.into_iter().filter(|(_, is_there)| *is_there).map(|(path, _)| path).collect())
}

#[test]
fn scripts_are_found_however_they_are_run() {
    let files = [
        ("scripts/gate.sh", "exit 0\n"),
        ("gate.py", "import json, sys\njson.load(sys.stdin)\n"),
        ("isolated.py", "#!/usr/bin/env -S python3 -I\nimport json\n"),
        ("sources.sh", "#!/bin/bash\nset -eu\n. \"$(dirname \"$0\")/scripts/lib.sh\"\n"),
        ("scripts/lib.sh", "source \"${BASH_SOURCE[0]%/*}/more.sh\"\n"),
        ("scripts/more.sh", "true\n"),
        (
            "idiom.sh",
            "DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\n\"$DIR\"/scripts/gate.sh\n",
        ),
        (
            "gate.js",
            "#!/usr/bin/env node\nconst fs = require('fs');\nimport path from 'node:path';\n",
        ),
    ];
    let cases: &[(&str, &[&str])] = &[
        ("./scripts/gate.sh", &["scripts/gate.sh"]),
        ("\"$CLAUDE_PROJECT_DIR\"/scripts/gate.sh --strict", &["scripts/gate.sh"]),
        ("cd scripts && ./gate.sh", &["scripts/gate.sh"]),
        ("cd scripts; sh gate.sh", &["scripts/gate.sh"]),
        ("sh -c './scripts/gate.sh'", &["scripts/gate.sh"]),
        ("sh -c 'cd scripts && exec ./gate.sh'", &["scripts/gate.sh"]),
        ("bash -eu -o pipefail scripts/gate.sh", &["scripts/gate.sh"]),
        ("env A=1 timeout 5 ./scripts/gate.sh", &["scripts/gate.sh"]),
        ("if ./scripts/gate.sh; then exit 0; else exit 2; fi", &["scripts/gate.sh"]),
        ("x=$(./scripts/gate.sh); [ -z \"$x\" ]", &["scripts/gate.sh"]),
        ("case $1 in a|b) ./scripts/gate.sh ;; *) exit 2 ;; esac", &["scripts/gate.sh"]),
        ("f() { ./scripts/gate.sh; }; f", &["scripts/gate.sh"]),
        ("cat <<'E' | jq .\n$(not run)\nE\n./scripts/gate.sh", &["scripts/gate.sh"]),
        ("./sources.sh", &["scripts/lib.sh", "scripts/more.sh", "sources.sh"]),
        ("./idiom.sh", &["idiom.sh", "scripts/gate.sh"]),
        ("python3 -I gate.py", &["gate.py"]),
        ("./isolated.py", &["isolated.py"]),
        ("python3 -I -c 'import json'", &[]),
        ("./gate.js", &["gate.js"]),
        ("node gate.js", &["gate.js"]),
        ("jq -e '.tool_input.path | startswith(\"src/\")' >/dev/null || exit 2", &[]),
        ("grep -q 'rm -rf' && { echo 'remove files one by one' >&2; exit 2; }; exit 0", &[]),
        ("[[ \"$x\" == y && -f gate.py ]] || exit 2", &[]),
        ("/usr/bin/env true", &[]),
    ];
    for (command, expected) in cases {
        assert_eq!(
            present(&files, command).as_deref(),
            Ok(&expected.map_strings()[..]),
            "{command}"
        );
    }
}

trait Strings {
    fn map_strings(&self) -> Vec<String>;
}

impl Strings for &[&str] {
    fn map_strings(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn unpredictable_commands_are_refused() {
    let files = [
        ("gate.sh", "exit 0\n"),
        ("Makefile", "gate:\n\t./gate.sh\n"),
        ("package.json", "{}"),
        ("eval.sh", "eval \"$1\"\n"),
        ("dynamic.sh", "\"$GATE\"\n"),
        ("sources.sh", ". \"$LIB/x.sh\"\n"),
        ("twice.sh", "X=./gate.sh\nwhile $X; do X=$1; done\n"),
        ("read.sh", "X=./gate.sh\nread X\n$X\n"),
        ("loop.sh", "for x in *.sh; do ./$x; done\n"),
        ("perl.pl", "#!/usr/bin/perl\nexit 0;\n"),
        ("binary", "\u{7f}ELF"),
        ("plain.py", "#!/usr/bin/python3\nimport json\n"),
        ("calls.py", "import subprocess\nsubprocess.run(['./gate.sh'])\n"),
        ("loads.js", "#!/usr/bin/env node\nrequire('./rules')\n"),
        ("computed.js", "#!/usr/bin/env node\nrequire(process.argv[2])\n"),
        ("runs-make.sh", "make gate\n"),
        ("own.sh", "#!./gate.sh\n"),
    ];
    for (command, why) in [
        ("make gate", "`make` runs what files of the workspace say"),
        ("npm run gate", "`npm` runs what"),
        ("cd \"$X\" && ./gate.sh", "a directory that is known only when it runs"),
        ("sh -c \"$X\"", "known only then"),
        ("cat gate.sh | sh", "`sh` without a script"),
        ("sh < gate.sh", "`sh` without a script"),
        ("$GATE", "`$GATE` is known only when it runs"),
        ("./*.sh", "known only when it runs"),
        ("PATH=./bin:$PATH gate", "the variable `PATH`"),
        ("export PATH=.; gate", "the variable `PATH`"),
        ("BASH_ENV=x bash gate.sh", "the variable `BASH_ENV`"),
        ("mystery gate", "`mystery`"),
        ("declare -n r=x; x=./gate.sh; . $r", ""),
        ("mapfile -C './gate.sh' -c 1 x <<<q", "`mapfile`"),
        ("sed -n '1e ./gate.sh' gate.sh", "`sed`"),
        ("git grep --no-index -O./gate.sh x", "`git`"),
        ("read 'a[$(./gate.sh)]'", ""),
        ("printf -v 'a[$(./gate.sh)]' x", ""),
        ("test -v 'a[$(./gate.sh)]'", ""),
        ("find . -name gate.sh -exec sh {} ';'", "`find` can run"),
        ("awk -f gate.awk", "`awk` can run"),
        ("awk 'BEGIN { system(\"./gate.sh\") }'", "`awk` can run"),
        ("ls | xargs sh", "`xargs`"),
        ("eval ./gate.sh x", "`eval`"),
        ("`./gate.sh`", "a backtick"),
        ("../outside.sh", "is not in the workspace"),
        ("/home/me/gate.sh", "neither in the workspace nor a program of the system"),
        ("bash --rcfile gate.sh -i", "`bash --rcfile`"),
        ("./eval.sh", "eval.sh: what `eval` runs"),
        ("./dynamic.sh", "dynamic.sh: `\"$GATE\"` is known only"),
        ("./sources.sh", "sources.sh: what `.` runs"),
        ("./twice.sh", "`$X` is known only"),
        ("./read.sh", "`$X` is known only"),
        ("./loop.sh", "known only when it runs"),
        ("./perl.pl", "scripts of `perl`"),
        ("perl -e 1", "scripts of `perl`"),
        ("./binary", ""),
        ("python3 -I calls.py", "calls.py: it can run what is not named: `subprocess`"),
        ("python3 calls.py", "unless its first argument is `-I`"),
        ("python3 -m gate", "unless its first argument is `-I`"),
        ("python3 -I -m gate", "`python3 -m` is not followed"),
        ("./plain.py", "unless its first argument is `-I`"),
        ("make gate; make() { true; }", "a function with the name of a program"),
        ("./loads.js", "it loads `./rules`"),
        ("node computed.js", "known only when it runs"),
        ("./runs-make.sh", "runs-make.sh: `make`"),
        ("./own.sh", "not a program of the system"),
    ] {
        let found = reached(&files, command);
        let Err(said) = found else { panic!("{command}: accepted: {found:?}") };
        assert!(said.contains(why), "{command}: {said}");
    }
    let env = serde_json::json!({"event": "pre_tool", "command": "python3 -I gate.py", "env": {"PYTHONPATH": "lib"}});
    assert!(reached_as(&files, &env).unwrap_err().contains("PYTHONPATH"));
}

#[test]
fn missing_files_are_pinned_as_absent() {
    for (command, absent) in [
        ("./late.sh", "late.sh"),
        ("cd scripts && ./gate.sh", "scripts/gate.sh"),
        ("[ -f lib.sh ] && . ./lib.sh", "lib.sh"),
    ] {
        let reached = reached(&[], command).unwrap();
        assert!(reached.contains(&(absent.to_owned(), false)), "{command}: {reached:?}");
    }
}
