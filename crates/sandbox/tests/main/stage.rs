//! What becomes of changes: made, put apart, or refused.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;

use windlass_sandbox::{Ending, Mount, Source};

use crate::support::{Place, object, overlay};

const CHANGE: &str = "set -e; echo b > a.txt; echo new > new.txt; mkdir -p d/e; echo c > .git/index; \
                      mv new.txt d/e/; rm link; chmod 600 a.txt; cat a.txt d/e/new.txt";

#[test]
fn changes_are_made() {
    let place = Place::confined();
    assert_eq!(place.run(CHANGE), (Ending::Exited(0), "b\nnew\n".into()));
    assert_eq!(fs::read_to_string(place.path("workspace/a.txt")).unwrap(), "b\n");
    assert_eq!(fs::read_to_string(place.path("workspace/d/e/new.txt")).unwrap(), "new\n");
    assert!(place.path("workspace/link").symlink_metadata().is_err());
}

#[test]
fn changes_are_put_apart() {
    let place = Place::staged();
    assert_eq!(place.run(CHANGE), (Ending::Exited(0), "b\nnew\n".into()));
    assert_eq!(fs::read_to_string(place.path("workspace/a.txt")).unwrap(), "a\n");
    assert!(!place.path("workspace/d").exists() && !place.path("workspace/.git/index").exists());
    assert!(place.path("workspace/link").symlink_metadata().is_ok());
    assert_eq!(fs::read_to_string(place.path("upper/a.txt")).unwrap(), "b\n");
    assert_eq!(fs::read_to_string(place.path("upper/d/e/new.txt")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(place.path("upper/.git/index")).unwrap(), "c\n");
    let gone = place.path("upper/link").symlink_metadata().unwrap().file_type();
    assert!(gone.is_char_device(), "a whiteout");
}

#[test]
fn everything_can_be_removed_on_a_stage() {
    let place = Place::staged().with_view(|view| view.protected.clear());
    assert_eq!(place.run("rm -rf .git *; ls -A").1, "");
    assert_eq!(fs::read_to_string(place.path("workspace/.git/config")).unwrap(), "[core]\n");
}

/// The next one sees what the one before has put apart.
#[test]
fn a_stage_goes_on() {
    let place = Place::staged();
    assert_eq!(place.run("echo 1 > number").0, Ending::Exited(0));
    assert_eq!(place.run("cat number; rm number").1, "1\n");
    assert_eq!(place.run("ls number 2>/dev/null").1, "");
}

#[test]
fn changes_are_refused() {
    let place = Place::read_only();
    for script in ["echo b > a.txt", "touch new", "rm a.txt", "chmod 777 a.txt", "mkdir .windlass"]
    {
        let (ending, printed) = place.run(script);
        assert!(printed.contains("Read-only file system"), "{script}: {printed}");
        assert_ne!(ending, Ending::Exited(0), "{script}");
    }
    assert!(!place.path("workspace/.windlass").exists(), "nothing had to stand in");
    assert_eq!(place.run("echo x > /tmp/x && cat /tmp/x").1, "x\n");
}

/// A writable directory in a workspace that is none, and a layer that hides what the one below it has.
#[test]
fn mounts_lie_in_mounts() {
    for place in [Place::staged(), Place::read_only()] {
        fs::create_dir_all(place.path("workspace/target")).unwrap();
        let target = place.path("workspace/target");
        let mut place = place.with_view(|view| {
            let source = Source::Writable(object(&target));
            view.mounts.push(Mount { at: target.clone(), source });
        });
        place.fence.as_mut().unwrap().writable.push(target);
        assert_eq!(place.run("echo x > target/x; cat target/x").1, "x\n");
        assert_eq!(fs::read_to_string(place.path("workspace/target/x")).unwrap(), "x\n");
    }
}

#[test]
fn temporary_files_are_its_own() {
    let place = Place::confined();
    let script = "echo x > /tmp/windlass-test-x && cat /var/tmp/windlass-test-x";
    assert_eq!(place.run(script).1, "x\n");
    assert_eq!(fs::read_to_string(place.path("tmp/windlass-test-x")).unwrap(), "x\n");
    assert!(!std::path::Path::new("/tmp/windlass-test-x").exists());
    let tmp = std::path::Path::new("/tmp");
    let place = place.with_view(|view| {
        view.mounts.retain(|mount| mount.at != tmp || matches!(mount.source, Source::Directory));
    });
    let (_, printed) = place.run("echo x > /tmp/windlass-test-x");
    assert!(printed.contains("Read-only file system"), "{printed}");
}

/// What has become another object since a handle was taken on it is not mounted.
#[test]
fn an_object_that_was_replaced_is_refused() {
    for how in ["another directory", "a link"] {
        let place = Place::confined();
        let (workspace, other) = (place.workspace(), place.path("other"));
        fs::rename(&workspace, &other).unwrap();
        if how == "a link" {
            std::os::unix::fs::symlink("other", &workspace).unwrap();
        } else {
            fs::create_dir(&workspace).unwrap();
        }
        let error = place.start("true").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("a writable directory could not be mounted"), "{how}: {error}");
    }
}

/// The directories of an earlier program are mounted, too: a link in one of them leads no mount out.
#[test]
fn a_link_on_the_way_to_a_mount_is_not_followed() {
    let place = Place::confined();
    let inner = place.workspace().join("inner/deep");
    std::os::unix::fs::symlink(place.path("outside"), place.path("workspace/inner")).unwrap();
    let place = place.with_view(|view| {
        view.mounts.push(Mount { at: inner, source: Source::Directory });
    });
    let before = place.fingerprint();
    assert!(place.start("true").is_err());
    assert_eq!(place.fingerprint(), before);
}

/// Names that mean something in options of a mount.
#[test]
fn a_stage_may_have_any_name() {
    for name in ["a,b", "a:b", "a\\b", "a b", "a\"b", "ü", "a\nb"] {
        let place = Place::staged();
        let [lower, upper, work] =
            ["lower", "upper", "work"].map(|kind| place.path(&format!("{name}-{kind}")));
        for path in [&lower, &upper, &work] {
            fs::create_dir(path).unwrap();
        }
        fs::write(lower.join("file"), "lower\n").unwrap();
        let source = overlay(&lower, &upper, &work);
        let mut place = place.with_view(|view| {
            view.mounts.push(Mount { at: lower.clone(), source });
        });
        place.fence.as_mut().unwrap().writable.push(lower.clone());
        place.set("LOWER", lower.to_str().unwrap());
        let (ending, printed) = place.run("cd \"$LOWER\" && cat file && echo x > file");
        assert_eq!((ending, &*printed), (Ending::Exited(0), "lower\n"), "{name:?}");
        assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "x\n", "{name:?}");
        assert_eq!(fs::read_to_string(lower.join("file")).unwrap(), "lower\n", "{name:?}");
    }
}
