//! A copy of 1 TiB needs no more memory than a copy of 1 GiB.
//!
//! The ring here moves nothing and answers at once, so a tebibyte of requests takes a moment. The
//! test compares the most address space the process ever held (`VmPeak`), read after each copy:
//! unlike resident memory it is counted exactly. A byte kept for each request would add a mebibyte.

use std::collections::VecDeque;
use std::{fs, io};

use peerlane_engine::MonotonicClock;
use peerlane_engine::relay::{self, Transfer, relay};
use peerlane_engine::ring::{Completion, FileId, Operation, PushError, RegionId, Ring};
use peerlane_results::{MemoryKind, Tail};
use peerlane_units::Nanos;

const REQUEST: u64 = 1 << 20;
const SLOTS: u32 = 16;

/// Completes every operation in full.
#[derive(Default)]
struct Null {
    done: VecDeque<Completion>,
}

impl Ring for Null {
    type File = ();
    type Region = ();

    fn attach_file(&mut self, (): ()) -> io::Result<FileId> {
        Ok(FileId(0))
    }

    fn attach_region(&mut self, (): ()) -> RegionId {
        RegionId(0)
    }

    fn region_length(&self, _: RegionId) -> Option<u64> {
        Some(REQUEST * u64::from(SLOTS))
    }

    fn space(&self) -> u32 {
        4 * SLOTS - self.in_flight()
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.done.push_back(Completion { tag: operation.tag, result: Ok(operation.length) });
        Ok(())
    }

    fn submit(&mut self, _: u32, _: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.done.len()).unwrap_or(u32::MAX)
    }

    fn host_range(&mut self, _: RegionId, _: std::ops::Range<u64>) -> Option<&mut [u8]> {
        None
    }
}

#[expect(clippy::unwrap_used, reason = "a test's helper")]
fn copy(length: u64) -> u64 {
    let mut ring = Null::default();
    let transfer = Transfer {
        source: FileId(0),
        target: FileId(0),
        region: RegionId(0),
        memory: MemoryKind::P2pmem,
        source_offset: 0,
        target_offset: 0,
        length,
        request: REQUEST,
        slots: SLOTS,
        slot_stride: REQUEST,
        source_block: 512,
        target_block: 512,
        tail: Tail::None,
        stages: 0,
        deadline: relay::DEADLINE,
    };
    relay(&mut ring, &transfer, &MonotonicClock::start(), &mut ()).unwrap().bytes
}

#[expect(clippy::unwrap_used, reason = "a test's helper")]
fn most_address_space_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn tebibyte_needs_no_more_than_gibibyte() {
    assert_eq!(copy(1 << 30), 1 << 30);
    let after_small = most_address_space_kib();
    assert_eq!(copy(1 << 40), 1 << 40);
    let grown = most_address_space_kib() - after_small;
    assert!(grown <= 256, "grew by {grown} KiB");
}
