//! Reads a text as bash does, as far as all of it is literal.
//!
//! The reader knows the part of the language in which words mean themselves: quotes, lists, pipelines, groups, conditions,
//! redirections, here-documents, assignments, loops over words. Variables it leaves as holes in words, to be filled where their
//! values are known. Whatever else it meets it says, with the column. Where it is certain how bash goes on behind that (`$(…)`), it goes on too; where it is not, it stops. So every byte of the text is either read by a rule that is written
//! down here or is the reason why the text is not understood: there is no third way, and no recovery from errors.
//!
//! Bash takes a backslash and a newline out of the text before it looks for operators. Between the characters of an operator that
//! would join what is read apart here, so the reader stops there.

mod heredoc;
mod redirect;
mod word;

use super::syntax::{AndOr, Assignment, Body, Command, Connector, List, Pipeline, Word};

/// The longest text that is read.
const LONGEST: usize = 64 * 1024;
/// How deep commands may lie in each other.
const DEEPEST: usize = 24;
/// How many simple commands there may be.
const MOST: usize = 2_000;

/// A text, read.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) list: List,
    /// Why it is not all there is to know, if so.
    pub(super) unclear: Option<String>,
}

/// Reads a text.
pub(super) fn read(text: &str) -> Script {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        unclear: None,
        depth: 0,
        commands: 0,
        has_stopped: false,
        waiting: Vec::new(),
        inside: Vec::new(),
    };
    if text.len() > LONGEST {
        reader.stop("it is too long");
    }
    // Behind `bash -c` these would begin an option.
    if text.starts_with(['-', '+']) {
        reader.stop("it begins like an option of the shell");
    }
    let list = reader.list(&[]);
    if reader.peek().is_some() {
        reader.stop("a word or an operator is where none can be");
    }
    if !reader.waiting.is_empty() {
        reader.note("a here-document has no end");
    }
    Script { list, unclear: reader.unclear }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    unclear: Option<String>,
    depth: usize,
    commands: usize,
    has_stopped: bool,
    /// Here-documents whose text begins behind the next newline.
    waiting: Vec<heredoc::Delimiter>,
    /// What is run to make the words of the loop that was read last.
    inside: Vec<List>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn peek_at(&self, further: usize) -> Option<u8> {
        self.text.get(self.at + further).copied()
    }

    fn begins_with(&self, token: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(token.as_bytes()))
    }

    /// Notes what is not literal; reading goes on.
    fn note(&mut self, why: &str) {
        if self.unclear.is_none() {
            let column = self.at + 1;
            self.unclear = Some(format!("{why} (at column {column})"));
        }
    }

    /// Notes what cannot be read; nothing behind it is.
    fn stop(&mut self, why: &str) {
        self.note(why);
        self.at = self.text.len();
        self.has_stopped = true;
        self.waiting.clear();
    }

    /// Passes over blanks, comments and joined lines.
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

    fn join_lines(&mut self) {
        if self.waiting.is_empty() {
            self.at += 2;
        } else {
            self.stop("a line goes on although a here-document follows it");
        }
    }

    /// Passes over blanks and newlines.
    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return;
            }
            self.newline();
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        for delimiter in std::mem::take(&mut self.waiting) {
            self.here_document(&delimiter);
        }
    }

    /// Takes an operator, if it is next.
    fn take(&mut self, operator: &str) -> bool {
        if !self.begins_with(operator) {
            return false;
        }
        self.at += operator.len();
        if self.begins_with("\\\n") {
            self.stop("a line ends in an operator");
        }
        true
    }

    /// Commands up to one of these words or a closing parenthesis.
    fn list(&mut self, ends: &[&str]) -> List {
        let mut list = List::new();
        self.depth += 1;
        if self.depth > DEEPEST {
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
                Some(b';') if !self.begins_with(";;") && !self.begins_with(";&") => self.take(";"),
                Some(b'&') => {
                    and_or.in_background = true;
                    self.take("&")
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

    fn and_or(&mut self) -> AndOr {
        let mut and_or = AndOr { first: self.pipeline(), ..AndOr::default() };
        loop {
            self.skip_blanks();
            let connector = match () {
                () if self.begins_with("&&") => Connector::And,
                () if self.begins_with("||") => Connector::Or,
                () => return and_or,
            };
            self.take(if connector == Connector::And { "&&" } else { "||" });
            self.skip_lines();
            let next = self.pipeline();
            and_or.rest.push((connector, next));
        }
    }

    fn pipeline(&mut self) -> Pipeline {
        let mut pipeline = Pipeline::default();
        self.skip_blanks();
        while self.take_word("!") {
            pipeline.is_negated = !pipeline.is_negated;
            self.skip_blanks();
        }
        if self.take_word("time") {
            self.skip_blanks();
            self.take_word("-p");
            self.skip_blanks();
        }
        loop {
            match self.command() {
                Some(command) => pipeline.commands.push(command),
                None => self.stop("there is no command where one must be"),
            }
            self.skip_blanks();
            if self.begins_with("||") || !(self.take("|&") || self.take("|")) {
                return pipeline;
            }
            self.skip_lines();
        }
    }

    fn command(&mut self) -> Option<Command> {
        self.commands += 1;
        if self.commands > MOST {
            self.stop("it has too many commands");
        }
        self.skip_blanks();
        let body = self.compound();
        match body {
            Some(body) => {
                let mut command = Command::new(body);
                command.inside = std::mem::take(&mut self.inside);
                loop {
                    self.skip_blanks();
                    if !self.redirect(&mut command) {
                        return Some(command);
                    }
                }
            }
            None => self.simple(),
        }
    }

    fn compound(&mut self) -> Option<Body> {
        if self.begins_with("((") {
            self.stop("it calculates");
            return None;
        }
        if self.take("(") {
            let list = self.list(&[]);
            self.expect_operator(")");
            return Some(Body::Subshell(list));
        }
        if self.take_word("{") {
            let list = self.list(&["}"]);
            self.expect_word("}");
            return Some(Body::Group(list));
        }
        if self.take_word("if") {
            return Some(Body::If(self.condition()));
        }
        if self.take_word("while") || self.take_word("until") {
            let condition = self.list(&["do"]);
            let body = self.do_done();
            return Some(Body::Loop(vec![condition, body]));
        }
        if self.take_word("for") {
            return self.for_loop();
        }
        let unknown = ["case", "select", "function", "coproc", "[[", "time"];
        if let Some(word) = unknown.into_iter().find(|word| self.is_at_word(&[word])) {
            self.stop(&format!("it uses `{word}`"));
        }
        None
    }

    fn condition(&mut self) -> Vec<List> {
        let mut lists = vec![self.list(&["then"])];
        self.expect_word("then");
        loop {
            lists.push(self.list(&["elif", "else", "fi"]));
            if self.take_word("elif") {
                lists.push(self.list(&["then"]));
                self.expect_word("then");
            } else if !self.take_word("else") {
                break;
            }
        }
        self.expect_word("fi");
        lists
    }

    fn for_loop(&mut self) -> Option<Body> {
        self.skip_blanks();
        let mut inside = Vec::new();
        let name = self.word(&mut inside)?;
        self.skip_blanks();
        let is_name =
            !name.is_quoted && !name.is_open && name.holes.is_empty() && is_name(&name.text);
        if !is_name || !self.take_word("in") {
            self.stop("it repeats in an unusual way");
            return None;
        }
        self.skip_blanks();
        let mut values = Vec::new();
        while let Some(value) = self.word(&mut inside) {
            values.push(value);
            self.skip_blanks();
        }
        if self.peek() == Some(b';') {
            self.take(";");
        }
        self.skip_lines();
        let body = self.do_done();
        self.inside = inside;
        Some(Body::For { name: name.text, values, body })
    }

    fn do_done(&mut self) -> List {
        self.expect_word("do");
        let list = self.list(&["done"]);
        self.expect_word("done");
        list
    }

    fn expect_word(&mut self, word: &str) {
        self.skip_lines();
        if !self.take_word(word) {
            self.stop(&format!("`{word}` is missing"));
        }
    }

    fn expect_operator(&mut self, operator: &str) {
        self.skip_lines();
        if !self.take(operator) {
            self.stop(&format!("`{operator}` is missing"));
        }
    }

    /// Whether one of these words is next, unquoted and whole.
    fn is_at_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| {
            // What may stand right behind these two has changed from bash to bash.
            let ends: &[u8] = if matches!(*word, "!" | "{") { b" \t\n" } else { b" \t\n;&|()<>" };
            self.begins_with(word)
                && self.peek_at(word.len()).is_none_or(|byte| ends.contains(&byte))
        })
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = self.is_at_word(&[word]);
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn simple(&mut self) -> Option<Command> {
        let begin = self.at;
        let mut command = Command::new(Body::Simple(Vec::new()));
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            if self.redirect(&mut command) {
                continue;
            }
            let from = self.at;
            let Some(word) = self.word(&mut command.inside) else { break };
            let raw = self.text.get(from..self.at).unwrap_or_default();
            if words.is_empty() && is_assignment(raw) {
                match assignment(word, raw) {
                    Some(assignment) if self.peek() != Some(b'(') => {
                        command.assignments.push(assignment);
                        continue;
                    }
                    _ => {
                        self.at = from;
                        self.stop("it sets a variable");
                        break;
                    }
                }
            }
            if words.is_empty() && is_reserved(&word) {
                self.at = from;
                self.stop("a word of the shell is where none can be");
                break;
            }
            words.push(word);
        }
        if self.peek() == Some(b'(') {
            self.stop("it defines a function or an array");
        }
        let is_nothing = words.is_empty() && command.redirects.is_empty() && self.at == begin;
        command.body = Body::Simple(words);
        (!is_nothing || self.unclear.is_some()).then_some(command)
    }
}

/// The plain assignment that a word is: `a=value`.
fn assignment(word: Word, raw: &[u8]) -> Option<Assignment> {
    let (name, value) = word.text.split_once('=')?;
    let from = name.len() + 1;
    // As it is written: a joined line or a quote in it makes it something else.
    if !is_name(name) || !raw.starts_with(word.text.get(..from)?.as_bytes()) {
        return None;
    }
    let (name, text) = (name.to_owned(), value.to_owned());
    let mut value = Word { text, pattern: None, ..word };
    for hole in &mut value.holes {
        hole.at -= from;
    }
    Some(Assignment { name, value })
}

/// Whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Whether a word, as written, sets a variable: `a=`, `a+=`, `a[…]=`.
fn is_assignment(raw: &[u8]) -> bool {
    let name = raw.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let begins = raw.first().is_some_and(|byte| !byte.is_ascii_digit()) && name > 0;
    let rest = raw.get(name..).unwrap_or_default();
    // Where a line is joined, what follows is not looked at.
    let marks: [&[u8]; 4] = [b"=", b"+=", b"[", b"\\\n"];
    begins && marks.iter().any(|mark| rest.starts_with(mark))
}

/// Words that the shell would not take for the name of a program.
fn is_reserved(word: &Word) -> bool {
    const RESERVED: &[&str] = &[
        "then", "else", "elif", "fi", "do", "done", "esac", "in", "}", "!", "{", "if", "while",
        "until", "for", "case", "select", "function", "coproc", "time", "[[", "]]",
    ];
    RESERVED.iter().any(|reserved| word.is_bare(reserved))
}
