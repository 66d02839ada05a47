//! Records made by hand, of the shape and size of real ones: nothing in them was measured.
//!
//! Rates follow a simple law with seeded noise, so that figures look like those of a machine.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "numbers made by hand"
)]

use peerlane_results::*;
use peerlane_units::{ByteRate, Bytes, Nanos};

/// Vigna's xorshift64*; equal everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// Between 0 and 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around 0, mostly within 2.
    fn bell(&mut self) -> f64 {
        (0..6).map(|_| self.unit()).sum::<f64>() * 1.414 - 4.243
    }
}

/// Requested properties of a sample.
pub(crate) struct Wish {
    pub(crate) basis: Basis,
    pub(crate) repeats: u32,
    pub(crate) scale: f64,
    pub(crate) verdict: RouteVerdict,
}

pub(crate) const MEASURED: Wish =
    Wish { basis: Basis::Measured, repeats: 10, scale: 1.0, verdict: RouteVerdict::Shown };

const GB: f64 = 1e9;
const DIGEST: &str = "0123456789abcdef";

fn machine(basis: Basis) -> Machine {
    Machine {
        name: "hand-made sample".to_owned(),
        fabric: DIGEST.to_owned(),
        kernel: (basis != Basis::Predicted).then(|| "7.2.0".to_owned()),
        program: "0.1.0".to_owned(),
    }
}

fn flow(source: &str, target: &str, path: Path, block: u64) -> Flow {
    Flow {
        via: (path == Path::P2p).then(|| "cmb:nvme2".to_owned()),
        block: Bytes(block),
        ..Flow::new(format!("/dev/{source}"), format!("/dev/{target}"), path)
    }
}

/// The rate that a flow would have alone.
fn alone(flow: &Flow) -> f64 {
    let block = flow.block.0 as f64;
    let (start, most) = match flow.path {
        Path::P2p => (48e-6, 3.05 * GB),
        Path::HostPipelined => (40e-6, 1.85 * GB),
        Path::HostSerial => (95e-6, 1.1 * GB),
        Path::HostPageCache => (80e-6, 0.9 * GB),
        Path::HostMapped => (120e-6, 0.7 * GB),
        Path::HostCufile => (60e-6, 1.5 * GB),
    };
    let in_flight =
        if flow.path == Path::P2p || flow.path == Path::HostPipelined { 16.0 } else { 1.0 };
    1.0 / (start / (block * in_flight) + 1.0 / most)
}

fn percentiles(p50: f64, count: u64) -> Percentiles {
    let at = |times: f64| Nanos((p50 * times) as u64);
    Percentiles {
        count,
        p50_ns: at(1.0),
        p90_ns: at(1.3),
        p99_ns: at(1.9),
        p999_ns: at(3.4),
        max_ns: at(6.0),
    }
}

fn limits(case: &CaseSpec) -> Vec<Limit> {
    let limit = |object: &str, rate: f64| Limit {
        object: object.to_owned(),
        bytes_per_second: ByteRate(rate as u64),
    };
    let flows = case.flows.len().min(4) as f64;
    vec![
        limit("link above 0000:03:00.0", 3.55 * GB * flows),
        limit("link above 0000:01:00.0", 15.2 * GB),
    ]
}

fn evidence(path: Path, wish: &Wish) -> Vec<RouteEvidence> {
    let one = |looked_at: &str, showed: &str, says| RouteEvidence {
        evidence: Evidence { looked_at: looked_at.to_owned(), showed: showed.to_owned() },
        says,
    };
    match (wish.basis, path) {
        (Basis::Predicted, _) => Vec::new(),
        (_, Path::P2p) => vec![
            one("pool of cmb:nvme2", "16 MiB of 64 MiB in use while it ran", wish.verdict),
            one(
                "host memory counters",
                "not readable: needs root or perf_event_paranoid below 1",
                RouteVerdict::NotKnown,
            ),
            one(
                "sectors of nvme0n1 and nvme1n1",
                "2097152 read, 2097152 written",
                RouteVerdict::Consistent,
            ),
        ],
        _ => vec![one(
            "sectors of nvme0n1 and nvme1n1",
            "2097152 read, 2097152 written",
            RouteVerdict::Consistent,
        )],
    }
}

fn run(spec: &CaseSpec, repeat: u32, wish: &Wish, random: &mut Random) -> CaseRecord {
    let crowd = spec.flows.len() as f64;
    let ceiling = 13.4 * GB / crowd;
    let noise = if wish.basis == Basis::Predicted { 0.0 } else { 0.012 };
    let mut flows = Vec::new();
    for (index, flow) in spec.flows.iter().enumerate() {
        let place = flow.source.bytes().map(u64::from).sum::<u64>() * 7
            + flow.target.bytes().map(u64::from).sum::<u64>() * 13;
        let near = 1.0 - (place % 9) as f64 * 0.006;
        let share = alone(flow)
            .min(ceiling * if crowd > 4.0 { 1.12 - 0.24 * index as f64 / crowd } else { 1.0 });
        let rate = share * near * wish.scale * (1.0 + noise * random.bell());
        let elapsed = flow.bytes.0 as f64 / rate;
        let latency = flow.block.0 as f64 * f64::from(flow.depth) / rate * 1e9;
        flows.push(FlowRecord {
            bytes: flow.bytes,
            elapsed_ns: Nanos((elapsed * 1e9) as u64),
            first_done_ns: Nanos(latency as u64),
            memory: if flow.path == Path::P2p { "cmb:nvme2" } else { "host" }.to_owned(),
            bytes_by_route: by_route(flow),
            block: percentiles(latency * 0.96, flow.bytes.0 / flow.block.0.max(1)),
            limited_by: None,
            knee: None,
            places: None,
            stage: None,
        });
    }
    let first = &spec.flows[0];
    let elapsed = flows.iter().map(|flow| flow.elapsed_ns).max().unwrap();
    let bytes = Bytes(spec.flows.iter().map(|flow| flow.bytes.0).sum());
    let is_p2p = first.path == Path::P2p;
    let requests = bytes.0 as f64 / first.block.0 as f64;
    let cpu = requests * if is_p2p { 5.5e3 } else { 7.1e3 } + if is_p2p { 2e7 } else { 3.1e7 };
    let latency = flows[0].block.clone();
    let rate = bytes.0 as f64 / elapsed.0 as f64 * 1e9;
    CaseRecord {
        asked: spec.clone(),
        repeat,
        bytes,
        elapsed_ns: elapsed,
        bytes_by_route: BytesByRoute {
            p2p: if is_p2p { bytes } else { Bytes(0) },
            host: if is_p2p { Bytes(0) } else { bytes },
        },
        latency: Latency { read: latency.clone(), write: latency },
        cpu: CpuCost {
            user_ns: Nanos((cpu * 0.3) as u64),
            system_ns: Nanos((cpu * 0.7) as u64),
            workers_ns: None,
            kernel_threads_ns: None,
        },
        host_memory: HostMemoryTraffic {
            bytes: None,
            reason: "no counter on this machine".to_owned(),
        },
        flows,
        verification: (wish.basis != Basis::Predicted).then_some(Verification {
            mode: VerifyMode::Sample,
            bytes: Bytes::mib(64),
            mismatches: 0,
        }),
        evidence: evidence(first.path, wish),
        verdict: if is_p2p { wish.verdict } else { RouteVerdict::Consistent },
        limits: limits(spec),
        links: loads(spec, rate),
        page_faults: None,
        prediction: (wish.basis == Basis::Predicted).then(|| Prediction {
            engine: "flow: several flows share links".to_owned(),
            interval: Some((ByteRate((rate * 0.93) as u64), ByteRate((rate * 1.06) as u64))),
            gains: vec![Gain { resource: "drive nvme1".to_owned(), ratio: 1.07 }],
            host_memory: None,
            furthest: None,
        }),
        warnings: Vec::new(),
    }
}

fn by_route(flow: &Flow) -> BytesByRoute {
    match flow.path {
        Path::P2p => BytesByRoute { p2p: flow.bytes, host: Bytes(0) },
        _ => BytesByRoute { p2p: Bytes(0), host: flow.bytes },
    }
}

/// Loads on the links of the machine `r7515` of the fixtures, as far as a pair is concerned.
fn loads(spec: &CaseSpec, rate: f64) -> Vec<LinkLoad> {
    let load = |below: &str, direction, payload: f64, ceiling: f64| LinkLoad {
        below: below.to_owned(),
        other_end: None,
        direction,
        payload: ByteRate(payload as u64),
        ceiling: ByteRate(ceiling as u64),
        busy: None,
    };
    let mut loads = Vec::new();
    for flow in &spec.flows {
        let name =
            |endpoint: &str| endpoint.trim_start_matches("/dev/").trim_end_matches("n1").to_owned();
        let share = rate / spec.flows.len() as f64;
        loads.push(load(&name(&flow.source), Direction::Up, share, 3.55 * GB));
        loads.push(load(&name(&flow.target), Direction::Down, share, 3.55 * GB));
    }
    loads
}

fn summary(spec: &CaseSpec, runs: &[CaseRecord]) -> Summary {
    let mut rates: Vec<f64> = runs.iter().map(|run| run.rate().unwrap().0 as f64).collect();
    rates.sort_by(f64::total_cmp);
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let deviation = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>()
        / (count - 1.0).max(1.0))
    .sqrt();
    let half = 2.26 * deviation / count.sqrt();
    let cpu: u64 = runs.iter().map(|run| run.cpu.user_ns.0 + run.cpu.system_ns.0).sum();
    let bytes: u64 = runs.iter().map(|run| run.bytes.0).sum();
    Summary {
        case: spec.name.clone(),
        rate: Spread {
            count: u32::try_from(rates.len()).unwrap(),
            mean,
            median: rates[rates.len() / 2],
            min: rates[0],
            max: rates[rates.len() - 1],
            deviation,
            confidence: (rates.len() > 1).then_some((mean - half, mean + half)),
        },
        block: runs[0].flows[0].block.clone(),
        host_bytes_per_byte: None,
        cpu_s_per_gib: cpu as f64 / 1e9 / (bytes as f64 / f64::from(1 << 30)),
        verdict: runs.iter().map(|run| run.verdict).min().unwrap(),
    }
}

fn bench(kind: WorkloadKind, name: &str, specs: Vec<CaseSpec>, wish: &Wish) -> BenchRecord {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut cases = Vec::new();
    let mut summaries = Vec::new();
    for spec in &specs {
        let runs: Vec<CaseRecord> =
            (0..wish.repeats).map(|repeat| run(spec, repeat, wish, &mut random)).collect();
        summaries.push(summary(spec, &runs));
        cases.extend(runs);
    }
    // They ran in random order.
    for index in (1..cases.len()).rev() {
        let other = (random.unit() * (index + 1) as f64) as usize;
        cases.swap(index, other);
    }
    let warnings = match wish.basis {
        Basis::Emulated => vec![Warning::Emulated { sign: "QEMU NVMe Ctrl".to_owned() }],
        _ => Vec::new(),
    };
    BenchRecord {
        schema: BENCH_SCHEMA.to_owned(),
        asked: Workload {
            schema: WORKLOAD_SCHEMA.to_owned(),
            name: name.to_owned(),
            kind,
            cases: specs,
            repeats: Repeats {
                warm_up: 1,
                least: wish.repeats,
                most: wish.repeats,
                until_per_mille: None,
                time_ns: None,
            },
            seed: 7,
        },
        machine: machine(wish.basis),
        outline: None,
        basis: wish.basis,
        started_s: (wish.basis != Basis::Predicted).then_some(1_795_240_000),
        cases,
        summaries,
        effects: Vec::new(),
        packets: Vec::new(),
        warnings,
    }
}

fn case(name: String, flows: Vec<Flow>) -> CaseSpec {
    CaseSpec { name, flows, time_ns: None }
}

/// Block sizes from 4 KiB on, by paths.
pub(crate) fn sweep(wish: &Wish, sizes: u32, paths: &[Path]) -> BenchRecord {
    let mut specs = Vec::new();
    for size in 0..sizes {
        let block = Bytes(4096 << size);
        for &path in paths {
            let name = format!("{} {path}", block.to_string().replace("iB", "").replace(' ', ""));
            specs.push(case(name, vec![flow("nvme0n1", "nvme1n1", path, block.0)]));
        }
    }
    bench(WorkloadKind::Sweep, "sweep nvme0n1 nvme1n1", specs, wish)
}

/// Every ordered pair of some drives, by both paths.
pub(crate) fn matrix(wish: &Wish, drives: u32) -> BenchRecord {
    let mut specs = Vec::new();
    for source in 0..drives {
        for target in (0..drives).filter(|target| *target != source) {
            for path in [Path::P2p, Path::HostPipelined] {
                let (from, to) = (format!("nvme{source}n1"), format!("nvme{target}n1"));
                specs.push(case(
                    format!("{from} {to} {path}"),
                    vec![flow(&from, &to, path, 1 << 20)],
                ));
            }
        }
    }
    bench(WorkloadKind::Matrix, &format!("matrix of {drives} drives"), specs, wish)
}

/// One to so many transfers at once, by both paths.
pub(crate) fn crowd(wish: &Wish, most: u32) -> BenchRecord {
    let mut specs = Vec::new();
    for count in 1..=most {
        for path in [Path::P2p, Path::HostPipelined] {
            let flows = (0..count)
                .map(|index| {
                    flow(
                        &format!("nvme{index}n1"),
                        &format!("nvme{}n1", (index + 1) % most.max(2)),
                        path,
                        1 << 20,
                    )
                })
                .collect();
            specs.push(case(format!("{count} at once {path}"), flows));
        }
    }
    bench(WorkloadKind::Crowd, "crowd, permutation", specs, wish)
}

/// Drives against one memory, and one alone.
pub(crate) fn rows(wish: &Wish, kind: WorkloadKind) -> BenchRecord {
    let mut specs = Vec::new();
    for (name, source, target, block) in [
        ("read into memory", "nvme0n1", "cmb", 128 << 10),
        ("write out of memory", "cmb", "nvme0n1", 128 << 10),
        ("read alone", "nvme0n1", "null", 1 << 20),
    ] {
        for path in [Path::P2p, Path::HostPipelined] {
            specs.push(case(format!("{name}, {path}"), vec![flow(source, target, path, block)]));
        }
    }
    bench(kind, &format!("{kind} of one drive"), specs, wish)
}
