//! Slices that overlap, put into lanes without overlaps.

use peerlane_results::Span;
use peerlane_units::Nanos;

/// The lane of each span: the first that is free. So there are never more lanes than spans at a
/// time. Spans come in the order of their begin.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    ends: Vec<Nanos>,
}

impl Lanes {
    pub(super) fn place(&mut self, span: Span) -> usize {
        let free = self.ends.iter().position(|&end| end <= span.begin);
        let lane = free.unwrap_or(self.ends.len());
        if lane == self.ends.len() {
            self.ends.push(span.end);
        }
        self.ends[lane] = span.end;
        lane
    }
}
