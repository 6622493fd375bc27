//! Watch one session: each event has its call and its number in the journal, and can be written as JSON.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass::event::{EventFilter, EventKind};
use windlass::{Mode, ToolCall, Windlass};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (folder, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let windlass = Windlass::builder(folder.path()).state(state.path()).mode(Mode::Auto).build()?;
    let (session, other) = (windlass.new_session(), windlass.new_session());
    let mut events = windlass.engine().subscribe_to(EventFilter::session(session.id()));

    let echo = |text: &str| ToolCall::new("bash", json!({"command": format!("echo {text}")}));
    windlass.call(&other, echo("unheard")).await;
    windlass.call(&session, echo("heard")).await;

    loop {
        let event = events.next().await;
        println!("{}", serde_json::to_string(&event)?);
        assert_eq!(event.session.as_ref(), Some(session.id()));
        if let EventKind::Finished(result) = &event.kind {
            assert!(result.output.to_text().contains("heard"));
            assert!(event.seq.is_some(), "the end of a call is on record");
            return Ok(());
        }
    }
}
