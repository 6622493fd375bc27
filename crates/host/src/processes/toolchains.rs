//! Finds the directories of toolchains that a program's home shows: compilers, package managers and their caches.
//!
//! Credentials are never shown. A row of the table names the files that always hold some, and configuration files that are masked if a
//! credential is found in them. This module mounts nothing and reads no environment: variables are passed in.

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
use self::table::{BASE_VARIABLES, LIST_VARIABLES, TABLE, ToolchainRow};

/// Prefix below which the view shows everything anyway.
const SYSTEM_PREFIX: &str = "/usr";

/// A directory of the machine that a program's home shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownDirectory {
    /// Name of its toolchain.
    pub(super) toolchain: &'static str,
    /// The directory: absolute, without links.
    pub(super) path: PathBuf,
    /// Absolute path at which programs look for it: below the home directory, or a variable's value.
    pub(super) shown_at: PathBuf,
    /// Files and directories with credentials, relative to `path`. Some may not exist.
    pub(super) masked: Vec<PathBuf>,
    /// True if programs get an overlay of it that they can change; otherwise it is read-only.
    pub(super) is_writable: bool,
}

/// Iterates over all variables that move directories of toolchains. Programs get those that are set.
pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.variables).map(|variable| split(variable).0)
}

/// Returns the existing directories of toolchains, ordered by the path at which they are shown, without those in `exclude`.
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
    // Of two at one path, the writable one comes first.
    found.sort_by(|a, b| a.shown_at.cmp(&b.shown_at).then(b.is_writable.cmp(&a.is_writable)));
    without_nested(found)
}

/// Finds directories by the rows of the table.
struct Finder<'a> {
    home: &'a Path,
    real_home: PathBuf,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    exclude: &'a [PathBuf],
    /// Base directories that a variable moved, with their default paths.
    bases: Vec<(&'static str, PathBuf)>,
    listings: Listings,
}

impl Finder<'_> {
    /// Returns the directories of one row.
    fn row(&self, row: &ToolchainRow) -> Vec<ShownDirectory> {
        let mut found = Vec::new();
        for default in row.defaults {
            for (real, shown_at) in self.places(default) {
                if is_showable_by_default(&shown_at, self.home) {
                    found.extend(self.checked(row, &real, shown_at));
                }
            }
        }
        for variable in row.variables {
            for value in self.values(variable) {
                let is_default =
                    row.defaults.iter().any(|default| self.home.join(default) == value)
                        && is_showable_by_default(&value, self.home);
                if is_default || is_showable(&value, self.home) {
                    found.extend(self.checked(row, &value.clone(), value));
                }
            }
        }
        found
    }

    /// Returns a default directory with the path at which it is shown; several if it has a `*`.
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

    /// Returns the directories that a variable of a row names.
    fn values(&self, variable: &str) -> Vec<PathBuf> {
        let (name, below) = split(variable);
        let Some(value) = (self.variable)(name) else { return Vec::new() };
        let values = if LIST_VARIABLES.contains(&name) {
            std::env::split_paths(&value).collect()
        } else {
            vec![PathBuf::from(value)]
        };
        let joined = values.iter().map(|value| value.join(below).components().collect());
        joined.filter(|path: &PathBuf| path.is_absolute()).collect()
    }

    /// Returns a directory if it exists and may be shown.
    fn checked(
        &self,
        row: &ToolchainRow,
        real: &Path,
        shown_at: PathBuf,
    ) -> Option<ShownDirectory> {
        if !fs::metadata(real).ok()?.is_dir() {
            return None;
        }
        let path = fs::canonicalize(real).ok()?;
        let is_safe = is_showable_by_default(&path, &self.real_home);
        let is_excluded = |place: &PathBuf| path.starts_with(place) || shown_at.starts_with(place);
        let is_there = !row.is_writable && shown_at.starts_with(SYSTEM_PREFIX);
        if !is_safe || is_there || self.exclude.iter().any(is_excluded) {
            return None;
        }
        let masked = masks::masked(&path, row);
        let ToolchainRow { name: toolchain, is_writable, .. } = *row;
        Some(ShownDirectory { toolchain, path, shown_at, masked, is_writable })
    }
}

/// Splits `NAME/below`; the second part is empty without a slash.
fn split(variable: &str) -> (&str, &str) {
    variable.split_once('/').unwrap_or((variable, ""))
}

/// Returns the base directories that a variable moves.
fn bases(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<(&'static str, PathBuf)> {
    let moved = |(base, name): &(&'static str, &str)| Some((*base, variable(name)?.into()));
    BASE_VARIABLES
        .iter()
        .filter_map(moved)
        .filter(|(_, path): &(_, PathBuf)| path.is_absolute())
        .collect()
}

/// Removes directories that another one shows at the same path, which then masks what they mask.
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

/// Returns the path of a directory inside one that covers it, if it does. Each path can show only one directory.
fn covered(outer: &ShownDirectory, inner: &ShownDirectory) -> Option<PathBuf> {
    let inside = inner.shown_at.strip_prefix(&outer.shown_at).ok()?;
    let is_same =
        inside.as_os_str().is_empty() || inner.path.strip_prefix(&outer.path) == Ok(inside);
    (is_same && (outer.is_writable || !inner.is_writable)).then(|| inside.to_owned())
}
