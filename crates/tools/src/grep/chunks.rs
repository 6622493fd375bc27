//! The search of one large file in chunks of whole lines, on several threads.
//!
//! A chunk fits into the cache of a core, where the pattern and line feeds are searched. The file is read, not mapped: if another program
//! truncated a mapped file, this process would be ended by SIGBUS.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::buffer::FileBuffer;
use super::first_hits::FileHits;
use super::query::{Mode, Query};
use super::scanner::{Scanner, has_byte_order_mark};
use windlass_core::Context;

/// The sizes of chunks and of the work per thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkSizes {
    /// Number of bytes of a chunk; a chunk has the lines that begin in these bytes.
    chunk: usize,
    /// Number of bytes read behind the chunk to find the end of its last line.
    tail: usize,
    /// Limit of the length of a line; a file with a longer one is not searched in chunks.
    longest: usize,
    /// Number of bytes that are worth one more thread.
    per_thread: u64,
}

impl Default for ChunkSizes {
    fn default() -> Self {
        Self { chunk: 256 << 10, tail: 4 << 10, longest: 4 << 20, per_thread: 16 << 20 }
    }
}

/// Limit of the threads of one search: more would only wait for memory.
const MAX_THREADS: u64 = 4;
/// Alignment of the read address: the kernel copies faster to the beginning of a page.
const PAGE_BYTES: usize = 4096;

/// Searches a file line by line. Returns `None` if that is impossible because of a very long line or an encoding.
pub(super) fn search(
    cx: &Context,
    query: &Query,
    file: &File,
    len: u64,
    sizes: ChunkSizes,
) -> io::Result<Option<FileHits>> {
    let search = ChunkSearch {
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
            // If no more threads can be started, those that run do the work.
            drop(std::thread::Builder::new().spawn_scoped(scope, || search.search_chunks()));
        }
        search.search_chunks();
    });
    search.merged.into_inner().unwrap_or_else(PoisonError::into_inner).end.map(|end| match end {
        ChunkSearchEnd::FileHits(hits) => Some(hits),
        ChunkSearchEnd::Unsuited => None,
    })
}

/// The state that the threads of a search share.
struct ChunkSearch<'a> {
    cx: &'a Context,
    query: &'a Query,
    file: &'a File,
    len: u64,
    sizes: ChunkSizes,
    next: AtomicU64,
    is_over: AtomicBool,
    merged: Mutex<MergedHits>,
}

/// The hits of all chunks so far, in the order of the file.
struct MergedHits {
    end: io::Result<ChunkSearchEnd>,
    /// Finished chunks that wait for an earlier one.
    waiting: BTreeMap<u64, ChunkHits>,
    /// Number of the next chunk to merge; `u64::MAX` once the search is complete.
    chunk: u64,
    /// Number of lines before that chunk.
    lines: u64,
}

/// The end of a chunked search.
enum ChunkSearchEnd {
    FileHits(FileHits),
    /// The file cannot be searched in chunks.
    Unsuited,
}

/// The matches of a chunk and its number of lines.
#[derive(Default)]
struct ChunkHits {
    hits: FileHits,
    lines: u64,
}

impl Default for MergedHits {
    fn default() -> Self {
        let end = Ok(ChunkSearchEnd::FileHits(FileHits::default()));
        Self { end, waiting: BTreeMap::new(), chunk: 0, lines: 0 }
    }
}

impl ChunkSearch<'_> {
    /// Searches chunks until none is left or the result is known.
    fn search_chunks(&self) {
        let mut scanner = Scanner::for_chunks(self.cx, self.query);
        let mut room = Vec::new();
        while !self.is_over.load(Ordering::Acquire) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at.saturating_mul(self.sizes.chunk as u64) >= self.len {
                return;
            }
            match self.search_chunk(at, &mut scanner, &mut room) {
                Ok(Some(chunk)) => self.merge_chunk(at, chunk),
                Ok(None) => self.end(Ok(ChunkSearchEnd::Unsuited)),
                Err(error) => self.end(Err(error)),
            }
        }
    }

    /// Searches one chunk; `None` if the file is not suited for chunks.
    fn search_chunk(
        &self,
        at: u64,
        scanner: &mut Scanner<'_>,
        room: &mut Vec<u8>,
    ) -> io::Result<Option<ChunkHits>> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        let offset = at * self.sizes.chunk as u64;
        let Some((begin, text)) = self.read(offset, room)? else { return Ok(None) };
        if at == 0 && has_byte_order_mark(text) {
            return Ok(None);
        }
        let binary = memchr::memchr(0, text);
        let text = match binary {
            // A NUL this early means that the whole file is binary.
            Some(nul) if at == 0 && nul < FileBuffer::MAX_SMALL_FILE_BYTES => &[],
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
        Ok(Some(ChunkHits { hits, lines }))
    }

    /// Reads the chunk at an offset: the lines that begin behind its first line feed (at offset 0, from its start), and their position in
    /// the chunk. `None` if the last line is too long.
    fn read<'r>(
        &self,
        offset: u64,
        room: &'r mut Vec<u8>,
    ) -> io::Result<Option<(usize, &'r [u8])>> {
        let ChunkSizes { chunk, tail, longest, .. } = self.sizes;
        let mut size = chunk + tail;
        loop {
            if room.len() < size + PAGE_BYTES {
                room.resize(size + PAGE_BYTES, 0);
            }
            let start = room.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
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

    /// Adds the hits of a chunk behind those of earlier chunks.
    fn merge_chunk(&self, at: u64, chunk: ChunkHits) {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        merged.waiting.insert(at, chunk);
        loop {
            let next = merged.chunk;
            let Some(chunk) = merged.waiting.remove(&next) else { return };
            let lines = merged.lines;
            let Ok(ChunkSearchEnd::FileHits(hits)) = &mut merged.end else { return };
            hits.add(chunk.hits, lines);
            if hits.binary.is_some() || self.query.is_enough(hits) {
                self.is_over.store(true, Ordering::Release);
                // Later chunks do not count.
                merged.waiting.clear();
                merged.chunk = u64::MAX;
                return;
            }
            merged.chunk += 1;
            merged.lines += chunk.lines;
        }
    }

    /// Ends the search without hits, unless the hits are already complete.
    fn end(&self, how: io::Result<ChunkSearchEnd>) {
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if merged.chunk != u64::MAX && matches!(merged.end, Ok(ChunkSearchEnd::FileHits(_))) {
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

    const SMALL: ChunkSizes = ChunkSizes { chunk: 16, tail: 3, longest: 40, per_thread: 20 };

    /// Runs a check inside a call, which provides the context.
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

    /// Returns a text of random letters with long, short and empty lines.
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
    fn chunks_have_the_hits_of_the_whole_file() {
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
                let first = |hits: &FileHits| {
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
    fn nul_ends_the_search_at_any_position() {
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
                let hits = search(cx, &query, &file, text.len() as u64, ChunkSizes::default());
                let hits = hits.unwrap().unwrap();
                let matches =
                    if nul < FileBuffer::MAX_SMALL_FILE_BYTES { 0 } else { nul / line.len() };
                assert_eq!((hits.matches, hits.binary), (matches, Some(nul as u64)));
            }
        });
    }

    #[test]
    fn long_lines_and_encodings_are_not_searched_in_chunks() {
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
            // The file is now shorter than it was when it was opened.
            let file = File::open(&path).unwrap();
            let hits = search(cx, &query, &file, 100_000, SMALL).unwrap().unwrap();
            assert_eq!(hits.matches, 50);
        });
    }
}
