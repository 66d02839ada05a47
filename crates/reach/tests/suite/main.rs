//! Tests of the reach crate through its public face, in one binary because linking costs most.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod captured;
mod decision;
mod drivers;
#[path = "../../../fabric/tests/suite/handmade/mod.rs"]
mod handmade;
mod kernel_oracle;
mod machines;
mod matrix;
mod nccl;
#[path = "../../../fabric/tests/suite/random.rs"]
mod random;
