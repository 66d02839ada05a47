//! Tests of the fabric crate through its public face, in one binary because linking costs most.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod blocks;
mod captures;
mod discovery;
mod environment;
mod foreign_archives;
mod foreign_trees;
mod handmade;
mod lspci;
mod lspci_account;
mod lspci_cuts;
mod lspci_tree;
mod machine_files;
mod nccl;
mod nccl_write;
mod random;
mod rdma;
mod remote;
mod synthetic;
