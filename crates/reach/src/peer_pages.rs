//! Limits of peer-to-peer pages in the block layer: levels of md, first kernels, bytes of a request.

use peerlane_units::Bytes;

/// Most bytes of one peer-to-peer request: 256 segments of a page each (Linux 7.2
/// `include/linux/bio.h`, `BIO_MAX_VECS`).
pub const PEER_REQUEST_MAX: Bytes = Bytes::mib(1);
/// First kernel known to pass peer-to-peer pages through NVMe multipath heads.
pub const MULTIPATH_SINCE: (u32, u32) = (7, 2);
/// First kernel known to pass them through md arrays (`drivers/md/raid{0,1,10}.c`).
pub const MD_SINCE: (u32, u32) = (7, 2);
/// Levels of md that pass them on where all members take them.
pub const MD_LEVELS: &[&str] = &["raid0", "raid1", "raid10"];
