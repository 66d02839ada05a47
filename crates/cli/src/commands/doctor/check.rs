//! `peerlane doctor --check`: one line and the statuses of monitoring plugins.
//!
//! The form is that of the Monitoring Plugins Development Guidelines: text, a bar, performance data as
//! `label=value;warn;crit;min;max`.

use std::ffi::OsString;
use std::fmt;

use peerlane_reach::Use;
use peerlane_results::{DoctorRecord, RouteState, UseAnswer};

use crate::args::ColorChoice;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Bytes of a reason in the line.
const MAX_REASON: usize = 160;

/// Exit status of an unknown answer, failures included.
pub(crate) const UNKNOWN: u8 = 3;

/// Status of a monitoring plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Nothing was found.
    Ok = 0,
    /// Something is slower than it could be.
    Warning = 1,
    /// A route is missing.
    Critical = 2,
    /// Unknown, or failure.
    Unknown = UNKNOWN as isize,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        })
    }
}

/// Prints the line and returns the status.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn run(record: &DoctorRecord, expected: &[Use]) -> Result<Exit, Failure> {
    let (status, reason) = judged(record, expected);
    let reason = format!("{reason}{}", codes(record));
    let data: Vec<String> = performance_data(record);
    let data = if data.is_empty() { String::new() } else { format!(" | {}", data.join(" ")) };
    // A monitor reads the line, also with --quiet.
    Printer::plain(ColorChoice::Never)
        .data(&format!("PEERLANE {status} - {}{data}\n", plain(&reason)))?;
    Ok(Exit::Command(status as u8))
}

/// Prints the line of a failure, and returns the status of one.
pub(crate) fn failed(reason: &str, printer: Printer) -> Exit {
    let line = format!("PEERLANE {} - {}\n", Status::Unknown, plain(reason));
    // Standard output is closed, and the line has no reader.
    let _ = printer.data(&line);
    Exit::Command(UNKNOWN)
}

/// Returns whether a command line asks for `doctor --check`, which `--expect` implies, be it right or not.
pub(crate) fn is_asked_for(words: &[OsString]) -> bool {
    let words = || words.iter().skip(1).take_while(|word| *word != "--");
    let command = words().find(|word| !word.to_string_lossy().starts_with('-'));
    command.is_some_and(|word| word == "doctor")
        && words().any(|word| {
            let word = word.to_string_lossy();
            ["--check", "--expect"].iter().any(|&name| {
                word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
            })
        })
}

fn judged(record: &DoctorRecord, expected: &[Use]) -> (Status, String) {
    if expected.is_empty() { by_findings(record) } else { by_uses(record, expected) }
}

/// The worst of findings that cost pairs and of the states of uses; only if neither is bad, unknown
/// facts count.
fn by_findings(record: &DoctorRecord) -> (Status, String) {
    let has = |states: &[RouteState]| record.uses.iter().any(|row| states.contains(&row.state));
    let costs = record.findings.iter().any(|finding| finding.pairs > 0);
    let status = if costs || has(&[RouteState::ViaCpu, RouteState::Host, RouteState::Impossible]) {
        Status::Warning
    } else if has(&[RouteState::Unknown]) || record.hidden_devices.is_some() {
        Status::Unknown
    } else {
        Status::Ok
    };
    (status, record.verdict.clone())
}

/// The worst of the uses that have to be direct.
fn by_uses(record: &DoctorRecord, expected: &[Use]) -> (Status, String) {
    let is_it = |one: Use| expected.contains(&one);
    for one in expected {
        if record.uses.iter().any(|row| row.of_use == *one) {
            continue;
        }
        return match &record.hidden_devices {
            Some(reason) => (Status::Unknown, format!("{one}: unknown: {reason}")),
            None => (Status::Critical, format!("{one}: no such devices here")),
        };
    }
    let rows = || record.uses.iter().filter(|row| is_it(row.of_use));
    let is_missing =
        |row: &&UseAnswer| matches!(row.state, RouteState::Host | RouteState::Impossible);
    if let Some(row) = rows().find(is_missing) {
        return (Status::Critical, in_words(row));
    }
    if let Some(row) = rows().find(|row| row.state == RouteState::Unknown) {
        return (Status::Unknown, in_words(row));
    }
    if let Some(row) = rows().find(|row| row.state == RouteState::ViaCpu) {
        return (Status::Warning, in_words(row));
    }
    let slower = record.findings.iter().find(|one| one.uses.iter().any(|&one| is_it(one)));
    match slower {
        Some(found) => (Status::Warning, format!("{}: {}", found.object, short(&found.what))),
        None => (Status::Ok, rows().map(in_words).collect::<Vec<_>>().join(", ")),
    }
}

/// The kinds of the findings that cost pairs, for those who gather the lines of many machines.
fn codes(record: &DoctorRecord) -> String {
    let mut codes = Vec::new();
    for finding in record.findings.iter().filter(|finding| finding.pairs > 0) {
        let code = finding.kind.code();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    if codes.is_empty() { String::new() } else { format!(" [{}]", codes.join(", ")) }
}

fn in_words(row: &UseAnswer) -> String {
    let because = match row.state {
        RouteState::Direct | RouteState::Expected => String::new(),
        _ => format!(": {}", short(&row.because)),
    };
    format!("{} {} for {} of {} pairs{because}", row.of_use, row.state, row.pairs, row.of)
}

/// The first words of a reason.
fn short(text: &str) -> String {
    let mut end = text.len().min(MAX_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end < text.len() { format!("{}...", &text[..end]) } else { text.to_owned() }
}

/// The direct pairs of each use; a bar would begin the performance data.
fn performance_data(record: &DoctorRecord) -> Vec<String> {
    let of_use = |one: &Use| {
        let rows = || record.uses.iter().filter(|row| row.of_use == *one);
        let direct: u64 =
            rows().filter(|row| row.state == RouteState::Direct).map(|row| row.pairs).sum();
        Some(format!("{}={direct};;;0;{}", one.name(), rows().next()?.of))
    };
    let mut data: Vec<String> = Use::ALL.iter().filter_map(of_use).collect();
    data.push(format!("findings={};;;0;", record.findings.len()));
    data
}

fn plain(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn check_is_recognised_in_wrong_commands() {
        for text in ["peerlane doctor --check", "peerlane -q doctor --bad --check --expect x"] {
            assert!(is_asked_for(&words(text)), "{text}");
        }
        for text in ["peerlane plan --check", "peerlane doctor", "peerlane doctor -- --check"] {
            assert!(!is_asked_for(&words(text)), "{text}");
        }
    }
}
