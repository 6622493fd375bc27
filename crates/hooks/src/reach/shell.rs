//! Splits a shell text into its commands, whatever surrounds them: loops, conditions, substitutions.
//!
//! It does not run anything and knows no values but those of a few names. A word that depends on more is [`Word::unknown`]. Texts that it cannot
//! split for certain are an error: who asks wants to know all that a text could start.

use std::collections::HashMap;

use super::programs::Program;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// As it is written.
    pub(super) written: String,
    /// Its value; `None` if that is known only when it runs.
    pub(super) value: Option<String>,
}

/// One command: its words, without redirections.
pub(super) type Command = Vec<Word>;

/// Values of variables, and of substitutions such as `dirname $0`; `None` where there may be several. A function `f` is known as `f()`.
pub(super) type Values = HashMap<String, Option<String>>;

/// Words that stand before a command and are none.
const BEFORE_COMMANDS: &[&str] =
    &["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"];
/// Words that end something.
const ENDS: &[&str] = &["fi", "done", "esac", "}"];

/// Returns the commands of a text in its order, those inside of substitutions first, and learns the values of its variables.
pub(super) fn commands(text: &str, values: &mut Values) -> Result<Vec<Command>, String> {
    // A variable that turns out to have several values has none that is known, also before.
    for _ in 0..MOST_PASSES {
        let before = values.clone();
        let found = pass(text, values)?;
        let is_settled = before.iter().all(|(name, value)| values.get(name) == Some(value));
        let has_learnt =
            values.iter().any(|(name, value)| value.is_none() && before.get(name) != Some(value));
        if is_settled && !has_learnt {
            return Ok(found);
        }
        // What was learnt of single values is learnt again in its order.
        values.retain(|name, value| value.is_none() || before.contains_key(name));
    }
    Err("its variables change too often to be followed".to_owned())
}

/// How often a text is read until it is known which variables have one value.
const MOST_PASSES: usize = 16;

fn pass(text: &str, values: &mut Values) -> Result<Vec<Command>, String> {
    let (rest, found, documents) = (text.chars().collect(), Vec::new(), Vec::new());
    let mut splitter = Splitter { rest, at: 0, values, found, documents };
    splitter.all(None)?;
    Ok(splitter.found)
}

struct Splitter<'v> {
    rest: Vec<char>,
    at: usize,
    values: &'v mut Values,
    found: Vec<Command>,
    /// Delimiters of here-documents that begin with the next line, and whether they are quoted.
    documents: Vec<(String, bool)>,
}

impl Splitter<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.peek(0);
        self.at += usize::from(taken.is_some());
        taken
    }

    fn follows(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(at, c)| self.peek(at) == Some(c))
    }

    /// Splits up to a closing character, or to the end.
    fn all(&mut self, until: Option<char>) -> Result<(), String> {
        let mut command = Command::new();
        loop {
            self.blanks();
            let Some(next) = self.peek(0) else { break };
            if Some(next) == until {
                self.at += 1;
                self.end(&mut command);
                return Ok(());
            }
            match next {
                '\n' => {
                    self.at += 1;
                    self.end(&mut command);
                    self.skip_documents()?;
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                ';' | '&' | '|' => {
                    if self.follows("&>") {
                        self.redirection()?;
                    } else {
                        self.at += 1;
                        self.end(&mut command);
                    }
                }
                '(' if command.len() == 1 && self.follows("()") => {
                    // A function: its name is one of those that are known from here on.
                    self.at += 2;
                    let name = command.remove(0).written;
                    // Before its definition, the name would stand for the program.
                    if Program::named(&name) != Program::Unknown {
                        return Err(no("a function with the name of a program"));
                    }
                    self.values.insert(format!("{name}()"), Some(String::new()));
                }
                '(' if command.is_empty() && self.follows("((") => return Err(no("`((`")),
                '(' if command.is_empty() => {
                    self.at += 1;
                    self.all(Some(')'))?;
                }
                '(' | ')' => return Err(no("parentheses")),
                '<' | '>' => self.redirection()?,
                _ => {
                    let word = self.word()?;
                    let is_number = word.written.chars().all(|c| c.is_ascii_digit());
                    if is_number && matches!(self.peek(0), Some('<' | '>')) {
                        self.redirection()?;
                        continue;
                    }
                    self.add(&mut command, word)?;
                }
            }
        }
        if until.is_some() {
            return Err("it has a parenthesis without its end".to_owned());
        }
        self.end(&mut command);
        Ok(())
    }

    /// Adds a word to a command, or takes it as a part of what surrounds commands.
    fn add(&mut self, command: &mut Command, word: Word) -> Result<(), String> {
        if !command.is_empty() {
            command.push(word);
            return Ok(());
        }
        match word.written.as_str() {
            before if BEFORE_COMMANDS.contains(&before) || ENDS.contains(&before) => {}
            "for" | "select" => {
                self.blanks();
                let name = self.word()?.written;
                self.assign(&name, None);
                self.skip_until_separator()?;
            }
            "case" => self.case()?,
            "function" => return Err(no("the word `function`")),
            "coproc" => return Err(no("`coproc`")),
            "[[" => self.test()?,
            _ => command.push(word),
        }
        Ok(())
    }

    fn end(&mut self, command: &mut Command) {
        let command = std::mem::take(command);
        let first = command.first().and_then(|word| word.value.as_deref()).unwrap_or_default();
        let declares = ["export", "local", "readonly", "declare", "typeset"].contains(&first);
        let sets =
            ["read", "mapfile", "readarray", "getopts", "unset", "printf", "let"].contains(&first);
        if declares || command.iter().all(|word| assigned(word).is_some()) {
            for word in &command {
                let Some(name) = assigned(word) else { continue };
                let is_whole = !word.written.contains("+=");
                let value = word.value.as_deref().filter(|_| is_whole);
                self.assign(name, value.and_then(|value| Some(value.split_once('=')?.1)));
            }
        } else if sets {
            for word in command.iter().filter_map(|word| word.value.clone()) {
                self.assign(&word, None);
            }
        } else if ["cd", "pushd", "popd"].contains(&first) {
            for name in ["PWD", "OLDPWD", "pwd", "pwd -P"] {
                self.assign(name, None);
            }
        }
        if !command.is_empty() {
            self.found.push(command);
        }
    }

    fn assign(&mut self, name: &str, value: Option<&str>) {
        let new = || value.map(str::to_owned);
        let known = self.values.entry(name.to_owned()).or_insert_with(new);
        if known.as_deref() != value {
            *known = None;
        }
    }

    fn blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    fn skip_until_separator(&mut self) -> Result<(), String> {
        loop {
            self.blanks();
            match self.peek(0) {
                None | Some(';' | '\n') => return Ok(()),
                Some('(' | ')' | '<' | '>' | '&' | '|') => return Err(no("an operator in `for`")),
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// `[[ … ]]` starts nothing but what is substituted in it.
    fn test(&mut self) -> Result<(), String> {
        loop {
            self.blanks();
            match self.peek(0) {
                None => return Err("`[[` has no end".to_owned()),
                Some('&' | '|' | '<' | '>' | '(' | ')' | '\n' | ';') => self.at += 1,
                Some(_) => {
                    if self.word()?.written == "]]" {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// `case WORD in PATTERN) commands ;; … esac`
    fn case(&mut self) -> Result<(), String> {
        self.blanks();
        self.word()?;
        self.skip_lines();
        if self.word()?.written != "in" {
            return Err("`case` without `in`".to_owned());
        }
        loop {
            self.skip_lines();
            if self.follows("esac") {
                self.at += 4;
                return Ok(());
            }
            self.pattern()?;
            self.branch()?;
        }
    }

    fn pattern(&mut self) -> Result<(), String> {
        if self.peek(0) == Some('(') {
            self.at += 1;
        }
        loop {
            self.blanks();
            match self.peek(0) {
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('|') => self.at += 1,
                None | Some('\n' | ';' | '&' | '<' | '>' | '(') => {
                    return Err("`case` has a pattern without `)`".to_owned());
                }
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// The commands of one pattern: up to `;;`, or to `esac`, which is left.
    fn branch(&mut self) -> Result<(), String> {
        let from = self.at;
        let mut inner = Vec::new();
        while !self.follows(";;") {
            let starts_word = self.at == from
                || matches!(self.rest.get(self.at - 1), Some(' ' | '\t' | '\n' | ';'));
            if starts_word
                && self.follows("esac")
                && !self.peek(4).is_some_and(char::is_alphanumeric)
            {
                return self.nested(inner);
            }
            match self.peek(0) {
                None => return Err("`case` without `esac`".to_owned()),
                Some('\'' | '"' | '$' | '`' | '\\') => {
                    let begin = self.at;
                    self.word()?;
                    inner.extend(self.rest.get(begin..self.at).unwrap_or_default());
                }
                Some(c) => {
                    if starts_word && self.follows("case ") {
                        return Err(no("`case` in `case`"));
                    }
                    inner.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 2;
        if self.peek(0) == Some('&') {
            self.at += 1;
        }
        self.nested(inner)
    }

    fn skip_lines(&mut self) {
        loop {
            self.blanks();
            match self.peek(0) {
                Some('\n') => self.at += 1,
                Some('#') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn nested(&mut self, text: Vec<char>) -> Result<(), String> {
        let found = commands(&text.into_iter().collect::<String>(), self.values)?;
        self.found.extend(found);
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), String> {
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|'))
            && !self.follows("<(")
            && !self.follows(">(")
        {
            if self.follows("<<<") {
                self.at += 3;
                break;
            }
            if self.follows("<<") {
                return self.begin_document();
            }
            self.at += 1;
        }
        self.blanks();
        self.word().map(drop)
    }

    fn begin_document(&mut self) -> Result<(), String> {
        self.at += 2;
        if self.peek(0) == Some('-') {
            self.at += 1;
        }
        self.blanks();
        let word = self.word()?;
        let is_quoted = word.written.contains(['\'', '"', '\\']);
        let delimiter = word.written.replace(['\'', '"', '\\'], "");
        self.documents.push((delimiter, is_quoted));
        Ok(())
    }

    fn skip_documents(&mut self) -> Result<(), String> {
        for (delimiter, is_quoted) in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                if self.peek(0).is_none() {
                    return Err("a here-document has no end".to_owned());
                }
                while let Some(c) = self.take().filter(|c| *c != '\n') {
                    line.push(c);
                }
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
                if !is_quoted && (line.contains("$(") || line.contains('`')) {
                    return Err(no("a substitution in a here-document"));
                }
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Word, String> {
        let (begin, mut value, mut is_pattern) = (self.at, Some(String::new()), false);
        while let Some(next) = self.peek(0) {
            match next {
                '(' if self.at > begin && self.rest.get(self.at - 1) == Some(&'=') => {
                    return Err(no("an array"));
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.all(Some(')'))?;
                    value = None;
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => self.single(&mut value)?,
                '"' => self.double(&mut value)?,
                '\\' => {
                    self.at += 1;
                    if let Some(c) = self.take().filter(|c| *c != '\n') {
                        push(&mut value, &c.to_string());
                    }
                }
                '$' | '`' => self.expansion(&mut value)?,
                '*' | '?' | '[' | '~' | '{' => {
                    // It becomes names of files that are there when it runs.
                    is_pattern = true;
                    self.at += 1;
                }
                c => {
                    push(&mut value, &c.to_string());
                    self.at += 1;
                }
            }
        }
        if self.at == begin {
            return Err("it has an operator without a word".to_owned());
        }
        let written: String = self.rest.get(begin..self.at).unwrap_or_default().iter().collect();
        if is_pattern {
            value = Some(written.clone()).filter(|written| ["[", "{"].contains(&written.as_str()));
        }
        Ok(Word { written, value })
    }

    fn single(&mut self, value: &mut Option<String>) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.take() {
                None => return Err("it has a quotation mark without its end".to_owned()),
                Some('\'') => return Ok(()),
                Some(c) => push(value, &c.to_string()),
            }
        }
    }

    fn double(&mut self, value: &mut Option<String>) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek(0) {
                None => return Err("it has a quotation mark without its end".to_owned()),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.take() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => push(value, &c.to_string()),
                        Some('\n') | None => {}
                        Some(c) => push(value, &format!("\\{c}")),
                    }
                }
                Some('$' | '`') => self.expansion(value)?,
                Some(c) => {
                    push(value, &c.to_string());
                    self.at += 1;
                }
            }
        }
    }

    /// `$NAME`, `${…}`, `$(…)`, `` `…` ``, `$((…))`.
    fn expansion(&mut self, value: &mut Option<String>) -> Result<(), String> {
        let begin = self.at;
        if self.follows("$((") {
            return Err(no("`$((`"));
        }
        if self.follows("$(") {
            self.at += 2;
            let inside = self.at;
            self.all(Some(')'))?;
            let inside: String =
                self.rest.get(inside..self.at - 1).unwrap_or_default().iter().collect();
            return self.put(value, &normal(&inside));
        }
        if self.take() == Some('`') {
            return Err(no("a backtick; `$(…)` can be followed"));
        }
        if self.peek(0) == Some('{') {
            self.at += 1;
            let inside = self.at;
            while self.peek(0).is_some_and(|c| c != '}') {
                if self.follows("$(") || self.peek(0) == Some('`') || self.follows("${") {
                    return Err(no("a substitution in `${…}`"));
                }
                self.at += 1;
            }
            let name: String = self.rest.get(inside..self.at).unwrap_or_default().iter().collect();
            self.at += 1;
            if (name.contains('@') && !name.contains("[@]") && name != "@") || name.contains('=') {
                return Err(no("`${…@…}` or `${…=…}`"));
            }
            return self.put(value, &name);
        }
        if self.peek(0) == Some('\'') {
            return Err(no("`$'…'`"));
        }
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        if self.at == begin + 1 && self.peek(0).is_some_and(|c| "?#@*!$-".contains(c)) {
            self.at += 1;
        }
        let name: String = self.rest.get(begin + 1..self.at).unwrap_or_default().iter().collect();
        if name.is_empty() {
            push(value, "$");
            return Ok(());
        }
        self.put(value, &name)
    }

    /// Adds the value of a name, or makes the word unknown.
    #[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
    fn put(&mut self, value: &mut Option<String>, name: &str) -> Result<(), String> {
        match self.values.get(name) {
            Some(Some(known)) => push(value, &known.clone()),
            Some(None) | None => *value = None,
        }
        Ok(())
    }
}

fn push(value: &mut Option<String>, text: &str) {
    if let Some(value) = value {
        value.push_str(text);
    }
}

/// A substitution as it is looked up: without quotation marks, blanks as one.
fn normal(inside: &str) -> String {
    inside.replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name that a word assigns to.
pub(super) fn assigned(word: &Word) -> Option<&str> {
    let name = word.written.split_once('=')?.0;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name
        .chars()
        .enumerate()
        .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit()));
    (is_name && !name.is_empty()).then_some(name)
}

fn no(what: &str) -> String {
    format!("it has {what}, which is not looked through")
}
