//! Finds the directories of toolchains that a program's home shows: compilers, package managers and their caches.
//!
//! Credentials are never among them. A row of the table names the files that always hold some, and configuration files that are
//! masked if one is found in them. Nothing here mounts anything, and nothing reads the environment: variables are given.

mod listing;
mod masks;
mod path;
mod showable;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use self::listing::Listings;
pub(super) use self::path::path_directories;
use self::showable::{is_showable, is_showable_by_default};
use self::table::{BASES, LISTS, Row, TABLE};

/// The prefix below which the view has everything anyway.
const SYSTEM: &str = "/usr";

/// A directory of the machine that a program's home shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownDirectory {
    /// The name of its toolchain.
    pub(super) toolchain: &'static str,
    /// The directory: absolute, with no link in it.
    pub(super) path: PathBuf,
    /// The absolute path at which programs look for it: below the home directory, or a variable's value.
    pub(super) shown_at: PathBuf,
    /// Files and directories with credentials, relative to `path`. Some may not exist.
    pub(super) masked: Vec<PathBuf>,
    /// Programs change an overlay of it. Otherwise they cannot write to it.
    pub(super) is_writable: bool,
}

/// All variables that move directories of toolchains. Programs get those that are set.
pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.variables).map(|variable| split(variable).0)
}

/// The directories of toolchains that exist, ordered by where they are shown. Those in `exclude` are left out.
pub(super) fn shown(
    home: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
    exclude: &[PathBuf],
) -> Vec<ShownDirectory> {
    let real_home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let finder = Finder {
        home,
        real_home,
        variable,
        exclude,
        bases: bases(variable),
        listings: Listings::default(),
    };
    let mut found: Vec<ShownDirectory> = TABLE.iter().flat_map(|row| finder.row(row)).collect();
    // Of two at one place, the writable one comes first.
    found.sort_by(|a, b| a.shown_at.cmp(&b.shown_at).then(b.is_writable.cmp(&a.is_writable)));
    without_nested(found)
}

struct Finder<'a> {
    home: &'a Path,
    real_home: PathBuf,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    exclude: &'a [PathBuf],
    /// Base directories that a variable moved, with where they are by default.
    bases: Vec<(&'static str, PathBuf)>,
    listings: Listings,
}

impl Finder<'_> {
    fn row(&self, row: &Row) -> Vec<ShownDirectory> {
        let mut found = Vec::new();
        for default in row.defaults {
            for (real, shown_at) in self.places(default) {
                if is_showable_by_default(&shown_at, self.home) {
                    found.extend(self.found(row, &real, shown_at));
                }
            }
        }
        for variable in row.variables {
            for value in self.values(variable) {
                let is_default =
                    row.defaults.iter().any(|default| self.home.join(default) == value)
                        && is_showable_by_default(&value, self.home);
                if is_default || is_showable(&value, self.home) {
                    found.extend(self.found(row, &value.clone(), value));
                }
            }
        }
        found
    }

    /// A default directory with where it is shown; several if it has a `*`.
    fn places(&self, default: &str) -> Vec<(PathBuf, PathBuf)> {
        let moved = self.bases.iter().find_map(|(base, moved)| {
            let rest = default.strip_prefix(base)?.strip_prefix('/')?;
            Some((moved.as_path(), self.home.join(base), rest))
        });
        let (real, shown, rest) = moved.unwrap_or((self.home, self.home.to_owned(), default));
        let pattern = rest.split_once('*').map(|(start, _)| start);
        let fixed = pattern.map_or(rest, |start| start.rsplit_once('/').unwrap_or_default().0);
        if !self.listings.may_exist(real, &real.join(fixed)) {
            return Vec::new();
        }
        if pattern.is_none() {
            return vec![(real.join(rest), shown.join(rest))];
        }
        let names = masks::expand(real, rest);
        names.into_iter().map(|name| (real.join(&name), shown.join(&name))).collect()
    }

    /// The directories that a variable of a row names.
    fn values(&self, variable: &str) -> Vec<PathBuf> {
        let (name, below) = split(variable);
        let Some(value) = (self.variable)(name) else { return Vec::new() };
        let values = if LISTS.contains(&name) {
            std::env::split_paths(&value).collect()
        } else {
            vec![PathBuf::from(value)]
        };
        let joined = values.iter().map(|value| value.join(below).components().collect());
        joined.filter(|path: &PathBuf| path.is_absolute()).collect()
    }

    fn found(&self, row: &Row, real: &Path, shown_at: PathBuf) -> Option<ShownDirectory> {
        if !fs::metadata(real).ok()?.is_dir() {
            return None;
        }
        let path = fs::canonicalize(real).ok()?;
        let is_safe = is_showable_by_default(&path, &self.real_home);
        let is_excluded = |place: &PathBuf| path.starts_with(place) || shown_at.starts_with(place);
        let is_there = !row.is_writable && shown_at.starts_with(SYSTEM);
        if !is_safe || is_there || self.exclude.iter().any(is_excluded) {
            return None;
        }
        let masked = masks::masked(&path, row);
        let Row { name: toolchain, is_writable, .. } = *row;
        Some(ShownDirectory { toolchain, path, shown_at, masked, is_writable })
    }
}

/// Splits `NAME/below`.
fn split(variable: &str) -> (&str, &str) {
    variable.split_once('/').unwrap_or((variable, ""))
}

fn bases(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<(&'static str, PathBuf)> {
    let moved = |(base, name): &(&'static str, &str)| Some((*base, variable(name)?.into()));
    BASES.iter().filter_map(moved).filter(|(_, path): &(_, PathBuf)| path.is_absolute()).collect()
}

/// Leaves out directories that another one shows at the same place, which then masks what they mask.
fn without_nested(found: Vec<ShownDirectory>) -> Vec<ShownDirectory> {
    let mut kept: Vec<ShownDirectory> = Vec::new();
    for shown in found {
        match kept.iter_mut().find_map(|outer| covered(outer, &shown).map(|inside| (outer, inside)))
        {
            Some((outer, inside)) => {
                outer.masked.extend(shown.masked.iter().map(|mask| inside.join(mask)));
            }
            None => kept.push(shown),
        }
    }
    for shown in &mut kept {
        shown.masked.sort();
        shown.masked.dedup();
    }
    kept
}

/// The path of a directory inside one that covers it. There is only one at each place.
fn covered(outer: &ShownDirectory, inner: &ShownDirectory) -> Option<PathBuf> {
    let inside = inner.shown_at.strip_prefix(&outer.shown_at).ok()?;
    let is_same =
        inside.as_os_str().is_empty() || inner.path.strip_prefix(&outer.path) == Ok(inside);
    (is_same && (outer.is_writable || !inner.is_writable)).then(|| inside.to_owned())
}
