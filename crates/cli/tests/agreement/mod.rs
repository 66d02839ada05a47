//! Machines that span the kernel's decision table, the questions on them, and the page with the
//! answers of plan and kernel.

pub(crate) mod guest;
pub(crate) mod machines;
pub(crate) mod notation;
pub(crate) mod page;
pub(crate) mod voices;
