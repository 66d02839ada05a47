//! PCI configuration space: the port type and the access control services.
//!
//! Takes any bytes. An unprivileged reader gets 64 of them (`pci_read_config` in
//! drivers/pci/pci-sysfs.c); bytes beyond are then unknown, not absent.

use crate::Acs;
use crate::tunnel::THUNDERBOLT_VSEC;

/// Bytes that an unprivileged reader gets: the common header (PCI 3.0 6.1).
const HEADER: usize = 0x40;
/// Offset of the header type, 0 for an endpoint (PCI 3.0 6.2.1).
const HEADER_TYPE: usize = 0x0e;
/// Base address registers of an endpoint; ROM, SR-IOV and bridge windows follow.
pub(super) const BARS: u8 = 6;
/// Offset of the first base address register, and the bits that give the type of one (PCI 3.0
/// 6.2.5.1).
const FIRST_BAR: usize = 0x10;
const BAR_IS_PORTS: u8 = 1;
const BAR_TYPE: u8 = 0b110;
const BAR_64_BIT: u8 = 0b100;
const BAR_BITS: u8 = 0xf;
/// Offset of the status register; bit 4 says that there is a capability list (PCI 3.0 6.2.3).
const STATUS: usize = 0x06;
const STATUS_CAPABILITIES: u16 = 1 << 4;
/// Offset of the first capability pointer (PCI 3.0 6.7).
const FIRST_CAPABILITY: usize = 0x34;
const CAPABILITY_PCIE: u8 = 0x10;
/// Start of extended configuration space (PCIe 6.0 7.6).
const EXTENDED: usize = 0x100;
const EXTENDED_ACS: u16 = 0x000d;
const EXTENDED_VENDOR_SPECIFIC: u16 = 0x000b;
/// More capabilities than 256 bytes hold: ends a list that loops (`PCI_FIND_CAP_TTL`).
const MOST_CAPABILITIES: usize = 48;
/// More extended capabilities than 4096 bytes hold.
const MOST_EXTENDED: usize = (4096 - EXTENDED) / 8;

/// Device and port type of the PCIe capability (PCIe 6.0 7.5.3.2), as far as it is told apart here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortType {
    RootPort,
    UpstreamPort,
    DownstreamPort,
    /// Any other PCIe function, endpoints and bridges to PCI among them.
    OtherPcie,
    NotPcie,
    Unknown,
}

/// A base address register of a memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryRegister {
    /// Set when the next register has the upper half of its address.
    pub(super) is_64_bit: bool,
}

/// The first bytes of a configuration space, as many as could be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigSpace<'a>(pub(super) &'a [u8]);

impl ConfigSpace<'_> {
    pub(super) fn port_type(self) -> PortType {
        match self.pcie_capability() {
            Search::Found(at) => match self.word(at + 2).map(|flags| flags >> 4 & 0xf) {
                Some(4) => PortType::RootPort,
                Some(5) => PortType::UpstreamPort,
                Some(6) => PortType::DownstreamPort,
                Some(_) => PortType::OtherPcie,
                None => PortType::Unknown,
            },
            Search::Absent => PortType::NotPcie,
            Search::Unreadable => PortType::Unknown,
        }
    }

    pub(super) fn acs(self) -> Acs {
        match self.pcie_capability() {
            Search::Absent => return Acs::Absent,
            Search::Unreadable => return Acs::Unknown,
            Search::Found(_) => {}
        }
        match self.extended_capability(EXTENDED_ACS) {
            Search::Found(at) => {
                self.word(at + 6).map_or(Acs::Unknown, |control| Acs::Present { control })
            }
            Search::Absent => Acs::Absent,
            Search::Unreadable => Acs::Unknown,
        }
    }

    /// The base address register `index` of an endpoint, where its bits say that it is one of memory (PCI 3.0
    /// 6.2.5.1). A 32-bit window that is not prefetchable and has no address looks like none.
    pub(super) fn memory_register(self, index: u8) -> Option<MemoryRegister> {
        let low = self.byte(FIRST_BAR + 4 * usize::from(index)).filter(|_| self.answers())?;
        let high = self.word(FIRST_BAR + 4 * usize::from(index) + 2)?;
        let is_memory = low & BAR_IS_PORTS == 0 && (low, high) != (0, 0);
        is_memory.then_some(MemoryRegister { is_64_bit: low & BAR_TYPE == BAR_64_BIT })
    }

    /// Offsets of the base address registers of memory, without those of upper halves.
    fn memory_registers(self) -> Vec<usize> {
        let is_endpoint = self.byte(HEADER_TYPE).is_some_and(|kind| kind & 0x7f == 0);
        let mut found = Vec::new();
        let mut index = 0;
        while index < BARS && is_endpoint {
            let register = self.memory_register(index);
            found.extend(register.map(|_| FIRST_BAR + 4 * usize::from(index)));
            index += if register.is_some_and(|found| found.is_64_bit) { 2 } else { 1 };
        }
        found
    }

    /// Returns whether the device answered: one that does not reads as all ones.
    ///
    /// Its identity alone does not tell. A virtual function reads as all ones there, with its registers
    /// behind (PCIe 6.0 9.3.4.1).
    fn answers(self) -> bool {
        self.0.iter().take(HEADER).any(|&byte| byte != u8::MAX)
    }

    /// Returns whether the whole header was read, and all of it as ones.
    pub(super) fn is_silent(self) -> bool {
        self.0.len() >= HEADER && !self.answers()
    }

    /// Returns whether a vendor-specific extended capability has this identifier (PCIe 6.0 7.9.5).
    pub(super) fn has_vendor_specific(self, wanted: u16) -> bool {
        self.extended_capabilities()
            .any(|(id, at)| id == EXTENDED_VENDOR_SPECIFIC && self.word(at + 4) == Some(wanted))
    }

    fn pcie_capability(self) -> Search {
        let Some(status) = self.word(STATUS).filter(|_| self.answers()) else {
            return Search::Unreadable;
        };
        if status & STATUS_CAPABILITIES == 0 {
            return Search::Absent;
        }
        let mut pointer = self.byte(FIRST_CAPABILITY);
        for count in 0..MOST_CAPABILITIES {
            let Some(at) = pointer.map(|pointer| usize::from(pointer & 0xfc)) else {
                return Search::Unreadable;
            };
            if at < HEADER {
                return Search::Absent;
            }
            match self.byte(at) {
                None => return Search::Unreadable,
                // Zeros where the list begins: a tool put them behind a header that was all it could read.
                Some(0) if count == 0 && self.byte(at + 1) == Some(0) => return Search::Unreadable,
                Some(CAPABILITY_PCIE) => return Search::Found(at),
                Some(u8::MAX) => return Search::Absent,
                Some(_) => pointer = self.byte(at + 1),
            }
        }
        Search::Absent
    }

    fn extended_capability(self, wanted: u16) -> Search {
        // Exactly 256 bytes is the size of the file of a function without extended space.
        if self.0.len() == EXTENDED {
            return Search::Absent;
        }
        let mut at = EXTENDED;
        for _ in 0..MOST_EXTENDED {
            let (Some(id), Some(rest)) = (self.word(at), self.word(at + 2)) else {
                return Search::Unreadable;
            };
            if (id, rest) == (0, 0) || (id, rest) == (u16::MAX, u16::MAX) {
                return Search::Absent;
            }
            if id == wanted {
                return Search::Found(at);
            }
            at = usize::from(rest >> 4 & 0xffc);
            if at < EXTENDED {
                return Search::Absent;
            }
        }
        Search::Absent
    }

    /// Identifiers and offsets of the extended capabilities, in the order of their list.
    fn extended_capabilities(self) -> impl Iterator<Item = (u16, usize)> {
        let next = move |at: usize| {
            let rest = self.word(at + 2)?;
            Some(usize::from(rest >> 4 & 0xffc)).filter(|&next| next >= EXTENDED)
        };
        std::iter::successors(Some(EXTENDED), move |&at| next(at))
            .map_while(move |at| Some((self.word(at)?, self.word(at + 2).map(|_| at)?)))
            .take(MOST_EXTENDED)
    }

    /// Offsets of the capabilities in the first 256 bytes, in the order of their list.
    fn capabilities(self) -> Vec<usize> {
        let next = |at: usize| self.byte(at).map(|pointer| usize::from(pointer & 0xfc));
        let first = next(FIRST_CAPABILITY).filter(|&at| at >= HEADER);
        std::iter::successors(first, |&at| next(at + 1).filter(|&at| at >= HEADER))
            .take(MOST_CAPABILITIES)
            .collect()
    }

    /// Length of the PCIe capability: as its version has it for an endpoint, up to the next capability,
    /// which may begin right behind a short one and may hold vital product data.
    fn pcie_length(self, at: usize, capabilities: &[usize]) -> usize {
        // PCIe 1.1 and 6.0 7.5.3: up to the link status, and all of it.
        let of_version =
            if self.word(at + 2).is_some_and(|flags| flags & 0xf > 1) { 0x3c } else { 0x14 };
        let behind = capabilities.iter().filter(|&&other| other > at).min();
        behind.map_or(of_version, |&other| of_version.min(other - at))
    }

    fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn word(self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }
}

/// Keeps the bytes of a configuration space that say what kind a function is of and what it
/// supports: identity, status, class, kinds of memory windows, PCIe and ACS whole, the places of
/// other capabilities, and the sign of a Thunderbolt port. Addresses and serial numbers become
/// zero; the length stays.
pub(crate) fn without_addresses(bytes: &[u8]) -> Vec<u8> {
    /// Length of ACS without the egress vector (PCIe 6.0 7.7.11).
    const ACS_LENGTH: usize = 8;
    let mut kept = vec![0; bytes.len()];
    let mut keep = |from: usize, length: usize| {
        let end = (from + length).min(bytes.len());
        if let (Some(to), Some(from)) = (kept.get_mut(from..end), bytes.get(from..end)) {
            to.copy_from_slice(from);
        }
    };
    keep(0, 4);
    keep(STATUS, 6);
    keep(HEADER_TYPE, 1);
    keep(FIRST_CAPABILITY, 1);
    let config = ConfigSpace(bytes);
    if !config.answers() {
        keep(0, HEADER);
    }
    let capabilities = config.capabilities();
    for &at in &capabilities {
        let is_pcie = config.byte(at) == Some(CAPABILITY_PCIE);
        keep(at, if is_pcie { config.pcie_length(at, &capabilities) } else { 2 });
    }
    for (id, at) in config.extended_capabilities() {
        keep(
            at,
            match id {
                EXTENDED_ACS => ACS_LENGTH,
                EXTENDED_VENDOR_SPECIFIC if config.word(at + 4) == Some(THUNDERBOLT_VSEC) => 6,
                _ => 4,
            },
        );
    }
    for at in config.memory_registers() {
        kept[at] |= bytes[at] & BAR_BITS;
    }
    kept
}

enum Search {
    Found(usize),
    Absent,
    Unreadable,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A configuration space with a PCIe capability at 0x40 and, beyond byte 256, a serial number
    /// and then ACS.
    fn sample(port_type: u8, acs_control: u16) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[STATUS] = 0x10;
        bytes[FIRST_CAPABILITY] = 0x50;
        bytes[0x50..0x52].copy_from_slice(&[0x05, 0x40]);
        bytes[0x40..0x44].copy_from_slice(&[CAPABILITY_PCIE, 0, port_type << 4 | 2, 0]);
        bytes[0x100..0x104].copy_from_slice(&0x1401_0003_u32.to_le_bytes());
        bytes[0x140..0x144].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        bytes[0x146..0x148].copy_from_slice(&acs_control.to_le_bytes());
        bytes
    }

    #[test]
    fn port_type_and_acs_are_read() {
        let bytes = sample(6, 0x1d);
        assert_eq!(ConfigSpace(&bytes).port_type(), PortType::DownstreamPort);
        assert_eq!(ConfigSpace(&bytes).acs(), Acs::Present { control: 0x1d });
    }

    #[test]
    fn cut_configuration_is_unknown() {
        let bytes = sample(4, 0);
        for length in [0, 7, 64, 255, 257, 0x142] {
            let config = ConfigSpace(&bytes[..length]);
            assert_eq!(config.acs(), Acs::Unknown, "{length} bytes");
        }
        assert_eq!(ConfigSpace(&bytes[..64]).port_type(), PortType::Unknown);
    }

    #[test]
    fn function_without_extended_space_lacks_acs() {
        assert_eq!(ConfigSpace(&sample(0, 0x1d)[..256]).acs(), Acs::Absent);
    }

    #[test]
    fn function_without_capabilities_lacks_acs() {
        assert_eq!(ConfigSpace(&[0; 64]).acs(), Acs::Absent);
        assert_eq!(ConfigSpace(&[0; 64]).port_type(), PortType::NotPcie);
    }

    #[test]
    fn silent_device_is_unknown() {
        assert_eq!(ConfigSpace(&[0xff; 4096]).acs(), Acs::Unknown);
    }

    #[test]
    fn virtual_function_keeps_its_registers() {
        let mut bytes = sample(0, 0x1d);
        bytes[..4].fill(0xff);
        for config in [bytes.clone(), without_addresses(&bytes)] {
            assert_eq!(ConfigSpace(&config).port_type(), PortType::OtherPcie);
            assert_eq!(ConfigSpace(&config).acs(), Acs::Present { control: 0x1d });
        }
    }

    #[test]
    fn zeros_behind_a_header_are_unknown() {
        let mut bytes = sample(4, 0x1d);
        bytes[HEADER..].fill(0);
        assert_eq!(ConfigSpace(&bytes).acs(), Acs::Unknown);
        assert_eq!(ConfigSpace(&bytes).port_type(), PortType::Unknown);
    }

    #[test]
    fn silent_device_stays_unknown_when_captured() {
        for length in [64, 256, 4096] {
            let kept = without_addresses(&vec![0xff; length]);
            assert_eq!(ConfigSpace(&kept).acs(), Acs::Unknown, "{length}");
        }
    }

    #[test]
    fn a_list_that_loops_ends() {
        let mut bytes = sample(4, 0);
        bytes[0x50..0x52].copy_from_slice(&[0x05, 0x50]);
        assert_eq!(ConfigSpace(&bytes).port_type(), PortType::NotPcie);
        let mut bytes = sample(4, 0);
        bytes[0x100..0x104].copy_from_slice(&0x1001_0003_u32.to_le_bytes());
        assert_eq!(ConfigSpace(&bytes).acs(), Acs::Absent);
    }

    #[test]
    fn serial_numbers_are_not_kept() {
        const SECRET: u8 = 0xc7;
        let mut bytes = sample(0, 0);
        // Vital product data: address, flag, and the last four bytes that were read (PCI 3.0 appendix I).
        bytes[0x50..0x58]
            .copy_from_slice(&[0x03, 0x60, SECRET, SECRET, SECRET, SECRET, SECRET, SECRET]);
        // Of a maker's own capability, what makers put there.
        bytes[0x60..0x64].copy_from_slice(&[0x09, 0x40, 0x10, SECRET]);
        bytes[0x64..0x70].fill(SECRET);
        // Device Serial Number (PCIe 6.0 7.9.3), then a maker's own extended capability.
        bytes[0x104..0x10c].fill(SECRET);
        bytes[0x140..0x144].copy_from_slice(&0x1801_000b_u32.to_le_bytes());
        bytes[0x144..0x180].fill(SECRET);
        bytes[0x180..0x184].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        // Subsystem identity, which some makers count up, and the address of the ROM.
        bytes[0x2c..0x34].fill(SECRET);
        let kept = without_addresses(&bytes);
        assert!(!kept.contains(&SECRET), "{:x?}", kept.iter().position(|&byte| byte == SECRET));
        assert_eq!(ConfigSpace(&kept).acs(), Acs::Present { control: 0 });
        assert_eq!(ConfigSpace(&kept).port_type(), PortType::OtherPcie);
        assert_eq!(kept[0x100..0x104], bytes[0x100..0x104], "that it has one is kept");
    }

    #[test]
    fn kept_bytes_say_the_same() {
        let mut bytes = sample(6, 0x1d);
        bytes[0x10..0x18].fill(0xaa);
        bytes[0x104..0x10c].fill(0xbb);
        let kept = without_addresses(&bytes);
        assert_eq!(kept.len(), bytes.len());
        assert!(!kept.contains(&0xaa) && !kept.contains(&0xbb));
        assert_eq!(ConfigSpace(&kept).port_type(), PortType::DownstreamPort);
        assert_eq!(ConfigSpace(&kept).acs(), Acs::Present { control: 0x1d });
    }

    proptest! {
        #[test]
        fn any_kept_bytes_say_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000)
        ) {
            let kept = without_addresses(&bytes);
            let (before, after) = (ConfigSpace(&bytes), ConfigSpace(&kept));
            prop_assert_eq!(before.port_type(), after.port_type());
            prop_assert_eq!(before.acs(), after.acs());
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let config = ConfigSpace(&bytes);
            let _ = (config.port_type(), config.acs());
        }

        #[test]
        fn damaged_configuration_is_read(at in 0usize..4096, value: u8, length in 0usize..4096) {
            let mut bytes = sample(4, 0x1d);
            bytes[at] = value;
            let config = ConfigSpace(&bytes[..length]);
            let _ = (config.port_type(), config.acs());
        }
    }
}
