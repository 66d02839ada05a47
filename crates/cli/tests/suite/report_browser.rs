//! Reports in a browser: at the widths of a phone, a laptop and a sheet of paper nothing is said on the
//! console, nothing is wider than the page, and there is something to see, in light and dark.
//!
//! Skipped without Chromium, as `browser.rs` says; `PEERLANE_SHOTS=FOLDER` keeps the screenshots.

use std::path::{Path, PathBuf};
use std::process::Command;

use peerlane_results::{
    BenchRecord, BytesByRoute, CaseRecord, CaseSpec, FlowRecord, Path as Way, Spread, Summary,
};
use peerlane_testing::Scratch;
use peerlane_units::{Bytes, Nanos};

use crate::chromium::{self, WIDTHS, browser, in_frames};
use crate::program::Exited;

fn sample(name: &str) -> PathBuf {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results");
    samples.join(format!("{name}.json"))
}

/// A case of a larger benchmark: name, path, block, and drives that copy to each other.
type LargerCase = (String, Way, u64, Vec<(u32, u32)>);

/// A sample with other cases, each like the one of its path, so often, and at a rate of its own.
fn larger(name: &str, repeats: u32, cases: Vec<LargerCase>) -> BenchRecord {
    let text = std::fs::read(sample(name)).expect("a sample");
    let mut record: BenchRecord = serde_json::from_slice(&text).expect("a record");
    let (old, summaries) =
        (std::mem::take(&mut record.cases), std::mem::take(&mut record.summaries));
    record.asked.cases.clear();
    for (index, (name, path, block, drives)) in (1..).zip(cases) {
        let is_like = |case: &&CaseRecord| {
            let flows = &case.asked.flows;
            flows.len() == 1 && (flows[0].path == Way::P2p) == (path == Way::P2p)
        };
        let like = old.iter().find(is_like).expect("a case");
        let of_like = |one: &&Summary| one.case == like.asked.name;
        let summary = summaries.iter().find(of_like).expect("a summary").clone();
        let flow = |&(source, target): &(u32, u32)| {
            let mut flow = like.asked.flows[0].clone();
            flow.source = format!("/dev/nvme{source}n1");
            flow.target = format!("/dev/nvme{target}n1");
            (flow.path, flow.block) = (path, Bytes(block));
            flow
        };
        let asked = CaseSpec { name, flows: drives.iter().map(flow).collect(), time_ns: None };
        let count = drives.len() as u64;
        let times = |part: Bytes| Bytes(part.0 * count);
        // Larger blocks are faster, drives share a rate, and no two cases are alike.
        let is_larger = block > like.asked.flows[0].block.0;
        let percent = if is_larger { 60 } else { 100 } + index % 9;
        let elapsed =
            |repeat: u32| Nanos(like.elapsed_ns.0 * count * (percent + u64::from(repeat)) / 100);
        record.cases.extend((0..repeats).map(|repeat| {
            let moved = |at| FlowRecord {
                elapsed_ns: Nanos(elapsed(repeat).0 * (100 - at) / 100),
                ..like.flows[0].clone()
            };
            let route = like.bytes_by_route;
            CaseRecord {
                asked: asked.clone(),
                repeat,
                bytes: times(like.bytes),
                elapsed_ns: elapsed(repeat),
                bytes_by_route: BytesByRoute { p2p: times(route.p2p), host: times(route.host) },
                flows: (0..count).map(moved).collect(),
                ..like.clone()
            }
        }));
        let rate = |repeat| times(like.bytes).0 as f64 * 1e9 / elapsed(repeat).0 as f64;
        let (min, max) = (rate(repeats - 1), rate(0));
        let mean = f64::midpoint(min, max);
        let confidence = (repeats > 1).then_some((min, max));
        let rate =
            Spread { count: repeats, mean, median: mean, min, max, confidence, ..summary.rate };
        record.summaries.push(Summary { case: asked.name.clone(), rate, ..summary });
        record.asked.cases.push(asked);
    }
    (record.asked.repeats.least, record.asked.repeats.most) = (repeats, repeats);
    record
}

/// Benchmarks of the size of real ones, as files, and the samples of other kinds.
fn paths(folder: &Path) -> Vec<PathBuf> {
    const MIB: u64 = 1 << 20;
    let all = [Way::P2p, Way::HostPipelined, Way::HostSerial, Way::HostPageCache];
    let sweep = || {
        let blocks = (0..16).map(|size| Bytes(4096 << size));
        let cases = blocks.flat_map(|block| all.map(|path| (block, path)));
        let name = |block: Bytes| block.to_string().replace("iB", "").replace(' ', "");
        let case = |(block, path)| (format!("{} {path}", name(block)), path, block.0, vec![(0, 1)]);
        cases.map(case).collect()
    };
    let pairs = (0..10).flat_map(|from| (0..10).map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from != to);
    let matrix = pairs.flat_map(|(from, to)| {
        let name = format!("nvme{from}n1 nvme{to}n1");
        [all[0], all[1]].map(|path| (format!("{name} {path}"), path, MIB, vec![(from, to)]))
    });
    let crowd = (1..=10).flat_map(|count| {
        let drives: Vec<_> = (0..count).map(|drive| (drive, (drive + 1) % 10)).collect();
        [all[0], all[1]].map(|path| (format!("{count} at once {path}"), path, MIB, drives.clone()))
    });
    let larger = [
        larger("bench-sweep", 10, sweep()),
        larger("bench-sweep-predicted", 1, sweep()),
        larger("bench-matrix", 5, matrix.collect()),
        larger("bench-crowd", 5, crowd.collect()),
    ];
    let mut paths = Vec::new();
    for (name, record) in ["sweep", "predicted", "matrix", "crowd"].into_iter().zip(larger) {
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, serde_json::to_string(&record).expect("JSON")).expect("a file");
        paths.push(path);
    }
    let others = ["bench-stream", "bench-roundtrip", "compare", "copy", "fan-out", "batch"];
    paths.extend(others.into_iter().chain(["verify", "doctor", "plan"]).map(sample));
    paths
}

fn report(folder: &Path) -> PathBuf {
    let page = folder.join("report.html");
    let machine =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs/r7515/topology.toml");
    Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .arg("report")
        .args(paths(folder))
        .arg("--machine")
        .arg(machine)
        .arg("-o")
        .arg(&page)
        .output()
        .expect("the program starts")
        .exited(0);
    page
}

#[test]
fn report_fits_screens_and_paper() {
    let Some(browser) = browser() else { return };
    let folder = Scratch::new();
    let report = std::fs::read_to_string(report(folder.path())).expect("a report");
    let sort = "const button = inner.querySelector('th button');
        button.click();
        return button.parentElement.getAttribute('aria-sort');";
    let found = in_frames((&browser, folder.path()), &report, sort);
    let expected = WIDTHS.map(|width| format!("{width}:{width}:ascending")).join(" ");
    assert_eq!(found, expected, "inner width, width of the content, and a sorted table");
}

/// Left to `./test full`, which installs the browser.
mod full {
    use super::*;

    #[test]
    fn report_renders_in_every_medium() {
        let Some(browser) = browser() else { return };
        let folder = Scratch::new();
        let report = report(folder.path());
        chromium::look_at(
            (&browser, folder.path()),
            ("report", &report),
            [(390, 6000), (1440, 4000)],
            (100_000, 100_000),
        );
    }
}
