//! Warnings: a closed list, each with its advice.

use std::fmt;

use peerlane_units::ByteRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Action of a copy that was to be resumed but had no journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResumedWithout {
    /// It began at its start.
    Begun,
    /// The target held all of the copy already: it was compared, and not written.
    Equal,
}

/// Something that a reader of a result should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The copy went through host memory although `auto` looked for a peer-to-peer route.
    FellBack {
        /// Reason why no peer-to-peer route was taken.
        reason: String,
    },
    /// Bytes were asked to move between devices, and nothing shows whether they did: they are in no count by route.
    RouteNotKnown {
        /// Reason why the route is unknown.
        reason: String,
    },
    /// The last bytes went through host memory, since a device moves whole blocks.
    TailByHost {
        /// Number of these bytes.
        bytes: u64,
    },
    /// Content at the target was not checked.
    NotVerified,
    /// Content at the target is not comparable: stages changed it, and no twin computes their work.
    NotComparable {
        /// Stages that change content.
        stages: String,
    },
    /// Content read into device memory was not compared with its source. Only a drive that may be
    /// written could bring it out again.
    MemoryNotChecked {
        /// The memory.
        memory: String,
    },
    /// The machine is emulated: results hold for semantics, not for speed.
    Emulated {
        /// Sign of the emulation: a vendor, a device.
        sign: String,
    },
    /// A debug build: CPU time and rates are not those of the product.
    DebugBuild,
    /// The depth asked for does not fit into the memory.
    DepthReduced {
        /// Slots asked for.
        asked: u32,
        /// Slots there is room for.
        slots: u32,
    },
    /// Direct I/O is not possible on this file system; the page cache was used.
    PageCache {
        /// Path of the file.
        path: String,
    },
    /// The copy could not have been resumed, had it been interrupted.
    NotResumable {
        /// Reason why it could not have been resumed.
        reason: String,
    },
    /// There was no journal to go on by.
    NothingToResume {
        /// Path at which it would be.
        journal: String,
        /// Action that was taken instead.
        outcome: ResumedWithout,
    },
    /// The journal could not be saved at times: it knew less than was done.
    JournalNotSaved {
        /// Reason why it was not saved.
        reason: String,
    },
    /// Device memory went back with payload in it: its next user can read that.
    NotScrubbed {
        /// Reason why it was not cleared.
        reason: String,
    },
    /// The users of the target could not be determined.
    NotGuarded {
        /// Reason why they are unknown.
        why: String,
    },
    /// Other hosts may be able to write to the target; the drive does not tell whether any can.
    SharedTarget {
        /// Path of the target.
        path: String,
    },
    /// A source that is in use may change while it is copied.
    SourceInUse {
        /// Its mount point, or its holder.
        by: String,
        /// Set where the running system needs it and it cannot be unmounted.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        carries_system: bool,
    },
    /// A link on the path runs below what both its ends support.
    LinkTrainedLow {
        /// The device below it.
        device: String,
        /// Rate and width that it runs at.
        current: String,
        /// Rate and width that both ends support.
        most: String,
    },
    /// A device hangs from another memory node than the one it is used from.
    RemoteNumaNode {
        /// The device.
        device: String,
        /// Its node.
        node: u32,
        /// The node that it is used from.
        used_from: u32,
        /// The user there: the processor that ran the program, or the device at the other end.
        by: String,
    },
    /// A drive is so warm that it may slow down.
    DriveHot {
        /// The drive.
        drive: String,
        /// Temperature, in thousandths of a degree Celsius.
        temperature: i32,
        /// Temperature at which it starts to warn, in the same unit.
        limit: i32,
    },
    /// Written data may still lie in a cache of the drive, so the rate does not last.
    InWriteCache {
        /// The drive.
        drive: String,
        /// Sign of the cache.
        sign: String,
    },
    /// The range that was read may never have been written. A drive answers such reads without
    /// reading its medium.
    NeverWritten {
        /// The drive.
        drive: String,
        /// Sign that it was never written.
        sign: String,
    },
    /// The frequency of the processor changes with its load.
    FrequencyScaling {
        /// The governor.
        governor: String,
    },
    /// The first counted run differs from the others.
    FirstRunOutlier {
        /// The case.
        case: String,
        /// Its rate over the median of the others, in thousandths.
        per_mille: u32,
    },
    /// The runs of a case differ a lot.
    Variance {
        /// The case.
        case: String,
        /// Standard deviation over mean, in thousandths.
        per_mille: u32,
    },
    /// Predicted rates had not settled when the model stopped looking for where they do.
    NotSettled {
        /// The case.
        case: String,
        /// Their remaining change, on average over time, in thousandths.
        per_mille: u32,
    },
    /// Packets of some transfers were not simulated: these have no percentiles, and rates of the flow engine.
    NotSimulated {
        /// The case.
        case: String,
        /// Number of these transfers.
        transfers: u32,
        /// Number of all transfers.
        of: u32,
    },
    /// A prediction has peers that the kernel would not permit, or perhaps not.
    NotPermitted {
        /// Owner of the memory.
        memory: String,
        /// Function that issues requests to it.
        initiator: String,
        /// Further pairs with the same warning.
        others: u64,
        /// Decision of the kernel, and its reason.
        reason: String,
    },
    /// Nothing says how fast links are that a prediction crosses.
    LinkNotStated {
        /// The devices and switches below them, the first few.
        below: Vec<String>,
        /// Number of further ones.
        others: u64,
        /// Generation and width that each was taken for.
        taken_as: String,
    },
    /// The trained speed and width of links that a prediction crosses are unknown.
    LinkNotTrained {
        /// The devices and switches below them, the first few.
        below: Vec<String>,
        /// Number of further ones.
        others: u64,
        /// The most that each supports, which it was taken for.
        taken_as: String,
    },
    /// Nothing says how fast network controllers are that a prediction sends or receives by.
    NetworkNotStated {
        /// The network controllers, the first few.
        nics: Vec<String>,
        /// Number of further ones.
        others: u64,
        /// Bytes a second that each was taken for.
        taken_as: ByteRate,
    },
    /// A prediction has peers behind a root complex without a stated rate between them.
    PeersNotStated {
        /// Its host bridge, or several of them, the first few.
        through: Vec<String>,
        /// Number of further ones.
        others: u64,
        /// The keys of a host bridge in a machine file that would state it.
        keys: Vec<String>,
    },
    /// A port on the path sends peer-to-peer traffic up to the root complex.
    AcsOnPath {
        /// The port.
        port: String,
    },
}

impl Warning {
    /// True for a copy that takes host memory although the direct route was wanted.
    pub fn is_fall_back(&self) -> bool {
        matches!(self, Self::FellBack { .. })
    }

    /// Returns advice for a person.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::FellBack { .. } => "`--route p2p` refuses instead; `peerlane plan` shows why",
            Self::RouteNotKnown { .. } => {
                "`--route p2p` refuses instead; `--route host` goes through host memory"
            }
            Self::TailByHost { .. } => "copy a multiple of the target's block size to avoid it",
            Self::NotComparable { .. } => {
                "`peerlane copy --stage-twin PROGRAM` compares content by a filter that does the same"
            }
            Self::NotVerified => "leave `--verify` at `sample`, or use `full`",
            Self::MemoryNotChecked { .. } => {
                "`peerlane bench roundtrip` and `sweep` check what came by device memory"
            }
            Self::Emulated { .. } => "measure speed on real devices",
            Self::DebugBuild => "build with `cargo build --release`",
            Self::DepthReduced { .. } => "use a smaller `--block` or `--depth`, or another memory",
            Self::PageCache { .. } => "use a file system with direct I/O, such as ext4 or XFS",
            Self::NotResumable { .. } => "name the drive by one with a serial, or copy in parts",
            Self::NothingToResume { outcome: ResumedWithout::Begun, .. } => {
                "check `--journal`, or who asked, where part of the copy should have been there"
            }
            Self::NothingToResume { outcome: ResumedWithout::Equal, .. } => {
                "nothing is left to do; `peerlane verify` compares once more"
            }
            Self::JournalNotSaved { .. } => "keep the journal elsewhere with `--journal FILE`",
            Self::NotScrubbed { .. } => "reset the drive that lends it",
            Self::NotGuarded { .. } => "plan on the machine itself before you copy there",
            Self::SharedTarget { .. } => {
                "make sure that no other host uses it: nothing here can tell"
            }
            Self::SourceInUse { carries_system: true, .. } => {
                "copy from a snapshot, or from a rescue system"
            }
            Self::SourceInUse { carries_system: false, .. } => "unmount it or copy from a snapshot",
            Self::LinkTrainedLow { .. } => {
                "reseat the card or cable and look for errors: `peerlane doctor`"
            }
            Self::RemoteNumaNode { .. } => {
                "run it on the device's node: `numactl --cpunodebind=N --membind=N`"
            }
            Self::DriveHot { .. } => "let it cool down, improve cooling, and measure again",
            Self::InWriteCache { .. } => {
                "write more than the cache holds, for longer, to a drive in its steady state"
            }
            Self::NeverWritten { .. } => "write the range once before it is read",
            Self::FrequencyScaling { .. } => "`sudo cpupower frequency-set --governor performance`",
            Self::FirstRunOutlier { .. } => "warm up longer with `--warm-up N`",
            Self::Variance { .. } => "run it more often, on a machine that does nothing else",
            Self::NotSettled { .. } => "`--engine tlp` follows packets instead",
            Self::NotSimulated { .. } => "predict them in cases of fewer transfers",
            Self::NotPermitted { .. } => {
                "`peerlane plan` on that machine shows the decision; predict the route `host`, too"
            }
            Self::LinkNotStated { .. } => {
                "say it in the machine file (`link = \"16GT/s x4\"`), or vary `pcie.lanes` and `pcie.generation`, or \
                 `NAME.lanes` and `NAME.generation` of one"
            }
            Self::LinkNotTrained { .. } => {
                "say what they run at in the machine file (`link`), or look with the devices at work"
            }
            Self::NetworkNotStated { .. } => {
                "say it in the machine file (`ethernet = \"12.5GB/s\"` for 100 Gbit/s), or vary `ethernet.rate`"
            }
            Self::PeersNotStated { .. } => {
                "add the measured rate to the host bridge in the machine file; docs/model.md has published rates \
                 of others"
            }
            Self::AcsOnPath { .. } => "`peerlane doctor` names the kernel parameter that lifts it",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FellBack { reason } => write!(f, "copied through host memory: {reason}"),
            Self::RouteNotKnown { reason } => {
                write!(f, "the route that bytes took is unknown: {reason}")
            }
            Self::TailByHost { bytes } => {
                write!(f, "the last {bytes} bytes went through host memory")
            }
            Self::MemoryNotChecked { memory } => write!(f, "content in {memory} was not checked"),
            Self::NotComparable { stages } => {
                write!(f, "content not comparable: {stages} changed it between source and target")
            }
            Self::NotVerified => f.write_str("content at the target was not checked"),
            Self::Emulated { sign } => {
                write!(f, "this machine is emulated ({sign}): semantics, not speed")
            }
            Self::DebugBuild => f.write_str("debug build"),
            Self::DepthReduced { asked, slots } => {
                write!(f, "memory has room for {slots} of {asked} slots")
            }
            Self::PageCache { path } => write!(f, "no direct I/O on {path}: page cache used"),
            Self::NotResumable { reason } => {
                write!(f, "the copy cannot be resumed if it is interrupted: {reason}")
            }
            Self::NothingToResume { journal, outcome } => {
                let what = match outcome {
                    ResumedWithout::Begun => "the copy began at its start",
                    ResumedWithout::Equal => {
                        "the target was compared with the source, equals it, and was left as it is"
                    }
                };
                write!(f, "there is no journal {journal}: {what}")
            }
            Self::JournalNotSaved { reason } => {
                write!(f, "the journal was not saved at times: {reason}")
            }
            Self::NotScrubbed { reason } => {
                write!(f, "device memory was not cleared: {reason}")
            }
            Self::NotGuarded { why } => {
                write!(f, "nothing is known of who uses the target: {why}")
            }
            Self::SharedTarget { path } => {
                write!(f, "{path} is a namespace that other hosts may have, too (NMIC)")
            }
            Self::SourceInUse { by, .. } => write!(f, "the source is in use by {by}"),
            Self::LinkTrainedLow { device, current, most } => {
                write!(f, "the link of {device} runs at {current}, and both ends support {most}")
            }
            Self::RemoteNumaNode { device, node, used_from, by } => {
                write!(f, "{device} is on node {node}, and {by} is on node {used_from}")
            }
            Self::DriveHot { drive, temperature, limit } => {
                let degrees = |thousandths: i32| thousandths.saturating_add(500).div_euclid(1000);
                let (warm, limit) = (degrees(*temperature), degrees(*limit));
                write!(f, "{drive} has {warm} °C, and may slow down from {limit} °C on")
            }
            Self::InWriteCache { drive, sign } => {
                write!(f, "what was written may lie in a cache of {drive}: {sign}")
            }
            Self::NeverWritten { drive, sign } => {
                write!(f, "what was read of {drive} may never have been written: {sign}")
            }
            Self::FrequencyScaling { governor } => {
                write!(f, "the processor's frequency changes with its load (`{governor}`)")
            }
            Self::FirstRunOutlier { case, per_mille } => {
                write!(
                    f,
                    "the first run of {case} has {} of the others' rate",
                    PerMille(*per_mille)
                )
            }
            Self::Variance { case, per_mille } => {
                write!(f, "the runs of {case} differ by {} of their mean", PerMille(*per_mille))
            }
            Self::NotSettled { case, per_mille } => {
                write!(
                    f,
                    "rates of {case} had not settled: a change of {} was still to come",
                    PerMille(*per_mille)
                )
            }
            Self::NotSimulated { case, transfers, of } => write!(
                f,
                "{transfers} of {of} transfers of {case} are in no window of packets: they have no percentiles"
            ),
            Self::NotPermitted { memory, initiator, others, reason } => {
                write!(f, "peer to peer between {initiator} and {memory}")?;
                match others {
                    0 => {}
                    1 => f.write_str(", and one more pair")?,
                    _ => write!(f, ", and {others} more pairs")?,
                }
                write!(f, ": {reason}")
            }
            Self::LinkNotStated { below, others, taken_as } => write!(
                f,
                "nothing says how fast {} {}: taken for {taken_as}",
                Links(below, *others),
                if below.len() == 1 { "is" } else { "are" },
            ),
            Self::LinkNotTrained { below, others, taken_as } => write!(
                f,
                "nothing says what {} trained to: taken for {taken_as}, the most that is supported there",
                Links(below, *others),
            ),
            Self::NetworkNotStated { nics, others, taken_as } => {
                write!(
                    f,
                    "nothing says how fast the wire of {} is: taken for {taken_as}",
                    FirstNames(nics, *others)
                )
            }
            Self::PeersNotStated { through, others, keys } => write!(
                f,
                "the rate between peers through {} is not given ({}), so only links limit this prediction; some CPUs \
                 pass less",
                FirstNames(through, *others),
                keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
            ),
            Self::AcsOnPath { port } => {
                write!(f, "{port} sends peer-to-peer traffic up to the root complex (ACS)")
            }
        }
    }
}

/// The first few names, and the number of further ones.
struct FirstNames<'a>(&'a [String], u64);

impl fmt::Display for FirstNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names, others) = self;
        match (*names, others) {
            ([before @ .., last], 0) if !before.is_empty() => {
                write!(f, "{} and {last}", before.join(", "))
            }
            (names, 0) => f.write_str(&names.join(", ")),
            (names, others) => write!(f, "{} and {others} more", names.join(", ")),
        }
    }
}

/// The links above devices and switches.
struct Links<'a>(&'a [String], u64);

impl fmt::Display for Links<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(below, others) = *self;
        let links = if below.len() == 1 { "the link" } else { "the links" };
        write!(f, "{links} of {}", FirstNames(below, others))
    }
}

/// Thousandths, printed in percent.
struct PerMille(u32);

impl fmt::Display for PerMille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}
