//! The answers beside a capture: the examination, the versions, and the kernel's messages about the devices.
//!
//! They are of the machine as it runs, and so say more than the capture: permissions, proofs and errors that
//! happened. Names that the capture replaces are replaced in them, too.

use std::fmt::Write as _;
use std::path::Path;

use peerlane_evidence::{Root, device_messages};
use peerlane_fabric::{DriverBinding, Fabric, Snapshot, TreeEntry, capture};
use peerlane_report::sheet::without_marks;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Failure, Tried};
use crate::render::{self, counted};
use crate::version;

/// Folder of the answers in a capture.
const FOLDER: &str = "peerlane";
/// Words that lines about buses, translation and drivers begin with in the kernel's log, whatever devices there are.
const WORDS: [&str; 9] =
    ["ACPI: PCI", "AMD-Vi", "DMAR", "NVRM", "arm-smmu", "iommu:", "nvidia", "p2pdma", "pcieport"];
/// Longest log that is kept, in lines; of a longer one the last.
const LINES_MAX: usize = 5000;

/// A file with an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AnswerFile {
    /// Path in the capture.
    path: String,
    /// Description of its content.
    what: String,
    /// Length of its text.
    bytes: usize,
    #[serde(skip)]
    text: String,
}

/// The answers about the machine below `root`, without what identifies it.
pub(super) fn answers(root: &Path, live: &Fabric, kept: &Fabric) -> Vec<AnswerFile> {
    let names = replaced_names(live, kept);
    let file = |name: &str, what: String, text: String| {
        let text = capture::scrub_text(&without(text, &names)).text;
        AnswerFile { path: format!("{FOLDER}/{name}"), what, bytes: text.len(), text }
    };
    let nameless = Fabric { name: "machine".to_owned(), ..live.clone() };
    let record = peerlane_engine::examine(&nameless);
    let what = format!("findings, with the plan: {}", counted(record.findings.len(), "finding"));
    let mut files = vec![
        file("doctor.txt", what, without_marks(&render::doctor(&record))),
        file(
            "versions.txt",
            "the program, the kernel, modules and libraries".to_owned(),
            versions(kept),
        ),
    ];
    if root == Path::new("/") {
        let (what, text) = kernel_log(live);
        files.push(file("kernel.txt", what, text));
    }
    files
}

/// Puts the answers into a capture.
///
/// # Errors
/// When there is no room for them.
pub(super) fn insert(files: &[AnswerFile], content: &mut Snapshot) -> Result<(), Failure> {
    for file in files {
        let entry = TreeEntry::File { bytes: file.text.clone().into_bytes(), mode: 0o644 };
        let tried = Tried::to(format!("put {} into the capture", file.path));
        content.insert(Path::new(&file.path), entry).map_err(tried)?;
    }
    Ok(())
}

/// The list of the answers, before anything is written.
pub(super) fn list(files: &[AnswerFile]) -> impl Iterator<Item = String> {
    files.iter().map(|file| format!("{}: {}, {} bytes", file.path, file.what, file.bytes))
}

/// Names of functions that a capture replaces, the longest first, since one may begin another.
fn replaced_names(live: &Fabric, kept: &Fabric) -> Vec<(String, String)> {
    let pairs = live.functions.iter().zip(&kept.functions);
    let pairs = pairs.filter(|(live, kept)| live.address == kept.address && live.name != kept.name);
    let mut names: Vec<_> =
        pairs.map(|(live, kept)| (live.name.clone(), kept.name.clone())).collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

fn without(text: String, names: &[(String, String)]) -> String {
    names.iter().fold(text, |text, (name, other)| text.replace(name, other))
}

/// Versions of everything that decides between devices.
fn versions(fabric: &Fabric) -> String {
    let mut text = format!("peerlane {}\n", version::long());
    let mut line = |what: &str, version: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what}: {version}");
    };
    line("kernel", fabric.kernel.release.as_deref().unwrap_or("not known"));
    match &fabric.kernel.modules {
        Some(modules) => {
            for module in modules {
                line(
                    &module.name,
                    module.version.as_deref().unwrap_or("loaded; states no version"),
                );
            }
        }
        None => line("modules", "not known"),
    }
    match &fabric.libraries {
        Some(libraries) => libraries.iter().for_each(|name| line("library", name)),
        None => line("libraries", "not known"),
    }
    text
}

/// The kernel's messages about the devices, and what they are in words.
fn kernel_log(fabric: &Fabric) -> (String, String) {
    let addresses: Vec<_> = fabric.functions.iter().filter_map(|one| one.address).collect();
    let movers = fabric.iter().filter(|(id, _)| fabric.moves_payload(*id));
    let drivers = movers.filter_map(|(_, function)| match &function.driver {
        DriverBinding::Bound(name) => Some(name.as_str()),
        _ => None,
    });
    let words: Vec<&str> = WORDS.into_iter().chain(drivers).collect();
    match device_messages(&Root::at(Path::new("/")), &addresses, &words) {
        Err(unread) => ("the kernel's messages: not known".to_owned(), format!("{unread}\n")),
        Ok(found) => {
            let left_out = found.lines.len().saturating_sub(LINES_MAX);
            let is_whole = found.is_complete && left_out == 0;
            let what = format!(
                "the kernel's messages about the devices: {}{}",
                counted(found.lines.len() - left_out, "line"),
                if is_whole { "" } else { ", earlier ones are gone" }
            );
            let lines = found.lines.iter().skip(left_out);
            (what, lines.map(|line| windows_from_zero(line) + "\n").collect())
        }
    }
}

/// A line without the addresses of its windows: each begins at 0 and keeps its size.
fn windows_from_zero(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut begin = None;
    for part in parts {
        let end = part.find(|one: char| !one.is_ascii_hexdigit()).unwrap_or(part.len());
        let (digits, rest) = part.split_at(end);
        let number = u64::from_str_radix(digits, 16).ok();
        let shown = match (number, begin.take()) {
            (Some(number), _) if rest == "-" => {
                begin = Some(number);
                Some(0)
            }
            (Some(number), Some(begin)) => number.checked_sub(begin),
            _ => None,
        };
        text += &shown.map_or_else(|| format!("0x{part}"), |shown| format!("0x{shown:x}{rest}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_keep_their_sizes_alone() {
        let line = "BAR 2 [mem 0x38000000000-0x381ffffffff 64bit pref] class 0x030200";
        let shown = "BAR 2 [mem 0x0-0x1ffffffff 64bit pref] class 0x030200";
        assert_eq!(windows_from_zero(line), shown);
        for line in ["", "0x", "0x-0x", "0x12", "0x9-0x1", "0xffffffffffffffffff-0x1", "ä0xg"] {
            assert!(windows_from_zero(line).len() <= line.len(), "{line}");
        }
    }
}
