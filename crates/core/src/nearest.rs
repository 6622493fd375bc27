//! Finds the known name that a wrong name is closest to, for "did you mean …?".

/// Returns the candidate that is most like `wanted`, if one is like it enough.
///
/// ```
/// use windlass_core::nearest;
/// assert_eq!(nearest("raed", ["read", "write"]), Some("read"));
/// assert_eq!(nearest("read_file", ["read", "write"]), Some("read"));
/// assert_eq!(nearest("zzz", ["read", "write"]), None);
/// ```
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (likeness(wanted, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Makes the message about an unknown name: all known names, and the nearest of them.
pub(crate) fn unknown_name_message(kind: &str, text: &str, names: &[&str]) -> String {
    let near = nearest(text, names.iter().copied());
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("unknown {kind} `{text}`: it is one of {}{near}", names.join(", "))
}

/// Returns the likeness of two texts from 0 (nothing in common) to 1 (the same), ignoring case. Texts longer than 256 bytes are not
/// compared and give 0.
///
/// ```
/// use windlass_core::likeness;
/// assert_eq!(likeness("READ", "read"), 1.0);
/// assert!(likeness("raed", "read") > likeness("raed", "write"));
/// ```
pub fn likeness(a: &str, b: &str) -> f64 {
    // Names from models and directories are short; a long one is not a typing mistake.
    if a.len() > 256 || b.len() > 256 {
        return 0.0;
    }
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let distance = strsim::normalized_damerau_levenshtein(&a, &b);
    let (short, long) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
    let part = short.len() >= 3 && long.split(['_', '-', '.', '/']).any(|word| word == short);
    if part { distance.max(0.7) } else { distance }
}
