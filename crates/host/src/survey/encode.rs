//! Encodes an index file; [`index`](super::index) describes and decodes it.

use std::os::unix::ffi::OsStrExt;

use super::index::{CHECKSUM_BYTES, FindingKind, IndexKey, KINDS, MAGIC};
use crate::inputs::{Input, InputState};

/// Contents of an index about one directory.
pub(super) struct IndexRecord<'r> {
    pub(super) name: &'r [u8],
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) changed: i64,
    /// Files that decide about everything below the directory.
    pub(super) rule_inputs: &'r [Input],
    /// Files that decide about entries of this directory only.
    pub(super) inputs: &'r [Input],
    pub(super) findings: &'r [(FindingKind, Vec<u8>)],
    /// Number of subdirectories that are walked. Their records follow, each with those below it.
    pub(super) children: usize,
}

/// Returns the bytes of an index file. `records` begins with the inputs from above the root.
pub(super) fn encode(key: &IndexKey, records: &[u8]) -> Vec<u8> {
    let begin = MAGIC.len() + CHECKSUM_BYTES;
    let mut bytes = Vec::with_capacity(begin + key.0.len() + records.len());
    bytes.extend_from_slice(MAGIC);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0).update(records);
    bytes.extend_from_slice(hasher.finalize().as_bytes());
    bytes.extend_from_slice(&key.0);
    bytes.extend_from_slice(records);
    bytes
}

/// Appends a list of inputs.
pub(super) fn put_inputs(to: &mut Vec<u8>, inputs: &[Input]) {
    put_length(to, inputs.len());
    for Input { path, state } in inputs {
        put_bytes(to, path.as_os_str().as_bytes());
        let (number, fingerprint) = match state {
            InputState::Unknown => (0, None),
            InputState::Exists(false) => (1, None),
            InputState::Exists(true) => (2, None),
            InputState::Followed(None) => (3, None),
            InputState::Named(None) => (4, None),
            InputState::Followed(found) => (5, *found),
            InputState::Named(found) => (6, *found),
        };
        to.push(number);
        if let Some(found) = fingerprint {
            for number in [found.device, found.inode, found.len] {
                put_number(to, number);
            }
            to.extend_from_slice(&found.modified.to_le_bytes());
            to.extend_from_slice(&found.changed.to_le_bytes());
        }
    }
}

/// Appends the record of one directory.
pub(super) fn put_record(to: &mut Vec<u8>, record: &IndexRecord<'_>) {
    put_bytes(to, record.name);
    put_number(to, record.device);
    put_number(to, record.inode);
    to.extend_from_slice(&record.changed.to_le_bytes());
    put_inputs(to, record.rule_inputs);
    put_inputs(to, record.inputs);
    put_length(to, record.findings.len());
    for (kind, name) in record.findings {
        let number = KINDS.iter().position(|known| known == kind).unwrap_or(KINDS.len());
        put_length(to, number);
        put_bytes(to, name);
    }
    put_length(to, record.children);
}

/// Appends a byte string with its length before it.
pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len());
    to.extend_from_slice(bytes);
}

/// Appends a length as a LEB128 number.
pub(super) fn put_length(to: &mut Vec<u8>, length: usize) {
    put_number(to, length as u64);
}

/// Appends a LEB128 number.
fn put_number(to: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            return to.push(low);
        }
        to.push(low | 0x80);
    }
}
