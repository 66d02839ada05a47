//! What outlives a run of the program: drives, content, the journal, and what is wrong with them.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use peerlane_results::{Route, Tail};
use peerlane_units::{Bytes, Nanos};
use rustix::io::Errno;

use super::Kind;
use crate::journal::{DeviceIdentity, IdKind, Identity, Journal, Options, StableId};
use crate::random::Random;
use crate::ranges::RangeSet;
use crate::ring::sim::{Cache, Lost, Mood, SimFault, SimFile, SimRing};
use crate::ring::{Action, Around, FileId, Operation, PushError, Ring};

/// A copy, its two drives and its journal.
#[derive(Debug)]
pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) random: Random,
    pub(super) shape: Shape,
    pub(super) source: SimFile,
    pub(super) target: SimFile,
    /// The source as it was made, and what of it is to be at the target.
    pub(super) full_source: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// The target before the copy.
    pub(super) before: Vec<u8>,
    /// Ranges of the copy that are holes of the source.
    pub(super) holes: RangeSet,
    /// The target was made for this copy: its holes are holes already.
    pub(super) is_new: bool,
    /// The source is a file, which tells its holes.
    pub(super) is_file: bool,
    /// The text on disk.
    pub(super) journal: Option<Vec<u8>>,
    pub(super) power: Rc<Cell<Power>>,
}

/// Sizes of a copy, in bytes unless they say otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) source_block: u64,
    pub(super) target_block: u64,
    pub(super) request: u64,
    pub(super) slots: u32,
    pub(super) entries: u32,
    pub(super) source_offset: u64,
    pub(super) target_offset: u64,
    pub(super) length: u64,
    pub(super) tail: Tail,
}

impl Shape {
    pub(super) fn block(&self) -> u64 {
        self.source_block.max(self.target_block)
    }

    /// What the copy may change of the target.
    pub(super) fn target_range(&self) -> Range<usize> {
        let end = self.target_offset + self.length;
        let end = match self.tail {
            // The owner of a file that was made for the copy cuts it back.
            Tail::RoundUpAndCut => self.target_offset + self.length.next_multiple_of(self.block()),
            _ => end,
        };
        index(self.target_offset)..index(end)
    }
}

/// Whether the machine has power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Power {
    #[default]
    On,
    Lost,
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[index(random.below(from.len() as u64))]
}

impl World {
    pub(super) fn draw(kind: Kind, seed: u64, onto: Onto) -> Self {
        let mut random = Random::new(seed);
        let shape = draw_shape(&mut random, onto);
        let is_file = onto == Onto::Device && random.below(2) == 0;
        let Shape { source_offset, length, .. } = shape;
        let mut full_source =
            vec![0; index((source_offset + length).next_multiple_of(shape.source_block))];
        random.fill(&mut full_source);
        let mut holes = RangeSet::new();
        if random.below(2) == 0 {
            holes = draw_holes(&mut random, &shape);
            for hole in holes.iter() {
                full_source[index(source_offset + hole.start)..index(source_offset + hole.end)]
                    .fill(0);
            }
        }
        let may_be_odd = onto == Onto::Either || is_file;
        if shape.tail == Tail::RoundUpAndCut || may_be_odd && random.below(2) == 0 {
            // A file may end within a block.
            full_source.truncate(index(source_offset + length));
        }
        let payload = full_source[index(source_offset)..index(source_offset + length)].to_vec();
        let end = shape.target_range().end as u64;
        let end = end.next_multiple_of(shape.target_block);
        let mut before = vec![0; index(end + random.below(3) * shape.target_block)];
        random.fill(&mut before);
        let is_new = onto == Onto::Either && random.below(3) == 0;
        if is_new {
            before[shape.target_range()].fill(0);
        }
        let file = |bytes: &[u8], block| SimFile {
            bytes: bytes.to_vec(),
            block,
            page_time: Nanos(1000),
            latency: Nanos(20_000),
            ..SimFile::default()
        };
        let source = file(&full_source, shape.source_block);
        let cache = Some(Cache::over(&before));
        let target = SimFile { cache, ..file(&before, shape.target_block) };
        Self {
            kind,
            random,
            shape,
            source,
            target,
            full_source,
            payload,
            before,
            holes,
            is_new,
            is_file,
            journal: None,
            power: Rc::default(),
        }
    }

    /// The journal of a copy that is about to begin.
    pub(super) fn new_journal(&self) -> Journal {
        let drive = |serial: &str| {
            Identity::Device(DeviceIdentity {
                name: "nvme0n1".to_owned(),
                model: None,
                ids: vec![StableId { kind: IdKind::Serial, value: serial.to_owned() }],
                size: Bytes(1 << 30),
                partition: None,
            })
        };
        Journal {
            program: "simulation".to_owned(),
            source: drive("A"),
            target: drive("B"),
            options: Options {
                source_offset: Bytes(self.shape.source_offset),
                target_offset: Bytes(self.shape.target_offset),
                length: Bytes(self.shape.length),
            },
            route: Route::P2p,
            partial: None,
            done: RangeSet::new(),
            overwrites: None,
            created: 1,
            updated: 1,
        }
    }

    /// The target as it would be after a loss of power now.
    pub(super) fn target_after_loss(&mut self) -> Vec<u8> {
        let mut target = self.target.clone();
        target.lose_power(&mut self.random);
        target.bytes
    }

    /// A sector of the copy's range at one end.
    fn sector(&mut self, start: u64) -> u64 {
        start + self.random.below(self.shape.length.max(1))
    }

    /// Puts the faults in place that are there from the start; a wish of the person is `None`.
    pub(super) fn break_things(&mut self) {
        let Shape { source_offset, target_offset, .. } = self.shape;
        let errno = pick(&mut self.random, &[Errno::IO, Errno::NODATA]);
        let at_source = self.sector(source_offset);
        let at_target = self.sector(target_offset);
        let fault = |action, offset, errno| SimFault { action, offset, errno };
        match self.kind {
            Kind::ReadErrorOnce | Kind::ReadErrorStays => {
                self.source.faults.push(fault(Action::Read, at_source, Some(errno)));
            }
            Kind::WriteErrorOnce | Kind::WriteErrorStays => {
                self.target.faults.push(fault(Action::Write, at_target, Some(errno)));
                self.target.faults.push(fault(Action::Zero, at_target, Some(errno)));
            }
            Kind::TargetFull => {
                self.target.faults.push(fault(Action::Write, at_target, Some(Errno::NOSPC)));
                self.target.faults.push(fault(Action::Zero, at_target, Some(Errno::NOSPC)));
            }
            Kind::FlushError => self.target.faults.push(fault(Action::Flush, 0, Some(Errno::IO))),
            Kind::FlushStuck => self.target.faults.push(fault(Action::Flush, 0, None)),
            Kind::ReadStuck => self.source.faults.push(fault(Action::Read, at_source, None)),
            Kind::WriteStuck => self.target.faults.push(fault(Action::Write, at_target, None)),
            Kind::ReadsLost => self.source.lost = Lost::Reads,
            Kind::WritesLost => self.target.lost = Lost::Writes,
            Kind::WholeWritesLost => self.target.lost = Lost::WholeWrites,
            Kind::RouteRefused => {
                let refusal = pick(&mut self.random, &[Errno::INVAL, Errno::REMOTEIO]);
                let end = pick(&mut self.random, &[0, 1]);
                let file = if end == 0 { &mut self.source } else { &mut self.target };
                file.device_refusal = Some(refusal);
            }
            Kind::ZeroRefused => self.target.zero_refusal = Some(Errno::OPNOTSUPP),
            _ => {}
        }
    }

    /// Somebody replaces cables, drives and sectors.
    pub(super) fn repair(&mut self) {
        if self.target.is_gone {
            self.target.lose_power(&mut self.random);
        }
        for file in [&mut self.source, &mut self.target] {
            file.faults.clear();
            file.is_gone = false;
            file.lost = Lost::None;
            file.device_refusal = None;
        }
        self.source.bytes.clone_from(&self.full_source);
    }

    pub(super) fn mood(&self) -> Mood {
        match self.kind {
            Kind::None => Mood::default(),
            Kind::Difficult => Mood { short: 200, again: 100, early: 100 },
            _ => Mood { short: 40, again: 20, early: 100 },
        }
    }
}

/// What a copy goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    Device,
    /// That, or a file that is made for it.
    Either,
}

fn draw_shape(random: &mut Random, onto: Onto) -> Shape {
    let (source_block, target_block) = (pick(random, &[512, 4096]), pick(random, &[512, 4096]));
    let larger: u64 = source_block.max(target_block);
    let tails = [Tail::None, Tail::RoundUpAndCut, Tail::MergeInSlot, Tail::MergeInHost];
    let mut tail = pick(random, &tails);
    if onto == Onto::Device && tail == Tail::RoundUpAndCut {
        tail = Tail::MergeInHost;
    }
    let unit = match tail {
        Tail::None => target_block,
        Tail::MergeInSlot => source_block,
        Tail::RoundUpAndCut | Tail::MergeInHost => 1,
    };
    // Holes below 64 KiB are moved like data.
    let long = if onto == Onto::Device && random.below(4) == 0 { random.below(8) << 16 } else { 0 };
    Shape {
        source_block,
        target_block,
        request: larger * (1 + random.below(4)),
        slots: u32::try_from(1 + random.below(6)).unwrap_or(1),
        entries: 4 + u32::try_from(random.below(12)).unwrap_or(0),
        source_offset: source_block * random.below(4),
        target_offset: target_block * random.below(4),
        length: (1 + long + random.below(20 * larger)).next_multiple_of(unit),
        tail,
    }
}

/// Whole blocks of the copy that are zero at the source.
fn draw_holes(random: &mut Random, shape: &Shape) -> RangeSet {
    let mut holes = RangeSet::new();
    let block = if shape.length > 1 << 17 { 1 << 16 } else { shape.block() };
    for number in 0..shape.length / block {
        if random.below(3) == 0 {
            holes.insert(number * block..(number + 1) * block);
        }
    }
    holes
}

/// What happens when an operation is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
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

impl Event {
    /// What it does to the source.
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

    /// What it does to the target.
    pub(super) fn strike_target(self, target: &mut SimFile) {
        match self {
            Self::TargetGone => target.is_gone = true,
            Self::MemoryGone => target.device_refusal = Some(Errno::FAULT),
            Self::WritesLost => target.lost = Lost::Writes,
            _ => {}
        }
    }
}

/// A ring to which something happens.
pub(super) struct FaultRing {
    pub(super) ring: SimRing,
    pub(super) source: FileId,
    pub(super) target: FileId,
    /// Operations queued up to now.
    pub(super) operations: u64,
    /// At which operation what happens.
    pub(super) event: Option<(u64, Event)>,
    pub(super) power: Rc<Cell<Power>>,
    pub(super) is_stopped: Rc<Cell<bool>>,
}

impl FaultRing {
    fn happen(&mut self, event: Event) {
        match event {
            Event::PowerCut => self.power.set(Power::Lost),
            Event::Stop => self.is_stopped.set(true),
            _ => {}
        }
        if let Some(mut source) = self.ring.file(self.source) {
            event.strike_source(&mut source);
        }
        if let Some(mut target) = self.ring.file(self.target) {
            event.strike_target(&mut target);
        }
    }

    fn powered(&self) -> io::Result<()> {
        match self.power.get() {
            Power::On => Ok(()),
            Power::Lost => Err(io::Error::other("power is lost")),
        }
    }
}

impl Around for FaultRing {
    type Inner = SimRing;

    fn inner(&self) -> &SimRing {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut SimRing {
        &mut self.ring
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.ring.push(operation)?;
        self.operations += 1;
        if let Some((_, event)) = self.event.take_if(|(at, _)| *at < self.operations) {
            self.happen(event);
        }
        Ok(())
    }

    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        // What was in flight before may end in the last moment; what is queued never begins.
        self.powered()?;
        self.ring.submit(wait, timeout)?;
        self.powered()
    }
}
