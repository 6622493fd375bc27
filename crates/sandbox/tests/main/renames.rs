//! Renames of directories on an overlay, compared with the same on a plain directory.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_sandbox::Ending;

use crate::attempt::{Scene, say};
use crate::files::{answer, name};
use crate::support::Place;

/// Something to rename, in a directory of its own that [`fill`] has filled and that is the working directory.
type Case = (&'static str, fn(&Path) -> io::Result<()>);

const LONG: &str = "n123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
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
    ("a long name", |_| rename("full", LONG)),
    ("a name that is too long", |_| rename("full", format!("{LONG}x"))),
    ("a path that is too long", |_| rename("full", "x/".repeat(2100))),
    ("from a long name", |_| rename(LONG, "new")),
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
        at(from.as_raw_fd(), "sub", to.as_raw_fd(), "new", 0)
    }),
    ("by a descriptor of a file", |_| {
        let from = File::open("file")?;
        at(from.as_raw_fd(), "sub", libc::AT_FDCWD, "new", 0)
    }),
    ("by no descriptor", |_| at(1_000_000, "full", libc::AT_FDCWD, "new", 0)),
    ("by a number below zero", |_| at(-7, "full", libc::AT_FDCWD, "new", 0)),
    ("by the older call", |_| {
        let (from, to) = (name(Path::new("full")), name(Path::new("other/new")));
        // SAFETY: two texts with an end.
        answer(unsafe {
            libc::renameat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr())
        })
    }),
    ("by no address", |_| {
        let to = name(Path::new("new"));
        let none = std::ptr::null();
        // SAFETY: the kernel refuses the one that is no text.
        answer(unsafe { libc::renameat2(libc::AT_FDCWD, none, libc::AT_FDCWD, to.as_ptr(), 0) })
    }),
    ("with a text at the end of its page", |_| at_the_end_of_a_page()),
    ("replacing nothing", |_| with("full", "new", NO_REPLACE)),
    ("not replacing an empty directory", |_| with("full", "empty", NO_REPLACE)),
    ("exchanging directories", |_| with("full", "other", EXCHANGE)),
    ("exchanging a directory and a file", |_| with("full", "file", EXCHANGE)),
    ("exchanging a file and a directory", |_| with("file", "full", EXCHANGE)),
    ("exchanging with nothing", |_| with("full", "new", EXCHANGE)),
    ("exchanging with a part of itself", |_| with("full", "full/sub", EXCHANGE)),
    ("with flags that contradict", |_| with("full", "new", EXCHANGE | NO_REPLACE)),
    ("with flags that are none", |_| with("full", "new", 1 << 20)),
    ("in a directory that was left", |_| {
        std::env::set_current_dir("full")?;
        rename("sub", "new")?;
        rename("../other", "../newer")
    }),
];

fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    fs::rename(from, to)
}

fn with(from: &str, to: &str, flags: u32) -> io::Result<()> {
    at(libc::AT_FDCWD, from, libc::AT_FDCWD, to, flags)
}

fn at(from: i32, old: &str, to: i32, new: &str, flags: u32) -> io::Result<()> {
    let (old, new) = (name(Path::new(old)), name(Path::new(new)));
    // SAFETY: two texts with an end.
    answer(unsafe { libc::renameat2(from, old.as_ptr(), to, new.as_ptr(), flags) })
}

/// The page behind it is not there.
fn at_the_end_of_a_page() -> io::Result<()> {
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
    let to = name(Path::new("new"));
    let here = libc::AT_FDCWD;
    // SAFETY: two texts with an end.
    answer(unsafe { libc::renameat2(here, from.cast(), here, to.as_ptr(), 0) })
}

/// Directories that their owner may not use. Only root could remove them as they are.
const CLOSED: [(&str, u32); 4] =
    [("closed", 0), ("fixed", 0o555), ("nested/closed", 0), ("nested/fixed", 0o500)];

/// What there is to rename: the same for every case.
fn fill(at: &Path) {
    for directory in
        ["full/sub/deep/deeper", "full/empty", "other/sub", "empty", "closed/sub", "fixed/sub"]
    {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    for directory in ["nested/closed/sub", "nested/fixed/sub/empty", LONG] {
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
    mark(&at.join("full"), c"user.top");
    mark(&at.join("full/sub"), c"user.sub");
    for path in ["full", "full/sub", "full/sub/deep", "full/file", "nested/closed", "nested"] {
        File::open(at.join(path)).unwrap().set_modified(long_ago()).unwrap();
    }
    let open = [("full/sub", 0o750), ("full/sub/deep", 0o1777), ("full/file", 0o640)];
    for (path, mode) in open.into_iter().chain(CLOSED) {
        fs::set_permissions(at.join(path), Permissions::from_mode(mode)).unwrap();
    }
}

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_000_123_456_789)
}

fn mark(path: &Path, key: &std::ffi::CStr) {
    let (path, value) = (name(path), c"value".as_ptr().cast());
    // SAFETY: texts with an end, and a value of five bytes.
    answer(unsafe { libc::setxattr(path.as_ptr(), key.as_ptr(), value, 5, 0) }).unwrap();
}

fn is_marked(path: &Path, key: &std::ffi::CStr) -> bool {
    let path = name(path);
    // SAFETY: texts with an end, and no room for the value.
    unsafe { libc::getxattr(path.as_ptr(), key.as_ptr(), std::ptr::null_mut(), 0) == 5 }
}

/// Everything that can be seen below a directory.
fn tree(at: &Path) -> String {
    let mut text = String::new();
    show(at, Path::new(""), &mut text);
    text
}

fn show(top: &Path, path: &Path, text: &mut String) {
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
            write!(text, " {}", is_marked(&here, key)).unwrap();
        }
        text.push('\n');
        fs::set_permissions(&here, Permissions::from_mode(0o700)).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        for name in names {
            show(top, &path.join(name), text);
        }
    }
}

/// Does all of them, each in its own directory.
pub(crate) fn rename_directories(scene: &Scene) {
    let mut said = String::new();
    for (number, (what, act)) in CASES.iter().enumerate() {
        let place = scene.workspace.join(number.to_string());
        std::env::set_current_dir(&place).unwrap();
        let done = act(&place).map_err(|error| error.raw_os_error());
        writeln!(said, "{what}: {done:?}\n{}", tree(&place)).unwrap();
    }
    say(&said);
}

fn renamed(place: &Place, errand: &str) -> String {
    let (program, mut output) = place.start_attempt(errand).unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert_eq!(program.wait().unwrap(), Ending::Exited(0), "{printed}");
    let from = printed.find('\n').unwrap();
    let end = printed.find("test result").unwrap_or(printed.len());
    // What the test harness prints besides.
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
fn renames_are_those_of_a_plain_directory() {
    let [plain, staged] = [Place::confined(), Place::staged()].map(|place| {
        for number in 0..CASES.len() {
            fill(&place.workspace().join(number.to_string()));
        }
        let said = renamed(&place, "rename directories");
        for (number, (path, _)) in (0..CASES.len()).flat_map(|n| CLOSED.map(|one| (n, one))) {
            let path = place.workspace().join(number.to_string()).join(path);
            // On a plain directory it may have another name, and is open by now.
            drop(fs::set_permissions(path, Permissions::from_mode(0o700)));
        }
        (place, said)
    });
    let cases = |text: &str| text.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
    let (wanted, found) = (cases(&plain.1), cases(&staged.1));
    assert!(wanted.len() >= CASES.len(), "{}", plain.1);
    let differ = wanted.iter().zip(&found).filter(|(wanted, found)| wanted != found);
    let told = |(wanted, found): (&String, &String)| format!("\n{found}\nand not\n{wanted}\n");
    let differ: String = differ.map(told).collect();
    assert!(differ.is_empty(), "not as on a plain directory: {differ}");
    assert_eq!(wanted.len(), found.len());
}

/// Paths that mean another thing to the thread that reads them: what `/proc` shows of a process, it shows of the warden there. They
/// are left to the kernel, and lead to none of the warden's descriptors, among which are the layers themselves.
pub(crate) fn rename_by_way_of_the_warden(scene: &Scene) {
    std::env::set_current_dir(&scene.workspace).unwrap();
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
    say(&format!("{answers:?}"));
}

#[test]
fn the_warden_is_no_way_to_the_layers() {
    let place = Place::staged();
    fs::create_dir_all(place.workspace().join("full/sub")).unwrap();
    let before = place.fingerprint();
    let said = renamed(&place, "rename by way of the warden");
    assert_eq!(place.fingerprint(), before);
    let answers = said.lines().find(|line| line.starts_with('[')).unwrap();
    for errno in [libc::EACCES, libc::EXDEV] {
        assert!(answers.contains(&format!("Err(Some({errno}))")), "{said}");
    }
    let known = [libc::ENOENT, libc::EACCES, libc::EXDEV, libc::ENOTDIR, libc::EROFS]
        .map(|errno| format!("Err(Some({errno}))"));
    for answer in answers.trim_matches(['[', ']']).split(", ") {
        assert!(known.iter().any(|known| known == answer), "{said}");
    }
}

/// A source of numbers that is the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    /// A path of few names, so that many of them meet.
    fn path(&mut self) -> PathBuf {
        (0..=self.below(3)).map(|_| ["a", "b", "c"][self.below(3)]).collect()
    }
}

const SEEDS: u64 = 40;

/// Makes a tree at random.
fn grow(at: &Path, dice: &mut Dice) {
    fs::create_dir_all(at).unwrap();
    for number in 0..12 {
        let path = at.join(dice.path());
        if dice.below(3) == 0 && path.parent().is_some_and(Path::is_dir) && !path.exists() {
            fs::write(path, number.to_string()).unwrap();
        } else {
            // A file may be in the way.
            drop(fs::create_dir_all(path));
        }
    }
}

pub(crate) fn rename_at_random(scene: &Scene) {
    let mut said = String::new();
    for seed in 0..SEEDS {
        let place = scene.workspace.join(seed.to_string());
        std::env::set_current_dir(&place).unwrap();
        let mut dice = Dice(seed + 1000);
        for _ in 0..12 {
            let (from, to) = (dice.path(), dice.path());
            let flags = [0, 0, NO_REPLACE, EXCHANGE][dice.below(4)];
            let done = with(from.to_str().unwrap(), to.to_str().unwrap(), flags)
                .map_err(|error| error.raw_os_error());
            writeln!(said, "{} {} {flags} {done:?}", from.display(), to.display()).unwrap();
        }
        writeln!(said, "{seed}\n{}", tree(&place)).unwrap();
    }
    say(&said);
}

#[test]
fn renames_at_random_are_those_of_a_plain_directory() {
    let [plain, staged] = [Place::confined(), Place::staged()].map(|place| {
        for seed in 0..SEEDS {
            grow(&place.workspace().join(seed.to_string()), &mut Dice(seed));
        }
        renamed(&place, "rename at random")
    });
    assert!(plain.contains("Ok(())") && plain.contains("Err(Some("), "{plain}");
    assert_eq!(staged, plain);
}

const THREADS: usize = 64;
const ROUNDS: usize = 20;

/// Each thread renames a directory of the lower layer, one that all fight over, and files.
pub(crate) fn rename_from_many_threads(scene: &Scene) {
    std::env::set_current_dir(&scene.workspace).unwrap();
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
                    // One of them is there, or none at the moment.
                    drop(fs::rename("shared-1", "shared-2"));
                    drop(fs::rename("shared-2", "shared-1"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    say("all");
}

#[test]
fn many_threads_rename_at_once() {
    let place = Place::staged();
    for number in 0..THREADS {
        let directory = place.workspace().join(format!("d{number}-0"));
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("sub/file"), number.to_string()).unwrap();
        fs::write(place.workspace().join(format!("f{number}-0")), "f").unwrap();
    }
    fs::create_dir_all(place.workspace().join("shared-1/sub")).unwrap();
    fs::write(place.workspace().join("shared-1/sub/file"), "shared").unwrap();
    assert!(renamed(&place, "rename from many threads").contains("all"));
    let script =
        format!("cat d*-{ROUNDS}/sub/file | wc -c; cat shared-*/sub/file; ls -A | grep windlass-");
    let digits = (0..THREADS).map(|number| number.to_string().len()).sum::<usize>();
    let (_, printed) = place.run(&script);
    assert_eq!(printed, format!("{digits}\nshared"));
}

/// Makes directories in directories by handle: deeper than a path can be long.
fn dig(at: &Path, depth: usize) {
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

/// A tree that is deeper than the mover goes is as it was afterwards, and the kernel's answer is what the program gets.
#[test]
fn what_is_too_deep_stays_as_it_was() {
    let script = "set -e; cd \"$WORKSPACE\"; echo before; find deep | sort | sha256sum; stat -c '%Y %a' deep deep/d; \
                  echo after; python3 -c 'import os; os.rename(\"deep\", \"new\")' 2>&1 | tail -n 1; \
                  find deep | sort | sha256sum; stat -c '%Y %a' deep deep/d; ls -A | grep -c windlass- || true";
    for (depth, is_moved) in [(90, true), (110, false), (3000, false)] {
        let place = Place::staged();
        let deep = place.workspace().join("deep");
        dig(&deep, depth);
        fs::write(deep.join("file"), "file").unwrap();
        let (_, printed) = place.run(script);
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

/// Renames go on to work where the mover, or the listener, cannot do anything for a caller: it may not be read, has a filter of its own,
/// or has no room for threads.
#[test]
fn callers_that_cannot_be_served_get_the_answer_of_the_kernel() {
    let hide = "import ctypes, os; ctypes.CDLL(None).prctl(4, 0)";
    let rename =
        "os.mkdir('made'); os.rename('made', 'made-2'); os.rename('a.txt', 'b.txt'); print('done')";
    let lower = "os.rename('full', 'new')";
    for (script, wanted) in [
        (format!("{hide}; {rename}"), "done\n"),
        (format!("import os; {lower}; {rename}"), "done\n"),
    ] {
        let place = Place::staged();
        fs::create_dir_all(place.workspace().join("full/sub")).unwrap();
        let (_, printed) = place.run(&format!("python3 -c \"{script}\""));
        assert_eq!(printed, wanted, "{script}");
    }
}

/// Others write into the tree while it is renamed. Each file that was reported as written is there afterwards, under the one name or
/// the other.
#[test]
fn nothing_that_is_written_meanwhile_is_lost() {
    let place = Place::staged();
    let full = place.workspace().join("full");
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
    let (ending, printed) = place.run(&format!("exec python3 -c \"{script}\""));
    assert_eq!((ending, &*printed), (Ending::Exited(0), "200 set()\n"));
}

/// Callers are killed while their directories are moved: nothing of a tree is lost, and the end does not wait for them.
#[test]
fn nothing_is_lost_when_callers_are_killed() {
    let place = Place::staged();
    let full = place.workspace().join("full");
    fs::create_dir_all(full.join("sub")).unwrap();
    for number in 0..300 {
        fs::write(full.join(format!("sub/{number}")), number.to_string()).unwrap();
    }
    let script = "i=0; for try in 1 2 3 4 5 6 7 8; do python3 -c 'import os; os.rename(\"full\", \"new\")' & \
                  until ls -A | grep -q windlass-rename || [ -d new ]; do :; done; kill -KILL $! 2>/dev/null; wait $!; \
                  [ -d new ] && break; done 2>/dev/null; \
                  until ! ls -A | grep -q windlass-rename; do :; done; \
                  cat full/sub/* new/sub/* 2>/dev/null | wc -c; [ -d new ] || mv full new; ls new/sub | wc -l";
    let (_, printed) = place.run(script);
    let digits: usize = (0..300).map(|number: usize| number.to_string().len()).sum();
    assert_eq!(printed, format!("{digits}\n300\n"));
}

/// A program that ends while one of its processes renames leaves no directory half moved.
#[test]
fn a_program_that_ends_leaves_nothing_half_moved() {
    let place = Place::staged();
    let full = place.workspace().join("full");
    fs::create_dir_all(full.join("sub")).unwrap();
    for number in 0..300 {
        fs::write(full.join(format!("sub/{number}")), "x").unwrap();
    }
    let script = "python3 -c 'import os; os.rename(\"full\", \"new\")' & \
                  until ls -A | grep -q windlass-rename || [ -d new ]; do :; done; exit 3";
    assert_eq!(place.run(script).0, Ending::Exited(3));
    let (_, printed) =
        place.run("ls -A | grep -c windlass-; cat full/sub/* new/sub/* 2>/dev/null | wc -c");
    assert_eq!(printed, "0\n300\n");
}

/// What a copy would not keep: hard links within the layer, holes, xattrs, and writers that go on writing.
#[test]
fn files_stay_what_they_are() {
    let place = Place::staged();
    let full = place.workspace().join("full");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("marked"), "x").unwrap();
    mark(&full.join("marked"), c"user.sub");
    fs::write(full.join("log"), "one\n").unwrap();
    fs::write(full.join("large"), vec![7; 1 << 20]).unwrap();
    File::create(full.join("sparse")).unwrap().set_len(200 << 10).unwrap();
    let script = "exec 7>>full/log; echo two >&7; python3 -c 'import os; os.rename(\"full\", \"new\")'; echo three >&7; \
                  cat new/log; stat -c '%b %s' new/sparse; cksum < new/large; getfattr -n user.sub --only-values new/marked \
                  2>/dev/null || python3 -c 'import os; print(os.getxattr(\"new/marked\", \"user.sub\").decode())'";
    let (_, printed) = place.run(script);
    let wanted = "one\ntwo\nthree\n0 204800\n";
    assert!(printed.starts_with(wanted) && printed.contains("1048576\nvalue"), "{printed}");
}
