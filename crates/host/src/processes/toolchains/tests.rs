//! Directories of toolchains are found in a home directory made for each case.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

struct Machine {
    _directory: TempDir,
    root: PathBuf,
}

impl Machine {
    /// With these files; a name that ends in `/` is a directory, `a -> b` is a link to `b` in the machine's root, and text after
    /// ` = ` is the content.
    fn new(files: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(root.join("person")).unwrap();
        for file in files {
            let (name, text) = file.split_once(" = ").unwrap_or((file, ""));
            let (name, target) = name.split_once(" -> ").unwrap_or((name, ""));
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !target.is_empty() {
                symlink(root.join(target), path).unwrap();
            } else if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::write(path, text).unwrap();
            }
        }
        Self { _directory: directory, root }
    }

    fn home(&self) -> PathBuf {
        self.root.join("person")
    }

    /// `shown at [-> path] [ro] [!masked,…]`, relative to the root. What other machines have at absolute places is left out.
    fn shown(&self, variables: &[(&str, &str)], exclude: &[&str]) -> Vec<String> {
        let value = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            let text = value.replace('@', self.root.to_str().unwrap());
            Some(OsString::from(text))
        };
        let exclude: Vec<PathBuf> = exclude.iter().map(|name| self.root.join(name)).collect();
        let found = shown(&self.home(), &value, &exclude);
        found.iter().filter_map(|shown| self.told(shown)).collect()
    }

    fn told(&self, shown: &ShownDirectory) -> Option<String> {
        let mut told = shown.shown_at.strip_prefix(&self.root).ok()?.display().to_string();
        if shown.path != shown.shown_at {
            let path = shown.path.strip_prefix(&self.root).ok()?;
            write!(told, " -> {}", path.display()).unwrap();
        }
        if !shown.is_writable {
            told += " ro";
        }
        for mask in &shown.masked {
            write!(told, " !{}", mask.display()).unwrap();
        }
        Some(told)
    }

    fn path_directories(&self, path: &[&str], in_view: &[&str]) -> Vec<String> {
        let place = |name: &str| match name.strip_prefix('@') {
            Some(name) => self.root.join(name),
            None => PathBuf::from(name),
        };
        let path = std::env::join_paths(path.iter().map(|name| place(name))).unwrap();
        let in_view: Vec<PathBuf> = in_view.iter().map(|name| place(name)).collect();
        let exists = |path: &Path| in_view.iter().any(|known| path.starts_with(known));
        let found = path_directories(&path, &self.home(), &exists);
        let told = |path: &PathBuf| path.strip_prefix(&self.root).unwrap().display().to_string();
        found.iter().map(told).collect()
    }
}

fn check(files: &[&str], variables: &[(&str, &str)], expected: &[&str]) {
    let machine = Machine::new(files);
    assert_eq!(machine.shown(variables, &["project"]), expected, "{files:?} {variables:?}");
}

#[test]
fn directories_are_found_where_they_are_by_default() {
    check(&[], &[], &[]);
    check(&["person/.rustup/", "person/.npm/_cacache/"], &[], &["person/.npm", "person/.rustup"]);
    check(&["person/.rustup"], &[], &[]);
    check(
        &[
            "person/.local/lib/python3.12/",
            "person/.local/lib/python3.9/",
            "person/.local/lib/other/",
        ],
        &[],
        &["person/.local/lib/python3.12", "person/.local/lib/python3.9"],
    );
    check(&["person/.jdks/17/"], &[], &["person/.jdks ro"]);
    check(
        &["data/pnpm/", "person/.local/share/pnpm -> data/pnpm"],
        &[],
        &["person/.local/share/pnpm -> data/pnpm"],
    );
}

#[test]
fn credentials_are_masked() {
    for (files, expected) in [
        (&["person/.cargo/credentials.toml"][..], "person/.cargo !credentials !credentials.toml"),
        (
            &["person/.cargo/config.toml = [registry]\ntoken = \"x\""],
            "person/.cargo !config.toml !credentials !credentials.toml",
        ),
        (
            &["person/.cargo/config.toml = [build]\njobs = 2"],
            "person/.cargo !credentials !credentials.toml",
        ),
        (
            &["person/.config/pip/pip.conf = index-url = https://a:b@c/"],
            "person/.config/pip !pip.conf",
        ),
        (&["person/.config/pip/pip.conf = index-url = https://c/"], "person/.config/pip"),
        (
            &[
                "person/.gradle/gradle.properties = a=1",
                "person/.gradle/init.d/x.gradle = password 'x'",
            ],
            "person/.gradle !develocity !enterprise !init.d/x.gradle",
        ),
        (
            &["person/.nvm/versions/node/v1/etc/npmrc", "person/.nvm/versions/node/v2/bin/node"],
            "person/.nvm !versions/node/v1/etc/npmrc",
        ),
        (
            &["person/.m2/settings.xml = <password>x</password>"],
            "person/.m2 !settings-security.xml !settings-security4.xml !settings.xml",
        ),
        (
            &["person/.config/pnpm/rc = //r.example/:_authToken=x"],
            "person/.config/pnpm !auth.ini !rc",
        ),
        (&["person/.cabal/config = -- token:\njobs: 2"], "person/.cabal"),
        (&["person/.cabal/config = token: x"], "person/.cabal !config"),
        (
            &["person/.sbt/.credentials_x", "person/.sbt/1.0/a.sbt = x"],
            "person/.sbt !.credentials_x !gpg",
        ),
        (
            &["person/.nuget/NuGet/NuGet.Config = <ClearTextPassword>"],
            "person/.nuget !NuGet/NuGet.Config",
        ),
        // The target of a dangling link is unknown.
        (&["person/.config/uv/uv.toml -> nowhere"], "person/.config/uv !uv.toml"),
    ] {
        check(files, &[], &[expected]);
    }
}

#[test]
fn a_file_too_large_to_look_at_is_masked() {
    let text = format!("person/.pip/pip.conf = {}", "a=1\n".repeat(70_000));
    check(&[&text], &[], &["person/.pip !pip.conf"]);
}

#[test]
fn variables_move_directories() {
    let credentials = "!credentials !credentials.toml";
    let moved = format!("opt/cargo {credentials}");
    check(&["opt/cargo/"], &[("CARGO_HOME", "@/opt/cargo/")], &[&moved]);
    check(&["opt/jdk/"], &[("JAVA_HOME", "@/opt/jdk")], &["opt/jdk ro"]);
    check(&["a/pkg/", "a/src/", "b/bin/"], &[("GOPATH", "@/a:@/b:relative")], &["a/pkg", "b/bin"]);
    // Base directories move, but what is in them stays where programs look for it without the variable.
    check(
        &["big/pip/", "person/.cache/uv/"],
        &[("XDG_CACHE_HOME", "@/big")],
        &["person/.cache/pip -> big/pip"],
    );
    check(
        &["big/pip/", "person/.cache/uv/"],
        &[("XDG_CACHE_HOME", "@/big"), ("UV_CACHE_DIR", "@/person/.cache/uv")],
        &["person/.cache/pip -> big/pip", "person/.cache/uv"],
    );
    check(
        &["big/uv/", "person/.cache/uv/"],
        &[("XDG_CACHE_HOME", "@/big"), ("UV_CACHE_DIR", "@/person/.cache/uv")],
        &["person/.cache/uv -> big/uv"],
    );
}

#[test]
fn values_that_show_too_much_are_ignored() {
    let files =
        &["person/.ssh/x/", "person/.config/gh/", "person/Documents/", "opt/", "person/.cache/x/"];
    for value in [
        "/",
        "@",
        "@/person",
        "@/person/",
        "@/person/.ssh",
        "@/person/.ssh/x",
        "@/person/.config",
        "opt",
        "@/person/.config/gh",
        "@/person/x/../.ssh",
        "@/person/Documents",
        "@/person/.cache",
        "/etc",
        "/usr",
        "/proc/self",
        "/run/user",
        "",
        "@/absent",
    ] {
        check(files, &[("RUSTUP_HOME", value)], &[]);
    }
    check(files, &[("RUSTUP_HOME", "@/opt")], &["opt"]);
    let files = &["person/.ssh/x/", "opt/rust -> person/.ssh", "person/.rustup -> person/.ssh"];
    check(files, &[("RUSTUP_HOME", "@/opt/rust")], &[]);
}

#[test]
fn what_is_in_the_workspace_is_left_out() {
    let files = &["project/.cargo/", "project/go/", "person/.npm -> project/.cargo"];
    check(files, &[("CARGO_HOME", "@/project/.cargo"), ("GOCACHE", "@/project/go")], &[]);
}

#[test]
fn what_another_directory_shows_is_not_shown_twice() {
    check(
        &["person/.cargo/", "person/.cargo/gems/credentials"],
        &[("CARGO_HOME", "@/person/.cargo"), ("GEM_HOME", "@/person/.cargo/gems")],
        &["person/.cargo !credentials !credentials.toml !gems/credentials"],
    );
    // A directory that can be written to stays one below another that cannot.
    check(
        &["jdk/cache/"],
        &[("JAVA_HOME", "@/jdk"), ("GOCACHE", "@/jdk/cache")],
        &["jdk ro", "jdk/cache"],
    );
    check(&["sdk/"], &[("JAVA_HOME", "@/sdk"), ("ANDROID_HOME", "@/sdk")], &["sdk"]);
    // A link inside leads elsewhere, so the outer directory does not show it.
    check(
        &["person/.bun/", "data/bin/", "person/.bun/bin -> data/bin"],
        &[("BUN_INSTALL_CACHE_DIR", "@/person/.bun/bin")],
        &["person/.bun", "person/.bun/bin -> data/bin"],
    );
}

#[test]
fn the_table_is_in_order() {
    let mut defaults = BTreeSet::new();
    for row in TABLE {
        assert!(!row.name.is_empty());
        assert!(row.variables.len() + row.defaults.len() > 0, "{}", row.name);
        for default in row.defaults {
            assert!(defaults.insert(default), "{default} stands twice");
            assert!(!default.ends_with('/') && !default.contains(".."), "{default}");
        }
        for inside in row.credentials.iter().chain(row.suspects) {
            assert!(Path::new(inside).is_relative() && !inside.contains(".."), "{inside}");
        }
    }
    let names: Vec<&str> = variables().collect();
    assert!(names.contains(&"GOPATH") && names.iter().all(|name| !name.contains('/')));
    for list in LIST_VARIABLES {
        assert!(names.contains(list), "{list} is no variable of the table");
    }
    for base in BASE_VARIABLES {
        assert!(!names.contains(&base.1), "{} is not passed on", base.1);
    }
}

#[test]
fn directories_on_the_path_are_found() {
    let machine = Machine::new(&[
        "person/bin/own",
        "person/bin/foo -> srv/foo/bin/foo",
        "srv/foo/bin/foo -> srv/foo/lib/foo.js",
        "srv/foo/lib/foo.js",
        "person/bin/key -> person/.ssh/tool",
        "person/.ssh/tool",
        "person/bin/directory -> srv/other",
        "srv/other/x",
        "person/bin/nowhere -> srv/nowhere",
        "opt/tool/bin/tool",
        "person/.local/bin/pip -> pipx/bin/pip",
        "pipx/bin/pip",
        "file",
    ]);
    for (path, in_view, expected) in [
        (&["@person/bin"][..], &[][..], &["person/bin", "srv/foo/bin", "srv/foo/lib"][..]),
        (&["@person/bin"], &["@srv"], &["person/bin"]),
        (&["@person/.local/bin"], &["@person/.local"], &["pipx/bin"]),
        (&["@opt/tool/bin", "@opt/tool/bin/", "/usr/bin", "/bin"], &["/usr"], &["opt/tool/bin"]),
        (&["@", "/", "@person", "@person/.ssh", "@file", "@absent", "person/bin", ""], &[], &[]),
    ] {
        assert_eq!(machine.path_directories(path, in_view), expected, "{path:?}");
    }
}

#[test]
fn links_on_the_path_add_a_bounded_number_of_directories() {
    let names: Vec<String> = (0..80).map(|n| format!("srv/{n}/x")).collect();
    let links: Vec<String> = (0..80).map(|n| format!("person/bin/{n} -> srv/{n}/x")).collect();
    let files: Vec<&str> = names.iter().chain(&links).map(String::as_str).collect();
    let found = Machine::new(&files).path_directories(&["@person/bin"], &[]);
    assert_eq!(found.len(), 1 + 50);
}
