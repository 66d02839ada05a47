//! A machine for people: as a tree in words, and as a drawing, with the load of its links where it is known.

mod drawing;
mod text;

pub(crate) use drawing::style;
pub use drawing::{Drawing, svg};
pub use text::topo;
