//! The search of one large file, in chunks of whole lines, on several threads.
//!
//! A chunk fits into the cache of a core, where the pattern and the ends of lines are looked for. The file is read, not mapped: a
//! mapped file that another program cuts short would end this process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::buffer::Buffer;
use super::found::Hits;
use super::query::{Mode, Query};
use super::scanner::{Scanner, has_mark};
use windlass_core::Context;

/// The sizes by which a file is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// A chunk has the lines that begin in so many bytes.
    chunk: usize,
    /// So much is read behind it at once, for the end of its last line.
    tail: usize,
    /// A line longer than this is left to another way of searching.
    longest: usize,
    /// The least that is worth another thread.
    per_thread: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { chunk: 256 << 10, tail: 4 << 10, longest: 4 << 20, per_thread: 16 << 20 }
    }
}

/// Threads of one search at most: more wait for the memory.
const MAX_THREADS: u64 = 4;
/// The kernel copies faster to the beginning of a page.
const PAGE: usize = 4096;

/// Searches a file whose lines can be looked at one by one; `None` if that is not so, because of a long line or an encoding.
pub(super) fn search(
    cx: &Context,
    query: &Query,
    file: &File,
    len: u64,
    sizes: Sizes,
) -> io::Result<Option<Hits>> {
    let search = Search {
        cx,
        query,
        file,
        len,
        sizes,
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        merged: Mutex::default(),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let threads = (len / sizes.per_thread.max(1)).clamp(1, MAX_THREADS.min(cores));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system has no thread to give, the others do the work.
            drop(std::thread::Builder::new().spawn_scoped(scope, || search.work()));
        }
        search.work();
    });
    search.merged.into_inner().unwrap_or_else(PoisonError::into_inner).end.map(|end| match end {
        End::Hits(hits) => Some(hits),
        End::Unsuited => None,
    })
}

/// The state that the threads of a search share.
struct Search<'a> {
    cx: &'a Context,
    query: &'a Query,
    file: &'a File,
    len: u64,
    sizes: Sizes,
    next: AtomicU64,
    is_over: AtomicBool,
    merged: Mutex<Merged>,
}

/// The hits of the chunks so far, in the order of the file.
struct Merged {
    end: io::Result<End>,
    /// Chunks that are done before one that comes before them.
    waiting: BTreeMap<u64, Chunk>,
    /// The next chunk, and the lines before it.
    chunk: u64,
    lines: u64,
}

enum End {
    Hits(Hits),
    /// The file cannot be searched in chunks.
    Unsuited,
}

/// The matches of a chunk.
#[derive(Default)]
struct Chunk {
    hits: Hits,
    lines: u64,
}

impl Default for Merged {
    fn default() -> Self {
        let end = Ok(End::Hits(Hits::default()));
        Self { end, waiting: BTreeMap::new(), chunk: 0, lines: 0 }
    }
}

impl Search<'_> {
    /// Searches one chunk after another, until none is left or it is known how the search ends.
    fn work(&self) {
        let mut scanner = Scanner::for_chunks(self.cx, self.query);
        let mut room = Vec::new();
        while !self.is_over.load(Ordering::Acquire) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at.saturating_mul(self.sizes.chunk as u64) >= self.len {
                return;
            }
            match self.search_chunk(at, &mut scanner, &mut room) {
                Ok(Some(chunk)) => self.merge(at, chunk),
                Ok(None) => self.end(Ok(End::Unsuited)),
                Err(error) => self.end(Err(error)),
            }
        }
    }

    fn search_chunk(
        &self,
        at: u64,
        scanner: &mut Scanner<'_>,
        room: &mut Vec<u8>,
    ) -> io::Result<Option<Chunk>> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        let offset = at * self.sizes.chunk as u64;
        let Some((begin, text)) = self.read(offset, room)? else { return Ok(None) };
        if at == 0 && has_mark(text) {
            return Ok(None);
        }
        let binary = memchr::memchr(0, text);
        let text = match binary {
            // A file that begins like this is no text at all.
            Some(nul) if at == 0 && nul < Buffer::SIZE => &[],
            Some(nul) => {
                let before = text.get(..nul).unwrap_or_default();
                let end = memchr::memrchr(b'\n', before).map_or(0, |feed| feed + 1);
                before.get(..end).unwrap_or_default()
            }
            None => text,
        };
        let mut hits = scanner.search_lines(text)?;
        hits.binary = binary.map(|nul| offset + (begin + nul) as u64);
        let is_numbered = self.query.mode == Mode::Content;
        let lines = if is_numbered { memchr::memchr_iter(b'\n', text).count() as u64 } else { 0 };
        Ok(Some(Chunk { hits, lines }))
    }

    /// The lines of the chunk at an offset, and where in the chunk they begin: those that begin behind a line feed of it. `None` if
    /// the last of them is too long.
    fn read<'r>(
        &self,
        offset: u64,
        room: &'r mut Vec<u8>,
    ) -> io::Result<Option<(usize, &'r [u8])>> {
        let Sizes { chunk, tail, longest, .. } = self.sizes;
        let mut size = chunk + tail;
        loop {
            if room.len() < size + PAGE {
                room.resize(size + PAGE, 0);
            }
            let start = room.as_ptr().align_offset(PAGE).min(PAGE);
            let free = room.get_mut(start..start + size).unwrap_or_default();
            let len = read_at(self.file, free, offset)?;
            let behind = free.get(chunk.min(len)..len).unwrap_or_default();
            let end = match memchr::memchr(b'\n', behind) {
                Some(feed) => chunk + feed + 1,
                None if len < size => len,
                None if size >= chunk + longest => return Ok(None),
                None => {
                    size = (size * 4).min(chunk + longest);
                    continue;
                }
            };
            let inside = room.get(start..start + chunk.min(len)).unwrap_or_default();
            let begin = match offset {
                0 => 0,
                _ => memchr::memchr(b'\n', inside).map_or(end, |feed| feed + 1),
            };
            let text = room.get(start + begin..start + end).unwrap_or_default();
            return Ok(Some((begin, text)));
        }
    }

    /// Adds the hits of a chunk behind those of the chunks before it.
    fn merge(&self, at: u64, chunk: Chunk) {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        merged.waiting.insert(at, chunk);
        loop {
            let next = merged.chunk;
            let Some(chunk) = merged.waiting.remove(&next) else { return };
            let lines = merged.lines;
            let Ok(End::Hits(hits)) = &mut merged.end else { return };
            hits.add(chunk.hits, lines);
            if hits.binary.is_some() || self.query.is_enough(hits) {
                self.is_over.store(true, Ordering::Release);
                // What comes behind does not count.
                merged.waiting.clear();
                merged.chunk = u64::MAX;
                return;
            }
            merged.chunk += 1;
            merged.lines += chunk.lines;
        }
    }

    /// Ends the search otherwise than by hits, unless these are complete.
    fn end(&self, how: io::Result<End>) {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.chunk != u64::MAX && matches!(merged.end, Ok(End::Hits(_))) {
            merged.end = how;
        }
        self.is_over.store(true, Ordering::Release);
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while let Some(free) = buffer.get_mut(len..).filter(|free| !free.is_empty()) {
        match file.read_at(free, offset + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the files that are then searched")]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use serde_json::json;
    use windlass_core::testing::{EmptyHost, MockTool};
    use windlass_core::{Engine, Mode as PolicyMode, Outcome, Output, Policy, ToolCall, Toolbox};

    use super::*;

    const SMALL: Sizes = Sizes { chunk: 16, tail: 3, longest: 40, per_thread: 20 };

    /// Runs inside of a call, since only that has a context.
    fn in_call(check: impl Fn(&Context) + Send + Sync + 'static) {
        let check = Arc::new(check);
        let tool = MockTool::named("check").answering(move |cx, _| {
            let check = check.clone();
            async move {
                check(&cx);
                Ok(Output::text("ok"))
            }
        });
        let mut tools = Toolbox::new();
        tools.add(tool).unwrap();
        let policy = Policy::new(PolicyMode::Auto);
        let builder = Engine::builder(Arc::new(EmptyHost::default())).policy(policy);
        let engine = builder.toolbox(tools).build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let call = ToolCall::new("check", json!({}));
        let result = runtime.block_on(engine.call(&engine.new_session(), call));
        assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    }

    /// A text of letters that make long, short and empty lines, by a number.
    fn text(mut seed: u64) -> Vec<u8> {
        let letters = b"ab\n\r\nab abc";
        let mut random = move || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap()
        };
        let len = random() % 150;
        (0..len).map(|_| letters[random() % letters.len()]).collect()
    }

    #[test]
    fn chunks_have_the_hits_of_the_whole() {
        in_call(|cx| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("f");
            let mut searched = 0;
            for seed in 0..800 {
                let text = text(seed);
                std::fs::write(&path, &text).unwrap();
                let file = File::open(&path).unwrap();
                let pattern = [
                    "ab", "a+b", "^b", "b$", "^$", "[ab]{3} ", "(?i)ABC", "zz", r"\bab\b", "a*",
                    "$",
                ][usize::try_from(seed % 11).unwrap()];
                let mode = ["content", "files", "count"][usize::try_from(seed % 3).unwrap()];
                let limit = 1 + seed % 9;
                let args = json!({"pattern": pattern, "mode": mode, "limit": limit});
                let args = serde_json::from_value(args).unwrap();
                let query = Query::new(&args, PathBuf::new()).unwrap();
                let whole = Scanner::new(cx, &query).search_reader(text.as_slice()).unwrap();
                let len = text.len() as u64;
                let Some(chunks) = search(cx, &query, &file, len, SMALL).unwrap() else { continue };
                searched += 1;
                let shown = String::from_utf8_lossy(&text).into_owned();
                let first = |hits: &Hits| {
                    let most = usize::try_from(limit).unwrap() + 1;
                    let matches =
                        if mode == "content" { hits.matches.min(most) } else { hits.matches };
                    let matches = if mode == "files" { matches.min(1) } else { matches };
                    (matches, hits.lines.iter().take(most).cloned().collect::<Vec<_>>())
                };
                assert_eq!(first(&chunks), first(&whole), "{pattern} {mode} {limit} {shown:?}");
            }
            assert!(searched > 600, "{searched}");
        });
    }

    #[test]
    fn a_nul_ends_a_text_wherever_it_is() {
        in_call(|cx| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("f");
            let args = json!({"pattern": "ab", "mode": "count"});
            let query = Query::new(&serde_json::from_value(args).unwrap(), PathBuf::new()).unwrap();
            let line = b"a line with ab and more\n";
            for nul in [0, 10, 65_000, 70_000, 262_143, 262_144, 262_145, 239_999, 240_000] {
                let mut text = line.repeat(12_000);
                text[nul] = 0;
                std::fs::write(&path, &text).unwrap();
                let file = File::open(&path).unwrap();
                let hits = search(cx, &query, &file, text.len() as u64, Sizes::default());
                let hits = hits.unwrap().unwrap();
                let matches = if nul < Buffer::SIZE { 0 } else { nul / line.len() };
                assert_eq!((hits.matches, hits.binary), (matches, Some(nul as u64)));
            }
        });
    }

    #[test]
    fn what_has_no_lines_of_its_own_is_left_to_another_way() {
        in_call(|cx| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("f");
            let args = serde_json::from_value(json!({"pattern": "ab"})).unwrap();
            let query = Query::new(&args, PathBuf::new()).unwrap();
            for (text, is_searched) in [
                (b"\xff\xfea\0b\0\n\0".repeat(9), false),
                (b"\xef\xbb\xbfab\n".repeat(9), false),
                (b"a".repeat(200), false),
                (b"\n\nab\n".repeat(50), true),
            ] {
                std::fs::write(&path, &text).unwrap();
                let file = File::open(&path).unwrap();
                let hits = search(cx, &query, &file, text.len() as u64, SMALL).unwrap();
                assert_eq!(hits.is_some(), is_searched, "{:?}", text.escape_ascii().to_string());
            }
            // It is shorter by now than it was when it was opened.
            let file = File::open(&path).unwrap();
            let hits = search(cx, &query, &file, 100_000, SMALL).unwrap().unwrap();
            assert_eq!(hits.matches, 50);
        });
    }
}
