//! `kill`: ends a job with all its processes, or sends it a signal that does not end it.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{Context, EffectKinds, Effects, Output, Signal, Tool, ToolDetails, ToolError};

use crate::format;
use crate::jobs;
use crate::program::changed::Base;
use crate::program::{closing, facts};

/// Signals that are sent without ending the job.
const NON_ENDING_SIGNALS: [&str; 6] = ["HUP", "USR1", "USR2", "PIPE", "STOP", "CONT"];

/// The tool `kill`.
pub(crate) struct Kill;

/// End a job and all its processes: send the signal, wait, then send KILL. HUP, USR1, USR2, STOP and CONT are sent without ending it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Id of the job.
    job: String,
    /// Name of the signal.
    #[serde(default = "default_signal")]
    signal: String,
}

/// Returns the name of the signal that is sent by default.
fn default_signal() -> String {
    "TERM".to_owned()
}

impl Tool for Kill {
    const NAME: &'static str = "kill";
    // This belongs to running programs: without those tools it is not offered.
    const KINDS: EffectKinds = EffectKinds::STATE.with(EffectKinds::EXEC);
    type Args = Args;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Stop a job")
    }

    fn effects(&self, _: &Args) -> Effects {
        Effects::state("jobs")
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let unknown = |why: String| ToolError::invalid_args(why);
        let signal: Signal = args.signal.parse().map_err(unknown)?;
        let name = Signal::name(signal.number()).unwrap_or_default();
        let job = jobs::find(cx, &args.job)?;
        if let Some(end) = job.end() {
            let text = format!("[{}: nothing was sent]", jobs::status(&job));
            return Ok(facts(Output::text(text), cx, Some(&end)).with("job", job.id().as_str()));
        }
        if NON_ENDING_SIGNALS.contains(&name) {
            job.signal(signal)?;
            let text = format!("[{name} was sent to job {}, which goes on]", job.id());
            return Ok(Output::text(text).with("job", job.id().as_str()).with("running", true));
        }
        let end = job.stop(signal).await;
        let mut phrases = vec![format!("job {} and all that it started are gone", job.id())];
        phrases.extend(closing::phrases(&job, &end, &Base::of(cx)));
        match usize::try_from(job.printed().saturating_sub(job.seen())) {
            Ok(0) | Err(_) => {}
            Ok(new) => {
                let bytes = format::count(new, "byte", "bytes");
                phrases.push(format!("`output` shows the last {bytes} that it printed"));
            }
        }
        let output = Output::text(closing::line(&phrases));
        Ok(facts(output, cx, Some(&end)).with("job", job.id().as_str()).with("running", false))
    }
}
