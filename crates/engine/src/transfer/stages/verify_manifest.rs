//! One end compared with a manifest: each chunk is read and its digest compared.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;
use peerlane_memory::MemoryError;
use peerlane_results::{
    ChunkDifference, ComparedManifest, EndpointKind, Reference, VERIFY_SCHEMA, VerifyRecord,
    Warning,
};
use peerlane_units::{Bytes, Nanos};

use super::manifest::{ChunkDigest, Manifest, ManifestError, hex};
use crate::endpoints::lane::Session;
use crate::endpoints::open::{Opened, open_end};
use crate::endpoints::{EndError, Endpoint, guard};
use crate::io::clock::Clock;
use crate::io::failure::{RequestError, Role, differing};
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_until};
use crate::io::ring::{Action, FileId, Ring as _, UringError};
use crate::io::stage::chunk_digest;
use crate::io::system::System;
use crate::io::watch::{Phase, Watch};
use peerlane_results::warnings_of_machine;

/// Chunks in flight, and the most host memory that they take together.
const AT_ONCE: u64 = 8;
const ROOM: u64 = 64 << 20;
/// Longest chunk: the kernel moves less than 2 GiB at once (`MAX_RW_COUNT`).
const CHUNK_MAX: u64 = 1 << 30;
/// Differing chunks that are listed.
const LISTED: usize = 16;
const PAGE: u64 = 4096;

/// The comparison, as a person asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestAsked {
    /// The end.
    pub end: String,
    /// Offset in it at which the copy begins.
    pub offset: Bytes,
    /// File of the manifest.
    pub manifest: PathBuf,
    /// The longest wait for a single request.
    pub deadline: Nanos,
}

/// Reason why an end was not compared with a manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyManifestError {
    /// The manifest is none.
    #[error("cannot use the manifest {}", path.display())]
    Manifest {
        /// Its file.
        path: PathBuf,
        /// Fault of the manifest.
        source: ManifestError,
    },
    /// Its chunks are longer than a request.
    #[error("cannot compare chunks of {} bytes: at most {CHUNK_MAX}", chunk.0)]
    Chunk {
        /// Their length.
        chunk: Bytes,
    },
    /// The end cannot be looked at.
    #[error("cannot compare {path} with a manifest")]
    End {
        /// The end as it was typed.
        path: String,
        /// Fault of the end.
        source: Box<EndError>,
    },
    /// Direct I/O begins on whole blocks only.
    #[error("cannot begin at {} of {path}: it has blocks of {} bytes", offset.0, block.0)]
    Unaligned {
        /// The end.
        path: String,
        /// Offset asked for, or that of a chunk.
        offset: Bytes,
        /// Block size.
        block: Bytes,
    },
    /// The end cannot be attached.
    #[error("cannot attach {path}")]
    Attach {
        /// The end.
        path: String,
        /// Answer of the system.
        source: io::Error,
    },
    /// No host memory.
    #[error("cannot set up host memory")]
    Memory(#[from] MemoryError),
    /// No ring could be set up.
    #[error("cannot set up io_uring")]
    Ring(#[from] UringError),
    /// Reading failed.
    #[error("cannot read {path}")]
    Read {
        /// The end.
        path: String,
        /// Failure of the request.
        source: RequestError,
    },
    /// A wish to stop came from outside.
    #[error("interrupted after {done} of {length}, {} there", differing(*mismatches, "chunk"))]
    Interrupted {
        /// Bytes compared.
        done: Bytes,
        /// Bytes that were to be compared.
        length: Bytes,
        /// Chunks that differ.
        mismatches: u64,
    },
}

impl VerifyManifestError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Manifest { source, .. } => source.hint(),
            Self::End { source, .. } => source.hint(),
            Self::Unaligned { block, .. } => Some(format!("use a multiple of {}", block.0)),
            Self::Memory(error) => error.hint().map(str::to_owned),
            Self::Read { source, .. } => source.hint().map(str::to_owned),
            _ => None,
        }
    }
}

/// Compares one end with a manifest, read by host memory with direct I/O; nothing is changed.
///
/// # Errors
/// [`VerifyManifestError`] when the comparison came to no result; a difference is none.
pub fn verify_manifest(
    fabric: &Fabric,
    asked: &ManifestAsked,
    clock: &dyn Clock,
    watch: &mut dyn Watch,
) -> Result<VerifyRecord, VerifyManifestError> {
    let failed = |source| VerifyManifestError::Manifest { path: asked.manifest.clone(), source };
    let manifest = Manifest::read(&asked.manifest).map_err(failed)?;
    let system = System::at(Path::new("/"));
    let (endpoint, opened) =
        open_end(&system, fabric, &asked.end, Role::Target, asked.deadline).map_err(|source| {
            VerifyManifestError::End { path: asked.end.clone(), source: Box::new(source) }
        })?;
    let end = ManifestEnd { endpoint, opened, offset: asked.offset.0 };
    end.check(&manifest)?;
    watch.phase(Phase::Verify);
    let start = clock.now();
    let found = end.compare(&manifest, asked.deadline, clock, watch)?;
    let mut warnings = guard::warnings_of_use(&system, &end.endpoint);
    if !end.opened.is_direct {
        warnings.push(Warning::PageCache { path: end.path() });
    }
    warnings.extend(warnings_of_machine(fabric));
    Ok(VerifyRecord {
        schema: VERIFY_SCHEMA.to_owned(),
        machine: fabric.into(),
        target_offset: asked.offset,
        length: Bytes(manifest.header.length),
        bytes: Bytes(found.bytes),
        elapsed_ns: clock.now().since(start),
        mismatches: found.mismatches,
        missing: end.missing(&manifest),
        surplus: end.surplus(&manifest),
        against: Reference::Manifest(ComparedManifest {
            path: asked.manifest.display().to_string(),
            after: manifest.header.after,
            chunk: Bytes(manifest.header.chunk),
            root: hex(manifest.root),
            differing: found.differing,
        }),
        target: end.endpoint.facts,
        warnings,
    })
}

/// The end, open for reading.
struct ManifestEnd {
    endpoint: Endpoint,
    opened: Opened,
    offset: u64,
}

/// Findings of the comparison.
#[derive(Default)]
struct Differing {
    bytes: u64,
    mismatches: u64,
    differing: Vec<ChunkDifference>,
}

impl Differing {
    fn count(&mut self, chunk: &ChunkDigest, found: u128) {
        self.bytes += chunk.length;
        if found == chunk.digest {
            return;
        }
        self.mismatches += 1;
        if self.differing.len() < LISTED {
            self.differing.push(ChunkDifference {
                offset: Bytes(chunk.offset),
                length: Bytes(chunk.length),
                expected: hex(chunk.digest),
                found: hex(found),
            });
        }
    }
}

impl ManifestEnd {
    fn path(&self) -> String {
        self.endpoint.facts.path.clone()
    }

    /// Block size for reading; the page cache takes any length.
    fn block(&self) -> u64 {
        if self.opened.is_direct { self.endpoint.facts.block.0 } else { 1 }
    }

    fn size(&self) -> u64 {
        self.endpoint.facts.size.0.saturating_sub(self.offset)
    }

    fn missing(&self, manifest: &Manifest) -> Bytes {
        Bytes(manifest.header.length.saturating_sub(self.size()))
    }

    fn surplus(&self, manifest: &Manifest) -> Bytes {
        let is_whole = manifest.header.whole
            && self.offset == 0
            && self.endpoint.facts.kind == EndpointKind::File;
        let surplus = self.size().saturating_sub(manifest.header.length);
        if is_whole { Bytes(surplus) } else { Bytes::ZERO }
    }

    fn check(&self, manifest: &Manifest) -> Result<(), VerifyManifestError> {
        let (block, chunk) = (Bytes(self.block()), Bytes(manifest.header.chunk));
        if chunk.0 > CHUNK_MAX {
            return Err(VerifyManifestError::Chunk { chunk });
        }
        for offset in [Bytes(self.offset), chunk] {
            if manifest.chunks.len() > 1 && !offset.is_multiple_of(block) {
                return Err(VerifyManifestError::Unaligned { path: self.path(), offset, block });
            }
        }
        Ok(())
    }

    /// Reads every chunk that the end has as a whole, several at a time.
    fn compare(
        &self,
        manifest: &Manifest,
        deadline: Nanos,
        clock: &dyn Clock,
        watch: &mut dyn Watch,
    ) -> Result<Differing, VerifyManifestError> {
        let stride = manifest.header.chunk.min(manifest.header.length).next_multiple_of(PAGE)
            + self.block().next_multiple_of(PAGE);
        let slots = (ROOM / stride).clamp(1, AT_ONCE);
        let mut session = Session::new(64, [], None)?;
        let file = session
            .attach_file(&self.opened)
            .map_err(|source| VerifyManifestError::Attach { path: self.path(), source })?;
        let host = session.host(Bytes(stride * slots))?;
        let whole = |chunk: &&ChunkDigest| chunk.offset + chunk.length <= self.size();
        let mut left = manifest.chunks.iter().filter(whole);
        let total = Bytes(manifest.chunks.iter().filter(whole).map(|one| one.length).sum());
        let mut requests: Vec<Request> = Vec::new();
        let mut reading: VecDeque<(usize, &ChunkDigest)> = VecDeque::new();
        for (slot, chunk) in (0..slots).zip(left.by_ref()) {
            reading.push_back((requests.len(), chunk));
            requests.push(self.request(file, MemoryPlace::host(host, slot * stride), chunk));
        }
        let mut found = Differing::default();
        watch.begin(Bytes::ZERO, total);
        while let Some((slot, chunk)) = reading.pop_front() {
            if watch.stop_requested() {
                let (done, length) = (Bytes(found.bytes), total);
                let mismatches = found.mismatches;
                return Err(VerifyManifestError::Interrupted { done, length, mismatches });
            }
            let failed = |source| VerifyManifestError::Read { path: self.path(), source };
            carry_until(&mut session.ring, &mut requests, slot..slot + 1, clock, deadline)
                .map_err(failed)?;
            let start = slot as u64 * stride;
            let bytes = session.ring.host_range(host, start..start + chunk.length);
            found.count(chunk, bytes.map_or(0, |bytes| chunk_digest(bytes)));
            watch.compared(Bytes(found.bytes), total);
            if let Some(next) = left.next() {
                requests[slot] = self.request(file, MemoryPlace::host(host, start), next);
                reading.push_back((slot, next));
            }
        }
        Ok(found)
    }

    fn request(&self, file: FileId, place: MemoryPlace, chunk: &ChunkDigest) -> Request {
        let from = FilePlace { file, offset: self.offset + chunk.offset, block: self.block() };
        Request::new(Role::Target, Action::Read, from, place, chunk.length)
    }
}
