//! Capabilities of configuration spaces: the two lists, and the content of each capability.
//!
//! Content that bears on nothing is random, except fields that lengths depend on: those hold
//! fitting values.

use super::registers::{Express, Resizable, VirtualFunctionRegisters};

/// Length and identifier of capabilities in the first 256 bytes, without that of PCIe (PCI Code and ID
/// Assignment Specification 1.15 section 2): Power Management, AGP, VPD, slot identification, MSI, CompactPCI,
/// PCI-X, HyperTransport, vendor-specific, debug port, hot plug, bridge subsystem, AGP 8x, secure device, MSI-X,
/// SATA, advanced features.
const STANDARD: [(usize, u8); 17] = [
    (8, 0x01),
    (12, 0x02),
    (8, 0x03),
    (4, 0x04),
    (24, 0x05),
    (4, 0x06),
    (24, 0x07),
    (28, 0x08),
    (20, 0x09),
    (4, 0x0a),
    (8, 0x0c),
    (8, 0x0d),
    (12, 0x0e),
    (16, 0x0f),
    (12, 0x11),
    (8, 0x12),
    (8, 0x13),
];
/// Length and identifier of extended capabilities, without those that are generated from facts (section 3 there): AER,
/// Virtual Channel, serial number, power budgeting, root complex link, event collector, multi-function and second
/// Virtual Channel, vendor-specific, ARI, ATS, multicast, PRI, DPA, TPH, LTR, Secondary PCIe, PASID, LNR, DPC, L1 PM
/// substates, PTM, FRS, RTR, DVSEC, VF Resizable BAR, Data Link Feature, Physical Layer 16 GT/s, Lane Margining,
/// hierarchy, NPEM, Physical Layer 32 GT/s, alternate protocol, SFI, DOE, Device 3, Physical Layer 64 GT/s, null.
const EXTENDED: [(usize, u16); 38] = [
    (0x48, 0x01),
    (0x40, 0x02),
    (0x0c, 0x03),
    (0x10, 0x04),
    (0x20, 0x05),
    (0x10, 0x07),
    (0x40, 0x08),
    (0x40, 0x09),
    (0x18, 0x0b),
    (0x08, 0x0e),
    (0x08, 0x0f),
    (0x30, 0x12),
    (0x10, 0x13),
    (0x30, 0x16),
    (0x0c, 0x17),
    (0x08, 0x18),
    (0x2c, 0x19),
    (0x08, 0x1b),
    (0x08, 0x1c),
    (0x5c, 0x1d),
    (0x14, 0x1e),
    (0x0c, 0x1f),
    (0x10, 0x21),
    (0x0c, 0x22),
    (0x3c, 0x23),
    (0x0c, 0x24),
    (0x0c, 0x25),
    (0x30, 0x26),
    (0x48, 0x27),
    (0x0c, 0x28),
    (0x10, 0x29),
    (0x30, 0x2a),
    (0x14, 0x2b),
    (0x18, 0x2c),
    (0x18, 0x2e),
    (0x14, 0x2f),
    (0x20, 0x31),
    (0x04, 0x00),
];
pub(super) const STANDARD_KINDS: usize = STANDARD.len();
pub(super) const EXTENDED_KINDS: usize = EXTENDED.len();

/// One of a table, with content made from a seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filler {
    pub(super) kind: usize,
    pub(super) seed: u64,
}

/// The lists of a function.
#[derive(Debug, Clone)]
pub(super) struct Capabilities {
    pub(super) standard: Vec<Filler>,
    pub(super) extended: Vec<Filler>,
    /// Decides orders and offsets; 0 leaves them as they come, without gaps.
    pub(super) layout: u64,
}

/// Facts that have capabilities of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CapabilityFacts<'a> {
    pub(super) express: Option<&'a Express>,
    pub(super) acs: Option<u16>,
    pub(super) resizable: Option<Resizable>,
    pub(super) virtual_functions: Option<VirtualFunctionRegisters>,
}

/// Numbers that look random (SplitMix64).
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise(pub(super) u64);

impl Noise {
    /// The next number; always 0 from 0.
    pub(super) fn next(&mut self) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15).max(1);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn bytes(seed: u64, length: usize) -> Vec<u8> {
        let mut noise = Self(seed);
        (0..length).map(|_| noise.next().to_le_bytes()[0]).collect()
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A capability with its place in the list, header included.
struct Listed {
    id: u16,
    bytes: Vec<u8>,
}

impl Capabilities {
    /// Returns whether vital product data are among them.
    pub(super) fn has_vital_data(&self) -> bool {
        self.standard.iter().any(|one| STANDARD[one.kind].1 == 0x03)
    }

    /// Writes both lists into a configuration space and leaves out those without room. A function
    /// that is not PCIe has no second one.
    pub(super) fn write(&self, space: &mut [u8], facts: &CapabilityFacts<'_>) {
        let express = facts.express.map(|one| Listed { id: 0x10, bytes: one.bytes() });
        let fillers = self.standard.iter().map(|one| one.standard());
        let standard: Vec<Listed> = express.into_iter().chain(fillers).collect();
        self.list(space, standard, &STANDARD_LIST);
        if facts.express.is_some() {
            let facts = facts.extended();
            let fillers = self.extended.iter().map(|one| one.extended());
            self.list(space, facts.into_iter().chain(fillers).collect(), &EXTENDED_LIST);
        }
    }

    fn list(&self, space: &mut [u8], mut all: Vec<Listed>, form: &ListForm) {
        let mut noise = Noise(self.layout);
        let gaps: Vec<usize> =
            all.iter().map(|_| usize::from(noise.next() as u8 % 4) * 4).collect();
        let mut room = form.to - form.from;
        let mut kept = 0;
        // Those of facts come first, so they always fit.
        for (one, gap) in all.iter().zip(&gaps) {
            let Some(rest) = room.checked_sub(one.bytes.len() + gap) else { break };
            (room, kept) = (rest, kept + 1);
        }
        all.truncate(kept);
        shuffle(&mut all, &mut noise);
        let mut by_place: Vec<usize> = (0..all.len()).collect();
        shuffle(&mut by_place, &mut noise);
        if form.is_extended {
            // The list begins at the first byte.
            by_place.sort_by_key(|&one| one != 0);
        }
        let mut places = vec![0; all.len()];
        let mut at = form.from;
        for (rank, &one) in by_place.iter().enumerate() {
            at += if rank == 0 && form.is_extended { 0 } else { gaps[rank] };
            places[one] = at;
            at += all[one].bytes.len();
        }
        for (number, one) in all.iter().enumerate() {
            let next = places.get(number + 1).copied().unwrap_or(0);
            put(space, places[number], &one.bytes);
            if form.is_extended {
                let version = 1;
                let header = u32::from(one.id) | version << 16 | (next as u32) << 20;
                put(space, places[number], &header.to_le_bytes());
            } else {
                put(space, places[number], &[one.id as u8, next as u8]);
            }
        }
        if let (false, Some(&first)) = (form.is_extended, places.first()) {
            space[0x34] = first as u8;
            space[0x06] |= 0x10;
        }
    }
}

struct ListForm {
    from: usize,
    to: usize,
    is_extended: bool,
}

const STANDARD_LIST: ListForm = ListForm { from: 0x40, to: 0x100, is_extended: false };
const EXTENDED_LIST: ListForm = ListForm { from: 0x100, to: 0x1000, is_extended: true };

/// Puts a list in another order; leaves it where the numbers are 0.
fn shuffle<T>(list: &mut [T], noise: &mut Noise) {
    for end in (1..list.len()).rev() {
        let other = end - (noise.next() % (end as u64 + 1)) as usize;
        list.swap(end, other);
    }
}

impl CapabilityFacts<'_> {
    fn extended(&self) -> Vec<Listed> {
        let acs = self.acs.map(|control| {
            let mut bytes = vec![0; 12];
            put(&mut bytes, 4, &(control | 0x1f).to_le_bytes());
            put(&mut bytes, 6, &control.to_le_bytes());
            Listed { id: 0x0d, bytes }
        });
        let resizable = self.resizable.map(|one| Listed { id: 0x15, bytes: one.bytes() });
        let virtual_functions =
            self.virtual_functions.map(|one| Listed { id: 0x10, bytes: one.bytes() });
        acs.into_iter().chain(resizable).chain(virtual_functions).collect()
    }
}

impl Filler {
    fn standard(self) -> Listed {
        let (length, id) = STANDARD[self.kind];
        let mut bytes = Noise::bytes(self.seed, length);
        match id {
            0x09 => bytes[2] = length as u8,
            // Vendors that have a name.
            0x0d => put(&mut bytes, 4, &[0x86, 0x80]),
            _ => {}
        }
        Listed { id: id.into(), bytes }
    }

    fn extended(self) -> Listed {
        let (length, id) = EXTENDED[self.kind];
        let mut bytes = Noise::bytes(self.seed, length);
        match id {
            // Count of further channels, and no tables.
            0x02 | 0x08 | 0x09 => {
                bytes[4] = (bytes[4] & 0xf0) | (bytes[4] % 3);
                bytes[0x0b] = 0;
                for channel in 0..3 {
                    bytes[0x13 + 12 * channel] = 0;
                }
            }
            // One link.
            0x05 => bytes[5] = 1,
            0x0b => put(&mut bytes, 6, &[(length as u8) << 4 | 1, (length >> 4) as u8]),
            0x16 => bytes[4] = bytes[4] & 0xe0 | 7,
            // DVSEC of CXL, of a device or a port, or of another maker.
            0x23 => {
                let cxl = bytes[8] % 2 == 0;
                put(&mut bytes, 4, if cxl { &[0x98, 0x1e] } else { &[0x86, 0x80] });
                put(&mut bytes, 6, &[(length as u8) << 4 | 1, (length >> 4) as u8]);
                let kind = [0, 3, 5, 7][usize::from(bytes[10] % 4)];
                put(&mut bytes, 8, &[kind, 0]);
                // Ranges of memory have kinds that must be known.
                bytes[0x18..].fill(0);
            }
            // One window.
            0x24 => bytes[8] = bytes[8] & 0x1f | 0x20,
            _ => {}
        }
        Listed { id, bytes }
    }
}
