use rustix::io::Errno;

use super::*;
use crate::failure::Cause;
use crate::ring::sim::{Lost, Mood, SimFault, SimFile, SimRegion, SimRing};

const LENGTH: u64 = 4096;
const OFFSET: usize = 8192;

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Stamp::Proof.fill(seed, &mut bytes);
    bytes
}

fn bench(seed: u64, mood: Mood) -> (SimRing, ProofSetup) {
    let mut ring = SimRing::new(8, seed, mood);
    let file = |seed, block| SimFile { bytes: noise(32768, seed), block, ..SimFile::default() };
    let source = ring.attach_file(file(1, 512)).unwrap();
    let target = ring.attach_file(file(2, 4096)).unwrap();
    let memory = ring.attach_region(SimRegion { bytes: noise(65536, 3), is_device: true });
    let host = ring.attach_region(SimRegion { bytes: vec![0; 3 * 4096], is_device: false });
    let setup = ProofSetup {
        source,
        target,
        memory,
        memory_kind: MemoryKind::P2pmem,
        slot_offset: 8192,
        host,
        source_offset: 512,
        target_offset: OFFSET as u64,
        length: LENGTH,
        payload: LENGTH,
        source_block: 512,
        target_block: 4096,
        seed,
        deadline: Nanos::seconds(1),
    };
    (ring, setup)
}

fn prove(ring: &mut SimRing, setup: &ProofSetup) -> Result<Proof, ProofFailure> {
    let clock = ring.clock();
    prove_route(ring, setup, &clock)
}

fn target(ring: &mut SimRing, setup: &ProofSetup) -> Vec<u8> {
    ring.file(setup.target).unwrap().bytes.clone()
}

#[test]
fn a_good_route_is_proved_and_the_target_holds_the_payload() {
    let difficult = Mood { short: 200, again: 100, early: 100 };
    for (seed, payload) in (0..500).zip([4096, 1, 511, 512, 3000].into_iter().cycle()) {
        let (mut ring, setup) = bench(seed, if seed < 5 { Mood::default() } else { difficult });
        let setup = ProofSetup { payload, ..setup };
        let proof = prove(&mut ring, &setup).unwrap_or_else(|error| panic!("{seed}: {error:?}"));
        assert_eq!(proof.evidence.len(), 2);
        let payload = usize::try_from(payload).unwrap();
        let mut expected = noise(32768, 2);
        expected[OFFSET..OFFSET + payload].copy_from_slice(&noise(32768, 1)[512..512 + payload]);
        assert!(target(&mut ring, &setup) == expected, "seed {seed}: {payload}");
        assert_eq!(ring.in_flight(), 0);
    }
}

#[test]
fn the_traffic_in_host_memory_is_counted() {
    let (mut ring, setup) = bench(1, Mood::default());
    assert_eq!(prove(&mut ring, &setup).unwrap().host_bytes, Bytes(6 * 4096));
}

#[test]
fn data_that_are_lost_by_either_drive_in_either_direction_are_noticed() {
    for (at_source, lost, step) in [
        (true, Lost::Reads, Step::ReadBoth),
        (false, Lost::Reads, Step::ReadPattern),
        (false, Lost::Writes, Step::ReadPattern),
        (false, Lost::WholeWrites, Step::ReadPattern),
    ] {
        for seed in 0..100 {
            let (mut ring, setup) = bench(seed, Mood::default());
            let file = if at_source { setup.source } else { setup.target };
            ring.file(file).unwrap().lost = lost;
            let failure = prove(&mut ring, &setup).unwrap_err();
            assert_eq!(failure.step, step, "{lost:?}");
            assert!(matches!(failure.cause, ProofCause::Differs { .. }), "{failure:?}");
            assert_eq!(failure.target, TargetState::Restored);
            assert!(target(&mut ring, &setup) == noise(32768, 2), "{lost:?}");
        }
    }
}

#[test]
fn a_refused_route_is_known_before_anything_is_written() {
    for (at_source, step) in [(true, Step::ProbeSource), (false, Step::ProbeTarget)] {
        let (mut ring, setup) = bench(1, Mood::default());
        let file = if at_source { setup.source } else { setup.target };
        let file = ring.file(file).unwrap();
        file.device_refusal = Some(Errno::INVAL);
        file.faults.push(SimFault { action: Action::Write, offset: 0, errno: None });
        let failure = prove(&mut ring, &setup).unwrap_err();
        assert_eq!((failure.step, failure.target), (step, TargetState::Untouched));
        let ProofCause::Request(RequestError::Failed(request)) = failure.cause else {
            panic!("{failure:?}")
        };
        assert_eq!(request.cause, Cause::RouteRefused);
        assert!(target(&mut ring, &setup) == noise(32768, 2));
    }
}

#[test]
fn a_target_that_cannot_be_written_is_named() {
    let (mut ring, setup) = bench(1, Mood::default());
    let fault =
        SimFault { action: Action::Write, offset: setup.target_offset, errno: Some(Errno::PERM) };
    ring.file(setup.target).unwrap().faults.push(fault);
    let failure = prove(&mut ring, &setup).unwrap_err();
    assert_eq!((failure.step, failure.target), (Step::WritePattern, TargetState::NotRestored));
}

#[test]
fn a_drive_that_hangs_ends_the_proof_and_the_target_is_left_alone() {
    let (mut ring, setup) = bench(1, Mood::default());
    let fault = SimFault { action: Action::Write, offset: setup.target_offset, errno: None };
    ring.file(setup.target).unwrap().faults.push(fault);
    let failure = prove(&mut ring, &setup).unwrap_err();
    assert!(matches!(failure.cause, ProofCause::Request(RequestError::Stuck(_))), "{failure:?}");
    assert_eq!(failure.target, TargetState::NotRestored);
    assert_eq!(ring.in_flight(), 1);
}

#[test]
fn a_proof_that_does_not_add_up_is_refused() {
    let (_, good) = bench(1, Mood::default());
    for setup in [
        ProofSetup { length: 0, payload: 0, ..good },
        ProofSetup { length: 512, payload: 512, ..good },
        ProofSetup { length: 8192, ..good },
        ProofSetup { length: 32768, ..good },
        ProofSetup { payload: 4097, ..good },
        ProofSetup { source_block: 0, ..good },
        ProofSetup { host: good.memory, ..good },
    ] {
        let (mut ring, _) = bench(1, Mood::default());
        let failure = prove(&mut ring, &setup).unwrap_err();
        assert!(matches!(failure.cause, ProofCause::Shape { .. }), "{setup:?}: {failure:?}");
        assert_eq!(failure.target, TargetState::Untouched);
    }
}
