//! Detects Python projects: pytest if a file mentions it, otherwise the framework that the tests use.

use std::ffi::OsStr;
use std::path::Path;

use super::super::command::{FilterForm, TestCommand};
use super::Candidate;

/// Detects a directory with a file that marks a Python project.
pub(super) fn python(candidate: &Candidate<'_>, below: &Path) -> Option<TestCommand> {
    let is_marked = candidate.has_one_of(&[
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "tox.ini",
        "pytest.ini",
        "Pipfile",
        "manage.py",
    ]);
    if is_marked || requirements(candidate).next().is_some() {
        python_tests(candidate, below)
    } else {
        None
    }
}

/// Detects Python tests in any directory.
pub(super) fn python_tests(candidate: &Candidate<'_>, below: &Path) -> Option<TestCommand> {
    let has_pytest = has_pytest(candidate);
    let is_django = candidate.file_contains("manage.py", "django");
    let tests = test_texts(candidate);
    if !has_pytest && !is_django && tests.is_empty() {
        return None;
    }
    let command = |words: &[&'static str]| {
        TestCommand::new(&[interpreter(candidate), words].concat(), FilterForm::Behind(&["-k"]))
    };
    if has_pytest || (!is_django && !uses_unittest(&tests)) {
        let pytest = command(&["-m", "pytest", "-q"]);
        let requested_path =
            below.to_str().filter(|below| !below.is_empty() && !below.starts_with('-'));
        return Some(pytest.with_words(requested_path.map(str::to_owned)));
    }
    if is_django {
        return Some(command(&["manage.py", "test"]));
    }
    // Unless `tests` is a package, its modules are found only from inside.
    if candidate.has("tests") && !candidate.has_in("tests", "__init__.py") {
        return Some(command(&["-m", "unittest", "discover", "-s", "tests"]));
    }
    Some(command(&["-m", "unittest"]))
}

/// Returns whether a file here shows that the tests use pytest.
fn has_pytest(candidate: &Candidate<'_>) -> bool {
    let is_configured = candidate.has_one_of(&["pytest.ini", "conftest.py"])
        || candidate.has_in("tests", "conftest.py");
    let mut mentions = ["pyproject.toml", "setup.cfg", "tox.ini", "Pipfile"].into_iter();
    is_configured
        || mentions.any(|name| candidate.file_contains(name, "pytest"))
        || requirements(candidate).any(|name| candidate.file_contains(name, "pytest"))
}

/// Returns the names of requirements files.
fn requirements<'h>(candidate: &'h Candidate<'_>) -> impl Iterator<Item = &'h str> {
    let names = candidate.names.iter().filter_map(|(name, _)| name.to_str());
    names.filter(|name| name.starts_with("requirements") && has_ending(OsStr::new(name), "txt"))
}

/// Returns the texts of some test files, here and in `tests` or `test`.
fn test_texts(candidate: &Candidate<'_>) -> Vec<String> {
    let is_test = |name: &OsStr| {
        let stem = Path::new(name).file_stem().and_then(OsStr::to_str).unwrap_or_default();
        has_ending(name, "py") && (stem.starts_with("test") || stem.ends_with("_test"))
    };
    let mut texts = Vec::new();
    for name in ["", "tests", "test"] {
        let directory = candidate.directory.join(name);
        let names = candidate.scene.names(&directory).into_iter().filter(|(name, _)| is_test(name));
        let files = names.map(|(name, _)| directory.join(name)).take(10);
        texts.extend(files.filter_map(|file| candidate.read_beginning(&file)));
    }
    texts
}

/// Returns whether the tests mention unittest and not pytest.
fn uses_unittest(tests: &[String]) -> bool {
    let says = |word: &str| tests.iter().any(|text| text.contains(word));
    says("unittest") && !says("pytest")
}

/// Returns whether a file name has this extension.
fn has_ending(name: &OsStr, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|have| have == ending)
}

/// Returns the Python command of the project: of a virtual environment, of uv or Poetry, or `python3`.
fn interpreter(candidate: &Candidate<'_>) -> &'static [&'static str] {
    if candidate.has_in(".venv/bin", "python") {
        &[".venv/bin/python"]
    } else if candidate.has_in("venv/bin", "python") {
        &["venv/bin/python"]
    } else if candidate.has("uv.lock") {
        &["uv", "run", "python"]
    } else if candidate.has("poetry.lock") {
        &["poetry", "run", "python"]
    } else {
        &["python3"]
    }
}
