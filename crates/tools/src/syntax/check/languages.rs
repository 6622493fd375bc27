//! The table of languages whose files are checked.

use std::path::Path;

use tree_sitter::Language as Grammar;

/// A language and the names of its files.
#[derive(Debug)]
pub(super) struct Language {
    /// File name extensions, without the dot.
    extensions: &'static [&'static str],
    /// Whole file names.
    names: &'static [&'static str],
    /// Programs in a first line `#!`, without a version.
    interpreters: &'static [&'static str],
    grammar: fn() -> Grammar,
    /// Errors of the grammar that are reported.
    pub(super) trust: GrammarTrust,
    /// Returns whether the scanner of the grammar, which is C code, can process a text safely.
    pub(super) is_safe: fn(&str) -> bool,
}

/// The errors of a grammar that are reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrammarTrust {
    /// All errors; unpaired brackets are preferred.
    Everything,
    /// Only unpaired brackets: the grammar does not expand macros, and reports errors in many files that compile.
    Brackets,
    /// All errors except brackets, which need not come in pairs: `case x in a) …`.
    Grammar,
}

impl Language {
    /// Returns the grammar.
    pub(super) fn grammar(&self) -> Grammar {
        (self.grammar)()
    }
}

/// Defaults of a language.
const DEFAULT_LANGUAGE: Language = Language {
    extensions: &[],
    names: &[],
    interpreters: &[],
    grammar: || tree_sitter_json::LANGUAGE.into(),
    trust: GrammarTrust::Everything,
    is_safe: |_| true,
};

/// All languages.
const LANGUAGES: &[Language] = &[
    Language {
        extensions: &["rs"],
        grammar: || tree_sitter_rust::LANGUAGE.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["go"],
        grammar: || tree_sitter_go::LANGUAGE.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["py", "pyi", "pyw"],
        names: &["SConstruct", "SConscript", "wscript"],
        interpreters: &["python"],
        grammar: || tree_sitter_python::LANGUAGE.into(),
        is_safe: super::limits::is_safe_python,
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["js", "mjs", "cjs", "jsx"],
        interpreters: &["node"],
        grammar: || tree_sitter_javascript::LANGUAGE.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["ts", "mts", "cts"],
        interpreters: &["deno", "bun"],
        grammar: || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["tsx"],
        grammar: || tree_sitter_typescript::LANGUAGE_TSX.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["java"],
        grammar: || tree_sitter_java::LANGUAGE.into(),
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["c"],
        grammar: || tree_sitter_c::LANGUAGE.into(),
        trust: GrammarTrust::Brackets,
        ..DEFAULT_LANGUAGE
    },
    // A header may be of either language; as only its brackets count, the larger grammar serves both.
    Language {
        extensions: &[
            "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "ipp", "tpp", "inl",
        ],
        grammar: || tree_sitter_cpp::LANGUAGE.into(),
        trust: GrammarTrust::Brackets,
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["rb", "rake", "gemspec", "podspec", "ru"],
        names: &[
            "Brewfile",
            "Fastfile",
            "Gemfile",
            "Guardfile",
            "Podfile",
            "Rakefile",
            "Vagrantfile",
        ],
        interpreters: &["ruby"],
        grammar: || tree_sitter_ruby::LANGUAGE.into(),
        is_safe: super::limits::is_safe_ruby,
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["sh", "bash"],
        names: &[
            ".bash_aliases",
            ".bash_login",
            ".bash_logout",
            ".bash_profile",
            ".bashrc",
            ".envrc",
            ".profile",
        ],
        interpreters: &["sh", "bash", "dash"],
        grammar: || tree_sitter_bash::LANGUAGE.into(),
        trust: GrammarTrust::Grammar,
        ..DEFAULT_LANGUAGE
    },
    Language {
        extensions: &["json"],
        names: &["composer.lock", "flake.lock"],
        grammar: || tree_sitter_json::LANGUAGE.into(),
        ..DEFAULT_LANGUAGE
    },
];

/// Names of files that are not plain JSON in spite of their extension: they may contain comments and trailing commas.
const RELAXED_JSON_NAMES: &[&str] =
    &["tsconfig", "jsconfig", "settings", "launch", "tasks", "keybindings", "devcontainer"];

/// Returns the language of a file by its name, or by its first line if it has no extension.
pub(super) fn language_of(path: &Path, text: &str) -> Option<&'static Language> {
    let name = path.file_name()?.to_str()?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    if has_other_content(name, extension, text) {
        return None;
    }
    let interpreter = if extension.is_none() { interpreter(text) } else { None };
    let is_in = |word: Option<&str>, words: &[&str]| word.is_some_and(|word| words.contains(&word));
    LANGUAGES.iter().find(|language| {
        language.names.contains(&name)
            || is_in(extension, language.extensions)
            || is_in(interpreter, language.interpreters)
    })
}

/// Returns whether the content of a file is not what its extension says.
fn has_other_content(name: &str, extension: Option<&str>, text: &str) -> bool {
    match extension {
        Some("json") => {
            name.split('.').next().is_some_and(|first| RELAXED_JSON_NAMES.contains(&first))
        }
        // Translations of Qt are XML.
        Some("ts") => text.trim_start().starts_with("<?xml"),
        _ => false,
    }
}

/// Returns the program that runs a script: `python` for `#!/usr/bin/env -S python3.12 -u`.
fn interpreter(text: &str) -> Option<&str> {
    let line = text.strip_prefix("#!")?.lines().next()?;
    let program = line
        .split_whitespace()
        .filter_map(|word| word.rsplit('/').next())
        .find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    Some(program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_lines() {
        let extension =
            |name: &str, text: &str| language_of(Path::new(name), text).map(|it| it.extensions[0]);
        for (name, text, expected) in [
            ("a.rs", "", Some("rs")),
            ("src/a.test.tsx", "", Some("tsx")),
            ("a.h", "", Some("cc")),
            ("a.C", "", None),
            (".bashrc", "", Some("sh")),
            ("Gemfile", "", Some("rb")),
            ("Makefile", "", None),
            ("..", "", None),
            ("a.txt", "#!/bin/sh\n", None),
            ("run", "", None),
            ("run", "#!/bin/sh -e\necho", Some("sh")),
            ("run", "#!/usr/bin/env -S PYTHONUTF8=1 python3.12 -u\r\n", Some("py")),
            ("run", "#! /usr/bin/node", Some("js")),
            ("run", "#!/bin/zsh", None),
            ("run", "#!", None),
            ("package.json", "", Some("json")),
            (".vscode/settings.json", "", None),
            ("tsconfig.base.json", "", None),
            ("app_de.ts", "<?xml version='1.0'?>", None),
        ] {
            assert_eq!(extension(name, text), expected, "{name} {text:?}");
        }
    }

    #[test]
    fn every_grammar_fits_the_parser() {
        for language in LANGUAGES {
            let mut parser = tree_sitter::Parser::new();
            assert!(parser.set_language(&language.grammar()).is_ok(), "{:?}", language.extensions);
        }
    }

    #[test]
    fn no_name_is_of_two_languages() {
        let mut all: Vec<&str> = LANGUAGES
            .iter()
            .flat_map(|language| [language.extensions, language.names, language.interpreters])
            .flatten()
            .copied()
            .collect();
        // `sh` and `bash` are both the end of a name and a program.
        all.sort_unstable();
        let doubles: Vec<&str> =
            all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert_eq!(doubles, ["bash", "sh"]);
    }
}
