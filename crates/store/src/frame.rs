//! The format of a spool: frames, each with a hash that covers it and all before it.
//!
//! ```text
//! spool   "windlass spool 1"  generation (16)  frame ...
//! frame   length of the content (8)  content  hash of the previous frame, length and content (32)
//! ```
//!
//! Numbers are little-endian, and each text comes after its length. The generation is random and made anew whenever a spool is
//! emptied, so that no frame from before can be taken for a new one.

use windlass_core::{Outcome, Record, RecordKind};

use crate::chain::{Hash, StoredKind};
use crate::log_format::{FieldReader, Generation};
use crate::tables::{Announcement, Finish, PlainRecord, Start};
use crate::timestamp::to_nanos;

/// The beginning of every spool, with the version of its format.
const MAGIC: &[u8; 16] = b"windlass spool 1";
const LENGTH_BYTES: usize = 8;
const HASH_BYTES: usize = 32;

/// A position between two frames: the end of a spool, or the end of its drained part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpoolPosition {
    pub(crate) generation: Generation,
    pub(crate) bytes: u64,
    /// The hash of the frame that ends here; of the header before the first frame.
    pub(crate) hash: Hash,
}

impl SpoolPosition {
    /// The bytes before the first frame.
    pub(crate) const HEADER: u64 = 32;

    /// The position before the first frame.
    pub(crate) fn begin(generation: Generation) -> Self {
        let hash = *blake3::hash(&header(generation)).as_bytes();
        Self { generation, bytes: Self::HEADER, hash }
    }

    /// Returns whether there is a frame before this position.
    pub(crate) fn has_frames(&self) -> bool {
        self.bytes > Self::HEADER
    }
}

/// The first bytes of a spool: magic and generation.
pub(crate) fn header(generation: Generation) -> [u8; 32] {
    let mut header = [0; 32];
    let (magic, rest) = header.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    rest.copy_from_slice(&generation);
    header
}

/// Reads the generation from the header of a spool; `None` if the magic is another or bytes are missing.
pub(crate) fn generation_of(header: &[u8]) -> Option<Generation> {
    header.strip_prefix(MAGIC)?.first_chunk().copied()
}

/// One frame of a spool: a record, or a note about a session or the spool itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A new owner took the spool: calls that the former owner left open have no end and are closed.
    Taken { at: i64 },
    /// A session began or went on.
    Announced(Announcement<'a>),
    /// A call began.
    Started(Start<'a>),
    /// A call ended.
    Finished(Finish<'a>),
    /// A job ended.
    JobEnded(PlainRecord<'a>),
    /// A recovery ended an unfinished commit.
    Recovered(PlainRecord<'a>),
    /// Another record of a session, of this kind.
    Noted(StoredKind, PlainRecord<'a>),
}

impl<'a> Frame<'a> {
    /// Tags: the first byte of the content of a frame.
    const TAKEN: u8 = 1;
    const ANNOUNCED: u8 = 2;
    const STARTED: u8 = 3;
    const FINISHED: u8 = 4;
    const JOB_ENDED: u8 = 5;
    const RECOVERED: u8 = 6;
    /// Older versions of the program do not know this tag and take the frame for damage.
    const NOTED: u8 = 7;
    /// Flags of an `ANNOUNCED` frame.
    const HAS_PARENT: u8 = 1;
    const HAS_PRINCIPAL: u8 = 2;

    /// The frame of a record; `process` is stored with the beginning of a call.
    pub(crate) fn of(record: &'a Record, process: u32) -> Self {
        let at = to_nanos(record.at);
        let (session, turn) = (record.session.as_str(), record.turn.as_str());
        let (call, tool, body) = (record.call.as_str(), record.tool.as_str(), &*record.body);
        match record.kind {
            RecordKind::Started => {
                Self::Started(Start { at, session, turn, call, tool, process, body })
            }
            RecordKind::Finished(outcome) => {
                Self::Finished(Finish { at, session, turn, call, tool, outcome, body })
            }
            RecordKind::JobEnded => {
                Self::JobEnded(PlainRecord { at, session, turn, call, tool, body })
            }
            RecordKind::Recovered => {
                Self::Recovered(PlainRecord { at, session, turn, call, tool, body })
            }
            kind => Self::Noted(kind.into(), PlainRecord { at, session, turn, call, tool, body }),
        }
    }

    /// The time of the frame, in nanoseconds since 1970.
    pub(crate) fn at(&self) -> i64 {
        match self {
            Self::Taken { at } => *at,
            Self::Announced(announcement) => announcement.at,
            Self::Started(start) => start.at,
            Self::Finished(finish) => finish.at,
            Self::JobEnded(plain_record)
            | Self::Recovered(plain_record)
            | Self::Noted(_, plain_record) => plain_record.at,
        }
    }

    /// Appends the frame to bytes that end at this position; returns the position after it.
    pub(crate) fn add_to(&self, bytes: &mut Vec<u8>, after: SpoolPosition) -> SpoolPosition {
        let begin = bytes.len();
        bytes.extend([0; LENGTH_BYTES]);
        self.write(bytes);
        let content = bytes.len() - begin - LENGTH_BYTES;
        if let Some(length) = bytes.get_mut(begin..begin + LENGTH_BYTES) {
            length.copy_from_slice(&(content as u64).to_le_bytes());
        }
        let hash = hash(&after.hash, bytes.get(begin..).unwrap_or_default());
        bytes.extend(hash);
        SpoolPosition { bytes: after.bytes + (bytes.len() - begin) as u64, hash, ..after }
    }

    /// Appends the content of the frame: tag, time, fields.
    fn write(&self, bytes: &mut Vec<u8>) {
        match *self {
            Self::Taken { at } => {
                bytes.push(Self::TAKEN);
                bytes.extend(at.to_le_bytes());
            }
            Self::Announced(Announcement { at, session, workspace, parent, principal }) => {
                bytes.push(Self::ANNOUNCED);
                bytes.extend(at.to_le_bytes());
                let has_parent = parent.map_or(0, |_| Self::HAS_PARENT);
                bytes.push(has_parent | principal.map_or(0, |_| Self::HAS_PRINCIPAL));
                write_texts(bytes, &[session, workspace, parent.unwrap_or_default()]);
                if let Some(principal) = principal {
                    write_texts(bytes, &[principal]);
                }
            }
            Self::Started(Start { at, session, turn, call, tool, process, body }) => {
                bytes.push(Self::STARTED);
                bytes.extend(at.to_le_bytes());
                bytes.extend(process.to_le_bytes());
                write_texts(bytes, &[session, turn, call, tool, body]);
            }
            Self::Finished(Finish { at, session, turn, call, tool, outcome, body }) => {
                bytes.push(Self::FINISHED);
                bytes.extend(at.to_le_bytes());
                write_texts(bytes, &[session, turn, call, tool, outcome.as_str(), body]);
            }
            Self::JobEnded(plain_record) => {
                write_plain_record(bytes, Self::JOB_ENDED, &plain_record);
            }
            Self::Recovered(plain_record) => {
                write_plain_record(bytes, Self::RECOVERED, &plain_record);
            }
            Self::Noted(kind, plain_record) => {
                write_plain_record(bytes, Self::NOTED, &plain_record);
                write_texts(bytes, &[kind.as_str()]);
            }
        }
    }

    /// Parses the content of a frame; `None` if it is not one of a known kind with exactly these fields.
    fn read(content: &'a [u8]) -> Option<Self> {
        let (&tag, rest) = content.split_first()?;
        let mut reader = FieldReader(rest);
        let at = i64::from_le_bytes(reader.take()?);
        let frame = match tag {
            Self::TAKEN => Self::Taken { at },
            Self::ANNOUNCED => {
                let [has] = reader.take()?;
                let (session, workspace) = (reader.text()?, reader.text()?);
                let parent = Some(reader.text()?).filter(|_| has & Self::HAS_PARENT != 0);
                let principal = match has & Self::HAS_PRINCIPAL {
                    0 => None,
                    _ => Some(reader.text()?),
                };
                Self::Announced(Announcement { at, session, workspace, parent, principal })
            }
            Self::STARTED => {
                let process = u32::from_le_bytes(reader.take()?);
                let (session, turn, call) = (reader.text()?, reader.text()?, reader.text()?);
                let (tool, body) = (reader.text()?, reader.text()?);
                Self::Started(Start { at, session, turn, call, tool, process, body })
            }
            Self::FINISHED => {
                let (session, turn, call) = (reader.text()?, reader.text()?, reader.text()?);
                let (tool, outcome) = (reader.text()?, reader.text()?);
                let (outcome, body) = (parse_outcome(outcome.as_bytes())?, reader.text()?);
                Self::Finished(Finish { at, session, turn, call, tool, outcome, body })
            }
            Self::JOB_ENDED => Self::JobEnded(reader.plain_record(at)?),
            Self::RECOVERED => Self::Recovered(reader.plain_record(at)?),
            Self::NOTED => {
                let plain_record = reader.plain_record(at)?;
                let kind = StoredKind::parse(reader.text()?.as_bytes());
                Self::Noted(Some(kind).filter(|kind| kind.is_note())?, plain_record)
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(frame)
    }
}

/// Parses the name of an outcome.
pub(crate) fn parse_outcome(name: &[u8]) -> Option<Outcome> {
    use Outcome::{Cancelled, Denied, Error, Fault, Ok, TimedOut};
    [Ok, Error, Fault, Denied, TimedOut, Cancelled]
        .into_iter()
        .find(|outcome| outcome.as_str().as_bytes() == name)
}

/// Appends the tag and fields of a plain record.
fn write_plain_record(bytes: &mut Vec<u8>, tag: u8, plain_record: &PlainRecord<'_>) {
    let PlainRecord { at, session, turn, call, tool, body } = *plain_record;
    bytes.push(tag);
    bytes.extend(at.to_le_bytes());
    write_texts(bytes, &[session, turn, call, tool, body]);
}

/// Appends texts, each after its length.
fn write_texts(bytes: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
}

/// The hash of a frame, which covers the hash of the one before.
fn hash(previous: &Hash, frame: &[u8]) -> Hash {
    *blake3::Hasher::new().update(previous).update(frame).finalize().as_bytes()
}

/// The fields of frames of a spool.
impl<'a> FieldReader<'a> {
    /// The next text, which comes after its length.
    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// The fields of a plain record with this time.
    fn plain_record(&mut self, at: i64) -> Option<PlainRecord<'a>> {
        let (session, turn, call) = (self.text()?, self.text()?, self.text()?);
        Some(PlainRecord { at, session, turn, call, tool: self.text()?, body: self.text()? })
    }
}

/// Iterates over the frames in bytes of a spool, up to the first that is cut off or whose hash does not match.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    /// The position after the last frame that was read.
    pub(crate) position: SpoolPosition,
    /// The hashes were checked before and are not checked again.
    hashes_are_checked: bool,
}

impl<'a> Frames<'a> {
    /// The frames in bytes that begin at this position; their hashes are checked.
    pub(crate) fn after(position: SpoolPosition, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position, hashes_are_checked: false }
    }

    /// The frames of bytes that were checked before and end with the last frame.
    pub(crate) fn of_checked(position: SpoolPosition, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position, hashes_are_checked: true }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let length = u64::from_le_bytes(*self.rest.first_chunk::<LENGTH_BYTES>()?);
        let end = usize::try_from(length).ok()?.checked_add(LENGTH_BYTES)?;
        let (frame, rest) = self.rest.split_at_checked(end)?;
        let (stored, rest) = rest.split_first_chunk::<HASH_BYTES>()?;
        if !self.hashes_are_checked && hash(&self.position.hash, frame) != *stored {
            return None;
        }
        let read = Frame::read(frame.get(LENGTH_BYTES..)?)?;
        let bytes = self.position.bytes + (self.rest.len() - rest.len()) as u64;
        self.position = SpoolPosition { bytes, hash: *stored, ..self.position };
        self.rest = rest;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Start<'static> = Start {
        at: -7,
        session: "s",
        turn: "",
        call: "c",
        tool: "read",
        process: 42,
        body: "{\0ü}",
    };

    fn some_frames() -> [Frame<'static>; 9] {
        let Start { at, session, turn, call, tool, body, .. } = START;
        let announced =
            Announcement { at, session, workspace: "/w", parent: None, principal: None };
        [
            Frame::Taken { at: i64::MAX },
            Frame::Announced(announced),
            Frame::Announced(Announcement { parent: Some(""), ..announced }),
            Frame::Announced(Announcement { principal: Some("{}"), ..announced }),
            Frame::Started(START),
            Frame::Finished(Finish {
                at,
                session,
                turn,
                call,
                tool,
                outcome: Outcome::TimedOut,
                body,
            }),
            Frame::JobEnded(PlainRecord { at, session, turn, call, tool, body }),
            Frame::Recovered(PlainRecord { at, session: "", turn, call, tool, body }),
            Frame::Noted(
                StoredKind::Message,
                PlainRecord { at, session, turn, call: "", tool: "", body },
            ),
        ]
    }

    fn spool(frames: &[Frame<'_>]) -> (Vec<u8>, SpoolPosition) {
        let mut bytes = Vec::new();
        let end = frames.iter().fold(SpoolPosition::begin([7; 16]), |position, frame| {
            frame.add_to(&mut bytes, position)
        });
        (bytes, end)
    }

    fn read(bytes: &[u8]) -> (Vec<Frame<'_>>, SpoolPosition) {
        let mut frames = Frames::after(SpoolPosition::begin([7; 16]), bytes);
        (frames.by_ref().collect(), frames.position)
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let (bytes, end) = spool(&some_frames());
        assert_eq!(read(&bytes), (some_frames().to_vec(), end));
        assert_eq!(end.bytes, SpoolPosition::HEADER + bytes.len() as u64);
    }

    #[test]
    fn the_generation_is_read_from_a_header() {
        assert_eq!(generation_of(&header([9; 16])), Some([9; 16]));
        assert_eq!(generation_of(&header([9; 16])[..31]), None);
        assert_eq!(generation_of(b"windlass spool 2................"), None);
    }

    #[test]
    fn frames_after_cut_or_changed_bytes_are_not_read() {
        let (bytes, _) = spool(&some_frames());
        let ends: Vec<usize> =
            (1..=some_frames().len()).map(|count| spool(&some_frames()[..count]).0.len()).collect();
        let whole_before = |at: usize| ends.iter().filter(|end| **end <= at).count();
        for at in 0..bytes.len() {
            assert_eq!(read(&bytes[..at]).0.len(), whole_before(at), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert_eq!(read(&changed).0.len(), whole_before(at), "changed at {at}");
        }
    }

    #[test]
    fn the_bytes_of_a_spool_are_the_same_in_every_version() {
        let (frames, _) = spool(&some_frames());
        let hash = blake3::hash(&[&header([7; 16])[..], &frames].concat()).to_hex();
        assert_eq!(
            hash.as_str(),
            "9f2d2f0f25fd32128431cd4a873f735f44ac9d32ba9bfebbdca171c9004f28a6"
        );
    }

    #[test]
    fn frames_of_another_generation_are_not_read() {
        let (bytes, _) = spool(&some_frames());
        assert_eq!(Frames::after(SpoolPosition::begin([8; 16]), &bytes).count(), 0);
    }

    proptest! {
        #[test]
        fn any_text_comes_back(at: i64, process: u32, session: String, turn: String, call: String, tool: String, body: String) {
            let frame = Frame::Started(Start {
                at, process, session: &session, turn: &turn, call: &call, tool: &tool, body: &body,
            });
            let (bytes, end) = spool(&[frame, frame]);
            prop_assert_eq!(read(&bytes), (vec![frame, frame], end));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            read(&bytes);
            Frame::read(&bytes);
        }
    }
}
