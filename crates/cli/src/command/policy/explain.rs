//! `windlass policy explain`: prints the decision about a call, the rule behind it, and a rule that would allow it.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass::effect::Effect;
use windlass::people::{Approval, ApprovalState};
use windlass::policy::{Decision, KeptChanges, Verdict};
use windlass::{ToolCall, Windlass};
use windlass_hub::Recording;

use crate::command::block_on;
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

/// Prints the explanation as JSON. The call is not made.
pub(super) fn run(global: &Global, tool: String, input: &str) -> Result<ExitCode> {
    let input = serde_json::from_str(input).context("the arguments are not JSON")?;
    let answer = block_on(async {
        let Setup { windlass, session } = Setup::open(global, Recording::Off)?;
        match windlass.engine().explain_with_answer(&session, ToolCall::new(tool, input)).await {
            Ok((verdict, answer)) => {
                let mut explanation = explanation(&windlass, &verdict);
                if let Some(answer) = answer {
                    apply_answer(&mut explanation, &answer);
                }
                Ok(explanation)
            }
            // A path that an `.aiexclude` hides is denied before the policy is asked.
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

/// Replaces the decision in an explanation by an earlier answer of a person that settles it.
fn apply_answer(explanation: &mut Value, answer: &Approval) {
    let Approval { id, scope, .. } = answer;
    let (decision, rule) = match &answer.settled {
        ApprovalState::Denied(why) if why.is_empty() => {
            (Decision::Deny, format!("a person said no before, in {id}"))
        }
        ApprovalState::Denied(why) => {
            (Decision::Deny, format!("a person said no before, in {id}: {why}"))
        }
        ApprovalState::Allowed | ApprovalState::Pending => {
            (Decision::Allow, format!("a person said yes before, in {id} ({scope})"))
        }
    };
    explanation["decision"] = json!(decision);
    explanation["rule"] = rule.into();
    explanation["answer"] = json!({"id": id, "scope": scope});
    explanation["remedy"] = format!("`windlass policy revoke {id}` takes the answer back").into();
    if let Some(fields) = explanation.as_object_mut() {
        fields.remove("when");
    }
}

/// Returns the explanation of a verdict, with the parsed commands of a shell command.
fn explanation(windlass: &Windlass, verdict: &Verdict) -> Value {
    let remedy = (verdict.decision() != Decision::Allow).then(|| verdict.remedy());
    let mut answer = json!({
        "decision": verdict.decision(), "rule": verdict.rule(),
        "effects": verdict.effects().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "risk": windlass.engine().risk(verdict.effects()), "remedy": remedy.flatten(),
    });
    if verdict.decision() == Decision::Ask {
        answer["when"] = json!(verdict.when());
    }
    if verdict.keeps() == KeptChanges::Nothing {
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
