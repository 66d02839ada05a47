//! What the devices of a machine can be used for, what is in the way, and what to do.
//!
//! Pure functions of a fabric, but for boot loaders, whose files `drop_ins` looks at. What only the running machine
//! tells is passed in as [`HostFacts`].
#![forbid(unsafe_code)]

mod cards;
mod examine;
mod pair;
mod verdict;

pub use cards::{CardPair, Dnas, card_pairs, pair_in_words, smart_cards, smart_drives};
pub use examine::{
    DropIn, HostFacts, PlannedCopy, after_restart, drop_ins, examine, examine_copy, examine_device,
    examine_devices,
};
pub use pair::{explain_pair, pair_record};
pub use verdict::{EndsVerdict, devices_verdict};

#[cfg(test)]
use peerlane_testing as testing;
