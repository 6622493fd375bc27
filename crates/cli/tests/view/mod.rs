//! The view: the part of the machine that a confined program sees. Nothing that its session may not read is in it (`reading`),
//! nothing outside is reached from it (`escape`), everyday work goes on in it as it does outside (`everyday`, `home`), and it can be
//! made on every distribution (`layouts`).

mod attempt;
mod encodings;
mod escape;
mod everyday;
mod home;
mod layouts;
mod project;
mod reach;
mod readers;
mod reading;
mod trees;
mod world;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Deterministic random numbers (`SplitMix64`).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let count = u64::try_from(items.len()).expect("a count");
        &items[usize::try_from(self.next() % count).expect("an index")]
    }
}

/// Writes a file and creates its directories.
fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The search path without directories below the real home: a test has a home of its own, so those are not in its view.
fn system_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let is_system =
        |directory: &PathBuf| home.as_os_str().is_empty() || !directory.starts_with(&home);
    std::env::join_paths(std::env::split_paths(&path).filter(is_system)).expect("a search path")
}

/// Returns whether a program is on the search path of the tests.
fn is_installed(program: &str) -> bool {
    std::env::split_paths(&system_path()).any(|directory| directory.join(program).is_file())
}
