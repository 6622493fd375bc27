//! Secrets by format: finds credentials that have a recognizable form.
//!
//! The formats are one table. Most rows are a prefix that is never written by chance, and the characters that follow; the others have
//! a matcher function. A model must be able to work on source files, so a row that cannot tell a secret from a name, a hash or an
//! example has no place here, and text that looks like an example stays.

mod assignment;
mod characters;
mod token;

use std::sync::LazyLock;

use self::characters::{alphanumeric, base64_url, lower_hex, upper_or_digit, word_character};
use super::scan::{Anchors, Class, Cursor, SecretMatch, SecretRules, empty_class};

/// A match of a format: the range to redact, and the class of bytes that are redacted after it.
struct FormatMatch {
    secret: std::ops::Range<usize>,
    tail: Class,
}

impl FormatMatch {
    /// Makes a match from a position to the cursor.
    fn up_to_cursor(from: usize, cursor: &Cursor<'_>) -> Self {
        Self { secret: from..cursor.at(), tail: empty_class }
    }

    /// Sets the class of bytes that directly follow the match and are redacted with it.
    fn with_tail(self, tail: Class) -> Self {
        Self { tail, ..self }
    }
}

/// One row of the table of formats.
struct Format {
    /// The name for people and models, in the placeholder.
    name: &'static str,
    /// The texts by which the scanner finds candidates.
    anchors: &'static [&'static str],
    rule: FormatRule,
}

/// The rule that decides if a candidate is a secret. The cursor of a matcher is at the beginning of the anchor.
enum FormatRule {
    /// At least this many characters of a class behind the anchor, and all that follow.
    AtLeast(usize, Class),
    /// Exactly this many characters of a class behind the anchor, at the end of a word.
    Exactly(usize, Class),
    /// A matcher for a token that is recognized by itself.
    Token(Matcher),
    /// A matcher for a value that is recognized by the text around it.
    InContext(Matcher),
    /// A value that is assigned to a name with the anchor in it.
    Assigned,
}

/// Checks a candidate at the cursor for an anchor. Returns the match, if it is a secret.
type Matcher = fn(&mut Cursor<'_>, &str) -> Option<FormatMatch>;

use FormatRule::{Assigned, AtLeast, Exactly, InContext, Token};

/// The table of formats. No anchor may be the prefix of another.
const FORMATS: &[Format] = &[
    row("AWS access key", &["AKIA", "ASIA"], Exactly(16, upper_or_digit)),
    row("GitHub token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], AtLeast(36, alphanumeric)),
    row("GitHub token", &["github_pat_"], AtLeast(40, word_character)),
    row("GitLab token", &["glpat-", "glrt-", "gldt-"], AtLeast(20, base64_url)),
    row("Slack token", &["xox", "xapp-"], Token(token::slack)),
    row("Slack webhook", &["hooks.slack.com/services/"], InContext(token::slack_webhook)),
    row("Stripe key", &["sk_live_", "rk_live_", "whsec_"], AtLeast(24, alphanumeric)),
    row("API key", &["sk-"], Token(token::sk)),
    row("Google API key", &["AIza"], Exactly(35, base64_url)),
    row("Google OAuth token", &["ya29."], AtLeast(30, base64_url)),
    row("Google OAuth secret", &["GOCSPX-"], AtLeast(24, base64_url)),
    row("npm token", &["npm_"], Exactly(36, alphanumeric)),
    row("PyPI token", &["pypi-AgE"], AtLeast(50, base64_url)),
    row("Hugging Face token", &["hf_"], Exactly(34, alphanumeric)),
    row("DigitalOcean token", &["dop_v1_", "doo_v1_", "dor_v1_"], Exactly(64, lower_hex)),
    row("SendGrid key", &["SG."], Token(token::send_grid)),
    row("Twilio key", &["SK"], Exactly(32, lower_hex)),
    row("Telegram token", &[":AA"], InContext(token::telegram)),
    row("Docker token", &["dckr_pat_"], AtLeast(20, base64_url)),
    row("Shopify token", &["shpat_", "shpss_"], Exactly(32, lower_hex)),
    row("Vault token", &["hvs."], AtLeast(24, base64_url)),
    row("Grafana token", &["glsa_"], AtLeast(32, word_character)),
    row("age key", &["AGE-SECRET-KEY-1"], AtLeast(50, upper_or_digit)),
    row("JWT", &["eyJ"], Token(token::jwt)),
    row("private key", &["-----BEGIN "], Token(token::private_key)),
    row("Azure key", &["AccountKey="], InContext(token::azure)),
    row("password", &["://"], InContext(token::url_password)),
    row("bearer token", &["earer "], InContext(token::bearer)),
    row("password", &["asic "], InContext(token::basic)),
    row("password", &["assw", "ASSW"], Assigned),
    row("token", &["oken", "OKEN", "uthorization"], Assigned),
    row("secret", &["ecret", "ECRET"], Assigned),
    row(
        "API key",
        &["api_key", "apikey", "apiKey", "api-key", "API_KEY", "APIKEY", "ApiKey", "Api-Key"],
        Assigned,
    ),
    row("access key", &["ccess_key", "CCESS_KEY", "ccessKey"], Assigned),
];

/// Makes a row of the table.
const fn row(name: &'static str, anchors: &'static [&'static str], rule: FormatRule) -> Format {
    Format { name, anchors, rule }
}

/// The table of formats, prepared for the search.
pub(super) struct Formats {
    anchors: Anchors,
    /// For each anchor: its format and its text.
    rows: Vec<(&'static Format, &'static str)>,
    /// For each anchor: the placeholder of its format.
    placeholders: Vec<String>,
}

/// All formats. They do not depend on the person or the session.
pub(super) static ALL: LazyLock<Formats> = LazyLock::new(|| {
    let rows: Vec<_> = FORMATS.iter().flat_map(Format::with_anchors).collect();
    let anchors: Vec<&str> = rows.iter().map(|(_, anchor)| *anchor).collect();
    let placeholders = rows.iter().map(|(format, _)| placeholder(format.name)).collect();
    Formats { anchors: Anchors::new(&anchors), rows, placeholders }
});

/// Returns the placeholder of a format.
fn placeholder(name: &str) -> String {
    format!("[secret: {name}]")
}

/// Returns the placeholders of all formats.
pub(super) fn placeholders() -> impl Iterator<Item = String> {
    FORMATS.iter().map(|format| placeholder(format.name))
}

/// Returns the placeholder of a value that is assigned to a name, if the name and the value look like a secret.
pub(super) fn placeholder_by_name(name: &str, value: &str) -> Option<&'static str> {
    let matches_name = |(format, anchor): &(&Format, &str)| {
        matches!(format.rule, Assigned) && name.contains(anchor)
    };
    // Most names match no anchor, and one search for all anchors is cheaper than one for each.
    if !ALL.anchors.has_any(name.as_bytes()) {
        return None;
    }
    let row = ALL.rows.iter().position(matches_name)?;
    assignment::is_secret_value(value)
        .then(|| ALL.placeholders.get(row).map(String::as_str))
        .flatten()
}

impl SecretRules for Formats {
    fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    fn match_at(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<SecretMatch<'_>> {
        let (format, beginning) = self.rows.get(anchor)?;
        let FormatMatch { secret, tail } = format.matches(beginning, cursor)?;
        let placeholder = self.placeholders.get(anchor).map(String::as_str);
        Some(SecretMatch { secret, placeholder, tail })
    }
}

impl Format {
    /// Returns each anchor of the format, with the format.
    fn with_anchors(&'static self) -> impl Iterator<Item = (&'static Self, &'static str)> {
        self.anchors.iter().map(move |anchor| (self, *anchor))
    }

    /// Checks a candidate at the cursor. Returns the match, if it is a secret.
    fn matches(&self, anchor: &str, cursor: &mut Cursor<'_>) -> Option<FormatMatch> {
        let from = cursor.at();
        match self.rule {
            Token(matcher) | InContext(matcher) => matcher(cursor, anchor),
            Assigned => assignment::match_value(cursor, anchor),
            AtLeast(count, class) => {
                let token = take_after_anchor(cursor, anchor, count, class)?;
                characters::is_varied(token)
                    .then(|| FormatMatch::up_to_cursor(from, cursor).with_tail(class))
            }
            Exactly(count, class) => {
                let token = take_after_anchor(cursor, anchor, count, class)?;
                let is_more = |byte: u8| class(byte) || alphanumeric(byte);
                let is_whole = !cursor.peek().is_some_and(is_more);
                (is_whole && characters::is_varied(token))
                    .then(|| FormatMatch::up_to_cursor(from, cursor))
            }
        }
    }
}

/// Passes an anchor at the beginning of a word and the next `count` characters of a class. Returns these characters, or `None` if they
/// are not there.
fn take_after_anchor<'t>(
    cursor: &mut Cursor<'t>,
    anchor: &str,
    count: usize,
    class: Class,
) -> Option<&'t [u8]> {
    if !characters::can_start_token(cursor) {
        return None;
    }
    cursor.advance(anchor.len());
    Some(cursor.take_run(class, count)).filter(|token| token.len() == count)
}

/// Returns whether a token that is recognized by itself begins at the cursor.
fn is_token_start(cursor: &mut Cursor<'_>) -> bool {
    let rows = FORMATS.iter().filter(|format| !matches!(format.rule, InContext(_) | Assigned));
    for (format, anchor) in rows.flat_map(Format::with_anchors) {
        let mut here = cursor.clone();
        let begins = here.eat(anchor.as_bytes());
        let mut whole = cursor.clone();
        let is_match = begins && format.matches(anchor, &mut whole).is_some();
        cursor.note_need(&here);
        cursor.note_need(&whole);
        if is_match {
            return true;
        }
    }
    false
}

/// Returns all anchors.
#[cfg(test)]
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().flat_map(|format| format.anchors).copied()
}
