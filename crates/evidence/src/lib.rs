//! Independent witnesses of the route that bytes took, one module a source.
//!
//! Each names the place that it looked at, or the reason why it could not. The worth of a figure is
//! not judged here. All is read below the root of a [`Scene`], and nothing there is written or
//! waited for. Most sources count for the whole machine, so a neighbour's work can hide something
//! but never show a route.

#![forbid(unsafe_code)]

mod block_counters;
mod cache;
mod counters;
mod cpu;
mod dma_map;
mod kernel_log;
mod page_faults;
mod pool;
mod process_cpu;
mod recorder;
mod requests;
mod root;
mod verdict;
mod watch;

use std::path::PathBuf;

use peerlane_fabric::Bdf;
use peerlane_results::{
    BytesByRoute, CpuCost, EndpointFacts, EndpointKind, Evidence, HostMemoryTraffic, PageFaults,
    RouteEvidence, RouteVerdict,
};
use peerlane_units::Bytes;

pub use block_counters::{BlockCounters, DriveBytes};
pub use dma_map::{DmaWitness, DriveTransfer, Unwatched, unseen as unseen_dma};
pub use kernel_log::{DeviceMessages, device_messages};
pub use process_cpu::CpuMark;
pub use recorder::DmaTally;
pub use root::{Root, Unread};
pub use verdict::{least_certain, verdict};
pub use watch::CaseWatch;

/// Devices and memory that a case uses, told before it runs.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The folder of `sys`, `proc` and `dev`: `/`, or another one in tests.
    pub root: PathBuf,
    /// Drives that payload comes from and goes to, each once.
    pub drives: Vec<CaseDrive>,
    /// Pools of device memory that payload rests in, each once.
    pub pools: Vec<Pool>,
    /// Functions whose memory payload rests in, pools and others.
    pub memories: Vec<Bdf>,
    /// Set when an IOMMU translates the addresses of devices.
    pub is_translating: bool,
}

/// A drive of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseDrive {
    /// Kernel name of its block device or partition, `nvme2n1`.
    pub name: String,
    /// PCI address: the kernel log names the drive by it.
    pub address: Option<Bdf>,
    /// The way of its requests, which decides whether the block layer counts them.
    pub requests: Requests,
}

impl CaseDrive {
    /// The drive of an end of a transfer; `None` where that has none. `is_cached` says that payload goes through the
    /// page cache though the end takes direct I/O.
    pub fn from_facts(facts: &EndpointFacts, is_cached: bool) -> Option<Self> {
        let requests = match facts.kind {
            EndpointKind::Passthrough => Requests::Passthrough,
            _ if is_cached => Requests::PageCache,
            // Without direct I/O a file has blocks of one byte.
            EndpointKind::File if facts.block == Bytes(1) => Requests::PageCache,
            _ => Requests::Direct,
        };
        let address = facts.address.as_ref().and_then(|address| address.parse().ok());
        Some(Self { name: facts.device.clone()?, address, requests })
    }
}

/// The way that requests take to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// Direct I/O on a block device or a file: counted, and every byte reaches the drive.
    Direct,
    /// Through the page cache: counted, and bytes may come from memory or go to the drive later.
    PageCache,
    /// By its passthrough node: the block layer does not count.
    Passthrough,
}

/// A pool of device memory of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// PCI address of the function that lends it.
    pub address: Bdf,
    /// Bytes of it that the case takes.
    pub taken: Bytes,
}

/// Payload of a case, told when the case has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseEvidence {
    /// Payload by the route asked for; payload with an end in host memory counts as `host`.
    pub asked: BytesByRoute,
    /// Payload by the route of the requests that were made, as the engine counted them.
    pub moved: BytesByRoute,
    /// Payload read from and written to each drive, in the order of [`Scene::drives`].
    pub drives: Vec<DriveBytes>,
    /// The same payload by drive and route, for drives that are functions.
    pub transfers: Vec<DriveTransfer>,
    /// Tally of the lab's recorder; `None` elsewhere, and where it is read later.
    pub dma: Option<DmaTally>,
}

/// Observations made while a case ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// One or more items of each source.
    pub evidence: Vec<RouteEvidence>,
    /// Host-memory traffic.
    pub host_memory: HostMemoryTraffic,
    /// CPU time.
    pub cpu: CpuCost,
    /// Bytes that the block layer counted for each drive, in the order of [`Scene::drives`]; `None`
    /// where it does not count or could not be read.
    pub drives: Vec<Option<DriveBytes>>,
    /// Page faults of the process.
    pub page_faults: Option<PageFaults>,
}

impl Observed {
    /// The verdict of all evidence together.
    pub fn verdict(&self) -> RouteVerdict {
        verdict(&self.evidence)
    }
}

/// Evidence that says something of the route.
fn says(
    says: RouteVerdict,
    looked_at: impl Into<String>,
    showed: impl Into<String>,
) -> RouteEvidence {
    let evidence = Evidence { looked_at: looked_at.into(), showed: showed.into() };
    RouteEvidence { evidence, says }
}

/// A source that could not be looked at, with the reason.
fn unseen(looked_at: impl Into<String>, why: impl std::fmt::Display) -> RouteEvidence {
    says(RouteVerdict::NotKnown, looked_at, format!("not to be seen: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_testing::Scratch;

    pub(crate) fn p2p(bytes: u64) -> BytesByRoute {
        BytesByRoute { p2p: Bytes(bytes), host: Bytes(0) }
    }

    #[test]
    fn blind_machine_gives_every_reason() {
        let tree = Scratch::new();
        let drive = CaseDrive { name: "nvme0n1".into(), address: None, requests: Requests::Direct };
        let pool = Pool { address: "0000:03:00.0".parse().unwrap(), taken: Bytes(4096) };
        let scene = Scene {
            root: tree.path().to_owned(),
            drives: vec![drive],
            pools: vec![pool],
            memories: vec![],
            is_translating: false,
        };
        let mut watch = CaseWatch::begin(&scene);
        watch.look();
        let seen = CaseEvidence {
            asked: p2p(4096),
            moved: p2p(4096),
            drives: vec![DriveBytes::default()],
            transfers: vec![],
            dma: None,
        };
        let found = watch.end(&seen);
        assert_eq!(found.verdict(), RouteVerdict::Consistent, "by its own requests only");
        assert_eq!(found.host_memory.bytes, None);
        let unseen = |item: &&RouteEvidence| item.evidence.showed.starts_with("not to be seen: ");
        assert_eq!(found.evidence.iter().filter(unseen).count(), found.evidence.len() - 2);
    }

    #[test]
    fn this_machine_can_be_watched() {
        let disks =
            Root::at(std::path::Path::new("/")).names("sys/class/block").unwrap_or_default();
        let drive = |name: String| CaseDrive { name, address: None, requests: Requests::PageCache };
        let drives: Vec<CaseDrive> = disks.into_iter().take(2).map(drive).collect();
        let claimed = vec![DriveBytes::default(); drives.len()];
        let scene = Scene {
            root: "/".into(),
            drives,
            pools: vec![],
            memories: vec![],
            is_translating: false,
        };
        let mut watch = CaseWatch::begin(&scene);
        watch.look();
        let seen = CaseEvidence {
            asked: p2p(0),
            moved: p2p(0),
            drives: claimed,
            transfers: vec![],
            dma: None,
        };
        let found = watch.end(&seen);
        for RouteEvidence { evidence, says } in &found.evidence {
            println!("{says:?}: {}: {}", evidence.looked_at, evidence.showed);
            assert!(!evidence.showed.is_empty(), "{}", evidence.looked_at);
        }
        assert_ne!(found.verdict(), RouteVerdict::Shown, "nothing ran");
        assert!(found.page_faults.is_some());
    }
}
