//! Extracts the text of a PDF file, page by page.
//!
//! A file can claim page counts and stream sizes that it does not have, so everything is bounded, and a panic of the parser counts as
//! an unreadable file. Without the feature `pdf` there is no parser, and such files are only described, like other
//! binary files.

/// Returns the text of all pages, or the reason why there is none.
#[cfg(feature = "pdf")]
pub(crate) fn to_text(bytes: &[u8], cancelled: &dyn Fn() -> bool) -> Result<String, String> {
    // The parser is third-party code, and the file may be made to break it.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        extract::extract_pages(bytes, cancelled)
    }))
    .unwrap_or_else(|_| Err("its structure is broken".into()))
}

/// Refuses every file, because this build has no parser.
#[cfg(not(feature = "pdf"))]
pub(crate) fn to_text(_: &[u8], _: &dyn Fn() -> bool) -> Result<String, String> {
    Err("this build reads no PDF: the feature `pdf` is off".into())
}

#[cfg(feature = "pdf")]
mod extract {
    use std::fmt::Write as _;

    use lopdf::{Document, LoadOptions};

    /// Limit of the decompressed bytes of one stream.
    const MAX_STREAM_BYTES: usize = 32 << 20;
    /// Limit of the extracted bytes of text per file.
    const MAX_TEXT_BYTES: usize = 8 << 20;
    /// Limit of the pages that are read.
    const MAX_PAGES: usize = 1_000;

    /// Extracts the text of all pages within the limits.
    pub(super) fn extract_pages(
        bytes: &[u8],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<String, String> {
        let options = LoadOptions::with_max_decompressed_size(MAX_STREAM_BYTES);
        let document = Document::load_mem_with_options(bytes, options)
            .map_err(|error| format!("its structure is broken ({error})"))?;
        let numbers: Vec<u32> = document.get_pages().into_keys().collect();
        if numbers.is_empty() {
            return Err("it has no pages".into());
        }
        let mut text = String::new();
        let mut read = 0;
        for number in numbers.iter().take(MAX_PAGES) {
            if cancelled() || text.len() > MAX_TEXT_BYTES {
                break;
            }
            push_page(&mut text, &document, *number, numbers.len());
            read += 1;
        }
        if read < numbers.len() {
            push_line(
                &mut text,
                format_args!("[{} more pages are left out]", numbers.len() - read),
            );
        }
        Ok(text)
    }

    /// Adds the text of one page, with a remark about parts that cannot be read.
    fn push_page(text: &mut String, document: &Document, number: u32, pages: usize) {
        push_line(text, format_args!("--- page {number} of {pages} ---"));
        let mut words = String::new();
        let mut broken = 0usize;
        for chunk in document.extract_text_chunks_with_limit(&[number], MAX_STREAM_BYTES) {
            match chunk {
                Ok(chunk) => words.push_str(&chunk),
                Err(_) => broken += 1,
            }
        }
        match words.trim_end() {
            "" if broken == 0 => push_line(text, format_args!("[no text on this page]")),
            "" => {}
            words => push_line(text, format_args!("{words}")),
        }
        if broken > 0 {
            push_line(text, format_args!("[{broken} parts of this page cannot be read]"));
        }
    }

    /// Adds formatted text and a line feed.
    fn push_line(text: &mut String, words: std::fmt::Arguments<'_>) {
        let written = writeln!(text, "{words}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

#[cfg(feature = "pdf")]
#[cfg(test)]
mod tests {
    use lopdf::content::{Content, Operation};
    use lopdf::{Document, Object, Stream, dictionary};

    use super::to_text;

    /// Makes a document with one page for each text.
    fn document(pages: &[&str]) -> Vec<u8> {
        let mut document = Document::with_version("1.5");
        let parent = document.new_object_id();
        let font = document.add_object(dictionary! {
            "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Courier", "Encoding" => "WinAnsiEncoding",
        });
        let resources = document.add_object(dictionary! { "Font" => dictionary! { "F1" => font } });
        let kids: Vec<Object> = pages
            .iter()
            .map(|text| {
                let operations = vec![
                    Operation::new("BT", vec![]),
                    Operation::new("Tf", vec!["F1".into(), 12.into()]),
                    Operation::new("Tj", vec![Object::string_literal(*text)]),
                    Operation::new("ET", vec![]),
                ];
                let content = Content { operations }.encode().unwrap();
                let content = document.add_object(Stream::new(dictionary! {}, content));
                let page = dictionary! {
                    "Type" => "Page", "Parent" => parent, "Contents" => content, "Resources" => resources,
                };
                document.add_object(page).into()
            })
            .collect();
        let count = i64::try_from(kids.len()).unwrap();
        document.objects.insert(
            parent,
            dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }.into(),
        );
        let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => parent });
        document.trailer.set("Root", catalog);
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn pages_become_text() {
        let text = to_text(&document(&["Hello world", "", "Bye"]), &|| false).unwrap();
        assert_eq!(
            text,
            "--- page 1 of 3 ---\nHello world\n--- page 2 of 3 ---\n[no text on this page]\n--- page 3 of 3 ---\nBye\n"
        );
    }

    #[test]
    fn a_broken_file_is_an_error_and_no_panic() {
        let whole = document(&["Hello world"]);
        for end in (0..whole.len()).step_by(7) {
            let broken = to_text(&whole[..end], &|| false);
            assert!(broken.is_ok() || broken.is_err_and(|why| !why.is_empty()), "{end}");
        }
        assert!(to_text(b"%PDF-1.7\n", &|| false).is_err());
        assert!(to_text(&document(&[]), &|| false).is_err());
    }
}
