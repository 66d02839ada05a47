//! Reachability between PCI functions: the kernel's decision and each driver's own rule, as values.
//!
//! [`decide`] mirrors the Linux kernel's peer-to-peer decision as a pure function of a
//! [`Fabric`](peerlane_fabric::Fabric) that returns its reasons. A verdict that depends on a fact the
//! fabric leaves open is [`MapType::Conditional`] or [`MapType::Unknown`], never a guess. Nothing
//! here reads a file or moves data.
#![forbid(unsafe_code)]

mod allow_list;
mod decision;
mod decisions;
mod difference;
mod drivers;
mod explain;
mod fact;
mod groups;
mod matrix;
mod network;
mod open_fact;
mod pair;
mod peer_pages;
mod rdma;
mod support;
mod unserved;
mod uses;
mod verdict;

pub use allow_list::NEWEST_LIST;
pub use decision::{Condition, MapType, Reach, decide};
pub use decisions::{Decisions, MatrixCell};
pub use difference::{
    ChangeEffect, ChangeKind, ChangedPairs, ComparedFunction, MachineChange, MachineDifference,
    Matching, UncomparedFact, UncomparedReason,
};
pub use drivers::{
    CardPages, DriverAnswer, DriverRule, GpuLinkKind, GpuLinkState, GuestVerdict, card_risk,
    environment_notes, gpu_link, guest, is_lent_by_xrt, missing_registry_keys, multipath_refuses,
    nature, needs_translation, nvidia_fs_question, nvidia_fs_refusal, rules, udev_refusal,
};
pub use explain::{ExplanationStep, explain};
pub use fact::{Fact, KernelList, UnreadRegister};
pub use groups::{GroupAnswer, ReachGroup, ReachGroups};
pub use matrix::{Detail, Matrix, Peers};
pub use network::NetworkDriveMemory;
pub use open_fact::{GroupNeed, Need, UnknownFact};
pub use pair::{Direction, PacketPath, Pair, PathClass, PeerMemory, SlowestLink, Turn};
pub use peer_pages::{MD_LEVELS, MD_SINCE, MULTIPATH_SINCE, PEER_REQUEST_MAX};
pub use rdma::{RdmaLine, rdma_lines, unusable_port};
pub use support::kernel_refusal;
pub use unserved::{ADDRESS_SPACE_FIX, Unserved};
pub use uses::{
    JudgedPairs, PairGroup, Use, UseAnswer, UseLeg, answers, judged_between, judged_of,
    judged_pairs,
};
pub use verdict::{RouteState, Verdict, used_gpu_link};
