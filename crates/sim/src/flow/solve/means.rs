//! Means of the rates over many rounds, for what goes in circles and comes to no end.
//!
//! Leaves out why it does: `docs/model/flow.md` says what is known. The one thing to know: every round's rates
//! fit into all capacities, and so does their mean.

/// Rounds before the first span; each span is as long as all that was before it.
const BEGIN: u32 = 50;

/// Means over the last two spans of rounds.
#[derive(Debug)]
pub(super) struct Means {
    /// Rounds of the span under way, and where it ends.
    count: u32,
    end: u32,
    /// Sums over it.
    sums: Vec<f64>,
    /// Means over the span before.
    last: Vec<f64>,
    /// The largest relative difference between those and the ones before, once there are any.
    apart: Option<f64>,
}

impl Means {
    /// Nothing so far.
    pub(super) fn new() -> Self {
        Self { count: 0, end: 2 * BEGIN, sums: Vec::new(), last: Vec::new(), apart: None }
    }

    /// Whether rates of this round count.
    pub(super) fn wants(round: u32) -> bool {
        round > BEGIN
    }

    /// Takes the rates of a round. Where a span ends, says how far its means are from those before.
    pub(super) fn take(&mut self, round: u32, rates: impl Iterator<Item = f64>) -> Option<f64> {
        self.sums.resize(rates.size_hint().0.max(self.sums.len()), 0.0);
        self.sums.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
        self.count += 1;
        if round < self.end {
            return None;
        }
        let means: Vec<f64> = self.sums.iter().map(|sum| sum / f64::from(self.count)).collect();
        let before = std::mem::replace(&mut self.last, means);
        if !before.is_empty() {
            let apart = |(new, old): (&f64, &f64)| (new - old).abs() / new.max(1e-12);
            self.apart = Some(self.last.iter().zip(&before).map(apart).fold(0.0, f64::max));
        }
        self.sums.fill(0.0);
        (self.count, self.end) = (0, self.end.saturating_mul(2));
        self.apart
    }

    /// The means over the last span, and how far they are from those before, once two are over.
    pub(super) fn last(&self) -> Option<(&[f64], f64)> {
        Some((&self.last, self.apart?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_back_and_forth_has_a_mean() {
        let mut means = Means::new();
        let mut found = None;
        for round in (1..=400).filter(|&round| Means::wants(round)) {
            let swing = if round % 2 == 0 { 0.5 } else { -0.5 };
            found = means.take(round, [2.0 + swing, 0.0].into_iter());
        }
        assert_eq!(found, Some(0.0));
        assert_eq!(means.last(), Some((&[2.0, 0.0][..], 0.0)));
    }

    #[test]
    fn what_still_grows_is_apart() {
        let mut means = Means::new();
        for round in (1..=400).filter(|&round| Means::wants(round)) {
            means.take(round, [f64::from(round)].into_iter());
        }
        // 300.5 over the last span, 150.5 over the one before.
        let (_, apart) = means.last().expect("two spans are over");
        assert!((apart - 150.0 / 300.5).abs() < 1e-9, "{apart}");
    }
}
