//! `windlass policy explain`: what would be decided about one call, by which rule, and what would allow it.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass::effect::Effect;
use windlass::people::{Approval, Settled};
use windlass::policy::{Decision, Keep, Verdict};
use windlass::{ToolCall, Windlass};
use windlass_hub::Recording;

use crate::command::block_on;
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

pub(super) fn run(global: &Global, tool: String, input: &str) -> Result<ExitCode> {
    let input = serde_json::from_str(input).context("the arguments are not JSON")?;
    let answer = block_on(async {
        let Setup { windlass, session } = Setup::open(global, Recording::Off)?;
        match windlass.engine().explain_with_answer(&session, ToolCall::new(tool, input)).await {
            Ok((verdict, answer)) => {
                let mut explained = explained(&windlass, &verdict);
                if let Some(answer) = answer {
                    tell_answer(&mut explained, &answer);
                }
                Ok(explained)
            }
            // What an `.aiexclude` hides is denied before the policy is asked.
            Err(error) if error.code() == "denied" => {
                let message = error.message();
                Ok(json!({
                    "decision": Decision::Deny, "rule": message.text, "effects": [],
                    "remedy": message.hint,
                }))
            }
            Err(error) => Err(anyhow::Error::from(error)),
        }
    })??;
    terminal::print_json_for_reader(global, &answer)?;
    Ok(ExitCode::SUCCESS)
}

/// Says of a call that asks that an earlier answer settles it.
fn tell_answer(explained: &mut Value, answer: &Approval) {
    let Approval { id, scope, .. } = answer;
    let (decision, rule) = match &answer.settled {
        Settled::Denied(why) if why.is_empty() => {
            (Decision::Deny, format!("a person said no before, in {id}"))
        }
        Settled::Denied(why) => {
            (Decision::Deny, format!("a person said no before, in {id}: {why}"))
        }
        Settled::Allowed | Settled::Pending => {
            (Decision::Allow, format!("a person said yes before, in {id} ({scope})"))
        }
    };
    explained["decision"] = json!(decision);
    explained["rule"] = rule.into();
    explained["answer"] = json!({"id": id, "scope": scope});
    explained["remedy"] = format!("`windlass policy revoke {id}` takes the answer back").into();
    if let Some(fields) = explained.as_object_mut() {
        fields.remove("when");
    }
}

/// What was decided and why, and of a command what was understood.
fn explained(windlass: &Windlass, verdict: &Verdict) -> Value {
    let remedy = (verdict.decision() != Decision::Allow).then(|| verdict.remedy());
    let mut answer = json!({
        "decision": verdict.decision(), "rule": verdict.rule(),
        "effects": verdict.effects().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "risk": windlass.engine().risk(verdict.effects()), "remedy": remedy.flatten(),
    });
    if verdict.decision() == Decision::Ask {
        answer["when"] = json!(verdict.when());
    }
    if verdict.keeps() == Keep::Nothing {
        answer["keeps"] = json!(verdict.keeps());
    }
    if let Some(because) = verdict.because() {
        answer["because"] = because.into();
    }
    let command = verdict.effects().iter().find_map(|effect| {
        let Effect::Exec(command) = effect else { return None };
        Some(command)
    });
    if let Some(command) = command {
        answer["commands"] = json!(command.commands);
        if let Some(why) = &command.unclear {
            answer["why"] = why.as_str().into();
        }
    }
    answer
}
