//! The JSON Schema keywords that each provider accepts.

/// The schema keywords that a provider accepts.
///
/// ```
/// use windlass_wire::SchemaKeywords;
/// assert!(SchemaKeywords::OPENAI.accepts("additionalProperties"));
/// assert!(!SchemaKeywords::GEMINI.accepts("additionalProperties"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaKeywords(u8);

impl SchemaKeywords {
    /// JSON Schema without references.
    pub const ANTHROPIC: Self = Self(A);
    /// Keywords that both of OpenAI's APIs accept; of the combinations only `anyOf`.
    pub const OPENAI: Self = Self(O);
    /// A part of OpenAPI 3.0: Gemini's `Schema`, without fields that only some of its servers accept.
    pub const GEMINI: Self = Self(G);

    /// Returns whether a keyword may occur.
    pub fn accepts(self, keyword: &str) -> bool {
        KEYWORDS.iter().any(|(known, takers)| *known == keyword && takers & self.0 != 0)
    }

    /// Returns whether these are the rules of OpenAPI rather than JSON Schema.
    pub(super) fn is_openapi(self) -> bool {
        self == Self::GEMINI
    }
}

/// Bit of Anthropic.
const A: u8 = 1;
/// Bit of OpenAI.
const O: u8 = 2;
/// Bit of Gemini.
const G: u8 = 4;

/// Keywords, with the bits of the providers that accept them.
const KEYWORDS: [(&str, u8); 37] = [
    ("type", A | O | G),
    ("description", A | O | G),
    ("enum", A | O | G),
    ("format", A | O | G),
    ("properties", A | O | G),
    ("required", A | O | G),
    ("items", A | O | G),
    ("minItems", A | O | G),
    ("maxItems", A | O | G),
    ("minLength", A | O | G),
    ("maxLength", A | O | G),
    ("pattern", A | O | G),
    ("minimum", A | O | G),
    ("maximum", A | O | G),
    ("anyOf", A | O | G),
    ("nullable", G),
    ("title", A | O),
    ("default", A | O),
    ("const", A | O),
    ("additionalProperties", A | O),
    ("uniqueItems", A | O),
    ("exclusiveMinimum", A | O),
    ("exclusiveMaximum", A | O),
    ("multipleOf", A | O),
    ("examples", A),
    ("oneOf", A),
    ("allOf", A),
    ("not", A),
    ("if", A),
    ("then", A),
    ("else", A),
    ("contains", A),
    ("prefixItems", A),
    ("propertyNames", A),
    ("patternProperties", A),
    ("minProperties", A),
    ("maxProperties", A),
];
