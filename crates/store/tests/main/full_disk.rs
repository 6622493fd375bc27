//! A full disk: an error, no lost record, and the store works again when there is space.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_core::{CallId, Outputs as _, RecordKind};
use windlass_store::Store;

use crate::child::{Task, command_without_file_size_signal};
use crate::common::{TestState, append, append_call, record, session};

#[test]
fn a_store_works_again_after_a_full_disk() {
    let state = TestState::new();
    let mut child = command_without_file_size_signal(Task::FillDisk, state.dir(), "p");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let store = state.open();
    assert!(store.verify().unwrap().records > 4);
    assert!(store.call(&CallId::new("before")).unwrap().is_some());
    assert!(store.call(&CallId::new("after")).unwrap().is_some());
}

/// In a process of its own: files may not grow beyond a limit, which to a writer looks like a disk without space.
pub(crate) fn fill_and_make_room(state: &Path) {
    let store = Store::open(state).unwrap();
    append_call(&store, "s", "before");
    let unlimited = getrlimit(Resource::Fsize);
    assert_eq!(store.verify().unwrap().records, 2);
    limit(Some(64 << 10), unlimited);

    let refused = (0..1000).find_map(|at| {
        let written = append(&store, record("s", &format!("c{at}"), RecordKind::Started));
        written.err().map(|error| (at, error))
    });
    let (written, error) = refused.unwrap();
    assert!(error.0.contains("writers/0"), "{error}");
    for _ in 0..3 {
        append(&store, record("s", "refused", RecordKind::Started)).unwrap_err();
    }
    let long = "x".repeat(2 << 20);
    store.keep(&session("s"), &CallId::new("before"), &long).unwrap_err();
    assert_eq!(store.get(&CallId::new("before")).unwrap(), None);
    assert_eq!(store.verify().unwrap().records, 2 + written);

    limit(unlimited.current, unlimited);
    append_call(&store, "s", "after");
    store.keep(&session("s"), &CallId::new("before"), &long).unwrap();
    assert_eq!(store.verify().unwrap().records, 4 + written);
}

fn limit(current: Option<u64>, unlimited: Rlimit) {
    setrlimit(Resource::Fsize, Rlimit { current, maximum: unlimited.maximum }).unwrap();
}
