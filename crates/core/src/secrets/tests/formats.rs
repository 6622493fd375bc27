//! Tests of credentials by format, and of text that only looks like one.

use super::*;

/// Returns pseudorandom text of these characters, so that no real credential stands in our source.
fn pseudorandom(length: usize, characters: &str) -> String {
    let characters = characters.as_bytes();
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        char::from(characters[state as usize % characters.len()])
    };
    (0..length).map(|_| next()).collect()
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const HEX: &str = "0123456789abcdef";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns pseudorandom letters and digits.
fn letters(length: usize) -> String {
    pseudorandom(length, LETTERS)
}

/// Returns an example of every format, with the name of the format.
fn credentials() -> Vec<(&'static str, String)> {
    let hex = |length| pseudorandom(length, HEX);
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"1234567890","name":"A"}"#);
    vec![
        ("AWS access key", format!("AKIA{}", pseudorandom(16, CAPITALS))),
        ("AWS access key", format!("ASIA{}", pseudorandom(16, CAPITALS))),
        ("GitHub token", format!("ghp_{}", letters(36))),
        ("GitHub token", format!("gho_{}", letters(36))),
        ("GitHub token", format!("ghu_{}", letters(36))),
        ("GitHub token", format!("ghs_{}", letters(36))),
        ("GitHub token", format!("ghr_{}", letters(76))),
        ("GitHub token", format!("github_pat_{}_{}", letters(22), letters(59))),
        ("GitLab token", format!("glpat-{}", letters(20))),
        ("Slack token", format!("xoxb-123456789012-1234567890123-{}", letters(24))),
        ("Slack token", format!("xapp-1-A0123456789-1234567890123-{}", hex(64))),
        ("Stripe key", format!("sk_live_{}", letters(24))),
        ("Stripe key", format!("rk_live_{}", letters(99))),
        ("API key", format!("sk-{}", letters(48))),
        ("API key", format!("sk-proj-{}", letters(120))),
        ("API key", format!("sk-ant-api03-{}-{}", letters(60), letters(33))),
        ("Google API key", format!("AIza{}", letters(35))),
        ("Google OAuth token", format!("ya29.{}", letters(60))),
        ("Google OAuth secret", format!("GOCSPX-{}", letters(28))),
        ("npm token", format!("npm_{}", letters(36))),
        ("PyPI token", format!("pypi-AgEIcHlwaS5vcmc{}", letters(120))),
        ("Hugging Face token", format!("hf_{}", letters(34))),
        ("DigitalOcean token", format!("dop_v1_{}", hex(64))),
        ("SendGrid key", format!("SG.{}.{}", letters(22), letters(43))),
        ("Twilio key", format!("SK{}", hex(32))),
        ("Docker token", format!("dckr_pat_{}", letters(27))),
        ("Shopify token", format!("shpat_{}", hex(32))),
        ("Vault token", format!("hvs.{}", letters(90))),
        ("Grafana token", format!("glsa_{}_{}", letters(32), hex(8))),
        ("age key", format!("AGE-SECRET-KEY-1{}", pseudorandom(58, CAPITALS))),
        ("JWT", format!("{header}.{claims}.{}", letters(43))),
        ("JWT", format!("{header}.{}.{}", letters(3_000), letters(43))),
    ]
}

/// Texts before and after a credential.
const SURROUNDINGS: &[(&str, &str)] = &[
    ("", ""),
    ("", "\n"),
    ("a line\n", "\nanother"),
    ("key: ", " # mine"),
    ("{\"key\":\"", "\"}"),
    ("one\\n", "\\ntwo"),
    ("export X='", "'; run"),
    ("https://host/?q=", "&r=1"),
    ("%20", "%20"),
    ("(", ")"),
    ("é", "é"),
    ("<a>", "</a>"),
    ("curl -H 'Authorization: Bearer ", "' host"),
    ("token = \"", "\";"),
    ("PASSWORD=", ""),
];

#[test]
fn credentials_are_redacted_in_any_surroundings() {
    let secrets = Secrets::default();
    for (name, credential) in credentials() {
        for (before, after) in SURROUNDINGS {
            let text = format!("{before}{credential}{after}");
            check(&secrets, &text, &format!("{before}[secret: {name}]{after}"));
        }
    }
    let named_values: std::collections::BTreeSet<&str> =
        credentials().iter().map(|(name, _)| *name).collect();
    assert!(named_values.len() >= 20, "{named_values:?}");
}

#[test]
fn values_are_redacted_by_their_context() {
    let (password, secret) = ("S3cr-aB9.kQ2x", letters(40));
    let (key, basic) =
        (STANDARD.encode(pseudorandom(64, LETTERS)), STANDARD.encode("me:S3cr3tPassw0rd"));
    for (text, expected) in [
        (format!("aws_secret_access_key = {secret}"), "aws_secret_access_key = [secret: secret]"),
        (
            format!("AccountName=a;AccountKey={key};X=1"),
            "AccountName=a;AccountKey=[secret: Azure key];X=1",
        ),
        (
            format!("postgres://me:{password}@db:5432/x"),
            "postgres://me:[secret: password]@db:5432/x",
        ),
        (format!("\"amqp://:{password}@[::1]/\""), "\"amqp://:[secret: password]@[::1]/\""),
        (format!("bot 1234567890:AA{}", letters(33)), "bot 1234567890:[secret: Telegram token]"),
        (
            format!("Authorization: Bearer {secret}=="),
            "Authorization: Bearer [secret: bearer token]",
        ),
        (format!("authorization: Basic {basic}"), "authorization: Basic [secret: password]"),
        (format!("password={password}&x"), "password=[secret: password]&x"),
        (format!("\"password\": \"{password}\","), "\"password\": \"[secret: password]\","),
        (
            format!("{{\\\"password\\\":\\\"{password}\\\"}}"),
            "{\\\"password\\\":\\\"[secret: password]\\\"}",
        ),
        (format!("DB_PASSWORD: '{password}'"), "DB_PASSWORD: '[secret: password]'"),
        (
            format!("const API_KEY: &str = \"{secret}\";"),
            "const API_KEY: &str = \"[secret: API key]\";",
        ),
        (format!("'apiKey' => '{secret}'"), "'apiKey' => '[secret: API key]'"),
        (format!("X-Api-Key: {secret}\r\n"), "X-Api-Key: [secret: API key]\r\n"),
        (format!("token := `{secret}`"), "token := `[secret: token]`"),
        (format!("client_secret={secret}"), "client_secret=[secret: secret]"),
        (format!("secret=\"{}\"", letters(900)), "secret=\"[secret: secret]\""),
        (
            format!(
                "https://hooks.slack.com/services/T{}/B{}/{}",
                pseudorandom(9, CAPITALS),
                pseudorandom(9, CAPITALS),
                letters(24)
            ),
            "https://hooks.slack.com/services/[secret: Slack webhook]",
        ),
    ] {
        check(&Secrets::default(), &text, expected);
    }
}

/// Makes a PEM block whose lines are joined by `between`.
fn pem(kind: &str, between: &str, lines: usize) -> String {
    let mut all = vec![format!("-----BEGIN {kind}-----")];
    all.extend(
        letters(64 * lines + 24)
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8(line.to_vec()).unwrap()),
    );
    all.push(format!("-----END {kind}-----"));
    all.join(between)
}

#[test]
fn private_keys_are_redacted() {
    let secrets = Secrets::default();
    for kind in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
        for (between, lines) in [
            ("\n", 3),
            ("\r\n", 25),
            ("\\n", 25),
            ("\\\\n", 3),
            (" ", 25),
            ("\n    ", 3),
            ("\n12\t", 25),
        ] {
            let text = format!("a {} b", pem(kind, between, lines));
            check(&secrets, &text, "a [secret: private key] b");
        }
    }
    let text = format!("{{\"private_key\":\"{}\\n\",\"x\":1}}", pem("PRIVATE KEY", "\\n", 20));
    check(&secrets, &text, "{\"private_key\":\"[secret: private key]\\n\",\"x\":1}");
    let encrypted = pem("RSA PRIVATE KEY", "\n", 9).replacen(
        "KEY-----\n",
        "KEY-----\nProc-Type: 4,ENCRYPTED\n\n",
        1,
    );
    check(&secrets, &encrypted, "[secret: private key]");
    let key = pem("PRIVATE KEY", "\n", 5);
    let numbered: Vec<String> =
        (1..).zip(key.lines()).map(|(at, line)| format!("key:{at}:{line}\n")).collect();
    let numbered = numbered.concat();
    check(&secrets, &numbered, "key:1:[secret: private key]\n");
}

#[test]
fn private_keys_without_end_marker_are_redacted() {
    let secrets = Secrets::default();
    let whole = pem("PRIVATE KEY", "\n", 20);
    let (cut, _) = whole.split_once("-----END").unwrap();
    check(
        &secrets,
        &format!("{cut}That was it, all of it.\n"),
        "[secret: private key]\nThat was it, all of it.\n",
    );
    check(&secrets, cut.trim_end(), "[secret: private key]");
    let long = pem("PRIVATE KEY", "\n", 2_000);
    let redacted = secrets.redact(&long);
    assert_eq!(redacted, "[secret: private key]-----END PRIVATE KEY-----");
    assert_eq!(redact_in_pieces(&secrets, &long, &mut std::iter::repeat(977)), redacted);
    let public = pem("PUBLIC KEY", "\n", 5);
    check(&secrets, &public, &public);
}

#[test]
fn text_that_only_looks_like_a_secret_stays() {
    let image = STANDARD.encode(pseudorandom(3_000, LETTERS));
    let hash = pseudorandom(64, HEX);
    for text in [
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "checksum = \"c982642fa9e8606056828ee9a8505737230110bb1099153c79efe865c59d12ba\"",
        &format!("sha256:{hash}"),
        &format!("\"integrity\": \"sha512-{}==\"", letters(86)),
        &format!("<img src=\"data:image/png;base64,{image}\">"),
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.",
        "task-force desk-top risk-averse-and-more-words-than-forty-characters-in-a-row",
        "sk-learn sk-SK sk-button--primary-large-with-a-very-long-class-name-1",
        "ghp_ and github_pat_ are prefixes; ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx is an example",
        "AKIA",
        "AKIAXXXXXXXXXXXXXXXX",
        "SKU 0123456789",
        "npm_config_registry=https://registry.example",
        "password = get_password()",
        "password: String,",
        "let token = next_token(&mut lexer)?;",
        "password = os.environ[\"DB_PASSWORD\"]",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "const token = process.env.GITHUB_TOKEN_FOR_CI_1;",
        "max_tokens=4096, tokens: 128000",
        "pub fn secret(&self, name: &str) -> Result<SecretValue, ToolError> {",
        "if (token == null || token.length === 0) return",
        "Token::Ident(name) => self.token = Some(name),",
        "api_key: Option<String> = None",
        "api_key=YOUR_API_KEY_123456",
        "secret: \"change me please\"",
        "the password: it is not here",
        "token_type: bearer_authentication_token_type_2",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "the bearer of this ring",
        "basic authentication and Basic auth",
        "https://user:password@host/",
        "https://docs.rs:443/a@b",
        "postgres://{user}:{password}@{host}/{db}",
        "postgres://$USER:$PASS@host",
        "git@github.com:a/b.git",
        "http://localhost:8080/users/@me",
        "a://b",
        "-----BEGIN CERTIFICATE-----\nMIIE",
        "if line == \"-----BEGIN PRIVATE KEY-----\" {\n    inside = true;\n}\nif line == \"-----END PRIVATE KEY-----\" {}",
        "eyJ is how JSON begins in base64: eyJhIjoxfQ",
        "eyJhIjoxfQ.eyJhIjoxfQ.eyJhIjoxfQeyJhIjoxfQ",
        "!function(e,t){var n=e.token,r=t.password;n=r?r.secret:null}(window,{token:a1,password:b2});",
        "at 12:34:56 process 12345678:AA",
        "c01J9ZQ4V7K2M3N5P6R8S0T1X2 s01J9ZQ4V7K2M3N5P6R8S0T1X2",
        "token_path = \"/run/secrets/token2_v3/abc123\"",
        "passwordField.addEventListener('input', e1 => {})",
        "[secret garden] [secret: sauce] [secret",
        "SG.Foo.bar()",
        "hf_hub_download(repo_id)",
        "secretKeyRef: {name: db-credentials-v2-1a, key: x}",
    ] {
        check(&Secrets::default(), text, text);
    }
}

#[test]
fn our_own_source_stays() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut directories = vec![source];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let redacted = Secrets::default().redact(&text).into_owned();
                let changed: Vec<_> =
                    text.lines().zip(redacted.lines()).filter(|(a, b)| a != b).collect();
                // Some of the tests in these files write a password out.
                let is_ours = path.ends_with("secrets/tests/formats.rs")
                    || path.ends_with("secrets/tests.rs");
                assert!(is_ours || changed.is_empty(), "{}: {changed:?}", path.display());
            }
        }
    }
}

#[test]
fn no_anchor_is_the_prefix_of_another() {
    let anchors: Vec<&str> = super::super::formats::anchors().collect();
    for (at, anchor) in anchors.iter().enumerate() {
        let others = anchors.iter().enumerate().filter(|(other, _)| *other != at);
        assert!(others.map(|(_, other)| other).all(|other| !anchor.starts_with(other)), "{anchor}");
    }
}
