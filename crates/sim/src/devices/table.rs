//! Time of a block by its size, as a table.
//!
//! Between points the time is a straight line. Beyond the last point it keeps the slope of the last two. Below the first
//! it is flat: a command takes its time however small it is.

/// Last size of a line that is exact at every size.
const FAR: f64 = 1e18;

/// Seconds by block size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SizeTable {
    points: Vec<(f64, f64)>,
}

/// Reasons why points are not a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableError {
    /// No point.
    #[error("a table needs a point")]
    Empty,
    /// A size or time that is not a finite number above zero.
    #[error("sizes and times are finite numbers above zero")]
    Number,
    /// Two times for one size.
    #[error("a size stands twice")]
    SaidTwice,
}

impl SizeTable {
    /// A table of block sizes in bytes and measured times in seconds, in any order.
    ///
    /// Noise may make a larger block faster: neighbours then share their mean (isotonic regression by pooling adjacent
    /// violators; Barlow and others, 1972).
    ///
    /// # Errors
    /// When there is no point, a number is not above zero, or a size stands twice.
    pub(crate) fn measured(
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Result<Self, TableError> {
        let mut points: Vec<(f64, f64)> = points.into_iter().collect();
        if points.is_empty() {
            return Err(TableError::Empty);
        }
        let is_number = |number: f64| number.is_finite() && number > 0.0;
        if points.iter().any(|&(size, time)| !is_number(size) || !is_number(time)) {
            return Err(TableError::Number);
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(TableError::SaidTwice);
        }
        // Sums and counts of the pools, in order of size.
        let mut pools: Vec<(f64, usize)> = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "a table has few points")]
        let mean = |pool: (f64, usize)| pool.0 / pool.1 as f64;
        for &(_, time) in &points {
            let mut pool = (time, 1);
            while let Some(&last) = pools.last().filter(|&&last| mean(last) > mean(pool)) {
                pools.pop();
                pool = (pool.0 + last.0, pool.1 + last.1);
            }
            pools.push(pool);
        }
        let times = pools.into_iter().flat_map(|pool| std::iter::repeat_n(mean(pool), pool.1));
        Ok(Self {
            points: points.into_iter().zip(times).map(|(point, time)| (point.0, time)).collect(),
        })
    }

    /// A fixed time and a rate: `start + n / rate`, exact at every size.
    pub(crate) fn line(start: f64, rate: f64) -> Self {
        let at = |size: f64| (size, start + size / rate);
        Self { points: vec![at(1.0), at(FAR)] }
    }

    /// Seconds for a block of `size` bytes (piecewise linear, as in the latency model of NVMeVirt, FAST 2023).
    pub(crate) fn time(&self, size: f64) -> f64 {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        if size <= first.0 {
            return first.1;
        }
        let above = self.points.partition_point(|point| point.0 < size);
        if above < self.points.len() {
            return between(self.points[above - 1], self.points[above], size);
        }
        match self.points.len() {
            1 => last.1 * size / last.0,
            count => between(self.points[count - 2], last, size),
        }
    }

    /// Bytes a second at depth 1.
    pub(crate) fn rate(&self, size: f64) -> f64 {
        size / self.time(size)
    }

    /// The largest size of a point.
    pub(crate) fn end(&self) -> f64 {
        self.points[self.points.len() - 1].0
    }
}

fn between(low: (f64, f64), high: (f64, f64), size: f64) -> f64 {
    low.1 + (high.1 - low.1) * (size - low.0) / (high.0 - low.0)
}
