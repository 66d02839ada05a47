//! Addresses of a drive's DMA and the kernel's P2P decisions for it, from a stock kernel's own tracing.
//!
//! A probe on the kernel's deciding function counts P2P decisions by drive
//! (`CONFIG_FPROBE_EVENTS`). Histogram triggers on the events of the DMA API sum mapped bytes by
//! address (`CONFIG_HIST_TRIGGERS`), to be looked up among the memory windows of functions and
//! system memory. Both count in the kernel, in constant memory. Needs root.
//!
//! Blind spots: a mapping does not prove an arrival, which the proof of content is for. Requests of
//! others on the same drive count as system memory. With a translating IOMMU requests of several
//! segments have no event. Memory inside a drive, and caches of the processor in front of system
//! memory, are not visible.

mod hist;
mod instance;
mod judge;
mod kernel;
mod observed;
mod windows;

use std::collections::BTreeMap;

use peerlane_fabric::{Bdf, Fabric};
use peerlane_reach::{self, MapType};
use peerlane_results::RouteEvidence;
use peerlane_units::Bytes;

use crate::{Root, Unread, says};
use hist::Histogram;
use instance::Instance;
use kernel::{DecisionProbe, MAP_EVENTS, PROBE_ARGUMENTS, PROBES};
use observed::ObservedDma;
use windows::AddressMap;

/// The probe's name.
const PROBE: &str = "map";
const BOUNCE_EVENT: &str = "swiotlb/swiotlb_bounced";
/// Rows of the histogram of addresses. Each is a piece of [`BUCKET`] in one direction.
const ADDRESS_ROWS: u32 = 16384;
/// Bytes of a row: the memory windows that take part in P2P come in such sections.
const BUCKET: u64 = 2 << 20;

/// Payload that was asked of a drive while it was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveTransfer {
    /// The drive's function.
    pub address: Bdf,
    /// Bytes to and from the memory of devices.
    pub p2p: Bytes,
    /// Bytes to and from host memory.
    pub host: Bytes,
    /// The least number of requests that the P2P payload took.
    pub requests: u64,
    /// Functions whose memory the P2P payload rests in.
    pub memories: Vec<Bdf>,
    /// The kernel's decision on its P2P requests; `None` where they have several, or it is unknown.
    pub expected: Option<MapType>,
    /// True where less may have been asked: a file system does not tell which bytes it reads.
    pub is_at_most: bool,
}

impl DriveTransfer {
    /// Nothing asked yet.
    pub fn new(address: Bdf) -> Self {
        Self {
            address,
            p2p: Bytes(0),
            host: Bytes(0),
            requests: 0,
            memories: vec![],
            expected: None,
            is_at_most: false,
        }
    }

    /// Adds payload to or from the memory of a function, in requests of at most `request` bytes.
    pub fn add_p2p(&mut self, fabric: &Fabric, memory: Bdf, bytes: Bytes, request: Bytes) {
        let id = |address: Bdf| fabric.find(&address.to_string());
        let ends = id(memory).zip(id(self.address));
        let map = ends.map(|(memory, drive)| peerlane_reach::decide(fabric, memory, drive).map);
        let map = map.filter(|map| matches!(map, MapType::BusAddress | MapType::ThroughHostBridge));
        let is_first = self.memories.is_empty();
        self.expected = if is_first || self.expected == map { map } else { None };
        if !self.memories.contains(&memory) {
            self.memories.push(memory);
        }
        self.p2p.0 += bytes.0;
        self.requests += bytes.0.div_ceil(request.0.max(1));
    }
}

/// A watch over the DMA of drives, as long as it lives.
#[derive(Debug)]
pub struct DmaWitness {
    instance: Instance,
    drives: Vec<Bdf>,
    addresses: AddressMap,
    probe: Option<DecisionProbe>,
    map_event: Option<&'static str>,
    has_bounce_event: bool,
    /// True when every mapping of system memory has an event.
    is_complete: bool,
    before: BTreeMap<Bdf, ObservedDma>,
}

impl DmaWitness {
    /// Begins to watch these drives; `memories` are functions whose windows are told apart. `is_translating` says whether
    /// an IOMMU translates the addresses of devices.
    ///
    /// # Errors
    /// Without tracefs or privileges, on a kernel that was not tried, and where it shows neither decisions nor addresses.
    pub fn begin(
        root: &Root,
        drives: &[Bdf],
        memories: &[Bdf],
        is_translating: bool,
    ) -> Result<Self, Unwatched> {
        if !root.is_this_machine() {
            return Err(Unwatched::OtherMachine);
        }
        if drives.is_empty() {
            return Err(Unwatched::NoDrive);
        }
        let release = root.text("proc/sys/kernel/osrelease")?;
        let tried = kernel::version(&release).and_then(kernel::has_complete_events);
        let Some(has_complete_events) = tried else {
            return Err(Unwatched::UntriedKernel { release });
        };
        let mut functions = drives.to_vec();
        functions.extend(memories);
        let addresses = AddressMap::read(root, &functions)?;
        let mut instance = Instance::new(root)?;
        let probe = PROBES.into_iter().find(|probe| add_probe(&mut instance, *probe, drives));
        let map_event = MAP_EVENTS.into_iter().find(|event| instance.has_event(event));
        let map_event = map_event.filter(|event| {
            let trigger = format!(
                "hist:keys=device,dir,phys_addr.buckets={BUCKET}:vals=size:size={ADDRESS_ROWS} if {}",
                any_of("device", drives)
            );
            is_added("address events", instance.add_trigger(event, &trigger))
        });
        if probe.is_none() && map_event.is_none() {
            return Err(Unwatched::NothingShown { release });
        }
        let trigger = format!("hist:keys=dev_name:vals=size if {}", any_of("dev_name", drives));
        let has_bounce_event = instance.has_event(BOUNCE_EVENT)
            && is_added("bounce events", instance.add_trigger(BOUNCE_EVENT, &trigger));
        let mut witness = Self {
            instance,
            drives: drives.to_vec(),
            addresses,
            probe,
            map_event,
            has_bounce_event,
            is_complete: has_complete_events && !is_translating,
            before: BTreeMap::new(),
        };
        witness.before = witness.read();
        Ok(witness)
    }

    /// Counts from here on: payload begins to move now.
    pub fn mark(&mut self) {
        self.before = self.read();
    }

    /// Judges each drive by the payload asked of it since the last mark.
    pub fn judge(&self, transfers: &[DriveTransfer]) -> Vec<RouteEvidence> {
        let after = self.read();
        let judge = |transfer: &DriveTransfer| {
            let looked_at = looked_at(transfer.address);
            let pair = (self.before.get(&transfer.address), after.get(&transfer.address));
            let (Some(before), Some(after)) = pair else {
                return crate::unseen(looked_at, "the drive was not watched");
            };
            let seen = after.since(before);
            says(seen.verdict(transfer), looked_at, seen.summary(transfer))
        };
        transfers.iter().map(judge).collect()
    }

    /// Counts since the watch was made.
    fn read(&self) -> BTreeMap<Bdf, ObservedDma> {
        let histograms = |event: &str| Some(hist::parse(&self.instance.histograms(event).ok()?));
        let decisions = self.probe.and_then(|probe| {
            Some((probe, histograms(&format!("{}/{PROBE}", self.instance.group()))?))
        });
        let maps: Option<Vec<Histogram>> = self.map_event.and_then(histograms);
        let bounces: Vec<Histogram> =
            self.has_bounce_event.then(|| histograms(BOUNCE_EVENT)).flatten().unwrap_or_default();
        let of_drive = |drive: &Bdf| {
            let mut seen = ObservedDma::default();
            if let Some((probe, histograms)) = &decisions {
                seen.add_decisions(*probe, histograms, *drive);
            }
            if let Some(histograms) = &maps {
                seen.add_addresses(histograms, *drive, &self.addresses, self.is_complete);
            }
            seen.add_bounces(&bounces, *drive);
            (*drive, seen)
        };
        self.drives.iter().map(of_drive).collect()
    }
}

/// Reason why DMA is not watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unwatched {
    /// The root is a captured or a made-up tree.
    #[error("the tree is not that of this machine")]
    OtherMachine,
    /// No drive is a PCI function.
    #[error("no end is a PCIe drive")]
    NoDrive,
    /// The rules of the verdict were not tried on this kernel.
    #[error("Linux {release} is not among the kernels that it was tried on, {}", kernel::tried())]
    UntriedKernel {
        /// Its release.
        release: String,
    },
    /// The kernel takes neither the probe nor the histogram.
    #[error("Linux {release} here shows neither P2P decisions nor DMA addresses")]
    NothingShown {
        /// Its release.
        release: String,
    },
    /// Tracefs, or a file that addresses are looked up in, cannot be read.
    #[error(transparent)]
    Unread(#[from] Unread),
}

/// Evidence of a witness that could not begin.
pub fn unseen(reason: &Unwatched) -> RouteEvidence {
    crate::unseen("DMA of the drives, by the kernel's tracing", reason)
}

fn looked_at(drive: Bdf) -> String {
    format!("DMA of {drive}, by the kernel's tracing")
}

fn add_probe(instance: &mut Instance, probe: DecisionProbe, drives: &[Bdf]) -> bool {
    let DecisionProbe { function, .. } = probe;
    let added = instance.add_probe(PROBE, &format!("{function}{PROBE_ARGUMENTS}"));
    if !is_added(function, added) {
        return false;
    }
    let event = format!("{}/{PROBE}", instance.group());
    drives.iter().all(|drive| {
        let trigger = format!("hist:keys=map if client == \"{drive}\"");
        is_added(function, instance.add_trigger(&event, &trigger))
    })
}

fn is_added(what: &str, added: std::io::Result<()>) -> bool {
    if let Err(error) = &added {
        tracing::info!(%error, what, "the kernel does not count it");
    }
    added.is_ok()
}

/// `device == "0000:03:00.0" || device == "0000:04:00.0"`
fn any_of(field: &str, drives: &[Bdf]) -> String {
    let one = |drive: &Bdf| format!("{field} == \"{drive}\"");
    drives.iter().map(one).collect::<Vec<_>>().join(" || ")
}

#[cfg(test)]
mod tests;
