//! The languages whose files are looked at, in one table.

use std::path::Path;

use tree_sitter::Language as Grammar;

/// A language, and how its files are known.
#[derive(Debug)]
pub(super) struct Language {
    /// The ends of file names, without the dot.
    extensions: &'static [&'static str],
    /// Whole file names.
    names: &'static [&'static str],
    /// Programs that a first line `#!` may name, without a version.
    interpreters: &'static [&'static str],
    grammar: fn() -> Grammar,
    /// What the grammar stumbles over is told of.
    pub(super) trust: Trust,
    /// A text that its scanner, which is C, survives.
    pub(super) is_safe: fn(&str) -> bool,
}

/// What in the tree of a language speaks of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Whatever does not fit, and brackets say it best.
    Everything,
    /// Brackets alone: a grammar does not expand macros, and stumbles over every other file that a compiler takes.
    Brackets,
    /// Whatever does not fit. Brackets need not come in pairs: `case x in a) …`.
    Grammar,
}

impl Language {
    pub(super) fn grammar(&self) -> Grammar {
        (self.grammar)()
    }
}

/// What most languages have in common.
const PLAIN: Language = Language {
    extensions: &[],
    names: &[],
    interpreters: &[],
    grammar: || tree_sitter_json::LANGUAGE.into(),
    trust: Trust::Everything,
    is_safe: |_| true,
};

const LANGUAGES: &[Language] = &[
    Language { extensions: &["rs"], grammar: || tree_sitter_rust::LANGUAGE.into(), ..PLAIN },
    Language { extensions: &["go"], grammar: || tree_sitter_go::LANGUAGE.into(), ..PLAIN },
    Language {
        extensions: &["py", "pyi", "pyw"],
        names: &["SConstruct", "SConscript", "wscript"],
        interpreters: &["python"],
        grammar: || tree_sitter_python::LANGUAGE.into(),
        is_safe: super::limits::is_safe_python,
        ..PLAIN
    },
    Language {
        extensions: &["js", "mjs", "cjs", "jsx"],
        interpreters: &["node"],
        grammar: || tree_sitter_javascript::LANGUAGE.into(),
        ..PLAIN
    },
    Language {
        extensions: &["ts", "mts", "cts"],
        interpreters: &["deno", "bun"],
        grammar: || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        ..PLAIN
    },
    Language {
        extensions: &["tsx"],
        grammar: || tree_sitter_typescript::LANGUAGE_TSX.into(),
        ..PLAIN
    },
    Language { extensions: &["java"], grammar: || tree_sitter_java::LANGUAGE.into(), ..PLAIN },
    Language {
        extensions: &["c"],
        grammar: || tree_sitter_c::LANGUAGE.into(),
        trust: Trust::Brackets,
        ..PLAIN
    },
    // A header may be of either language; as only its brackets count, the larger grammar serves both.
    Language {
        extensions: &[
            "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "ipp", "tpp", "inl",
        ],
        grammar: || tree_sitter_cpp::LANGUAGE.into(),
        trust: Trust::Brackets,
        ..PLAIN
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
        ..PLAIN
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
        trust: Trust::Grammar,
        ..PLAIN
    },
    Language {
        extensions: &["json"],
        names: &["composer.lock", "flake.lock"],
        grammar: || tree_sitter_json::LANGUAGE.into(),
        ..PLAIN
    },
];

/// Files that are not what their name says: these may hold comments and commas that JSON does not have.
const RELAXED: &[&str] =
    &["tsconfig", "jsconfig", "settings", "launch", "tasks", "keybindings", "devcontainer"];

/// The language of a file, by its name, or by its first line if the name says nothing.
pub(super) fn of(path: &Path, text: &str) -> Option<&'static Language> {
    let name = path.file_name()?.to_str()?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    if is_something_else(name, extension, text) {
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

fn is_something_else(name: &str, extension: Option<&str>, text: &str) -> bool {
    match extension {
        Some("json") => name.split('.').next().is_some_and(|first| RELAXED.contains(&first)),
        // Translations of Qt are XML.
        Some("ts") => text.trim_start().starts_with("<?xml"),
        _ => false,
    }
}

/// The program that a script asks for: `python` for `#!/usr/bin/env -S python3.12 -u`.
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
            |name: &str, text: &str| of(Path::new(name), text).map(|it| it.extensions[0]);
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
