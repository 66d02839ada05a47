//! Claims of the demonstration, each checked against record, recorder and images.

use std::fmt::Write as _;

use peerlane_results::{Route, VerifyMode};
use schemars::JsonSchema;
use serde::Serialize;

/// Findings of record, recorder and images about one copy; all sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct DemoFindings {
    /// Route that was asked for.
    pub(super) asked: Route,
    /// Size of the source's image.
    pub(super) image_bytes: u64,
    /// Route in the record.
    pub(super) route: Route,
    /// Payload in the record.
    pub(super) bytes: u64,
    /// Check of the content by the copy itself.
    pub(super) verify: VerifyMode,
    /// Blocks that differed in that check.
    pub(super) mismatches: u64,
    /// Byte by byte, compared on the host.
    pub(super) images_equal: bool,
    /// The recorder's count.
    pub(super) payload_guest_memory: u64,
    /// The recorder's count.
    pub(super) payload_p2p: u64,
    /// The recorder's count.
    pub(super) payload_unclassified: u64,
    /// The recorder's count.
    pub(super) control_guest_memory: u64,
    /// The recorder's count: proof and verification, in guest memory and peer to peer.
    pub(super) check: u64,
    /// True when the recorder understood all that it saw.
    pub(super) recorder_complete: bool,
}

impl DemoFindings {
    /// Deviations from the expected values; empty when there are none.
    pub(super) fn problems(&self) -> Vec<String> {
        // Each byte is moved twice: the source writes it to memory, the target reads it from there.
        let twice = self.image_bytes.saturating_mul(2);
        let (guest_memory, p2p) = match self.asked {
            Route::P2p => (0, twice),
            Route::Host => (twice, 0),
        };
        let numbers = [
            ("bytes in the record", self.bytes, self.image_bytes),
            ("blocks that differ", self.mismatches, 0),
            ("payload bytes in guest memory", self.payload_guest_memory, guest_memory),
            ("payload bytes peer to peer", self.payload_p2p, p2p),
            ("payload bytes unclassified", self.payload_unclassified, 0),
        ];
        let mut problems: Vec<String> = numbers
            .into_iter()
            .filter(|(_, is, should)| is != should)
            .map(|(what, is, should)| format!("{what}: {is}, where {should} are right"))
            .collect();
        let claims = [
            (self.route == self.asked, "the record names another route"),
            (self.verify != VerifyMode::None, "content was not verified"),
            (self.images_equal, "the images differ"),
            (
                self.check <= self.most_check(),
                "more check bytes than proof, samples and clearing take",
            ),
            (self.recorder_complete, "the recorder did not account for all commands"),
        ];
        problems.extend(
            claims.into_iter().filter(|(holds, _)| !holds).map(|(_, words)| words.to_owned()),
        );
        problems.iter().map(|problem| format!("route {}: {problem}", self.asked)).collect()
    }

    /// The most that proof, sampled verification and clearing the device memory may take in guest
    /// memory.
    ///
    /// The split into payload and check comes from the marks of the measured program, so a check of
    /// any size could hide a copy. An honest one of 64 MiB takes about 2.5 MB.
    fn most_check(&self) -> u64 {
        self.image_bytes / 16
    }

    /// The result in a line.
    pub(super) fn line(&self) -> String {
        let verified = self.verify != VerifyMode::None && self.mismatches == 0 && self.images_equal;
        format!(
            "route {}, {} bytes, {}, payload bytes in guest memory {}",
            self.route,
            self.bytes,
            if verified { "verified" } else { "NOT verified" },
            self.payload_guest_memory
        )
    }
}

/// The findings side by side.
pub(super) fn table(columns: &[DemoFindings]) -> String {
    type Cell = fn(&DemoFindings) -> String;
    let rows: [(&str, Cell); 8] = [
        ("route", |f| f.route.to_string()),
        ("bytes copied", |f| f.bytes.to_string()),
        ("verified by the copy", |f| format!("{}, {} differ", f.verify, f.mismatches)),
        ("images equal, compared outside", |f| yes_or_no(f.images_equal)),
        ("payload bytes in guest memory", |f| f.payload_guest_memory.to_string()),
        ("payload bytes peer to peer", |f| f.payload_p2p.to_string()),
        ("control bytes in guest memory", |f| {
            format!("{} ({})", f.control_guest_memory, percent(f.control_guest_memory, f.bytes))
        }),
        ("check bytes in guest memory", |f| f.check.to_string()),
    ];
    let mut text = String::new();
    for (label, cell) in rows {
        // Writing to a String cannot fail.
        let _ = write!(text, "  {label:32}");
        for column in columns {
            let _ = write!(text, "{:>20}", cell(column));
        }
        text.push('\n');
    }
    text
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "NO" }.to_owned()
}

fn percent(part: u64, whole: u64) -> String {
    let hundredths = (u128::from(part) * 10_000).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right() -> DemoFindings {
        DemoFindings {
            asked: Route::P2p,
            image_bytes: 100,
            route: Route::P2p,
            bytes: 100,
            verify: VerifyMode::Sample,
            mismatches: 0,
            images_equal: true,
            payload_guest_memory: 0,
            payload_p2p: 200,
            payload_unclassified: 0,
            control_guest_memory: 1,
            check: 6,
            recorder_complete: true,
        }
    }

    #[test]
    fn correct_findings_have_no_problems() {
        assert_eq!(right().problems(), Vec::<String>::new());
        let host = DemoFindings {
            asked: Route::Host,
            route: Route::Host,
            payload_guest_memory: 200,
            payload_p2p: 0,
            ..right()
        };
        assert_eq!(host.problems(), Vec::<String>::new());
    }

    #[test]
    fn every_wrong_finding_is_a_problem() {
        let wrong = [
            DemoFindings { route: Route::Host, ..right() },
            DemoFindings { bytes: 99, ..right() },
            DemoFindings { verify: VerifyMode::None, ..right() },
            DemoFindings { mismatches: 1, ..right() },
            DemoFindings { images_equal: false, ..right() },
            DemoFindings { payload_guest_memory: 1, ..right() },
            DemoFindings { payload_p2p: 199, ..right() },
            DemoFindings { payload_unclassified: 1, ..right() },
            DemoFindings { check: 7, ..right() },
            DemoFindings { recorder_complete: false, ..right() },
        ];
        for findings in wrong {
            assert_eq!(findings.problems().len(), 1, "{findings:?}");
        }
    }

    #[test]
    fn second_move_under_check_is_problem() {
        let honest = DemoFindings {
            image_bytes: 64 << 20,
            bytes: 64 << 20,
            payload_p2p: 128 << 20,
            check: 2_564_096,
            ..right()
        };
        assert_eq!(honest.problems(), Vec::<String>::new());
        for check in [64 << 20, 128 << 20] {
            let problems = DemoFindings { check, ..honest.clone() }.problems();
            assert!(
                problems.len() == 1 && problems[0].contains("more check bytes"),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn the_line_says_what_was_found() {
        let line = "route p2p, 100 bytes, verified, payload bytes in guest memory 0";
        assert_eq!(right().line(), line);
        let unequal = DemoFindings { images_equal: false, payload_guest_memory: 3, ..right() };
        let line = "route p2p, 100 bytes, NOT verified, payload bytes in guest memory 3";
        assert_eq!(unequal.line(), line);
    }
}
