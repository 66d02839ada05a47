//! Reports in a browser: at the widths of a phone, a laptop and a sheet of paper nothing is said on the
//! console, nothing is wider than the page, and there is something to see, in light and dark.
//!
//! Skipped where there is no Chromium, as `browser.rs` says; `PEERLANE_SHOTS=FOLDER` keeps what it showed.

#[path = "../../../report/tests/samples/mod.rs"]
mod samples;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chromium::{self, WIDTHS, browser, in_frames};
use peerlane_results::{Basis, Path as Way, RouteVerdict, WorkloadKind};
use samples::{MEASURED, Wish};
use serde::Serialize;

/// Records of the size of real ones, as files.
fn records(folder: &Path) -> Vec<PathBuf> {
    let keep = |name: &str, record: &dyn erased::BrowserRecord| {
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, record.text()).expect("a file");
        path
    };
    let all = [Way::P2p, Way::HostPipelined, Way::HostSerial, Way::HostPageCache];
    let predicted =
        Wish { basis: Basis::Predicted, repeats: 1, scale: 0.97, verdict: RouteVerdict::NotKnown };
    let five = Wish { repeats: 5, ..MEASURED };
    vec![
        keep("sweep", &samples::sweep(&MEASURED, 16, &all)),
        keep("predicted", &samples::sweep(&predicted, 16, &all)),
        keep("matrix", &samples::matrix(&five, 10)),
        keep("crowd", &samples::crowd(&five, 10)),
        keep("stream", &samples::rows(&MEASURED, WorkloadKind::Stream)),
        keep("roundtrip", &samples::rows(&MEASURED, WorkloadKind::Roundtrip)),
        keep("compare", &samples::compare()),
        keep("copy", &samples::copy()),
        keep("fan-out", &samples::fan_out()),
        keep("batch", &samples::batch()),
        keep("verify", &samples::verify()),
        keep("doctor", &samples::doctor()),
        keep("plan", &samples::plan()),
    ]
}

/// Records of any kind behind one face.
mod erased {
    pub(super) trait BrowserRecord {
        fn text(&self) -> String;
    }
    impl<T: super::Serialize> BrowserRecord for T {
        fn text(&self) -> String {
            serde_json::to_string(self).expect("JSON")
        }
    }
}

fn report(folder: &Path) -> PathBuf {
    let page = folder.join("report.html");
    let machine =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs/r7515/topology.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .arg("report")
        .args(records(folder))
        .arg("--machine")
        .arg(machine)
        .arg("-o")
        .arg(&page)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

#[test]
fn report_fits_screens_and_paper() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
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
        let folder = tempfile::tempdir().expect("a folder");
        let report = report(folder.path());
        chromium::look_at(
            (&browser, folder.path()),
            ("report", &report),
            [(390, 6000), (1440, 4000)],
            (100_000, 100_000),
        );
    }
}
