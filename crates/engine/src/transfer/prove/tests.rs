use rustix::io::Errno;

use super::*;
use crate::io::failure::{Cause, RequestError};
use crate::io::ring::sim::{Lost, Mood, SimFault, SimFile, SimRegion, SimRing};

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
        probes: true,
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
fn proved_target_holds_the_payload() {
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
fn host_bytes_are_counted() {
    let (mut ring, setup) = bench(1, Mood::default());
    assert_eq!(prove(&mut ring, &setup).unwrap().host_bytes, Bytes(9 * 4096));
}

#[test]
fn lost_data_name_their_leg() {
    for (at_source, lost, step, leg) in [
        (true, Lost::Reads, ProofStep::ReadTarget, Some(ProofLeg::IntoMemory)),
        // The memory was never filled: what is in it came from an earlier user.
        (false, Lost::Reads, ProofStep::ReadPattern, None),
        // Ones may have been in the memory, too.
        (false, Lost::Writes, ProofStep::ReadPattern, None),
        (false, Lost::WholeWrites, ProofStep::ReadPattern, Some(ProofLeg::OutOfMemory)),
    ] {
        for seed in 0..100 {
            let (mut ring, setup) = bench(seed, Mood::default());
            let file = if at_source { setup.source } else { setup.target };
            ring.file(file).unwrap().lost = lost;
            let failure = prove(&mut ring, &setup).unwrap_err();
            assert_eq!(failure.step, step, "{lost:?}");
            let ProofCause::Differs { leg: told, .. } = failure.cause else {
                panic!("{failure:?}")
            };
            assert_eq!(told, leg, "{lost:?}");
            assert_eq!(failure.target, TargetState::Restored);
            assert!(target(&mut ring, &setup) == noise(32768, 2), "{lost:?}");
        }
    }
}

#[test]
fn each_word_is_compared() {
    let expected = noise(512, 7);
    for at in 0..512 {
        let mut found = expected.clone();
        found[at] = !found[at];
        let wrong: Vec<_> = words(&expected).zip(words(&found)).filter(|(a, b)| a != b).collect();
        assert_eq!(wrong.len(), 1, "{at}");
        assert_eq!(leg(wrong[0].0, wrong[0].1), None, "a part of a word tells nothing");
    }
    assert_eq!(number(&[1, 2]), 0x0201, "a file may end within a word");
}

#[test]
fn patterns_of_killed_proofs_are_recognised() {
    let content = vec![7; 512];
    let changed = |bytes: &[u8], mask: u8| bytes.iter().map(|byte| byte ^ mask).collect::<Vec<_>>();
    for mask in [0, COMPLEMENT, OTHER] {
        assert!(is_left_by_proof(&changed(&noise(512, 3), mask), None));
        assert!(is_left_by_proof(&changed(&content, mask), Some(&content)));
        assert!(!is_left_by_proof(&changed(&content, mask), None));
    }
    assert!(!is_left_by_proof(&changed(&content, 1), Some(&content)));
}

#[test]
fn refused_route_writes_nothing() {
    for (at_source, step) in [(true, ProofStep::ProbeSource), (false, ProofStep::ProbeTarget)] {
        let (mut ring, setup) = bench(1, Mood::default());
        let file = if at_source { setup.source } else { setup.target };
        ring.file(file).unwrap().device_refusal = Some(Errno::INVAL);
        ring.file(file).unwrap().faults.push(SimFault {
            action: Action::Write,
            offset: 0,
            errno: None,
        });
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
fn unwritable_target_is_named() {
    let (mut ring, setup) = bench(1, Mood::default());
    let fault =
        SimFault { action: Action::Write, offset: setup.target_offset, errno: Some(Errno::PERM) };
    ring.file(setup.target).unwrap().faults.push(fault);
    let failure = prove(&mut ring, &setup).unwrap_err();
    assert_eq!(
        (failure.step, failure.target),
        (ProofStep::WriteComplement, TargetState::NotRestored)
    );
}

#[test]
fn hung_drive_leaves_target_alone() {
    let (mut ring, setup) = bench(1, Mood::default());
    let fault = SimFault { action: Action::Write, offset: setup.target_offset, errno: None };
    ring.file(setup.target).unwrap().faults.push(fault);
    let failure = prove(&mut ring, &setup).unwrap_err();
    assert!(matches!(failure.cause, ProofCause::Request(RequestError::Stuck(_))), "{failure:?}");
    assert_eq!(failure.target, TargetState::NotRestored);
    assert_eq!(ring.in_flight(), 1);
}

#[test]
fn misshapen_proof_is_refused() {
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
