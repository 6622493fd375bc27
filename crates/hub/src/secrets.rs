//! Finds the secrets of this person and this workspace, once, when the first text must be redacted.
//!
//! It searches the places in which programs keep secrets: variables with telling names, the files of well-known programs, the
//! `.env` files of the workspace, and the sources in the configuration. These files are small and few, and a missing one costs
//! almost nothing. Only this process knows the values.

mod files;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use windlass::policy::Secrets;

use crate::settings::{Environment, Places};

/// Maximum number of secrets. Redaction searches for dozens of encoded forms of each.
const MAX_SECRETS: usize = 256;

/// Source of a configured secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretSource {
    /// A variable of the environment.
    Variable(String),
    /// The whole content of a file.
    File(PathBuf),
}

/// Error of a text that names no source of a secret.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no place for a secret: it is env:NAME or file:PATH")]
pub(crate) struct SecretSourceError(String);

impl FromStr for SecretSource {
    type Err = SecretSourceError;

    fn from_str(text: &str) -> Result<Self, SecretSourceError> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(SecretSourceError(text.to_owned())),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl SecretSource {
    /// Returns the secret, without its final line end; `None` if it cannot be read.
    fn value(&self, home: Option<&Path>, environment: &Environment) -> Option<String> {
        match self {
            Self::Variable(name) => environment.get(name).map(str::to_owned),
            Self::File(path) => {
                let text = match (path.strip_prefix("~"), home) {
                    (Ok(below), Some(home)) => files::read(&home.join(below))?,
                    _ => files::read(path)?,
                };
                Some(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

/// Returns all secrets that can be found here. The search runs when the first text must be redacted.
pub(crate) fn find_when_needed(
    workspace: &Path,
    configured: BTreeMap<String, SecretSource>,
    places: &Places,
) -> Secrets {
    let (workspace, places) = (workspace.to_owned(), places.clone());
    Secrets::when_needed(move || {
        let (home, environment) = (places.home.as_deref(), &places.environment);
        // Secrets that a person has named come first, so that they keep their names.
        let named = configured
            .iter()
            .filter_map(|(name, place)| Some((name.clone(), place.value(home, environment)?)));
        let variables =
            environment.iter().filter_map(|(name, value)| values::of_variable(name, value));
        let files = home.into_iter().flat_map(files::of_person);
        distinct_values(named.chain(variables).chain(files).chain(files::of_workspace(&workspace)))
    })
}

/// Returns each value once, under the first of its names.
fn distinct_values(found: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut values = std::collections::HashSet::new();
    found.filter(|(_, value)| values.insert(value.clone())).take(MAX_SECRETS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["env:TOKEN", "file:/run/secrets/a:b", "file:~/key"] {
            assert_eq!(text.parse::<SecretSource>().unwrap().to_string(), text);
        }
        for text in ["", "TOKEN", "env:", "command:pass show x"] {
            assert!(text.parse::<SecretSource>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_is_a_file_without_its_last_line_end_or_a_variable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "two\nlines-of-it\n").unwrap();
        let place = SecretSource::File("~/key".into());
        let none = Environment::default();
        assert_eq!(place.value(Some(directory.path()), &none).as_deref(), Some("two\nlines-of-it"));
        assert_eq!(SecretSource::File(path.join("none")).value(None, &none), None);
        let environment = Environment::new([("A".into(), "one".into())]);
        assert_eq!(
            SecretSource::Variable("A".into()).value(None, &environment).as_deref(),
            Some("one")
        );
        assert_eq!(SecretSource::Variable("B".into()).value(None, &environment), None);
    }

    #[test]
    fn the_first_name_of_a_value_is_its_name() {
        let found = [("A", "1"), ("B", "2"), ("C", "1")];
        let found = found.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names: Vec<String> = distinct_values(found).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["A", "B"]);
    }
}
