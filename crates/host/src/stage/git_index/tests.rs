//! Indexes that git wrote are changed, used by git in a tree without the masked files, and changed back.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Settings that make git write each kind of index.
const KINDS: &[(&str, &[&str])] = &[
    ("version 2", &["index.version=2"]),
    ("version 4", &["index.version=4"]),
    ("no checksum", &["index.version=2", "index.skipHash=true"]),
    ("untracked cache", &["index.version=4", "core.untrackedCache=true"]),
    ("offsets", &["index.version=2", "index.threads=2"]),
    ("offsets of compressed names", &["index.version=4", "index.threads=2"]),
];

const HASHES: &[&str] = &["sha1", "sha256"];

struct Repository {
    _directory: TempDir,
    path: PathBuf,
    settings: Vec<String>,
}

impl Repository {
    fn new(hash: &str, settings: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("repository");
        fs::create_dir(&path).unwrap();
        let settings = settings.iter().flat_map(|setting| ["-c".into(), (*setting).into()]);
        let repository = Self { _directory: directory, path, settings: settings.collect() };
        repository.git(&["init", "-q", "-b", "main", "--object-format", hash]);
        repository
    }

    /// Creates a repository with a commit of some files, two of which are masked.
    fn with_files(hash: &str, settings: &[&str]) -> Self {
        let repository = Self::new(hash, settings);
        for name in ["a", "dir/b", "dir/key.pem", "dir/z", ".env", "mod/c"] {
            repository.put(name, name);
        }
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-q", "-m", "first"]);
        repository
    }

    fn put(&self, name: &str, content: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let (is_success, text) = self.try_git(arguments);
        assert!(is_success, "git {arguments:?}: {text}");
        text
    }

    fn try_git(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("git");
        command.current_dir(&self.path).args(&self.settings).args(arguments);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        for (name, value) in [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")] {
            command.env(name, value);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "a@b");
        }
        let output = command.output().expect("git is needed for this test");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn index_path(&self) -> PathBuf {
        self.path.join(".git/index")
    }

    fn index(&self) -> Vec<u8> {
        fs::read(self.index_path()).unwrap()
    }

    fn set_index(&self, bytes: &[u8]) {
        let path = self.index_path();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, bytes).unwrap();
        fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }

    /// Hides the masked files, and removes them from the tree.
    fn hide(&self) -> Vec<Vec<u8>> {
        let hidden = hide(&self.index(), &is_masked).unwrap().unwrap();
        self.set_index(&hidden.bytes);
        for path in &hidden.paths {
            fs::remove_file(self.path.join(Path::new(std::str::from_utf8(path).unwrap()))).unwrap();
        }
        hidden.paths
    }

    fn show(&self, paths: &[Vec<u8>]) {
        self.set_index(&show(&self.index(), paths).unwrap().unwrap());
    }
}

fn is_masked(path: &[u8]) -> bool {
    path == b".env" || path.ends_with(b".pem")
}

fn on_each_kind(check: impl Fn(&str, &Repository)) {
    for hash in HASHES {
        for (name, settings) in KINDS {
            check(&format!("{hash}, {name}"), &Repository::with_files(hash, settings));
        }
    }
}

#[test]
fn each_kind_of_index_has_its_features() {
    for (name, settings) in KINDS {
        let index = Repository::with_files("sha1", settings).index();
        let has = |extension: &[u8]| index.windows(4).any(|bytes| bytes == extension);
        assert_eq!(index[7], if settings[0].ends_with('4') { 4 } else { 2 }, "{name}");
        assert_eq!(has(b"EOIE") && has(b"IEOT"), name.starts_with("offsets"), "{name}");
        assert_eq!(index.ends_with(&[0; 20]), *name == "no checksum", "{name}");
        assert_eq!(has(b"UNTR"), *name == "untracked cache", "{name}");
    }
}

#[test]
fn clearing_the_bits_restores_the_bytes() {
    on_each_kind(|kind, repository| {
        let index = repository.index();
        let hidden = hide(&index, &is_masked).unwrap().unwrap();
        assert_eq!(hidden.paths, [b".env".to_vec(), b"dir/key.pem".to_vec()], "{kind}");
        assert!(show(&hidden.bytes, &hidden.paths).unwrap().unwrap() == index, "{kind}");
        assert_eq!(hide(&hidden.bytes, &is_masked), Ok(None), "{kind}: hidden twice");
        assert_eq!(show(&index, &hidden.paths), Ok(None), "{kind}: shown twice");
        assert_eq!(hide(&index, &|_| false), Ok(None), "{kind}");
    });
}

#[test]
fn bytes_are_equal_to_those_that_git_writes() {
    on_each_kind(|kind, repository| {
        let hidden = hide(&repository.index(), &is_masked).unwrap().unwrap();
        repository.git(&["update-index", "--skip-worktree", ".env", "dir/key.pem"]);
        // Git drops the cached trees of changed entries; this creates them again.
        repository.git(&["write-tree"]);
        // It also drops the cache of untracked files.
        if !kind.ends_with("untracked cache") {
            assert!(hidden.bytes == repository.index(), "{kind}");
        }
    });
}

#[test]
fn git_takes_hidden_files_for_unchanged() {
    on_each_kind(|kind, repository| {
        let index = repository.index();
        let paths = repository.hide();
        let tags = repository.git(&["ls-files", "-t"]);
        assert_eq!(tags, "S .env\nH a\nH dir/b\nS dir/key.pem\nH dir/z\nH mod/c\n", "{kind}");
        repository.git(&["fsck", "--no-dangling"]);
        for command in [&["status", "--porcelain"][..], &["diff"], &["diff", "HEAD"]] {
            assert_eq!(repository.git(command), "", "{kind}: {command:?}");
        }
        repository.git(&["add", "-A"]);
        assert_eq!(repository.git(&["diff", "--cached"]), "", "{kind}");
        repository.show(&paths);
        let deleted = " D .env\n D dir/key.pem\n";
        assert_eq!(repository.git(&["status", "--porcelain"]), deleted, "{kind}");
        for path in [".env", "dir/key.pem"] {
            repository.put(path, path);
        }
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{kind}");
        assert_eq!(repository.index()[7], index[7], "{kind}: version");
    });
}

#[test]
fn commands_that_write_the_index_keep_hidden_files() {
    on_each_kind(|kind, repository| {
        let tree = |commit: &str| repository.git(&["ls-tree", "-r", "--name-only", commit]);
        let all = tree("HEAD");
        repository.git(&["branch", "other"]);
        let paths = repository.hide();
        repository.put("a", "changed");
        repository.git(&["stash"]);
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{kind}: stash");
        repository.git(&["stash", "pop"]);
        repository.git(&["commit", "-q", "-a", "-m", "second"]);
        repository.put("dir/new", "new");
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-q", "-m", "third"]);
        assert_eq!(tree("HEAD~"), all, "{kind}: commit -a");
        assert_eq!(tree("HEAD"), all.replace("dir/z", "dir/new\ndir/z"), "{kind}: add -A");
        repository.git(&["checkout", "-q", "other"]);
        repository.git(&["merge", "-q", "main"]);
        repository.git(&["reset", "-q", "--hard", "HEAD~"]);
        repository.git(&["checkout", "-q", "main"]);
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{kind}: checkout");
        assert!(!repository.path.join(".env").exists(), "{kind}");
        repository.show(&paths);
        let deleted = " D .env\n D dir/key.pem\n";
        assert_eq!(repository.git(&["status", "--porcelain"]), deleted, "{kind}");
    });
}

#[test]
fn bits_that_were_set_before_stay() {
    on_each_kind(|kind, repository| {
        repository.put("late.pem", "late");
        repository.git(&["add", "-N", "late.pem"]);
        let version = repository.index()[7];
        repository.git(&["update-index", "--skip-worktree", ".env", "a"]);
        let index = repository.index();
        assert_eq!(index[7], version.max(3), "{kind}");
        let hidden = hide(&index, &is_masked).unwrap().unwrap();
        assert_eq!(hidden.paths, [&b"dir/key.pem"[..], b"late.pem"], "{kind}");
        assert!(show(&hidden.bytes, &hidden.paths).unwrap().unwrap() == index, "{kind}");
    });
}

#[test]
fn unmerged_entries_are_left_alone() {
    let repository = Repository::with_files("sha1", &[]);
    repository.git(&["checkout", "-q", "-b", "other"]);
    for (branch, content) in [("other", "theirs"), ("main", "ours")] {
        repository.git(&["checkout", "-q", branch]);
        repository.put(".env", content);
        repository.git(&["commit", "-q", "-a", "-m", branch]);
    }
    assert!(!repository.try_git(&["merge", "other"]).0);
    let hidden = hide(&repository.index(), &is_masked).unwrap().unwrap();
    assert_eq!(hidden.paths, [b"dir/key.pem"]);
}

#[test]
fn sparse_directories_stay() {
    let repository = Repository::with_files("sha1", &[]);
    repository.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "dir"]);
    let index = repository.index();
    assert!(index.windows(4).any(|bytes| bytes == b"sdir"));
    let hidden = hide(&index, &|path| is_masked(path) || path == b"mod/").unwrap().unwrap();
    assert_eq!(hidden.paths, [b".env".to_vec(), b"dir/key.pem".to_vec()]);
    assert!(show(&hidden.bytes, &hidden.paths).unwrap().unwrap() == index);
    let paths = repository.hide();
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    repository.show(&paths);
    assert_eq!(repository.git(&["status", "--porcelain"]), " D .env\n D dir/key.pem\n");
}

#[test]
fn git_writes_a_hidden_file_that_another_commit_changes() {
    let repository = Repository::with_files("sha1", &[]);
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.put(".env", "other");
    repository.git(&["commit", "-q", "-a", "-m", "other"]);
    repository.git(&["checkout", "-q", "main"]);
    repository.hide();
    repository.git(&["checkout", "-q", "other"]);
    assert!(repository.git(&["ls-files", "-t"]).starts_with("S .env\n"));
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(repository.path.join(".env")).unwrap(), "other");
}

#[test]
fn unsupported_and_damaged_indexes_are_refused() {
    for hash in HASHES {
        let repository = Repository::with_files(hash, &[]);
        let index = repository.index();
        repository.git(&["update-index", "--split-index"]);
        let split = hide(&repository.index(), &is_masked);
        assert_eq!(split, Err(IndexError::Unsupported("it is a split index".into())));
        let mut flipped = index.clone();
        flipped[20] ^= 1;
        let error = IndexError::Malformed("its checksum does not match its content");
        assert_eq!(hide(&flipped, &is_masked), Err(error));
        for end in 0..index.len() {
            assert!(hide(&index[..end], &is_masked).is_err(), "{hash}: {end}");
        }
    }
    for bytes in [&b""[..], b"DIRC", b"not an index, but long enough to be one of no entries"] {
        assert!(matches!(hide(bytes, &|_| true), Err(IndexError::Malformed(_))), "{bytes:?}");
    }
}

#[test]
fn long_names_and_many_entries_are_restored() {
    for settings in
        [&["index.version=2", "index.threads=3"], &["index.version=4", "index.threads=3"]]
    {
        let repository = Repository::new("sha1", settings);
        let part = "p".repeat(200);
        let long = vec![part.as_str(); 25].join("/");
        let mut lines = String::new();
        for number in 0..3000 {
            let name = if number % 7 == 0 {
                format!("{long}/{number}")
            } else {
                format!("d{}/{number}.pem", number % 50)
            };
            writeln!(lines, "100644 {:040x}\t{name}", number + 1).unwrap();
        }
        let list = repository.path.join("list");
        fs::write(&list, lines).unwrap();
        let command = "git update-index --index-info < list";
        repository.git(&["-c", &format!("alias.fill=!{command}"), "fill"]);
        let index = repository.index();
        for is_masked in [
            &(|path: &[u8]| path.ends_with(b".pem")) as &dyn Fn(&[u8]) -> bool,
            &|path| path.starts_with(b"p"),
            &|_| true,
        ] {
            let hidden = hide(&index, is_masked).unwrap().unwrap();
            assert!(show(&hidden.bytes, &hidden.paths).unwrap().unwrap() == index);
            repository.set_index(&hidden.bytes);
            let tags = repository.git(&["ls-files", "-t"]);
            let skipped = tags.lines().filter(|line| line.starts_with("S ")).count();
            assert_eq!((tags.lines().count(), skipped), (3000, hidden.paths.len()));
        }
    }
}

#[test]
fn wrong_offsets_are_left_out() {
    let repository = Repository::with_files("sha1", &["index.threads=2"]);
    for extension in [b"EOIE", b"IEOT"] {
        let mut index = repository.index();
        let has = |index: &[u8], name: &[u8]| index.windows(4).any(|bytes| bytes == name);
        let place = index.windows(4).position(|bytes| bytes == extension).unwrap();
        // The first offset is behind the name, the size and, in one of them, a version.
        index[place + if extension == b"IEOT" { 15 } else { 11 }] ^= 1;
        let end = index.len() - 20;
        index[end..].fill(0);
        let hidden = hide(&index, &is_masked).unwrap().unwrap();
        assert!(!has(&hidden.bytes, b"EOIE") && !has(&hidden.bytes, b"IEOT"));
        assert!(has(&hidden.bytes, b"TREE"));
        let shown = show(&hidden.bytes, &hidden.paths).unwrap().unwrap();
        repository.set_index(&shown);
        assert_eq!(repository.git(&["status", "--porcelain"]), "");
        repository.git(&["update-index", "--force-write-index"]);
    }
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[a-c]{1,3}(/[a-c ü]{1,9}){0,3}x", 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_index_of_git_is_restored(names in names(), masked in any::<u64>(), kind in 0..KINDS.len(), hash in 0..2_usize) {
        let repository = Repository::new(HASHES[hash], KINDS[kind].1);
        for name in &names {
            repository.put(name, name);
        }
        repository.git(&["add", "-A"]);
        let is_masked = |path: &[u8]| {
            let place = names.iter().position(|name| name.as_bytes() == path).unwrap();
            masked >> place & 1 != 0
        };
        let index = repository.index();
        let wanted: Vec<&String> = names.iter().filter(|name| is_masked(name.as_bytes())).collect();
        match hide(&index, &is_masked).unwrap() {
            None => prop_assert!(wanted.is_empty()),
            Some(hidden) => {
                prop_assert!(hidden.paths.iter().eq(wanted.iter().map(|name| name.as_bytes())));
                prop_assert!(show(&hidden.bytes, &hidden.paths).unwrap().unwrap() == index);
                repository.set_index(&hidden.bytes);
                let tags = repository.git(&["ls-files", "-t", "-z"]);
                let skipped = tags.split('\0').filter_map(|line| line.strip_prefix("S "));
                prop_assert!(skipped.eq(wanted.iter().map(|name| name.as_str())));
            }
        }
    }
}

#[test]
fn damaged_index_does_not_panic() {
    let indexes: Vec<Vec<u8>> = HASHES
        .iter()
        .flat_map(|hash| KINDS.iter().map(move |kind| (hash, kind.1)))
        .map(|(hash, settings)| Repository::with_files(hash, settings).index())
        .collect();
    let damage = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let cases = (0..indexes.len(), damage, any::<bool>());
    proptest!(ProptestConfig::with_cases(4000), |((which, damage, has_checksum) in cases)| {
        let mut bytes = indexes[which].clone();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        // Zeros are accepted for a checksum, so the damage is not found at once.
        if !has_checksum {
            let end = bytes.len() - 32;
            bytes[end..].fill(0);
        }
        if let Ok(Some(hidden)) = hide(&bytes, &|path| path.len() % 2 == 0) {
            prop_assert!(show(&hidden.bytes, &hidden.paths).unwrap().is_some());
        }
    });
}

#[test]
fn refreshed_index_stages_the_same_and_another_does_not() {
    for hash in HASHES {
        for (name, settings) in KINDS {
            let repository = Repository::new(hash, settings);
            fs::write(repository.path.join("a"), "one\n").unwrap();
            fs::write(repository.path.join("b"), "two\n").unwrap();
            repository.git(&["add", "."]);
            let index = || fs::read(repository.path.join(".git/index")).unwrap();
            let first = index();
            // Another time, the same content.
            let file = fs::File::options().write(true).open(repository.path.join("a")).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
            repository.git(&["update-index", "--refresh", "-q"]);
            let refreshed = index();
            assert_ne!(first, refreshed, "{name} {hash}");
            assert!(stage_the_same(&first, &refreshed), "{name} {hash}");
            assert!(hash_entries(&first).is_some(), "{name} {hash}");
            assert_eq!(hash_entries(&first), hash_entries(&refreshed), "{name} {hash}");
            repository.git(&["update-index", "--chmod=+x", "a"]);
            assert!(!stage_the_same(&first, &index()), "a mode: {name} {hash}");
            assert_ne!(hash_entries(&first), hash_entries(&index()), "a mode: {name} {hash}");
            repository.git(&["update-index", "--chmod=-x", "a"]);
            fs::write(repository.path.join("a"), "other\n").unwrap();
            repository.git(&["add", "a"]);
            assert!(!stage_the_same(&first, &index()), "a content: {name} {hash}");
            assert_ne!(hash_entries(&first), hash_entries(&index()), "a content: {name} {hash}");
            repository.git(&["rm", "-q", "--cached", "b"]);
            assert!(!stage_the_same(&first, &index()), "a name: {name} {hash}");
            assert_ne!(hash_entries(&first), hash_entries(&index()), "a name: {name} {hash}");
        }
    }
    assert!(!stage_the_same(b"x", b"x"), "no index");
    assert_eq!(hash_entries(b"x"), None, "no index");
}
