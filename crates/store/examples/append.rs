//! Measures the journal: `append DIR [calls] [in flight]` writes calls of two records each and prints what one took.
//!
//! `append DIR open` opens the store, which is what every short command pays, and says how long that took: the first time, with
//! the program's own pages still to be mapped, and again. `append DIR brief` makes one call and closes, as a short command does.
//! `append DIR verify` reads the whole journal.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Instant, SystemTime};

use windlass_core::{CallId, Journal, Outcome, Record, RecordKind, SessionId, TurnId};
use windlass_store::{DrainAtClose, SessionFilter, Settings, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let state =
        arguments.next().ok_or("usage: append DIR [open | brief | verify | CALLS [IN_FLIGHT]]")?;
    let calls = arguments.next().unwrap_or_else(|| "10000".into());
    let drain_at_close =
        if calls == "brief" { DrainAtClose::WhenLarge } else { DrainAtClose::Always };
    let begun = Instant::now();
    let settings = Settings { drain_at_close, ..Settings::default() };
    let store = Store::open_with(Path::new(&state), settings)?;
    let opened = begun.elapsed();
    if calls == "brief" {
        make_calls(&store, 1, 1)?;
        store.close();
        writeln!(std::io::stdout(), "opened, one call, closed in {:?}", begun.elapsed())?;
        return Ok(());
    }
    if calls == "open" {
        drop(store);
        let begun = Instant::now();
        for _ in 0..1000 {
            Store::open(Path::new(&state))?;
        }
        let again = begun.elapsed() / 1000;
        writeln!(std::io::stdout(), "opened in {opened:?}, opened and closed again in {again:?}")?;
        return Ok(());
    }
    if calls == "verify" {
        let begun = Instant::now();
        let verified = store.verify()?;
        let (sessions, taken) = (store.sessions(SessionFilter::default())?, begun.elapsed());
        writeln!(
            std::io::stdout(),
            "{} records, {} sessions: {taken:?}",
            verified.records,
            sessions.len()
        )?;
        return Ok(());
    }
    let calls: u32 = calls.parse()?;
    let in_flight: u32 = arguments.next().as_deref().unwrap_or("1").parse()?;
    let begun = Instant::now();
    make_calls(&store, calls, in_flight)?;
    let each = begun.elapsed() / calls;
    let begun = Instant::now();
    store.close();
    let closed = begun.elapsed();
    let last = store.last_seq()?;
    writeln!(
        std::io::stdout(),
        "opened in {opened:?}; {calls} calls, {in_flight} in flight: {each:?} a call; closed in {closed:?}; {last} records"
    )?;
    Ok(())
}

fn make_calls(store: &Store, calls: u32, in_flight: u32) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let session = SessionId::new(format!("s{}", std::process::id()));
    store.session_started(&session, Path::new("/workspace"), None);
    for turn in 0..calls / in_flight {
        let names: Vec<String> =
            (0..in_flight).map(|at| format!("{session}-{turn:08}-{at}")).collect();
        for kind in [RecordKind::Started, RecordKind::Finished(Outcome::Ok)] {
            let safe: Vec<_> =
                names.iter().map(|call| store.append(record(&session, call, kind))).collect();
            for safe in safe {
                runtime.block_on(safe)?;
            }
        }
    }
    Ok(())
}

fn record(session: &SessionId, call: &str, kind: RecordKind) -> Record {
    let body = r#"{"input":{"path":"src/main.rs","offset":1,"limit":200},"effects":["read src/main.rs"],"verdict":"allow"}"#;
    Record {
        at: SystemTime::now(),
        session: session.clone(),
        turn: TurnId::new("t1"),
        call: CallId::new(call),
        tool: "read".into(),
        kind,
        body: body.into(),
    }
}
