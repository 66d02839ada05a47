//! Equations of drives, hosts and overlapping stages, each with its source.
//!
//! Every function is pure. Rates are bytes a second, times seconds and sizes bytes, all as `f64`; a number without a
//! unit is a ratio. No result exceeds the lowest ceiling that a function is given, and it grows with each of them.
//! `docs/model.md` states the equations.

pub(crate) mod drive;
pub(crate) mod host;
pub(crate) mod path;
pub(crate) mod table;

#[cfg(test)]
mod tests;
