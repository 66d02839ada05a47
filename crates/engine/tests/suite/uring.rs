//! The engine on the io_uring of the running kernel, with host memory and files.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

use crate::testing;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;

use crate::common::{direct, folder, noise, ring};
use peerlane_engine::failure::{Cause, RequestError, Role};
use peerlane_engine::prove::{ProofSetup, prove_route};
use peerlane_engine::relay::{DEADLINE, RelayError, Transfer, merge_in_host, relay};
use peerlane_engine::ring::{
    Action, FileId, Operation, PassthroughFile, PassthroughNamespace, PushError, RegionId, Ring,
    Staged, Uring,
};
use peerlane_engine::stage::{DigestStage, StageFault};
use peerlane_engine::verify::{ComparisonRequest, Coverage, Digests, verify};
use peerlane_engine::{Clock, MonotonicClock};
use peerlane_memory::{Region, host};
use peerlane_results::{MemoryKind, Tail};
use peerlane_units::{Bytes, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use twox_hash::XxHash3_128;

const BLOCK: u64 = 4096;

/// A ring with a source and a target file and a region of host memory.
struct UringBench {
    ring: Uring,
    source: FileId,
    target: FileId,
    region: RegionId,
    target_path: PathBuf,
    _folder: tempfile::TempDir,
}

fn bench(source: &[u8], target: &[u8]) -> Option<UringBench> {
    let mut ring = ring(64)?;
    let folder = folder();
    let (source_path, target_path) = (folder.path().join("source"), folder.path().join("target"));
    std::fs::write(&source_path, source).unwrap();
    std::fs::write(&target_path, target).unwrap();
    let source = ring.attach_file(direct(&source_path)?).unwrap();
    let target = ring.attach_file(direct(&target_path)?).unwrap();
    let region = ring.attach_region(host::allocate(Bytes::mib(4)).unwrap());
    Some(UringBench { ring, source, target, region, target_path, _folder: folder })
}

impl UringBench {
    fn transfer(&self, length: u64, tail: Tail) -> Transfer {
        Transfer {
            source: self.source,
            target: self.target,
            region: self.region,
            memory: MemoryKind::Host,
            source_offset: 0,
            target_offset: 0,
            length,
            request: 16 * BLOCK,
            slots: 16,
            slot_stride: 16 * BLOCK,
            source_block: BLOCK,
            target_block: BLOCK,
            tail,
            stages: 0,
            deadline: DEADLINE,
        }
    }
}

#[test]
fn a_file_is_copied_through_slots() {
    let payload = noise(5 << 20, 1);
    let Some(mut bench) = bench(&payload, b"") else { return };
    let transfer = bench.transfer(payload.len() as u64, Tail::None);
    let moved = relay(&mut bench.ring, &transfer, &MonotonicClock::start(), &mut ()).unwrap();
    assert_eq!((moved.bytes, moved.contiguous()), (5 << 20, 5 << 20));
    assert_eq!(moved.read_latency.len(), 80);
    assert_eq!(moved.write_latency.len(), 80);
    assert!(moved.first_done > Nanos(0) && moved.first_done <= moved.last_done);
    assert!(std::fs::read(&bench.target_path).unwrap() == payload);
}

#[test]
fn odd_end_is_rounded_up() {
    for length in [1, 511, 4097, 65536 + 300, (1 << 20) + 4095] {
        let payload = noise(length, 2);
        let Some(mut bench) = bench(&payload, b"") else { return };
        let transfer = bench.transfer(length as u64, Tail::RoundUpAndCut);
        let moved = relay(&mut bench.ring, &transfer, &MonotonicClock::start(), &mut ()).unwrap();
        assert_eq!(moved.bytes, length as u64);
        let written = std::fs::read(&bench.target_path).unwrap();
        assert_eq!(written.len(), length.next_multiple_of(4096));
        assert!(written[..length] == payload);
    }
}

#[test]
fn digests_are_of_chunks_as_read() {
    for length in [1, 4097, 65536 + 300, (5 << 20) + 5001] {
        let payload = noise(length, 5);
        let Some(bench) = bench(&payload, b"") else { return };
        let transfer = Transfer { stages: 1, ..bench.transfer(length as u64, Tail::RoundUpAndCut) };
        let found = Rc::new(RefCell::new(BTreeMap::new()));
        let told = Rc::clone(&found);
        let mut staged = Staged::new(bench.ring);
        staged.add(Box::new(DigestStage::new(move |offset, bytes, digest| {
            assert_eq!(told.borrow_mut().insert((offset, bytes), digest), None, "each chunk once");
            Ok(())
        })));
        relay(&mut staged, &transfer, &MonotonicClock::start(), &mut ()).unwrap();
        assert!(std::fs::read(&bench.target_path).unwrap()[..length] == payload);
        let starts = (0..length as u64).step_by(16 * 4096);
        let chunks = payload.chunks(16 * 4096);
        let digest = |(start, chunk): (u64, &[u8])| {
            ((start, chunk.len() as u64), XxHash3_128::oneshot(chunk))
        };
        let expected: BTreeMap<_, _> = starts.zip(chunks).map(digest).collect();
        assert!(*found.borrow() == expected, "{length}");
    }
}

#[test]
fn digest_that_is_not_kept_ends_the_relay() {
    let payload = noise(5 << 20, 6);
    let Some(bench) = bench(&payload, b"") else { return };
    let transfer = Transfer { stages: 1, ..bench.transfer(5 << 20, Tail::None) };
    let mut staged = Staged::new(bench.ring);
    let lost = 32 * BLOCK;
    staged.add(Box::new(DigestStage::new(move |offset, _, _| match offset {
        _ if offset == lost => Err(StageFault("no room".to_owned())),
        _ => Ok(()),
    })));
    let error = relay(&mut staged, &transfer, &MonotonicClock::start(), &mut ()).unwrap_err();
    let RelayError::Stopped { source: RequestError::Stage { number: 0, .. }, moved } = error else {
        panic!("{error:?}")
    };
    assert!(!moved.written.contains(lost), "its chunk is not at the target");
    assert_eq!(staged.fault().map(|fault| fault.0.as_str()), Some("no room"));
    assert_eq!(staged.in_flight(), 0);
}

#[test]
fn odd_end_merge_keeps_content_behind() {
    for (length, target_length) in [(4096 + 100, 3 * 4096), (100, 8192), (2 * 4096 - 1, 2 * 4096)] {
        let (payload, before) = (noise(8192, 3), noise(target_length, 4));
        let Some(mut bench) = bench(&payload, &before) else { return };
        let transfer = bench.transfer(length, Tail::MergeInHost);
        let clock = MonotonicClock::start();
        let moved = relay(&mut bench.ring, &transfer, &clock, &mut ()).unwrap();
        let merged = merge_in_host(&mut bench.ring, &transfer, bench.region, &clock).unwrap();
        assert_eq!(moved.bytes + merged, length);
        let length = usize::try_from(length).unwrap();
        let expected = [&payload[..length], &before[length..]].concat();
        assert!(std::fs::read(&bench.target_path).unwrap() == expected, "{length}");
    }
}

#[test]
fn an_odd_end_is_merged_in_its_slot() {
    let (payload, before) = (noise(8192, 9), noise(12288, 10));
    let Some(mut bench) = bench(&payload, &before) else {
        return;
    };
    let length = 4096 + 1536;
    let transfer = Transfer { source_block: 512, ..bench.transfer(length, Tail::MergeInSlot) };
    match relay(&mut bench.ring, &transfer, &MonotonicClock::start(), &mut ()) {
        Ok(moved) => assert_eq!(moved.bytes, length),
        Err(RelayError::Stopped { source: RequestError::Failed(failure), .. })
            if failure.cause == Cause::NotAligned =>
        {
            let reason = "the file system has no blocks of 512 bytes";
            return testing::skip("direct-io", reason);
        }
        Err(error) => panic!("{error:?}"),
    }
    let expected = [&payload[..5632], &before[5632..]].concat();
    assert!(std::fs::read(&bench.target_path).unwrap() == expected);
}

#[test]
fn host_route_is_proved_and_compared() {
    let (payload, before) = (noise(300_000, 11), noise(300_000, 12));
    let Some(mut bench) = bench(&payload, &before) else { return };
    let host = bench.ring.attach_region(host::allocate(Bytes::mib(1)).unwrap());
    let second = bench.ring.attach_region(host::allocate(Bytes::mib(1)).unwrap());
    let clock = MonotonicClock::start();
    let UringBench { source, target, region, .. } = bench;
    let setup = ProofSetup {
        probes: true,
        source,
        target,
        memory: region,
        memory_kind: MemoryKind::Host,
        slot_offset: 8192,
        host,
        source_offset: 0,
        target_offset: 0,
        length: BLOCK,
        payload: BLOCK,
        source_block: BLOCK,
        target_block: BLOCK,
        seed: 13,
        deadline: DEADLINE,
    };
    assert_eq!(prove_route(&mut bench.ring, &setup, &clock).unwrap().evidence.len(), 2);
    let length = payload.len() as u64;
    let comparison = ComparisonRequest {
        source,
        target,
        source_offset: 0,
        target_offset: 0,
        length,
        source_block: BLOCK,
        target_block: BLOCK,
        coverage: Coverage::Full,
        hosts: [host, second],
        digests: Digests::Left,
        deadline: DEADLINE,
    };
    let verified = verify(&mut bench.ring, &comparison, &clock, &mut ()).unwrap();
    let first = verified.first.unwrap();
    assert_eq!((verified.mismatches, first.offset / BLOCK), (73, 1), "all but the proof's block");
    let transfer = bench.transfer(length, Tail::RoundUpAndCut);
    relay(&mut bench.ring, &transfer, &clock, &mut ()).unwrap();
    let verified = verify(&mut bench.ring, &comparison, &clock, &mut ()).unwrap();
    assert_eq!((verified.bytes, verified.mismatches), (length, 0));
}

#[test]
fn short_source_stops_copy_at_written() {
    let payload = noise(1 << 20, 5);
    let Some(mut bench) = bench(&payload, b"") else { return };
    let transfer = bench.transfer(2 << 20, Tail::None);
    let error = relay(&mut bench.ring, &transfer, &MonotonicClock::start(), &mut ()).unwrap_err();
    let RelayError::Stopped { source: RequestError::Failed(failure), ref moved } = error else {
        panic!("{error:?}")
    };
    assert_eq!((failure.role, failure.cause), (Role::Source, Cause::EndedEarly));
    assert_eq!(moved.contiguous(), 1 << 20);
    assert_eq!(bench.ring.in_flight(), 0);
    assert!(std::fs::read(&bench.target_path).unwrap() == payload);
}

#[test]
fn memory_of_a_request_in_flight_is_lent_out() {
    let Some(mut bench) = bench(&noise(4096, 6), b"") else { return };
    let operation = Operation {
        action: Action::Read,
        file: bench.source,
        file_offset: 0,
        region: bench.region,
        region_offset: 0,
        length: 8192,
        tag: 1,
    };
    bench.ring.push(operation).unwrap();
    assert!(bench.ring.host_bytes(bench.region).is_none());
    let mut ends = Vec::new();
    while bench.ring.in_flight() > 0 {
        bench.ring.submit(1, Nanos::seconds(10)).unwrap();
        ends.extend(std::iter::from_fn(|| bench.ring.pop()).map(|end| (end.tag, end.result)));
    }
    assert_eq!(ends, [(1, Ok(4096))], "the file ends there");
    assert!(bench.ring.host_bytes(bench.region).unwrap()[..4096] == noise(4096, 6));
}

#[test]
fn a_request_beyond_its_region_is_not_queued() {
    let Some(mut bench) = bench(b"", b"") else {
        return;
    };
    let region_length = 4 << 20;
    let operation = |region_offset, length| Operation {
        action: Action::Read,
        file: bench.source,
        file_offset: 0,
        region: bench.region,
        region_offset,
        length,
        tag: 0,
    };
    let tries = [(0, u32::MAX), (region_length - 4095, 4096), (u64::MAX, 1), (u64::MAX - 7, 4096)]
        .map(|(offset, length)| operation(offset, length));
    let strangers = [
        Operation { file: FileId(9), ..operation(0, 1) },
        Operation { region: RegionId(9), ..operation(0, 1) },
    ];
    for operation in tries {
        let refusal = bench.ring.push(operation).unwrap_err();
        let (offset, length) = (operation.region_offset, operation.length);
        assert_eq!(refusal, PushError::OutOfRegion { offset, length, region_length });
    }
    assert_eq!(bench.ring.push(strangers[0]), Err(PushError::UnknownFile { file: FileId(9) }));
    assert_eq!(
        bench.ring.push(strangers[1]),
        Err(PushError::UnknownRegion { region: RegionId(9) })
    );
    assert_eq!(bench.ring.in_flight(), 0);
}

#[test]
fn a_full_ring_refuses_and_takes_more_after_submission() {
    let Some(mut bench) = bench(&noise(4096, 8), b"") else { return };
    let operation = Operation {
        action: Action::Read,
        file: bench.source,
        file_offset: 0,
        region: bench.region,
        region_offset: 0,
        length: 4096,
        tag: 0,
    };
    let space = bench.ring.space();
    for tag in 0..u64::from(space) {
        bench.ring.push(Operation { tag, ..operation }).unwrap();
    }
    assert_eq!(bench.ring.push(operation), Err(PushError::Full { space: 0 }));
    bench.ring.submit(0, Nanos(0)).unwrap();
    assert!(bench.ring.space() > 0);
    let mut tags = Vec::new();
    while bench.ring.in_flight() > 0 {
        bench.ring.submit(1, Nanos::seconds(10)).unwrap();
        tags.extend(std::iter::from_fn(|| bench.ring.pop()).map(|end| end.tag));
    }
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..u64::from(space)));
}

#[test]
fn command_that_fails_leaves_requests_of_other_files_alone() {
    let Some(_) = ring(8) else { return };
    let mut ring = match Uring::for_passthrough(16) {
        Ok(ring) => ring,
        Err(error) => {
            return testing::skip("io-uring", &format!("entries of 128 bytes: {error:?}"));
        }
    };
    let folder = folder();
    let path = folder.path().join("file");
    std::fs::write(&path, noise(4096, 3)).unwrap();
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let plain = ring.attach_file(open()).unwrap();
    let namespace = PassthroughNamespace {
        nsid: 1,
        block: 512,
        request_max: 8192,
        pages_max: 2,
        zeroes_max: 0,
    };
    // A regular file takes no commands, so each of them fails.
    let node = ring.attach_passthrough(PassthroughFile { file: open(), namespace }).unwrap();
    let region = ring.attach_region(host::allocate(Bytes::kib(16)).unwrap());
    let operation = |tag, action, file| Operation {
        action,
        file,
        file_offset: 0,
        region,
        region_offset: 0,
        length: 4096,
        tag,
    };
    let all = [
        operation(1, Action::Read, node),
        operation(2, Action::Flush, plain),
        operation(3, Action::Zero, node),
        operation(4, Action::Read, plain),
    ];
    for operation in all {
        ring.push(operation).unwrap();
    }
    let mut ends = Vec::new();
    while ring.in_flight() > 0 {
        ring.submit(1, Nanos::seconds(10)).unwrap();
        ends.extend(std::iter::from_fn(|| ring.pop()));
    }
    ends.sort_by_key(|end| end.tag);
    let results: Vec<_> = ends.iter().map(|end| (end.tag, end.result)).collect();
    let failed = results[0].1;
    assert!(failed.is_err(), "{failed:?}");
    let unsupported = Err(Errno::OPNOTSUPP);
    assert_eq!(results, [(1, failed), (2, Ok(0)), (3, unsupported), (4, Ok(4096))]);
    let misaligned = Operation { region_offset: 128, ..operation(9, Action::Read, node) };
    assert_eq!(ring.push(misaligned), Err(PushError::Misaligned { offset: 128 }));
    let long = Operation { length: 12288, ..operation(9, Action::Read, node) };
    assert_eq!(ring.push(long), Err(PushError::TooLong { length: 12288, most: 8192 }));
    let mut narrow = Uring::new(8).unwrap();
    assert!(narrow.attach_passthrough(PassthroughFile { file: open(), namespace }).is_err());
}

/// A read of an empty pipe never ends, like a request to a drive that hangs.
#[test]
fn busy_memory_is_leaked_not_freed() {
    let Some(mut ring) = ring(8) else { return };
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let folder = folder();
    let pool = folder.path().join("allocate");
    File::create(&pool).unwrap().set_len(1 << 16).unwrap();
    let region: Region = peerlane_memory::p2pmem::allocate(folder.path(), Bytes(4096)).unwrap();
    let (file, region) = (ring.attach_file(reader.into()).unwrap(), ring.attach_region(region));
    ring.push(Operation {
        action: Action::Read,
        file,
        file_offset: 0,
        region,
        region_offset: 0,
        length: 4096,
        tag: 0,
    })
    .unwrap();
    ring.submit(1, Nanos(1_000_000)).unwrap();
    assert_eq!(ring.pop(), None);
    drop(ring);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains(pool.to_str().unwrap()));
    drop(writer);
}

/// A clock that advances by a millisecond at every look.
#[derive(Default)]
struct SteppingClock(Cell<u64>);

impl Clock for SteppingClock {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 1_000_000);
        Nanos(self.0.get())
    }
}

#[test]
fn a_stuck_request_is_reported_at_its_deadline() {
    let Some(mut bench) = bench(b"", b"") else { return };
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let source = bench.ring.attach_file(reader.into()).unwrap();
    let deadline = Nanos(50_000_000);
    let transfer = Transfer { source, slots: 1, deadline, ..bench.transfer(BLOCK, Tail::None) };
    let error = relay(&mut bench.ring, &transfer, &SteppingClock::default(), &mut ()).unwrap_err();
    let RelayError::Stopped { source: RequestError::Stuck(stuck), moved } = error else {
        panic!("{error:?}")
    };
    assert_eq!((stuck.role, stuck.offset), (Role::Source, 0));
    assert!(stuck.age >= deadline && stuck.age.0 < 2 * deadline.0, "{stuck}");
    assert_eq!(moved.contiguous(), 0);
    assert!(bench.ring.in_flight() > 0);
}

#[test]
fn a_ring_that_is_gone_holds_no_file() {
    for _ in 0..50 {
        let Some(mut ring) = ring(4) else { return };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        ring.attach_file(File::from(writer)).unwrap();
        drop(ring);
        // A pipe hangs up when the last of its writers is let go of.
        let mut ends = [PollFd::new(&reader, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ends, Some(&at_once)).unwrap();
        assert!(ends[0].revents().contains(PollFlags::HUP));
    }
}

/// Mappings of rings of this process that a forked child would inherit (`VmFlags` without `dc`: Linux,
/// Documentation/filesystems/proc.rst).
fn inherited_ring_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_ring = false;
    let mut count = 0;
    for line in maps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            count += usize::from(is_ring && !flags.split(' ').any(|flag| flag == "dc"));
        } else if line.split(' ').next().is_some_and(|word| word.contains('-')) {
            is_ring = line.ends_with("[io_uring]");
        }
    }
    count
}

#[test]
fn children_inherit_no_ring() {
    let Some(_ring) = ring(8) else { return };
    // Rings that other tests set up at this moment are mapped before they are marked.
    assert!((0..1000).any(|_| inherited_ring_mappings() == 0), "a child would keep a ring alive");
}

#[test]
fn one_watched_descriptor_ends_a_wait() {
    let Some(mut ring) = ring(8) else { return };
    let [(one, mut to_one), (other, _to_other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    assert!(ring.watch(one.as_fd()) && ring.watch(one.as_fd()));
    assert!(!ring.watch(other.as_fd()), "only one is watched");
    to_one.write_all(b"x").unwrap();
    // Without the descriptor this would wait for as long as the test may take.
    ring.submit(1, Nanos::seconds(3600)).unwrap();
    assert_eq!(ring.pop(), None, "it is no operation");
    assert!(ring.watch(other.as_fd()), "the first has ended");
}
