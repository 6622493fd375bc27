//! A command that runs tests, and the position of a filter in its words.

use windlass_core::{CommandLine, Grammar, Program, Shell, SimpleCommand, ToolError};

/// A command that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestCommand {
    /// Programs that run in order, each only if the one before succeeded.
    steps: Vec<Vec<String>>,
    /// Variables for the command.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// The form in which the runner takes a filter.
    filter: FilterForm,
    /// True if words for the runner have to stand behind `--`.
    needs_separator: bool,
}

/// The form in which a runner takes a filter. A filter never begins with a dash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterForm {
    /// As the last word.
    Word,
    /// Behind these words.
    Behind(&'static [&'static str]),
    /// Joined to this word.
    Joined(&'static str),
    /// No form is known to be right for the script.
    None,
}

impl TestCommand {
    /// Returns a command of one program.
    pub(super) fn new(words: &[&str], filter: FilterForm) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { steps: vec![words], environment: &[], filter, needs_separator: false }
    }

    /// Adds a program that runs first.
    pub(super) fn after(mut self, words: &[&str]) -> Self {
        self.steps.insert(0, words.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// Sets the variables for the command.
    pub(super) fn with_environment(
        mut self,
        environment: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.environment = environment;
        self
    }

    /// Sets whether words for the runner have to stand behind `--`.
    pub(super) fn with_separator(mut self, needs_separator: bool) -> Self {
        self.needs_separator = needs_separator;
        self
    }

    /// Returns whether the command can take a filter.
    pub(super) fn takes_filter(&self) -> bool {
        self.filter != FilterForm::None
    }

    /// Adds words for the runner, behind `--` if it needs that.
    pub(super) fn with_words(mut self, words: impl IntoIterator<Item = String>) -> Self {
        let mut words = words.into_iter().peekable();
        if words.peek().is_none() {
            return self;
        }
        let separator = std::mem::take(&mut self.needs_separator).then(|| "--".to_owned());
        if let Some(last) = self.steps.last_mut() {
            last.extend(separator);
            last.extend(words);
        }
        self
    }

    /// Adds a filter by test name. Returns an error if the runner takes none.
    pub(super) fn filtered(self, text: &str) -> Result<Self, ToolError> {
        let text = text.to_owned();
        match self.filter {
            FilterForm::Word => Ok(self.with_words([text])),
            FilterForm::Behind(words) => {
                let words: Vec<String> =
                    words.iter().map(|word| (*word).to_owned()).chain([text]).collect();
                Ok(self.with_words(words))
            }
            FilterForm::Joined(option) => Ok(self.with_words([format!("{option}{text}")])),
            FilterForm::None => {
                Err(ToolError::invalid_args(format!("`{self}` has no known way to take a filter"))
                    .hint("give the whole `command` instead, as a shell would run it"))
            }
        }
    }

    /// Returns the program to run: the words themselves, or a shell with several steps.
    pub(super) fn program(&self, shell: &Shell) -> Program {
        match self.steps.as_slice() {
            [words] => Program::words(words),
            _ => shell.command(self.to_string()),
        }
    }

    /// Returns the command line for the effect of the call.
    pub(super) fn command_line(&self, shell: &Shell) -> CommandLine {
        let program = self.program(shell);
        let steps = self.steps.iter().map(SimpleCommand::new);
        let mut line = CommandLine::understood(program.to_string(), steps);
        if let Some(shell) = program.shell() {
            line = line.in_shell(shell);
            if shell.grammar() == Grammar::Unknown {
                line.unclear = Some(format!("commands for the shell {shell} are not read"));
            }
        }
        line
    }
}

impl std::fmt::Display for TestCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, words) in self.steps.iter().enumerate() {
            if at > 0 {
                f.write_str(" && ")?;
            }
            let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            f.write_str(&words.join(" "))?;
        }
        Ok(())
    }
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
