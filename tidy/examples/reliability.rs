//! Writes `docs/reliability.md` from the results in `docs/reliability/`.

#![allow(clippy::print_stderr, reason = "it is a program")]

use std::path::Path;
use std::process::ExitCode;

use peerlane_tidy::reliability::{PAGE, assemble};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let written = assemble(&root).and_then(|page| {
        std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("error: {fault}");
            ExitCode::FAILURE
        }
    }
}
