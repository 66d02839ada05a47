//! Cards of a machine: functions whose memory is a BAR backed by a file of the host.
//!
//! The file is the memory: the host reads in it the bytes that a drive of the guest wrote there by
//! DMA.

use std::fs::File;
use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, Function, FunctionId};
use peerlane_units::Bytes;

use crate::{LabError, drives};

/// A card and its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabCard {
    /// The function of the machine.
    pub(crate) function: FunctionId,
    /// Name.
    pub(crate) name: String,
    /// The file that is its memory.
    pub(crate) memory: PathBuf,
}

/// Images of drives and memories of cards, by name.
pub(crate) type Images = Vec<(String, PathBuf)>;

/// Splits files given by name into those of cards, and the rest.
pub(crate) fn part(machine: &Fabric, images: &Images) -> (Images, Images) {
    let is_of_a_card = |name: &str| {
        machine.functions.iter().any(|function| function.lab.is_ram_bar && function.name == name)
    };
    images.iter().cloned().partition(|(name, _)| is_of_a_card(name))
}

/// Pairs each card with its file: a named one, else a sparse one in `scratch`.
pub(crate) fn prepare(
    machine: &Fabric,
    images: &Images,
    scratch: &Path,
) -> Result<Vec<LabCard>, LabError> {
    let mut cards = Vec::new();
    for (id, function) in machine.iter().filter(|(_, function)| function.lab.is_ram_bar) {
        drives::check_name(machine, &function.name)?;
        let mut named = images.iter().filter(|(name, _)| *name == function.name);
        let memory = match (named.next(), named.next()) {
            (Some((name, image)), Some(_)) => {
                return Err(bad(name, image, "the card is given twice".to_owned()));
            }
            (Some((name, image)), None) => {
                check(image, size(function)).map_err(|reason| bad(name, image, reason))?
            }
            (None, _) => {
                let path = scratch.join(format!("memory-{}.img", function.name.replace(':', "_")));
                let create = || File::create_new(&path)?.set_len(size(function).0);
                create().map_err(LabError::io("create the memory of a card in", &path))?;
                path
            }
        };
        cards.push(LabCard { function: id, name: function.name.clone(), memory });
    }
    Ok(cards)
}

/// Size of a card's memory.
pub(crate) fn size(function: &Function) -> Bytes {
    function.p2pmem.map(|memory| memory.size).unwrap_or_default()
}

fn check(image: &Path, size: Bytes) -> Result<PathBuf, String> {
    drives::check_regular(image)?;
    let found = image.metadata().map_err(|error| error.to_string())?.len();
    if found != size.0 {
        return Err(format!("it has {found} bytes, and the card's memory has {}", size.0));
    }
    image.canonicalize().map_err(|error| error.to_string())
}

fn bad(card: &str, image: &Path, reason: String) -> LabError {
    LabError::BadDrive { drive: card.to_owned(), image: image.to_owned(), reason }
}
