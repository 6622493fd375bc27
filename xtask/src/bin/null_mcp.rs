//! The floor of the bench: an MCP server that answers every request at once with a fixed text, without parsing it.

use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        if let Some(answer) = answer(&line) {
            output.write_all(answer.as_bytes())?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// The answer to a request; `None` for a notification, which has no id.
fn answer(request: &str) -> Option<String> {
    let (_, after) = request.split_once("\"id\":")?;
    let end = after.find([',', '}'])?;
    let id = after.get(..end)?;
    let result = if request.contains("\"method\":\"initialize\"") { HELLO } else { OK };
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"))
}

const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"null","version":"0"}}"#;
const OK: &str = r#"{"content":[{"type":"text","text":"ok"}],"isError":false}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_under_their_own_id_and_notifications_not_at_all() {
        let call = answer(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#).unwrap();
        assert_eq!(call, format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{OK}}}\n"));
        assert!(answer(r#"{"method":"initialize","id":"a"}"#).unwrap().contains("\"id\":\"a\""));
        assert!(answer(r#"{"method":"initialize","id":1}"#).unwrap().contains("serverInfo"));
        assert_eq!(answer(r#"{"method":"notifications/initialized"}"#), None);
    }
}
