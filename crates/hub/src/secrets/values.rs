//! Names that tell of a secret, and values that can be one.

/// Words in a name that tell of a secret.
const TELLING: &[&str] = &["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "APIKEY", "CREDENTIAL"];
/// Endings of such a name.
const ENDINGS: &[&str] = &["_KEY", "_PAT", "_PASS", "_PWD", "_AUTH", "_DSN", "-KEY"];
/// Words in a name that does not tell of a secret, although it looks like one.
const HARMLESS: &[&str] = &[
    "PUBLIC",
    "_ID",
    "_URL",
    "_URI",
    "_FILE",
    "_PATH",
    "_DIR",
    "_NAME",
    "_TYPE",
    "_SOCK",
    "_HOST",
    "_USER",
    "_EXPIR",
    "_TTL",
    "TOKENIZER",
    "_LIMIT",
    "_COUNT",
    "MAX_TOKENS",
    "_VERSION",
    "_ALGO",
];
/// Names that are nothing but such a word.
const WHOLE: &[&str] = &["KEY", "PASS", "PWD_SECRET", "AUTH", "PAT"];
/// Values that everybody has.
const COMMON: &[&str] = &[
    "password",
    "changeme",
    "secret",
    "example",
    "undefined",
    "disabled",
    "enabled",
    "required",
    "optional",
    "anonymous",
    "localhost",
    "postgres",
    "username",
    "database",
    "development",
    "production",
    "placeholder",
    "not-needed",
    "your-api-key",
    "xxxxxxxx",
];

/// Tells whether a value of this name is meant to be kept secret.
pub(super) fn tells(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let ends = |words: &[&str]| words.iter().any(|word| name.ends_with(word));
    let is_telling = has(TELLING) || ends(ENDINGS) || WHOLE.contains(&&*name);
    is_telling && !ends(HARMLESS) && !has(&["PUBLIC", "TOKENIZER", "MAX_TOKENS", "SSH_AUTH_SOCK"])
}

/// Tells whether a value can be a secret: long enough to be told from a word, and nothing that is all over every text.
pub(super) fn is_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_number = value.chars().all(|c| c.is_ascii_digit() || ".,:-+_".contains(c));
    let is_path = ["/", "./", "../", "~/"].iter().any(|begin| value.starts_with(begin))
        && !value.contains(['+', '=']);
    let is_same = value.chars().all(|c| value.starts_with(c));
    let is_reference = value.starts_with('$') || value.starts_with("{{") || value.starts_with('<');
    value.len() >= windlass::policy::Secrets::SHORTEST
        && !COMMON.contains(&&*lower)
        && !(is_number || is_path || is_same || is_reference)
}

/// The secret of a variable: its value, or the password in its address.
pub(super) fn of_variable(name: &str, value: &str) -> Option<(String, String)> {
    if let Some(password) = password_of(value) {
        return Some((name.to_owned(), password.to_owned())).filter(|(_, value)| is_secret(value));
    }
    (tells(name) && is_secret(value)).then(|| (name.to_owned(), value.to_owned()))
}

/// The password of `scheme://user:PASSWORD@host`.
pub(super) fn password_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    let (user, _) = rest.get(..end)?.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_tell() {
        for name in [
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "apiKey_secret",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "GH_PAT",
            "GOOGLE_CREDENTIALS",
            "SSH_PASSPHRASE",
            "client_secret",
            "APIKEY",
            "SIGNING_KEY",
            "SENTRY_DSN",
            "SMTP_PASS",
            "_authToken",
            "secret",
        ] {
            assert!(tells(name), "{name}");
        }
        for name in [
            "SSH_PUBLIC_KEY",
            "PUBLIC_KEY",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
            "PATH",
            "HOME",
            "AWS_ACCESS_KEY_ID",
            "KEYMAP",
            "SECRET_FILE",
            "TOKEN_URL",
            "PATTERN",
            "MAX_TOKENS",
            "TOKENIZERS_PARALLELISM",
            "PWD",
            "OLDPWD",
            "AUTHOR",
            "PASSWORD_FILE",
            "XDG_RUNTIME_DIR",
            "COMPASS",
            "MONKEY",
        ] {
            assert!(!tells(name), "{name}");
        }
    }

    #[test]
    fn values_that_can_be_secret() {
        for value in ["hunter2hunter2", "aB3dE6gH", "correct horse battery", "/abc+def=ghi/"] {
            assert!(is_secret(value), "{value}");
        }
        for value in [
            "",
            "short",
            "password",
            "CHANGEME",
            "12345678",
            "2026-11-16",
            "/run/secrets/token",
            "~/key",
            "aaaaaaaaaa",
            "${OTHER}",
            "{{other}}",
            "<your key>",
            "true",
            "localhost",
        ] {
            assert!(!is_secret(value), "{value}");
        }
    }

    #[test]
    fn of_an_address_the_password_is_kept() {
        for (name, value, expected) in [
            ("DATABASE_URL", "postgres://me:hunter2hunter2@db/x", Some("hunter2hunter2")),
            ("DATABASE_URL", "postgres://me:p@ss:w0rd@db/x", Some("p@ss:w0rd")),
            ("DATABASE_URL", "postgres://db/x@y", None),
            ("DATABASE_URL", "postgres://me:short@db/x", None),
            ("MY_TOKEN", "hunter2hunter2", Some("hunter2hunter2")),
            ("EDITOR", "hunter2hunter2", None),
        ] {
            let found = of_variable(name, value).map(|(_, value)| value);
            assert_eq!(found.as_deref(), expected, "{name}={value}");
        }
    }
}
