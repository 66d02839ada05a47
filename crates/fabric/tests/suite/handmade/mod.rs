//! Trees made by hand: machines put together in a program, and the tree in which each is found.

mod builder;
mod machines;

#[allow(unused_imports, reason = "each test program uses a part of it")]
pub(crate) use builder::{Ids, MachineBuilder, bar};
pub(crate) use machines::all;
