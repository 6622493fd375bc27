//! Reads secrets from files in which programs keep them.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::values::{can_be_secret, is_secret_name, password_of};

/// Maximum bytes that are read of one file.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// Maximum `.env` files of a workspace that are read.
const MAX_ENV_FILES: usize = 16;

/// Name and value of a secret.
type NamedSecret = (String, String);

/// Function that finds the secrets in a text.
type SecretParser = fn(&str) -> Vec<NamedSecret>;

/// Files of well-known programs, relative to the home directory.
const PROGRAM_FILES: &[(&str, SecretParser)] = &[
    (".aws/credentials", assignments),
    (".netrc", netrc),
    (".git-credentials", addresses),
    (".npmrc", assignments),
    (".pypirc", assignments),
    (".config/gh/hosts.yml", assignments),
    (".docker/config.json", docker),
    (".cargo/credentials.toml", assignments),
    (".pgpass", pgpass),
];

/// Returns the secrets in the person's own files.
pub(super) fn of_person(home: &Path) -> Vec<NamedSecret> {
    PROGRAM_FILES
        .iter()
        .flat_map(|(name, reader)| {
            read(&home.join(name)).map(|text| reader(&text)).unwrap_or_default()
        })
        .collect()
}

/// Returns the secrets in the `.env` files at the top of the workspace, except example files.
pub(super) fn of_workspace(workspace: &Path) -> Vec<NamedSecret> {
    let Ok(entries) = std::fs::read_dir(workspace) else { return Vec::new() };
    let is_wanted = |name: &str| {
        let examples = ["example", "sample", "template", "dist"];
        (name == ".env" || name.starts_with(".env.") || name == ".envrc")
            && !examples.iter().any(|example| name.ends_with(example))
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_wanted(name))
        .collect();
    names.sort_unstable();
    let texts = names.iter().take(MAX_ENV_FILES).filter_map(|name| read(&workspace.join(name)));
    texts.flat_map(|text| assignments(&text)).collect()
}

/// Reads the beginning of a text file; `None` if it is not a regular file.
pub(super) fn read(path: &Path) -> Option<String> {
    // Opening a named pipe would block until a writer appears.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds `name = value` and `name: value`, with or without quotation marks, if the name sounds secret or the value is an address
/// with a password.
fn assignments(text: &str) -> Vec<NamedSecret> {
    let assignment = |line: &str| {
        let line = line.trim().trim_start_matches("export ").trim_start();
        if line.starts_with(['#', ';', '[']) {
            return None;
        }
        let (name, value) = line.split_once('=').or_else(|| line.split_once(": "))?;
        // npm writes the address of the registry before the name: `//HOST/:_authToken`.
        let name = name.trim().rsplit(':').next()?.trim_matches(['"', '\'']);
        let value = unquoted(value.trim());
        if let Some(password) = password_of(value).filter(|password| can_be_secret(password)) {
            return Some((name.to_owned(), password.to_owned()));
        }
        let is_own = is_secret_name(name) || name.eq_ignore_ascii_case("password");
        (is_own && can_be_secret(value)).then(|| (name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(assignment).collect()
}

/// Returns a value without its quotation marks, or without a trailing comment.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some((inside, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote))
        {
            return inside;
        }
    }
    value.split(" #").next().unwrap_or(value).trim_end()
}

/// Finds `machine HOST login NAME password VALUE`, on one line or several.
fn netrc(text: &str) -> Vec<NamedSecret> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut machine = "netrc";
    let mut found = Vec::new();
    for pair in words.windows(2) {
        match pair {
            ["machine", host] => machine = host,
            ["password", value] if can_be_secret(value) => {
                found.push((machine.to_owned(), (*value).to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Finds `https://user:password@host`, one address on each line.
fn addresses(text: &str) -> Vec<NamedSecret> {
    let address = |line: &str| {
        let password = password_of(line.trim()).filter(|password| can_be_secret(password))?;
        let (_, host) = line.trim().rsplit_once('@')?;
        Some((host.to_owned(), password.to_owned()))
    };
    text.lines().filter_map(address).collect()
}

/// Finds the values in `{"auths": {"host": {"auth": "…", "identitytoken": "…"}}}`.
fn docker(text: &str) -> Vec<NamedSecret> {
    let Ok(config) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let Some(hosts) = config["auths"].as_object() else { return Vec::new() };
    let of_host = |(host, entry): (&String, &Value)| {
        let values = ["auth", "password", "identitytoken", "registrytoken"]
            .map(|key| entry[key].as_str().map(str::to_owned));
        let host = host.clone();
        values
            .into_iter()
            .flatten()
            .filter(|value| can_be_secret(value))
            .map(move |value| (host.clone(), value))
            .collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of_host).collect()
}

/// Finds the passwords in lines `host:port:database:user:password`.
fn pgpass(text: &str) -> Vec<NamedSecret> {
    let line = |line: &str| {
        let mut parts = line.splitn(5, ':');
        let host = parts.next()?;
        let password = parts.nth(3).filter(|password| can_be_secret(password))?;
        Some((host.to_owned(), password.replace("\\:", ":").replace("\\\\", "\\")))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_well_known_programs() {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                ".aws/credentials",
                "[default]\naws_access_key_id = AKIDAKIDAKID\naws_secret_access_key = aws-secret-1\n",
            ),
            (
                ".netrc",
                "machine example.org login me password netrc-secret-1\nmachine b\n  login x\n  password netrc-secret-2",
            ),
            (".git-credentials", "https://me:git-secret-1@example.org\n"),
            (
                ".npmrc",
                "//registry.example/:_authToken=npm-secret-1\nregistry=https://registry.example/\n",
            ),
            (".pypirc", "[pypi]\nusername = __token__\npassword = pypi-secret-1 # mine\n"),
            (
                ".config/gh/hosts.yml",
                "example.org:\n    oauth_token: gh-secret-1\n    user: me-myself-and-i\n",
            ),
            (
                ".docker/config.json",
                r#"{"auths":{"hub":{"auth":"ZG9ja2Vy-secret-1"}},"credsStore":"desktop-store"}"#,
            ),
            (".cargo/credentials.toml", "[registry]\ntoken = \"cargo-secret-1\"\n"),
            (".pgpass", "localhost:5432:db:me:pg\\:secret-1\n"),
        ] {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found: Vec<String> =
            of_person(home.path()).into_iter().map(|(_, value)| value).collect();
        let expected = [
            "aws-secret-1",
            "netrc-secret-1",
            "netrc-secret-2",
            "git-secret-1",
            "npm-secret-1",
            "pypi-secret-1",
            "gh-secret-1",
            "ZG9ja2Vy-secret-1",
            "cargo-secret-1",
            "pg:secret-1",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn files_of_the_workspace() {
        let workspace = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                ".env",
                "# comment\nexport API_TOKEN='env-secret-1'\nPORT=80808080\nDEBUG_NAME=not-secret-at-all\n",
            ),
            (".env.local", "DATABASE_URL=\"postgres://me:env-secret-2@db/x\"\n"),
            (".env.example", "API_TOKEN=example-secret-1\n"),
            ("other", "API_TOKEN=other-secret-1\n"),
        ] {
            std::fs::write(workspace.path().join(name), text).unwrap();
        }
        let found = of_workspace(workspace.path());
        let expected = [("API_TOKEN", "env-secret-1"), ("DATABASE_URL", "env-secret-2")];
        let expected: Vec<NamedSecret> =
            expected.map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(found, expected);
        assert_eq!(of_workspace(&workspace.path().join("none")), []);
    }

    #[test]
    fn only_files_are_read_and_only_their_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long");
        std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, MAX_FILE_BYTES);
        assert_eq!(read(directory.path()), None);
    }
}
