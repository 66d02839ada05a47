use rustix::io::Errno;

use super::*;
use crate::io::random::Random;
use crate::io::ring::sim::{Mood, SimFault, SimFile, SimRegion, SimRing};

const BLOCK: u64 = 4096;
const OFFSET: usize = 8192;
const LENGTH: usize = 8192;
/// Not a multiple of the borrowed length.
const MEMORY: usize = 9 * 4096;

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

fn bench(seed: u64, mood: Mood) -> (SimRing, ScrubSetup) {
    let mut ring = SimRing::new(8, seed, mood);
    let file = SimFile { bytes: noise(32768, 2), block: BLOCK, ..SimFile::default() };
    let target = ring.attach_file(file).unwrap();
    let memory = ring.attach_region(SimRegion { bytes: noise(65536, 3), is_device: true });
    let host = ring.attach_region(SimRegion { bytes: noise(3 * LENGTH, 4), is_device: false });
    let setup = ScrubSetup {
        target,
        target_offset: OFFSET as u64,
        length: LENGTH as u64,
        block: BLOCK,
        memory,
        memory_kind: MemoryKind::P2pmem,
        memory_length: MEMORY as u64,
        host,
        deadline: Nanos::seconds(1),
    };
    (ring, setup)
}

fn run(ring: &mut SimRing, setup: &ScrubSetup) -> Result<Bytes, ScrubFailure> {
    let clock = ring.clock();
    scrub(ring, setup, &clock)
}

fn target(ring: &mut SimRing, setup: &ScrubSetup) -> Vec<u8> {
    ring.file(setup.target).unwrap().bytes.clone()
}

#[test]
fn scrub_zeroes_memory_and_restores_target() {
    let difficult = Mood { short: 200, again: 100, early: 100 };
    for seed in 0..500 {
        let (mut ring, setup) = bench(seed, if seed < 5 { Mood::default() } else { difficult });
        assert_eq!(run(&mut ring, &setup).unwrap(), Bytes(MEMORY as u64), "{seed}");
        let memory = &ring.region(setup.memory).unwrap().bytes;
        assert!(memory[..MEMORY].iter().all(|&byte| byte == 0), "{seed}");
        assert!(memory[MEMORY..] == noise(65536, 3)[MEMORY..], "{seed}: beyond what was asked for");
        assert!(target(&mut ring, &setup) == noise(32768, 2), "{seed}");
        assert_eq!(ring.in_flight(), 0);
    }
}

#[test]
fn unreachable_memory_leaves_target_unchanged() {
    let (mut ring, setup) = bench(1, Mood::default());
    ring.file(setup.target).unwrap().device_refusal = Some(Errno::REMOTEIO);
    let failure = run(&mut ring, &setup).unwrap_err();
    assert_eq!(failure.step, ScrubStep::Overwrite);
    assert!(target(&mut ring, &setup) == noise(32768, 2));
}

#[test]
fn a_target_that_cannot_be_read_is_not_written() {
    let (mut ring, setup) = bench(1, Mood::default());
    let offset = setup.target_offset;
    ring.file(setup.target).unwrap().faults.push(SimFault {
        action: Action::Read,
        offset,
        errno: Some(Errno::IO),
    });
    let failure = run(&mut ring, &setup).unwrap_err();
    assert_eq!(failure.step, ScrubStep::Keep);
    assert!(target(&mut ring, &setup) == noise(32768, 2));
}

#[test]
fn a_target_that_cannot_be_written_back_is_said() {
    let (mut ring, setup) = bench(1, Mood::default());
    let offset = setup.target_offset + BLOCK;
    ring.file(setup.target).unwrap().faults.push(SimFault {
        action: Action::Write,
        offset,
        errno: Some(Errno::IO),
    });
    let failure = run(&mut ring, &setup).unwrap_err();
    assert_eq!(failure.step, ScrubStep::WriteZeroes);
}

#[test]
fn nothing_begins_while_requests_are_in_flight() {
    let (mut ring, setup) = bench(1, Mood::default());
    let offset = setup.target_offset;
    ring.file(setup.target).unwrap().faults.push(SimFault {
        action: Action::Read,
        offset,
        errno: None,
    });
    let failure = run(&mut ring, &setup).unwrap_err();
    assert!(matches!(failure.cause, ScrubCause::Request(RequestError::Stuck(_))), "{failure:?}");
    assert_eq!(ring.in_flight(), 1);
    let failure = run(&mut ring, &setup).unwrap_err();
    assert!(matches!(failure.cause, ScrubCause::Busy { in_flight: 1 }), "{failure:?}");
    assert!(target(&mut ring, &setup) == noise(32768, 2));
}

#[test]
fn lengths_that_do_not_add_up_are_refused() {
    let (mut ring, setup) = bench(1, Mood::default());
    for wrong in [
        ScrubSetup { length: 0, ..setup },
        ScrubSetup { length: 512, ..setup },
        ScrubSetup { length: 3 * BLOCK, ..setup },
        ScrubSetup { memory_length: 65536 + BLOCK, ..setup },
        ScrubSetup { memory_length: 100, ..setup },
        ScrubSetup { host: setup.memory, ..setup },
    ] {
        let failure = run(&mut ring, &wrong).unwrap_err();
        assert!(matches!(failure.cause, ScrubCause::Shape { .. }), "{wrong:?}: {failure:?}");
    }
    assert!(target(&mut ring, &setup) == noise(32768, 2));
}
