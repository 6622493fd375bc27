//! The secrets of this person and this workspace: found once, when the first text is to be cleaned.
//!
//! They are looked for where programs keep them: in variables whose names tell, in the files of well-known programs, in the `.env`
//! files of the workspace, and where the configuration says. Files are small and few, and one that is not there costs nothing worth
//! speaking of. What is found is known to the process alone.

mod files;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use windlass::policy::Secrets;

use crate::settings::{Environment, Places};

/// More are not looked for at a time: each has some dozens of forms.
const MOST: usize = 256;

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a variable of the environment.
    Variable(String),
    /// In a file, all of it.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(format!("`{text}` is no place for a secret: it is env:NAME or file:PATH")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Place {
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

/// All secrets that can be found here. They are looked for when the first text is to be cleaned.
pub(crate) fn known(
    workspace: &Path,
    configured: BTreeMap<String, Place>,
    places: &Places,
) -> Secrets {
    let (workspace, places) = (workspace.to_owned(), places.clone());
    Secrets::when_needed(move || {
        let (home, environment) = (places.home.as_deref(), &places.environment);
        // Those that a person has named come first, and under that name.
        let named = configured
            .iter()
            .filter_map(|(name, place)| Some((name.clone(), place.value(home, environment)?)));
        let variables =
            environment.iter().filter_map(|(name, value)| values::of_variable(name, value));
        let files = home.into_iter().flat_map(files::of_person);
        distinct(named.chain(variables).chain(files).chain(files::of_workspace(&workspace)))
    })
}

/// Each value once, under the first of its names.
fn distinct(found: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut values = std::collections::HashSet::new();
    found.filter(|(_, value)| values.insert(value.clone())).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["env:TOKEN", "file:/run/secrets/a:b", "file:~/key"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "TOKEN", "env:", "command:pass show x"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_is_a_file_without_its_last_line_end_or_a_variable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "two\nlines-of-it\n").unwrap();
        let place = Place::File("~/key".into());
        let none = Environment::default();
        assert_eq!(place.value(Some(directory.path()), &none).as_deref(), Some("two\nlines-of-it"));
        assert_eq!(Place::File(path.join("none")).value(None, &none), None);
        let environment = Environment::new([("A".into(), "one".into())]);
        assert_eq!(Place::Variable("A".into()).value(None, &environment).as_deref(), Some("one"));
        assert_eq!(Place::Variable("B".into()).value(None, &environment), None);
    }

    #[test]
    fn the_first_name_of_a_value_is_its_name() {
        let found = [("A", "1"), ("B", "2"), ("C", "1")];
        let found = found.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names: Vec<String> = distinct(found).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["A", "B"]);
    }
}
