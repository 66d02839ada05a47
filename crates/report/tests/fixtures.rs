//! Samples of every kind as files: in `fixtures/results/samples`, small, and larger ones where they are asked for.
//!
//! `UPDATE=1 cargo test -p peerlane-report --test fixtures` writes the small ones anew;
//! `PEERLANE_SAMPLES=FOLDER` writes ones of the size of real records, to be looked at.

#![expect(clippy::unwrap_used, reason = "a test")]

mod samples;

use std::path::{Path, PathBuf};

use peerlane_report::Record;
use peerlane_results::{Basis, Path as Way, RouteVerdict, WorkloadKind};
use samples::{MEASURED, Wish};
use serde::Serialize;

const ALL: [Way; 4] = [Way::P2p, Way::HostPipelined, Way::HostSerial, Way::HostPageCache];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results/samples")
}

fn text(record: &impl Serialize) -> String {
    serde_json::to_string_pretty(record).unwrap() + "\n"
}

/// Every kind, small.
fn small() -> Vec<(&'static str, String)> {
    let wish = || Wish { repeats: 2, ..MEASURED };
    let two = [Way::P2p, Way::HostPipelined];
    let predicted =
        Wish { basis: Basis::Predicted, repeats: 1, scale: 0.96, verdict: RouteVerdict::NotKnown };
    let emulated =
        Wish { basis: Basis::Emulated, repeats: 2, scale: 0.05, verdict: RouteVerdict::Shown };
    vec![
        ("bench-sweep", text(&samples::sweep(&wish(), 3, &two))),
        ("bench-sweep-predicted", text(&samples::sweep(&predicted, 3, &two))),
        ("bench-sweep-emulated", text(&samples::sweep(&emulated, 2, &two))),
        ("bench-matrix", text(&samples::matrix(&wish(), 2))),
        ("bench-crowd", text(&samples::crowd(&wish(), 2))),
        (
            "bench-stream",
            text(&samples::rows(&Wish { repeats: 1, ..MEASURED }, WorkloadKind::Stream)),
        ),
        (
            "bench-roundtrip",
            text(&samples::rows(&Wish { repeats: 1, ..MEASURED }, WorkloadKind::Roundtrip)),
        ),
        ("compare", text(&samples::compare())),
        ("copy", text(&samples::copy())),
        ("fan-out", text(&samples::fan_out())),
        ("batch", text(&samples::batch())),
        ("verify", text(&samples::verify())),
        ("doctor", text(&samples::doctor())),
        ("plan", text(&samples::plan())),
    ]
}

#[test]
fn samples_of_every_kind_are_read() {
    for (name, sample) in small() {
        let path = folder().join(format!("{name}.json"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &sample).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(
            kept == sample,
            "{name} differs: UPDATE=1 cargo test -p peerlane-report --test fixtures"
        );
        Record::from_json(kept.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn large_samples_are_written_on_request() {
    let Some(folder) = std::env::var_os("PEERLANE_SAMPLES") else { return };
    let predicted =
        Wish { basis: Basis::Predicted, repeats: 1, scale: 0.97, verdict: RouteVerdict::NotKnown };
    let emulated =
        Wish { basis: Basis::Emulated, repeats: 5, scale: 0.05, verdict: RouteVerdict::Shown };
    for (name, record) in [
        ("sweep", samples::sweep(&MEASURED, 16, &ALL)),
        ("sweep-predicted", samples::sweep(&predicted, 16, &ALL)),
        ("sweep-emulated", samples::sweep(&emulated, 10, &ALL[..2])),
        ("matrix", samples::matrix(&Wish { repeats: 5, ..MEASURED }, 10)),
        ("crowd", samples::crowd(&MEASURED, 10)),
        ("stream", samples::rows(&MEASURED, WorkloadKind::Stream)),
        ("roundtrip", samples::rows(&MEASURED, WorkloadKind::Roundtrip)),
    ] {
        std::fs::write(Path::new(&folder).join(format!("{name}.json")), text(&record)).unwrap();
    }
}
