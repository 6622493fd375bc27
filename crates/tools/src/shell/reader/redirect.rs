//! Redirections: a file, a descriptor or a text in place of a command's input or output.

use super::Reader;
use crate::shell::syntax::{Command, Redirect, RedirectKind, Word};

impl Reader<'_> {
    /// Reads a redirection if one is next, and adds it to the command. Returns whether it did.
    pub(super) fn redirect(&mut self, command: &mut Command) -> bool {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let is_numbered = self.at > begin;
        let Some(operator) = self.redirect_operator(is_numbered) else {
            self.at = begin;
            return false;
        };
        self.consume(operator);
        self.skip_blanks();
        if matches!(operator, "<<" | "<<-") {
            self.heredoc_delimiter(operator == "<<-");
            return true;
        }
        let from = self.at;
        let Some(target) = self.word(&mut command.substitutions) else {
            self.stop("a redirection has no target");
            return true;
        };
        if target.glob_at.is_some() {
            self.at = from;
            self.stop("the target of a redirection is a pattern");
            return true;
        }
        if matches!(operator, "<&" | ">&") && !target.variable_refs.is_empty() {
            self.at = from;
            self.stop("the target of a redirection is a variable");
            return true;
        }
        let kind = match operator {
            "<<<" => return true,
            "<" => RedirectKind::Read,
            "<&" | ">&" if is_descriptor(&target) => return true,
            ">&" if !is_numbered => RedirectKind::Write,
            "<&" | ">&" => {
                self.stop("the target of a redirection is no file descriptor");
                return true;
            }
            _ => RedirectKind::Write,
        };
        command.redirects.push(Redirect { kind, target });
        true
    }

    /// Returns the redirection operator that is next, without consuming it.
    fn redirect_operator(&mut self, is_numbered: bool) -> Option<&'static str> {
        const OPERATORS: &[&str] =
            &["<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">", "&>>", "&>"];
        let found = OPERATORS.iter().find(|operator| self.begins_with(operator)).copied()?;
        if is_numbered && found.starts_with('&') {
            return None;
        }
        // `<(…)` and `>(…)`.
        if self.peek_at(found.len()) == Some(b'(') {
            self.stop("it uses the output of a command as a file");
            return None;
        }
        Some(found)
    }
}

/// Returns whether a word names a descriptor: `2`, `-` or `2-`.
fn is_descriptor(word: &Word) -> bool {
    let digits = word.text.strip_suffix('-').unwrap_or(&word.text);
    !word.is_incomplete && digits.bytes().all(|byte| byte.is_ascii_digit()) && !word.text.is_empty()
}
