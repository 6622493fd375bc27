//! Splits a shell text into its commands, inside loops, conditions and substitutions, too.
//!
//! It runs nothing and knows only the values of a few variables. The value of a word that depends on anything else is `None`. A
//! text that cannot be split with certainty is an error, because the caller needs every command that the text could start.

use std::collections::HashMap;

use super::programs::ProgramKind;

/// Reason why a shell text cannot be split with certainty.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShellSyntaxError {
    #[error("its variables change too often to be followed")]
    ChangingVariables,
    #[error("it has {0}, which is not looked through")]
    Unsupported(&'static str),
    #[error("it has a parenthesis without its end")]
    OpenParenthesis,
    #[error("`[[` has no end")]
    OpenDoubleBracket,
    #[error("`case` without `in`")]
    CaseWithoutIn,
    #[error("`case` has a pattern without `)`")]
    OpenCasePattern,
    #[error("`case` without `esac`")]
    CaseWithoutEsac,
    #[error("a here-document has no end")]
    OpenHereDocument,
    #[error("it has an operator without a word")]
    MissingWord,
    #[error("it has a quotation mark without its end")]
    OpenQuotation,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word as written.
    pub(super) written: String,
    /// Its value; `None` if it is known only at run time.
    pub(super) value: Option<String>,
}

/// One command: its words, without redirections.
pub(super) type Command = Vec<Word>;

/// Values of variables and of substitutions such as `dirname $0`; `None` if there may be several. A function `f` has the entry
/// `f()`.
pub(super) type KnownValues = HashMap<String, Option<String>>;

/// Words that precede a command without being one.
const BEFORE_COMMANDS: &[&str] =
    &["if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"];
/// Words that end a block.
const BLOCK_ENDS: &[&str] = &["fi", "done", "esac", "}"];

/// Returns the commands of a text in order, those inside substitutions first, and adds the values of its variables to `values`.
pub(super) fn split_commands(
    text: &str,
    values: &mut KnownValues,
) -> Result<Vec<Command>, ShellSyntaxError> {
    // A variable with several values counts as unknown in the whole text, also before the second assignment. So the text is read
    // again until nothing changes.
    for _ in 0..MAX_PASSES {
        let before = values.clone();
        let found = split_once_through(text, values)?;
        let is_unchanged = before.iter().all(|(name, value)| values.get(name) == Some(value));
        let has_learnt =
            values.iter().any(|(name, value)| value.is_none() && before.get(name) != Some(value));
        if is_unchanged && !has_learnt {
            return Ok(found);
        }
        // Single values are forgotten, so that the next pass learns them in the order of the text.
        values.retain(|name, value| value.is_none() || before.contains_key(name));
    }
    Err(ShellSyntaxError::ChangingVariables)
}

/// Maximum passes over a text until it is clear which variables have only one value.
const MAX_PASSES: usize = 16;

/// Splits the text once, with the values that are known so far.
fn split_once_through(
    text: &str,
    values: &mut KnownValues,
) -> Result<Vec<Command>, ShellSyntaxError> {
    let (rest, found, documents) = (text.chars().collect(), Vec::new(), Vec::new());
    let mut splitter = ShellSplitter { rest, at: 0, values, found, documents };
    splitter.split_until(None)?;
    Ok(splitter.found)
}

/// Splits the characters of a text into commands.
struct ShellSplitter<'v> {
    rest: Vec<char>,
    at: usize,
    values: &'v mut KnownValues,
    found: Vec<Command>,
    /// Delimiters of the here-documents that begin on the next line, and whether they are quoted.
    documents: Vec<(String, bool)>,
}

impl ShellSplitter<'_> {
    /// Returns the character this many places ahead, without consuming it.
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    /// Consumes and returns the next character.
    fn take(&mut self) -> Option<char> {
        let taken = self.peek(0);
        self.at += usize::from(taken.is_some());
        taken
    }

    /// Returns whether the rest begins with this text.
    fn is_next(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(at, c)| self.peek(at) == Some(c))
    }

    /// Splits up to a closing character, or to the end.
    fn split_until(&mut self, until: Option<char>) -> Result<(), ShellSyntaxError> {
        let mut command = Command::new();
        loop {
            self.skip_blanks();
            let Some(next) = self.peek(0) else { break };
            if Some(next) == until {
                self.at += 1;
                self.finish_command(&mut command);
                return Ok(());
            }
            match next {
                '\n' => {
                    self.at += 1;
                    self.finish_command(&mut command);
                    self.skip_documents()?;
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                ';' | '&' | '|' => {
                    if self.is_next("&>") {
                        self.skip_redirection()?;
                    } else {
                        self.at += 1;
                        self.finish_command(&mut command);
                    }
                }
                '(' if command.len() == 1 && self.is_next("()") => {
                    // A function definition: from here on its name is known.
                    self.at += 2;
                    let name = command.remove(0).written;
                    // A call before the definition would run the program of that name.
                    if ProgramKind::named(&name) != ProgramKind::Unknown {
                        return Err(ShellSyntaxError::Unsupported(
                            "a function with the name of a program",
                        ));
                    }
                    self.values.insert(format!("{name}()"), Some(String::new()));
                }
                '(' if command.is_empty() && self.is_next("((") => {
                    return Err(ShellSyntaxError::Unsupported("`((`"));
                }
                '(' if command.is_empty() => {
                    self.at += 1;
                    self.split_until(Some(')'))?;
                }
                '(' | ')' => return Err(ShellSyntaxError::Unsupported("parentheses")),
                '<' | '>' => self.skip_redirection()?,
                _ => {
                    let word = self.read_word()?;
                    let is_number = word.written.chars().all(|c| c.is_ascii_digit());
                    if is_number && matches!(self.peek(0), Some('<' | '>')) {
                        self.skip_redirection()?;
                        continue;
                    }
                    self.add_word(&mut command, word)?;
                }
            }
        }
        if until.is_some() {
            return Err(ShellSyntaxError::OpenParenthesis);
        }
        self.finish_command(&mut command);
        Ok(())
    }

    /// Adds a word to a command, or handles it as syntax around commands.
    fn add_word(&mut self, command: &mut Command, word: Word) -> Result<(), ShellSyntaxError> {
        if !command.is_empty() {
            command.push(word);
            return Ok(());
        }
        match word.written.as_str() {
            before if BEFORE_COMMANDS.contains(&before) || BLOCK_ENDS.contains(&before) => {}
            "for" | "select" => {
                self.skip_blanks();
                let name = self.read_word()?.written;
                self.assign(&name, None);
                self.skip_until_separator()?;
            }
            "case" => self.split_case()?,
            "function" => return Err(ShellSyntaxError::Unsupported("the word `function`")),
            "coproc" => return Err(ShellSyntaxError::Unsupported("`coproc`")),
            "[[" => self.skip_double_bracket()?,
            _ => command.push(word),
        }
        Ok(())
    }

    /// Ends a command: records its assignments and adds it to the found commands.
    fn finish_command(&mut self, command: &mut Command) {
        let command = std::mem::take(command);
        let first = command.first().and_then(|word| word.value.as_deref()).unwrap_or_default();
        let declares = ["export", "local", "readonly", "declare", "typeset"].contains(&first);
        let sets =
            ["read", "mapfile", "readarray", "getopts", "unset", "printf", "let"].contains(&first);
        if declares || command.iter().all(|word| assigned_name(word).is_some()) {
            for word in &command {
                let Some(name) = assigned_name(word) else { continue };
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

    /// Records a value of a variable. A second, different value makes it unknown.
    fn assign(&mut self, name: &str, value: Option<&str>) {
        let new = || value.map(str::to_owned);
        let known = self.values.entry(name.to_owned()).or_insert_with(new);
        if known.as_deref() != value {
            *known = None;
        }
    }

    /// Skips blanks and escaped line ends.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    /// Skips the words of a `for` loop.
    fn skip_until_separator(&mut self) -> Result<(), ShellSyntaxError> {
        loop {
            self.skip_blanks();
            match self.peek(0) {
                None | Some(';' | '\n') => return Ok(()),
                Some('(' | ')' | '<' | '>' | '&' | '|') => {
                    return Err(ShellSyntaxError::Unsupported("an operator in `for`"));
                }
                Some(_) => drop(self.read_word()?),
            }
        }
    }

    /// Skips `[[ … ]]`, in which only substitutions start commands.
    fn skip_double_bracket(&mut self) -> Result<(), ShellSyntaxError> {
        loop {
            self.skip_blanks();
            match self.peek(0) {
                None => return Err(ShellSyntaxError::OpenDoubleBracket),
                Some('&' | '|' | '<' | '>' | '(' | ')' | '\n' | ';') => self.at += 1,
                Some(_) => {
                    if self.read_word()?.written == "]]" {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Splits `case WORD in PATTERN) commands ;; … esac`.
    fn split_case(&mut self) -> Result<(), ShellSyntaxError> {
        self.skip_blanks();
        self.read_word()?;
        self.skip_lines();
        if self.read_word()?.written != "in" {
            return Err(ShellSyntaxError::CaseWithoutIn);
        }
        loop {
            self.skip_lines();
            if self.is_next("esac") {
                self.at += 4;
                return Ok(());
            }
            self.skip_pattern()?;
            self.split_branch()?;
        }
    }

    /// Skips the pattern of a `case` branch, up to its `)`.
    fn skip_pattern(&mut self) -> Result<(), ShellSyntaxError> {
        if self.peek(0) == Some('(') {
            self.at += 1;
        }
        loop {
            self.skip_blanks();
            match self.peek(0) {
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('|') => self.at += 1,
                None | Some('\n' | ';' | '&' | '<' | '>' | '(') => {
                    return Err(ShellSyntaxError::OpenCasePattern);
                }
                Some(_) => drop(self.read_word()?),
            }
        }
    }

    /// Splits the commands of one pattern: up to `;;`, or to `esac`, which is not consumed.
    fn split_branch(&mut self) -> Result<(), ShellSyntaxError> {
        let from = self.at;
        let mut inner = Vec::new();
        while !self.is_next(";;") {
            let starts_word = self.at == from
                || matches!(self.rest.get(self.at - 1), Some(' ' | '\t' | '\n' | ';'));
            if starts_word
                && self.is_next("esac")
                && !self.peek(4).is_some_and(char::is_alphanumeric)
            {
                return self.split_nested(inner);
            }
            match self.peek(0) {
                None => return Err(ShellSyntaxError::CaseWithoutEsac),
                Some('\'' | '"' | '$' | '`' | '\\') => {
                    let begin = self.at;
                    self.read_word()?;
                    inner.extend(self.rest.get(begin..self.at).unwrap_or_default());
                }
                Some(c) => {
                    if starts_word && self.is_next("case ") {
                        return Err(ShellSyntaxError::Unsupported("`case` in `case`"));
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
        self.split_nested(inner)
    }

    /// Skips blanks, empty lines and comments.
    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
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

    /// Splits a text that is part of this one, and adds its commands.
    fn split_nested(&mut self, text: Vec<char>) -> Result<(), ShellSyntaxError> {
        let found = split_commands(&text.into_iter().collect::<String>(), self.values)?;
        self.found.extend(found);
        Ok(())
    }

    /// Skips a redirection with its target.
    fn skip_redirection(&mut self) -> Result<(), ShellSyntaxError> {
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|'))
            && !self.is_next("<(")
            && !self.is_next(">(")
        {
            if self.is_next("<<<") {
                self.at += 3;
                break;
            }
            if self.is_next("<<") {
                return self.begin_document();
            }
            self.at += 1;
        }
        self.skip_blanks();
        self.read_word().map(drop)
    }

    /// Notes the delimiter of a here-document, whose text begins on the next line.
    fn begin_document(&mut self) -> Result<(), ShellSyntaxError> {
        self.at += 2;
        if self.peek(0) == Some('-') {
            self.at += 1;
        }
        self.skip_blanks();
        let word = self.read_word()?;
        let is_quoted = word.written.contains(['\'', '"', '\\']);
        let delimiter = word.written.replace(['\'', '"', '\\'], "");
        self.documents.push((delimiter, is_quoted));
        Ok(())
    }

    /// Skips the texts of the here-documents that begin here.
    fn skip_documents(&mut self) -> Result<(), ShellSyntaxError> {
        for (delimiter, is_quoted) in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                if self.peek(0).is_none() {
                    return Err(ShellSyntaxError::OpenHereDocument);
                }
                while let Some(c) = self.take().filter(|c| *c != '\n') {
                    line.push(c);
                }
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
                if !is_quoted && (line.contains("$(") || line.contains('`')) {
                    return Err(ShellSyntaxError::Unsupported("a substitution in a here-document"));
                }
            }
        }
        Ok(())
    }

    /// Reads one word with its quotes and expansions.
    fn read_word(&mut self) -> Result<Word, ShellSyntaxError> {
        let (begin, mut value, mut is_pattern) = (self.at, Some(String::new()), false);
        while let Some(next) = self.peek(0) {
            match next {
                '(' if self.at > begin && self.rest.get(self.at - 1) == Some(&'=') => {
                    return Err(ShellSyntaxError::Unsupported("an array"));
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.split_until(Some(')'))?;
                    value = None;
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => self.read_single_quoted(&mut value)?,
                '"' => self.read_double_quoted(&mut value)?,
                '\\' => {
                    self.at += 1;
                    if let Some(c) = self.take().filter(|c| *c != '\n') {
                        push_text(&mut value, &c.to_string());
                    }
                }
                '$' | '`' => self.read_expansion(&mut value)?,
                '*' | '?' | '[' | '~' | '{' => {
                    // Expands to file names that are known only at run time.
                    is_pattern = true;
                    self.at += 1;
                }
                c => {
                    push_text(&mut value, &c.to_string());
                    self.at += 1;
                }
            }
        }
        if self.at == begin {
            return Err(ShellSyntaxError::MissingWord);
        }
        let written: String = self.rest.get(begin..self.at).unwrap_or_default().iter().collect();
        if is_pattern {
            value = Some(written.clone()).filter(|written| ["[", "{"].contains(&written.as_str()));
        }
        Ok(Word { written, value })
    }

    /// Reads a text in single quotation marks.
    fn read_single_quoted(&mut self, value: &mut Option<String>) -> Result<(), ShellSyntaxError> {
        self.at += 1;
        loop {
            match self.take() {
                None => return Err(ShellSyntaxError::OpenQuotation),
                Some('\'') => return Ok(()),
                Some(c) => push_text(value, &c.to_string()),
            }
        }
    }

    /// Reads a text in double quotation marks.
    fn read_double_quoted(&mut self, value: &mut Option<String>) -> Result<(), ShellSyntaxError> {
        self.at += 1;
        loop {
            match self.peek(0) {
                None => return Err(ShellSyntaxError::OpenQuotation),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.take() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => push_text(value, &c.to_string()),
                        Some('\n') | None => {}
                        Some(c) => push_text(value, &format!("\\{c}")),
                    }
                }
                Some('$' | '`') => self.read_expansion(value)?,
                Some(c) => {
                    push_text(value, &c.to_string());
                    self.at += 1;
                }
            }
        }
    }

    /// Handles `$NAME`, `${…}`, `$(…)`, `` `…` ``, `$((…))`.
    fn read_expansion(&mut self, value: &mut Option<String>) -> Result<(), ShellSyntaxError> {
        let begin = self.at;
        if self.is_next("$((") {
            return Err(ShellSyntaxError::Unsupported("`$((`"));
        }
        if self.is_next("$(") {
            self.at += 2;
            let inside = self.at;
            self.split_until(Some(')'))?;
            let inside: String =
                self.rest.get(inside..self.at - 1).unwrap_or_default().iter().collect();
            return self.push_value_of(value, &normalize_substitution(&inside));
        }
        if self.take() == Some('`') {
            return Err(ShellSyntaxError::Unsupported("a backtick; `$(…)` can be followed"));
        }
        if self.peek(0) == Some('{') {
            self.at += 1;
            let inside = self.at;
            while self.peek(0).is_some_and(|c| c != '}') {
                if self.is_next("$(") || self.peek(0) == Some('`') || self.is_next("${") {
                    return Err(ShellSyntaxError::Unsupported("a substitution in `${…}`"));
                }
                self.at += 1;
            }
            let name: String = self.rest.get(inside..self.at).unwrap_or_default().iter().collect();
            self.at += 1;
            if (name.contains('@') && !name.contains("[@]") && name != "@") || name.contains('=') {
                return Err(ShellSyntaxError::Unsupported("`${…@…}` or `${…=…}`"));
            }
            return self.push_value_of(value, &name);
        }
        if self.peek(0) == Some('\'') {
            return Err(ShellSyntaxError::Unsupported("`$'…'`"));
        }
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        if self.at == begin + 1 && self.peek(0).is_some_and(|c| "?#@*!$-".contains(c)) {
            self.at += 1;
        }
        let name: String = self.rest.get(begin + 1..self.at).unwrap_or_default().iter().collect();
        if name.is_empty() {
            push_text(value, "$");
            return Ok(());
        }
        self.push_value_of(value, &name)
    }

    /// Adds the value of a name to the word, or makes the word's value unknown.
    #[expect(clippy::unnecessary_wraps, reason = "it ends functions that can fail")]
    fn push_value_of(
        &mut self,
        value: &mut Option<String>,
        name: &str,
    ) -> Result<(), ShellSyntaxError> {
        match self.values.get(name) {
            Some(Some(known)) => push_text(value, &known.clone()),
            Some(None) | None => *value = None,
        }
        Ok(())
    }
}

/// Appends to a value, unless it is unknown.
fn push_text(value: &mut Option<String>, text: &str) {
    if let Some(value) = value {
        value.push_str(text);
    }
}

/// Normalizes a substitution for lookup: without quotation marks, with single blanks.
fn normalize_substitution(inside: &str) -> String {
    inside.replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the variable name that a word assigns to.
pub(super) fn assigned_name(word: &Word) -> Option<&str> {
    let name = word.written.split_once('=')?.0;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name
        .chars()
        .enumerate()
        .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit()));
    (is_name && !name.is_empty()).then_some(name)
}
