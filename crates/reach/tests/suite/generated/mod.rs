//! Random machines whose configuration spaces have the capabilities of real devices, as trees that both discovery and
//! the real `lspci` read.
#![allow(clippy::cast_possible_truncation, reason = "registers are cut to their width")]

mod capabilities;
mod devices;
mod listing;
mod machine;
mod registers;
mod tree;

pub(crate) use listing::{Lspci, programs};
pub(crate) use machine::{Machine, machine};
pub(crate) use tree::Reader;
