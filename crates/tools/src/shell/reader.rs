//! Parses a script as bash does, as far as it is literal.
//!
//! The reader knows quotes, lists, pipelines, groups, conditions, redirections, here-documents, assignments and loops over words.
//! References to variables stay in the words, to be expanded later. Any other syntax makes the script unclear, with its column. If the end
//! of that syntax is certain (`$(…)`), the reader goes on behind it; otherwise it stops. So every byte is either read by a rule of this
//! module or is the reason why the script is unclear. There is no recovery from errors.
//!
//! Bash removes a backslash and a newline before it looks for operators. Between the characters of an operator that would join what is read
//! apart here, so the reader stops there.

mod heredoc;
mod redirect;
mod word;

use super::syntax::{AndOr, Assignment, Command, CommandBody, Connector, List, Pipeline, Word};

/// Limit of a script's length.
const MAX_SCRIPT_BYTES: usize = 64 * 1024;
/// Limit of nested lists of commands.
const MAX_NESTING: usize = 24;
/// Limit of commands in a script.
const MAX_COMMANDS: usize = 2_000;

/// A parsed script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) list: List,
    /// The first reason why the script is unclear, if it is.
    pub(super) unclear: Option<String>,
}

/// Parses a script.
pub(super) fn read(text: &str) -> Script {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        unclear: None,
        depth: 0,
        commands: 0,
        has_stopped: false,
        pending_heredocs: Vec::new(),
        substitutions: Vec::new(),
    };
    if text.len() > MAX_SCRIPT_BYTES {
        reader.stop("it is too long");
    }
    // Behind `bash -c` these would begin an option.
    if text.starts_with(['-', '+']) {
        reader.stop("it begins like an option of the shell");
    }
    let list = reader.list(&[]);
    if reader.peek().is_some() {
        reader.stop("a word or an operator is in a wrong place");
    }
    if !reader.pending_heredocs.is_empty() {
        reader.mark_unclear("a here-document has no end");
    }
    Script { list, unclear: reader.unclear }
}

/// The state of the parser.
struct Reader<'t> {
    text: &'t [u8],
    /// Index of the next byte.
    at: usize,
    unclear: Option<String>,
    /// Number of lists of commands around the present position.
    depth: usize,
    /// Number of commands so far.
    commands: usize,
    /// True if reading has stopped at syntax that is not known.
    has_stopped: bool,
    /// Here-documents whose text begins behind the next newline.
    pending_heredocs: Vec<heredoc::Delimiter>,
    /// Command substitutions in the values of the `for` loop that was read last.
    substitutions: Vec<List>,
}

impl Reader<'_> {
    /// Returns the next byte without consuming it.
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the byte at this distance behind the next one.
    fn peek_at(&self, further: usize) -> Option<u8> {
        self.text.get(self.at + further).copied()
    }

    /// Returns whether the rest of the script begins with this token.
    fn begins_with(&self, token: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(token.as_bytes()))
    }

    /// Marks the script as unclear at this column; reading goes on. The first reason is kept.
    fn mark_unclear(&mut self, why: &str) {
        if self.unclear.is_none() {
            let column = self.at + 1;
            self.unclear = Some(format!("{why} (at column {column})"));
        }
    }

    /// Marks the script as unclear and ends reading: the position moves to the end.
    fn stop(&mut self, why: &str) {
        self.mark_unclear(why);
        self.at = self.text.len();
        self.has_stopped = true;
        self.pending_heredocs.clear();
    }

    /// Skips blanks, comments and joined lines.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\\' if self.peek_at(1) == Some(b'\n') => self.join_lines(),
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips a backslash and a newline. Stops if a here-document follows the line.
    fn join_lines(&mut self) {
        if self.pending_heredocs.is_empty() {
            self.at += 2;
        } else {
            self.stop("a line with a here-document ends in a backslash");
        }
    }

    /// Skips blanks and newlines.
    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return;
            }
            self.consume_newline();
        }
    }

    /// Skips a newline and the here-documents that begin behind it.
    fn consume_newline(&mut self) {
        self.at += 1;
        for delimiter in std::mem::take(&mut self.pending_heredocs) {
            self.skip_here_document(&delimiter);
        }
    }

    /// Consumes an operator if it is next. Returns whether it was.
    fn consume(&mut self, operator: &str) -> bool {
        if !self.begins_with(operator) {
            return false;
        }
        self.at += operator.len();
        if self.begins_with("\\\n") {
            self.stop("a line ends in an operator");
        }
        true
    }

    /// Reads commands up to one of these words, a closing parenthesis or the end.
    fn list(&mut self, ends: &[&str]) -> List {
        let mut list = List::new();
        self.depth += 1;
        if self.depth > MAX_NESTING {
            self.stop("it is nested too deep");
        }
        loop {
            self.skip_lines();
            if self.peek().is_none_or(|byte| byte == b')') || self.is_at_word(ends) {
                break;
            }
            let mut and_or = self.and_or();
            self.skip_blanks();
            let goes_on = match self.peek() {
                Some(b';') if !self.begins_with(";;") && !self.begins_with(";&") => {
                    self.consume(";")
                }
                Some(b'&') => {
                    and_or.in_background = true;
                    self.consume("&")
                }
                Some(b'\n') => true,
                _ => false,
            };
            list.push(and_or);
            if !goes_on {
                break;
            }
        }
        self.depth -= 1;
        list
    }

    /// Reads pipelines joined by `&&` and `||`.
    fn and_or(&mut self) -> AndOr {
        let mut and_or = AndOr { first: self.pipeline(), ..AndOr::default() };
        loop {
            self.skip_blanks();
            let connector = match () {
                () if self.begins_with("&&") => Connector::And,
                () if self.begins_with("||") => Connector::Or,
                () => return and_or,
            };
            self.consume(if connector == Connector::And { "&&" } else { "||" });
            self.skip_lines();
            let next = self.pipeline();
            and_or.rest.push((connector, next));
        }
    }

    /// Reads commands joined by `|` or `|&`, with `!` and `time` before them.
    fn pipeline(&mut self) -> Pipeline {
        let mut pipeline = Pipeline::default();
        self.skip_blanks();
        while self.consume_word("!") {
            pipeline.is_negated = !pipeline.is_negated;
            self.skip_blanks();
        }
        if self.consume_word("time") {
            self.skip_blanks();
            self.consume_word("-p");
            self.skip_blanks();
        }
        loop {
            match self.command() {
                Some(command) => pipeline.commands.push(command),
                None => self.stop("a command is missing"),
            }
            self.skip_blanks();
            if self.begins_with("||") || !(self.consume("|&") || self.consume("|")) {
                return pipeline;
            }
            self.skip_lines();
        }
    }

    /// Reads a command of any form with its redirections.
    fn command(&mut self) -> Option<Command> {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            self.stop("it has too many commands");
        }
        self.skip_blanks();
        let body = self.compound_body();
        match body {
            Some(body) => {
                let mut command = Command::new(body);
                command.substitutions = std::mem::take(&mut self.substitutions);
                loop {
                    self.skip_blanks();
                    if !self.redirect(&mut command) {
                        return Some(command);
                    }
                }
            }
            None => self.simple_command(),
        }
    }

    /// Reads a compound command such as `( … )`, `if` or `for`; `None` if none is next.
    fn compound_body(&mut self) -> Option<CommandBody> {
        if self.begins_with("((") {
            self.stop("it uses arithmetic");
            return None;
        }
        if self.consume("(") {
            let list = self.list(&[]);
            self.expect_operator(")");
            return Some(CommandBody::Subshell(list));
        }
        if self.consume_word("{") {
            let list = self.list(&["}"]);
            self.expect_word("}");
            return Some(CommandBody::Group(list));
        }
        if self.consume_word("if") {
            return Some(CommandBody::If(self.if_lists()));
        }
        if self.consume_word("while") || self.consume_word("until") {
            let condition = self.list(&["do"]);
            let body = self.loop_body();
            return Some(CommandBody::Loop(vec![condition, body]));
        }
        if self.consume_word("for") {
            return self.for_loop();
        }
        let unknown = ["case", "select", "function", "coproc", "[[", "time"];
        if let Some(word) = unknown.into_iter().find(|word| self.is_at_word(&[word])) {
            self.stop(&format!("it uses `{word}`"));
        }
        None
    }

    /// Reads the conditions and branches behind `if`, up to `fi`.
    fn if_lists(&mut self) -> Vec<List> {
        let mut lists = vec![self.list(&["then"])];
        self.expect_word("then");
        loop {
            lists.push(self.list(&["elif", "else", "fi"]));
            if self.consume_word("elif") {
                lists.push(self.list(&["then"]));
                self.expect_word("then");
            } else if !self.consume_word("else") {
                break;
            }
        }
        self.expect_word("fi");
        lists
    }

    /// Reads `name in values; do …; done`. Stops at other forms of `for`.
    fn for_loop(&mut self) -> Option<CommandBody> {
        self.skip_blanks();
        let mut substitutions = Vec::new();
        let name = self.word(&mut substitutions)?;
        self.skip_blanks();
        let is_name = !name.is_quoted
            && !name.is_incomplete
            && name.variable_refs.is_empty()
            && is_name(&name.text);
        if !is_name || !self.consume_word("in") {
            self.stop("its `for` loop has an unusual form");
            return None;
        }
        self.skip_blanks();
        let mut values = Vec::new();
        while let Some(value) = self.word(&mut substitutions) {
            values.push(value);
            self.skip_blanks();
        }
        if self.peek() == Some(b';') {
            self.consume(";");
        }
        self.skip_lines();
        let body = self.loop_body();
        self.substitutions = substitutions;
        Some(CommandBody::For { name: name.text, values, body })
    }

    /// Reads `do …; done`.
    fn loop_body(&mut self) -> List {
        self.expect_word("do");
        let list = self.list(&["done"]);
        self.expect_word("done");
        list
    }

    /// Consumes a reserved word behind blanks and newlines, or stops.
    fn expect_word(&mut self, word: &str) {
        self.skip_lines();
        if !self.consume_word(word) {
            self.stop(&format!("`{word}` is missing"));
        }
    }

    /// Consumes an operator behind blanks and newlines, or stops.
    fn expect_operator(&mut self, operator: &str) {
        self.skip_lines();
        if !self.consume(operator) {
            self.stop(&format!("`{operator}` is missing"));
        }
    }

    /// Returns whether one of these words is next, unquoted and whole.
    fn is_at_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| {
            // The characters that may follow these two words differ between versions of bash.
            let ends: &[u8] = if matches!(*word, "!" | "{") { b" \t\n" } else { b" \t\n;&|()<>" };
            self.begins_with(word)
                && self.peek_at(word.len()).is_none_or(|byte| ends.contains(&byte))
        })
    }

    /// Consumes a reserved word if it is next. Returns whether it was.
    fn consume_word(&mut self, word: &str) -> bool {
        let is_next = self.is_at_word(&[word]);
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    /// Reads assignments, words and redirections; `None` if there is nothing.
    fn simple_command(&mut self) -> Option<Command> {
        let begin = self.at;
        let mut command = Command::new(CommandBody::Simple(Vec::new()));
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            if self.redirect(&mut command) {
                continue;
            }
            let from = self.at;
            let Some(word) = self.word(&mut command.substitutions) else { break };
            let raw = self.text.get(from..self.at).unwrap_or_default();
            if words.is_empty() && is_assignment(raw) {
                match assignment(word, raw) {
                    Some(assignment) if self.peek() != Some(b'(') => {
                        command.assignments.push(assignment);
                        continue;
                    }
                    _ => {
                        self.at = from;
                        self.stop("it sets a variable in an unusual way");
                        break;
                    }
                }
            }
            if words.is_empty() && is_reserved(&word) {
                self.at = from;
                self.stop("a reserved word is in a wrong place");
                break;
            }
            words.push(word);
        }
        if self.peek() == Some(b'(') {
            self.stop("it defines a function or an array");
        }
        let is_nothing = words.is_empty() && command.redirects.is_empty() && self.at == begin;
        command.body = CommandBody::Simple(words);
        (!is_nothing || self.unclear.is_some()).then_some(command)
    }
}

/// Splits a word `a=value` into name and value; `None` if the name is quoted or the word is another kind of assignment.
fn assignment(word: Word, raw: &[u8]) -> Option<Assignment> {
    let (name, value) = word.text.split_once('=')?;
    let from = name.len() + 1;
    // A joined line or a quote in the name makes it no assignment.
    if !is_name(name) || !raw.starts_with(word.text.get(..from)?.as_bytes()) {
        return None;
    }
    let (name, text) = (name.to_owned(), value.to_owned());
    let mut value = Word { text, glob_at: None, ..word };
    for variable_ref in &mut value.variable_refs {
        variable_ref.at -= from;
    }
    Some(Assignment { name, value })
}

/// Returns whether a text is a valid name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Returns whether a word, as written, begins like an assignment: `a=`, `a+=`, `a[…]=`.
fn is_assignment(raw: &[u8]) -> bool {
    let name = raw.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let begins = raw.first().is_some_and(|byte| !byte.is_ascii_digit()) && name > 0;
    let rest = raw.get(name..).unwrap_or_default();
    // Text behind a joined line is not examined.
    let marks: [&[u8]; 4] = [b"=", b"+=", b"[", b"\\\n"];
    begins && marks.iter().any(|mark| rest.starts_with(mark))
}

/// Returns whether a word is a reserved word of the shell, which cannot name a program.
fn is_reserved(word: &Word) -> bool {
    const RESERVED: &[&str] = &[
        "then", "else", "elif", "fi", "do", "done", "esac", "in", "}", "!", "{", "if", "while",
        "until", "for", "case", "select", "function", "coproc", "time", "[[", "]]",
    ];
    RESERVED.iter().any(|reserved| word.is_bare(reserved))
}
