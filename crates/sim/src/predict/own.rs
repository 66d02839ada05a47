//! What limits a transfer that no resource of the machine does.
//!
//! Leaves out how much of it there is. The one thing to know: commands of a drive are here also where several transfers share
//! them, although its medium is the resource then: a medium that is faster would carry out no more of them.

use peerlane_results::Order;

use crate::model::{NodeIndex, Topology};

/// What a transfer has of its own, or a drive does of its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Own {
    /// Commands a second of a drive, of blocks one after the other.
    Commands(NodeIndex),
    /// The same of blocks in random order.
    RandomCommands(NodeIndex),
    /// The processor that its thread runs on.
    Processor,
    /// What it was asked not to exceed.
    Limit,
    /// Blocks in flight.
    Depth,
    /// The same where its path has slots of its own, of which nobody can ask for more.
    Stages,
}

impl Own {
    /// Commands of a drive.
    pub(super) fn commands(drive: NodeIndex, order: Order) -> Self {
        match order {
            Order::Sequential => Self::Commands(drive),
            Order::Random => Self::RandomCommands(drive),
        }
    }

    /// The drive whose commands these are.
    pub(super) fn drive(self) -> Option<NodeIndex> {
        match self {
            Self::Commands(drive) | Self::RandomCommands(drive) => Some(drive),
            Self::Processor | Self::Limit | Self::Depth | Self::Stages => None,
        }
    }

    /// In words, of one transfer.
    pub(super) fn name(self, topology: &Topology) -> String {
        let of = |what, drive| format!("{what} of {}", topology.node(drive).name);
        match self {
            Self::Commands(drive) => of("commands", drive),
            Self::RandomCommands(drive) => of("random commands", drive),
            Self::Processor => "the processor".to_owned(),
            Self::Limit => "its limit".to_owned(),
            Self::Depth => "its depth".to_owned(),
            Self::Stages => "stages of a block, one after the other".to_owned(),
        }
    }

    /// Those of several drives, all of which limit something; `None` for what is not of drives, or is of one.
    pub(super) fn several(self, count: usize) -> Option<String> {
        let what = match self {
            Self::Commands(_) => "commands",
            Self::RandomCommands(_) => "random commands",
            Self::Processor | Self::Limit | Self::Depth | Self::Stages => return None,
        };
        (count > 1).then(|| format!("{what} of {count} drives"))
    }
}
