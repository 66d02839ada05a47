//! Equations of drives, hosts and overlapping stages, each with its source.
//!
//! Every function is pure. Rates are bytes a second, times seconds and sizes bytes, all as `f64`; a number without a
//! unit is a ratio. No result exceeds the lowest ceiling that a function is given, and it grows with each of them.
//! `docs/model.md` states the equations.

pub mod drive;
pub mod host;
pub mod path;
pub mod table;

#[cfg(test)]
mod tests;
