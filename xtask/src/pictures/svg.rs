//! Draws a screen as SVG: selectable text in a monospaced font, on a background that is light or dark like the reader's page.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// The sizes of a character, in pixels. Monospaced fonts differ a little, so every run of text has its width set.
const WIDTH: f64 = 7.8;
const HEIGHT: f64 = 18.0;
const FONT: f64 = 13.0;
const MARGIN: f64 = 16.0;

const STYLE: &str = "\
.ground { fill: #f6f8fa; stroke: #d0d7de }
text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }
.bold { font-weight: bold }
.dim { fill: #59636e }
.underline { text-decoration: underline }
.c1 { fill: #cf222e }
.c2 { fill: #116329 }
.c3 { fill: #7d4e00 }
.c4 { fill: #0969da }
.c5 { fill: #8250df }
.c6 { fill: #1b7c83 }
text .inverse { fill: #f6f8fa }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; stroke: #30363d }
text { fill: #e6edf3 }
.dim { fill: #9198a1 }
.c1 { fill: #ff7b72 }
.c2 { fill: #7ee787 }
.c3 { fill: #e3b341 }
.c4 { fill: #79c0ff }
.c5 { fill: #d2a8ff }
.c6 { fill: #76e3ea }
text .inverse { fill: #0d1117 }
}
";

/// Draws the rows of a screen, up to the last one that is not empty and not only the next prompt.
pub(super) fn of(screen: &Screen, about: &str) -> String {
    let (_, columns) = screen.size();
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for row in 0..screen.size().0.get() {
        lines.push(runs(screen, row, columns.get()));
    }
    let is_shown = |line: &Vec<Run>| {
        let text: String = line.iter().map(|run| run.text.as_str()).collect();
        !text.trim().is_empty() && text.trim() != "$"
    };
    let shown = lines.iter().rposition(is_shown).map_or(0, |last| last + 1);
    let width = f64::from(columns.get()) * WIDTH + 2.0 * MARGIN;
    let height = pixels(shown, HEIGHT) + 2.0 * MARGIN;
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        let written = writeln!(text, "{line}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    };
    line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" xml:space=\"preserve\">"
    ));
    line(format_args!("<title>{}</title>", escaped(about)));
    line(format_args!("<style>\n{STYLE}</style>"));
    line(format_args!(
        "<rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>",
        width - 1.0,
        height - 1.0
    ));
    for (row, runs) in lines.iter().take(shown).enumerate() {
        for run in runs.iter().filter(|run| !run.text.trim().is_empty() || run.style.inverse) {
            run.draw(row, &mut line);
        }
    }
    line(format_args!("</svg>"));
    text
}

/// Successive characters with the same style.
struct Run {
    column: usize,
    text: String,
    style: CharacterStyle,
}

/// The style of a character: its classes, and whether text and background colours are swapped.
#[derive(Clone, PartialEq, Eq)]
struct CharacterStyle {
    colour: Option<&'static str>,
    others: Vec<&'static str>,
    inverse: bool,
}

/// The classes of the palette's colours. The first and the last are those of background and text, which follow the reader's page.
const COLOURS: [Option<&str>; 8] =
    [None, Some("c1"), Some("c2"), Some("c3"), Some("c4"), Some("c5"), Some("c6"), None];

impl CharacterStyle {
    fn of(cell: &Cell) -> Self {
        let colour = match cell.fgcolor() {
            // The bright colours are those of the palette, too.
            Color::Idx(number @ 0..16) => COLOURS[usize::from(number % 8)],
            _ => None,
        };
        let others = [
            (cell.bold(), "bold"),
            (cell.dim() && colour.is_none(), "dim"),
            (cell.underline(), "underline"),
        ];
        let others = others.into_iter().filter(|(is_set, _)| *is_set).map(|(_, class)| class);
        Self { colour, others: others.collect(), inverse: cell.inverse() }
    }

    /// The classes of text.
    fn classes(&self) -> String {
        let colour = if self.inverse { Some("inverse") } else { self.colour };
        let classes: Vec<&str> = self.others.iter().copied().chain(colour).collect();
        classes.join(" ")
    }
}

/// The runs of a row.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation())
        else {
            continue;
        };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let style = CharacterStyle::of(cell);
        match runs.last_mut() {
            Some(run) if run.style == style => run.text.push_str(text),
            _ => runs.push(Run { column: column.into(), text: text.to_owned(), style }),
        }
    }
    if let Some(last) = runs.last_mut().filter(|last| !last.style.inverse) {
        last.text.truncate(last.text.trim_end().len());
    }
    runs
}

impl Run {
    fn draw(&self, row: usize, line: &mut impl FnMut(std::fmt::Arguments<'_>)) {
        // Leading spaces are left out and shift the position instead.
        let text = if self.style.inverse { &self.text[..] } else { self.text.trim_start() };
        let before = self.text.chars().count() - text.chars().count();
        let (x, y) = (MARGIN + pixels(self.column + before, WIDTH), MARGIN + pixels(row, HEIGHT));
        let wide = pixels(text.chars().count(), WIDTH);
        let classes = self.style.classes();
        if self.style.inverse {
            let colour = self.style.colour.unwrap_or("dim");
            line(format_args!(
                "<rect class=\"{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\"/>"
            ));
        }
        let class =
            if classes.is_empty() { String::new() } else { format!(" class=\"{classes}\"") };
        let base = y + f64::midpoint(HEIGHT, FONT) - 2.0;
        line(format_args!(
            "<text x=\"{x:.1}\" y=\"{base:.1}\" textLength=\"{wide:.1}\"><tspan{class}>{}</tspan></text>",
            escaped(text)
        ));
    }
}

fn pixels(count: usize, size: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * size
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_spaces_and_signs_are_kept_and_the_last_prompt_is_not() {
        let mut parser = vt100::Parser::default();
        parser
            .process(b"$ cat <a>\r\n  \x1b[32m+new\x1b[0m  two\r\n\x1b[1;31m-old\x1b[0m\r\n\r\n$ ");
        let text = of(parser.screen(), "a & b");
        assert!(text.contains("<title>a &amp; b</title>"), "{text}");
        assert!(text.contains(">$ cat &lt;a&gt;</tspan>"), "{text}");
        assert!(text.contains("<tspan class=\"c2\">+new</tspan>"), "{text}");
        assert!(text.contains("<tspan class=\"bold c1\">-old</tspan>"), "{text}");
        assert_eq!(text.matches("<text ").count(), 4, "{text}");
        let height = 3.0 * HEIGHT + 2.0 * MARGIN;
        assert!(text.contains(&format!("height=\"{height:.0}\"")), "{text}");
    }
}
