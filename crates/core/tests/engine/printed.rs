//! The output of programs as tools get it: text without secrets, also at cuts, with a count of missing bytes.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_core::testing::{EmptyHost, MockTool};
use windlass_core::{
    BoxFuture, CallId, Clock, CommandLine, Confinement, Effect, EffectKinds, Effects, Files, Host,
    Job, MemoryOutputs, Outcome, Output, Outputs, Overrides, PrintedPiece, Process, ProcessChanges,
    ProcessEnd, ProcessRequest, Processes, Program, Secrets, Signal, ToolCall, ToolError, Tracking,
};

use crate::support::Setup;

/// A machine on which every program prints the same pieces and ends.
#[derive(Default)]
struct Machine {
    files: EmptyHost,
    confinement: Confinement,
    prints: Vec<Vec<u8>>,
    /// True if the output comes only when the program is killed, as from a pipe that was not read in time.
    is_slow: bool,
}

impl Host for Machine {
    fn files(&self) -> &dyn Files {
        self.files.files()
    }

    fn clock(&self) -> &dyn Clock {
        self.files.clock()
    }

    fn processes(&self) -> Option<&dyn Processes> {
        Some(self)
    }
}

impl Processes for Machine {
    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    fn start(&self, _: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        let killed = CancellationToken::new();
        if !self.is_slow {
            killed.cancel();
        }
        Ok(Box::new(PrintingProcess {
            prints: self.prints.clone(),
            next: AtomicUsize::new(0),
            killed,
        }))
    }

    fn scratch(&self) -> io::Result<std::fs::File> {
        Err(io::Error::other("only memory"))
    }
}

/// A process that prints these pieces.
struct PrintingProcess {
    prints: Vec<Vec<u8>>,
    next: AtomicUsize,
    killed: CancellationToken,
}

impl Process for PrintingProcess {
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async {
            self.killed.cancelled().await;
            let next = self.prints.get(self.next.fetch_add(1, Ordering::Relaxed));
            into.extend_from_slice(next.map_or(&[], Vec::as_slice));
            Ok(into.len())
        })
    }

    fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(std::future::ready(ProcessEnd::Exited(0)))
    }

    fn signal(&self, _: Signal) -> io::Result<()> {
        Ok(())
    }

    fn kill(&self) {
        self.killed.cancel();
    }

    fn waits_for_input(&self) -> bool {
        false
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        Ok(ProcessChanges::none(Tracking::Nothing))
    }
}

/// Runs a program that prints these pieces, and returns the pieces that its tool gets and the kept transcript.
async fn pieces(prints: &[&[u8]]) -> (Vec<PrintedPiece>, String) {
    let prints = prints.iter().map(|print| print.to_vec()).collect();
    let machine = Arc::new(Machine { prints, ..Machine::default() });
    let (outputs, seen) = (Arc::new(MemoryOutputs::default()), Arc::new(Mutex::new(Vec::new())));
    let told = seen.clone();
    let tool = MockTool::named("play")
        .with_effects(EffectKinds::EXEC, |_| {
            Effects::from(Effect::Exec(CommandLine::words(["play"])))
        })
        .answering(move |cx, _| {
            let told = told.clone();
            async move {
                let directory = cx.files().resolve(".".as_ref())?;
                let request = ProcessRequest::new(Program::words(["play"]), directory);
                let (job, _): (Arc<Job>, _) = cx.processes()?.run(request, None, None).await?;
                *told.lock().unwrap() = cx.printed(&job, 0..job.printed()).collect();
                assert!(cx.keep_transcript(&job));
                Ok(Output::text("played"))
            }
        });
    let secrets = Secrets::new([("KEY", "hunter2-hunter2"), ("PEM", "-----\nMIIE\n-----")]);
    let kept = outputs.clone();
    let setup = Setup::on(machine, [tool], |builder| builder.outputs(kept).secrets(secrets));
    let result = setup.call("play", json!({})).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    let kept = outputs.get(&CallId::new(result.call.as_str())).unwrap().unwrap();
    let pieces = std::mem::take(&mut *seen.lock().unwrap());
    (pieces, kept)
}

#[tokio::test]
async fn secrets_are_redacted_at_every_cut() {
    for (prints, expected) in [
        (&[&b"a hunter2-hunter2 b\n"[..]][..], "a [secret KEY] b\n"),
        (&[b"a hunter2-", b"hunter2 b\n"], "a [secret KEY] b\n"),
        (&[b"a hunter2-\x1b[1mhunter2\x1b[0m"], "a [secret KEY]"),
        (&[b"-----\n", b"MIIE\n", b"-----\n"], "[secret PEM]\n"),
        (&[b"old line\rnew\n"], "new\n"),
        (&[b"caf\xc3", b"\xa9 \xff"], "caf\u{e9} \u{fffd}"),
    ] {
        let (pieces, kept) = pieces(prints).await;
        let text: String = pieces.into_iter().map(|piece| piece.text).collect();
        assert_eq!((&*text, &*kept), (expected, expected));
    }
}

#[tokio::test]
async fn stopped_call_gets_output_that_was_not_read_yet() {
    let machine = Machine { prints: vec![b"printed\n".to_vec()], is_slow: true, ..<_>::default() };
    let tool = MockTool::named("play")
        .with_effects(EffectKinds::EXEC, |_| {
            Effects::from(Effect::Exec(CommandLine::words(["play"])))
        })
        .answering(move |cx, _| async move {
            let directory = cx.files().resolve(".".as_ref())?;
            let request = ProcessRequest::new(Program::words(["play"]), directory);
            cx.processes()?.run(request, None, None).await?;
            Ok(Output::text("played"))
        });
    let setup = Setup::on(Arc::new(machine), [tool], |builder| builder);
    let overrides = Overrides { timeout: Some(Duration::from_millis(1)), ..Overrides::default() };
    let call = ToolCall { overrides, ..ToolCall::new("play", json!({})) };
    let result = setup.engine.call(&setup.session, call).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(result.output.to_text().starts_with("printed\n["), "{}", result.output.to_text());
}

#[tokio::test]
async fn missing_bytes_are_counted_where_they_are_missing() {
    let print = b"0123456\n".repeat(1 << 17);
    let prints: Vec<&[u8]> = std::iter::once(&b"head "[..]).chain([&*print; 20]).collect();
    let (pieces, kept) = pieces(&prints).await;
    let gaps: Vec<u64> = pieces.iter().map(|piece| piece.missed).filter(|gap| *gap > 0).collect();
    let shown: u64 = pieces.iter().map(|piece| piece.text.len() as u64).sum();
    assert_eq!(gaps.len(), 1);
    assert_eq!(shown + gaps[0], 5 + 20 * (1 << 20));
    assert!(pieces[0].text.starts_with("head 0123456\n"));
    assert!(pieces.last().unwrap().text.ends_with("0123456\n"));
    assert!(kept.contains(&format!("\n[… {} bytes were not kept …]\n", gaps[0])));
}

#[tokio::test]
async fn repeated_reads_reveal_no_part_of_a_secret() {
    const SECRET: &str = "hunter2-hunter2";
    let text = format!("{}{SECRET} and {SECRET}{}", "some lines\n".repeat(5), " more".repeat(20));
    let machine = Machine { prints: vec![text.clone().into_bytes()], ..Machine::default() };
    let tool = MockTool::named("play")
        .with_effects(EffectKinds::EXEC, |_| {
            Effects::from(Effect::Exec(CommandLine::words(["play"])))
        })
        .answering(move |cx, _| async move {
            let directory = cx.files().resolve(".".as_ref())?;
            let request = ProcessRequest::new(Program::words(["play"]), directory);
            cx.processes()?.start_job(request, None).await?;
            Ok(Output::text("plays"))
        });
    let secrets = Secrets::new([("KEY", SECRET)]);
    let setup = Setup::on(Arc::new(machine), [tool], |builder| builder.secrets(secrets));
    setup.call("play", json!({})).await;
    let job = setup.session.all_jobs().pop().expect("a job");
    job.wait().await;
    for max_bytes in 0..=text.len() as u64 {
        let (mut cursor, mut told) = (0, String::new());
        while cursor < job.printed() {
            let (piece, next) = setup.engine.printed(&job, cursor, max_bytes);
            assert!(next > cursor, "the cursor advances: {max_bytes} {cursor}");
            for part in SECRET.as_bytes().windows(8).map(String::from_utf8_lossy) {
                assert!(!piece.text.contains(&*part), "{part} in {:?} ({max_bytes})", piece.text);
            }
            told.push_str(&piece.text);
            cursor = next;
        }
        assert_eq!(told, text.replace(SECRET, "[secret KEY]"), "{max_bytes}");
    }
    let (piece, next) = setup.engine.printed(&job, u64::MAX, 10);
    assert_eq!((piece.text.as_str(), next), ("", job.printed()));
}
