//! FPGA cards and drives of one SmartSSD, matched by their switch and by the card's DNA, which its drive names.

use std::collections::BTreeMap;

use peerlane_fabric::{Dna, Fabric, FunctionId, FunctionKind, Pairing};

/// Devices of a SmartSSD (Xilinx UG1382, "U.2 Platform"): its user function, and its drive.
const USER_FUNCTION: (u16, u16) = (0x10ee, 0x6988);
const DRIVES: [(u16, u16); 2] = [(0x144d, 0xa824), (0x144d, 0xa825)];

/// DNA of cards, as read from cards and drives.
#[derive(Debug, Clone, Default)]
pub struct Dnas {
    known: BTreeMap<FunctionId, Dna>,
    /// Names of functions that could not be read, each with the reason.
    unknown: Vec<(String, String)>,
}

/// A card, and the drive that is on its board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardPair {
    /// The card's user function.
    pub card: FunctionId,
    /// The drive, as far as it is known.
    pub pairing: Pairing,
}

/// The user functions of SmartSSDs.
pub fn smart_cards(fabric: &Fabric) -> Vec<FunctionId> {
    functions_of_kind(fabric, FunctionKind::Fpga, &[USER_FUNCTION])
}

/// The drives of SmartSSDs.
pub fn smart_drives(fabric: &Fabric) -> Vec<FunctionId> {
    functions_of_kind(fabric, FunctionKind::Nvme, &DRIVES)
}

fn functions_of_kind(
    fabric: &Fabric,
    kind: FunctionKind,
    devices: &[(u16, u16)],
) -> Vec<FunctionId> {
    let is_it = |ids: (Option<u16>, Option<u16>)| {
        devices.iter().any(|&(vendor, device)| ids == (Some(vendor), Some(device)))
    };
    let all = fabric.iter();
    all.filter(|(_, one)| one.kind == kind && is_it((one.vendor, one.device)))
        .map(|(id, _)| id)
        .collect()
}

impl Dnas {
    /// Adds the answer of a card or drive; `None` if it names no DNA.
    pub fn add(&mut self, fabric: &Fabric, id: FunctionId, read: std::io::Result<Option<Dna>>) {
        match read {
            Ok(Some(dna)) => {
                self.known.insert(id, dna);
            }
            Ok(None) => {}
            Err(error) => {
                self.unknown.push((fabric.function(id).name.clone(), error.to_string()));
            }
        }
    }

    /// Names of functions that could not be read, each with the reason.
    pub(crate) fn unknown(&self) -> &[(String, String)] {
        &self.unknown
    }

    /// The DNA of a card or a drive.
    pub(crate) fn get(&self, id: FunctionId) -> Option<Dna> {
        self.known.get(&id).copied()
    }

    #[cfg(test)]
    pub(crate) fn of_test(
        known: BTreeMap<FunctionId, Dna>,
        unknown: Vec<(String, String)>,
    ) -> Self {
        Self { known, unknown }
    }
}

/// Every user function of a SmartSSD with the pairing to its drive, as far as it is known.
pub fn card_pairs(fabric: &Fabric, dnas: &Dnas) -> Vec<CardPair> {
    let cards = smart_cards(fabric).into_iter();
    cards.map(|card| CardPair { card, pairing: fabric.pairing(card, &dnas.known) }).collect()
}

/// Describes the evidence for the drive of a card; `None` if there is none.
pub fn pair_in_words(fabric: &Fabric, pair: CardPair) -> Option<String> {
    let name = |id: FunctionId| fabric.function(id).name.as_str();
    let card = name(pair.card);
    Some(match pair.pairing {
        Pairing::Unknown => return None,
        Pairing::BySwitch(drive) => {
            format!("{card} and {} are one SmartSSD, by their switch", name(drive))
        }
        Pairing::ByDna(drive) => {
            format!("{card} and {} are one SmartSSD, by the FPGA's DNA", name(drive))
        }
        Pairing::ByBoth(drive) => {
            format!(
                "{card} and {} are one SmartSSD, by their switch and the FPGA's DNA",
                name(drive)
            )
        }
        Pairing::Contradiction { switch, dna: Some(drive) } => format!(
            "{card} hangs from one switch with {}, and the FPGA's DNA is what {} names",
            name(switch),
            name(drive)
        ),
        Pairing::Contradiction { switch, dna: None } => {
            format!("{card} hangs from one switch with {}, which names another FPGA", name(switch))
        }
    })
}
