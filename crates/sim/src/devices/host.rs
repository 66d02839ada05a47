//! Host memory and processors: the cost of the host path besides its rate.
//!
//! NUMA distance and other users are left out. How much of a bounce buffer stays in the processor's cache is unknown, so
//! that host-memory traffic is an interval.

use peerlane_results::Path;

/// Host-memory bytes for each byte of payload, lowest and highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Traffic {
    /// All bytes that a device wrote are read from the cache.
    pub least: f64,
    /// None of them is.
    pub most: f64,
}

/// Host-memory bytes for each byte that a processor copies: one read, one written, and one read where the store first
/// fetches its cache line (Intel 64 and IA-32 Optimization Reference Manual, "write-allocate").
pub(crate) const OF_A_COPY: f64 = 3.0;

/// Copies by a processor of each byte between one or two devices and host memory (read(2), write(2)).
pub(crate) fn copies(path: Path, devices: u8) -> f64 {
    let between_two: u8 = match path {
        Path::P2p | Path::HostPipelined | Path::HostCufile | Path::HostSerial => 0,
        // From the page cache into the buffer, and from the buffer into the page cache.
        Path::HostPageCache => 2,
        // From the map, whose pages are the target where that is host memory.
        Path::HostMapped => 1,
    };
    f64::from((between_two + devices).saturating_sub(2))
}

/// Host-memory traffic of one or two devices. A device that writes or reads host memory costs one byte, a copy
/// [`OF_A_COPY`].
///
/// A buffer may still be in the cache (Intel Data Direct I/O) when it is consumed. Pages of the page cache outlive the
/// cache and are written once.
pub(crate) fn traffic(path: Path, devices: u8) -> Traffic {
    let ends = f64::from(devices);
    let (least, most) = match path {
        Path::P2p => (0.0, 0.0),
        Path::HostPipelined | Path::HostCufile | Path::HostSerial => (0.0, ends),
        Path::HostPageCache | Path::HostMapped => (ends, ends + OF_A_COPY * copies(path, devices)),
    };
    Traffic { least, most }
}

/// Host-memory traffic where both ends are host memory, beyond all caches. A map moves nothing.
pub(crate) fn traffic_by_processor(path: Path) -> Traffic {
    match path {
        Path::HostMapped => Traffic { least: 0.0, most: 0.0 },
        _ => Traffic { least: OF_A_COPY - 1.0, most: OF_A_COPY },
    }
}

/// Page faults of a mapped file, one for each window, besides those of the program's start.
///
/// The window is a page, or 16 pages where the kernel maps around a fault (`fault_around_bytes`, mm/memory.c, since
/// Linux 3.15).
pub(crate) fn page_faults(bytes: f64, window: f64, at_start: f64) -> f64 {
    at_start + (bytes / window).ceil()
}
