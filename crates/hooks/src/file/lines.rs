//! Finds the lines of the parts of a file, for messages about them.

use toml::de::{DeTable, DeValue};

use super::HookFile;

/// Returns the line of a place such as `hooks[2]`, counted from 1; with a word, the line of the first key or value there that
/// equals it.
pub(super) fn line_of(file: &HookFile, place: &str, word: Option<&str>) -> Option<usize> {
    let at = if file.is_json() {
        file.text.find(&serde_json::to_string(word?).ok()?)?
    } else {
        let table = DeTable::parse(&file.text).ok()?;
        let (found, at) = find_value(table.get_ref(), place)?;
        word.and_then(|word| find_word(found?, word)).unwrap_or(at)
    };
    Some(file.text.get(..at)?.matches('\n').count() + 1)
}

/// Returns the value at a place, and the offset of its key or of the value itself. Returns `None` for an empty place.
fn find_value<'t>(table: &'t DeTable<'t>, place: &str) -> Option<(Option<&'t DeValue<'t>>, usize)> {
    let mut steps = place.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    let first = steps.next().filter(|step| !step.is_empty())?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    let (mut at, mut value) = (key.span().start, value.get_ref());
    for step in steps {
        let next = match value {
            DeValue::Table(table) => {
                let (key, value) = table.iter().find(|(key, _)| key.get_ref() == step)?;
                at = key.span().start;
                value
            }
            DeValue::Array(values) => {
                let value = values.get(step.parse::<usize>().ok()?)?;
                at = value.span().start;
                value
            }
            _ => return None,
        };
        value = next.get_ref();
    }
    Some((Some(value), at))
}

/// Returns the offset of a word among the keys and values of a table, and of the lists in it.
fn find_word(value: &DeValue<'_>, word: &str) -> Option<usize> {
    let is = |value: &DeValue<'_>| value.as_str() == Some(word);
    let DeValue::Table(table) = value else { return None };
    table.iter().find_map(|(key, value)| match value.get_ref() {
        _ if key.get_ref() == word => Some(key.span().start),
        one if is(one) => Some(value.span().start),
        DeValue::Array(all) => all.iter().find(|one| is(one.get_ref())).map(|one| one.span().start),
        _ => None,
    })
}
