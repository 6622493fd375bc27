//! Reads from one spool the frames that are to be drained, and detects acknowledged frames that are missing.
//!
//! The head is read first: all frames before its position must be there, because frames are written before the head. If some are
//! missing, the owner may just have emptied its spool; so it counts as a loss only if the head is still the same afterwards.

use std::fs::File;
use std::io;

use crate::frame::{Frame, Frames, SpoolPosition, generation_of};
use crate::log_format::read_from;
use crate::spool::{self, SpoolHead};

/// The frames of a spool after the position up to which it was drained.
#[derive(Debug)]
pub(crate) struct SpoolContents {
    /// The position of the first frame, and the bytes of the intact frames from there.
    before_loss: Option<(SpoolPosition, Vec<u8>)>,
    loss: Option<Loss>,
    /// The same for intact frames after a loss.
    after_loss: Option<(SpoolPosition, Vec<u8>)>,
    /// The drained position once these frames are drained; `None` if the spool is empty.
    pub(crate) end: Option<SpoolPosition>,
    /// The head was missing or unreadable and is to be written again.
    pub(crate) needs_head: bool,
}

/// Acknowledged bytes that are missing or damaged: the head's position, and the position up to which frames were intact.
#[derive(Debug, Clone, Copy)]
struct Loss {
    anchored: Option<u64>,
    found: u64,
}

/// A frame of a spool, or a gap in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SpoolEvent<'a> {
    /// A frame that the owner wrote.
    Frame(Frame<'a>),
    /// Frames are missing here: the head names `anchored` bytes, and `found` bytes were intact.
    Loss { at: i64, anchored: Option<u64>, found: u64 },
}

impl SpoolEvent<'_> {
    /// The time of the event, in nanoseconds since 1970.
    pub(crate) fn at(&self) -> i64 {
        match self {
            Self::Frame(frame) => frame.at(),
            Self::Loss { at, .. } => *at,
        }
    }
}

impl SpoolContents {
    /// Reads a spool from its drained position; reads again if the head changed meanwhile.
    pub(crate) fn read(
        spool: &File,
        head: Option<&File>,
        drained: Option<SpoolPosition>,
        is_owner_dead: bool,
    ) -> io::Result<Self> {
        let read_head = || head.map_or(Ok(SpoolHead::Empty), spool::read_head);
        let mut head_read = read_head()?;
        loop {
            let contents = Self::read_up_to(spool, head_read, drained, is_owner_dead)?;
            let head_now = if contents.loss.is_some() { read_head()? } else { head_read };
            if head_now == head_read {
                return Ok(contents);
            }
            head_read = head_now;
        }
    }

    /// Reads the frames after the drained position: up to the head if the owner lives, because it may still take back later ones; else to
    /// the end.
    fn read_up_to(
        spool: &File,
        head_read: SpoolHead,
        drained: Option<SpoolPosition>,
        is_owner_dead: bool,
    ) -> io::Result<Self> {
        let length = spool.metadata()?.len();
        let generation_in_spool = generation_of(&read_from(spool, 0, SpoolPosition::HEADER)?);
        let (generation, head_position) = match head_read {
            SpoolHead::At(position) => (Some(position.generation), Some(position)),
            SpoolHead::Empty | SpoolHead::Unreadable => (generation_in_spool, None),
        };
        let Some(generation) = generation else {
            return Ok(Self::empty(is_owner_dead && (length > 0 || head_read != SpoolHead::Empty)));
        };
        let start = drained
            .filter(|drained| drained.generation == generation)
            .unwrap_or_else(|| SpoolPosition::begin(generation));
        let limit = match head_position {
            Some(position) if !is_owner_dead => position.bytes.min(length),
            _ => length,
        };
        let mut bytes = read_from(spool, start.bytes, limit)?;
        let (reached, passed) = check_frames(start, &mut bytes, head_position);
        let mut contents = Self {
            before_loss: Some((start, bytes)),
            loss: None,
            after_loss: None,
            end: Some(reached),
            needs_head: head_position.is_none(),
        };
        let is_lost = match head_position {
            Some(position) => {
                position.bytes > start.bytes && !(passed && generation_in_spool == Some(generation))
            }
            None => true,
        };
        if is_lost {
            let anchored = head_position.map(|position| position.bytes);
            contents.loss = Some(Loss { anchored, found: reached.bytes });
            if let Some(position) =
                head_position.filter(|position| !passed && reached.bytes <= position.bytes)
            {
                contents.read_after_loss(position, spool, limit)?;
            }
        }
        Ok(contents)
    }

    /// The contents of a spool without a generation: no frames, with or without a loss.
    fn empty(is_lost: bool) -> Self {
        let loss = is_lost.then_some(Loss { anchored: None, found: 0 });
        Self { before_loss: None, loss, after_loss: None, end: None, needs_head: false }
    }

    /// Reads the frames after the head's position, whose hashes follow from the head even if earlier frames are damaged.
    fn read_after_loss(
        &mut self,
        position: SpoolPosition,
        spool: &File,
        limit: u64,
    ) -> io::Result<()> {
        let mut bytes = read_from(spool, position.bytes, limit)?;
        let (reached, _) = check_frames(position, &mut bytes, None);
        self.after_loss = Some((position, bytes));
        self.end = Some(reached);
        Ok(())
    }

    /// The frames and the loss, in the order of the spool.
    pub(crate) fn events(&self) -> impl Iterator<Item = SpoolEvent<'_>> {
        let loss = self.loss.iter().map(|&Loss { anchored, found }| {
            // A loss has the time of the last frame before it, so that it is ordered right after that.
            let at = frames(self.before_loss.as_ref()).last().map_or(0, |frame| frame.at());
            SpoolEvent::Loss { at, anchored, found }
        });
        frames(self.before_loss.as_ref())
            .map(SpoolEvent::Frame)
            .chain(loss)
            .chain(frames(self.after_loss.as_ref()).map(SpoolEvent::Frame))
    }
}

/// The frames of bytes that were checked already.
fn frames(part: Option<&(SpoolPosition, Vec<u8>)>) -> impl Iterator<Item = Frame<'_>> {
    part.into_iter().flat_map(|(position, bytes)| Frames::of_checked(*position, bytes))
}

/// Checks the hashes of frames and cuts off `bytes` after the last intact one. Returns the end, and whether a frame ends at the head's
/// position.
fn check_frames(
    start: SpoolPosition,
    bytes: &mut Vec<u8>,
    head_position: Option<SpoolPosition>,
) -> (SpoolPosition, bool) {
    let mut frames = Frames::after(start, bytes);
    let mut passed = head_position == Some(start);
    while frames.next().is_some() {
        passed |= head_position == Some(frames.position);
    }
    let reached = frames.position;
    let in_order = usize::try_from(reached.bytes - start.bytes).unwrap_or(usize::MAX);
    bytes.truncate(in_order);
    (reached, passed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::frame::header;

    const GENERATION: [u8; 16] = [5; 16];

    /// A spool of four frames whose head is at the third.
    struct Files {
        _dir: tempfile::TempDir,
        spool: std::path::PathBuf,
        head: std::path::PathBuf,
        positions: Vec<SpoolPosition>,
    }

    fn files() -> Files {
        let dir = tempfile::tempdir().unwrap();
        let (spool, head) = (dir.path().join("0"), dir.path().join("0.head"));
        let mut bytes = header(GENERATION).to_vec();
        let mut positions = vec![SpoolPosition::begin(GENERATION)];
        for at in 1..=4 {
            let last = *positions.last().unwrap();
            positions.push(Frame::Taken { at }.add_to(&mut bytes, last));
        }
        fs::write(&spool, bytes).unwrap();
        spool::write_head(&spool::open_head(&head).unwrap(), &positions[3]).unwrap();
        Files { _dir: dir, spool, head, positions }
    }

    /// The times of the frames, with -1 for a loss.
    fn times(contents: &SpoolContents) -> Vec<i64> {
        let time = |event: SpoolEvent<'_>| match event {
            SpoolEvent::Frame(frame) => frame.at(),
            SpoolEvent::Loss { .. } => -1,
        };
        contents.events().map(time).collect()
    }

    fn read(files: &Files, drained: Option<SpoolPosition>, is_owner_dead: bool) -> SpoolContents {
        let head = spool::open_head_if_there(&files.head).unwrap();
        let spool = File::open(&files.spool).unwrap();
        SpoolContents::read(&spool, head.as_ref(), drained, is_owner_dead).unwrap()
    }

    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_spool_is_read_to_its_head_while_its_owner_lives_and_to_its_end_afterwards() {
        let files = files();
        let positions = &files.positions;
        let cases = [
            (None, false, vec![1, 2, 3], positions[3]),
            (None, true, vec![1, 2, 3, 4], positions[4]),
            (Some(positions[2]), false, vec![3], positions[3]),
            (Some(positions[3]), false, vec![], positions[3]),
            (Some(positions[3]), true, vec![4], positions[4]),
            (Some(positions[4]), true, vec![], positions[4]),
            (
                Some(SpoolPosition { generation: [6; 16], ..positions[2] }),
                false,
                vec![1, 2, 3],
                positions[3],
            ),
        ];
        for (drained, is_owner_dead, expected, end) in cases {
            let contents = read(&files, drained, is_owner_dead);
            assert_eq!(times(&contents), expected, "{drained:?} {is_owner_dead}");
            assert_eq!(contents.end, Some(end));
        }
    }

    #[test]
    fn a_change_of_any_byte_before_the_head_is_a_loss_and_the_rest_is_read() {
        let files = files();
        let whole = fs::read(&files.spool).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            write(&files.spool, &changed);
            let found = times(&read(&files, None, true));
            let frame =
                files.positions.iter().filter(|position| position.bytes <= at as u64).count();
            let expected: &[i64] = match frame {
                0 => &[1, 2, 3, 4, -1],
                1 => &[-1, 4],
                2 => &[1, -1, 4],
                3 => &[1, 2, -1, 4],
                _ => &[1, 2, 3],
            };
            assert_eq!(found, expected, "{at}");
        }
    }

    #[test]
    fn a_cut_before_the_head_is_a_loss() {
        let files = files();
        let whole = fs::read(&files.spool).unwrap();
        for length in 0..whole.len() {
            write(&files.spool, &whole[..length]);
            for is_owner_dead in [false, true] {
                let contents = read(&files, None, is_owner_dead);
                let is_lost = (length as u64) < files.positions[3].bytes;
                assert_eq!(times(&contents).contains(&-1), is_lost, "{length}");
                assert_eq!(contents.end, Some(files.positions[3]), "{length}");
                // Frames that were drained before may be missing.
                let drained = read(&files, Some(files.positions[3]), is_owner_dead);
                assert_eq!(times(&drained), [0_i64; 0], "{length}");
            }
        }
    }

    #[test]
    fn a_missing_or_damaged_head_is_a_loss_and_the_frames_are_read() {
        let files = files();
        let whole = fs::read(&files.head).unwrap();
        let changed = (0..whole.len()).map(|at| {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            changed
        });
        let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
        for bytes in changed.chain(cut).chain([[whole.as_slice(), b"x"].concat()]) {
            write(&files.head, &bytes);
            let contents = read(&files, None, false);
            assert_eq!(times(&contents), [1, 2, 3, 4, -1], "{bytes:?}");
            assert!(contents.needs_head);
        }
    }

    #[test]
    fn a_spool_that_was_never_used_has_nothing() {
        let files = files();
        write(&files.spool, b"");
        write(&files.head, b"");
        let contents = read(&files, None, true);
        assert!(times(&contents).is_empty() && contents.end.is_none());
        // A kill after the first write of a new generation, which is that of the head.
        let begin = SpoolPosition::begin([6; 16]);
        spool::write_head(&spool::open_head(&files.head).unwrap(), &begin).unwrap();
        let contents = read(&files, Some(files.positions[3]), true);
        assert!(times(&contents).is_empty());
    }
}
