//! Tests of the reach crate through its public face, in one binary because linking costs most.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod captured;
mod decision;
mod difference;
mod drivers;
mod generated;
#[path = "../../../fabric/tests/suite/handmade.rs"]
mod handmade;
mod kernel_oracle;
mod lspci_generated;
#[path = "../../../fabric/tests/suite/lspci_tree.rs"]
mod lspci_tree;
mod lspci_verdicts;
mod lspci_workstation;
mod machines;
mod matrix;
mod nccl;
#[path = "../../../fabric/tests/suite/random.rs"]
mod random;

// The file of another package above is where it is used.
use tempfile as _;
mod uses;
