//! The stages of one copy, in the order of their work.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peerlane_memory::Region;
use peerlane_memory::cuda::{ChunkKernel, DigestKernel};
use peerlane_memory::nvrtc::Nvrtc;
use peerlane_results::{Asked, MemoryFacts};
use peerlane_units::Bytes;

use super::manifest::{
    ALGORITHM, ChunkDigests, MANIFEST_SCHEMA, ManifestError, ManifestHeader, hex, part_of,
};
use crate::endpoints::lane::GpuSide;
use crate::endpoints::suggestion::hint_of_path;
use crate::io::failure::error_in_words;
use crate::io::journal::JournalStages;
use crate::io::ranges::RangeSet;
use crate::io::stage::{
    CardStage, CudaDigest, CudaStage, DigestStage, OutsideProcess, Stage, StageFault, StageName,
    StageNameError, chunk_digest,
};

/// Options of the stages of a copy, other than their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stages {
    /// File for the digests of the chunks; `None` for a root only.
    pub manifest: Option<PathBuf>,
    /// A program that changes a chunk as the stages do: from its standard input to its standard
    /// output, with the offset of the chunk as its argument.
    pub twin: Option<PathBuf>,
}

impl Stages {
    /// Refuses a manifest that would take the place of another file of the copy.
    pub(crate) fn check_place<'a>(
        &self,
        others: impl Iterator<Item = &'a Path>,
    ) -> Result<(), StageError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let own = resolved(manifest);
        let part = resolved(&part_of(manifest));
        for other in others {
            let other = resolved(other);
            if other == own || other == part {
                let path = other;
                return Err(StageError::Place { path });
            }
        }
        Ok(())
    }
}

/// A path by the real name of its folder.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Reason why stages cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// There is no such stage.
    #[error(transparent)]
    Name(#[from] StageNameError),
    /// The manifest cannot be read or written.
    #[error("cannot keep the manifest")]
    Manifest(#[from] ManifestError),
    /// A stage cannot be set up.
    #[error("cannot set up stage {stage}: {reason}")]
    Open {
        /// The stage.
        stage: String,
        /// Reason.
        reason: String,
        /// Advice that helps, when there is one.
        hint: Option<String>,
    },
    /// The manifest, or its unfinished file, is an end or the journal of the copy.
    #[error("the manifest would take the place of {}", path.display())]
    Place {
        /// The other file.
        path: PathBuf,
    },
    /// An option is of no use without, or with more than, one digest.
    #[error("{reason}")]
    Options {
        /// Reason.
        reason: &'static str,
    },
}

impl StageError {
    /// Advice that helps, when there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Manifest(error) => error.hint(),
            Self::Open { hint, .. } => hint.clone(),
            Self::Place { .. } => Some("name another file with `--manifest`".to_owned()),
            Self::Name(_) | Self::Options { .. } => None,
        }
    }
}

/// Memory of the slots, as a stage gets at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotMemory<'a> {
    /// The mapped region, if it is one.
    pub(crate) region: Option<&'a Region>,
    /// The GPU whose memory it is.
    pub(crate) gpu: Option<&'a GpuSide>,
    pub(crate) facts: &'a MemoryFacts,
}

/// Reason why a stage is not set up, and advice.
struct NotOpened {
    reason: String,
    hint: Option<String>,
}

impl<E: std::error::Error> From<(E, Option<String>)> for NotOpened {
    fn from((error, hint): (E, Option<String>)) -> Self {
        Self { reason: error_in_words(&error), hint }
    }
}

/// The stages of a copy.
#[derive(Debug, Default)]
pub(crate) struct StageRow {
    names: Vec<StageName>,
    journal: JournalStages,
    digests: Option<Arc<Mutex<ChunkDigests>>>,
}

impl StageRow {
    /// Reads the stages that were asked for, and begins their manifest or goes on with it. Lengths are in
    /// bytes; the seed tells the copy from any other.
    ///
    /// # Errors
    /// [`StageError`]; no manifest was begun then.
    pub(crate) fn asked_for(
        asked: &Asked,
        options: &Stages,
        source: &str,
        (length, chunk): (u64, u64),
        (is_resumed, seed): (bool, u64),
    ) -> Result<Self, StageError> {
        let names =
            asked.stages.iter().map(|typed| typed.parse()).collect::<Result<Vec<_>, _>>()?;
        check_options(&names, options)?;
        if names.is_empty() {
            return Ok(Self::default());
        }
        let row = names.iter().map(identity).collect::<Result<_, _>>()?;
        let mut journal = JournalStages { row, chunk: Bytes(chunk), manifest: None };
        let Some(place) = names.iter().position(|name| *name == StageName::Digest) else {
            return Ok(Self { names, journal, digests: None });
        };
        let header = ManifestHeader {
            schema: MANIFEST_SCHEMA.to_owned(),
            copy: format!("{seed:016x}"),
            source: source.to_owned(),
            whole: asked.offset == Bytes::ZERO && asked.length.is_none(),
            after: names[..place].iter().map(StageName::to_string).collect(),
            length,
            chunk,
            algorithm: ALGORITHM.to_owned(),
        };
        let digests = match &options.manifest {
            None => ChunkDigests::without_manifest(header),
            Some(path) if is_resumed => ChunkDigests::resume(header, path)?,
            Some(path) => ChunkDigests::begin(header, path)?,
        };
        journal.manifest = digests.has_manifest().then(|| digests.copy().to_owned());
        Ok(Self { names, journal, digests: Some(Arc::new(Mutex::new(digests))) })
    }

    /// One stage, without a journal, whose digests are not kept.
    ///
    /// # Errors
    /// [`StageError::Open`] if its file cannot be read.
    pub(crate) fn single(name: StageName) -> Result<Self, StageError> {
        identity(&name)?;
        Ok(Self { names: vec![name], ..Self::default() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Stages of the row.
    pub(crate) fn names(&self) -> &[StageName] {
        &self.names
    }

    /// Each as a person types it.
    pub(crate) fn notations(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(StageName::to_string)
    }

    /// Their part of a journal.
    pub(crate) fn journal(&self) -> &JournalStages {
        &self.journal
    }

    /// Length of a chunk in bytes; `None` without stages.
    pub(crate) fn chunk(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.journal.chunk.0)
    }

    /// Number of stages.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// True if the target gets other content than the source has.
    pub(crate) fn changes_content(&self) -> bool {
        self.names.iter().any(StageName::changes_content)
    }

    /// Digests so far, if one of the stages makes them.
    pub(crate) fn digests(&self) -> Option<MutexGuard<'_, ChunkDigests>> {
        self.digests.as_deref().map(lock)
    }

    /// True if a file keeps the digests.
    pub(crate) fn has_manifest(&self) -> bool {
        self.digests().is_some_and(|digests| digests.has_manifest())
    }

    /// Drops digests that are not of this copy, by its journal, or not of the ranges done. Returns
    /// the ranges without a digest.
    pub(crate) fn keep_only(
        &self,
        copy: Option<&str>,
        done: &RangeSet,
    ) -> Result<Vec<Range<u64>>, StageError> {
        let Some(mut digests) = self.digests().filter(|digests| digests.has_manifest()) else {
            return Ok(Vec::new());
        };
        digests.keep_only(copy, done)?;
        Ok(digests.known().missing(0..digests.length()).collect())
    }

    /// Ends the digests of a complete copy. Returns the root, if one of the stages makes digests.
    pub(crate) fn end(&self) -> Option<Result<String, ManifestError>> {
        self.digests().map(|mut digests| digests.finish().map(hex))
    }

    /// Removes an unfinished manifest.
    pub(crate) fn discard(&self) {
        if let Some(mut digests) = self.digests() {
            digests.discard();
        }
    }

    /// Sets every stage up for the memory of the slots.
    ///
    /// # Errors
    /// [`StageError::Open`] by the first that cannot work there.
    pub(crate) fn open(&self, memory: SlotMemory<'_>) -> Result<Vec<Box<dyn Stage>>, StageError> {
        self.names.iter().map(|name| self.open_one(name, memory)).collect()
    }

    fn open_one(
        &self,
        name: &StageName,
        memory: SlotMemory<'_>,
    ) -> Result<Box<dyn Stage>, StageError> {
        let opened = match (name, memory.gpu) {
            (StageName::Digest, None) => {
                Ok(Box::new(DigestStage::new(self.taker())) as Box<dyn Stage>)
            }
            (StageName::Digest, Some(slots)) => self.cuda_digest(slots),
            (StageName::Cuda { file, kernel }, Some(slots)) => cuda(slots, file, kernel),
            (StageName::Xrt { kernel, .. }, None) => card(memory, kernel),
            (StageName::Outside(port), None) => {
                OutsideProcess::open(port, memory.facts, memory.region)
                    .map(|outside| Box::new(outside) as Box<dyn Stage>)
                    .map_err(|error| (error, None).into())
            }
            _ => Err(not_reached(name, memory)),
        };
        opened.map_err(|NotOpened { reason, hint }| StageError::Open {
            stage: name.to_string(),
            reason,
            hint,
        })
    }

    fn cuda_digest(&self, slots: &GpuSide) -> Result<Box<dyn Stage>, NotOpened> {
        let nvrtc = compiler(slots)?;
        let digest = DigestKernel::compile(&slots.gpu, &nvrtc).map_err(|error| {
            let hint = error.hint();
            (error, hint)
        })?;
        Ok(Box::new(CudaDigest::new(digest, Arc::clone(&slots.memory), self.taker())))
    }

    /// Takes the digests of chunks down.
    fn taker(&self) -> impl FnMut(u64, u64, u128) -> Result<(), StageFault> + use<> {
        let digests = self.digests.clone();
        move |offset, length, digest| {
            let Some(digests) = &digests else { return Ok(()) };
            let mut digests = lock(digests);
            let taken = digests.take(offset, length, digest);
            taken.map_err(|error| {
                let part = digests.part().unwrap_or(Path::new("")).display();
                StageFault(format!("cannot write {part}: {error}"))
            })
        }
    }

    /// The image of a card that a stage needs, and the kernel whose memory the slots lie in.
    pub(crate) fn card_image(&self) -> Option<(&Path, &str)> {
        self.names.iter().find_map(StageName::card_image)
    }
}

fn not_reached(name: &StageName, memory: SlotMemory<'_>) -> NotOpened {
    let reason = format!("it does not reach {}", memory.facts.name);
    NotOpened { reason, hint: Some(name.way_out().to_owned()) }
}

fn compiler(slots: &GpuSide) -> Result<Nvrtc, NotOpened> {
    Nvrtc::load(slots.driver).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        (error, hint).into()
    })
}

fn cuda(slots: &GpuSide, file: &Path, kernel: &str) -> Result<Box<dyn Stage>, NotOpened> {
    let nvrtc = compiler(slots)?;
    let name = file.display().to_string();
    let source = fs::read_to_string(file).map_err(|error| NotOpened {
        reason: format!("cannot read {name}: {error}"),
        hint: hint_of_path(file),
    })?;
    let kernel = ChunkKernel::compile(&slots.gpu, &nvrtc, &source, &name, kernel);
    let kernel = kernel.map_err(|error| {
        let hint = error.hint();
        (error, hint)
    })?;
    Ok(Box::new(CudaStage::new(kernel, Arc::clone(&slots.memory))))
}

fn card(memory: SlotMemory<'_>, kernel: &str) -> Result<Box<dyn Stage>, NotOpened> {
    let buffer = memory.region.and_then(Region::card_buffer).ok_or_else(|| NotOpened {
        reason: format!("{} is not memory of a card", memory.facts.name),
        hint: None,
    })?;
    let kernel = buffer.kernel(kernel).map_err(|error| {
        let hint = error.hint();
        (error, hint)
    })?;
    Ok(Box::new(CardStage::new(kernel, buffer)))
}

fn lock(digests: &Mutex<ChunkDigests>) -> MutexGuard<'_, ChunkDigests> {
    digests.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_options(names: &[StageName], options: &Stages) -> Result<(), StageError> {
    let digests = names.iter().filter(|name| **name == StageName::Digest).count();
    let changes = names.iter().any(StageName::changes_content);
    let reason = match (digests, &options.manifest, &options.twin) {
        (2.., ..) => "a row of stages has one digest at most",
        _ if images(names) > 1 => "the stages of a card come from one image",
        (0, Some(_), _) => "--manifest needs --stage digest",
        (.., Some(_)) if !changes => "--stage-twin needs a stage that changes content",
        _ => return Ok(()),
    };
    Err(StageError::Options { reason })
}

/// Images of cards that stages come from.
fn images(names: &[StageName]) -> usize {
    let files = names.iter().filter_map(|name| Some(name.card_image()?.0));
    files.collect::<BTreeSet<_>>().len()
}

/// A stage with a digest of the file that it comes from: a copy does not go on with another.
fn identity(name: &StageName) -> Result<String, StageError> {
    let file: &Path = match name {
        StageName::Digest | StageName::Outside(_) => return Ok(name.to_string()),
        StageName::Cuda { file, .. } | StageName::Xrt { file, .. } => file,
    };
    let bytes = fs::read(file).map_err(|error| StageError::Open {
        stage: name.to_string(),
        reason: format!("cannot read {}: {error}", file.display()),
        hint: hint_of_path(file),
    })?;
    Ok(format!("{name} ({ALGORITHM} {})", hex(chunk_digest(&bytes))))
}
