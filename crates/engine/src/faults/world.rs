//! State that outlives a run of the program: drives, files, content, journals, and their faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use peerlane_results::Tail;
use peerlane_units::{Bytes, Nanos};
use rustix::io::Errno;

use super::FaultKind;
use super::draw::{Onto, content_before, draw_holes, draw_onto, draw_shape, pick};
use super::folder::{ELSEWHERE, Folder, TARGET};
use super::machine::{DriveName, SimulatedDrive};
use crate::endpoints::guard;
use crate::io::journal::{self, Identity};
use crate::io::random::Random;
use crate::io::ranges::RangeSet;
use crate::io::ring::Action;
use crate::io::ring::sim::{Cache, Lost, Mood, SimFault, SimFile};
use crate::transfer::verify::sample_size;

/// A copy, its source and its targets.
#[derive(Debug)]
pub(super) struct World {
    pub(super) kind: FaultKind,
    pub(super) random: Random,
    pub(super) shape: CopySizes,
    pub(super) source: SimFile,
    /// The source as it was made, and its part for each target.
    pub(super) full_source: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// The source is a file, which tells its holes.
    pub(super) is_file: bool,
    /// Of the source; another one is another drive, or a file that was changed.
    pub(super) version: i64,
    /// A person named the place of the journal.
    pub(super) has_own_journal: bool,
    /// That place is another directory than the target's.
    is_journal_elsewhere: bool,
    /// Files of the copy; `None` before its first run.
    pub(super) folder: Option<Rc<RefCell<Folder>>>,
    pub(super) targets: Vec<SimTarget>,
    /// Stages that are asked for.
    pub(super) stages: Vec<String>,
    /// Ranges that sets of the copy may hold, if that is not the usual number.
    pub(super) ranges_max: Option<usize>,
    /// Tokens of drives, by number, version of the source and size.
    tokens: BTreeMap<(usize, i64, usize), Rc<File>>,
    /// Number of the target with a fault of its own, for kinds of faults that have one.
    pub(super) broken: usize,
}

/// One target of the copy: a drive, or the only one and a file.
#[derive(Debug)]
pub(super) struct SimTarget {
    pub(super) shape: TargetShape,
    pub(super) content: SimFile,
    /// Its content before the copy, if it is a drive.
    pub(super) before: Vec<u8>,
    /// Another one is another drive behind its name.
    pub(super) version: i64,
    /// Its file system, if it is a file.
    pub(super) file_system: Option<FileSystem>,
    /// The file that has its name.
    pub(super) old: Option<Vec<u8>>,
    /// The text on disk.
    pub(super) journal: Option<Vec<u8>>,
    /// A run reported it complete.
    pub(super) is_complete: bool,
    /// A person may have to say that its content may be overwritten: it held something before the copy, or was left
    /// with content that no copy goes on from.
    pub(super) may_need_force: bool,
}

/// A file system, as its files are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSystem {
    pub(super) takes_direct: bool,
    /// It reserves space.
    pub(super) allocates: bool,
    /// It renames to names that nothing has.
    pub(super) renames_new: bool,
}

impl FileSystem {
    fn draw(random: &mut Random) -> Self {
        let mut is_so = |of: u64| random.below(of) != 0;
        Self { takes_direct: is_so(4), allocates: is_so(3), renames_new: is_so(3) }
    }
}

impl SimTarget {
    fn new(shape: TargetShape, content: SimFile) -> Self {
        Self {
            shape,
            content,
            before: Vec::new(),
            version: 0,
            file_system: None,
            old: None,
            journal: None,
            is_complete: false,
            may_need_force: false,
        }
    }

    /// A drive with this byte everywhere, or content of its own.
    fn drive(random: &mut Random, shape: TargetShape, length: u64, blank: Option<u8>) -> Self {
        let before = content_before(random, shape, length, blank);
        let content = SimFile { cache: Some(Cache::over(&before)), ..drive(&before, shape.block) };
        Self { before, ..Self::new(shape, content) }
    }

    fn file(random: &mut Random, shape: TargetShape, length: u64) -> Self {
        let file_system = FileSystem::draw(random);
        let block = if file_system.takes_direct { shape.block } else { 1 };
        let cache = Some(Cache::over(&[]));
        let content = SimFile { cache, grows: true, ..drive(&[], block) };
        let old = (random.below(2) == 0).then(|| content_before(random, shape, length, None));
        Self { file_system: Some(file_system), old, ..Self::new(shape, content) }
    }

    /// Its content as it would be after a loss of power now.
    pub(super) fn after_loss(&self, random: &mut Random) -> Vec<u8> {
        let mut content = self.content.clone();
        content.lose_power(random);
        content.bytes
    }

    /// Ranges that the journal claims.
    pub(super) fn claims(&self) -> RangeSet {
        let journal = self.journal.as_deref().and_then(|text| journal::decode(text).ok());
        journal.map_or_else(RangeSet::new, |journal| journal.done)
    }

    /// True when the journal is of a source of another size.
    fn is_of_other_source(&self, size: Bytes) -> bool {
        let journal = self.journal.as_deref().and_then(|text| journal::decode(text).ok());
        journal.is_some_and(|journal| match journal.source {
            Identity::Device(source) => source.size != size,
            Identity::File(source) => source.size != size,
        })
    }

    /// True when something stands against a copy that does not find its journal.
    pub(super) fn is_held(&self) -> bool {
        match self.file_system {
            Some(_) => self.old.is_some(),
            None => self.is_complete || !self.content.bytes.chunks(4096).all(guard::is_blank),
        }
    }
}

/// Sizes that all targets of a copy have in common, in bytes unless they say otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopySizes {
    pub(super) source_block: u64,
    /// The largest block of any drive.
    pub(super) block: u64,
    pub(super) request: u64,
    pub(super) slots: u32,
    pub(super) entries: u32,
    pub(super) source_offset: u64,
    pub(super) length: u64,
}

/// Offset and end of a copy at a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetShape {
    pub(super) block: u64,
    /// In bytes.
    pub(super) offset: u64,
    pub(super) tail: Tail,
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn drive(bytes: &[u8], block: u64) -> SimFile {
    SimFile {
        bytes: bytes.to_vec(),
        block,
        page_time: Nanos(1000),
        latency: Nanos(20_000),
        ..SimFile::default()
    }
}

impl World {
    pub(super) fn draw(kind: FaultKind, seed: u64) -> Self {
        // Each fault meets copies of its own.
        let mut random = Random::new((seed << 8) | kind as u64);
        let onto = draw_onto(&mut random, seed);
        let (shape, target_shapes) = draw_shape(&mut random, onto, kind);
        let is_file = random.below(2) == 0;
        let CopySizes { source_offset, length, .. } = shape;
        let mut full_source =
            vec![0; index((source_offset + length).next_multiple_of(shape.source_block))];
        random.fill(&mut full_source);
        if random.below(2) == 0 {
            for hole in draw_holes(&mut random, &shape).iter() {
                full_source[index(source_offset + hole.start)..index(source_offset + hole.end)]
                    .fill(0);
            }
        }
        if is_file && random.below(2) == 0 {
            // A file may end within a block.
            full_source.truncate(index(source_offset + length));
        }
        let payload = full_source[index(source_offset)..index(source_offset + length)].to_vec();
        let mut targets: Vec<SimTarget> = match onto {
            Onto::File => vec![SimTarget::file(&mut random, target_shapes[0], length)],
            Onto::Drives(_) => {
                let blank = pick(&mut random, &[None, None, Some(0), Some(0xff)]);
                let target = |shape| SimTarget::drive(&mut random, shape, length, blank);
                target_shapes.into_iter().map(target).collect()
            }
        };
        for target in &mut targets {
            target.may_need_force = target.file_system.is_some() || target.is_held();
        }
        // What memory that went away had moved is counted by ranges that are kept.
        let is_bounded = kind != FaultKind::MemoryGone && random.below(8) == 0;
        let ranges_max = is_bounded.then(|| index(1 + random.below(6)));
        let count = targets.len() as u64;
        let has_own_journal = count == 1 && random.below(2) == 0;
        Self {
            kind,
            shape,
            source: drive(&full_source, shape.source_block),
            full_source,
            payload,
            is_file,
            version: 0,
            has_own_journal,
            is_journal_elsewhere: has_own_journal && random.below(2) == 0,
            folder: None,
            targets,
            stages: Vec::new(),
            ranges_max,
            tokens: BTreeMap::new(),
            broken: if count > 1 { index(random.below(count)) } else { 0 },
            random,
        }
    }

    /// The files of the copy.
    pub(super) fn folder(&mut self) -> io::Result<Rc<RefCell<Folder>>> {
        if let Some(folder) = &self.folder {
            return Ok(Rc::clone(folder));
        }
        let mut folder = Folder::make()?;
        if let Some(old) = &self.targets[0].old {
            folder.put(TARGET.as_ref(), Some(old))?;
        }
        Ok(Rc::clone(self.folder.insert(Rc::new(RefCell::new(folder)))))
    }

    /// Returns the token of a drive. Number 0 is the source, the only one with holes.
    pub(super) fn token(&mut self, number: usize, content: &SimFile) -> io::Result<Rc<File>> {
        let key = (number, self.version, content.bytes.len());
        if let Some(token) = self.tokens.get(&key) {
            return Ok(Rc::clone(token));
        }
        let token = Rc::new(SimulatedDrive::token(content, self.is_file && number == 0)?);
        Ok(Rc::clone(self.tokens.entry(key).or_insert(token)))
    }

    /// Returns the name of a target, and of its journal.
    pub(super) fn name(&self, number: usize, folder: &Folder) -> io::Result<DriveName> {
        let target = &self.targets[number];
        let mut name = DriveName::new(number + 1, target.version);
        if target.file_system.is_some() {
            name.path = folder.path(TARGET);
        }
        let journal = match target.file_system {
            _ if self.is_journal_elsewhere => Ok(folder.path(ELSEWHERE).join("journal")),
            _ if self.has_own_journal => Ok(folder.path("journal")),
            Some(_) => journal::beside_file(&name.path),
            None => journal::for_device(&folder.path(""), &name.identity(Bytes::ZERO)),
        };
        let journal = journal.map_err(io::Error::other)?;
        let outer = folder.path("");
        let journal = journal.strip_prefix(outer).map_err(io::Error::other)?;
        name.journal = journal.as_os_str().to_owned();
        Ok(name)
    }

    /// True when an incomplete target can be written to only if a person permits it.
    pub(super) fn needs_force(&self) -> bool {
        let needs = |one: &SimTarget| {
            !one.is_complete && one.journal.is_none() && one.may_need_force && one.is_held()
        };
        // The slot of a write that was given up takes another part for the other targets, which may still be written.
        let may_hold_others = self.kind == FaultKind::WriteStuck && self.targets.len() > 1;
        may_hold_others || self.targets.iter().any(needs)
    }

    /// Ranges that earlier runs left at a target, as far as this one may know of them.
    pub(super) fn left_before(&self, number: usize, is_resumed: bool) -> RangeSet {
        let target = &self.targets[number];
        let whole = || {
            let mut whole = RangeSet::new();
            whole.insert(0..self.shape.length);
            whole
        };
        if target.is_complete {
            return whole();
        }
        match is_resumed {
            true if target.journal.is_none() && self.holds_all(target) => whole(),
            true => target.claims(),
            false => RangeSet::new(),
        }
    }

    /// True when a target that is not new holds all of the copy, which a copy without a journal finds by itself.
    fn holds_all(&self, target: &SimTarget) -> bool {
        let content = match target.file_system {
            Some(_) => target.old.as_deref(),
            None => target.content.bytes.get(self.range(target)),
        };
        target.is_held() && content == Some(&self.payload)
    }

    /// The range that the copy may change of a target.
    pub(super) fn range(&self, target: &SimTarget) -> Range<usize> {
        index(target.shape.offset)..index(target.shape.offset + self.shape.length)
    }

    /// A sector of the copy's range at one end; one of three is in the last block, which has most
    /// special cases.
    fn sector(&mut self, start: u64) -> u64 {
        let CopySizes { block, length, .. } = self.shape;
        match self.random.below(3) {
            0 => start + length - 1 - self.random.below(block.min(length)),
            _ => start + self.random.below(length),
        }
    }

    /// Lets the broken target keep a sector that each sample has: of the first or the last page, or
    /// any if a copy that begins leaves no page out.
    pub(super) fn lose_sector(&mut self, is_resumed: bool) {
        let start = self.targets[self.broken].shape.offset;
        let CopySizes { source_block, length, .. } = self.shape;
        let target = &self.targets[self.broken];
        let is_direct = target.file_system.is_none_or(|one| one.takes_direct);
        let block = if is_direct { target.shape.block } else { 1 };
        let (page, random) = (source_block.max(block).max(4096), &mut self.random);
        let last = (length - 1) / page * page;
        let at = match random.below(3) {
            _ if !is_resumed && length.div_ceil(page) <= sample_size(length) => {
                random.below(length)
            }
            0 => random.below(page.min(length)),
            _ => last + random.below(length - last),
        };
        self.targets[self.broken].content.lost_sector = Some(start + at / 512 * 512);
    }

    /// Puts the faults in place that are there from the start; a wish of the person is `None`.
    pub(super) fn break_things(&mut self) {
        let (source_offset, target_offset) =
            (self.shape.source_offset, self.targets[self.broken].shape.offset);
        let errno = pick(&mut self.random, &[Errno::IO, Errno::NODATA]);
        let at_source = self.sector(source_offset);
        let at_target = self.sector(target_offset);
        let flushes = u32::try_from(self.random.below(4)).unwrap_or(0);
        let fault = |action, offset, errno| SimFault { action, offset, errno };
        let (source, target) = (&mut self.source, &mut self.targets[self.broken].content);
        match self.kind {
            FaultKind::ReadErrorOnce | FaultKind::ReadErrorStays => {
                source.faults.push(fault(Action::Read, at_source, Some(errno)));
            }
            FaultKind::WriteErrorOnce | FaultKind::WriteErrorStays => {
                target.faults.push(fault(Action::Write, at_target, Some(errno)));
                target.faults.push(fault(Action::Zero, at_target, Some(errno)));
            }
            FaultKind::TargetFull => {
                target.faults.push(fault(Action::Write, at_target, Some(Errno::NOSPC)));
                target.faults.push(fault(Action::Zero, at_target, Some(Errno::NOSPC)));
            }
            FaultKind::FlushErrorOnce => target.failing_flush = Some(flushes),
            FaultKind::FlushError => target.faults.push(fault(Action::Flush, 0, Some(Errno::IO))),
            FaultKind::FlushStuck => target.faults.push(fault(Action::Flush, 0, None)),
            FaultKind::ReadStuck => source.faults.push(fault(Action::Read, at_source, None)),
            FaultKind::WriteStuck => target.faults.push(fault(Action::Write, at_target, None)),
            FaultKind::ReadsLost => source.lost = Lost::Reads,
            FaultKind::WritesLost => target.lost = Lost::Writes,
            FaultKind::WholeWritesLost => target.lost = Lost::WholeWrites,
            FaultKind::RouteRefused => {
                let refusal = pick(&mut self.random, &[Errno::INVAL, Errno::REMOTEIO]);
                let end = pick(&mut self.random, &[0, 1]);
                let file = if end == 0 { source } else { target };
                file.device_refusal = Some(refusal);
            }
            FaultKind::ZeroRefused => target.zero_refusal = Some(Errno::OPNOTSUPP),
            _ => {}
        }
    }

    /// Replaces cables, drives and sectors.
    pub(super) fn repair(&mut self) {
        let size = Bytes(self.full_source.len() as u64);
        for target in &mut self.targets {
            if target.is_of_other_source(size) {
                // It was begun after the source became shorter; a person takes it away.
                target.journal = None;
                target.may_need_force = true;
            }
            if target.content.is_gone {
                target.content.lose_power(&mut self.random);
            }
        }
        let targets = self.targets.iter_mut().map(|target| &mut target.content);
        for file in targets.chain([&mut self.source]) {
            file.faults.clear();
            file.is_gone = false;
            file.lost = Lost::None;
            (file.lost_sector, file.failing_flush) = (None, None);
            file.device_refusal = None;
        }
        self.source.bytes.clone_from(&self.full_source);
    }

    pub(super) fn mood(&self) -> Mood {
        match self.kind {
            FaultKind::None => Mood::default(),
            FaultKind::Difficult => Mood { short: 200, again: 100, early: 100 },
            _ => Mood { short: 40, again: 20, early: 100 },
        }
    }
}

/// Event while an operation is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueEvent {
    PowerCut,
    SourceGone,
    TargetGone,
    MemoryGone,
    ReadsLost,
    WritesLost,
    SourceShrinks,
    Stop,
    Killed,
}

impl QueueEvent {
    /// Applies the event to the source.
    pub(super) fn strike_source(self, source: &mut SimFile) {
        match self {
            Self::SourceGone => source.is_gone = true,
            Self::MemoryGone => source.device_refusal = Some(Errno::FAULT),
            Self::ReadsLost => source.lost = Lost::Reads,
            Self::SourceShrinks => {
                let half = source.bytes.len() / 2 / index(source.block) * index(source.block);
                source.bytes.truncate(half);
            }
            _ => {}
        }
    }

    /// Applies the event to the target.
    pub(super) fn strike_target(self, target: &mut SimFile) {
        match self {
            Self::TargetGone => target.is_gone = true,
            Self::MemoryGone => target.device_refusal = Some(Errno::FAULT),
            Self::WritesLost => target.lost = Lost::Writes,
            _ => {}
        }
    }
}
