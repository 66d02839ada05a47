//! Checks for impossible results.

use std::fmt;

use peerlane_results::{CaseRecord, Route, RouteVerdict};
use peerlane_units::{ByteRate, Bytes, Nanos};

/// Reasons why a run is not a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// Payload in no time.
    #[error("{case}: {bytes} were moved in no time")]
    NoTime {
        /// The case.
        case: String,
        /// Payload.
        bytes: Bytes,
    },
    /// Faster than something on the way can be.
    #[error("{case}: {rate} is above what {object} carries, {limit}")]
    AboveLimit {
        /// The case.
        case: String,
        /// Rate of all flows that cross the object.
        rate: ByteRate,
        /// Object that is crossed.
        object: String,
        /// The most that it carries.
        limit: ByteRate,
    },
    /// More bytes than a drive was asked for.
    #[error("{case}: {} bytes were {direction} {drive}, which was asked for {} only", claimed.0, counted.0)]
    AboveCompleted {
        /// The case.
        case: String,
        /// The drive.
        drive: String,
        /// Read or written.
        direction: RequestDirection,
        /// Bytes that the case claims.
        claimed: Bytes,
        /// Bytes that the block layer counted.
        counted: Bytes,
    },
    /// The parts are not the whole.
    #[error("{case}: {} bytes in all, and {} by {of}", whole.0, parts.0)]
    SumDiffers {
        /// The case.
        case: String,
        /// Payload of the case.
        whole: Bytes,
        /// Sum of its parts.
        parts: Bytes,
        /// Name of the parts.
        of: &'static str,
    },
    /// The bytes took another way.
    #[error("{case}: the route is contradicted by {looked_at}: {showed}")]
    RouteContradicted {
        /// The case.
        case: String,
        /// Place that was looked at.
        looked_at: String,
        /// Finding there.
        showed: String,
    },
    /// The content at the target is not that of the source.
    #[error("{case}: content at the target differs in {mismatches} blocks of {bytes} compared")]
    ContentDiffers {
        /// The case.
        case: String,
        /// Blocks that differ.
        mismatches: u64,
        /// Bytes that were compared.
        bytes: Bytes,
    },
    /// Two clocks disagree.
    #[error("{case}: the clock showed {claimed} while another showed {other}")]
    ClockWrong {
        /// The case.
        case: String,
        /// By the clock that rates are computed with.
        claimed: Nanos,
        /// By the other clock.
        other: Nanos,
    },
    /// The machine slept.
    #[error("{case}: the machine was suspended for {asleep} while it ran")]
    Suspended {
        /// The case.
        case: String,
        /// Duration.
        asleep: Nanos,
    },
    /// The time of a run exceeds the window around it.
    #[error("{case}: it took {elapsed}, within {window}")]
    TimeOutside {
        /// The case.
        case: String,
        /// Time of the case, or of one of its flows.
        elapsed: Nanos,
        /// Time between its begin and its end.
        window: Nanos,
    },
}

impl Nonsense {
    /// Returns advice for a person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoTime { .. } => "move more bytes, or for longer",
            Self::AboveLimit { .. } => "check whether a cache answered instead of the device",
            Self::AboveCompleted { .. } => {
                "read what was written, with direct I/O: a hole, a cache or compression answered instead of \
                 the drive"
            }
            Self::SumDiffers { .. } => "this is a fault of the program: report it with the record",
            Self::RouteContradicted { .. } => "`peerlane doctor SOURCE TARGET` shows the obstacle",
            Self::ContentDiffers { .. } => {
                "`peerlane verify SOURCE TARGET` shows where; trust nothing that took this route"
            }
            Self::ClockWrong { .. } => {
                "wait until the clock is set right: `chronyc tracking`, `timedatectl timesync-status`"
            }
            Self::Suspended { .. } => "measure again without suspending: `systemd-inhibit COMMAND`",
            Self::TimeOutside { .. } => "this is a fault of the program: report it with the record",
        }
    }
}

/// Direction of a request to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestDirection {
    /// The drive was read.
    Read,
    /// The drive was written.
    Written,
}

impl fmt::Display for RequestDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read from",
            Self::Written => "written to",
        })
    }
}

pub(super) fn content(case: &CaseRecord) -> Result<(), Nonsense> {
    match &case.verification {
        Some(found) if found.mismatches > 0 => Err(Nonsense::ContentDiffers {
            case: case.asked.name.clone(),
            mismatches: found.mismatches,
            bytes: found.bytes,
        }),
        _ => Ok(()),
    }
}

pub(super) fn route(case: &CaseRecord) -> Result<(), Nonsense> {
    fell_back(case)?;
    let against = case.evidence.iter().find(|item| item.says == RouteVerdict::Contradicted);
    if against.is_none() && case.verdict != RouteVerdict::Contradicted {
        return Ok(());
    }
    let (looked_at, showed) = match against {
        Some(item) => (item.evidence.looked_at.clone(), item.evidence.showed.clone()),
        None => ("its verdict".to_owned(), "no evidence with it".to_owned()),
    };
    Err(Nonsense::RouteContradicted { case: case.asked.name.clone(), looked_at, showed })
}

/// A flow between devices whose requests named host memory, or the other way round. A flow that
/// begins or ends in host memory may count as either.
fn fell_back(case: &CaseRecord) -> Result<(), Nonsense> {
    for (asked, did) in case.asked.flows.iter().zip(&case.flows) {
        let is_between_devices = [&asked.source, &asked.target].iter().all(|end| *end != "host");
        let other = match asked.path.route() {
            Route::P2p => did.bytes_by_route.host,
            Route::Host => did.bytes_by_route.p2p,
        };
        if is_between_devices && other > Bytes::ZERO {
            return Err(Nonsense::RouteContradicted {
                case: case.asked.name.clone(),
                looked_at: "the memory that each request named".to_owned(),
                showed: format!(
                    "{} bytes of a flow by {} took the other route",
                    other.0, asked.path
                ),
            });
        }
    }
    Ok(())
}

pub(super) fn sums(case: &CaseRecord) -> Result<(), Nonsense> {
    let whole = case.bytes;
    let differs =
        |parts: Bytes, of| Nonsense::SumDiffers { case: case.asked.name.clone(), whole, parts, of };
    let flows = case.flows.iter().map(|flow| flow.bytes.0).fold(0, u64::saturating_add);
    if flows != whole.0 {
        return Err(differs(Bytes(flows), "its flows"));
    }
    let by_route = case.bytes_by_route;
    let routes = by_route.p2p.0.saturating_add(by_route.host.0);
    if routes != whole.0 {
        return Err(differs(Bytes(routes), "its routes"));
    }
    Ok(())
}
