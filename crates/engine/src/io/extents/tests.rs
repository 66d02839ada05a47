use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use rustix::fs::FallocateFlags;

use super::device_reads::READ_AS_THEY_ARE;
use super::*;
use crate::testing::Loop;

const BLOCK: u64 = 4096;
const FROM_START: Grid = Grid { origin: 0, block: BLOCK };

/// A file on a file system whose holes are trusted; elsewhere these tests would show nothing.
fn sparse_file(size: u64, data: &[Range<u64>]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(size).unwrap();
    for range in data {
        let length = usize::try_from(range.end - range.start).unwrap();
        file.write_all_at(&vec![0xa5; length], range.start).unwrap();
    }
    file
}

fn make_zero(target: &File, range: &Range<u64>) -> Result<(), Errno> {
    rustix::fs::fallocate(target, ZERO_MODE, range.start, range.end - range.start)
}

fn walk(file: &File, within: Range<u64>, grid: Grid) -> Vec<Extent> {
    let extents = data_ranges(file, within, grid).unwrap();
    assert_eq!(extents.density(), Density::Asked, "set TMPDIR to ext4, XFS, btrfs, F2FS or tmpfs");
    extents.map(Result::unwrap).collect()
}

use Extent::{Data, Hole};

#[test]
fn holes_at_start_middle_and_end_are_found() {
    let file = sparse_file(64 * BLOCK, &[8 * BLOCK..16 * BLOCK, 32 * BLOCK..40 * BLOCK]);
    assert_eq!(
        walk(&file, 0..64 * BLOCK, FROM_START),
        [
            Hole(0..8 * BLOCK),
            Data(8 * BLOCK..16 * BLOCK),
            Hole(16 * BLOCK..32 * BLOCK),
            Data(32 * BLOCK..40 * BLOCK),
            Hole(40 * BLOCK..64 * BLOCK),
        ]
    );
}

#[test]
fn a_file_that_is_all_hole_is_one_hole() {
    let file = sparse_file(1 << 40, &[]);
    assert_eq!(walk(&file, 0..1 << 40, FROM_START), [Hole(0..1 << 40)]);
    assert_eq!(walk(&file, 5..7, FROM_START), [Hole(5..7)]);
}

#[test]
fn a_file_without_holes_is_one_run_of_data() {
    let all = 0..16 * BLOCK;
    let file = sparse_file(all.end, std::slice::from_ref(&all));
    assert_eq!(walk(&file, all.clone(), FROM_START), [Data(all)]);
}

#[test]
fn file_end_may_be_unaligned() {
    let size = 9 * BLOCK + 17;
    let file = sparse_file(size, &[9 * BLOCK..size]);
    assert_eq!(walk(&file, 0..size, FROM_START), [Hole(0..9 * BLOCK), Data(9 * BLOCK..size)]);
    let file = sparse_file(size, &[0..BLOCK]);
    assert_eq!(walk(&file, 0..size, FROM_START), [Data(0..BLOCK), Hole(BLOCK..size)]);
}

#[test]
fn an_empty_range_has_no_extents() {
    let file = sparse_file(BLOCK, &[]);
    assert_eq!(walk(&file, 0..0, FROM_START), []);
    assert_eq!(walk(&file, BLOCK..BLOCK, FROM_START), []);
}

#[test]
fn unwritten_extent_is_hole_until_written() {
    let file = sparse_file(32 * BLOCK, &[]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 32 * BLOCK).unwrap();
    assert_eq!(walk(&file, 0..32 * BLOCK, FROM_START), [Hole(0..32 * BLOCK)]);
    // The page is dirty and its extent still unwritten on disk: it must count as data.
    file.write_all_at(b"x", 10 * BLOCK + 5).unwrap();
    let expected =
        [Hole(0..10 * BLOCK), Data(10 * BLOCK..11 * BLOCK), Hole(11 * BLOCK..32 * BLOCK)];
    assert_eq!(walk(&file, 0..32 * BLOCK, FROM_START), expected);
    file.sync_all().unwrap();
    assert_eq!(walk(&file, 0..32 * BLOCK, FROM_START), expected);
}

#[test]
fn data_are_rounded_outward_on_grid() {
    let file = sparse_file(256 * BLOCK, &[100 * BLOCK..101 * BLOCK]);
    let grid = Grid { origin: 3 * BLOCK, block: 16 * BLOCK };
    assert_eq!(
        walk(&file, 3 * BLOCK..256 * BLOCK, grid),
        [
            Hole(3 * BLOCK..99 * BLOCK),
            Data(99 * BLOCK..115 * BLOCK),
            Hole(115 * BLOCK..256 * BLOCK),
        ]
    );
}

#[test]
fn data_with_short_holes_between_are_joined() {
    let data: Vec<_> = (0..32).map(|n| 4 * n * BLOCK..(4 * n + 1) * BLOCK).collect();
    let file = sparse_file(128 * BLOCK, &data);
    assert_eq!(walk(&file, 0..128 * BLOCK, FROM_START).len(), 64);
    let joined = |hole_min| {
        let extents = data_ranges(&file, 0..128 * BLOCK, FROM_START).unwrap();
        extents.joining(hole_min).map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(joined(3 * BLOCK).len(), 64);
    let last = 125 * BLOCK;
    assert_eq!(joined(4 * BLOCK), [Data(0..last), Hole(last..128 * BLOCK)], "none at the end");
}

#[test]
fn the_position_of_the_file_stays_where_it_was() {
    let mut file = sparse_file(64 * BLOCK, &[8 * BLOCK..16 * BLOCK]);
    file.seek(io::SeekFrom::Start(1234)).unwrap();
    walk(&file, 0..64 * BLOCK, FROM_START);
    assert_eq!(file.stream_position().unwrap(), 1234);
}

#[test]
fn a_range_beyond_the_file_is_refused() {
    let file = sparse_file(10, &[]);
    let error = data_ranges(&file, 0..11, FROM_START).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn unknown_file_system_has_only_data() {
    // Files of procfs have no size, so that a walk over one needs the inner function.
    let (probe, density) = open_probe(&File::open("/proc/self/status").unwrap()).unwrap();
    assert!(probe.is_none());
    assert_eq!(density, Density::FileSystem { magic: 0x9fa0 });
    let rest = 3..40;
    let extents = Extents { probe, density, rest, grid: FROM_START, hole_min: 0, known_data: None };
    assert_eq!(extents.map(Result::unwrap).collect::<Vec<_>>(), [Data(3..40)]);
}

#[test]
fn unanswered_holes_count_as_data() {
    let extents = |errno| {
        let mut extents = data_ranges(&sparse_file(BLOCK, &[]), 0..BLOCK, FROM_START).unwrap();
        let found = extents.give_up(errno, 10);
        (found.ok(), extents.density())
    };
    assert_eq!(extents(Errno::INVAL), (Some(10..BLOCK), Density::NoAnswer(Errno::INVAL)));
    assert_eq!(extents(Errno::IO), (None, Density::Asked));
}

#[test]
fn punched_range_reads_zero_rest_stays() {
    let mut file = sparse_file(16 * BLOCK, &[0..16 * BLOCK]);
    let range = 2 * BLOCK + 100..9 * BLOCK + 7;
    make_zero(&file, &range).unwrap();
    file.flush().unwrap();
    let mut content = vec![0; usize::try_from(16 * BLOCK).unwrap()];
    file.read_exact_at(&mut content, 0).unwrap();
    for (offset, byte) in (0u64..).zip(content) {
        assert_eq!(byte == 0, range.contains(&offset), "{offset}");
    }
    assert_eq!(
        walk(&file, 0..16 * BLOCK, FROM_START),
        [Data(0..3 * BLOCK), Hole(3 * BLOCK..9 * BLOCK), Data(9 * BLOCK..16 * BLOCK)]
    );
}

#[test]
fn reads_are_known_on_file_systems_that_tell() {
    let file = sparse_file(64 * BLOCK, &[0..BLOCK, 40 * BLOCK..42 * BLOCK]);
    let (data, holes) = (2 * BLOCK, 7 * BLOCK);
    let expected = READ_AS_THEY_ARE.contains(&magic_of(&file).unwrap());
    let expected = expected.then_some(DeviceReads { data, holes });
    let ranges = [0..2 * BLOCK, 41 * BLOCK..48 * BLOCK];
    assert_eq!(DeviceReads::count(&file, ranges.clone()).unwrap(), expected);
    assert_eq!(DeviceReads::count(&file, []).unwrap(), Some(DeviceReads::default()));
    // Holes of files in memory are told, and tell nothing of a device.
    let memory = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let memory = File::from(memory);
    memory.set_len(64 * BLOCK).unwrap();
    assert_eq!(DeviceReads::count(&memory, ranges).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_copy_of_the_data_alone_is_the_file(
        data in proptest::collection::vec((0u64..60 * BLOCK, 1u64..3 * BLOCK), 0..12),
        from in 0u64..8 * BLOCK, length in 1u64..56 * BLOCK,
        origin in 0u64..3 * BLOCK, block in 0u64..5 * BLOCK,
    ) {
        let data: Vec<_> = data.into_iter().map(|(start, size)| start..start + size).collect();
        let file = sparse_file(64 * BLOCK, &data);
        let within = from..from + length;
        let extents = walk(&file, within.clone(), Grid { origin, block });

        let mut at = within.start;
        let mut source = vec![0; usize::try_from(length).unwrap()];
        file.read_exact_at(&mut source, within.start).unwrap();
        let mut copy = vec![0; source.len()];
        for (index, extent) in extents.iter().enumerate() {
            let (Data(range) | Hole(range)) = extent;
            prop_assert_eq!(range.start, at);
            prop_assert!(!range.is_empty());
            at = range.end;
            if let Some(next) = extents.get(index + 1) {
                prop_assert_ne!(
                    matches!(extent, Data(_)), matches!(next, Data(_)), "kinds take turns"
                );
                let edge = range.end.abs_diff(origin);
                prop_assert_eq!(edge % block.max(1), 0, "an inner edge lies on the grid");
            }
            if matches!(extent, Data(_)) {
                let part = usize::try_from(range.start - within.start).unwrap()
                    ..usize::try_from(range.end - within.start).unwrap();
                copy[part.clone()].copy_from_slice(&source[part]);
            }
        }
        prop_assert_eq!(at, within.end);
        prop_assert!(copy == source, "a byte of data was taken for a hole");
    }
}

#[test]
fn block_device_is_data_zeroed_uncached() {
    let backing = tempfile::NamedTempFile::new().unwrap();
    backing.as_file().set_len(1 << 20).unwrap();
    let Some(device) = Loop::over(backing.path()) else { return };
    let target = std::fs::OpenOptions::new().read(true).write(true).open(&device.0).unwrap();
    let extents = data_ranges(&target, 0..1 << 20, FROM_START).unwrap();
    assert_eq!(extents.density(), Density::BlockDevice);
    assert_eq!(extents.map(Result::unwrap).collect::<Vec<_>>(), [Data(0..1 << 20)]);
    let reads = DeviceReads::count(&target, [0..BLOCK]).unwrap();
    assert_eq!(reads, Some(DeviceReads { data: BLOCK, holes: 0 }));

    // Dirty pages over the range must not come back over the zeroes.
    target.write_all_at(&[0xa5; 1 << 20], 0).unwrap();
    let range = 4 * BLOCK..100 * BLOCK;
    make_zero(&target, &range).unwrap();
    target.sync_all().unwrap();
    let again = File::open(&device.0).unwrap();
    let mut content = vec![0; 1 << 20];
    again.read_exact_at(&mut content, 0).unwrap();
    for (offset, byte) in (0u64..).zip(content) {
        assert_eq!(byte == 0, range.contains(&offset), "{offset}");
    }
    assert_eq!(make_zero(&target, &(100..300)), Err(Errno::INVAL), "part of a block");
}
