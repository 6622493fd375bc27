//! Decides which names sound like those of secrets, and which values can be secrets.

/// Words that make a name sound secret.
const SECRET_WORDS: &[&str] = &["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "APIKEY", "CREDENTIAL"];
/// Endings that make a name sound secret.
const SECRET_ENDINGS: &[&str] = &["_KEY", "_PAT", "_PASS", "_PWD", "_AUTH", "_DSN", "-KEY"];
/// Endings of names that sound secret but are harmless.
const HARMLESS_ENDINGS: &[&str] = &[
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
/// Whole names that sound secret.
const SECRET_NAMES: &[&str] = &["KEY", "PASS", "PWD_SECRET", "AUTH", "PAT"];
/// Values that are too common to be secrets.
const COMMON_VALUES: &[&str] = &[
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

/// Returns whether the value of a variable of this name is probably secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let ends = |words: &[&str]| words.iter().any(|word| name.ends_with(word));
    let sounds_secret = has(SECRET_WORDS) || ends(SECRET_ENDINGS) || SECRET_NAMES.contains(&&*name);
    sounds_secret
        && !ends(HARMLESS_ENDINGS)
        && !has(&["PUBLIC", "TOKENIZER", "MAX_TOKENS", "SSH_AUTH_SOCK"])
}

/// Returns whether a value can be a secret: long enough to stand out, and not a number, path, reference or common word.
pub(super) fn can_be_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_number = value.chars().all(|c| c.is_ascii_digit() || ".,:-+_".contains(c));
    let is_path = ["/", "./", "../", "~/"].iter().any(|begin| value.starts_with(begin))
        && !value.contains(['+', '=']);
    let is_same = value.chars().all(|c| value.starts_with(c));
    let is_reference = value.starts_with('$') || value.starts_with("{{") || value.starts_with('<');
    value.len() >= windlass::policy::Secrets::SHORTEST
        && !COMMON_VALUES.contains(&&*lower)
        && !(is_number || is_path || is_same || is_reference)
}

/// Returns the secret in a variable: the password in its address, or its value if the name sounds secret.
pub(super) fn of_variable(name: &str, value: &str) -> Option<(String, String)> {
    if let Some(password) = password_of(value) {
        return Some((name.to_owned(), password.to_owned()))
            .filter(|(_, value)| can_be_secret(value));
    }
    (is_secret_name(name) && can_be_secret(value)).then(|| (name.to_owned(), value.to_owned()))
}

/// Returns the password in `scheme://user:PASSWORD@host`.
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
    fn names_that_sound_secret() {
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
            assert!(is_secret_name(name), "{name}");
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
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_that_can_be_secret() {
        for value in ["hunter2hunter2", "aB3dE6gH", "correct horse battery", "/abc+def=ghi/"] {
            assert!(can_be_secret(value), "{value}");
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
            assert!(!can_be_secret(value), "{value}");
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
