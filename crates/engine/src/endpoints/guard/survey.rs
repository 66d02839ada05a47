//! Tells whether a device is blank: the ranges that are read for it, and the finding.
//!
//! A block of 4 KiB is blank when all of its bytes are 0x00 or all are 0xFF, as drives read that were
//! discarded, formatted or erased. Anything else is content. A survey reads:
//!
//! - a device of up to [`WHOLE_MAX`]: all of it;
//! - of a larger one its first and its last MiB, which hold partition tables, superblocks and their
//!   backups, and the range that is to be written: all of a range of up to [`WHOLE_MAX`], else
//!   [`SAMPLES`] blocks at equal distances.
//!
//! So content in the range that is longer than [`Survey::gap`] in one piece is always found. Shorter pieces
//! between two samples, and content outside the range and the two ends, can be missed.
//!
//! Everything is read with direct I/O and a deadline for each request.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use peerlane_memory::MemoryError;
use peerlane_units::{Bytes, Nanos};
use rustix::fs::OFlags;

use super::reader::EndReader;
use super::writes::WriteMark;
use crate::endpoints::Live;
use crate::endpoints::machine::{Machine, host};
use crate::endpoints::open::Opened;
use crate::io::clock::Clock;
use crate::io::failure::RequestError;
use crate::io::ranges::RangeSet;
use crate::io::ring::UringError;
use crate::io::stamp::Stamp;

/// Devices and ranges of up to this size are read whole.
const WHOLE_MAX: u64 = 1 << 30;
/// Bytes that are always read at either end of a device.
const END: u64 = 1 << 20;
/// Blocks that are read of a larger range.
const SAMPLES: u64 = 1 << 14;
/// The unit that is blank or not, in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// Findings of a survey of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Bytes read.
    pub(crate) read: Bytes,
    /// Longest piece of content in the range that can have been missed; zero if all was read.
    pub(crate) gap: Bytes,
    /// Offset of the first block with content. The bytes behind it were not read.
    pub(crate) content: Option<u64>,
    /// Offset of the first block that only a benchmark of this program wrote.
    pub(crate) benchmark: Option<u64>,
}

impl Survey {
    /// The first block that is not blank.
    pub(crate) fn first(&self) -> Option<u64> {
        self.content.into_iter().chain(self.benchmark).min()
    }
}

/// Size of a device and of its logical blocks, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceSize {
    pub(crate) size: u64,
    pub(crate) block: u64,
}

/// Reason why a device could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SurveyError {
    /// It could not be opened.
    #[error("cannot open it")]
    Open(#[source] io::Error),
    /// A request failed, or was not answered.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is no ring.
    #[error(transparent)]
    Ring(#[from] UringError),
    /// There is no host memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Another device did not answer, and the command fails for that.
    #[error("another device did not answer")]
    NotAsked,
    /// The ring does not take the device.
    #[error("cannot attach it")]
    Attach(#[source] io::Error),
}

impl SurveyError {
    /// True when this device, or one that was asked before it, did not answer in time.
    pub(crate) fn is_timeout(&self) -> bool {
        match self {
            Self::Open(error) => error.kind() == io::ErrorKind::TimedOut,
            Self::Request(error) => matches!(error, RequestError::Stuck(_)),
            Self::NotAsked => true,
            _ => false,
        }
    }
}

/// Surveys of devices, each for as long as nothing was written to its disk. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Surveys(Arc<Mutex<Vec<KeptSurvey>>>);

/// A survey that an earlier look made.
#[derive(Debug)]
struct KeptSurvey {
    number: u64,
    range: Range<u64>,
    /// Taken before the device was read.
    mark: WriteMark,
    survey: Survey,
}

impl Surveys {
    fn find(&self, number: u64, range: &Range<u64>, mark: &WriteMark) -> Option<Survey> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |one: &&KeptSurvey| (one.number, &one.range, &one.mark) == (number, range, mark);
        all.iter().find(is_same).map(|one| one.survey)
    }

    fn keep(&self, kept: KeptSurvey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }
}

/// Surveys target devices, each range of one once.
pub struct Surveyor<'a> {
    machine: &'a dyn Machine,
    clock: &'a dyn Clock,
    deadline: Nanos,
    /// Findings of other surveyors of this command.
    surveys: Surveys,
    done: RefCell<Vec<(u64, Range<u64>, Survey)>>,
    /// A device has not answered in time. No device is read after that: deadlines must not add up.
    is_stuck: Cell<bool>,
}

impl fmt::Debug for Surveyor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surveyor").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl<'a> Surveyor<'a> {
    /// Waits for each request no longer than `deadline`.
    pub fn new(clock: &'a dyn Clock, deadline: Nanos) -> Self {
        Self::on(host(), clock, deadline)
    }

    /// The same on a machine.
    pub(crate) fn on(machine: &'a dyn Machine, clock: &'a dyn Clock, deadline: Nanos) -> Self {
        let (surveys, done, is_stuck) = (Surveys::default(), RefCell::default(), Cell::new(false));
        Self { machine, clock, deadline, surveys, done, is_stuck }
    }

    /// The same surveyor, which takes the findings of these surveys instead of reading again.
    #[must_use]
    pub fn with_surveys(self, surveys: &Surveys) -> Self {
        Self { surveys: surveys.clone(), ..self }
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// True when a device has not answered in time.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.get()
    }

    /// Notes that a device has not answered in time.
    pub(crate) fn note_stuck(&self) {
        self.is_stuck.set(true);
    }

    /// Reads a device before `range` of it is written. The same device and range are read once, so
    /// later writes are not seen.
    pub(crate) fn survey(
        &self,
        live: &Live,
        device: DeviceSize,
        range: Range<u64>,
    ) -> Result<Survey, SurveyError> {
        if self.is_stuck() {
            return Err(SurveyError::NotAsked);
        }
        let survey = self.survey_open(live, device, range);
        if survey.as_ref().is_err_and(SurveyError::is_timeout) {
            self.note_stuck();
        }
        survey
    }

    fn survey_open(
        &self,
        live: &Live,
        device: DeviceSize,
        range: Range<u64>,
    ) -> Result<Survey, SurveyError> {
        let opened = self.open(live)?;
        let number = number(&opened).map_err(SurveyError::Open)?;
        let known = |done: &Vec<(u64, Range<u64>, Survey)>| {
            let mut all = done.iter();
            all.find(|one| (one.0, &one.1) == (number, &range)).map(|one| one.2)
        };
        if let Some(survey) = known(&self.done.borrow()) {
            return Ok(survey);
        }
        let mark = WriteMark::read(self.machine.system(), live, &opened.file);
        let kept = mark.as_ref().and_then(|mark| self.surveys.find(number, &range, mark));
        let survey = match kept {
            Some(survey) => survey,
            None => self.read(&opened, device, &range)?,
        };
        if let (None, Some(mark)) = (kept, mark) {
            self.surveys.keep(KeptSurvey { number, range: range.clone(), mark, survey });
        }
        self.done.borrow_mut().push((number, range, survey));
        Ok(survey)
    }

    fn read(
        &self,
        opened: &Opened,
        device: DeviceSize,
        range: &Range<u64>,
    ) -> Result<Survey, SurveyError> {
        let (spans, gap) = spans(device, range);
        let mut survey =
            Survey { read: Bytes::ZERO, gap: Bytes(gap), content: None, benchmark: None };
        self.reader(opened, device.block)?.spans(&spans, |at, bytes| survey.take(at, bytes))?;
        Ok(survey)
    }

    /// Reads an open device, whose blocks have `block` bytes.
    pub(crate) fn reader(&self, opened: &Opened, block: u64) -> Result<EndReader<'a>, SurveyError> {
        EndReader::new(self.machine, opened, block, (self.clock, self.deadline))
    }

    /// Opens a device as other programs do, by its block device.
    pub(crate) fn open(&self, live: &Live) -> Result<Opened, SurveyError> {
        let block =
            Live { path: live.guarded_path().to_owned(), passthrough: None, ..live.clone() };
        self.machine.open(OFlags::RDONLY, &block, self.deadline).map_err(SurveyError::Open)
    }
}

impl Survey {
    fn take(&mut self, offset: u64, bytes: &[u8]) -> ControlFlow<()> {
        self.read = Bytes(self.read.0 + bytes.len() as u64);
        for (at, block) in (offset..).step_by(4096).zip(bytes.chunks(4096)) {
            if is_blank(block) {
                continue;
            }
            if !Stamp::Benchmark.is_on(block) {
                self.content = Some(at);
                return ControlFlow::Break(());
            }
            self.benchmark.get_or_insert(at);
        }
        ControlFlow::Continue(())
    }
}

/// True when all bytes are 0x00, or all are 0xFF.
pub(crate) fn is_blank(block: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    const ONES: [u8; 4096] = [0xff; 4096];
    let is_all = |of: &[u8]| block.chunks(4096).all(|chunk| *chunk == of[..chunk.len()]);
    is_all(&ZEROES) || is_all(&ONES)
}

fn number(opened: &Opened) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let facts = opened.file.metadata()?;
    Ok(facts.rdev() ^ facts.ino().rotate_left(32))
}

/// Returns the ranges to read of a device, in whole blocks, and the longest piece of content that
/// can be missed.
pub(crate) fn spans(device: DeviceSize, range: &Range<u64>) -> (RangeSet, u64) {
    let (size, unit) = (device.size, device.block.max(BLOCK));
    let mut spans = RangeSet::with_limit(usize::MAX);
    if size <= WHOLE_MAX {
        spans.insert(0..size);
        return (spans, 0);
    }
    spans.insert(0..END);
    spans.insert((size - END) / unit * unit..size);
    let start = range.start / unit * unit;
    let end = range.end.checked_next_multiple_of(unit).unwrap_or(size).min(size);
    if end <= start {
        return (spans, 0);
    }
    if end - start <= WHOLE_MAX {
        spans.insert(start..end);
        return (spans, 0);
    }
    let step = ((end - start) / SAMPLES / unit * unit).max(unit);
    let mut at = start;
    while at < end {
        spans.insert(at..(at + unit).min(end));
        at += step;
    }
    (spans, step)
}

#[cfg(test)]
impl Surveyor<'static> {
    /// One that has read nothing yet, with a deadline that no test reaches.
    pub(crate) fn for_tests() -> Self {
        static CLOCK: std::sync::LazyLock<crate::io::clock::MonotonicClock> =
            std::sync::LazyLock::new(crate::io::clock::MonotonicClock::start);
        Self::new(&*CLOCK, crate::io::DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::endpoints::guard::tests::{DeviceTree, block_device};
    use crate::endpoints::machine::Host;
    use crate::endpoints::{Layer, PathNode};
    use crate::io::clock::MonotonicClock;
    use crate::testing::skip;
    use peerlane_memory::page_cache::unwritten_pages;

    const STAT: &str = "sys/class/block/nvme0n1/stat";

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn live(path: &Path) -> Live {
        Live {
            path: path.to_owned(),
            node: PathNode::Block,
            device: None,
            layer: None,
            is_direct: true,
            passthrough: None,
        }
    }

    /// Surveys a sparse file of `size` bytes as a device, with these bytes in it.
    fn surveyed(size: u64, range: Range<u64>, content: &[(u64, &[u8])]) -> Survey {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let file = File::create(&path).unwrap();
        file.set_len(size).unwrap();
        content.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        let clock = MonotonicClock::start();
        let surveyor = Surveyor::new(&clock, Nanos::seconds(60));
        surveyor.survey(&live(&path), DeviceSize { size, block: 512 }, range).unwrap()
    }

    #[test]
    fn zeroes_and_ones_are_blank() {
        let ones = [0xff; 8192];
        let survey = surveyed(8 * MIB, 0..MIB, &[(MIB, &ones), (7 * MIB, &ones)]);
        assert_eq!((survey.first(), survey.read, survey.gap), (None, Bytes(8 * MIB), Bytes::ZERO));
    }

    #[test]
    fn single_bytes_of_small_devices_are_content() {
        for at in [0, 4095, 4 * MIB + 1, 8 * MIB - 1] {
            let survey = surveyed(8 * MIB, 0..512, &[(at, &[1])]);
            assert_eq!(survey.content, Some(at / BLOCK * BLOCK), "{at}");
        }
        let mixed = [[0; 2048], [0xff; 2048]].concat();
        assert_eq!(surveyed(8 * MIB, 0..512, &[(0, &mixed)]).content, Some(0), "both in one block");
    }

    #[test]
    fn odd_tails_are_read() {
        let size = 8 * MIB + 512;
        assert_eq!(surveyed(size, 0..512, &[(size - 1, &[1])]).content, Some(8 * MIB));
        let size = 3 * GIB + 512;
        assert_eq!(surveyed(size, 0..512, &[(size - 1, &[1])]).content, Some(3 * GIB));
    }

    #[test]
    fn both_ends_of_large_devices_are_read() {
        let size = 3 * GIB;
        for at in [0, MIB - 1, size - MIB, size - 1] {
            let survey = surveyed(size, GIB..GIB + 512, &[(at, &[1])]);
            assert_eq!(survey.content, Some(at / BLOCK * BLOCK), "{at}");
        }
        assert_eq!(surveyed(size, GIB..GIB + 512, &[(2 * GIB, &[1])]).content, None, "not written");
    }

    #[test]
    fn ranges_of_large_devices_are_read_whole() {
        let at = 2 * GIB - 1;
        let survey = surveyed(3 * GIB, GIB..2 * GIB, &[(at, &[1])]);
        assert_eq!((survey.content, survey.gap), (Some(at / BLOCK * BLOCK), Bytes::ZERO));
    }

    #[test]
    fn runs_longer_than_the_gap_are_found() {
        let range = MIB..3 * GIB - 512;
        let gap = surveyed(3 * GIB, range.clone(), &[]).gap.0;
        assert!((1..=(3 * GIB) / SAMPLES).contains(&gap), "{gap}");
        let run = vec![1; usize::try_from(gap + 1).unwrap()];
        for at in [MIB, 2 * MIB + 777, GIB + 4097, 3 * GIB - 512 - (gap + 1)] {
            let survey = surveyed(3 * GIB, range.clone(), &[(at, &run)]);
            assert!(survey.content.is_some(), "{at}");
        }
    }

    #[test]
    fn benchmark_blocks_are_told_from_content() {
        let mut own = vec![0; 8192];
        Stamp::Benchmark.fill(3, &mut own);
        let survey = surveyed(8 * MIB, 0..512, &[(MIB, &own)]);
        assert_eq!((survey.content, survey.benchmark), (None, Some(MIB)));
        let survey = surveyed(8 * MIB, 0..512, &[(MIB, &own), (2 * MIB, &[1])]);
        assert_eq!((survey.content, survey.benchmark), (Some(2 * MIB), Some(MIB)));
        own[5000] ^= 1;
        assert_eq!(surveyed(8 * MIB, 0..512, &[(MIB, &own)]).content, Some(MIB + 4096));
    }

    /// Surveys a blank drive, writes content to it and runs `after` on its tree. Returns the
    /// finding of a second surveyor.
    fn seen_again(after: impl FnOnce(&DeviceTree)) -> Survey {
        let mut tree = DeviceTree::new();
        tree.device("nvme0n1");
        tree.write("sys/class/block/nvme0n1/diskseq", "9\n");
        tree.write("sys/class/block/nvme0n1/queue/iostats", "1\n");
        tree.write("sys/class/block/nvme0n1/stat", "9 0 8 7 20 0 200 5 0 1 1 3 0 30 5 2 1\n");
        let path = tree.path("content");
        let file = File::create(&path).unwrap();
        file.set_len(MIB).unwrap();
        file.sync_all().unwrap();
        let live = Live {
            device: Some(block_device("nvme0n1")),
            layer: Some(Layer::Nvme { network: None }),
            ..live(&path)
        };
        let (machine, clock) = (Host::at(&tree.path("")), MonotonicClock::start());
        let (surveys, device) = (Surveys::default(), DeviceSize { size: MIB, block: 512 });
        let survey = || {
            let surveyor = Surveyor::on(&machine, &clock, Nanos::seconds(60));
            surveyor.with_surveys(&surveys).survey(&live, device, 0..512).unwrap()
        };
        assert_eq!(survey().first(), None);
        file.write_all_at(&[1], 0).unwrap();
        file.sync_all().unwrap();
        after(&tree);
        survey()
    }

    #[test]
    fn device_without_writes_is_read_once() {
        if unwritten_pages(tempfile::tempfile().unwrap(), 0..1).is_err() {
            skip("cachestat", "the kernel does not count unwritten pages");
            return;
        }
        assert_eq!(seen_again(|_| {}).first(), None);
        let reads = "99 0 99 7 20 0 200 5 0 1 1 3 0 30 5 9 1\n";
        assert_eq!(seen_again(|tree| tree.write(STAT, reads)).first(), None);
    }

    #[test]
    fn device_with_writes_is_read_again() {
        for stat in [
            "9 0 8 7 21 0 200 5 0 1 1 3 0 30 5 2 1\n",
            "9 0 8 7 20 0 208 5 0 1 1 3 0 30 5 2 1\n",
            "9 0 8 7 20 0 200 5 0 1 1 4 0 30 5 2 1\n",
            "9 0 8 7 20 0 200 5 0 1 1 3 0 38 5 2 1\n",
            "9 0 8 7 20 0 200 5 1 1 1 3 0 30 5 2 1\n",
            "9 0 8 7 20 0 200\n",
        ] {
            assert_eq!(seen_again(|tree| tree.write(STAT, stat)).first(), Some(0), "{stat}");
        }
        for (file, text) in [("diskseq", "10\n"), ("queue/iostats", "0\n")] {
            let path = format!("sys/class/block/nvme0n1/{file}");
            assert_eq!(seen_again(|tree| tree.write(&path, text)).first(), Some(0), "{file}");
        }
        let path = "sys/class/block/nvme0c1n1/size";
        assert_eq!(seen_again(|tree| tree.write(path, "8\n")).first(), Some(0), "another path");
    }

    #[test]
    fn unreadable_devices_are_errors() {
        let clock = MonotonicClock::start();
        let surveyor = Surveyor::new(&clock, Nanos::seconds(60));
        let device = DeviceSize { size: MIB, block: 512 };
        let error = surveyor.survey(&live(Path::new("/nonexistent")), device, 0..512).unwrap_err();
        assert!(matches!(error, SurveyError::Open(_)) && !error.is_timeout(), "{error:?}");
    }

    proptest! {
        #[test]
        fn spans_hold_both_ends_and_leave_no_larger_gap(
            size in 1u64..1 << 45,
            start in 0u64..1 << 45,
            length in 0u64..1 << 45,
            shift in 9u32..17,
        ) {
            let block = 1 << shift;
            let size = (size / block * block).max(block);
            let range = start.min(size)..start.saturating_add(length).min(size);
            let (spans, gap) = spans(DeviceSize { size, block }, &range);
            prop_assert!(spans.contains_range(0..size.min(END)));
            prop_assert!(spans.contains_range(size.saturating_sub(END)..size));
            for missed in spans.missing(range) {
                prop_assert!(missed.end - missed.start < gap.max(1));
            }
            for span in spans.iter() {
                prop_assert!(span.start % block == 0 && (span.end % block == 0) && span.end <= size);
            }
        }
    }
}
