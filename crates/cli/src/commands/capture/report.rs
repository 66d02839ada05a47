//! The answers beside a capture: the examination, the versions, and the kernel's messages about the devices.
//!
//! They are of the machine as it runs, and so say more than the capture: permissions, proofs and errors that
//! happened. Names that the capture replaces are replaced in them, too.

use std::collections::HashMap;
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
        let text = capture::scrub_text(&renamed(&text, &names)).text;
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

/// Names of devices that a capture replaces, and the names in their place.
fn replaced_names(live: &Fabric, kept: &Fabric) -> HashMap<String, String> {
    let functions = live.functions.iter().zip(&kept.functions).flat_map(|(live, kept)| {
        let kernel_names = live.kernel_names.iter().zip(&kept.kernel_names);
        kernel_names.chain([(&live.name, &kept.name)])
    });
    let rdma_devices = live.rdma_devices.iter().zip(&kept.rdma_devices);
    let all = functions.chain(rdma_devices.map(|(live, kept)| (&live.name, &kept.name)));
    all.filter(|(live, kept)| live != kept)
        .map(|(live, kept)| (live.clone(), kept.clone()))
        .collect()
}

/// A text with other names, which are words of it: `lan` is not replaced in `plan`.
fn renamed(text: &str, names: &HashMap<String, String>) -> String {
    let is_of_word = |one: char| one.is_alphanumeric() || "_-.".contains(one);
    let mut kept = String::with_capacity(text.len());
    for part in text.split_inclusive(|one| !is_of_word(one)) {
        let word = part.trim_end_matches(|one| !is_of_word(one) || one == '.');
        kept += names.get(word).map_or(word, String::as_str);
        kept += &part[word.len()..];
    }
    kept
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
    use peerlane_fabric::{RdmaDevice, RdmaGid, RdmaPort};

    use super::*;

    #[test]
    fn answers_lack_what_the_capture_lacks() {
        let kept = peerlane_testing::machine(
            "a nic @0000:41:00.0 driver = 'mlx5_core'; kernel_names = ['eth0']",
        );
        let device = |name: &str, address: &str| RdmaDevice {
            name: name.to_owned(),
            function: None,
            ports: vec![RdmaPort {
                gids: vec![RdmaGid { index: 0, address: address.to_owned(), kind: None }],
                netdev: Some(if name == "rxe0" { "eth0" } else { "front" }.to_owned()),
                ..RdmaPort::default()
            }],
        };
        let mut live = kept.clone();
        live.name = "gpu07".to_owned();
        live.functions.iter_mut().for_each(|one| {
            one.kernel_names.iter_mut().for_each(|name| *name = "front".to_owned());
        });
        live.rdma_devices = vec![device("acme-link", "::ffff:10.1.2.3")];
        let kept = Fabric { rdma_devices: vec![device("rxe0", "address-1")], ..kept };
        let answers = answers(Path::new("/captured"), &live, &kept);
        let text: String = answers.iter().map(|file| file.text.as_str()).collect();
        assert!(text.contains("rxe0") && text.contains("eth0"), "{text}");
        for own in ["gpu07", "front", "acme", "10.1.2.3"] {
            assert!(!text.contains(own), "{own}: {text}");
        }
    }

    #[test]
    fn names_are_replaced_as_words() {
        let names = [("lan".to_owned(), "eth3".to_owned())].into();
        assert_eq!(
            renamed("plan: lan, lan-2 (lan) on lan.", &names),
            "plan: eth3, lan-2 (eth3) on eth3."
        );
    }

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
