//! Host memory and processor: what the host path costs beside its rate.
//!
//! Leaves out NUMA distance and other users: they are background, given as a demand. The one thing to
//! know: how much of a bounce buffer stays in the processor's cache is not known, so that host-memory
//! traffic is an interval.

use peerlane_results::Path;

/// Host-memory bytes for each byte of payload, lowest and highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// With everything that was written by a device still in the cache when it is read.
    pub least: f64,
    /// With nothing of it there.
    pub most: f64,
}

/// Host-memory bytes for each byte that a processor copies: read, written, and read before that where the store first fetches
/// its cache line (Intel 64 and IA-32 Optimization Reference Manual, "write-allocate").
pub const OF_A_COPY: f64 = 3.0;

/// Copies by the processor of each byte that goes from one device to another on a path: into the page cache
/// or out of it (read(2), write(2)), half of them for each side.
pub fn copies(path: Path) -> f64 {
    match path {
        Path::P2p | Path::HostPipelined | Path::HostCufile | Path::HostSerial => 0.0,
        // Out of the page cache into the buffer, and out of the buffer into the page cache.
        Path::HostPageCache => 2.0,
        // Out of the map.
        Path::HostMapped => 1.0,
    }
}

/// Host-memory bytes for each byte of payload that goes from one device to another on a path.
///
/// A device that writes host memory costs one byte written, one that reads it one byte read; a copy by the
/// processor costs [`OF_A_COPY`]. What a device wrote may still be in the cache (Intel Data Direct I/O) when it is
/// consumed; pages of the page cache, one set for each side, outlive the cache and are written once.
pub fn traffic(path: Path) -> Traffic {
    let devices = 2.0;
    match path {
        Path::P2p => Traffic { least: 0.0, most: 0.0 },
        Path::HostPipelined | Path::HostCufile | Path::HostSerial => {
            Traffic { least: 0.0, most: devices }
        }
        Path::HostPageCache | Path::HostMapped => {
            Traffic { least: 2.0, most: devices + OF_A_COPY * copies(path) }
        }
    }
}

/// The same where one side is host memory itself: one device, one page cache, and one copy where a path has two.
pub fn traffic_of_one(path: Path) -> Traffic {
    let device = 1.0;
    match path {
        Path::P2p | Path::HostPipelined | Path::HostCufile | Path::HostSerial => {
            Traffic { least: 0.0, most: device }
        }
        Path::HostPageCache | Path::HostMapped => {
            Traffic { least: 1.0, most: device + OF_A_COPY * copies_of_one(path) }
        }
    }
}

/// The same where both sides are host memory, beyond all caches: a copy costs [`OF_A_COPY`], less where the store fetches
/// nothing first; a map moves nothing.
pub fn traffic_by_processor(path: Path) -> Traffic {
    match path {
        Path::HostMapped => Traffic { least: 0.0, most: 0.0 },
        _ => Traffic { least: OF_A_COPY - 1.0, most: OF_A_COPY },
    }
}

/// Copies of each byte where one side is host memory: of a map none, since its pages are what is wanted.
pub fn copies_of_one(path: Path) -> f64 {
    (copies(path) - 1.0).max(0.0)
}

/// Bytes a second that host memory leaves to devices: `efficiency * peak - background`, not below zero. The
/// efficiency is a parameter; 0.8 is a usual guess.
pub fn memory_left(peak: f64, efficiency: f64, background: f64) -> f64 {
    (peak * efficiency - background).max(0.0)
}

/// Bytes a second that processors can submit and copy: `cores / (c_io / n + c_byte)`, with seconds a command and
/// seconds a byte (the utilisation law; Lazowska and others, 1984, chapter 3).
pub fn processor_ceiling(cores: f64, size: f64, per_command: f64, per_byte: f64) -> f64 {
    cores / (per_command / size + per_byte)
}

/// Page faults of reading `bytes` through a map, one for each window, above those of starting up. The
/// window is a page, or 16 of them where the kernel maps around a fault (`fault_around_bytes`,
/// mm/memory.c, since Linux 3.15).
pub fn page_faults(bytes: f64, window: f64, at_start: f64) -> f64 {
    at_start + (bytes / window).ceil()
}

/// Seconds that faults add to a byte: one fault for each window, as in [`page_faults`].
pub fn fault_cost(window: f64, fault: f64) -> f64 {
    fault / window
}
