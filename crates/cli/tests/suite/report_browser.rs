//! Reports in a browser: at the widths of a phone, a laptop and a sheet of paper nothing is said on the
//! console, nothing is wider than the page, and there is something to see, in light and dark.
//!
//! Skipped where there is no Chromium, as `browser.rs` says; `PEERLANE_SHOTS=FOLDER` keeps what it showed.

mod records;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chromium::{self, WIDTHS, browser, in_frames};
use crate::program::Exited;
use peerlane_results::{Basis, BenchRecord, Path as Way, RouteVerdict, WorkloadKind};
use peerlane_testing::Scratch;
use records::{MEASURED, Wish};

/// Benchmarks of the size of real ones, as files, and the samples of other kinds.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let keep = |name: &str, record: BenchRecord| {
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, serde_json::to_string(&record).expect("JSON")).expect("a file");
        path
    };
    let all = [Way::P2p, Way::HostPipelined, Way::HostSerial, Way::HostPageCache];
    let predicted =
        Wish { basis: Basis::Predicted, repeats: 1, scale: 0.97, verdict: RouteVerdict::NotKnown };
    let five = Wish { repeats: 5, ..MEASURED };
    let mut paths = vec![
        keep("sweep", records::sweep(&MEASURED, 16, &all)),
        keep("predicted", records::sweep(&predicted, 16, &all)),
        keep("matrix", records::matrix(&five, 10)),
        keep("crowd", records::crowd(&five, 10)),
        keep("stream", records::rows(&MEASURED, WorkloadKind::Stream)),
        keep("roundtrip", records::rows(&MEASURED, WorkloadKind::Roundtrip)),
    ];
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results/samples");
    let others = ["compare", "copy", "fan-out", "batch", "verify", "doctor", "plan"];
    paths.extend(others.map(|name| samples.join(format!("{name}.json"))));
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

/// Left to `./test full`, which installs what it needs.
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
