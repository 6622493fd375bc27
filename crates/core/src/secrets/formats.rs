//! Secrets by format: what is a credential by the look of it, whoever it belongs to.
//!
//! One table. Most rows are a beginning that nobody writes by chance and the characters that follow; the others have a matcher of
//! their own. A model must be able to work on source files, so a row that cannot tell a secret from a name, a hash or an example
//! has no place here, and what looks like an example stays.

mod assignment;
mod look;
mod token;

use std::sync::LazyLock;

use self::look::{alphanumeric, base64_url, capitals, hex, word};
use super::scan::{Anchors, Class, Cursor, Found, Rules, nothing};

/// What a matcher found: from where to where, and what else belongs to it.
struct Match {
    secret: std::ops::Range<usize>,
    goes_on: Class,
}

impl Match {
    /// From a place to where the cursor is.
    fn since(from: usize, cursor: &Cursor<'_>) -> Self {
        Self { secret: from..cursor.at(), goes_on: nothing }
    }

    fn and(self, goes_on: Class) -> Self {
        Self { goes_on, ..self }
    }
}

/// One format.
struct Format {
    /// For people and models.
    name: &'static str,
    /// How it begins.
    anchors: &'static [&'static str],
    follows: Follows,
}

/// What makes it a secret. The cursor of a matcher is at the beginning of the anchor.
enum Follows {
    /// At least so many characters of a kind, and all that come after them.
    AtLeast(usize, Class),
    /// Exactly so many, in no longer word.
    Exactly(usize, Class),
    /// What this says, for a token that tells itself.
    Matched(Matcher),
    /// The same for a value that is told by what stands around it.
    Named(Matcher),
    /// A value whose name has this in it.
    Assigned,
}

type Matcher = fn(&mut Cursor<'_>, &str) -> Option<Match>;

use Follows::{Assigned, AtLeast, Exactly, Matched, Named};

/// Every format. No anchor may be the beginning of another.
const FORMATS: &[Format] = &[
    row("AWS access key", &["AKIA", "ASIA"], Exactly(16, capitals)),
    row("GitHub token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], AtLeast(36, alphanumeric)),
    row("GitHub token", &["github_pat_"], AtLeast(40, word)),
    row("GitLab token", &["glpat-", "glrt-", "gldt-"], AtLeast(20, base64_url)),
    row("Slack token", &["xox", "xapp-"], Matched(token::slack)),
    row("Slack webhook", &["hooks.slack.com/services/"], Named(token::slack_webhook)),
    row("Stripe key", &["sk_live_", "rk_live_", "whsec_"], AtLeast(24, alphanumeric)),
    row("API key", &["sk-"], Matched(token::sk)),
    row("Google API key", &["AIza"], Exactly(35, base64_url)),
    row("Google OAuth token", &["ya29."], AtLeast(30, base64_url)),
    row("Google OAuth secret", &["GOCSPX-"], AtLeast(24, base64_url)),
    row("npm token", &["npm_"], Exactly(36, alphanumeric)),
    row("PyPI token", &["pypi-AgE"], AtLeast(50, base64_url)),
    row("Hugging Face token", &["hf_"], Exactly(34, alphanumeric)),
    row("DigitalOcean token", &["dop_v1_", "doo_v1_", "dor_v1_"], Exactly(64, hex)),
    row("SendGrid key", &["SG."], Matched(token::send_grid)),
    row("Twilio key", &["SK"], Exactly(32, hex)),
    row("Telegram token", &[":AA"], Named(token::telegram)),
    row("Docker token", &["dckr_pat_"], AtLeast(20, base64_url)),
    row("Shopify token", &["shpat_", "shpss_"], Exactly(32, hex)),
    row("Vault token", &["hvs."], AtLeast(24, base64_url)),
    row("Grafana token", &["glsa_"], AtLeast(32, word)),
    row("age key", &["AGE-SECRET-KEY-1"], AtLeast(50, capitals)),
    row("JWT", &["eyJ"], Matched(token::jwt)),
    row("private key", &["-----BEGIN "], Matched(token::private_key)),
    row("Azure key", &["AccountKey="], Named(token::azure)),
    row("password", &["://"], Named(token::url_password)),
    row("bearer token", &["earer "], Named(token::bearer)),
    row("password", &["asic "], Named(token::basic)),
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

const fn row(name: &'static str, anchors: &'static [&'static str], follows: Follows) -> Format {
    Format { name, anchors, follows }
}

/// The table, ready to look with.
pub(super) struct Formats {
    anchors: Anchors,
    /// For each anchor, which format.
    rows: Vec<(&'static Format, &'static str)>,
    placeholders: Vec<String>,
}

/// All formats. They are the same for everybody.
pub(super) static ALL: LazyLock<Formats> = LazyLock::new(|| {
    let rows: Vec<_> = FORMATS.iter().flat_map(Format::anchored).collect();
    let anchors: Vec<&str> = rows.iter().map(|(_, anchor)| *anchor).collect();
    let placeholders = rows.iter().map(|(format, _)| placeholder(format.name)).collect();
    Formats { anchors: Anchors::new(&anchors), rows, placeholders }
});

/// What takes the place of something of this format.
fn placeholder(name: &str) -> String {
    format!("[secret: {name}]")
}

/// All that may stand where something was taken out.
pub(super) fn placeholders() -> impl Iterator<Item = String> {
    FORMATS.iter().map(|format| placeholder(format.name))
}

/// What takes the place of a value that has this name, if it is one to be taken out.
pub(super) fn by_name(name: &str, value: &str) -> Option<&'static str> {
    let tells = |(format, anchor): &(&Format, &str)| {
        matches!(format.follows, Assigned) && name.contains(anchor)
    };
    // Nearly no name tells anything, and to look for all anchors at once costs less than to look for each.
    if !ALL.anchors.has_any(name.as_bytes()) {
        return None;
    }
    let row = ALL.rows.iter().position(tells)?;
    assignment::is_value(value).then(|| ALL.placeholders.get(row).map(String::as_str)).flatten()
}

impl Rules for Formats {
    fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    fn judge(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<Found<'_>> {
        let (format, beginning) = self.rows.get(anchor)?;
        let Match { secret, goes_on } = format.matches(beginning, cursor)?;
        let says = self.placeholders.get(anchor).map(String::as_str);
        Some(Found { secret, says, goes_on })
    }
}

impl Format {
    fn anchored(&'static self) -> impl Iterator<Item = (&'static Self, &'static str)> {
        self.anchors.iter().map(move |anchor| (self, *anchor))
    }

    fn matches(&self, anchor: &str, cursor: &mut Cursor<'_>) -> Option<Match> {
        let from = cursor.at();
        match self.follows {
            Matched(matcher) | Named(matcher) => matcher(cursor, anchor),
            Assigned => assignment::value(cursor, anchor),
            AtLeast(count, class) => {
                let token = follows(cursor, anchor, count, class)?;
                look::is_varied(token).then(|| Match::since(from, cursor).and(class))
            }
            Exactly(count, class) => {
                let token = follows(cursor, anchor, count, class)?;
                let is_more = |byte: u8| class(byte) || alphanumeric(byte);
                let is_whole = !cursor.peek().is_some_and(is_more);
                (is_whole && look::is_varied(token)).then(|| Match::since(from, cursor))
            }
        }
    }
}

/// The characters behind an anchor at the beginning of a word, if there are so many.
fn follows<'t>(
    cursor: &mut Cursor<'t>,
    anchor: &str,
    count: usize,
    class: Class,
) -> Option<&'t [u8]> {
    if !look::is_beginning(cursor) {
        return None;
    }
    cursor.go_on(anchor.len());
    Some(cursor.run(class, count)).filter(|token| token.len() == count)
}

/// Whether a token that tells itself begins where the cursor is.
fn is_token(cursor: &mut Cursor<'_>) -> bool {
    let rows = FORMATS.iter().filter(|format| !matches!(format.follows, Named(_) | Assigned));
    for (format, anchor) in rows.flat_map(Format::anchored) {
        let mut here = cursor.clone();
        let begins = here.eat(anchor.as_bytes());
        let mut whole = cursor.clone();
        let is_it = begins && format.matches(anchor, &mut whole).is_some();
        cursor.learn(&here);
        cursor.learn(&whole);
        if is_it {
            return true;
        }
    }
    false
}

/// How all of them begin.
#[cfg(test)]
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().flat_map(|format| format.anchors).copied()
}
