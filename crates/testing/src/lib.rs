//! Helpers for tests of several crates. No program uses them.
//!
//! Tests of every crate may, those of `fabric` too. [`machine`] and [`sysfs_tree`] have the types of the library `fabric`,
//! which are others than those of its unit tests; these take [`machine_text`].
#![forbid(unsafe_code)]

mod devices;
mod kept_file;
mod machine_text;
mod programs;
mod scratch;
mod sysfs_tree;

pub use devices::{Loop, Tmpfs, Turn};
pub use kept_file::check_file;
pub use machine_text::{machine, machine_text};
pub use programs::{copy_program, heeding, skip};
pub use scratch::Scratch;
pub use sysfs_tree::sysfs_tree;
