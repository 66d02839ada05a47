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
use peerlane_sim::predict::SOLVER_ERROR;

/// Most mean relative error of a single flow that `docs/model.md` states.
const MEAN_ERROR: f64 = 0.05;

#[test]
fn rates_are_as_near_as_stated() {
    for seeds in [DEVELOPMENT, HOLD_OUT] {
        let cases = compared(&seeds, &FAMILIES);
        let [sums, flows] = spreads(cases.iter().map(|(.., compared)| compared));
        let is_near = sums[1] < SOLVER_ERROR && flows[0] < MEAN_ERROR;
        assert!(is_near, "seeds {seeds:?}: {sums:?} {flows:?}");
    }
}
