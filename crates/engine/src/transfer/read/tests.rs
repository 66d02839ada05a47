//! Reads of files of a real file system, by the running kernel's io_uring.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use peerlane_memory::{Lent, host, lent};

use super::*;
use crate::io::clock::MonotonicClock;
use crate::io::watch::Watch;
use crate::transfer::copy::tests::{bare_machine, content, folder};

const DEADLINE: Nanos = Nanos::seconds(60);

fn reader(folder: &Path, length: u64) -> Reader {
    let path = folder.join("file");
    fs::write(&path, content(length)).unwrap();
    Reader::open(&bare_machine(), path.to_str().unwrap(), crate::io::DEADLINE).unwrap()
}

fn read(
    reader: &Reader,
    offset: u64,
    memory: &Lent,
    watch: &mut dyn Watch,
) -> Result<Reading, ReadError> {
    let clock = MonotonicClock::start();
    let mut tools = ReadTools { clock: &clock, watch, deadline: DEADLINE };
    reader.read_into(Bytes(offset), memory, &mut tools)
}

/// Reads into memory with a margin on both sides, and returns all of it.
fn read_at(reader: &Reader, offset: u64, room: u64) -> (Reading, Vec<u8>) {
    let (memory, lender) = lent::lend(host::allocate(Bytes(room)).unwrap()).unwrap();
    let reading = read(reader, offset, &memory, &mut ()).unwrap();
    drop(memory);
    let mut region = lender.take().expect("the ring is gone, and what it held with it");
    (reading, region.host_bytes_mut().unwrap().to_vec())
}

#[test]
fn any_range_is_read_to_where_it_belongs() {
    let folder = folder();
    let length = 5 * (1 << 20) + 777;
    let (reader, content) = (reader(folder.path(), length), content(length));
    for (offset, room) in [
        (0, length),
        (0, 1),
        (1, 4096),
        (4096, 8192),
        (511, 2 << 20),
        (length - 3, 9),
        (3, 70_001),
        (4099, length),
    ] {
        let (reading, bytes) = read_at(&reader, offset, room);
        let [from, count] =
            [offset, room.min(length - offset)].map(|n| usize::try_from(n).unwrap());
        let expected = &content[from..from + count];
        assert_eq!(reading.bytes.0, expected.len() as u64, "{offset} {room}");
        assert!(bytes.starts_with(expected), "{offset} {room}");
        assert!(bytes[expected.len()..].iter().all(|&byte| byte == 0), "{offset} {room}");
        let Reading { bytes, direct, shifted, copied, page_cache } = reading;
        assert_eq!(bytes.0, direct.0 + shifted.0 + copied.0 + page_cache.0);
        if offset % 512 != 0 && reader.is_direct() && bytes.0 > 64 << 10 {
            assert!(copied.0 <= 3 * reader.block().0, "{offset} {room}: {copied}");
        }
    }
}

#[test]
fn many_ranges_are_one_read() {
    let folder = folder();
    let length = 3 * (1 << 20) + 77;
    let (reader, content) = (reader(folder.path(), length), content(length));
    let rooms = [1, 4096, 6_400, 90_001].into_iter().cycle();
    let places: Vec<(u64, u64)> = (0..200).map(|n| n * 15_013 % length).zip(rooms).collect();
    let lent: Vec<_> = places
        .iter()
        .map(|&(_, room)| lent::lend(host::allocate(Bytes(room)).unwrap()).unwrap())
        .collect();
    let ranges: Vec<(Bytes, &Lent)> = places
        .iter()
        .zip(&lent)
        .map(|(&(offset, _), (memory, _))| (Bytes(offset), memory))
        .collect();
    let clock = MonotonicClock::start();
    let mut tools = ReadTools { clock: &clock, watch: &mut (), deadline: DEADLINE };
    let reading = reader.read_ranges(&ranges, &mut tools).unwrap();
    let mut total = 0;
    for (&(offset, room), (memory, lender)) in places.iter().zip(lent) {
        drop(memory);
        let mut region = lender.take().expect("the ring is gone, and what it held with it");
        let [from, count] =
            [offset, room.min(length - offset)].map(|n| usize::try_from(n).unwrap());
        let bytes = &region.host_bytes_mut().unwrap()[..count];
        assert!(bytes == &content[from..from + count], "{offset} {room}");
        total += count as u64;
    }
    let Reading { bytes, direct, shifted, copied, page_cache } = reading;
    assert_eq!((bytes.0, bytes.0), (total, direct.0 + shifted.0 + copied.0 + page_cache.0));
}

#[test]
fn whole_blocks_into_aligned_memory_are_not_copied() {
    let folder = folder();
    let reader = reader(folder.path(), 4 << 20);
    let (reading, _) = read_at(&reader, 0, 4 << 20);
    let all = Bytes::mib(4);
    let expected = if reader.is_direct() {
        Reading { bytes: all, direct: all, ..Reading::default() }
    } else {
        Reading { bytes: all, page_cache: all, ..Reading::default() }
    };
    assert_eq!(reading, expected);
}

#[test]
fn nothing_is_read_behind_the_end() {
    let folder = folder();
    let reader = reader(folder.path(), 100);
    for offset in [100, 101, u64::MAX] {
        let (reading, bytes) = read_at(&reader, offset, 16);
        assert_eq!((reading, bytes), (Reading::default(), vec![0; 16]), "{offset}");
    }
}

#[test]
fn growing_file_read_to_new_end() {
    let folder = folder();
    let reader = reader(folder.path(), 100);
    fs::write(folder.path().join("file"), content(300)).unwrap();
    let (reading, bytes) = read_at(&reader, 0, 400);
    assert_eq!((reader.size().unwrap(), reading.bytes), (Bytes(300), Bytes(300)));
    assert_eq!(bytes[..300], content(300));
}

/// Asks for the end after some pieces.
struct StopAfterPieces {
    asked: Cell<u32>,
    after: u32,
}

impl Watch for StopAfterPieces {
    fn stop_requested(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() > self.after
    }
}

#[test]
fn stop_leaves_nothing_in_flight() {
    let folder = folder();
    let reader = reader(folder.path(), 40 << 20);
    let (memory, lender) = lent::lend(host::allocate(Bytes::mib(40)).unwrap()).unwrap();
    let mut watch = StopAfterPieces { asked: Cell::new(0), after: 3 };
    let error = read(&reader, 0, &memory, &mut watch).unwrap_err();
    let ReadError::Interrupted { done, total } = error else { panic!("{error:?}") };
    assert!(done > Bytes::ZERO && done < total && total == Bytes::mib(40), "{done} {total}");
    drop(memory);
    let mut region = lender.take().expect("the ring is gone, and what it held with it");
    let done = usize::try_from(done.0).unwrap();
    assert_eq!(region.host_bytes_mut().unwrap()[..done], content(40 << 20)[..done]);
}

#[test]
fn what_is_no_source_of_payload_is_refused() {
    let open = |path: &str| {
        Reader::open(&bare_machine(), path, crate::io::DEADLINE).unwrap_err().to_string()
    };
    let words = "cannot read";
    for path in ["/", "/proc/version", "/dev/null", "/nowhere/at/all", "host"] {
        assert_eq!(open(path), words, "{path}");
    }
    assert_eq!(open(""), words);
}
