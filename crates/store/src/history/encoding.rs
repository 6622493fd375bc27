//! The encoding of the body of a checkpoint: origin and changes. It is the same in a slot and in the database, so a drain copies it.
//!
//! Numbers have variable length; texts and paths come after their length. The encoding has no version of its own: slots and database have
//! one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use windlass_core::{
    Attributes, BuiltChange, CallId, ChangeWithoutHistory, ContentHash, FileObject, FileState,
    Origin, RecordedChange, SessionId, TurnId,
};

use crate::timestamp::{from_nanos, to_nanos};

/// Appends the encoded body of a checkpoint.
pub(super) fn encode(
    bytes: &mut Vec<u8>,
    origin: &Origin,
    changes: &[RecordedChange],
    without_history: &[ChangeWithoutHistory],
) {
    bytes.extend(to_nanos(origin.at).to_le_bytes());
    for text in [origin.call.as_str(), origin.session.as_str(), origin.turn.as_str(), &origin.tool]
    {
        put_bytes(bytes, text.as_bytes());
    }
    put_path(bytes, &origin.workspace);
    put_number(bytes, origin.undoes.len() as u64);
    for call in &origin.undoes {
        put_bytes(bytes, call.as_str().as_bytes());
    }
    put_number(bytes, (changes.len() + without_history.len()) as u64);
    // Growing step by step would allocate up to twice the bytes.
    bytes.reserve_exact(changes.iter().map(estimated_bytes).sum());
    for change in changes {
        put_change(bytes, change);
    }
    for change in without_history {
        put_without_history(bytes, change);
    }
}

/// The decoded body of a checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) origin: Origin,
    pub(super) changes: Vec<RecordedChange>,
    pub(super) without_history: Vec<ChangeWithoutHistory>,
}

/// Decodes a body; `None` if the bytes are damaged or too many.
pub(super) fn decode(bytes: &[u8]) -> Option<Body> {
    let mut reader = Reader(bytes);
    let origin = reader.origin()?;
    let count = usize::try_from(reader.number()?).ok()?;
    let mut changes = Vec::with_capacity(reader.capacity(count));
    let mut without_history = Vec::new();
    for _ in 0..count {
        match reader.change()? {
            EncodedChange::RecordedCheckpoint(change) => changes.push(change),
            EncodedChange::WithoutHistory(change) => without_history.push(change),
        }
    }
    reader.0.is_empty().then_some(Body { origin, changes, without_history })
}

/// Decodes the origin of a body, without the changes.
pub(super) fn decode_origin(bytes: &[u8]) -> Option<Origin> {
    Reader(bytes).origin()
}

/// The most bytes that a change without extended attributes takes.
fn estimated_bytes(change: &RecordedChange) -> usize {
    /// The most bytes of lengths and flags.
    const NUMBERS: usize = 16;
    let state = |state: &FileState| match state {
        FileState::File { .. } => 128,
        FileState::Symlink { target, .. } => 64 + target.as_os_str().len(),
        FileState::Directory { .. } => 64,
        FileState::Absent | FileState::Other => 1,
    };
    let RecordedChange { path, before, after, moved_from, temporary } = change;
    let moved = moved_from.as_ref().map_or(0, |from| from.as_os_str().len());
    let temporary = temporary.as_ref().map_or(0, String::len);
    NUMBERS + path.as_os_str().len() + state(before) + state(after) + moved + temporary
}

/// Flags of a change.
const MOVED: u8 = 1;
const TEMPORARY: u8 = 2;

/// Appends a change: path, states before and after, and the optional fields.
fn put_change(bytes: &mut Vec<u8>, change: &RecordedChange) {
    let RecordedChange { path, before, after, moved_from, temporary } = change;
    put_path(bytes, path);
    put_state(bytes, before);
    put_state(bytes, after);
    bytes.push(flag(moved_from.is_some(), MOVED) | flag(temporary.is_some(), TEMPORARY));
    if let Some(from) = moved_from {
        put_path(bytes, from);
    }
    if let Some(name) = temporary {
        put_bytes(bytes, name.as_bytes());
    }
}

/// Tags of a file state.
const ABSENT: u8 = 0;
const FILE: u8 = 1;
/// A file with its device, inode, birth time and link count.
const FILE_WITH_INODE: u8 = 2;
const SYMLINK: u8 = 3;
const DIRECTORY: u8 = 4;
const OTHER: u8 = 5;
/// A symlink with attributes.
const SYMLINK_WITH_ATTRIBUTES: u8 = 6;

/// Tag instead of the state before: a build directory, with the number and the bytes of its files.
const BUILD_DIRECTORY: u8 = 7;
/// Tag instead of the state before: a change without history.
const DIRECT: u8 = 8;
/// Tag instead of the state before: untracked changes of a workspace, whose path this is.
const UNTRACKED: u8 = 9;

/// Appends a change without history: path and tag.
fn put_without_history(bytes: &mut Vec<u8>, change: &ChangeWithoutHistory) {
    put_path(bytes, change.path());
    match change {
        ChangeWithoutHistory::BuildDirectory(BuiltChange { path: _, files, bytes: length }) => {
            bytes.push(BUILD_DIRECTORY);
            put_number(bytes, *files);
            put_number(bytes, *length);
        }
        ChangeWithoutHistory::Direct(_) => bytes.push(DIRECT),
        ChangeWithoutHistory::Untracked(_) => bytes.push(UNTRACKED),
    }
}

/// Appends a file state: its tag and fields.
fn put_state(bytes: &mut Vec<u8>, state: &FileState) {
    match state {
        FileState::Absent => bytes.push(ABSENT),
        FileState::File { hash, len, attributes, object } => {
            bytes.push(if object.is_some() { FILE_WITH_INODE } else { FILE });
            bytes.extend(hash.as_bytes());
            put_number(bytes, *len);
            put_attributes(bytes, attributes);
            if let Some(FileObject { device, inode, born, links }) = object {
                put_number(bytes, *device);
                put_number(bytes, *inode);
                put_number(bytes, born.cast_unsigned());
                put_number(bytes, *links);
            }
        }
        FileState::Symlink { target, attributes } => {
            let has_attributes = !attributes.is_empty();
            bytes.push(if has_attributes { SYMLINK_WITH_ATTRIBUTES } else { SYMLINK });
            put_path(bytes, target);
            if has_attributes {
                put_attributes(bytes, attributes);
            }
        }
        FileState::Directory { attributes } => {
            bytes.push(DIRECTORY);
            put_attributes(bytes, attributes);
        }
        FileState::Other => bytes.push(OTHER),
    }
}

/// Flags of attributes.
const MODE: u8 = 1;
const MODIFIED: u8 = 2;
const OWNER: u8 = 4;
const EXTENDED: u8 = 8;

/// Appends attributes: flags, then the fields that are set.
fn put_attributes(bytes: &mut Vec<u8>, attributes: &Attributes) {
    let Attributes { mode, modified, owner, extended } = attributes;
    bytes.push(
        flag(mode.is_some(), MODE)
            | flag(modified.is_some(), MODIFIED)
            | flag(owner.is_some(), OWNER)
            | flag(extended.is_some(), EXTENDED),
    );
    if let Some(mode) = mode {
        put_number(bytes, u64::from(*mode));
    }
    if let Some(modified) = modified {
        bytes.extend(modified.to_le_bytes());
    }
    if let Some((user, group)) = owner {
        put_number(bytes, u64::from(*user));
        put_number(bytes, u64::from(*group));
    }
    if let Some(extended) = extended {
        put_number(bytes, extended.len() as u64);
        for (name, value) in extended {
            put_bytes(bytes, name.as_bytes());
            put_bytes(bytes, value);
        }
    }
}

/// The flag if it is set, else 0.
fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn put_path(bytes: &mut Vec<u8>, path: &Path) {
    put_bytes(bytes, path.as_os_str().as_bytes());
}

/// Appends the length of the bytes, then the bytes.
fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_number(bytes, value.len() as u64);
    bytes.extend(value);
}

/// Appends a number: seven bits in each byte, the lowest first; the eighth bit is set if more follow.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

/// An entry in the list of changes.
#[expect(clippy::large_enum_variant, reason = "it is matched at once, and nearly all are large")]
enum EncodedChange {
    RecordedCheckpoint(RecordedChange),
    WithoutHistory(ChangeWithoutHistory),
}

/// The rest of the bytes to decode.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn origin(&mut self) -> Option<Origin> {
        let at = from_nanos(i64::from_le_bytes(self.take()?));
        Some(Origin {
            call: CallId::new(self.text()?),
            session: SessionId::new(self.text()?),
            turn: TurnId::new(self.text()?),
            tool: self.text()?.to_owned(),
            workspace: self.path()?,
            at,
            undoes: self.list(|reader| reader.text().map(CallId::new))?,
        })
    }

    fn change(&mut self) -> Option<EncodedChange> {
        let path = self.path()?;
        let before = match self.byte()? {
            BUILD_DIRECTORY => {
                let (files, bytes) = (self.number()?, self.number()?);
                let built = BuiltChange { path, files, bytes };
                return Some(EncodedChange::WithoutHistory(ChangeWithoutHistory::BuildDirectory(
                    built,
                )));
            }
            DIRECT => {
                return Some(EncodedChange::WithoutHistory(ChangeWithoutHistory::Direct(path)));
            }
            UNTRACKED => {
                return Some(EncodedChange::WithoutHistory(ChangeWithoutHistory::Untracked(path)));
            }
            tag => self.state_with_tag(tag)?,
        };
        let after = self.state()?;
        let flags = self.byte()?;
        let moved_from = if flags & MOVED != 0 { Some(self.path()?) } else { None };
        let temporary = if flags & TEMPORARY != 0 { Some(self.text()?.to_owned()) } else { None };
        Some(EncodedChange::RecordedCheckpoint(RecordedChange {
            path,
            before,
            after,
            moved_from,
            temporary,
        }))
    }

    fn state(&mut self) -> Option<FileState> {
        let tag = self.byte()?;
        self.state_with_tag(tag)
    }

    /// Reads the fields of a state whose tag was read.
    fn state_with_tag(&mut self, tag: u8) -> Option<FileState> {
        Some(match tag {
            ABSENT => FileState::Absent,
            tag @ (FILE | FILE_WITH_INODE) => {
                let (hash, len) = (ContentHash::from_bytes(self.take()?), self.number()?);
                let attributes = self.attributes()?;
                let object = if tag == FILE_WITH_INODE { Some(self.object()?) } else { None };
                FileState::File { hash, len, attributes, object }
            }
            tag @ (SYMLINK | SYMLINK_WITH_ATTRIBUTES) => {
                let target = self.path()?;
                let has_attributes = tag == SYMLINK_WITH_ATTRIBUTES;
                let attributes =
                    if has_attributes { self.attributes()? } else { Attributes::default() };
                FileState::Symlink { target, attributes }
            }
            DIRECTORY => FileState::Directory { attributes: self.attributes()? },
            OTHER => FileState::Other,
            _ => return None,
        })
    }

    fn object(&mut self) -> Option<FileObject> {
        let (device, inode) = (self.number()?, self.number()?);
        let born = self.number()?.cast_signed();
        Some(FileObject { device, inode, born, links: self.number()? })
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.byte()?;
        let mut attributes = Attributes::default();
        if flags & MODE != 0 {
            attributes.mode = Some(self.small_number()?);
        }
        if flags & MODIFIED != 0 {
            attributes.modified = Some(i64::from_le_bytes(self.take()?));
        }
        if flags & OWNER != 0 {
            attributes.owner = Some((self.small_number()?, self.small_number()?));
        }
        if flags & EXTENDED != 0 {
            attributes.extended = Some(
                self.list(|reader| Some((reader.text()?.to_owned(), reader.bytes()?.to_vec())))?,
            );
        }
        Some(attributes)
    }

    /// Reads a count and that many items.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok()?;
        let mut items = Vec::with_capacity(self.capacity(count));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    /// The capacity to reserve for a list of `count` items: at most one for each 48 bytes that are left, because a damaged count must not
    /// reserve much memory.
    fn capacity(&self, count: usize) -> usize {
        count.min(self.0.len() / 48 + 16)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.bytes().map(|bytes| OsStr::from_bytes(bytes).into())
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads a number of at most 32 bits.
    fn small_number(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Reads a number as `put_number` wrote it.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]: [u8; 1]| byte)
    }

    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = PathBuf> {
        vec(any::<u8>(), 0..20).prop_map(|bytes| OsStr::from_bytes(&bytes).into())
    }

    fn attributes() -> impl Strategy<Value = Attributes> {
        let extended = option::of(vec((any::<String>(), vec(any::<u8>(), 0..9)), 0..3));
        let others = (any::<Option<u32>>(), any::<Option<i64>>(), any::<Option<(u32, u32)>>());
        (others, extended).prop_map(|((mode, modified, owner), extended)| Attributes {
            mode,
            modified,
            owner,
            extended,
        })
    }

    fn state() -> impl Strategy<Value = FileState> {
        let file =
            (any::<[u8; 32]>(), any::<u64>(), attributes(), any::<Option<(u64, u64, i64, u64)>>());
        prop_oneof![
            Just(FileState::Absent),
            Just(FileState::Other),
            (path(), attributes())
                .prop_map(|(target, attributes)| FileState::Symlink { target, attributes }),
            attributes().prop_map(|attributes| FileState::Directory { attributes }),
            file.prop_map(|(hash, len, attributes, object)| FileState::File {
                hash: ContentHash::from_bytes(hash),
                len,
                attributes,
                object: object.map(|(device, inode, born, links)| FileObject {
                    device,
                    inode,
                    born,
                    links
                }),
            }),
        ]
    }

    fn change() -> impl Strategy<Value = RecordedChange> {
        (path(), state(), state(), option::of(path()), any::<Option<String>>()).prop_map(
            |(path, before, after, moved_from, temporary)| RecordedChange {
                path,
                before,
                after,
                moved_from,
                temporary,
            },
        )
    }

    fn without_history() -> impl Strategy<Value = ChangeWithoutHistory> {
        prop_oneof![
            path().prop_map(ChangeWithoutHistory::Direct),
            path().prop_map(ChangeWithoutHistory::Untracked),
            (path(), any::<u64>(), any::<u64>()).prop_map(|(path, files, bytes)| {
                ChangeWithoutHistory::BuildDirectory(BuiltChange { path, files, bytes })
            }),
        ]
    }

    fn origin() -> impl Strategy<Value = Origin> {
        let names = (any::<String>(), any::<String>(), any::<String>(), any::<String>());
        (names, path(), any::<u32>(), vec(any::<String>(), 0..3)).prop_map(
            |((call, session, turn, tool), workspace, at, undoes)| Origin {
                call: CallId::new(call),
                session: SessionId::new(session),
                turn: TurnId::new(turn),
                tool,
                workspace,
                at: UNIX_EPOCH + std::time::Duration::from_nanos(u64::from(at) << 30),
                undoes: undoes.into_iter().map(CallId::new).collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn an_encoded_body_is_decoded_and_a_cut_one_is_not(
            origin in origin(),
            changes in vec(change(), 0..4),
            without_history in vec(without_history(), 0..3),
        ) {
            let mut bytes = Vec::new();
            encode(&mut bytes, &origin, &changes, &without_history);
            prop_assert_eq!(decode_origin(&bytes), Some(origin.clone()));
            prop_assert_eq!(decode(&bytes), Some(Body { origin, changes, without_history }));
            for length in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..length]), None, "cut at {}", length);
            }
            bytes.push(0);
            prop_assert_eq!(decode(&bytes), None);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            decode(&bytes);
        }

        #[test]
        fn numbers_are_decoded_as_encoded(number: u64) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            prop_assert_eq!(Reader(&bytes).number(), Some(number));
        }
    }

    #[test]
    fn a_number_with_too_many_bits_is_refused() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Reader(&largest).number(), Some(u64::MAX));
        let larger = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(Reader(&larger).number(), None);
        assert_eq!(Reader(&[0x80; 11]).number(), None);
    }
}
