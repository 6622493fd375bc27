//! Questions of a tool at the terminal: options are numbered, and free text is an answer too.

use anyhow::Result;
use windlass::people::{Question, QuestionRequest, Selection};
use windlass::quote;

use super::terminal::Terminal;
use crate::terminal::{Paint, add};

/// Asks all questions of a request one after the other, and returns the answers.
pub(super) fn ask(
    terminal: &mut Terminal,
    request: &QuestionRequest,
    paint: Paint,
) -> Result<Vec<Selection>> {
    let count = request.questions.len();
    let ask_one = |(at, question): (usize, &Question)| {
        terminal.show(&question_text(question, (at + 1, count), paint), &[])?;
        loop {
            let line = terminal.read_line("Answer: ")?;
            if let Some(selection) = parse_selection(question, &line) {
                return Ok(selection);
            }
            terminal
                .show("Type the number of an option, or an answer in your own words.\n", &[])?;
        }
    };
    request.questions.iter().enumerate().map(ask_one).collect()
}

/// Returns the text of a question with its numbered options; control characters are made visible.
fn question_text(question: &Question, (at, count): (usize, usize), paint: Paint) -> String {
    let mut text = String::from("\n");
    if count > 1 {
        add(&mut text, format_args!("Question {at} of {count}\n"));
    }
    if let Some(header) = &question.header {
        add(&mut text, format_args!("{}\n", quote::visible(header)));
    }
    add(&mut text, format_args!("{}\n", paint.bold(&quote::visible(&question.question))));
    for (number, option) in question.options.iter().enumerate() {
        add(&mut text, format_args!("  [{}] {}", number + 1, quote::visible(&option.label)));
        if let Some(description) = &option.description {
            add(&mut text, format_args!(": {}", quote::visible(description)));
        }
        text.push('\n');
    }
    text.push_str(if question.multi_select {
        "Numbers separated by commas, or an answer in your own words.\n"
    } else {
        "A number, or an answer in your own words.\n"
    });
    quote::undisguised(&text)
}

/// Parses a typed line: numbers and labels of options are selections, other text is a free answer. `None` for an empty line or for a number
/// that no option has.
fn parse_selection(question: &Question, line: &str) -> Option<Selection> {
    if line.is_empty() {
        return None;
    }
    let label = |word: &str| {
        let by_number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let by_number = by_number.and_then(|at| question.options.get(at));
        let option = by_number.or_else(|| question.options.iter().find(|one| one.label == word))?;
        Some(option.label.clone())
    };
    if let Some(label) = label(line) {
        return Some(Selection::of(label));
    }
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let labels: Option<Vec<String>> = words.iter().map(|word| label(word)).collect();
    match labels {
        Some(mut selected) if question.multi_select => {
            let mut seen = std::collections::BTreeSet::new();
            selected.retain(|label| seen.insert(label.clone()));
            Some(Selection { selected, other: None })
        }
        // A number that no option has is a typing error.
        _ if words.iter().all(|word| word.parse::<usize>().is_ok()) => None,
        _ => Some(Selection::other(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_labels_and_free_text_are_answers() {
        let one = Question::new("Which?", ["red", "blue, dark"]);
        let many = Question { multi_select: true, ..one.clone() };
        let both = Selection { selected: vec!["red".into(), "blue, dark".into()], other: None };
        for (question, line, answer) in [
            (&one, "1", Some(Selection::of("red"))),
            (&one, "blue, dark", Some(Selection::of("blue, dark"))),
            (&one, "green", Some(Selection::other("green"))),
            (&one, "3", None),
            (&one, "0", None),
            (&one, "", None),
            (&one, "1,2", None),
            (&many, "1, 2, 1", Some(both)),
            (&many, "red", Some(Selection::of("red"))),
            (&many, "1, green", Some(Selection::other("1, green"))),
        ] {
            assert_eq!(parse_selection(question, line), answer, "{line}");
        }
    }

    #[test]
    fn control_characters_in_a_question_are_made_visible() {
        let hidden = "\x1b[2K\r\u{202e}\u{a0}";
        let mut question = Question::new(hidden, [hidden]);
        question.header = Some(hidden.into());
        let text = question_text(&question, (1, 2), Paint::none());
        assert!(!text.contains(|c: char| quote::is_invisible(c) && c != '\n'), "{text:?}");
        assert!(!text.contains('\u{a0}'), "{text:?}");
    }
}
