//! The table that the bench prints.

use super::measure::Samples;

/// One comparison.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) ours: Samples,
    /// The name and the measurements of the peer.
    pub(super) peer: Option<(&'static str, Samples)>,
    pub(super) target: Target,
}

/// The unit of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
    PerSecond,
    BytesPerSecond,
}

/// The target of a row.
#[expect(clippy::enum_variant_names, reason = "\"at most\" and \"at least\" are the meaning")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// At most this factor times the peer's median.
    AtMostTimes(f64),
    /// At least this factor times the peer's median.
    AtLeastTimes(f64),
    /// At most the peer's median plus this.
    AtMostOver(f64),
    /// At most this, without a peer.
    AtMost(f64),
}

const HEADINGS: [&str; 6] = ["row", "ours (bad end)", "peer (bad end)", "ratio", "target", ""];

/// The rows under headings, in columns, and one closing line. Each contender shows its median and the bad end: what 95 of 100
/// runs are better than.
pub(super) fn render(rows: &[Row]) -> String {
    let mut lines = vec![HEADINGS.map(String::from)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    });
    let table: String = lines.iter().map(|line| aligned(line, widths)).collect();
    let over = rows.iter().filter(|row| !row.is_met()).count();
    format!("{table}over their target: {over} of {}\n", rows.len())
}

fn aligned(cells: &[String; 6], widths: [usize; 6]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{}\n", padded.join("  ").trim_end())
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let peer = self.peer.as_ref();
        [
            self.name.to_owned(),
            self.both(&self.ours),
            peer.map_or("-".into(), |(name, samples)| format!("{} {name}", self.both(samples))),
            self.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}×")),
            self.target.text(self.unit),
            (if self.is_met() { "ok" } else { "over" }).to_owned(),
        ]
    }

    fn both(&self, samples: &Samples) -> String {
        let bad_end = match self.unit {
            Unit::Seconds | Unit::Bytes => samples.p95(),
            Unit::PerSecond | Unit::BytesPerSecond => samples.p5(),
        };
        format!("{} ({})", self.unit.text(samples.median()), self.unit.text(bad_end))
    }

    fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, peer)| self.ours.median() / peer.median())
    }

    fn is_met(&self) -> bool {
        let ours = self.ours.median();
        let peer = self.peer.as_ref().map_or(f64::NAN, |(_, peer)| peer.median());
        match self.target {
            Target::AtMostTimes(times) => ours <= times * peer,
            Target::AtLeastTimes(times) => ours >= times * peer,
            Target::AtMostOver(more) => ours <= peer + more,
            Target::AtMost(limit) => ours <= limit,
        }
    }
}

impl Target {
    fn text(self, unit: Unit) -> String {
        match self {
            Self::AtMostTimes(times) => format!("≤ {times}×"),
            Self::AtLeastTimes(times) => format!("≥ {times}×"),
            Self::AtMostOver(more) => format!("≤ peer + {}", unit.text(more)),
            Self::AtMost(limit) => format!("≤ {}", unit.text(limit)),
        }
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-3 => format!("{:.1} µs", value * 1e6),
            Self::Seconds if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::BytesPerSecond => format!("{:.0} MB/s", value / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, peer: Option<f64>, target: Target) -> Row {
        Row {
            name: "grep/literal",
            unit: Unit::Seconds,
            ours: Samples::one(ours),
            peer: peer.map(|peer| ("rg", Samples::one(peer))),
            target,
        }
    }

    #[test]
    fn targets_are_compared_with_medians() {
        for (ours, peer, target, met) in [
            (2.0, Some(1.0), Target::AtMostTimes(2.0), true),
            (2.1, Some(1.0), Target::AtMostTimes(2.0), false),
            (9.0, Some(1.0), Target::AtLeastTimes(10.0), false),
            (10.0, Some(1.0), Target::AtLeastTimes(10.0), true),
            (1.5, Some(1.0), Target::AtMostOver(0.5), true),
            (1.6, Some(1.0), Target::AtMostOver(0.5), false),
            (1.0, None, Target::AtMost(1.0), true),
            (1.0, None, Target::AtMostTimes(1.0), false), // Without a peer there is no ratio.
        ] {
            assert_eq!(row(ours, peer, target).is_met(), met, "{ours} {peer:?} {target:?}");
        }
    }

    #[test]
    fn units_are_readable() {
        for (unit, value, text) in [
            (Unit::Seconds, 0.000_009_5, "9.5 µs"),
            (Unit::Seconds, 0.012_34, "12.34 ms"),
            (Unit::Seconds, 2.5, "2.50 s"),
            (Unit::Bytes, 14_200_000.0, "14.2 MB"),
            (Unit::PerSecond, 12_345.6, "12346/s"),
            (Unit::BytesPerSecond, 812_300_000.0, "812 MB/s"),
        ] {
            assert_eq!(unit.text(value), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            row(0.011, Some(0.010), Target::AtMostTimes(1.1)),
            row(3.0, None, Target::AtMost(2.0)),
        ];
        let expected = "\
row           ours (bad end)       peer (bad end)          ratio  target
grep/literal  11.00 ms (11.00 ms)  10.00 ms (10.00 ms) rg  1.10×  ≤ 1.1×    ok
grep/literal  3.00 s (3.00 s)      -                       -      ≤ 2.00 s  over
over their target: 1 of 2
";
        assert_eq!(render(&rows), expected);
    }
}
