//! Host memory and processors: the cost of the host path beside its rate.
//!
//! NUMA distance and other users are left out. How much of a bounce buffer stays in the processor's cache is unknown, so
//! that host-memory traffic is an interval.

use peerlane_results::Path;

/// Host-memory bytes for each byte of payload, lowest and highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// All bytes that a device wrote are read from the cache.
    pub least: f64,
    /// None of them is.
    pub most: f64,
}

/// Host-memory bytes for each byte that a processor copies: one read, one written, and one read where the store first
/// fetches its cache line (Intel 64 and IA-32 Optimization Reference Manual, "write-allocate").
pub const OF_A_COPY: f64 = 3.0;

/// Copies by a processor of each byte from one device to another (read(2), write(2)).
pub fn copies(path: Path) -> f64 {
    match path {
        Path::P2p | Path::HostPipelined | Path::HostCufile | Path::HostSerial => 0.0,
        // From the page cache into the buffer, and from the buffer into the page cache.
        Path::HostPageCache => 2.0,
        // From the map.
        Path::HostMapped => 1.0,
    }
}

/// Copies of each byte where one end is host memory. A map needs none, because its pages are the target.
pub fn copies_of_one(path: Path) -> f64 {
    (copies(path) - 1.0).max(0.0)
}

/// Host-memory traffic between two devices.
pub fn traffic(path: Path) -> Traffic {
    traffic_of(path, 2.0, copies(path))
}

/// Host-memory traffic of one device, where the other end is host memory.
pub fn traffic_of_one(path: Path) -> Traffic {
    traffic_of(path, 1.0, copies_of_one(path))
}

/// A device that writes or reads host memory costs one byte, a copy [`OF_A_COPY`].
///
/// A buffer may still be in the cache (Intel Data Direct I/O) when it is consumed. Pages of the page cache outlive the
/// cache and are written once.
fn traffic_of(path: Path, devices: f64, copies: f64) -> Traffic {
    match path {
        Path::P2p => Traffic { least: 0.0, most: 0.0 },
        Path::HostPipelined | Path::HostCufile | Path::HostSerial => {
            Traffic { least: 0.0, most: devices }
        }
        Path::HostPageCache | Path::HostMapped => {
            Traffic { least: devices, most: devices + OF_A_COPY * copies }
        }
    }
}

/// Host-memory traffic where both ends are host memory, beyond all caches. A map moves nothing.
pub fn traffic_by_processor(path: Path) -> Traffic {
    match path {
        Path::HostMapped => Traffic { least: 0.0, most: 0.0 },
        _ => Traffic { least: OF_A_COPY - 1.0, most: OF_A_COPY },
    }
}

/// Bytes a second that processors submit and copy: `cores / (c_io / n + c_byte)`, with seconds a command and seconds a
/// byte (utilisation law; Lazowska and others, Quantitative System Performance, 1984, chapter 3).
pub fn processor_ceiling(cores: f64, size: f64, per_command: f64, per_byte: f64) -> f64 {
    cores / (per_command / size + per_byte)
}

/// Page faults of a mapped file, one for each window, beside those of the program's start.
///
/// The window is a page, or 16 pages where the kernel maps around a fault (`fault_around_bytes`, mm/memory.c, since
/// Linux 3.15).
pub fn page_faults(bytes: f64, window: f64, at_start: f64) -> f64 {
    at_start + (bytes / window).ceil()
}

/// Seconds of page faults for each byte, with one fault for each window.
pub fn fault_cost(window: f64, fault: f64) -> f64 {
    fault / window
}
