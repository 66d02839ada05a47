//! The flow engine against packets: within 2 % for sums and 6 % for single flows, in the mean over families of hard cases.
//!
//! `cargo run --release -p peerlane-sim --example agreement` prints the tables of `docs/model.md`.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod cases;
mod compare;

use cases::FAMILIES;
use compare::{DEVELOPMENT, HOLD_OUT, compared, spreads};

#[test]
fn rates_are_within_the_bounds() {
    for seeds in [DEVELOPMENT, HOLD_OUT] {
        let cases = compared(&seeds, &FAMILIES);
        let [sums, flows] = spreads(cases.iter().map(|(.., compared)| compared));
        assert!(sums[0] < 0.02 && flows[0] < 0.06, "seeds {seeds:?}: {sums:?} {flows:?}");
    }
}
