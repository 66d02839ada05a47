//! Requests and their rings, journals, ranges, small files, and the kernel's facts on block devices.

pub(crate) mod clock;
pub(crate) mod cufile;
pub(crate) mod desk;
pub(crate) mod device_memory;
pub(crate) mod extents;
pub mod failure;
pub mod journal;
pub(crate) mod random;
pub(crate) mod ranges;
pub(crate) mod request;
pub mod ring;
pub(crate) mod small_files;
pub mod stage;
pub(crate) mod stamp;
pub(crate) mod system;
pub mod trace;
pub(crate) mod uuid;
pub(crate) mod watch;

/// The longest wait for a device, unless another is given.
pub const DEADLINE: peerlane_units::Nanos = peerlane_units::Nanos::seconds(60);
