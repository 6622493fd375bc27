//! Projects in Python: pytest where anything speaks of it, else what the tests themselves use.

use std::ffi::OsStr;
use std::path::Path;

use super::super::command::{Filter, TestCommand};
use super::Here;

/// A project that says that it is one.
pub(super) fn python(here: &Here<'_>, below: &Path) -> Option<TestCommand> {
    let is_marked = here.has_one_of(&[
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "tox.ini",
        "pytest.ini",
        "Pipfile",
        "manage.py",
    ]);
    if is_marked || requirements(here).next().is_some() { loose(here, below) } else { None }
}

/// Tests where nothing says that there is a project.
pub(super) fn loose(here: &Here<'_>, below: &Path) -> Option<TestCommand> {
    let has_pytest = has_pytest(here);
    let is_django = here.says("manage.py", "django");
    let tests = tests(here);
    if !has_pytest && !is_django && tests.is_empty() {
        return None;
    }
    let command = |words: &[&'static str]| {
        TestCommand::new(&[interpreter(here), words].concat(), Filter::Behind(&["-k"]))
    };
    if has_pytest || (!is_django && !uses_unittest(&tests)) {
        let pytest = command(&["-m", "pytest", "-q"]);
        let place = below.to_str().filter(|below| !below.is_empty() && !below.starts_with('-'));
        return Some(pytest.and(place.map(str::to_owned)));
    }
    if is_django {
        return Some(command(&["manage.py", "test"]));
    }
    // Unless `tests` is a package, what is in it is found only from inside.
    if here.has("tests") && !here.has_in("tests", "__init__.py") {
        return Some(command(&["-m", "unittest", "discover", "-s", "tests"]));
    }
    Some(command(&["-m", "unittest"]))
}

/// Whether anything here says that tests are pytest's.
fn has_pytest(here: &Here<'_>) -> bool {
    let is_configured =
        here.has_one_of(&["pytest.ini", "conftest.py"]) || here.has_in("tests", "conftest.py");
    let mut mentions = ["pyproject.toml", "setup.cfg", "tox.ini", "Pipfile"].into_iter();
    is_configured
        || mentions.any(|name| here.says(name, "pytest"))
        || requirements(here).any(|name| here.says(name, "pytest"))
}

/// Lists of packages.
fn requirements<'h>(here: &'h Here<'_>) -> impl Iterator<Item = &'h str> {
    let names = here.names.iter().filter_map(|(name, _)| name.to_str());
    names.filter(|name| name.starts_with("requirements") && has_ending(OsStr::new(name), "txt"))
}

/// The text of some test files, here or in `tests`.
fn tests(here: &Here<'_>) -> Vec<String> {
    let is_test = |name: &OsStr| {
        let stem = Path::new(name).file_stem().and_then(OsStr::to_str).unwrap_or_default();
        has_ending(name, "py") && (stem.starts_with("test") || stem.ends_with("_test"))
    };
    let mut texts = Vec::new();
    for place in ["", "tests", "test"] {
        let directory = here.directory.join(place);
        let names = here.scene.names(&directory).into_iter().filter(|(name, _)| is_test(name));
        let files = names.map(|(name, _)| directory.join(name)).take(10);
        texts.extend(files.filter_map(|file| here.beginning_of(&file)));
    }
    texts
}

fn uses_unittest(tests: &[String]) -> bool {
    let says = |word: &str| tests.iter().any(|text| text.contains(word));
    says("unittest") && !says("pytest")
}

fn has_ending(name: &OsStr, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|have| have == ending)
}

/// Python as the project has it.
fn interpreter(here: &Here<'_>) -> &'static [&'static str] {
    if here.has_in(".venv/bin", "python") {
        &[".venv/bin/python"]
    } else if here.has_in("venv/bin", "python") {
        &["venv/bin/python"]
    } else if here.has("uv.lock") {
        &["uv", "run", "python"]
    } else if here.has("poetry.lock") {
        &["poetry", "run", "python"]
    } else {
        &["python3"]
    }
}
