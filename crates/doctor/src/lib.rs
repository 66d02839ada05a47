//! Uses of a machine's devices, obstacles to them, and the fixes.
//!
//! Everything follows from a fabric alone; [`HostFacts`] adds the facts that only the running
//! machine tells. The scripts of [`drop_ins`] depend on the files of a boot loader, too.
#![forbid(unsafe_code)]

mod assumed;
mod cards;
pub mod difference;
mod examine;
mod pair;
mod verdict;

pub use assumed::assumed_setting;
pub use cards::{CardPair, Dnas, card_pairs, pair_in_words, smart_cards, smart_drives};
pub use examine::{
    DropIn, HostFacts, PlannedCopy, after_restart, drop_ins, examine, examine_copy, examine_device,
    examine_devices,
};
pub use pair::{explain_pair, pair_record};
pub use verdict::{EndsVerdict, devices_verdict};

#[cfg(test)]
use peerlane_testing as testing;
