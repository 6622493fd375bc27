//! Measures contenders in turn, and computes medians and percentiles.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::process;

/// Measurements of one contender: seconds, bytes or calls per second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    /// A single measurement, for values that do not vary.
    pub(super) fn one(value: f64) -> Self {
        Self(vec![value])
    }

    pub(super) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(super) fn median(&self) -> f64 {
        let half = self.0.len() / 2;
        match (self.0.len() % 2, half.checked_sub(1)) {
            (0, Some(below)) => f64::midpoint(self.at(below), self.at(half)),
            _ => self.at(half),
        }
    }

    /// The 95th percentile: the bad end of a duration.
    pub(super) fn p95(&self) -> f64 {
        self.at((self.0.len() * 95).div_ceil(100).saturating_sub(1))
    }

    /// The 5th percentile: the bad end of a throughput.
    pub(super) fn p5(&self) -> f64 {
        self.at(self.0.len() * 5 / 100)
    }

    fn at(&self, index: usize) -> f64 {
        self.0.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// A function that makes one measurement.
pub(super) type Contender<'a> = &'a mut dyn FnMut() -> Result<f64>;

/// Runs the contenders in turn, so that other work of the machine affects all of them alike. The first two rounds are not counted:
/// they fill caches and fault in pages.
pub(super) fn alternate<const N: usize>(
    runs: usize,
    mut contenders: [Contender<'_>; N],
) -> Result<[Samples; N]> {
    const UNCOUNTED: usize = 2;
    let mut values = [const { Vec::new() }; N];
    for round in 0..runs + UNCOUNTED {
        for (contender, values) in contenders.iter_mut().zip(&mut values) {
            let value = contender()?;
            if round >= UNCOUNTED {
                values.push(value);
            }
        }
    }
    Ok(values.map(Samples::new))
}

/// The duration of a program from start to end; its output is read and dropped.
pub(super) fn time(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    process::output(command)?;
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_percentiles_are_computed() {
        for (values, median, p95, p5) in [
            (vec![3.0], 3.0, 3.0, 3.0),
            (vec![4.0, 2.0], 3.0, 4.0, 2.0),
            (vec![9.0, 1.0, 2.0], 2.0, 9.0, 1.0),
            ((1..=100).map(f64::from).collect(), 50.5, 95.0, 6.0),
            ((1..=20).map(f64::from).collect(), 10.5, 19.0, 2.0),
        ] {
            let samples = Samples::new(values.clone());
            let found = (samples.median(), samples.p95(), samples.p5());
            assert_eq!(found, (median, p95, p5), "{values:?}");
        }
        assert!(Samples::new(Vec::new()).median().is_nan());
    }

    #[test]
    fn contenders_take_turns_and_the_first_rounds_do_not_count() {
        let turns = std::cell::RefCell::new(String::new());
        let mut count = 0.0;
        let [first, second] = alternate(
            3,
            [
                &mut || {
                    turns.borrow_mut().push('a');
                    count += 1.0;
                    Ok(count)
                },
                &mut || {
                    turns.borrow_mut().push('b');
                    Ok(7.0)
                },
            ],
        )
        .unwrap();
        assert_eq!(turns.into_inner(), "ababababab");
        assert_eq!((first, second), (Samples(vec![3.0, 4.0, 5.0]), Samples(vec![7.0; 3])));
    }
}
