//! Statistics of many runs: their spread, the number that is enough, and the part of chance.
//!
//! Pure functions of figures and seeds: no clock, no file. No run is thrown away here; one that looks odd
//! is said and stays in.

mod ends;
mod fairness;
mod location;
mod order;
mod percentiles;
mod random;
mod spread;
mod stopping;
mod student;

pub(crate) use ends::effect_of_end;
pub use fairness::jain;
pub(crate) use location::{Effect, effect_of_location};
pub use order::{CaseRun, order, round};
pub use percentiles::percentiles;
pub use random::Random;
pub(crate) use spread::is_first_an_outlier;
pub use spread::{median, spread};
pub use stopping::{Enough, enough};
pub(crate) use student::{quantile, two_sided};
