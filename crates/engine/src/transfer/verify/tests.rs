use rustix::io::Errno;

use super::*;
use crate::io::failure::Cause;
use crate::io::ring::Around;
use crate::io::ring::sim::{Halting, Mood, SimFault, SimFile, SimRegion, SimRing};

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

struct VerifyBench {
    ring: SimRing,
    comparison: ComparisonRequest,
}

/// Two files that hold the same `length` bytes at different offsets, and differ elsewhere.
fn bench(length: u64, coverage: Coverage, host: usize, seed: u64) -> VerifyBench {
    let mood = Mood { short: 200, again: 100, early: 100 };
    let mut ring = SimRing::new(8, seed, mood);
    let payload = noise(usize::try_from(length).unwrap(), 7);
    let source = [noise(1024, 1), payload.clone()].concat();
    let target = [noise(4096, 2), payload, noise(8192, 3)].concat();
    let target_length = target.len() / 4096 * 4096;
    let file = |bytes, block| SimFile { bytes, block, ..SimFile::default() };
    let source = ring.attach_file(file(source, 512)).unwrap();
    let target = ring.attach_file(file(target[..target_length].to_vec(), 4096)).unwrap();
    let mut host = || ring.attach_region(SimRegion { bytes: vec![0; host], is_device: false });
    let hosts = [host(), host()];
    let comparison = ComparisonRequest {
        source,
        target,
        source_offset: 1024,
        target_offset: 4096,
        length,
        source_block: 512,
        target_block: 4096,
        coverage,
        hosts,
        digests: Digests::Made,
        deadline: Nanos::seconds(1),
    };
    VerifyBench { ring, comparison }
}

impl VerifyBench {
    fn run(&mut self) -> Result<Verified, VerifyError> {
        let clock = self.ring.clock();
        verify(&mut self.ring, &self.comparison, &clock, &mut ())
    }

    fn flip(&mut self, offset: u64) {
        let index = usize::try_from(self.comparison.target_offset + offset).unwrap();
        self.ring.file(self.comparison.target).unwrap().bytes[index] ^= 0xff;
    }
}

const LENGTHS: [u64; 7] = [0, 1, 511, 4096, 4097, 100_000, (1 << 19) + 5];

#[test]
fn equal_content_is_equal_to_its_last_byte() {
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        for host in [8192, 100_000, 1 << 20] {
            let mut bench = bench(length, Coverage::Full, host, seed as u64);
            let verified = bench.run().unwrap();
            assert_eq!((verified.bytes, verified.mismatches), (length, 0), "{length} {host}");
        }
    }
}

#[test]
fn comparison_survives_pause_beyond_deadline() {
    for seed in 0..50 {
        let mut bench = bench(100_000, Coverage::Full, 8192, seed);
        bench.flip(50_000);
        for file in [bench.comparison.source, bench.comparison.target] {
            bench.ring.file(file).unwrap().latency = Nanos(50_000_000);
        }
        let (clock, time) = (bench.ring.clock(), Nanos(2 * bench.comparison.deadline.0));
        let mut halting = Halting { ring: bench.ring, time };
        let verified = verify(&mut halting, &bench.comparison, &clock, &mut ())
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert_eq!((verified.bytes, verified.mismatches), (100_000, 1), "seed {seed}");
    }
}

#[test]
fn full_comparison_finds_any_wrong_byte() {
    let mut random = Random::new(1);
    for seed in 0..200 {
        let length = 1 + random.below(200_000);
        let offset = random.below(length);
        let mut bench = bench(length, Coverage::Full, 65536, seed);
        bench.flip(offset);
        let verified = bench.run().unwrap();
        assert_eq!((verified.bytes, verified.mismatches), (length, 1));
        let first = verified.first.unwrap();
        assert_eq!((first.offset, first.length), (offset, 1));
        assert_eq!(first.source_bytes[0], !first.target_bytes[0]);
        assert_eq!(first.source_bytes[1..], first.target_bytes[1..]);
    }
}

#[test]
fn each_page_that_differs_counts_once() {
    let mut bench = bench(10 * 4096, Coverage::Full, 65536, 1);
    for offset in [4096, 4100, 5000, 9 * 4096] {
        bench.flip(offset);
    }
    let verified = bench.run().unwrap();
    assert_eq!(verified.mismatches, 2);
    let first = verified.first.unwrap();
    assert_eq!((first.offset, first.length, first.source_bytes.len()), (4096, 905, 16));
}

#[test]
fn what_lies_behind_the_length_does_not_count() {
    let mut bench = bench(5000, Coverage::Full, 65536, 1);
    bench.flip(5000);
    assert_eq!(bench.run().unwrap().mismatches, 0);
}

#[test]
fn sample_has_first_and_last_page() {
    let length = 200 * 4096 + 10;
    for seed in 0..20 {
        let mut good = bench(length, Coverage::Sample { seed }, 65536, seed);
        let verified = good.run().unwrap();
        assert_eq!((verified.bytes, verified.mismatches), (31 * 4096 + 10, 0));
        for offset in [0, length - 1] {
            let mut wrong = bench(length, Coverage::Sample { seed }, 65536, seed);
            wrong.flip(offset);
            assert_eq!(wrong.run().unwrap().first.unwrap().offset, offset);
        }
    }
}

#[test]
fn a_sample_of_little_is_all_of_it() {
    for length in [1, 4096, 32 * 4096, 20 * 4096 + 1] {
        let mut bench = bench(length, Coverage::Sample { seed: 1 }, 65536, 1);
        assert_eq!(bench.run().unwrap().bytes, length);
    }
}

#[test]
fn samples_are_in_order_and_differ_by_seed() {
    let layout = RegionLayout { page: 4096, part: 4096, lanes: 1 };
    let picks = |seed, length| {
        let VerifyBench { comparison, .. } = bench(1, Coverage::Sample { seed }, 8192, 1);
        Stretches::new(&ComparisonRequest { length, ..comparison }, &layout)
            .map(|stretch| stretch.offset)
            .collect::<Vec<_>>()
    };
    let terabytes = 1 << 43;
    let sample = picks(1, terabytes);
    assert_eq!(sample.len(), 4096);
    assert!(sample.is_sorted_by(|a, b| a < b));
    assert_eq!((sample[0], sample[4095]), (0, terabytes - 4096));
    assert_ne!(sample, picks(2, terabytes));
    assert_eq!(picks(1, 1 << 30).len(), 32 + 16);
}

#[test]
fn a_bad_sector_is_no_mismatch_but_an_error() {
    let mut bench = bench(1 << 20, Coverage::Full, 65536, 1);
    let fault =
        SimFault { action: Action::Read, offset: 4096 + 70_000, errno: Some(Errno::NODATA) };
    bench.ring.file(bench.comparison.target).unwrap().faults.push(fault);
    let VerifyError::Request(RequestError::Failed(failure)) = bench.run().unwrap_err() else {
        panic!("not failed")
    };
    assert_eq!(failure.role, Role::Target);
    assert_eq!(failure.cause, Cause::BadSector { action: Action::Read });
    assert_eq!(bench.ring.in_flight(), 0);
}

#[test]
fn too_little_host_memory_is_refused() {
    let mut bench = bench(4096, Coverage::Full, 8191, 1);
    assert!(matches!(bench.run(), Err(VerifyError::Shape { length: 8191 })));
}

/// A ring that notes the requests in flight whenever memory is looked at.
struct Noting(SimRing, Vec<u32>);

impl Around for Noting {
    type Inner = SimRing;

    fn inner(&self) -> &SimRing {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut SimRing {
        &mut self.0
    }

    fn on_host_bytes(&mut self) {
        self.1.push(self.0.in_flight());
    }
}

#[test]
fn the_next_part_is_read_while_one_is_compared() {
    let VerifyBench { ring, comparison } = bench(1 << 20, Coverage::Full, 1 << 17, 1);
    let clock = ring.clock();
    let mut ring = Noting(ring, Vec::new());
    verify(&mut ring, &comparison, &clock, &mut ()).unwrap();
    // Twice for the sizes, then once a part.
    let [first, second, parts @ .., last] = ring.1.as_slice() else { panic!("{:?}", ring.1) };
    assert_eq!((*first, *second, *last), (0, 0, 0));
    assert_eq!(parts.len(), 15, "{parts:?}");
    assert!(parts.iter().all(|in_flight| *in_flight > 0), "{parts:?}");
}

#[test]
fn progress_ends_at_all_that_is_compared() {
    struct SeenProgress(Vec<(u64, u64)>);
    impl Watch for SeenProgress {
        fn begin(&mut self, done: Bytes, total: Bytes) {
            self.0.push((done.0, total.0));
        }

        fn compared(&mut self, done: Bytes, total: Bytes) {
            self.0.push((done.0, total.0));
        }
    }
    for coverage in [Coverage::Full, Coverage::Sample { seed: 1 }] {
        for length in [1, 4096, 200 * 4096, 200 * 4096 + 10] {
            let mut bench = bench(length, coverage, 65536, 1);
            let (clock, mut seen) = (bench.ring.clock(), SeenProgress(Vec::new()));
            let verified = verify(&mut bench.ring, &bench.comparison, &clock, &mut seen).unwrap();
            assert_eq!(seen.0.first().map(|first| first.0), Some(0));
            assert_eq!(seen.0.last(), Some(&(verified.bytes, verified.bytes)), "{length}");
            assert!(seen.0.is_sorted());
        }
    }
}

#[test]
fn digests_are_equal_as_long_as_the_content_is() {
    for offset in [None, Some(0), Some(300_000), Some((1 << 19) + 4)] {
        let mut bench = bench((1 << 19) + 5, Coverage::Full, 65536, 1);
        let content = noise((1 << 19) + 5, 7);
        let mut found = content.clone();
        if let Some(offset) = offset {
            bench.flip(offset);
            found[usize::try_from(offset).unwrap()] ^= 0xff;
        }
        let hash = twox_hash::XxHash3_64::oneshot;
        assert_eq!(bench.run().unwrap().digests, Some([hash(&content), hash(&found)]));
    }
}
