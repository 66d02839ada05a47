//! Planted lies, each told by something that moves payload on simulated drives: a route that falls back,
//! a target that stores zeros, a clock that runs wrong, a drive faster than its link. The honest run
//! next to them passes the same guards.

use std::collections::BTreeMap;

use peerlane_engine::Clock;
use peerlane_engine::relay::{Transfer, relay};
use peerlane_engine::ring::sim::{Lost, Mood, SimFile, SimRegion, SimRing};
use peerlane_engine::ring::{Action, Around, Completion, Operation, PushError, RegionId, Ring};
use peerlane_engine::verify::{ComparisonRequest, Coverage, Digests, Verified, verify};
use peerlane_fabric::Fabric;
use peerlane_results::{
    BytesByRoute, CaseRecord, MemoryKind, Path, Tail, Verification, VerifyMode, Warning,
};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::*;
use crate::statistics::Random;
use crate::testing::{machine, run};
use peerlane_evidence::{
    CaseDrive, CaseEvidence, CaseWatch, DmaTally, DriveBytes, Pool, Requests, Root, Scene,
};
use peerlane_testing::Scratch;

const LENGTH: u64 = 4 << 20;
const REQUEST: u64 = 64 << 10;
const POOL: &str = "sys/bus/pci/devices/0000:03:00.0/p2pmem";

/// A ring with a recorder of every transfer, as the lab has one outside the guest.
struct Recorded {
    ring: SimRing,
    device: RegionId,
    tally: DmaTally,
    drives: [DriveBytes; 2],
    pending: BTreeMap<u64, Operation>,
}

impl Recorded {
    fn count(&mut self, operation: &Operation, moved: u32) {
        let moved = u64::from(moved);
        let memory = if operation.region == self.device {
            &mut self.tally.peer_bytes
        } else {
            &mut self.tally.guest_memory_bytes
        };
        memory.0 += moved;
        let drive = &mut self.drives[usize::try_from(operation.file.0).unwrap()];
        match operation.action {
            Action::Read => drive.read.0 += moved,
            Action::Write => drive.written.0 += moved,
            _ => {}
        }
    }
}

impl Around for Recorded {
    type Inner = SimRing;

    fn inner(&self) -> &SimRing {
        &self.ring
    }

    fn inner_mut(&mut self) -> &mut SimRing {
        &mut self.ring
    }

    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.pending.insert(operation.tag, operation);
        self.ring.push(operation)
    }

    fn on_pop(&mut self) -> Option<Completion> {
        let completion = self.ring.pop()?;
        if let (Ok(moved), Some(operation)) =
            (completion.result, self.pending.remove(&completion.tag))
        {
            self.count(&operation, moved);
        }
        Some(completion)
    }
}

/// Two drives, device memory, a machine around them, and the lies of the transfer.
struct FakeStage {
    ring: Recorded,
    tree: Scratch,
    fabric: Fabric,
    transfer: Transfer,
    hosts: [RegionId; 2],
    /// First byte that it moves by host memory, without saying so.
    falls_back_at: u64,
    /// Real time over the time of its clock.
    slowness: u64,
}

impl FakeStage {
    /// `page_time` is the time of a drive for 4 KiB.
    fn new(page_time: Nanos, lost: Lost) -> Self {
        let mut payload = Vec::new();
        let mut random = Random::new(1);
        while payload.len() < usize::try_from(LENGTH).unwrap() {
            payload.extend(random.number().to_le_bytes());
        }
        let mut ring = SimRing::new(32, 7, Mood::default());
        let file = |bytes| SimFile { bytes, block: 4096, page_time, lost, ..SimFile::default() };
        let zeros = vec![0; payload.len()];
        let source = ring.attach_file(SimFile { lost: Lost::None, ..file(payload) }).unwrap();
        let target = ring.attach_file(file(zeros)).unwrap();
        let slots = vec![0; usize::try_from(8 * REQUEST).unwrap()];
        let region = ring.attach_region(SimRegion { bytes: slots.clone(), is_device: true });
        let host = SimRegion { bytes: slots, is_device: false };
        let hosts = [ring.attach_region(host.clone()), ring.attach_region(host)];
        let transfer = Transfer {
            source,
            target,
            region,
            memory: MemoryKind::P2pmem,
            source_offset: 0,
            target_offset: 0,
            length: LENGTH,
            request: REQUEST,
            slots: 8,
            slot_stride: REQUEST,
            source_block: 4096,
            target_block: 4096,
            tail: Tail::None,
            stages: 0,
            deadline: Nanos::seconds(10),
        };
        let ring = Recorded {
            ring,
            device: region,
            tally: DmaTally::default(),
            drives: [DriveBytes::default(); 2],
            pending: BTreeMap::new(),
        };
        let (falls_back_at, slowness) = (LENGTH, 1);
        let stage = Self {
            ring,
            tree: Scratch::new(),
            fabric: machine(),
            transfer,
            hosts,
            falls_back_at,
            slowness,
        };
        stage.plant_counters();
        stage.tree.write(format!("{POOL}/size"), "1048576");
        stage.tree.write(format!("{POOL}/available"), "1048576");
        stage
    }

    /// Writes the counters that the block layer would show by now.
    fn plant_counters(&self) {
        for (name, bytes) in ["nvme0n1", "nvme1n1"].into_iter().zip(self.ring.drives) {
            let (read, written) = (1000 + bytes.read.0 / 512, 1000 + bytes.written.0 / 512);
            let stat = format!("1 0 {read} 1 1 0 {written} 1 0 1 1\n");
            self.tree.write(format!("sys/class/block/{name}/stat"), &stat);
        }
    }

    fn drives() -> Vec<CaseDrive> {
        let drive = |name: &str, address: &str| CaseDrive {
            name: name.to_owned(),
            address: Some(address.parse().unwrap()),
            requests: Requests::Direct,
        };
        vec![drive("nvme0n1", "0000:04:00.0"), drive("nvme1n1", "0000:05:00.0")]
    }

    /// Moves everything, in two parts where it falls back; the time it says that this took.
    fn carry(&mut self) -> (Nanos, ClockReading) {
        let time = self.ring.ring.clock();
        let clock = Slow { of: time.clone(), by: self.slowness };
        let clocks = TwoClocks::begin(&clock, &time);
        let begin = clock.now();
        let honest = Transfer { length: self.falls_back_at, ..self.transfer };
        let rest = Transfer {
            region: self.hosts[0],
            source_offset: self.falls_back_at,
            target_offset: self.falls_back_at,
            length: LENGTH - self.falls_back_at,
            ..self.transfer
        };
        for part in [honest, rest] {
            relay(&mut self.ring, &part, &time, &mut ()).unwrap();
        }
        (clock.now().since(begin), clocks.end(&clock, &time))
    }

    fn verify(&mut self) -> Verification {
        let comparison = ComparisonRequest {
            source: self.transfer.source,
            target: self.transfer.target,
            source_offset: 0,
            target_offset: 0,
            length: LENGTH,
            source_block: 4096,
            target_block: 4096,
            coverage: Coverage::Sample { seed: 3 },
            hosts: self.hosts,
            digests: Digests::Left,
            deadline: Nanos::seconds(10),
        };
        let clock = self.ring.ring.clock();
        let found = verify(&mut self.ring.ring, &comparison, &clock, &mut ()).unwrap();
        let Verified { bytes, mismatches, .. } = found;
        Verification { mode: VerifyMode::Sample, bytes: Bytes(bytes), mismatches }
    }

    /// One run from begin to judgement. It always claims that all went between devices.
    fn run(&mut self) -> (CaseRecord, Result<Vec<Warning>, Nonsense>) {
        let address = "0000:03:00.0".parse().unwrap();
        let pools = vec![Pool { address, taken: Bytes(8 * REQUEST) }];
        let scene = Scene {
            root: self.tree.path().to_owned(),
            drives: Self::drives(),
            pools,
            memories: vec![],
            is_translating: false,
        };
        let mut watch = CaseWatch::begin(&scene);
        self.tree.write(format!("{POOL}/available"), (1_048_576 - 8 * REQUEST).to_string());
        watch.look();
        let (elapsed, clock) = self.carry();
        self.plant_counters();
        let claim = BytesByRoute { p2p: Bytes(LENGTH), host: Bytes(0) };
        let drives = vec![
            DriveBytes { read: Bytes(LENGTH), written: Bytes(0) },
            DriveBytes { read: Bytes(0), written: Bytes(LENGTH) },
        ];
        let dma = Some(self.ring.tally);
        let seen = CaseEvidence { asked: claim, moved: claim, drives, transfers: vec![], dma };
        let observed = watch.end(&seen);
        let mut case = run("1M p2p", Path::P2p, Bytes(LENGTH), elapsed);
        case.verdict = observed.verdict();
        case.evidence.clone_from(&observed.evidence);
        case.verification = Some(self.verify());
        let mut around = self.surroundings();
        around.clock = Some(clock);
        around.saw(&seen, &observed);
        let judged = judge(&case, &around);
        (case, judged)
    }

    fn surroundings(&self) -> Surroundings {
        let at = |name: &str| self.fabric.find(name);
        let way = FlowPath { source: at("a"), target: at("b"), memory: at("c") };
        Surroundings::read(&self.fabric, &Root::at(self.tree.path()), &[way], &Self::drives())
    }
}

/// A clock that shows less than the time that passes.
struct Slow<C> {
    of: C,
    by: u64,
}

impl<C: Clock> Clock for Slow<C> {
    fn now(&self) -> Nanos {
        Nanos(self.of.now().0 / self.by)
    }
}

/// 4 KiB in this time is 1 GB/s, well below every link.
const USUAL: Nanos = Nanos(4096);

#[test]
fn an_honest_run_passes_and_its_route_is_shown() {
    let (case, judged) = FakeStage::new(USUAL, Lost::None).run();
    assert_eq!(case.verdict, peerlane_results::RouteVerdict::Shown, "{:?}", case.evidence);
    let warnings = judged.unwrap();
    assert!(!warnings.iter().any(|one| matches!(one, Warning::NeverWritten { .. })));
    assert_eq!(case.verification.unwrap().mismatches, 0);
}

#[test]
fn fallback_under_load_is_an_error() {
    let mut stage = FakeStage::new(USUAL, Lost::None);
    stage.falls_back_at = LENGTH - REQUEST;
    let (case, judged) = stage.run();
    assert_eq!(case.verification.unwrap().mismatches, 0, "the bytes are right, the way is not");
    let Err(Nonsense::RouteContradicted { looked_at, .. }) = judged else { panic!("{judged:?}") };
    assert!(looked_at.contains("DMA"), "{looked_at}");
}

#[test]
fn counted_fallback_needs_no_recorder() {
    let case = |moved: BytesByRoute| {
        let mut case = run("1M p2p", Path::P2p, Bytes(LENGTH), Nanos(4_000_000));
        case.bytes_by_route = moved;
        case.flows[0].bytes_by_route = moved;
        judge(&case, &Surroundings::default())
    };
    let all = BytesByRoute { p2p: Bytes(LENGTH), host: Bytes(0) };
    assert_eq!(case(all), Ok(vec![]));
    let some = BytesByRoute { p2p: Bytes(LENGTH - REQUEST), host: Bytes(REQUEST) };
    let Err(Nonsense::RouteContradicted { showed, .. }) = case(some) else { panic!("it passed") };
    assert_eq!(showed, "65536 bytes of a flow by p2p took the other route");
}

#[test]
fn a_target_that_stores_zeros_is_an_error() {
    let (case, judged) = FakeStage::new(USUAL, Lost::WholeWrites).run();
    let counted = case.verification.unwrap();
    assert!(counted.mismatches > 0);
    let expected = Nonsense::ContentDiffers {
        case: "1M p2p".to_owned(),
        mismatches: counted.mismatches,
        bytes: counted.bytes,
    };
    assert_eq!(judged, Err(expected));
}

#[test]
fn a_clock_that_runs_wrong_is_an_error() {
    let mut stage = FakeStage::new(USUAL, Lost::None);
    stage.slowness = 2;
    let (_, judged) = stage.run();
    assert!(matches!(judged, Err(Nonsense::ClockWrong { .. })), "{judged:?}");
}

#[test]
fn a_drive_faster_than_its_link_is_an_error() {
    // Four lanes of 16 GT/s carry 4 KiB in 520 ns; what needs 400 ns came another way.
    let (_, judged) = FakeStage::new(Nanos(400), Lost::None).run();
    let Err(Nonsense::AboveLimit { rate, object, limit, .. }) = judged else {
        panic!("{judged:?}")
    };
    assert!(rate > limit && limit == ByteRate(7_876_923_076), "{rate} {limit}");
    assert!(object.starts_with("the link of "), "{object}");
}
