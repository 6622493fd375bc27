//! Measures `windlass mcp` over stdio, beside a server that answers at once and beside the reference server for files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::measure::{Samples, alternate, time};
use super::server::Server;
use super::table::{Row, Target, Unit};

pub(super) const ROWS: &[&str] = &[
    "mcp/first-answer",
    "mcp/read-beside-null-server",
    "mcp/read-beside-server-filesystem",
    "mcp/32-in-flight",
    "mcp/32-in-flight-beside-null-server",
    "mcp/idle-memory",
];

/// More files than the engine's cache holds, so that reads in turn never hit it.
const FILES: usize = 256;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("mcp", "mcp 1", |directory| {
        for index in 0..FILES {
            fs::write(directory.join(format!("{index}.txt")), format!("file number {index}\n"))?;
        }
        Ok(())
    })?;
    let mcp = McpBench { bench, directory };
    let mut rows = vec![mcp.first_answer()?];
    rows.extend(mcp.round_trips()?);
    rows.extend(mcp.in_flight()?);
    rows.push(mcp.idle_memory()?);
    Ok(rows)
}

/// The commands and calls for all servers.
struct McpBench<'a> {
    bench: &'a Bench<'a>,
    directory: PathBuf,
}

impl McpBench<'_> {
    fn ours(&self) -> Command {
        self.bench.windlass(&self.directory, &["mcp"])
    }

    fn null_server(&self) -> Command {
        Command::new(self.bench.workspace.target("release/null_mcp"))
    }

    fn server_filesystem(&self) -> Command {
        let mut command = Command::new(&self.bench.tools.node);
        command.arg(&self.bench.tools.server_filesystem).arg(&self.directory);
        command
    }

    fn our_read(index: usize) -> Value {
        json!({"name": "read", "arguments": {"path": format!("{}.txt", index % FILES)}})
    }

    fn their_read(&self, index: usize) -> Value {
        let path = self.directory.join(format!("{}.txt", index % FILES));
        json!({"name": "read_text_file", "arguments": {"path": path}})
    }

    fn first_answer(&self) -> Result<Row> {
        let [ours, bare] = alternate(
            self.bench.runs(50),
            [
                &mut || {
                    let start = Instant::now();
                    let server = Server::start(&mut self.ours())?;
                    let elapsed = start.elapsed().as_secs_f64();
                    drop(server);
                    Ok(elapsed)
                },
                &mut || time(&mut Command::new("true")),
            ],
        )?;
        Ok(Row {
            name: "mcp/first-answer",
            unit: Unit::Seconds,
            ours,
            peer: Some(("true", bare)),
            target: Target::AtMostOver(0.010),
        })
    }

    /// One read at a time, all three servers in turn.
    fn round_trips(&self) -> Result<[Row; 2]> {
        let mut ours = Server::start(&mut self.ours())?;
        let mut null = Server::start(&mut self.null_server())?;
        let mut filesystem = Server::start(&mut self.server_filesystem())?;
        for answer in [
            ours.request("tools/call", &Self::our_read(7))?,
            filesystem.request("tools/call", &self.their_read(7))?,
        ] {
            ensure!(answer.contains("file number 7"), "a read answered: {answer}");
        }
        let [ours, null, filesystem] = alternate(
            self.bench.runs(3_000),
            [
                &mut round_trip(&mut ours, &Self::our_read),
                &mut round_trip(&mut null, &Self::our_read),
                &mut round_trip(&mut filesystem, &|index| self.their_read(index)),
            ],
        )?;
        let row = |name, peer, target| Row {
            name,
            unit: Unit::Seconds,
            ours: ours.clone(),
            peer: Some(peer),
            target: Target::AtMostTimes(target),
        };
        Ok([
            row("mcp/read-beside-null-server", ("null server", null), 2.0),
            row("mcp/read-beside-server-filesystem", ("server-filesystem", filesystem), 0.25),
        ])
    }

    /// Several reads at a time. The server that answers at once shows the limit of the client.
    fn in_flight(&self) -> Result<[Row; 2]> {
        const WIDTH: usize = 32;
        let calls = self.bench.runs(5_000);
        let mut ours = Server::start(&mut self.ours())?;
        let mut null = Server::start(&mut self.null_server())?;
        let mut filesystem = Server::start(&mut self.server_filesystem())?;
        let [ours, null, filesystem] = alternate(
            self.bench.runs(10),
            [
                &mut || ours.throughput(calls, WIDTH, &Self::our_read),
                &mut || null.throughput(calls, WIDTH, &Self::our_read),
                &mut || filesystem.throughput(calls, WIDTH, &|index| self.their_read(index)),
            ],
        )?;
        let row = |name, peer, target| Row {
            name,
            unit: Unit::PerSecond,
            ours: ours.clone(),
            peer: Some(peer),
            target: Target::AtLeastTimes(target),
        };
        Ok([
            row("mcp/32-in-flight", ("server-filesystem", filesystem), 5.0),
            row("mcp/32-in-flight-beside-null-server", ("null server", null), 0.25),
        ])
    }

    /// The memory of a server after a client has listed the tools and called one.
    fn idle_memory(&self) -> Result<Row> {
        let resting = |mut server: Server, read: &Value| -> Result<Samples> {
            server.request("tools/list", &json!({}))?;
            server.request("tools/call", read)?;
            thread::sleep(Duration::from_millis(300));
            Ok(Samples::one(server.memory("VmRSS")?))
        };
        let ours = resting(Server::start(&mut self.ours())?, &Self::our_read(0))?;
        let filesystem =
            resting(Server::start(&mut self.server_filesystem())?, &self.their_read(0))?;
        Ok(Row {
            name: "mcp/idle-memory",
            unit: Unit::Bytes,
            ours,
            peer: Some(("server-filesystem", filesystem)),
            target: Target::AtMost(15e6),
        })
    }
}

/// A contender that reads the next file and returns the duration of the call.
fn round_trip<'a>(
    server: &'a mut Server,
    read: &'a dyn Fn(usize) -> Value,
) -> impl FnMut() -> Result<f64> + 'a {
    let mut index = 0;
    move || {
        index += 1;
        server.round_trip(&read(index))
    }
}
