//! The flow engine against packets, in the mean over families of hard cases.
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

/// Mean relative errors that `docs/model.md` states, of sums and of single flows, with room for small changes.
const STATED: [[f64; 2]; 2] = [[0.003, 0.015], [0.006, 0.03]];

#[test]
fn rates_are_as_near_as_stated() {
    for (seeds, stated) in [DEVELOPMENT, HOLD_OUT].into_iter().zip(STATED) {
        let cases = compared(&seeds, &FAMILIES);
        let [sums, flows] = spreads(cases.iter().map(|(.., compared)| compared));
        let is_near = sums[0] < stated[0] && flows[0] < stated[1];
        assert!(is_near, "seeds {seeds:?}: {sums:?} {flows:?}");
    }
}
