//! `peerlane ask-library`: one question to CUDA or cuFile, in a process of its own.
//!
//! cuFile reads where its log goes from the environment, keeps its settings for the process, and may end the process:
//! NVIDIA's own tests of cudax open and close it several times with the log off, since it crashes on the second close
//! with one. So `plan --probe` starts this program once for each way, with the log in a folder that is gone afterwards.
//! `CUFILE_LOGFILE_PATH` wins over `logging.dir` of cufile.json (README of GDS 1.0, "cuFile Configuration"); the
//! libraries 1.11 to 1.20 read `CUFILE_LOGGING_LEVEL` as well (`strings libcufile.so.0`).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use peerlane_engine::LibraryQuestion;
use peerlane_results::ProbeAnswer;
use peerlane_units::Nanos;

use super::child_answer::ChildAnswer;
use crate::args::AskLibraryArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

const LOG_PATH: &str = "CUFILE_LOGFILE_PATH";
const LOG_LEVEL: &str = "CUFILE_LOGGING_LEVEL";
/// Lines of the log that are shown: the first is the cause, and later ones follow from it.
const LOG_LINES: usize = 3;
/// Longest log that is read.
const LOG_MAX: u64 = 1 << 20;

/// Answers the question, as JSON.
///
/// # Errors
/// When standard input or output cannot be used.
pub(crate) fn run(args: &AskLibraryArgs, printer: Printer) -> Result<Exit, Failure> {
    let file = args.file.then(|| io::stdin().as_fd().try_clone_to_owned()).transpose();
    let file = file.map_err(Tried::to("use standard input"))?.map(File::from);
    let question = LibraryQuestion { memory: args.memory.clone(), file };
    printer.object(&peerlane_engine::ask_library(question))?;
    Ok(Exit::Done)
}

/// Asks in another process, and adds the reason of a refusal in cuFile's log.
pub(super) fn ask(question: LibraryQuestion, deadline: Nanos) -> ProbeAnswer {
    match tried(question, deadline) {
        Ok(answer) => answer,
        Err(error) => {
            ProbeAnswer::NotAsked { reason: format!("cannot start a process that asks: {error}") }
        }
    }
}

fn tried(question: LibraryQuestion, deadline: Nanos) -> io::Result<ProbeAnswer> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("cufile.log");
    let answer = ChildAnswer::from_command(deadline, |command| {
        command.args(["ask-library", "--memory", &question.memory]);
        command.env(LOG_PATH, &log).env(LOG_LEVEL, "ERROR");
        if let Some(file) = question.file {
            command.arg("--file").stdin(file);
        }
    })?;
    if answer.is_late() {
        return Ok(ProbeAnswer::NotAsked { reason: answer.fault("the library") });
    }
    let refused = || ProbeAnswer::Refused { reason: answer.fault("the library") };
    Ok(match (answer.object().unwrap_or_else(refused), reasons(&log)) {
        (ProbeAnswer::Refused { reason }, Some(logged)) => {
            ProbeAnswer::Refused { reason: format!("{reason}; cufile.log: {logged}") }
        }
        (answer, _) => answer,
    })
}

/// The first errors of a log of cuFile, each once.
fn reasons(log: &Path) -> Option<String> {
    let is_short = fs::metadata(log).is_ok_and(|facts| facts.len() <= LOG_MAX);
    let text = is_short.then(|| fs::read(log).ok()).flatten()?;
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().filter_map(message) {
        if lines.len() < LOG_LINES && !lines.contains(&line) {
            lines.push(line);
        }
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The message of a line such as ` 27-11-2026 10:11:12:131 [pid=7 tid=7] ERROR  cufio-udev:131 no devices found`.
fn message(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("] ERROR ")?;
    let (_, words) = rest.trim_start().split_once(' ')?;
    Some(words.trim()).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of cuFile 1.15 without libcuda.
    const LOG: &str = " 28-11-2026 14:26:14:143 [pid=7034 tid=7034] ERROR  cufio-cuda:140 unable to load,  libcuda.so.1 \n\
        \n 28-11-2026 14:26:14:143 [pid=7034 tid=7034] ERROR  cufio_core:961 missing cuda symbols while dynamic loading\n \
        28-11-2026 14:26:14:143 [pid=7034 tid=7034] ERROR  cufio-cuda:140 unable to load,  libcuda.so.1 \n \
        28-11-2026 14:26:14:144 [pid=7034 tid=7034] NOTICE  cufio-drv:705 running in compatible mode\n";

    #[test]
    fn log_errors_are_listed_once() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("cufile.log");
        assert_eq!(reasons(&log), None);
        fs::write(&log, LOG).unwrap();
        let said = "unable to load,  libcuda.so.1; missing cuda symbols while dynamic loading";
        assert_eq!(reasons(&log).as_deref(), Some(said));
    }
}
