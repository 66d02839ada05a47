//! The answers of `doctor` as labels of a Kubernetes node, by the file that Node Feature Discovery's local source reads.
//!
//! A label says what is *allowed*: `resource.kubernetes.io/pcieRoot` and `numaNode` of Dynamic Resource Allocation
//! say only what is near. A use with a pair whose route is unknown has no label, since a count would be a guess.

use peerlane_reach::Use;
use peerlane_results::{Cost, DoctorRecord, Finding, FindingKind, RouteState};

/// The first line of every file of labels, a comment for Node Feature Discovery since 0.14.
pub const LABELS_MARK: &str = "# peerlane topo --format nfd\n";

/// The labels, `NAME=VALUE` a line, below [`LABELS_MARK`].
///
/// `peerlane.direct-USE` and `peerlane.expected-USE` count pairs, and `peerlane.because` has the kind of finding that
/// keeps most pairs from a direct route. Names and values keep to the rules of Kubernetes: letters, digits, `-`, `_` and `.`, 63
/// characters at most.
pub fn node_labels(record: &DoctorRecord) -> String {
    let mut labels = Vec::new();
    for of_use in Use::ALL {
        let rows = || record.uses.iter().filter(|row| row.of_use == of_use);
        if rows().next().is_none() || rows().any(|row| row.state == RouteState::Unknown) {
            continue;
        }
        let pairs =
            |state| rows().filter(|row| row.state == state).map(|row| row.pairs).sum::<u64>();
        let name = label(of_use);
        labels.push(format!("peerlane.direct-{name}={}", pairs(RouteState::Direct)));
        labels.push(format!("peerlane.expected-{name}={}", pairs(RouteState::Expected)));
    }
    labels.extend(costliest(record).map(|kind| format!("peerlane.because={}", kind.code())));
    let lines = labels.into_iter().map(|label| label + "\n");
    LABELS_MARK.to_owned() + &lines.collect::<String>()
}

/// The name of a use in labels, by the devices as Kubernetes' drivers call them.
fn label(of_use: Use) -> &'static str {
    match of_use {
        Use::NetworkToGpu => "gpu-nic",
        other => other.name(),
    }
}

/// The kind of finding that keeps the most pairs from a direct route; of equals, the first of the record.
fn costliest(record: &DoctorRecord) -> Option<FindingKind> {
    // Redirection leaves a route, through the CPU; other findings about speed leave the route as it is.
    let is_obstacle = |one: &&Finding| {
        one.pairs > 0 && (one.cost == Cost::Routes || one.kind == FindingKind::AcsRedirect)
    };
    let obstacles = || record.findings.iter().filter(is_obstacle);
    let pairs = |kind| obstacles().filter(|one| one.kind == kind).map(|one| one.pairs).sum::<u64>();
    obstacles().map(|one| one.kind).rev().max_by_key(|&kind| pairs(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(findings: &[(&str, &str, u64)], uses: &[(&str, &str, u64)]) -> Vec<String> {
        let finding = |&(kind, cost, pairs): &(&str, &str, u64)| {
            serde_json::json!({"kind": kind, "cost": cost, "object": "machine", "what": "", "evidence": [],
                               "uses": [], "pairs": pairs, "fix": null})
        };
        let answer = |&(of_use, state, pairs): &(&str, &str, u64)| {
            serde_json::json!({"use": of_use, "state": state, "pairs": pairs, "of": 9, "because": "",
                               "example": ["a", "b"]})
        };
        let mut record: serde_json::Value =
            serde_json::from_str(include_str!("../../../fixtures/results/doctor.json"))
                .expect("JSON");
        record["findings"] = findings.iter().map(finding).collect();
        record["uses"] = uses.iter().map(answer).collect();
        let record = serde_json::from_value(record).expect("a record");
        let text = node_labels(&record);
        text.strip_prefix(LABELS_MARK).expect("the mark").lines().map(str::to_owned).collect()
    }

    #[test]
    fn only_direct_counts_and_unknown_has_no_label() {
        let uses = [
            ("storage-gpu", "host", 8),
            ("network-gpu", "direct", 4),
            ("network-gpu", "via-cpu", 4),
            ("gpu-gpu", "expected", 6),
            ("drive-drive", "direct", 3),
            ("drive-drive", "unknown", 3),
        ];
        let wanted = [
            "peerlane.direct-storage-gpu=0",
            "peerlane.expected-storage-gpu=0",
            "peerlane.direct-gpu-nic=4",
            "peerlane.expected-gpu-nic=0",
            "peerlane.direct-gpu-gpu=0",
            "peerlane.expected-gpu-gpu=6",
        ];
        assert_eq!(labels(&[], &uses), wanted);
        assert!(labels(&[], &[]).is_empty());
    }

    #[test]
    fn cause_is_the_kind_that_keeps_most_pairs() {
        let cause = |findings: &[(&str, &str, u64)]| labels(findings, &[]).pop();
        let low = ("link-trained-low", "speed", 90);
        let (redirect, iommu) = (("acs-redirect", "speed", 4), ("iommu-translates", "routes", 6));
        assert_eq!(cause(&[low]), None);
        assert_eq!(cause(&[low, ("multipath-head", "routes", 0)]), None);
        let of = |code: &str| Some(format!("peerlane.because={code}"));
        assert_eq!(cause(&[low, redirect]), of("acs-redirect"));
        assert_eq!(cause(&[redirect, iommu]), of("iommu-translates"));
        assert_eq!(cause(&[iommu, redirect, redirect]), of("acs-redirect"));
        assert_eq!(cause(&[("queue-refuses", "routes", 6), iommu]), of("queue-refuses"));
    }

    #[test]
    fn every_label_is_one_that_kubernetes_takes() {
        let is_word = |word: &str| {
            let ends = |one: Option<char>| one.is_some_and(|one| one.is_ascii_alphanumeric());
            word.len() <= 63
                && ends(word.chars().next())
                && ends(word.chars().last())
                && word.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
        };
        let schema = include_str!("../../../docs/reference/schema/doctor-1.json");
        let schema: serde_json::Value = serde_json::from_str(schema).expect("JSON");
        let kinds = schema["$defs"]["FindingKind"]["oneOf"].as_array().expect("kinds");
        assert!(kinds.len() > 30, "{kinds:?}");
        for kind in kinds {
            let code = kind["const"].as_str().expect("a word");
            assert!(is_word(code), "{code}");
        }
        for of_use in Use::ALL {
            assert!(is_word(&format!("peerlane.expected-{}", label(of_use))));
        }
    }
}
