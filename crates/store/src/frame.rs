//! What a spool is made of: frames, each with a hash that covers it and all before it.
//!
//! ```text
//! spool   "windlass spool 1"  generation (16)  frame ...
//! frame   length of the content (8)  content  hash of the previous frame, length and content (32)
//! ```
//!
//! Numbers are little-endian, and each text comes after its length. The generation is random and made anew whenever a spool is
//! emptied, so that no frame of an earlier filling can be taken for one of this.

use windlass_core::{Outcome, Record, RecordKind};

use crate::chain::{Hash, Kind};
use crate::tables::{Announcement, Finish, Remark, Start};
use crate::timestamp::to_nanos;

pub(crate) type Generation = [u8; 16];

const MAGIC: &[u8; 16] = b"windlass spool 1";
const LENGTH: usize = 8;
const HASH: usize = 32;

/// A place between two frames: how far a spool is filled, or drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) generation: Generation,
    pub(crate) bytes: u64,
    /// Of the frame that ends here.
    pub(crate) hash: Hash,
}

impl Mark {
    /// The bytes before the first frame.
    pub(crate) const HEADER: u64 = 32;

    /// Before the first frame.
    pub(crate) fn begin(generation: Generation) -> Self {
        let hash = *blake3::hash(&header(generation)).as_bytes();
        Self { generation, bytes: Self::HEADER, hash }
    }

    /// Whether there is a frame before this place.
    pub(crate) fn has_frames(&self) -> bool {
        self.bytes > Self::HEADER
    }
}

/// How a spool begins.
pub(crate) fn header(generation: Generation) -> [u8; 32] {
    let mut header = [0; 32];
    let (magic, rest) = header.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    rest.copy_from_slice(&generation);
    header
}

/// The generation of a spool that begins like this.
pub(crate) fn generation_of(header: &[u8]) -> Option<Generation> {
    header.strip_prefix(MAGIC)?.first_chunk().copied()
}

/// What a writer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// The spool has a new owner: what the one before left open stays so forever.
    Taken { at: i64 },
    /// A session begins or goes on.
    Announced(Announcement<'a>),
    /// A call begins.
    Started(Start<'a>),
    /// A call ends.
    Finished(Finish<'a>),
    /// A job ends.
    JobEnded(Remark<'a>),
    /// Changes were put right.
    Recovered(Remark<'a>),
    /// Something else of a session, of this kind.
    Noted(Kind, Remark<'a>),
}

impl<'a> Frame<'a> {
    const TAKEN: u8 = 1;
    const ANNOUNCED: u8 = 2;
    const STARTED: u8 = 3;
    const FINISHED: u8 = 4;
    const JOB_ENDED: u8 = 5;
    const RECOVERED: u8 = 6;
    /// Versions before the kinds of notes end a spool at such a frame, and take it for damage.
    const NOTED: u8 = 7;
    /// Flags of an announcement.
    const HAS_PARENT: u8 = 1;
    const HAS_PRINCIPAL: u8 = 2;

    /// A record of this process.
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
            RecordKind::JobEnded => Self::JobEnded(Remark { at, session, turn, call, tool, body }),
            RecordKind::Recovered => {
                Self::Recovered(Remark { at, session, turn, call, tool, body })
            }
            kind => Self::Noted(kind.into(), Remark { at, session, turn, call, tool, body }),
        }
    }

    /// When it was said.
    pub(crate) fn at(&self) -> i64 {
        match self {
            Self::Taken { at } => *at,
            Self::Announced(announcement) => announcement.at,
            Self::Started(start) => start.at,
            Self::Finished(finish) => finish.at,
            Self::JobEnded(remark) | Self::Recovered(remark) | Self::Noted(_, remark) => remark.at,
        }
    }

    /// Adds the frame to bytes that end at this mark; the mark after it.
    pub(crate) fn add_to(&self, bytes: &mut Vec<u8>, after: Mark) -> Mark {
        let begin = bytes.len();
        bytes.extend([0; LENGTH]);
        self.write(bytes);
        let content = bytes.len() - begin - LENGTH;
        if let Some(length) = bytes.get_mut(begin..begin + LENGTH) {
            length.copy_from_slice(&(content as u64).to_le_bytes());
        }
        let hash = hash(&after.hash, bytes.get(begin..).unwrap_or_default());
        bytes.extend(hash);
        Mark { bytes: after.bytes + (bytes.len() - begin) as u64, hash, ..after }
    }

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
            Self::JobEnded(remark) => write_remark(bytes, Self::JOB_ENDED, &remark),
            Self::Recovered(remark) => write_remark(bytes, Self::RECOVERED, &remark),
            Self::Noted(kind, remark) => {
                write_remark(bytes, Self::NOTED, &remark);
                write_texts(bytes, &[kind.as_str()]);
            }
        }
    }

    fn read(content: &'a [u8]) -> Option<Self> {
        let (&tag, rest) = content.split_first()?;
        let mut reader = Reader(rest);
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
            Self::JOB_ENDED => Self::JobEnded(reader.remark(at)?),
            Self::RECOVERED => Self::Recovered(reader.remark(at)?),
            Self::NOTED => {
                let remark = reader.remark(at)?;
                let kind = Kind::parse(reader.text()?.as_bytes());
                Self::Noted(Some(kind).filter(|kind| kind.is_note())?, remark)
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(frame)
    }
}

/// An outcome by its name.
pub(crate) fn parse_outcome(name: &[u8]) -> Option<Outcome> {
    use Outcome::{Cancelled, Denied, Error, Fault, Ok, TimedOut};
    [Ok, Error, Fault, Denied, TimedOut, Cancelled]
        .into_iter()
        .find(|outcome| outcome.as_str().as_bytes() == name)
}

fn write_remark(bytes: &mut Vec<u8>, tag: u8, remark: &Remark<'_>) {
    let Remark { at, session, turn, call, tool, body } = *remark;
    bytes.push(tag);
    bytes.extend(at.to_le_bytes());
    write_texts(bytes, &[session, turn, call, tool, body]);
}

fn write_texts(bytes: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
}

fn hash(previous: &Hash, frame: &[u8]) -> Hash {
    *blake3::Hasher::new().update(previous).update(frame).finalize().as_bytes()
}

/// What is left of the content of a frame.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(u64::from_le_bytes(self.take()?)).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn remark(&mut self, at: i64) -> Option<Remark<'a>> {
        let (session, turn, call) = (self.text()?, self.text()?, self.text()?);
        Some(Remark { at, session, turn, call, tool: self.text()?, body: self.text()? })
    }
}

/// The frames in some bytes of a spool, up to the first that is not whole or does not follow from the one before.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    /// After the last frame that was read.
    pub(crate) mark: Mark,
    /// All of them were found to follow from each other before.
    are_checked: bool,
}

impl<'a> Frames<'a> {
    /// The frames in bytes that begin at this mark.
    pub(crate) fn after(mark: Mark, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, mark, are_checked: false }
    }

    /// The same frames once more: the bytes end with the last of them.
    pub(crate) fn again(mark: Mark, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, mark, are_checked: true }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let length = u64::from_le_bytes(*self.rest.first_chunk::<LENGTH>()?);
        let end = usize::try_from(length).ok()?.checked_add(LENGTH)?;
        let (frame, rest) = self.rest.split_at_checked(end)?;
        let (stored, rest) = rest.split_first_chunk::<HASH>()?;
        if !self.are_checked && hash(&self.mark.hash, frame) != *stored {
            return None;
        }
        let read = Frame::read(frame.get(LENGTH..)?)?;
        let bytes = self.mark.bytes + (self.rest.len() - rest.len()) as u64;
        self.mark = Mark { bytes, hash: *stored, ..self.mark };
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
            Frame::JobEnded(Remark { at, session, turn, call, tool, body }),
            Frame::Recovered(Remark { at, session: "", turn, call, tool, body }),
            Frame::Noted(Kind::Message, Remark { at, session, turn, call: "", tool: "", body }),
        ]
    }

    fn spool(frames: &[Frame<'_>]) -> (Vec<u8>, Mark) {
        let mut bytes = Vec::new();
        let end =
            frames.iter().fold(Mark::begin([7; 16]), |mark, frame| frame.add_to(&mut bytes, mark));
        (bytes, end)
    }

    fn read(bytes: &[u8]) -> (Vec<Frame<'_>>, Mark) {
        let mut frames = Frames::after(Mark::begin([7; 16]), bytes);
        (frames.by_ref().collect(), frames.mark)
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let (bytes, end) = spool(&some_frames());
        assert_eq!(read(&bytes), (some_frames().to_vec(), end));
        assert_eq!(end.bytes, Mark::HEADER + bytes.len() as u64);
    }

    #[test]
    fn a_header_tells_the_generation() {
        assert_eq!(generation_of(&header([9; 16])), Some([9; 16]));
        assert_eq!(generation_of(&header([9; 16])[..31]), None);
        assert_eq!(generation_of(b"windlass spool 2................"), None);
    }

    #[test]
    fn of_cut_or_changed_bytes_only_the_frames_before_are_read() {
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
    fn frames_of_another_generation_are_not_read() {
        let (bytes, _) = spool(&some_frames());
        assert_eq!(Frames::after(Mark::begin([8; 16]), &bytes).count(), 0);
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
        fn no_bytes_are_too_odd_to_read(bytes: Vec<u8>) {
            read(&bytes);
            Frame::read(&bytes);
        }
    }
}
