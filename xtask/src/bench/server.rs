//! A small MCP client over pipes: just enough to time a server.
//!
//! While the clock runs it neither writes out requests nor parses answers, so that what it costs itself stays small beside the
//! floor.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// A running server; dropping this kills it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answer: String,
    next_id: u64,
}

impl Server {
    /// Starts a server and waits for its first answer.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let mut server = Self::spawn(command)?;
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        server.request("initialize", &hello)?;
        server.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// Starts any program that answers lines with lines.
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        let program = crate::process::line(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {program}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { bail!("{program} has no pipes") };
        Ok(Self { child, input, output: BufReader::new(output), answer: String::new(), next_id: 0 })
    }

    /// Sends a request and returns the raw answer.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<&str> {
        let line = self.line(method, params);
        self.exchange(&line)
    }

    /// The seconds that one call takes.
    pub(super) fn round_trip(&mut self, params: &Value) -> Result<f64> {
        let line = self.line("tools/call", params);
        let start = Instant::now();
        self.exchange(&line)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The calls per second with `width` calls under way at a time.
    pub(super) fn throughput(
        &mut self,
        calls: usize,
        width: usize,
        params: &dyn Fn(usize) -> Value,
    ) -> Result<f64> {
        let lines: Vec<String> =
            (0..calls).map(|index| self.line("tools/call", &params(index))).collect();
        let start = Instant::now();
        for index in 0..calls + width {
            if index >= width {
                self.receive()?;
            }
            if let Some(line) = lines.get(index) {
                self.write(line)?;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand calls")]
        Ok(calls as f64 / start.elapsed().as_secs_f64())
    }

    /// Sends a line and waits for a line.
    pub(super) fn exchange(&mut self, line: &str) -> Result<&str> {
        self.write(line)?;
        self.receive()
    }

    /// A figure of `/proc/PID/status`, in bytes.
    pub(super) fn memory(&self, figure: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        kilobytes(&status, figure)
            .map(|kilobytes| kilobytes * 1024.0)
            .with_context(|| format!("{path} has no {figure}"))
    }

    /// The line of a request with the next id.
    fn line(&mut self, method: &str, params: &Value) -> String {
        self.next_id += 1;
        let id = self.next_id;
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes()).context("the server closed its input")
    }

    /// The next answer; notifications are skipped.
    fn receive(&mut self) -> Result<&str> {
        loop {
            self.answer.clear();
            let length = self.output.read_line(&mut self.answer)?;
            ensure!(length > 0, "the server went away without an answer");
            if !self.answer.contains("\"method\":") {
                break;
            }
        }
        ensure!(!is_failure(&self.answer), "the server answered: {}", self.answer);
        Ok(&self.answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_failure(answer: &str) -> bool {
    ["\"error\":{", "\"isError\":true", "\"is_error\":true"]
        .iter()
        .any(|mark| answer.contains(mark))
}

fn kilobytes(status: &str, figure: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_process_are_read() {
        let status = "Name:\tx\nVmHWM:\t  5120 kB\nVmRSS:\t  4096 kB\n";
        assert_eq!(kilobytes(status, "VmRSS"), Some(4096.0));
        assert_eq!(kilobytes(status, "VmSwap"), None);
    }

    #[test]
    fn failures_are_told_from_answers() {
        assert!(is_failure(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}"#));
        assert!(is_failure(r#"{"id":1,"result":{"content":[],"isError":true}}"#));
        assert!(!is_failure(r#"{"id":1,"result":{"content":[],"isError":false}}"#));
    }

    #[test]
    fn lines_are_exchanged_and_every_call_is_answered() {
        let mut server = Server::spawn(&mut Command::new("cat")).unwrap();
        assert_eq!(server.exchange("hello\n").unwrap(), "hello\n");
    }
}
