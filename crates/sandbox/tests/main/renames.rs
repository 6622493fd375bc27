//! Renames of directories on an overlay, compared with the same renames on a plain directory.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_sandbox::Ending;

use crate::attempt::{AttemptContext, print_line};
use crate::files::{c_path, errno_result};
use crate::support::TestSandbox;

/// A rename in a working directory that [`create_case_files`] has filled, with its name.
type Case = (&'static str, fn(&Path) -> io::Result<()>);

const LONGEST_NAME: &str = "n123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
    012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
    01234567890123456789012345678901234";

const EXCHANGE: u32 = libc::RENAME_EXCHANGE;
const NO_REPLACE: u32 = libc::RENAME_NOREPLACE;

const CASES: &[Case] = &[
    ("a new name", |_| rename("full", "new")),
    ("into another directory", |_| rename("full", "other/new")),
    ("absolute paths", |at| rename(at.join("full"), at.join("other/new"))),
    ("through a link", |_| rename("link/sub", "other/new")),
    ("over an empty directory", |_| rename("full", "empty")),
    ("over a directory that is not empty", |_| rename("full", "other")),
    ("over a file", |_| rename("full", "file")),
    ("over a link", |_| rename("full", "link")),
    ("over itself", |_| rename("full", "full")),
    ("over its parent", |_| rename("full/sub", "full")),
    ("into itself", |_| rename("full", "full/sub/new")),
    ("into itself at the top", |_| rename("full", "full/new")),
    ("to a directory that is not there", |_| rename("full", "missing/new")),
    ("below a file", |_| rename("full", "file/new")),
    ("what is not there", |_| rename("missing", "new")),
    ("a link to a directory", |_| rename("link", "new")),
    ("a link with a slash", |_| rename("link/", "new")),
    ("a slash at the end", |_| rename("full/", "new")),
    ("slashes at both ends", |_| rename("full///", "new//")),
    ("a file to a slash", |_| rename("file", "new/")),
    ("a file", |_| rename("file", "new")),
    ("a file over a directory", |_| rename("file", "full")),
    ("dot", |_| rename("full/.", "new")),
    ("dot dot", |_| rename("full/sub/..", "new")),
    ("to dot dot", |_| rename("full", "other/..")),
    ("nothing", |_| rename("", "new")),
    ("to nothing", |_| rename("full", "")),
    ("a long name", |_| rename("full", LONGEST_NAME)),
    ("a name that is too long", |_| rename("full", format!("{LONGEST_NAME}x"))),
    ("a path that is too long", |_| rename("full", "x/".repeat(2100))),
    ("from a long name", |_| rename(LONGEST_NAME, "new")),
    ("twice", |_| rename("full", "new").and_then(|()| rename("new", "other/newer"))),
    ("there and back", |_| rename("full", "new").and_then(|()| rename("new", "full"))),
    ("a part, then the whole", |_| {
        rename("full/sub", "other/sub").and_then(|()| rename("full", "new"))
    }),
    ("after a change", |_| {
        fs::write("full/sub/more", "more")?;
        fs::remove_file("full/file")?;
        rename("full", "new")
    }),
    ("what was just made", |_| {
        fs::create_dir_all("made/deep")?;
        fs::write("made/deep/file", "made")?;
        rename("made", "other/made")
    }),
    ("what was removed and made again", |_| {
        fs::remove_dir_all("other")?;
        fs::create_dir("other")?;
        rename("other", "new")
    }),
    ("what may not be read", |_| rename("closed", "new")),
    ("what may not be read, to another directory", |_| rename("closed", "other/new")),
    ("what may not be written", |_| rename("fixed", "new")),
    ("what may not be written, to another directory", |_| rename("fixed", "other/new")),
    ("with what may not be read in it", |_| rename("nested", "other/new")),
    ("out of what may not be written", |_| rename("fixed/sub", "new")),
    ("by descriptors", |_| {
        let (from, to) = (File::open("full")?, File::open("other")?);
        rename_at(from.as_raw_fd(), "sub", to.as_raw_fd(), "new", 0)
    }),
    ("by a descriptor of a file", |_| {
        let from = File::open("file")?;
        rename_at(from.as_raw_fd(), "sub", libc::AT_FDCWD, "new", 0)
    }),
    ("by no descriptor", |_| rename_at(1_000_000, "full", libc::AT_FDCWD, "new", 0)),
    ("by a number below zero", |_| rename_at(-7, "full", libc::AT_FDCWD, "new", 0)),
    ("by the older call", |_| {
        let (from, to) = (c_path(Path::new("full")), c_path(Path::new("other/new")));
        // SAFETY: two texts with an end.
        errno_result(unsafe {
            libc::renameat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr())
        })
    }),
    ("by no address", |_| {
        let to = c_path(Path::new("new"));
        let none = std::ptr::null();
        // SAFETY: the kernel refuses the one that is no text.
        errno_result(unsafe {
            libc::renameat2(libc::AT_FDCWD, none, libc::AT_FDCWD, to.as_ptr(), 0)
        })
    }),
    ("with a text at the end of its page", |_| rename_from_end_of_page()),
    ("replacing nothing", |_| rename_with_flags("full", "new", NO_REPLACE)),
    ("not replacing an empty directory", |_| rename_with_flags("full", "empty", NO_REPLACE)),
    ("exchanging directories", |_| rename_with_flags("full", "other", EXCHANGE)),
    ("exchanging a directory and a file", |_| rename_with_flags("full", "file", EXCHANGE)),
    ("exchanging a file and a directory", |_| rename_with_flags("file", "full", EXCHANGE)),
    ("exchanging with nothing", |_| rename_with_flags("full", "new", EXCHANGE)),
    ("exchanging with a part of itself", |_| rename_with_flags("full", "full/sub", EXCHANGE)),
    ("with flags that contradict", |_| rename_with_flags("full", "new", EXCHANGE | NO_REPLACE)),
    ("with flags that are none", |_| rename_with_flags("full", "new", 1 << 20)),
    ("in a directory that was left", |_| {
        std::env::set_current_dir("full")?;
        rename("sub", "new")?;
        rename("../other", "../newer")
    }),
];

fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    fs::rename(from, to)
}

fn rename_with_flags(from: &str, to: &str, flags: u32) -> io::Result<()> {
    rename_at(libc::AT_FDCWD, from, libc::AT_FDCWD, to, flags)
}

fn rename_at(from: i32, old: &str, to: i32, new: &str, flags: u32) -> io::Result<()> {
    let (old, new) = (c_path(Path::new(old)), c_path(Path::new(new)));
    // SAFETY: two texts with an end.
    errno_result(unsafe { libc::renameat2(from, old.as_ptr(), to, new.as_ptr(), flags) })
}

/// Renames with a path that ends at the end of a page whose next page is not mapped.
fn rename_from_end_of_page() -> io::Result<()> {
    const PAGE: usize = 4096;
    let (flags, rights) =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let old = b"full\0";
    // SAFETY: the second page is ours, and the text ends where it begins.
    let from = unsafe {
        libc::munmap(memory.add(PAGE), PAGE);
        let from = memory.add(PAGE - old.len()).cast::<u8>();
        from.copy_from_nonoverlapping(old.as_ptr(), old.len());
        from
    };
    let to = c_path(Path::new("new"));
    let here = libc::AT_FDCWD;
    // SAFETY: two texts with an end.
    errno_result(unsafe { libc::renameat2(here, from.cast(), here, to.as_ptr(), 0) })
}

/// Directories without some rights of their owner, and their modes. Only root could remove them as they are.
const RESTRICTED_DIRECTORIES: [(&str, u32); 4] =
    [("closed", 0), ("fixed", 0o555), ("nested/closed", 0), ("nested/fixed", 0o500)];

/// Creates the files and directories that every case starts with.
fn create_case_files(at: &Path) {
    for directory in
        ["full/sub/deep/deeper", "full/empty", "other/sub", "empty", "closed/sub", "fixed/sub"]
    {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    for directory in ["nested/closed/sub", "nested/fixed/sub/empty", LONGEST_NAME] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    for file in [
        "file",
        "full/file",
        "full/sub/file",
        "full/sub/deep/deeper/file",
        "other/file",
        "other/sub/file",
        "closed/file",
        "closed/sub/file",
        "fixed/file",
        "nested/closed/sub/file",
        "nested/fixed/file",
    ] {
        fs::write(at.join(file), file).unwrap();
    }
    symlink("full", at.join("link")).unwrap();
    symlink("nowhere", at.join("full/link")).unwrap();
    set_xattr(&at.join("full"), c"user.top");
    set_xattr(&at.join("full/sub"), c"user.sub");
    for path in ["full", "full/sub", "full/sub/deep", "full/file", "nested/closed", "nested"] {
        File::open(at.join(path)).unwrap().set_modified(long_ago()).unwrap();
    }
    let open = [("full/sub", 0o750), ("full/sub/deep", 0o1777), ("full/file", 0o640)];
    for (path, mode) in open.into_iter().chain(RESTRICTED_DIRECTORIES) {
        fs::set_permissions(at.join(path), Permissions::from_mode(mode)).unwrap();
    }
}

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_000_123_456_789)
}

fn set_xattr(path: &Path, key: &std::ffi::CStr) {
    let (path, value) = (c_path(path), c"value".as_ptr().cast());
    // SAFETY: texts with an end, and a value of five bytes.
    errno_result(unsafe { libc::setxattr(path.as_ptr(), key.as_ptr(), value, 5, 0) }).unwrap();
}

fn has_xattr(path: &Path, key: &std::ffi::CStr) -> bool {
    let path = c_path(path);
    // SAFETY: texts with an end, and no room for the value.
    unsafe { libc::getxattr(path.as_ptr(), key.as_ptr(), std::ptr::null_mut(), 0) == 5 }
}

/// Describes a tree: modes, old times, xattrs, link targets and contents. Opens its directories for that.
fn describe_tree(at: &Path) -> String {
    let mut text = String::new();
    describe_entry(at, Path::new(""), &mut text);
    text
}

fn describe_entry(top: &Path, path: &Path, text: &mut String) {
    let here = top.join(path);
    let found = here.symlink_metadata().unwrap();
    let mode = found.mode();
    write!(text, "  {} {mode:o}", path.display()).unwrap();
    if found.modified().is_ok_and(|time| time == long_ago()) {
        text.push_str(" old");
    }
    if found.is_symlink() {
        writeln!(text, " -> {}", fs::read_link(here).unwrap().display()).unwrap();
    } else if found.is_file() {
        writeln!(text, " {:?}", fs::read_to_string(here).unwrap()).unwrap();
    } else {
        for key in [c"user.top", c"user.sub"] {
            write!(text, " {}", has_xattr(&here, key)).unwrap();
        }
        text.push('\n');
        fs::set_permissions(&here, Permissions::from_mode(0o700)).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        for name in names {
            describe_entry(top, &path.join(name), text);
        }
    }
}

/// Performs all cases, each in its own directory, and prints their results.
pub(crate) fn rename_directories(context: &AttemptContext) {
    let mut report_text = String::new();
    for (number, (what, act)) in CASES.iter().enumerate() {
        let sandbox = context.workspace.join(number.to_string());
        std::env::set_current_dir(&sandbox).unwrap();
        let done = act(&sandbox).map_err(|error| error.raw_os_error());
        writeln!(report_text, "{what}: {done:?}\n{}", describe_tree(&sandbox)).unwrap();
    }
    print_line(&report_text);
}

fn run_task(sandbox: &TestSandbox, task: &str) -> String {
    let (program, mut output) = sandbox.start_attempt(task).unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert_eq!(program.wait().unwrap(), Ending::Exited(0), "{printed}");
    let from = printed.find('\n').unwrap();
    let end = printed.find("test result").unwrap_or(printed.len());
    // Leaves out the lines of the test harness.
    printed[from..end].lines().filter(|line| !line.starts_with("test ")).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    )
}

#[test]
fn renames_on_an_overlay_are_as_on_a_plain_directory() {
    let [plain, staged] = [TestSandbox::confined(), TestSandbox::staged()].map(|sandbox| {
        for number in 0..CASES.len() {
            create_case_files(&sandbox.workspace().join(number.to_string()));
        }
        let report_text = run_task(&sandbox, "rename directories");
        for (number, (path, _)) in
            (0..CASES.len()).flat_map(|n| RESTRICTED_DIRECTORIES.map(|one| (n, one)))
        {
            let path = sandbox.workspace().join(number.to_string()).join(path);
            // It may have another name by now, and `describe_tree` has opened it.
            drop(fs::set_permissions(path, Permissions::from_mode(0o700)));
        }
        (sandbox, report_text)
    });
    let cases = |text: &str| text.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
    let (wanted, found) = (cases(&plain.1), cases(&staged.1));
    assert!(wanted.len() >= CASES.len(), "{}", plain.1);
    let differ = wanted.iter().zip(&found).filter(|(wanted, found)| wanted != found);
    let report = |(wanted, found): (&String, &String)| format!("\n{found}\nand not\n{wanted}\n");
    let differ: String = differ.map(report).collect();
    assert!(differ.is_empty(), "other than on a plain directory: {differ}");
    assert_eq!(wanted.len(), found.len());
}

/// Renames through paths such as `/proc/self/fd`, which lead elsewhere for the warden's thread that reads them. These must be left to the
/// kernel, and must not lead to the warden's descriptors, among which are the layers of the overlay.
pub(crate) fn rename_by_way_of_the_warden(context: &AttemptContext) {
    std::env::set_current_dir(&context.workspace).unwrap();
    let mut answers = Vec::new();
    for process in ["self", "1", "thread-self"] {
        let ways = (0..64).map(|fd| format!("fd/{fd}")).chain(["cwd".into(), "root".into()]);
        for way in ways {
            let at = format!("/proc/{process}/{way}");
            let done = rename(format!("{at}/full"), format!("{at}/new"));
            answers.push(done.map_err(|error| error.raw_os_error()));
        }
    }
    answers.sort_unstable();
    answers.dedup();
    print_line(&format!("{answers:?}"));
}

#[test]
fn paths_in_proc_do_not_lead_to_the_overlay_layers() {
    let sandbox = TestSandbox::staged();
    fs::create_dir_all(sandbox.workspace().join("full/sub")).unwrap();
    let before = sandbox.fingerprint();
    let report_text = run_task(&sandbox, "rename by way of the warden");
    assert_eq!(sandbox.fingerprint(), before);
    let answers = report_text.lines().find(|line| line.starts_with('[')).unwrap();
    for errno in [libc::EACCES, libc::EXDEV] {
        assert!(answers.contains(&format!("Err(Some({errno}))")), "{report_text}");
    }
    let known = [libc::ENOENT, libc::EACCES, libc::EXDEV, libc::ENOTDIR, libc::EROFS]
        .map(|errno| format!("Err(Some({errno}))"));
    for answer in answers.trim_matches(['[', ']']).split(", ") {
        assert!(known.iter().any(|known| known == answer), "{report_text}");
    }
}

/// A random generator with a fixed seed.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    /// A path of few names, so that many paths are the same.
    fn path(&mut self) -> PathBuf {
        (0..=self.below(3)).map(|_| ["a", "b", "c"][self.below(3)]).collect()
    }
}

const SEEDS: u64 = 40;

/// Creates a random tree.
fn make_random_tree(at: &Path, random: &mut SeededRandom) {
    fs::create_dir_all(at).unwrap();
    for number in 0..12 {
        let path = at.join(random.path());
        if random.below(3) == 0 && path.parent().is_some_and(Path::is_dir) && !path.exists() {
            fs::write(path, number.to_string()).unwrap();
        } else {
            // A file may be in the way.
            drop(fs::create_dir_all(path));
        }
    }
}

pub(crate) fn rename_at_random(context: &AttemptContext) {
    let mut report_text = String::new();
    for seed in 0..SEEDS {
        let sandbox = context.workspace.join(seed.to_string());
        std::env::set_current_dir(&sandbox).unwrap();
        let mut random = SeededRandom(seed + 1000);
        for _ in 0..12 {
            let (from, to) = (random.path(), random.path());
            let flags = [0, 0, NO_REPLACE, EXCHANGE][random.below(4)];
            let done = rename_with_flags(from.to_str().unwrap(), to.to_str().unwrap(), flags)
                .map_err(|error| error.raw_os_error());
            writeln!(report_text, "{} {} {flags} {done:?}", from.display(), to.display()).unwrap();
        }
        writeln!(report_text, "{seed}\n{}", describe_tree(&sandbox)).unwrap();
    }
    print_line(&report_text);
}

#[test]
fn random_renames_are_as_on_a_plain_directory() {
    let [plain, staged] = [TestSandbox::confined(), TestSandbox::staged()].map(|sandbox| {
        for seed in 0..SEEDS {
            make_random_tree(&sandbox.workspace().join(seed.to_string()), &mut SeededRandom(seed));
        }
        run_task(&sandbox, "rename at random")
    });
    assert!(plain.contains("Ok(())") && plain.contains("Err(Some("), "{plain}");
    assert_eq!(staged, plain);
}

const THREADS: usize = 64;
const ROUNDS: usize = 20;

/// Each thread renames a directory of the lower layer, a file, and a directory that all threads rename.
pub(crate) fn rename_from_many_threads(context: &AttemptContext) {
    std::env::set_current_dir(&context.workspace).unwrap();
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    let (from, to) =
                        (format!("d{number}-{round}"), format!("d{number}-{}", round + 1));
                    fs::rename(from, to).unwrap();
                    let (from, to) =
                        (format!("f{number}-{round}"), format!("f{number}-{}", round + 1));
                    fs::rename(from, to).unwrap();
                    // Another thread may have renamed it.
                    drop(fs::rename("shared-1", "shared-2"));
                    drop(fs::rename("shared-2", "shared-1"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    print_line("all");
}

#[test]
fn many_threads_can_rename_at_the_same_time() {
    let sandbox = TestSandbox::staged();
    for number in 0..THREADS {
        let directory = sandbox.workspace().join(format!("d{number}-0"));
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("sub/file"), number.to_string()).unwrap();
        fs::write(sandbox.workspace().join(format!("f{number}-0")), "f").unwrap();
    }
    fs::create_dir_all(sandbox.workspace().join("shared-1/sub")).unwrap();
    fs::write(sandbox.workspace().join("shared-1/sub/file"), "shared").unwrap();
    assert!(run_task(&sandbox, "rename from many threads").contains("all"));
    let script =
        format!("cat d*-{ROUNDS}/sub/file | wc -c; cat shared-*/sub/file; ls -A | grep windlass-");
    let digits = (0..THREADS).map(|number| number.to_string().len()).sum::<usize>();
    let (_, printed) = sandbox.run(&script);
    assert_eq!(printed, format!("{digits}\nshared"));
}

/// Creates nested directories by handle, deeper than the maximum length of a path allows.
fn make_nested(at: &Path, depth: usize) {
    fs::create_dir_all(at).unwrap();
    let mut here = File::open(at).unwrap();
    for _ in 0..depth {
        let (name, flags) = (c"d", libc::O_RDONLY | libc::O_DIRECTORY);
        // SAFETY: texts with an end.
        let next = unsafe {
            assert_eq!(libc::mkdirat(here.as_raw_fd(), name.as_ptr(), 0o755), 0);
            libc::openat(here.as_raw_fd(), name.as_ptr(), flags)
        };
        assert!(next >= 0);
        // SAFETY: the kernel has just made it for us.
        here = unsafe { File::from_raw_fd(next) };
    }
}

/// A tree that is deeper than the mover supports stays unchanged, and the program gets the kernel's error.
#[test]
fn tree_that_is_too_deep_stays_unchanged() {
    let script = "set -e; cd \"$WORKSPACE\"; echo before; find deep | sort | sha256sum; stat -c '%Y %a' deep deep/d; \
                  echo after; python3 -c 'import os; os.rename(\"deep\", \"new\")' 2>&1 | tail -n 1; \
                  find deep | sort | sha256sum; stat -c '%Y %a' deep deep/d; ls -A | grep -c windlass- || true";
    for (depth, is_moved) in [(90, true), (110, false), (3000, false)] {
        let sandbox = TestSandbox::staged();
        let deep = sandbox.workspace().join("deep");
        make_nested(&deep, depth);
        fs::write(deep.join("file"), "file").unwrap();
        let (_, printed) = sandbox.run(script);
        if is_moved {
            assert!(printed.contains("'deep': No such file"), "{depth}: {printed}");
            continue;
        }
        let (before, after) = printed.trim_start_matches("before\n").split_once("after\n").unwrap();
        let (answer, after) = after.split_once('\n').unwrap();
        assert!(answer.contains("Invalid cross-device link"), "{depth}: {printed}");
        assert_eq!(after, format!("{before}0\n"), "{depth}");
        fs::remove_dir_all(deep).unwrap();
    }
}

/// Other renames of a program work after one that the listener cannot read because the caller hides its memory, and after one of a
/// directory that the mover has replaced.
#[test]
fn renames_of_a_hidden_caller_work() {
    let hide = "import ctypes, os; ctypes.CDLL(None).prctl(4, 0)";
    let rename =
        "os.mkdir('made'); os.rename('made', 'made-2'); os.rename('a.txt', 'b.txt'); print('done')";
    let lower = "os.rename('full', 'new')";
    for (script, wanted) in [
        (format!("{hide}; {rename}"), "done\n"),
        (format!("import os; {lower}; {rename}"), "done\n"),
    ] {
        let sandbox = TestSandbox::staged();
        fs::create_dir_all(sandbox.workspace().join("full/sub")).unwrap();
        let (_, printed) = sandbox.run(&format!("python3 -c \"{script}\""));
        assert_eq!(printed, wanted, "{script}");
    }
}

/// Threads write into a tree while it is renamed. Every file that was written must be in the tree afterwards.
#[test]
fn files_written_during_a_rename_are_kept() {
    let sandbox = TestSandbox::staged();
    let full = sandbox.workspace().join("full");
    fs::create_dir_all(full.join("sub")).unwrap();
    for number in 0..200 {
        fs::write(full.join(format!("sub/{number}")), "x").unwrap();
    }
    let script = "import os, threading\nwritten = []\n\
                  def write(who):\n for n in range(40):\n  for top in ('full', 'new'):\n   \
                  name = f'{top}/sub/w{who}-{n}'\n   try:\n    with open(name, 'x') as f: f.write('w')\n    \
                  written.append(f'w{who}-{n}')\n    break\n   except OSError: pass\n\
                  writers = [threading.Thread(target=write, args=(who,)) for who in range(3)]\n\
                  [writer.start() for writer in writers]\n\
                  while not os.path.isdir('new'):\n try: os.rename('full', 'new')\n except OSError as error: assert error.errno == 18, error\n\
                  [writer.join() for writer in writers]\n\
                  found = os.listdir('new/sub')\nprint(len([n for n in found if n.isdigit()]), set(written) - set(found))";
    let (ending, printed) = sandbox.run(&format!("exec python3 -c \"{script}\""));
    assert_eq!((ending, &*printed), (Ending::Exited(0), "200 set()\n"));
}

/// Callers are killed while their directories are moved: no file of the tree is lost.
#[test]
fn no_file_is_lost_when_callers_are_killed() {
    let sandbox = TestSandbox::staged();
    let full = sandbox.workspace().join("full");
    fs::create_dir_all(full.join("sub")).unwrap();
    for number in 0..300 {
        fs::write(full.join(format!("sub/{number}")), number.to_string()).unwrap();
    }
    let script = "i=0; for try in 1 2 3 4 5 6 7 8; do python3 -c 'import os; os.rename(\"full\", \"new\")' & \
                  until ls -A | grep -q windlass-rename || [ -d new ]; do :; done; kill -KILL $! 2>/dev/null; wait $!; \
                  [ -d new ] && break; done 2>/dev/null; \
                  until ! ls -A | grep -q windlass-rename; do :; done; \
                  cat full/sub/* new/sub/* 2>/dev/null | wc -c; [ -d new ] || mv full new; ls new/sub | wc -l";
    let (_, printed) = sandbox.run(script);
    let digits: usize = (0..300).map(|number: usize| number.to_string().len()).sum();
    assert_eq!(printed, format!("{digits}\n300\n"));
}

/// A program that ends while one of its processes renames leaves no directory half moved.
#[test]
fn no_directory_is_half_moved_when_a_program_ends() {
    let sandbox = TestSandbox::staged();
    let full = sandbox.workspace().join("full");
    fs::create_dir_all(full.join("sub")).unwrap();
    for number in 0..300 {
        fs::write(full.join(format!("sub/{number}")), "x").unwrap();
    }
    let script = "python3 -c 'import os; os.rename(\"full\", \"new\")' & \
                  until ls -A | grep -q windlass-rename || [ -d new ]; do :; done; exit 3";
    assert_eq!(sandbox.run(script).0, Ending::Exited(3));
    let (_, printed) =
        sandbox.run("ls -A | grep -c windlass-; cat full/sub/* new/sub/* 2>/dev/null | wc -c");
    assert_eq!(printed, "0\n300\n");
}

/// Files that a copy would not keep the same: with holes, with xattrs, large ones, and one that a process still writes to.
#[test]
fn special_files_are_unchanged_by_a_rename() {
    let sandbox = TestSandbox::staged();
    let full = sandbox.workspace().join("full");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("marked"), "x").unwrap();
    set_xattr(&full.join("marked"), c"user.sub");
    fs::write(full.join("log"), "one\n").unwrap();
    fs::write(full.join("large"), vec![7; 1 << 20]).unwrap();
    File::create(full.join("sparse")).unwrap().set_len(200 << 10).unwrap();
    let script = "exec 7>>full/log; echo two >&7; python3 -c 'import os; os.rename(\"full\", \"new\")'; echo three >&7; \
                  cat new/log; stat -c '%b %s' new/sparse; cksum < new/large; getfattr -n user.sub --only-values new/marked \
                  2>/dev/null || python3 -c 'import os; print(os.getxattr(\"new/marked\", \"user.sub\").decode())'";
    let (_, printed) = sandbox.run(script);
    let wanted = "one\ntwo\nthree\n0 204800\n";
    assert!(printed.starts_with(wanted) && printed.contains("1048576\nvalue"), "{printed}");
}
