//! Builds the workload of a brief: the parts common to all kinds.

use std::borrow::Cow;

use peerlane_results::{CaseSpec, Flow, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind};
use peerlane_units::{Bytes, Nanos};

use super::{Brief, check, crowd, matrix, roundtrip, stream, sweep};

/// Blocks in flight where nothing is said.
const DEPTH: u32 = 16;
const BLOCK: Bytes = Bytes::mib(1);
/// Bytes that a transfer moves where nothing is said.
const LENGTH: Bytes = Bytes::mib(1024);

/// Runs of a case where nothing is said: until the interval of its mean is useful, between these
/// numbers, and no longer than this once all have the least.
const LEAST: u32 = 3;
const MOST: u32 = 20;
const USEFUL_PER_MILLE: u32 = 100;
const TIME: Nanos = Nanos::seconds(60);

/// Reasons why a brief is not a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BriefError {
    /// Something that this kind cannot do without.
    #[error("a {kind} needs {what}")]
    Missing {
        /// The kind.
        kind: WorkloadKind,
        /// Things that it needs.
        what: Cow<'static, str>,
    },
    /// More than can be run or kept.
    #[error("{count} {what} are too many: {most} at most")]
    TooMany {
        /// Name of the things.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The most there may be.
        most: usize,
    },
    /// A range that no block fits, or that ends behind the largest offset.
    #[error("no block fits {length} from offset {offset}")]
    Range {
        /// Start.
        offset: Bytes,
        /// Length.
        length: Bytes,
    },
    /// A number that is too small or too large.
    #[error("{place}: {what} is {found}; it lies between {low} and {high}")]
    Bounds {
        /// The case, or another owner of the number.
        place: String,
        /// Name of the number.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The least it may be.
        low: u64,
        /// The most it may be.
        high: u64,
    },
    /// The same end twice, which would be read or written by two transfers at a time in one place.
    #[error("{name} is given twice as a {what}")]
    Repeated {
        /// `source` or `target`.
        what: &'static str,
        /// The end.
        name: String,
    },
    /// Cases that a record could not tell apart.
    #[error("two cases are called `{name}`: name each block, route and drive once")]
    Twice {
        /// The name.
        name: String,
    },
}

impl Brief {
    /// Names every transfer.
    ///
    /// # Errors
    /// [`BriefError`] names the missing or surplus part.
    pub fn build(&self) -> Result<Workload, BriefError> {
        check::brief(self)?;
        let (what, cases) = match self.kind {
            WorkloadKind::Sweep => sweep::cases(self)?,
            WorkloadKind::Matrix => matrix::cases(self)?,
            WorkloadKind::Crowd => crowd::cases(self)?,
            WorkloadKind::Stream => stream::cases(self)?,
            WorkloadKind::Roundtrip => roundtrip::cases(self)?,
        };
        if cases.is_empty() {
            return Err(BriefError::Range { offset: self.offset, length: self.length() });
        }
        let workload = Workload {
            schema: WORKLOAD_SCHEMA.to_owned(),
            name: format!("{} {what}", self.kind),
            kind: self.kind,
            cases,
            repeats: self.repeats(),
            seed: self.seed,
        };
        check::check(&workload)?;
        Ok(workload)
    }

    fn repeats(&self) -> Repeats {
        let warm_up = self.warm_up.unwrap_or(1);
        let (least, most, until_per_mille, time_ns) = match (self.repeats, self.until_per_mille) {
            (None, None) => (LEAST, MOST, Some(USEFUL_PER_MILLE), Some(TIME)),
            (Some(most), None) => (most, most, None, None),
            (most, until) => (most.unwrap_or(100).min(5), most.unwrap_or(100), until, None),
        };
        Repeats { warm_up, least, most, until_per_mille, time_ns }
    }

    pub(super) fn missing(&self, what: impl Into<Cow<'static, str>>) -> BriefError {
        BriefError::Missing { kind: self.kind, what: what.into() }
    }

    pub(super) fn length(&self) -> Bytes {
        self.length.unwrap_or(LENGTH)
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth.unwrap_or(DEPTH)
    }

    pub(super) fn blocks(&self) -> Vec<Bytes> {
        if self.blocks.is_empty() { vec![BLOCK] } else { self.blocks.clone() }
    }

    pub(super) fn routes(&self, usual: &[Path]) -> Vec<Path> {
        if self.routes.is_empty() { usual.to_vec() } else { self.routes.clone() }
    }

    /// A transfer over the whole range in blocks of this size; `None` where no block fits.
    pub(super) fn flow(
        &self,
        source: &str,
        target: &str,
        path: Path,
        block: Bytes,
    ) -> Option<Flow> {
        let bytes = self.length().round_down(block);
        let depth = match path {
            Path::HostSerial | Path::HostPageCache | Path::HostMapped => 1,
            // One core copies, block after block.
            _ if source == "host" && target == "host" => 1,
            Path::P2p | Path::HostPipelined | Path::HostCufile => self.depth(),
        };
        (bytes > Bytes::ZERO).then(|| Flow {
            source: source.to_owned(),
            target: target.to_owned(),
            via: self.via.clone().filter(|_| path == Path::P2p),
            path,
            block,
            depth,
            order: self.order,
            offset: self.offset,
            target_offset: self.target_offset.unwrap_or(self.offset),
            bytes,
            limit: self.limit,
            start_ns: Nanos(0),
            stage: self.stage.clone(),
        })
    }

    /// Returns the offset of the `index`th range that is written on a drive that is read as well.
    pub(super) fn behind(&self, index: u64) -> Bytes {
        let first = self.offset.0.saturating_add(self.length().0);
        let first = self.target_offset.map_or(first, |offset| offset.0);
        Bytes(first.saturating_add(self.length().0.saturating_mul(index)))
    }

    pub(super) fn case(&self, name: String, flows: Vec<Flow>) -> CaseSpec {
        CaseSpec { name, flows, time_ns: self.time_ns }
    }
}
