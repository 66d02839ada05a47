//! Surroundings of a case: the ceilings on its path, its drives, its clock, the machine.

use peerlane_fabric::{Fabric, FunctionId, Temperature};
use peerlane_results::{Limit, Warning};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::{ClockReading, ceilings, machine};
use peerlane_evidence::{CaseDrive, CaseEvidence, DriveBytes, Observed, Root};

/// Surroundings of a case, read before it runs and completed by the caller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// Ceilings of every rate.
    pub ceilings: Vec<Ceiling>,
    /// Readings of the clocks; filled in after the run, `None` where they were not read.
    pub clock: Option<ClockReading>,
    /// The drives, in the order of the scene; [`Surroundings::saw`] adds their work.
    pub drives: Vec<DriveSurroundings>,
    /// Rates through the run; filled in after it, `None` where it was not watched.
    pub pace: Option<RateDrift>,
    /// Warnings that hold for every case here.
    pub machine: Vec<Warning>,
}

/// The most that an object on the way carries, in one direction, and which flows share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The object that is crossed, and the most payload a second.
    pub limit: Limit,
    /// Positions of the flows that cross it.
    pub flows: Vec<usize>,
    /// Certainty of the limit.
    pub firmness: Firmness,
}

/// Certainty of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firmness {
    /// It follows from the wire: the raw rate of a link, which payload with its headers never reaches.
    /// Nothing above it is tolerated.
    Physical,
    /// Measured once, or stated by a maker: 5 % above are tolerated.
    Stated,
}

/// The way of one flow through the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowPath {
    /// The function that reads the source; `None` for host memory and nothing.
    pub source: Option<FunctionId>,
    /// The function that writes the target; `None` for host memory and nothing.
    pub target: Option<FunctionId>,
    /// The function whose memory is between; `None` for host memory.
    pub memory: Option<FunctionId>,
}

/// A drive of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveSurroundings {
    /// The drive.
    pub drive: CaseDrive,
    /// Bytes that the case claims to have moved.
    pub claimed: DriveBytes,
    /// Bytes that the block layer counted; `None` where it does not.
    pub counted: Option<DriveBytes>,
    /// Temperature; read again after the run.
    pub temperature: Option<Temperature>,
    /// True when it has a volatile write cache that is on.
    pub has_write_cache: Option<bool>,
    /// Share of it that is written, as its namespace says; `None` where it does not say.
    pub in_use: Option<Bytes>,
    /// Capacity, if it is known.
    pub size: Option<Bytes>,
    /// Content that was read from it; filled in after the run.
    pub content: SourceContent,
}

/// Rates at the begin and at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateDrift {
    /// Mean of the first third of its time.
    pub first: ByteRate,
    /// Mean of the last third.
    pub last: ByteRate,
}

impl RateDrift {
    /// The pace of a run whose payload so far was seen at these times, in order of time; `None` for
    /// fewer than six looks, since their thirds say little.
    pub(crate) fn from_looks(looks: &[(Nanos, Bytes)]) -> Option<Self> {
        let third = looks.len() / 3;
        if third < 2 {
            return None;
        }
        let mean = |looks: &[(Nanos, Bytes)]| {
            let (&(begin, before), &(end, after)) = (looks.first()?, looks.last()?);
            ByteRate::mean(Bytes(after.0.checked_sub(before.0)?), end.since(begin))
        };
        Some(Self { first: mean(&looks[..third])?, last: mean(&looks[looks.len() - third..])? })
    }
}

/// Content of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceContent {
    /// It was not looked at.
    #[default]
    NotLookedAt,
    /// Something.
    Something,
    /// Zeroes only, wherever it was looked at.
    AllZero,
}

impl Surroundings {
    /// Reads the surroundings of flows with these ways, in their order, and these drives.
    pub fn read(fabric: &Fabric, root: &Root, ways: &[FlowPath], drives: &[CaseDrive]) -> Self {
        Self {
            ceilings: ceilings::on_the_ways(fabric, ways),
            drives: drives.iter().map(|one| DriveSurroundings::read(fabric, root, one)).collect(),
            machine: machine::warnings(fabric, root, ways),
            ..Self::default()
        }
    }

    /// True for an emulated machine, whose figures hold for semantics and not for speed.
    pub(super) fn is_emulated(&self) -> bool {
        self.machine.iter().any(|one| matches!(one, Warning::Emulated { .. }))
    }

    /// Takes in the claims of the drives and the counters.
    pub fn saw(&mut self, seen: &CaseEvidence, observed: &Observed) {
        for (position, drive) in self.drives.iter_mut().enumerate() {
            drive.claimed = seen.drives.get(position).copied().unwrap_or_default();
            drive.counted = observed.drives.get(position).copied().flatten();
        }
    }
}
