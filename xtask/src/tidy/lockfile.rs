//! Checks that Cargo.lock has no banned package, also as an indirect dependency.

use super::File;

/// A package that must not be in Cargo.lock, and why.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-sys", "it needs cmake and a minute to build; use rustls with ring"),
    ("openssl-sys", "it ties the binary to the machine's OpenSSL; use rustls with ring"),
];

pub(super) fn find(files: &[File]) -> Vec<String> {
    let Some(lock) = files.iter().find(|file| file.path == "Cargo.lock") else {
        return vec!["Cargo.lock is not tracked: builds would differ".into()];
    };
    BANNED
        .iter()
        .filter(|(package, _)| lock.text.contains(&format!("name = \"{package}\"")))
        .map(|(package, why)| {
            format!("{package} came in: {why} (`cargo tree -i {package}` says through whom)")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn banned_packages_are_found_by_their_whole_name() {
        for (lock, findings) in [
            ("[[package]]\nname = \"aws-lc-sys\"\n", 1),
            ("[[package]]\nname = \"aws-lc-sys-not\"\n", 0),
            ("", 0),
        ] {
            assert_eq!(find(&[file("Cargo.lock", lock)]).len(), findings, "{lock}");
        }
        assert_eq!(find(&[]).len(), 1);
    }
}
