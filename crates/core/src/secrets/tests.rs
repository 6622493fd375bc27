//! Tests of redaction: secrets are replaced, other text stays, and neither depends on where a text is cut.

mod formats;

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

/// Redacts a text in pieces of these lengths.
fn redact_in_pieces(
    secrets: &Secrets,
    text: &str,
    lengths: &mut dyn Iterator<Item = usize>,
) -> String {
    let (mut stream, mut redacted, mut rest) = (RedactionStream::default(), String::new(), text);
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).min(rest.len());
        let (piece, byte_before) = rest.split_at(rest.ceil_char_boundary(length));
        redacted.push_str(&stream.push(secrets, piece));
        rest = byte_before;
    }
    redacted.push_str(&stream.end(secrets));
    assert_eq!(stream.held_bytes(), 0);
    redacted
}

/// Asserts the redacted text: as a whole, cut once at many places, and character by character. To redact it twice must change nothing.
fn check(secrets: &Secrets, text: &str, expected: &str) {
    let whole = secrets.redact(text);
    assert_eq!(whole, expected, "of {text}");
    assert_eq!(secrets.redact(&whole), expected, "twice");
    assert_eq!(matches!(whole, Cow::Borrowed(_)), text == expected, "copied for nothing: {text}");
    assert_eq!(
        redact_in_pieces(secrets, text, &mut std::iter::repeat(1)),
        expected,
        "in characters"
    );
    for at in (0..text.len()).step_by(1 + text.len() / 64) {
        assert_eq!(redact_in_pieces(secrets, text, &mut [at].into_iter()), expected, "cut at {at}");
    }
}

/// A value with characters that most encodings escape.
const VALUE: &str = "p@ss/w0rd+&'q\"z\\9~";

fn secrets() -> Secrets {
    Secrets::new([("KEY", VALUE), ("WORD", "hunter2hunter2"), ("SHORT", "abc")])
}

#[test]
fn plain_values_are_redacted() {
    for (text, expected) in [
        ("plain", "plain"),
        ("a hunter2hunter2 b", "a [secret WORD] b"),
        ("hunter2hunter2hunter2hunter2", "[secret WORD][secret WORD]"),
        ("hunter2hunter", "hunter2hunter"),
        ("hunthunter2hunter2", "hunt[secret WORD]"),
        ("éhunter2hunter2é", "é[secret WORD]é"),
        ("[secret WORD]", "[secret WORD]"),
        ("[secret hunter2hunter2]", "[secret [secret WORD]]"),
        ("abc", "abc"),
    ] {
        check(&secrets(), text, expected);
    }
    check(&secrets(), &format!("x{VALUE}x"), "x[secret KEY]x");
}

#[test]
fn longest_value_wins_and_names_stay() {
    let secrets = Secrets::new([
        ("PREFIX", "hunter2h"),
        ("WHOLE", "hunter2hunter2"),
        ("SAME_AS_NAME", "SAME_AS_NAME"),
    ]);
    for (text, expected) in [
        ("hunter2hunter2", "[secret WHOLE]"),
        ("hunter2hunter3", "[secret PREFIX]unter3"),
        ("SAME_AS_NAME", "[secret SAME_AS_NAME]"),
        ("a [secret SAME_AS_NAME] b", "a [secret SAME_AS_NAME] b"),
    ] {
        check(&secrets, text, expected);
    }
}

#[test]
fn encoded_values_are_redacted() {
    let all = |value: &str, way: fn(u8) -> String| value.bytes().map(way).collect::<String>();
    let spaced = |value: &str, between: &str| {
        value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
    };
    for (form, text) in [
        ("JSON", serde_json::to_string(VALUE).unwrap()),
        ("JSON with slashes", serde_json::to_string(VALUE).unwrap().replace('/', "\\/")),
        ("JSON, all escaped", all(VALUE, |byte| format!("\\u{byte:04x}"))),
        ("JSON in capitals", all(VALUE, |byte| format!("\\u{byte:04X}"))),
        ("C", all(VALUE, |byte| format!("\\x{byte:02x}"))),
        ("address", "p%40ss%2Fw0rd%2B%26%27q%22z%5C9~".into()),
        ("address in small letters", "p%40ss%2fw0rd%2b%26%27q%22z%5c9~".into()),
        ("address, mixed", "p@ss%2Fw0rd+%26'q%22z%5c9%7E".into()),
        ("address, all", all(VALUE, |byte| format!("%{byte:02X}"))),
        ("hex", spaced(VALUE, "")),
        ("hex in capitals", spaced(VALUE, "").to_ascii_uppercase()),
        ("hex with colons", spaced(VALUE, ":")),
        ("hex with blanks", spaced(VALUE, " ")),
        ("hex in lines", {
            let digits = spaced(VALUE, "");
            let (line, more) = digits.split_at(20);
            format!("{line}\n{more}")
        }),
        ("shell", VALUE.replace('\'', "'\\''")),
        (
            "shell with backslashes",
            all(VALUE, |byte| {
                let character = char::from(byte);
                if character.is_alphanumeric() {
                    character.into()
                } else {
                    format!("\\{character}")
                }
            }),
        ),
    ] {
        let redacted = secrets().redact(&text).into_owned();
        assert!(redacted.trim_matches('"') == "[secret KEY]", "{form}: {text} became {redacted}");
        check(&secrets(), &format!("<{text}>"), &format!("<{redacted}>"));
    }
}

#[test]
fn values_are_redacted_at_each_offset_of_base64() {
    for value in [VALUE, "hunter2hunter2"] {
        for before in 0..6 {
            for after in 0..4 {
                let text = format!("{}{value}{}", "\u{1}".repeat(before), "\u{2}".repeat(after));
                for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                    let encoded = engine.encode(&text);
                    let redacted = secrets().redact(&encoded).into_owned();
                    assert!(redacted.contains("[secret "), "{encoded}");
                    // Four bits of the first and the last byte are in characters that hold other bits too.
                    let left = redacted.len() - redacted.find(']').unwrap() - 1
                        + redacted.find('[').unwrap();
                    let others = (before + after) * 4 / 3;
                    assert!(left <= others + 6, "{encoded} became {redacted}");
                    check(&secrets(), &encoded, &redacted);
                }
            }
        }
    }
}

#[test]
fn values_are_redacted_in_wrapped_base64() {
    let text = format!("some text before it {VALUE} and more behind");
    let encoded = STANDARD.encode(text);
    for width in [19, 20, 31, 32, 76] {
        let lines: Vec<&str> = encoded
            .as_bytes()
            .chunks(width)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        for between in ["\n", "\r\n", "\\n"] {
            let wrapped = lines.join(between);
            let redacted = secrets().redact(&wrapped).into_owned();
            assert!(redacted.contains("[secret KEY]"), "{wrapped} became {redacted}");
        }
    }
}

#[test]
fn values_of_several_lines_are_redacted_whole_and_by_line() {
    let key = "-----BEGIN THING-----\nMIIEowIBAAKCAQEAx1y2z3\nshort\nabcdefghijklmnop==\n-----END THING-----";
    let secrets = Secrets::new([("PEM", key)]);
    check(&secrets, key, "[secret PEM]");
    check(&secrets, &serde_json::to_string(key).unwrap(), "\"[secret PEM]\"");
    check(
        &secrets,
        "   2\tMIIEowIBAAKCAQEAx1y2z3\r\n   3\tshort",
        "   2\t[secret PEM]\r\n   3\tshort",
    );
    check(&secrets, "-----BEGIN THING-----", "-----BEGIN THING-----");
}

#[test]
fn json_is_redacted_with_member_names() {
    let mut value = serde_json::json!({
        "hunter2hunter2": [{"deep": "xhunter2hunter2"}],
        "password": "aB3$dE6gH9jK2m",
        "number": 1,
    });
    secrets().redact_json(&mut value);
    let expected = serde_json::json!({
        "[secret WORD]": [{"deep": "x[secret WORD]"}],
        "password": "[secret: password]",
        "number": 1,
    });
    assert_eq!(value, expected);
}

#[test]
fn held_back_text_is_bounded() {
    let secrets = secrets();
    for endless in
        ["eyJ", "-----BEGIN RSA PRIVATE KEY-----\n", "ghp_", "password=", "AccountKey=", "://a:"]
    {
        let mut stream = RedactionStream::default();
        stream.push(&secrets, endless);
        let mut most = 0;
        for _ in 0..200 {
            stream.push(&secrets, &"aB3dE5fG7h9".repeat(100));
            most = most.max(stream.held_bytes());
        }
        assert!(most <= 52 << 10, "{endless}: {most} bytes");
    }
}

/// Generates texts in which secrets begin, end, overlap and are incomplete.
fn texts() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        "[ab]{0,9}",
        "[ -~]{0,6}",
        Just("abababab".to_owned()),
        Just("ababababb".to_owned()),
        Just(VALUE.to_owned()),
        Just(STANDARD.encode(VALUE)),
        Just("6162616261626162".to_owned()),
        Just("%61%62ab%61bab".to_owned()),
        Just("\\u0061babab\\u0061b".to_owned()),
        Just("ghp_a1B2c3D4e5F6g7H8i9a1B2c3D4e5F6g7H8i9".to_owned()),
        Just("password = \"".to_owned()),
        Just("a1B2c3D4e5F6g7".to_owned()),
        Just("\"\n".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----\n".to_owned()),
        Just("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n".to_owned()),
        Just("-----END PRIVATE KEY-----\n".to_owned()),
        Just("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.".to_owned()),
        Just("https://me:".to_owned()),
        Just("é@host".to_owned()),
        Just("[secret A]".to_owned()),
        Just("[secret".to_owned()),
    ];
    prop::collection::vec(parts, 0..12).prop_map(|parts| parts.concat())
}

static OVERLAPPING: LazyLock<Secrets> = LazyLock::new(|| {
    let values = ["abababab", "ababababb", "bbaababab", "aaaabbbb", VALUE];
    Secrets::new(["A", "B", "C", "D", "E"].into_iter().zip(values))
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_are_redacted_like_the_whole_text(text in texts(), lengths in prop::collection::vec(0usize..20, 1..40)) {
        let secrets = &*OVERLAPPING;
        let whole = secrets.redact(&text);
        prop_assert_eq!(&redact_in_pieces(secrets, &text, &mut lengths.into_iter().cycle().map(|n| n.max(1))), &*whole);
        // A placeholder may be read as the name of the text behind it, so a second redaction may replace more, never less.
        let twice = secrets.redact(&whole);
        for (_, value) in &secrets.named_values().values {
            prop_assert!(!whole.contains(value.as_str()) && !twice.contains(value.as_str()), "{}", whole);
        }
    }

    #[test]
    fn every_value_is_redacted_in_every_form(value in "[ -~]{8,40}", before in "[ -~]{0,5}", after in "[ -~]{0,5}") {
        prop_assume!(!value.contains("[secret"));
        let secrets = Secrets::new([("S", value.as_str())]);
        let text = format!("{before}{value}{after}");
        let mut hex = String::new();
        text.bytes().for_each(|byte| write!(hex, "{byte:02X}").unwrap());
        let percent: String = text
            .bytes()
            .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02x}") })
            .collect();
        for form in [text.clone(), STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text), hex, percent, serde_json::to_string(&text).unwrap()] {
            let redacted = secrets.redact(&form);
            prop_assert!(redacted.contains("[secret S]"), "{} became {}", form, redacted);
        }
    }

    #[test]
    fn other_texts_stay(text in "([a-z]{1,9}[ .,\n(){}=:;]){0,60}") {
        let secrets = &*OVERLAPPING;
        prop_assume!(!text.contains("abab") && !text.contains("aaaa") && !text.contains("bbaa"));
        prop_assert!(matches!(secrets.redact(&text), Cow::Borrowed(_)), "{}", secrets.redact(&text));
    }
}

#[test]
fn json_is_copied_only_if_it_has_a_secret() {
    let secrets = Secrets::new([("PIN", "0451-0451")]);
    for (value, is_secret_free) in [
        (serde_json::json!({"path": "a.txt", "limit": 3, "more": [null, true, "b"]}), true),
        (serde_json::json!({"deep": [{"note": "it is 0451-0451"}]}), false),
        (serde_json::json!({"0451-0451": 1}), false),
        (serde_json::json!({"password": "aB3$dE6gH9jK2m"}), false),
    ] {
        let cleaned = secrets.redacted_json(&value);
        assert_eq!(matches!(cleaned, Cow::Borrowed(_)), is_secret_free, "{value}");
        let mut redacted = value.clone();
        secrets.redact_json(&mut redacted);
        assert_eq!(*cleaned, redacted, "{value}");
    }
}
