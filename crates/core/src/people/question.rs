//! Questions of a tool to a person, with options and free text as answers.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Inquiry, InquiryState, Requester};
use crate::{CallId, ContentHash, Principal, QuestionId, SessionId};

/// One question, with the answers that it offers. A person can always give another answer.
///
/// ```
/// use windlass_core::Question;
/// let question = Question::new("Which database?", ["SQLite", "PostgreSQL"]);
/// assert_eq!(question.options[1].label, "PostgreSQL");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// A short title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The offered answers.
    pub options: Vec<QuestionOption>,
    /// True if more than one option may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

impl Question {
    /// Makes a question of which one option is chosen.
    pub fn new<L: Into<String>>(
        question: impl Into<String>,
        labels: impl IntoIterator<Item = L>,
    ) -> Self {
        let option = |label: L| QuestionOption { label: label.into(), description: None };
        let options = labels.into_iter().map(option).collect();
        Self { question: question.into(), header: None, options, multi_select: false }
    }
}

/// One of the answers that a question offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// Text that is chosen.
    pub label: String,
    /// Meaning of the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A person's answer to one question.
///
/// ```
/// use windlass_core::Selection;
/// assert_eq!(Selection::of("SQLite").selected, ["SQLite"]);
/// assert_eq!(Selection::other("a text file").other.as_deref(), Some("a text file"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The labels that were chosen.
    #[serde(default)]
    pub selected: Vec<String>,
    /// Free text instead of, or besides, the chosen labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl Selection {
    /// Makes a selection of one label.
    pub fn of(label: impl Into<String>) -> Self {
        Self { selected: vec![label.into()], other: None }
    }

    /// Makes an answer in free text.
    pub fn other(text: impl Into<String>) -> Self {
        Self { selected: Vec::new(), other: Some(text.into()) }
    }

    /// Returns the reason why it does not answer a question, if there is one.
    fn unfit_for(&self, question: &Question) -> Option<String> {
        let unknown = self
            .selected
            .iter()
            .find(|label| !question.options.iter().any(|option| option.label == **label));
        let distinct: BTreeSet<&String> = self.selected.iter().collect();
        let asked = &question.question;
        match (unknown, self.selected.len()) {
            (Some(label), _) => Some(format!("`{asked}` does not offer `{label}`")),
            (None, 0) if self.other.is_none() => Some(format!("`{asked}` has no answer")),
            (None, 2..) if !question.multi_select => {
                Some(format!("`{asked}` takes one of its options"))
            }
            (None, count) if count > distinct.len() => {
                Some(format!("an option of `{asked}` is chosen twice"))
            }
            (None, _) => None,
        }
    }
}

/// A person's answers, one for each question, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// One for each question.
    pub selections: Vec<Selection>,
    /// The identity that answered.
    #[serde(default)]
    pub who: Principal,
}

impl QuestionAnswer {
    /// Makes answers of the person of this machine.
    pub fn new(selections: impl IntoIterator<Item = Selection>) -> Self {
        Self { selections: selections.into_iter().collect(), who: Principal::default() }
    }
}

/// Questions that a call waits for, and their answer once there is one.
///
/// ```
/// use windlass_core::{Inquiry, InquiryState, QuestionAnswer, QuestionRequest, Selection};
/// fn first_option(request: &QuestionRequest) -> QuestionAnswer {
///     let first = request.questions.iter().filter_map(|one| one.options.first());
///     QuestionAnswer::new(first.map(|option| Selection::of(&option.label)))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuestionRequest {
    /// Id to name in the answer.
    pub id: QuestionId,
    /// Call that waits for the answer.
    pub call: CallId,
    /// Session of the call.
    pub session: SessionId,
    /// Tool that asks.
    pub tool: String,
    /// Questions, answered in this order.
    pub questions: Vec<Question>,
    /// Agent and sessions behind the call.
    pub asker: Requester,
    /// Time at which they were asked.
    pub at: SystemTime,
    /// Time after which they can no longer be answered.
    pub expires: SystemTime,
    /// Answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<QuestionAnswer>,
    /// True once the answer is in the journal.
    #[serde(default = "super::record::default_true")]
    pub is_journaled: bool,
}

impl QuestionRequest {
    /// Returns a hash of the session and the questions, so that a late answer can be used when the same questions are asked again.
    pub(super) fn subject(&self) -> ContentHash {
        let whole = serde_json::json!([self.session, self.questions]);
        ContentHash::of(whole.to_string().as_bytes())
    }
}

impl Inquiry for QuestionRequest {
    type Answer = QuestionAnswer;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn asked(&self) -> SystemTime {
        self.at
    }

    fn expires(&self) -> SystemTime {
        self.expires
    }

    fn state(&self, now: SystemTime) -> InquiryState {
        match &self.answer {
            _ if now > self.expires => InquiryState::Expired,
            None => InquiryState::Open,
            Some(_) => InquiryState::Answered,
        }
    }

    fn write(&mut self, answer: QuestionAnswer) -> Result<(), String> {
        if answer.selections.len() != self.questions.len() {
            let (asked, got) = (self.questions.len(), answer.selections.len());
            return Err(format!("there are {asked} questions and {got} answers"));
        }
        let mut pairs = answer.selections.iter().zip(&self.questions);
        if let Some(why) = pairs.find_map(|(selection, question)| selection.unfit_for(question)) {
            return Err(why);
        }
        (self.answer, self.is_journaled) = (Some(answer), false);
        Ok(())
    }

    fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    fn set_journaled(&mut self) {
        self.is_journaled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_must_fit_the_questions() {
        let one = Question::new("Which?", ["a", "b"]);
        let many = Question { multi_select: true, ..Question::new("Which ones?", ["a", "b"]) };
        let both = Selection { selected: vec!["a".into(), "b".into()], other: None };
        let twice = Selection { selected: vec!["a".into(), "a".into()], other: None };
        for (selections, why) in [
            (vec![Selection::of("a"), both.clone()], None),
            (vec![Selection::other("c"), Selection::of("b")], None),
            (vec![Selection::of("a")], Some("2 questions and 1 answers")),
            (vec![Selection::of("c"), Selection::of("b")], Some("does not offer `c`")),
            (vec![both.clone(), both.clone()], Some("takes one of its options")),
            (vec![Selection::of("a"), twice], Some("chosen twice")),
            (vec![Selection::of("a"), Selection::default()], Some("has no answer")),
        ] {
            let mut request = QuestionRequest {
                id: QuestionId::new("q1"),
                call: CallId::new("c1"),
                session: SessionId::new("s1"),
                tool: "question".into(),
                questions: vec![one.clone(), many.clone()],
                asker: Requester::default(),
                at: SystemTime::UNIX_EPOCH,
                expires: SystemTime::UNIX_EPOCH,
                answer: None,
                is_journaled: false,
            };
            let written = request.write(QuestionAnswer::new(selections));
            match why {
                None => assert_eq!(written, Ok(())),
                Some(why) => {
                    assert!(written.as_ref().is_err_and(|text| text.contains(why)), "{written:?}");
                }
            }
            assert_eq!(request.answer.is_some(), why.is_none());
        }
    }
}
