//! Runs every example to its end: its assertions must hold, and the list must have every file.

/// Declares each example as a module and runs its `main`.
macro_rules! run {
    ($($name:ident $path:literal)*) => {
        $(#[path = $path]
        mod $name;

        #[test]
        fn $name() {
            $name::main().expect("the example ends without an error");
        })*

        const LISTED: &[&str] = &[$($path),*];
    };
}

run! {
    approval_by_parameters "../../examples/approval_by_parameters.rs"
    cancel "../../examples/cancel.rs"
    child_session "../../examples/child_session.rs"
    dynamic_toolset "../../examples/dynamic_toolset.rs"
    embed "../../examples/embed.rs"
    events "../../examples/events.rs"
    function_tool "../../examples/function_tool.rs"
    long_running_tool "../../examples/long_running_tool.rs"
    own_stores "../../examples/own_stores.rs"
    own_tool "../../examples/own_tool.rs"
    parallel_turn "../../examples/parallel_turn.rs"
    streaming_tool "../../examples/streaming_tool.rs"
    undo "../../examples/undo.rs"
}

#[test]
fn every_example_is_listed_and_short() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(LISTED.iter().any(|listed| listed.ends_with(&format!("/{name}"))), "{name}");
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 60, "{name} has {lines} lines");
    }
}
