//! A command that runs tests: its words, and where a filter goes among them.

use windlass_core::{CommandLine, Grammar, Program, Shell, SimpleCommand, ToolError};

/// A command that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestCommand {
    /// One program after the other, each only if the one before it succeeded.
    steps: Vec<Vec<String>>,
    /// Variables that it needs.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// How tests are chosen by name.
    filter: FilterForm,
    /// Whether what is added for the runner stands behind `--`.
    needs_separator: bool,
}

/// How a runner takes a filter, which never begins with a dash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterForm {
    /// As the last word.
    Word,
    /// Behind these words.
    Behind(&'static [&'static str]),
    /// Joined to this one.
    Joined(&'static str),
    /// There is no way that would be right whatever the script does.
    None,
}

impl TestCommand {
    pub(super) fn new(words: &[&str], filter: FilterForm) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { steps: vec![words], environment: &[], filter, needs_separator: false }
    }

    /// After this command.
    pub(super) fn after(mut self, words: &[&str]) -> Self {
        self.steps.insert(0, words.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// With variables that it needs.
    pub(super) fn with_environment(
        mut self,
        environment: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.environment = environment;
        self
    }

    /// With `--` before what is added for the runner.
    pub(super) fn with_separator(mut self, needs_separator: bool) -> Self {
        self.needs_separator = needs_separator;
        self
    }

    /// Whether it is known how tests are chosen.
    pub(super) fn takes_filter(&self) -> bool {
        self.filter != FilterForm::None
    }

    /// With more words for the runner.
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

    /// Only tests whose name has this in it.
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
            FilterForm::None => Err(ToolError::invalid_args(format!(
                "`{self}` takes no filter that would be known here"
            ))
            .hint("give the whole `command` instead, as a shell would run it")),
        }
    }

    /// What to run.
    pub(super) fn program(&self, shell: &Shell) -> Program {
        match self.steps.as_slice() {
            [words] => Program::words(words),
            _ => shell.command(self.to_string()),
        }
    }

    /// The same as an effect.
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

/// A word as a shell takes it for one.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
