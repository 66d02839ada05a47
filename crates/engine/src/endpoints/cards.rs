//! Reads which FPGA card and which drive of this machine are one SmartSSD.
//!
//! It reads a register of the card and asks the drive who it is (Identify Controller): both leave things as they
//! are, and both take root. A machine without such a card is not touched.

use std::path::Path;

use peerlane_doctor::{Dnas, smart_cards, smart_drives};
use peerlane_fabric::{Dna, Fabric};
use peerlane_memory::xrt::dna;
use rustix::fs::{Mode, OFlags};

use crate::io::DEADLINE;
use crate::io::ring::{apart, identify_controller};

/// Reads the DNA of every SmartSSD of this machine; nothing of a machine that is described, or that has none.
pub fn read_dna(fabric: &Fabric) -> Dnas {
    let mut dnas = Dnas::default();
    let cards = smart_cards(fabric);
    if !fabric.is_this_machine() || cards.is_empty() {
        return dnas;
    }
    for card in cards {
        let Some(address) = fabric.function(card).address else { continue };
        dnas.add(fabric, card, dna::read(Path::new("/"), &address.to_string()));
    }
    for drive in smart_drives(fabric) {
        let node = Path::new("/dev").join(&fabric.function(drive).name);
        let answer = apart::open(&node, OFlags::RDONLY, Mode::empty(), DEADLINE)
            .and_then(|node| identify_controller(&node, DEADLINE));
        dnas.add(fabric, drive, answer.map(|answer| Dna::of_drive(&answer)));
    }
    dnas
}
