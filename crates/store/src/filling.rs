//! What is to be drained from one spool, and whether anything is missing of what was acknowledged.
//!
//! The head is read first: what it promises must be there, because frames are written before it. If something is missing, that may
//! also be because the owner has just emptied its spool and begun anew; so a loss is believed only if the head is still the same.

use std::fs::File;
use std::io;

use crate::frame::{Frame, Frames, Mark, generation_of};
use crate::spool::{self, Head};

/// The frames of a spool after the place up to which it was drained.
#[derive(Debug)]
pub(crate) struct Filling {
    /// Where the first frame begins, and the bytes of all that are in order.
    first: Option<(Mark, Vec<u8>)>,
    lost: Option<Lost>,
    /// What follows after a loss.
    second: Option<(Mark, Vec<u8>)>,
    /// Up to where it is drained with this; nowhere if there is nothing in it.
    pub(crate) end: Option<Mark>,
    /// Whether the head is to be written anew.
    pub(crate) needs_head: bool,
}

/// Something that was acknowledged is not there, or not as it was written.
#[derive(Debug, Clone, Copy)]
struct Lost {
    anchored: Option<u64>,
    found: u64,
}

/// What happened, according to a spool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event<'a> {
    /// Its owner said so.
    Said(Frame<'a>),
    /// Something is missing here: the head promised so many bytes, and so many were in order.
    Lost { at: i64, anchored: Option<u64>, found: u64 },
}

impl Event<'_> {
    /// When.
    pub(crate) fn at(&self) -> i64 {
        match self {
            Self::Said(frame) => frame.at(),
            Self::Lost { at, .. } => *at,
        }
    }
}

impl Filling {
    pub(crate) fn read(
        spool: &File,
        head: Option<&File>,
        drained: Option<Mark>,
        is_dead: bool,
    ) -> io::Result<Self> {
        let read_head = || head.map_or(Ok(Head::Empty), spool::read_head);
        let mut promise = read_head()?;
        loop {
            let filling = Self::read_up_to(spool, promise, drained, is_dead)?;
            let again = if filling.lost.is_some() { read_head()? } else { promise };
            if again == promise {
                return Ok(filling);
            }
            promise = again;
        }
    }

    /// What the owner may still take back is left alone: frames after the head of one that lives.
    fn read_up_to(
        spool: &File,
        promise: Head,
        drained: Option<Mark>,
        is_dead: bool,
    ) -> io::Result<Self> {
        let length = spool.metadata()?.len();
        let there = generation_of(&spool::read_from(spool, 0, Mark::HEADER)?);
        let (generation, promised) = match promise {
            Head::At(mark) => (Some(mark.generation), Some(mark)),
            Head::Empty | Head::Unreadable => (there, None),
        };
        let Some(generation) = generation else {
            return Ok(Self::without_generation(is_dead && (length > 0 || promise != Head::Empty)));
        };
        let start = drained
            .filter(|drained| drained.generation == generation)
            .unwrap_or_else(|| Mark::begin(generation));
        let limit = match promised {
            Some(mark) if !is_dead => mark.bytes.min(length),
            _ => length,
        };
        let mut bytes = spool::read_from(spool, start.bytes, limit)?;
        let (reached, passed) = walk(start, &mut bytes, promised);
        let mut filling = Self {
            first: Some((start, bytes)),
            lost: None,
            second: None,
            end: Some(reached),
            needs_head: promised.is_none(),
        };
        let is_lost = match promised {
            Some(mark) => mark.bytes > start.bytes && !(passed && there == Some(generation)),
            None => true,
        };
        if is_lost {
            let anchored = promised.map(|mark| mark.bytes);
            filling.lost = Some(Lost { anchored, found: reached.bytes });
            if let Some(mark) = promised.filter(|mark| !passed && reached.bytes <= mark.bytes) {
                filling.go_on_after(mark, spool, limit)?;
            }
        }
        Ok(filling)
    }

    fn without_generation(is_lost: bool) -> Self {
        let lost = is_lost.then_some(Lost { anchored: None, found: 0 });
        Self { first: None, lost, second: None, end: None, needs_head: false }
    }

    /// Frames after the place that the head names follow from it, whatever became of those before.
    fn go_on_after(&mut self, mark: Mark, spool: &File, limit: u64) -> io::Result<()> {
        let mut bytes = spool::read_from(spool, mark.bytes, limit)?;
        let (reached, _) = walk(mark, &mut bytes, None);
        self.second = Some((mark, bytes));
        self.end = Some(reached);
        Ok(())
    }

    /// What happened, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let lost = self.lost.iter().map(|&Lost { anchored, found }| {
            // A loss has the time of what was there last, so that it comes right after it.
            let at = frames(self.first.as_ref()).last().map_or(0, |frame| frame.at());
            Event::Lost { at, anchored, found }
        });
        frames(self.first.as_ref())
            .map(Event::Said)
            .chain(lost)
            .chain(frames(self.second.as_ref()).map(Event::Said))
    }
}

fn frames(part: Option<&(Mark, Vec<u8>)>) -> impl Iterator<Item = Frame<'_>> {
    part.into_iter().flat_map(|(mark, bytes)| Frames::again(*mark, bytes))
}

/// How far the frames go, and whether one of them ends where the head says. What is not in order is cut off.
fn walk(start: Mark, bytes: &mut Vec<u8>, promised: Option<Mark>) -> (Mark, bool) {
    let mut frames = Frames::after(start, bytes);
    let mut passed = promised == Some(start);
    while frames.next().is_some() {
        passed |= promised == Some(frames.mark);
    }
    let reached = frames.mark;
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
        marks: Vec<Mark>,
    }

    fn files() -> Files {
        let dir = tempfile::tempdir().unwrap();
        let (spool, head) = (dir.path().join("0"), dir.path().join("0.head"));
        let mut bytes = header(GENERATION).to_vec();
        let mut marks = vec![Mark::begin(GENERATION)];
        for at in 1..=4 {
            let last = *marks.last().unwrap();
            marks.push(Frame::Taken { at }.add_to(&mut bytes, last));
        }
        fs::write(&spool, bytes).unwrap();
        spool::write_head(&spool::open_head(&head).unwrap(), &marks[3]).unwrap();
        Files { _dir: dir, spool, head, marks }
    }

    /// The times of the frames, with -1 for a loss.
    fn times(filling: &Filling) -> Vec<i64> {
        let time = |event: Event<'_>| match event {
            Event::Said(frame) => frame.at(),
            Event::Lost { .. } => -1,
        };
        filling.events().map(time).collect()
    }

    fn read(files: &Files, drained: Option<Mark>, is_dead: bool) -> Filling {
        let head = spool::open_head_if_there(&files.head).unwrap();
        let spool = File::open(&files.spool).unwrap();
        Filling::read(&spool, head.as_ref(), drained, is_dead).unwrap()
    }

    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn the_living_are_read_up_to_their_head_and_the_dead_to_the_end() {
        let files = files();
        let marks = &files.marks;
        let cases = [
            (None, false, vec![1, 2, 3], marks[3]),
            (None, true, vec![1, 2, 3, 4], marks[4]),
            (Some(marks[2]), false, vec![3], marks[3]),
            (Some(marks[3]), false, vec![], marks[3]),
            (Some(marks[3]), true, vec![4], marks[4]),
            (Some(marks[4]), true, vec![], marks[4]),
            (Some(Mark { generation: [6; 16], ..marks[2] }), false, vec![1, 2, 3], marks[3]),
        ];
        for (drained, is_dead, expected, end) in cases {
            let filling = read(&files, drained, is_dead);
            assert_eq!(times(&filling), expected, "{drained:?} {is_dead}");
            assert_eq!(filling.end, Some(end));
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
            let frame = files.marks.iter().filter(|mark| mark.bytes <= at as u64).count();
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
            for is_dead in [false, true] {
                let filling = read(&files, None, is_dead);
                let is_lost = (length as u64) < files.marks[3].bytes;
                assert_eq!(times(&filling).contains(&-1), is_lost, "{length}");
                assert_eq!(filling.end, Some(files.marks[3]), "{length}");
                // What is drained already may be gone.
                let drained = read(&files, Some(files.marks[3]), is_dead);
                assert_eq!(times(&drained), [0_i64; 0], "{length}");
            }
        }
    }

    #[test]
    fn a_head_that_is_missing_or_not_ours_is_a_loss_and_the_frames_are_read() {
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
            let filling = read(&files, None, false);
            assert_eq!(times(&filling), [1, 2, 3, 4, -1], "{bytes:?}");
            assert!(filling.needs_head);
        }
    }

    #[test]
    fn a_spool_that_was_never_used_has_nothing() {
        let files = files();
        write(&files.spool, b"");
        write(&files.head, b"");
        let filling = read(&files, None, true);
        assert!(times(&filling).is_empty() && filling.end.is_none());
        // A kill after the first write of a new generation, which is that of the head.
        let begin = Mark::begin([6; 16]);
        spool::write_head(&spool::open_head(&files.head).unwrap(), &begin).unwrap();
        let filling = read(&files, Some(files.marks[3]), true);
        assert!(times(&filling).is_empty());
    }
}
