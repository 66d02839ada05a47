//! What tests of several crates need, and nothing else does.
//!
//! Tests of every crate may use it, those of `fabric` too. A unit test of `fabric` sees its own types as others than
//! those of [`machine`] and [`sysfs_tree`], which therefore serve tests in other crates and in `tests/`.
#![forbid(unsafe_code)]

mod devices;
mod machine_text;
mod programs;
mod scratch;
mod sysfs_tree;

pub use devices::{Loop, Tmpfs, Turn};
pub use machine_text::{machine, machine_text};
pub use programs::{copy_program, heeding, skip};
pub use scratch::Scratch;
pub use sysfs_tree::sysfs_tree;
