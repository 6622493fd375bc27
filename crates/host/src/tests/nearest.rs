//! Suggestions for paths that do not exist.

use std::path::Path;

use windlass_core::Files;

use super::{LOOKUPS, TestWorkspace};

#[test]
fn nearest_existing_path_is_suggested() {
    let ground = TestWorkspace::with(&[
        ("src/lib.rs", ""),
        ("src/engine/run.rs", ""),
        ("README.md", ""),
        ("docs/guide/introduction.md", ""),
        (".aiexclude", "private.txt\n"),
        ("private.txt", ""),
    ]);
    ground.put("outside/secret", "");
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for (asked, expected) in [
            ("src/lib.r", Some("src/lib.rs")),
            ("src/libs.rs", Some("src/lib.rs")),
            ("scr/lib.rs", Some("src/lib.rs")),
            ("scr/engin/rnu.rs", Some("src/engine/run.rs")),
            ("readme.md", Some("README.md")),
            ("./src/../Readme.md", Some("README.md")),
            ("introduction.md", Some("docs/guide/introduction.md")),
            ("other/place/introduction.md", Some("docs/guide/introduction.md")),
            ("privat.txt", None),
            ("nothing_like_it", None),
            ("../outside/secre", None),
            ("src/lib.rs", None),
        ] {
            let near = files.nearest(Path::new(asked));
            assert_eq!(near.as_deref(), expected.map(Path::new), "{asked}");
        }
        let absolute = ground.work("src/lib.r");
        assert_eq!(files.nearest(&absolute).as_deref(), Some(Path::new("src/lib.rs")));
    }
}
