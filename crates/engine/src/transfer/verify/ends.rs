//! Compares two endpoints without having copied: opens both for reading, and nothing else.

use std::io;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_memory::MemoryError;
use peerlane_results::{
    ComparedSource, Difference, Digest, EndpointFacts, EndpointKind, Reference, VERIFY_SCHEMA,
    VerifyMode, VerifyRecord, Warning,
};
use peerlane_units::{Bytes, Nanos};

use super::{ComparisonRequest, Coverage, Digests, Verified, VerifyError, verify};
use crate::endpoints::lane::Session;
use crate::endpoints::open::{Opened, open_end};
use crate::endpoints::{EndError, Endpoint, guard};
use crate::io::clock::Clock;
use crate::io::failure::{Role, differing};
use crate::io::ring::UringError;
use crate::io::system::System;
use crate::io::watch::{Phase, Watch};
use peerlane_results::warnings_of_machine;

/// Bytes of each of the two regions of host memory.
const REGION: Bytes = Bytes::mib(16);
/// Entries of the ring: both regions full of requests.
const ENTRIES: u32 = 64;
const ALGORITHM: &str = "xxh3-64";

/// A comparison, as a person asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyAsked {
    /// The expected content.
    pub source: String,
    /// The content to check.
    pub target: String,
    /// Offset in the source.
    pub offset: Bytes,
    /// Offset in the target.
    pub target_offset: Bytes,
    /// Length; `None` for all that follows the offset in the source.
    pub length: Option<Bytes>,
    /// Part that is read.
    pub coverage: Coverage,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// Reason why two endpoints were not compared to their end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyEndsError {
    /// An end cannot be looked at.
    #[error("cannot compare {source_path} with {target_path}")]
    Ends {
        /// The source as it was typed.
        source_path: String,
        /// The target as it was typed.
        target_path: String,
        /// Cause.
        source: Box<EndError>,
    },
    /// Both ends are the same bytes: a comparison would tell nothing.
    #[error(
        "cannot compare {source_path} with {target_path}: both are the same bytes of one file or drive"
    )]
    OnePlace {
        /// The source as it was typed.
        source_path: String,
        /// The target as it was typed.
        target_path: String,
    },
    /// An end cannot be attached.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// Path of the end.
        path: PathBuf,
        /// Answer of the system.
        source: io::Error,
    },
    /// Direct I/O begins on whole blocks only.
    #[error("cannot begin at `{option} {}` of {path}: it has blocks of {} bytes", offset.0, block.0)]
    Unaligned {
        /// The option.
        option: &'static str,
        /// Its value.
        offset: Bytes,
        /// Path of the end.
        path: String,
        /// Block size.
        block: Bytes,
    },
    /// The source has less than is to be compared.
    #[error("cannot compare {length} from offset {} of {path}: it has {} bytes", offset.0, size.0)]
    BeyondSource {
        /// The source.
        path: String,
        /// Offset that was asked for.
        offset: Bytes,
        /// Length that was asked for.
        length: Bytes,
        /// Size of the end.
        size: Bytes,
    },
    /// No host memory.
    #[error("cannot set up host memory")]
    Memory(#[from] MemoryError),
    /// No ring could be set up.
    #[error("cannot set up io_uring")]
    Ring(#[from] UringError),
    /// Reading failed.
    #[error("cannot compare {source_path} with {target_path}")]
    Compare {
        /// The source.
        source_path: String,
        /// The target.
        target_path: String,
        /// Failure of the comparison.
        source: VerifyError,
    },
    /// A wish to stop came from outside.
    #[error("interrupted after {done} of {length}, {} there", differing(*mismatches, "block"))]
    Interrupted {
        /// Bytes compared.
        done: Bytes,
        /// Bytes that were to be looked at.
        length: Bytes,
        /// Blocks that differ.
        mismatches: u64,
    },
}

impl VerifyEndsError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Ends { source, .. } => source.hint(),
            Self::OnePlace { .. } => Some(
                "name what was copied and where to, or another range of it: `--target-offset`"
                    .to_owned(),
            ),
            Self::Unaligned { block, .. } => Some(format!("use a multiple of {}", block.0)),
            Self::BeyondSource { offset, size, .. } => size
                .0
                .checked_sub(offset.0)
                .filter(|rest| *rest > 0)
                .map(|rest| format!("use `--length {rest}`")),
            Self::Memory(error) => error.hint().map(str::to_owned),
            Self::Compare { source: VerifyError::Request(error), .. } => {
                error.hint().map(str::to_owned)
            }
            _ => None,
        }
    }
}

/// Compares two endpoints, both read by host memory with direct I/O.
///
/// A target that ends before its source differs; that is not an error.
///
/// # Errors
/// [`VerifyEndsError`] when the comparison came to no result.
pub fn verify_ends(
    fabric: &Fabric,
    asked: &VerifyAsked,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<VerifyRecord, VerifyEndsError> {
    let system = System::at(Path::new("/"));
    let source = ReadableEnd::look(&system, fabric, asked, Role::Source)?;
    let target = ReadableEnd::look(&system, fabric, asked, Role::Target)?;
    let ends = [&source.endpoint, &target.endpoint];
    if guard::is_one_place(&system, ends, [asked.offset, asked.target_offset]) {
        let (source_path, target_path) = (asked.source.clone(), asked.target.clone());
        return Err(VerifyEndsError::OnePlace { source_path, target_path });
    }
    let range = Range::new(asked, &source, &target)?;
    watch.phase(Phase::Verify);
    let (verified, elapsed) = compare(asked, &source, &target, &range, clock, watch)?;
    if verified.interrupted {
        return Err(VerifyEndsError::Interrupted {
            done: Bytes(verified.bytes),
            length: range.length,
            mismatches: verified.mismatches,
        });
    }
    let mut warnings = guard::warnings_of_use(&system, &source.endpoint);
    for end in [&source, &target] {
        if !end.opened.is_direct {
            warnings.push(Warning::PageCache { path: end.facts().path.clone() });
        }
    }
    warnings.extend(warnings_of_machine(fabric));
    Ok(record(fabric, asked, source, target, &range, verified, elapsed, warnings))
}

/// An end, open for reading.
struct ReadableEnd {
    endpoint: Endpoint,
    opened: Opened,
}

impl ReadableEnd {
    fn look(
        system: &System,
        fabric: &Fabric,
        asked: &VerifyAsked,
        role: Role,
    ) -> Result<Self, VerifyEndsError> {
        let failed = |source| VerifyEndsError::Ends {
            source_path: asked.source.clone(),
            target_path: asked.target.clone(),
            source: Box::new(source),
        };
        let typed = if role == Role::Source { &asked.source } else { &asked.target };
        let (endpoint, opened) =
            open_end(system, fabric, typed, role, asked.deadline).map_err(failed)?;
        Ok(Self { endpoint, opened })
    }

    fn facts(&self) -> &EndpointFacts {
        &self.endpoint.facts
    }

    /// Block size for reading; the page cache takes any length.
    fn block(&self) -> u64 {
        if self.opened.is_direct { self.facts().block.0 } else { 1 }
    }

    fn check_offset(&self, option: &'static str, offset: Bytes) -> Result<(), VerifyEndsError> {
        if offset.0 % self.block() == 0 {
            return Ok(());
        }
        let (path, block) = (self.facts().path.clone(), Bytes(self.block()));
        Err(VerifyEndsError::Unaligned { option, offset, path, block })
    }
}

/// Length of the comparison, and the bytes that cannot be compared.
struct Range {
    /// Bytes that were asked for.
    length: Bytes,
    /// Bytes of them that both ends have.
    common: u64,
    surplus: Bytes,
}

impl Range {
    fn new(
        asked: &VerifyAsked,
        source: &ReadableEnd,
        target: &ReadableEnd,
    ) -> Result<Self, VerifyEndsError> {
        source.check_offset("--offset", asked.offset)?;
        target.check_offset("--target-offset", asked.target_offset)?;
        let size = source.facts().size;
        let rest = size.0.checked_sub(asked.offset.0);
        let length = asked.length.unwrap_or(Bytes(rest.unwrap_or(0)));
        if rest.is_none_or(|rest| rest < length.0) {
            return Err(VerifyEndsError::BeyondSource {
                path: source.facts().path.clone(),
                offset: asked.offset,
                length,
                size,
            });
        }
        let there = target.facts().size.0.saturating_sub(asked.target_offset.0);
        let are_files = [source, target].iter().all(|end| end.facts().kind == EndpointKind::File);
        let surplus = match asked.length {
            None if are_files => Bytes(there.saturating_sub(length.0)),
            _ => Bytes::ZERO,
        };
        Ok(Self { length, common: length.0.min(there), surplus })
    }
}

fn compare(
    asked: &VerifyAsked,
    source: &ReadableEnd,
    target: &ReadableEnd,
    range: &Range,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<(Verified, Nanos), VerifyEndsError> {
    let mut session = Session::new(ENTRIES, [], None)?;
    let mut attach = |end: &ReadableEnd| {
        session.attach_file(&end.opened).map_err(|source| {
            let path = end.facts().path.clone().into();
            VerifyEndsError::File { action: "attach", path, source }
        })
    };
    let files = [attach(source)?, attach(target)?];
    let room = Bytes(range.common.saturating_mul(2).next_multiple_of(1 << 20))
        .clamp(Bytes::mib(1), REGION);
    let hosts = [session.host(room)?, session.host(room)?];
    let comparison = ComparisonRequest {
        source: files[0],
        target: files[1],
        source_offset: asked.offset.0,
        target_offset: asked.target_offset.0,
        length: range.common,
        source_block: source.block(),
        target_block: target.block(),
        coverage: asked.coverage,
        hosts,
        digests: Digests::Made,
        deadline: asked.deadline,
    };
    let start = clock.now();
    let verified = verify(&mut session.ring, &comparison, clock, watch).map_err(|error| {
        VerifyEndsError::Compare {
            source_path: source.facts().path.clone(),
            target_path: target.facts().path.clone(),
            source: error,
        }
    })?;
    Ok((verified, clock.now().since(start)))
}

#[expect(clippy::too_many_arguments, reason = "a record is made of all of it")]
fn record(
    fabric: &Fabric,
    asked: &VerifyAsked,
    source: ReadableEnd,
    target: ReadableEnd,
    range: &Range,
    verified: Verified,
    elapsed: Nanos,
    warnings: Vec<Warning>,
) -> VerifyRecord {
    let [of_source, of_target] = verified.digests.unwrap_or_default();
    VerifyRecord {
        schema: VERIFY_SCHEMA.to_owned(),
        machine: fabric.into(),
        target: target.endpoint.facts,
        target_offset: asked.target_offset,
        against: Reference::Source(Box::new(ComparedSource {
            end: source.endpoint.facts,
            offset: asked.offset,
            mode: match asked.coverage {
                Coverage::Full => VerifyMode::Full,
                Coverage::Sample { .. } => VerifyMode::Sample,
            },
            comparing_ns: verified.comparing,
            digest: Digest {
                algorithm: ALGORITHM.to_owned(),
                source: format!("{of_source:016x}"),
                target: format!("{of_target:016x}"),
            },
            first: verified.first.map(|first| Difference {
                source_offset: Bytes(asked.offset.0 + first.offset),
                target_offset: Bytes(asked.target_offset.0 + first.offset),
                length: Bytes(first.length),
                source_bytes: hex(&first.source_bytes),
                target_bytes: hex(&first.target_bytes),
            }),
        })),
        length: range.length,
        bytes: Bytes(verified.bytes),
        elapsed_ns: elapsed,
        mismatches: verified.mismatches,
        missing: Bytes(range.length.0 - range.common),
        surplus: range.surplus,
        warnings,
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}
