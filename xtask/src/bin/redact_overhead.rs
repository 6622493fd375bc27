//! Measures the search for secrets in a text without secrets, the usual case.
//!
//! `redact_overhead TIMES` prints the bytes per second of each turn as JSON: `clean` looks through a text of some megabytes, `copy` only
//! copies it, which is about as fast as memory is. The two take turns.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass::policy::Secrets;

/// Turns that are not counted.
const UNCOUNTED: usize = 3;
const BYTES: usize = 4 << 20;

fn main() -> Result<()> {
    let times: usize = std::env::args()
        .nth(1)
        .and_then(|times| times.parse().ok())
        .context("usage: redact_overhead TIMES")?;
    let text = text();
    let values = (0..20).map(|at| (format!("KEY_{at}"), format!("{at:02}Zq8-known-value-{at}")));
    let secrets = Secrets::new(values);
    let mut copy = vec![0_u8; text.len()];
    let (mut cleaned, mut copied) = (Vec::new(), Vec::new());
    for turn in 0..UNCOUNTED + times {
        let start = Instant::now();
        let clean = secrets.redact(black_box(&text));
        let one = per_second(text.len(), start);
        ensure!(matches!(clean, Cow::Borrowed(_)), "the text is not clean");
        let start = Instant::now();
        copy.copy_from_slice(black_box(text.as_bytes()));
        black_box(&copy);
        let other = per_second(text.len(), start);
        if turn >= UNCOUNTED {
            cleaned.push(one);
            copied.push(other);
        }
    }
    println!("{}", json!({"clean": cleaned, "copy": copied}));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn per_second(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64()
}

/// Lines like those of sources and logs, with some that resemble credentials.
fn text() -> String {
    const LINES: [&str; 8] = [
        "pub(crate) fn resolve(engine: &Shared, call: &Call) -> Result<Effects, Error> {",
        "    let token = tokens.next().ok_or_else(|| Error::missing(\"token\"))?;",
        "2026-03-01T12:00:00Z INFO request id=7f9c24e8-1b5d-4c1e-9a77-0d3f6a1b2c3d took 12 ms",
        "    password: std::env::var(\"DATABASE_PASSWORD\").unwrap_or_default(),",
        "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
        "see https://example.org/docs/page?version=1.2.3&lang=en#section-4",
        "    assert_eq!(decode(\"aGVsbG8gd29ybGQ\"), b\"hello world\");",
        "}",
    ];
    let mut text = String::with_capacity(BYTES + 128);
    for line in LINES.iter().cycle() {
        if text.len() >= BYTES {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
