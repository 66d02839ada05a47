//! A loud way to skip a test.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test did not run and why, and notes it in the file that `PEERLANE_SKIP_LOG` names.
pub(crate) fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(path) = std::env::var_os("PEERLANE_SKIP_LOG") {
        let mut log = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}
