//! Skips, and programs that tests start.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Notes that the running test cannot run here, in the file that `PEERLANE_SKIP_LOG` names; a failure where
/// `PEERLANE_REQUIRE` names the thing that is missing.
pub fn skip(thing: &str, reason: &str) {
    let required = std::env::var("PEERLANE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|word| word.trim() == thing), "required: {thing}: {reason}");
    let thread = std::thread::current();
    let reason = reason.trim().replace('\n', " ");
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).expect("standard error");
    if let Some(log) = std::env::var_os("PEERLANE_SKIP_LOG") {
        let log = std::fs::File::options().create(true).append(true).open(log);
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("PEERLANE_SKIP_LOG");
    }
}

/// A program that signals stop: the runner of the tests may have been started to ignore them, as by
/// `nohup` or in the background of a script, and programs inherit that.
pub fn heeding(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", program]);
    command
}

/// Copies a program into a folder, to be run there; its path.
///
/// By another program: a file that this process writes stays open for writing in all programs that
/// other tests start, until they run, and a program open for writing does not run (`ETXTBSY`,
/// execve(2)).
pub fn copy_program(program: &Path, folder: &Path) -> PathBuf {
    let status = Command::new("cp").arg(program).arg(folder).status().expect("cp");
    assert!(status.success(), "cp: {status}");
    folder.join(program.file_name().expect("a name"))
}
