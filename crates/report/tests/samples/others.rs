//! Copies, comparisons, plans and an examination, made by hand.

use peerlane_results::*;
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::{machine, percentiles};

/// A copy.
pub(crate) fn copy() -> CopyRecord {
    let end = |path: &str| EndpointFacts {
        path: path.to_owned(),
        kind: EndpointKind::BlockDevice,
        size: Bytes(1 << 40),
        block: Bytes(512),
        request_host: Bytes::mib(1),
        request_p2p: Some(Bytes::kib(512)),
        device: path.strip_prefix("/dev/").map(str::to_owned),
        address: Some("0000:03:00.0".to_owned()),
        drive: Some("Sample drive".to_owned()),
        file_system: None,
        refusal: None,
        way_out: None,
        network: None,
    };
    CopyRecord {
        far_sides: Vec::new(),
        schema: COPY_SCHEMA.to_owned(),
        asked: asked(),
        machine: machine(Basis::Measured),
        source: end("/dev/nvme0n1"),
        target: end("/dev/nvme1n1"),
        memory: MemoryFacts {
            name: "cmb:nvme2".to_owned(),
            kind: MemoryKind::P2pmem,
            address: Some("0000:05:00.0".to_owned()),
            size: Some(Bytes::mib(64)),
            available: Some(Bytes::mib(64)),
        },
        route: Route::P2p,
        reason: "cmb:nvme2 is reached by both drives below one switch".to_owned(),
        bytes_by_route: BytesByRoute { p2p: Bytes(1 << 30), host: Bytes(0) },
        bytes: Bytes(1 << 30),
        content: Content { data: Bytes(1 << 30), ..Content::default() },
        elapsed_ns: Nanos(352_000_000),
        first_done_ns: Nanos(410_000),
        last_done_ns: Nanos(351_000_000),
        check_ns: Nanos(90_000_000),
        shape: Shape {
            length: Bytes(1 << 30),
            request: Bytes::kib(512),
            slots: 32,
            memory: Bytes::mib(16),
            request_limit: "the target's largest request".to_owned(),
            slots_limit: "the depth".to_owned(),
            tail: Tail::None,
        },
        latency: Latency { read: percentiles(2.4e6, 2048), write: percentiles(2.6e6, 2048) },
        cpu: CpuTime { user_ns: Nanos(9_000_000), system_ns: Nanos(23_000_000) },
        host_memory: HostMemoryTraffic {
            bytes: None,
            reason: "no counter on this machine".to_owned(),
        },
        scrubbed: Scrubbed { bytes: Bytes::mib(16), reason: "zeroes by DMA".to_owned() },
        verification: Verification { mode: VerifyMode::Full, bytes: Bytes(1 << 30), mismatches: 0 },
        stages: Vec::new(),
        evidence: vec![
            Evidence {
                looked_at: "pattern by way of cmb:nvme2".to_owned(),
                showed: "came back by host memory as it was written".to_owned(),
            }
            .says(RouteVerdict::Consistent),
        ],
        verdict: RouteVerdict::Consistent,
        warnings: Vec::new(),
        limits: vec![Limit {
            object: "link above 0000:03:00.0".to_owned(),
            bytes_per_second: ByteRate(3_550_000_000),
        }],
    }
}

fn asked() -> Asked {
    Asked {
        route: RouteChoice::P2p,
        verify: VerifyMode::Full,
        force: true,
        ..Asked::between("/dev/nvme0n1", "/dev/nvme1n1")
    }
}

/// A plan whose copy would not start.
pub(crate) fn plan() -> Plan {
    let copy = copy();
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        asked: copy.asked,
        source: copy.source,
        target: copy.target,
        route: Some(Route::P2p),
        memory: Some(copy.memory.clone()),
        reason: copy.reason,
        candidates: vec![Candidate {
            memory: copy.memory,
            source: Verdict::BusAddress,
            target: Verdict::BusAddress,
            distance: Some(8),
            refusals: Vec::new(),
            facts: Vec::new(),
        }],
        shape: Some(copy.shape),
        way: vec!["link above 0000:03:00.0".to_owned()],
        limits: copy.limits,
        unmeasured: vec!["nvme1".to_owned()],
        refusals: vec![Refusal {
            reason: "/dev/nvme1n1p1 is mounted on /data".to_owned(),
            hint: Some("unmount it".to_owned()),
            forceable: false,
        }],
        warnings: vec![Warning::NotVerified],
    }
}

/// A comparison that found a difference.
pub(crate) fn verify() -> VerifyRecord {
    let copy = copy();
    VerifyRecord {
        schema: VERIFY_SCHEMA.to_owned(),
        machine: copy.machine,
        source: copy.source,
        target: copy.target,
        offset: Bytes(0),
        target_offset: Bytes(0),
        length: Bytes(1 << 30),
        mode: VerifyMode::Full,
        bytes: Bytes(1 << 30),
        elapsed_ns: Nanos(600_000_000),
        comparing_ns: Nanos(80_000_000),
        digest: Digest {
            algorithm: "xxh3-64".to_owned(),
            source: "00ff".to_owned(),
            target: "00fe".to_owned(),
        },
        mismatches: 1,
        first: Some(Difference {
            source_offset: Bytes(8192),
            target_offset: Bytes(8192),
            length: Bytes(1),
            source_bytes: "01".to_owned(),
            target_bytes: "00".to_owned(),
        }),
        missing: Bytes(0),
        surplus: Bytes(0),
        warnings: Vec::new(),
    }
}

/// A machine examined.
pub(crate) fn doctor() -> DoctorRecord {
    DoctorRecord {
        notes: Vec::new(),
        schema: DOCTOR_SCHEMA.to_owned(),
        machine: machine(Basis::Measured),
        pair: None,
        assumed: Vec::new(),
        state: None,
        nccl: Vec::new(),
        proof: None,
        hidden_devices: None,
        verdict: "4 drives: drive to drive through host memory; 1 step below".to_owned(),
        uses: vec![UseRecord {
            of_use: Use::DriveDrive,
            state: UseState::Host,
            pairs: 6,
            of: 6,
            because: "the kernel refuses the route".to_owned(),
            example: ["nvme0", "nvme1"].map(str::to_owned),
        }],
        findings: vec![Finding {
            kind: FindingKind::AcsRedirect,
            cost: Cost::Routes,
            object: "0000:02:00.0".to_owned(),
            what: "the port redirects peer traffic up to the root complex".to_owned(),
            evidence: vec![Evidence {
                looked_at: "ACS control".to_owned(),
                showed: "0x1d".to_owned(),
            }],
            uses: vec![Use::DriveDrive],
            pairs: 6,
            fix: Some(Fix {
                what: "switch the redirect off".to_owned(),
                commands: vec!["pci=disable_acs_redir=pci:0:0".to_owned()],
                weakens: Some("isolation of IOMMU groups".to_owned()),
                needs: Needs::Reboot,
                settings: Vec::new(),
            }),
        }],
        steps: vec![PlanStep {
            order: 1,
            reboot: true,
            needs: Needs::Reboot,
            what: "switch the redirect off".to_owned(),
            objects: vec!["0000:02:00.0".to_owned()],
            command: "sudo update-grub".to_owned(),
            uses: vec![Use::DriveDrive],
            pairs: 6,
            weakens: Some("isolation of IOMMU groups".to_owned()),
            settings: Vec::new(),
        }],
        settings: Vec::new(),
        unknown: vec![Unknown { what: "ACS of 0000:04:00.0".to_owned(), needs: "root".to_owned() }],
    }
}

/// A copy to two targets, one of which failed.
pub(crate) fn fan_out() -> FanOutRecord {
    FanOutRecord {
        schema: FAN_OUT_SCHEMA.to_owned(),
        read: Bytes(1 << 30),
        targets: vec![
            TargetOutcome {
                target: "/dev/nvme1n1".to_owned(),
                record: Some(copy()),
                failure: None,
            },
            TargetOutcome {
                target: "/dev/nvme3n1".to_owned(),
                record: None,
                failure: Some(CopyFailure {
                    errors: vec!["write to /dev/nvme3n1: no space".to_owned()],
                    hint: None,
                    journal: None,
                    exit: 2,
                }),
            },
        ],
    }
}

/// Two copies of a batch.
pub(crate) fn batch() -> BatchRecord {
    let job = JobOutcome { source: "/dev/nvme0n1".to_owned(), targets: fan_out().targets };
    BatchRecord { schema: BATCH_SCHEMA.to_owned(), jobs: vec![job.clone(), job] }
}

/// Two runs of a sweep beside each other, one case of each verdict.
pub(crate) fn compare() -> Comparison {
    let run = |started| ComparedRun {
        name: "sweep: nvme0n1 to nvme1n1".to_owned(),
        machine: machine(Basis::Measured),
        basis: Basis::Measured,
        started_s: Some(started),
    };
    let rates = |mean: f64| Spread {
        count: 10,
        mean,
        median: mean,
        min: mean * 0.98,
        max: mean * 1.02,
        deviation: mean * 0.01,
        confidence: Some((mean * 0.993, mean * 1.007)),
    };
    let case = |name: &str, before: f64, ratio: f64, verdict| CaseComparison {
        case: name.to_owned(),
        before: Some(rates(before)),
        after: Some(rates(before * ratio)),
        before_geometric_mean: Some(before),
        after_geometric_mean: Some(before * ratio),
        ratio: Some(ratio),
        interval: Some((ratio - 0.013, ratio + 0.013)),
        chance: Some(if verdict == Change::Same { 0.4 } else { 0.0004 }),
        verdict,
        has_regressed: ratio + 0.013 < 0.95,
        reasons: Vec::new(),
    };
    Comparison {
        schema: COMPARE_SCHEMA.to_owned(),
        before: run(1_780_000_000),
        after: run(1_780_090_000),
        threshold: 0.05,
        confidence: 0.95,
        turns: 1,
        method: "a method made up for a sample".to_owned(),
        cases: vec![
            case("64K p2p", 1.9e9, 1.061, Change::Faster),
            case("256K p2p", 2.8e9, 1.004, Change::Same),
            case("1M p2p", 3.0e9, 0.972, Change::Slower),
            case("1M host", 1.6e9, 0.914, Change::Slower),
            CaseComparison {
                case: "4M host".to_owned(),
                before: Some(rates(1.7e9)),
                after: None,
                before_geometric_mean: Some(1.7e9),
                after_geometric_mean: None,
                ratio: None,
                interval: None,
                chance: None,
                verdict: Change::NotComparable,
                has_regressed: false,
                reasons: vec![Incomparable::Missing { run: WhichRun::After }],
            },
        ],
        notes: vec!["another kernel: 7.2.0, 7.2.1".to_owned()],
        has_regressed: true,
    }
}
