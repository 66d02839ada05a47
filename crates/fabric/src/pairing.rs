//! Pairs of an FPGA and a drive: the two ends of a SmartSSD, one device with a switch in it.
//!
//! Two signs show a pair, and neither needs the other. Both hang from the same switch, which
//! discovery sees. The drive names the FPGA on its board by that FPGA's DNA, which takes a command
//! to the drive and a look at the card ([`Dna`], Xilinx UG1382, "FPGA-SSD DNA Pairing").

use std::collections::BTreeMap;
use std::fmt;

use crate::{Fabric, FunctionId, FunctionKind, Parent};

const VENDOR_XILINX: u16 = 0x10ee;
/// Upstream port of the switch in a SmartSSD (Xilinx UG1382, and `lspci` of one).
const SWITCH: u16 = 0x9134;

/// Offset of the FPGA's name in the drive's answer to Identify Controller: byte 4Ch of the vendor's
/// part, which begins at 3072 (UG1382, appendix F; NVMe Base Specification 2.0, figure 276).
const IN_IDENTIFY: usize = 3072 + 0x4c;

/// The identifier that is burnt into an FPGA: 96 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dna([u32; 3]);

impl Dna {
    /// Of three registers, the lowest bits first; `None` for values of no FPGA: all zeroes, or all
    /// ones as from a register without a device behind it.
    pub fn of_words(words: [u32; 3]) -> Option<Self> {
        let is_one = !words.iter().all(|&word| word == 0) && !words.contains(&u32::MAX);
        is_one.then_some(Self(words))
    }

    /// Out of a drive's answer to Identify Controller; `None` where it names none.
    pub fn of_drive(answer: &[u8; 4096]) -> Option<Self> {
        let bytes = answer.get(IN_IDENTIFY..IN_IDENTIFY + 12)?;
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().ok()?);
        }
        Self::of_words(words)
    }

    /// As the driver `xocl` prints it: 24 digits, the highest bits first.
    pub fn of_text(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_hex = text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return None;
        }
        let word = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).ok();
        Self::of_words([word(16)?, word(8)?, word(0)?])
    }
}

impl fmt::Display for Dna {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, middle, high] = self.0;
        write!(f, "{high:08x}{middle:08x}{low:08x}")
    }
}

/// The drive that shares its SmartSSD with a card, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Nothing.
    Unknown,
    /// Both hang from the same switch of a SmartSSD.
    BySwitch(FunctionId),
    /// The drive names the card's DNA.
    ByDna(FunctionId),
    /// Both say so.
    ByBoth(FunctionId),
    /// The switch says this drive, and DNA another one, or that it is not this one.
    Contradiction {
        /// The drive below the switch.
        switch: FunctionId,
        /// The drive that names the card, if there is one.
        dna: Option<FunctionId>,
    },
}

impl Pairing {
    /// The drive, unless switch and DNA contradict each other.
    pub fn drive(self) -> Option<FunctionId> {
        match self {
            Self::BySwitch(drive) | Self::ByDna(drive) | Self::ByBoth(drive) => Some(drive),
            Self::Unknown | Self::Contradiction { .. } => None,
        }
    }
}

impl Fabric {
    /// Finds the drive that belongs to a card, by the switch and by known DNA.
    pub fn pairing(&self, card: FunctionId, known: &BTreeMap<FunctionId, Dna>) -> Pairing {
        let by_switch = self.drive_of_card(card);
        let own = known.get(&card).filter(|_| self.function(card).kind == FunctionKind::Fpga);
        let names_it = |(&id, dna): (&FunctionId, &Dna)| {
            (Some(dna) == own && self.function(id).kind == FunctionKind::Nvme).then_some(id)
        };
        let mut named = known.iter().filter_map(names_it);
        let by_dna = named.next().filter(|_| named.next().is_none());
        match (by_switch, by_dna) {
            (None, None) => Pairing::Unknown,
            (None, Some(drive)) => Pairing::ByDna(drive),
            (Some(switch), Some(drive)) if switch == drive => Pairing::ByBoth(drive),
            (Some(switch), dna @ Some(_)) => Pairing::Contradiction { switch, dna },
            (Some(switch), None) => match (own, known.get(&switch)) {
                (Some(own), Some(other)) if own != other => {
                    Pairing::Contradiction { switch, dna: None }
                }
                _ => Pairing::BySwitch(switch),
            },
        }
    }

    /// The drive that shares its SmartSSD with a function of an FPGA card.
    ///
    /// By the topology: both hang from downstream ports of the same switch, and that switch is the one of a
    /// SmartSSD. `None` for a card without a drive of its own, and where a switch has several drives.
    pub fn drive_of_card(&self, card: FunctionId) -> Option<FunctionId> {
        let switch = self.switch_of_card(card)?;
        let is_drive = |id: &FunctionId| self.function(*id).kind == FunctionKind::Nvme;
        let drives = self.iter().map(|(id, _)| id).filter(is_drive);
        let mut there = drives.filter(|&drive| self.port_above(drive) == Some(switch));
        there.next().filter(|_| there.next().is_none())
    }

    fn switch_of_card(&self, card: FunctionId) -> Option<FunctionId> {
        if self.function(card).kind != FunctionKind::Fpga {
            return None;
        }
        let switch = self.port_above(card)?;
        let found = self.function(switch);
        (found.vendor == Some(VENDOR_XILINX) && found.device == Some(SWITCH)).then_some(switch)
    }

    /// The upstream port of the switch that an endpoint hangs from.
    fn port_above(&self, endpoint: FunctionId) -> Option<FunctionId> {
        let Parent::Function(downstream) = self.function(endpoint).parent else { return None };
        let Parent::Function(upstream) = self.function(downstream).parent else { return None };
        (self.function(upstream).kind == FunctionKind::UpstreamPort).then_some(upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches, each with these endpoints: names that begin with `n` are drives, others FPGA
    /// functions.
    fn machine(device: &str, switches: &[&[&str]]) -> Fabric {
        let mut tree = String::new();
        for (index, ends) in switches.iter().enumerate() {
            tree += &format!("root{index} root-port\n up{index} upstream-port 10ee:{device}\n");
            for end in *ends {
                let kind = if end.starts_with('n') { "nvme" } else { "fpga" };
                tree += &format!("  down-{end} downstream-port\n   {end} {kind}\n");
            }
        }
        Fabric::from_toml(&peerlane_testing::machine_text(&tree)).unwrap()
    }

    fn drive(fabric: &Fabric, card: &str) -> Option<String> {
        let drive = fabric.drive_of_card(fabric.find(card).unwrap())?;
        Some(fabric.function(drive).name.clone())
    }

    #[test]
    fn card_pairs_with_drive_below_switch() {
        let fabric = machine("9134", &[&["n0", "f0"], &["f1", "n1"]]);
        assert_eq!(drive(&fabric, "f0").as_deref(), Some("n0"));
        assert_eq!(drive(&fabric, "f1").as_deref(), Some("n1"));
        assert_eq!(drive(&fabric, "n0"), None, "a drive is not a card");
    }

    #[test]
    fn unknown_switch_or_many_drives_unpaired() {
        assert_eq!(drive(&machine("1234", &[&["n0", "f0"]]), "f0"), None);
        assert_eq!(drive(&machine("9134", &[&["n0", "f0", "n1"]]), "f0"), None);
        assert_eq!(drive(&machine("9134", &[&["f0"], &["n1"]]), "f0"), None);
    }

    #[test]
    fn dna_is_read_from_every_source() {
        // The example of UG1382, appendix F.
        let mut answer = [0u8; 4096];
        answer[3072 + 0x4c..][..12]
            .copy_from_slice(&[0x05, 0xc2, 0xb0, 0x34, 0x29, 0x1b, 0x3a, 0x01, 0, 0, 0x02, 0x40]);
        let dna = Dna::of_words([0x34b0_c205, 0x013a_1b29, 0x4002_0000]).unwrap();
        assert_eq!(Dna::of_drive(&answer), Some(dna));
        assert_eq!(dna.to_string(), "40020000013a1b2934b0c205");
        assert_eq!(Dna::of_text("40020000013a1b2934b0c205\n"), Some(dna));
        for nothing in [Dna::of_drive(&[0; 4096]), Dna::of_drive(&[0xff; 4096])] {
            assert_eq!(nothing, None);
        }
        for text in
            ["", "40020000013a1b2934b0c20", "+0020000013a1b2934b0c205", "000000000000000000000000"]
        {
            assert_eq!(Dna::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn switch_and_dna_agree_or_contradict() {
        let fabric = machine("9134", &[&["n0", "f0"], &["n1", "f1"]]);
        let id = |name: &str| fabric.find(name).unwrap();
        let dna = |number: u32| Dna::of_words([number, 1, 2]).unwrap();
        let known = |all: &[(&str, u32)]| -> BTreeMap<_, _> {
            all.iter().map(|&(name, number)| (id(name), dna(number))).collect()
        };
        let pairing = |all: &[(&str, u32)]| fabric.pairing(id("f0"), &known(all));
        assert_eq!(pairing(&[]), Pairing::BySwitch(id("n0")));
        assert_eq!(pairing(&[("f0", 7)]), Pairing::BySwitch(id("n0")));
        assert_eq!(pairing(&[("f0", 7), ("n0", 7), ("n1", 8)]), Pairing::ByBoth(id("n0")));
        let other = Pairing::Contradiction { switch: id("n0"), dna: Some(id("n1")) };
        assert_eq!(pairing(&[("f0", 7), ("n0", 8), ("n1", 7)]), other);
        let none = Pairing::Contradiction { switch: id("n0"), dna: None };
        assert_eq!(pairing(&[("f0", 7), ("n0", 8)]), none);
        assert_eq!(
            pairing(&[("f0", 7), ("n0", 7), ("n1", 7)]),
            Pairing::BySwitch(id("n0")),
            "two say so"
        );
        let elsewhere = machine("1234", &[&["n0", "f0"]]);
        let known: BTreeMap<_, _> =
            ["n0", "f0"].map(|name| (elsewhere.find(name).unwrap(), dna(7))).into();
        let found = elsewhere.pairing(elsewhere.find("f0").unwrap(), &known);
        assert_eq!(
            found,
            Pairing::ByDna(elsewhere.find("n0").unwrap()),
            "passed into a virtual machine"
        );
    }
}
