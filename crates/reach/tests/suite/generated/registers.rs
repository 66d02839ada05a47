//! Registers whose content is a fact of the machine: PCIe and its link, SR-IOV, resizable windows.

use super::capabilities::{Noise, put};

/// Codes of the link registers in megatransfers (PCIe 6.0 section 7.5.3.6); 0 is unknown.
const MEGATRANSFERS: [u32; 7] = [0, 2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

/// Device and port types (PCIe 6.0 section 7.5.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortType {
    Endpoint = 0,
    LegacyEndpoint = 1,
    RootPort = 4,
    UpstreamPort = 5,
    DownstreamPort = 6,
    BridgeToPci = 7,
    Integrated = 9,
    EventCollector = 10,
}

impl PortType {
    fn has_link(self) -> bool {
        !matches!(self, Self::Integrated | Self::EventCollector)
    }
}

/// A value of a link register: code of the speed, and width.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LinkValue {
    pub(super) code: u8,
    pub(super) width: u8,
}

impl LinkValue {
    fn word(self) -> u16 {
        u16::from(self.code) | u16::from(self.width) << 4
    }

    /// Speed and width as the kernel prints them.
    pub(super) fn in_sysfs(self) -> (String, String) {
        let speed = match MEGATRANSFERS[usize::from(self.code)] {
            0 => "Unknown".to_owned(),
            rate => format!("{}.{} GT/s PCIe", rate / 1000, rate % 1000 / 100),
        };
        (speed, self.width.to_string())
    }
}

/// The PCIe capability.
#[derive(Debug, Clone)]
pub(super) struct Express {
    pub(super) port_type: PortType,
    pub(super) version: u8,
    pub(super) has_slot: bool,
    pub(super) maximum: LinkValue,
    pub(super) current: LinkValue,
    /// Content of everything else.
    pub(super) seed: u64,
}

impl Express {
    /// The capability with all registers that its type and version have (PCIe 1.1 and 6.0 section 7.5.3).
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = match (self.version, self.port_type) {
            (2, _) => 0x3c,
            (_, PortType::RootPort) => 0x24,
            _ if self.has_slot => 0x1c,
            _ => 0x14,
        };
        let mut bytes = Noise::bytes(self.seed, length);
        let flags = u16::from(self.version) | (self.port_type as u16) << 4;
        put(&mut bytes, 2, &(flags | u16::from(self.has_slot) << 8).to_le_bytes());
        let (maximum, current) = if self.port_type.has_link() {
            (self.maximum, self.current)
        } else {
            Default::default()
        };
        bytes[0x0c] = maximum.word() as u8;
        bytes[0x0d] = bytes[0x0d] & 0xfc | (maximum.word() >> 8) as u8;
        bytes[0x12] = current.word() as u8;
        bytes[0x13] = bytes[0x13] & 0xfc | (current.word() >> 8) as u8;
        if self.version == 2 {
            let speeds = ((1u16 << (maximum.code + 1)) - 1) as u8 & 0xfe;
            let crosslink = bytes[0x2d] & 1;
            put(&mut bytes, 0x2c, &[speeds, crosslink, 0, 0]);
        }
        bytes
    }

    /// The values that the kernel shows for its link: most, and now.
    pub(super) fn in_sysfs(&self) -> [LinkValue; 2] {
        if self.port_type.has_link() {
            [self.maximum, self.current]
        } else {
            // A register that is not there reads as zero, and the width as unknown.
            [LinkValue { code: 0, width: 255 }, LinkValue::default()]
        }
    }
}

/// A window whose size can be changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resizable {
    pub(super) index: u8,
    /// Exponents of 2 of its size and of the largest one, in bytes.
    pub(super) own: u8,
    pub(super) largest: u8,
}

impl Resizable {
    /// Sizes that it can have: bit n stands for 2^n MiB.
    pub(super) fn sizes(self) -> u32 {
        (self.own..=self.largest).fold(0, |sizes, shift| sizes | 1 << (shift - 20))
    }

    /// The capability of one window (PCIe 6.0 section 7.8.6).
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        put(&mut bytes, 4, &(self.sizes() << 4).to_le_bytes());
        let control = u32::from(self.index) | 1 << 5 | u32::from(self.own - 20) << 8;
        put(&mut bytes, 8, &control.to_le_bytes());
        bytes
    }
}

/// The registers of SR-IOV (PCIe 6.0 section 9.3.3).
#[derive(Debug, Clone, Copy)]
pub(super) struct VirtualFunctionRegisters {
    pub(super) count: u16,
    pub(super) total: u16,
    pub(super) offset: u16,
    pub(super) stride: u16,
    pub(super) device: u16,
    pub(super) seed: u64,
}

impl VirtualFunctionRegisters {
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = Noise::bytes(self.seed, 0x40);
        // Enabled, with memory, where there are some.
        put(&mut bytes, 0x08, &[if self.count > 0 { 0x19 } else { 0x10 }, 0, 0, 0]);
        let numbers = [
            (0x0c, self.total),
            (0x0e, self.total),
            (0x10, self.count),
            (0x12, 0),
            (0x14, self.offset),
        ];
        for (at, number) in numbers.into_iter().chain([(0x16, self.stride), (0x1a, self.device)]) {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        // 64-bit prefetchable windows.
        put(&mut bytes, 0x24, &[0x0c, 0, 0, 0xa0, 2, 0, 0, 0]);
        put(&mut bytes, 0x2c, &[0; 20]);
        bytes
    }
}
