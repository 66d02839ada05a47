//! Machines that span the kernel's decision table, what is asked of them, and the page that says what
//! plan and kernel answered.

pub(crate) mod guest;
pub(crate) mod machines;
pub(crate) mod notation;
pub(crate) mod page;
pub(crate) mod voices;
