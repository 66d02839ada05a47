//! What devices, links and host memory do to a rate: pure functions, each with the source of its equation.
//!
//! Leaves out who is connected to whom, and time: nothing here has state. Rates are bytes a second, times
//! are seconds, sizes are bytes, all as `f64`; what is without a unit is a ratio. `docs/model/devices.md`
//! derives each equation and says what it leaves out. The one thing to know: every function is bounded by
//! the lowest ceiling that it is given, and grows with each of them.

pub mod drive;
pub mod ethernet;
pub mod host;
pub mod link;
pub mod memory;
pub mod path;
pub mod share;
pub mod table;

#[cfg(test)]
mod tests;
