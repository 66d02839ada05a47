//! Records as comma-separated values: a line for each run, or case of a comparison, in bytes and nanoseconds.
//!
//! Leaves out records without runs: plans and examinations. A text that a spreadsheet would take for a formula
//! gets an apostrophe in front.

use peerlane_results::{Comparison, CompletedCopy, Reference, RouteEvidence, VerifyRecord};

use crate::account::Named;
use crate::record::Record;

/// The columns.
const COLUMNS: [&str; 40] = [
    "record",
    "kind",
    "basis",
    "machine",
    "fabric",
    "kernel",
    "workload",
    "case",
    "repeat",
    "path",
    "source",
    "target",
    "flows",
    "block_bytes",
    "depth",
    "bytes",
    "elapsed_ns",
    "bytes_per_second",
    "p2p_bytes",
    "host_bytes",
    "block_p50_ns",
    "block_p99_ns",
    "read_p50_ns",
    "read_p99_ns",
    "write_p50_ns",
    "write_p99_ns",
    "cpu_user_ns",
    "cpu_system_ns",
    "cpu_workers_ns",
    "host_memory_bytes",
    "mismatches",
    "lowest_limit_bytes_per_second",
    "route_verdict",
    "evidence",
    "before_bytes_per_second",
    "ratio",
    "ratio_low",
    "ratio_high",
    "change",
    "node",
];

fn head() -> String {
    COLUMNS.join(",") + "\n"
}

/// Returns whether a file begins as this form does.
pub(crate) fn is_own(beginning: &str) -> bool {
    beginning.starts_with(&head())
}

/// The lines, and the names of records that have no run.
pub(crate) fn write(records: &[Named]) -> (String, Vec<String>) {
    let mut text = head();
    let mut left_out = Vec::new();
    for named in records {
        let before = text.len();
        match &named.record {
            Record::Bench(bench) => {
                for line in bench_lines(&named.name, bench) {
                    line.end(&mut text);
                }
            }
            Record::Copy(record) => {
                for copied in record.outcomes().filter_map(|(_, target)| target.copied.as_ref()) {
                    copy_line(&named.name, copied).end(&mut text);
                }
            }
            Record::Nodes(record) => nodes_lines(&named.name, record, &mut text),
            Record::Compare(record) => {
                for node in &record.nodes {
                    for mut line in
                        node.comparison.iter().flat_map(|one| compare_lines(&named.name, one))
                    {
                        line.text("node", node.node.as_deref().unwrap_or_default()).end(&mut text);
                    }
                }
            }
            Record::Verify(record) => verify_line(&named.name, record).end(&mut text),
            Record::Doctor(_) | Record::Plan(_) => {}
        }
        if text.len() == before {
            left_out.push(named.name.clone());
        }
    }
    (text, left_out)
}

/// A line in the making: values by column.
#[derive(Default)]
struct CsvLine(Vec<(&'static str, String)>);

impl CsvLine {
    fn text(&mut self, column: &'static str, value: &str) -> &mut Self {
        self.0.push((column, quoted(value)));
        self
    }

    fn number(&mut self, column: &'static str, value: impl Into<Option<u64>>) -> &mut Self {
        self.0.push((column, value.into().map_or(String::new(), |value| value.to_string())));
        self
    }

    fn real(&mut self, column: &'static str, value: Option<f64>, places: usize) -> &mut Self {
        let value = value.filter(|value| value.is_finite());
        self.0.push((column, value.map_or(String::new(), |value| format!("{value:.places$}"))));
        self
    }

    fn end(&self, text: &mut String) {
        let value = |column| {
            self.0.iter().find(|(known, _)| known == column).map_or("", |(_, value)| value)
        };
        *text += &COLUMNS.iter().map(value).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
}

/// Runs of all nodes; predictions were made by whichever node was idle, which says nothing of them.
fn nodes_lines(name: &str, record: &peerlane_results::NodesRecord, text: &mut String) {
    for node in &record.nodes {
        for mut line in node.bench.iter().flat_map(|bench| bench_lines(name, bench)) {
            line.text("node", &node.name).end(text);
        }
    }
    let variants = record.variants.iter().filter_map(|variant| variant.record.as_deref());
    for line in variants.flat_map(|bench| bench_lines(name, bench)) {
        line.end(text);
    }
}

fn bench_lines<'a>(
    name: &'a str,
    bench: &'a peerlane_results::BenchRecord,
) -> impl Iterator<Item = CsvLine> + 'a {
    bench.cases.iter().map(move |case| {
        let asked = &case.asked;
        let first = asked.flows.first();
        let mut line = CsvLine::default();
        line.text("record", name)
            .text("kind", &bench.asked.kind.to_string())
            .text("basis", crate::account::basis_word(bench.basis))
            .text("machine", &bench.machine.name)
            .text("fabric", &bench.machine.fabric)
            .text("kernel", bench.machine.kernel.as_deref().unwrap_or_default())
            .text("workload", &bench.asked.name)
            .text("case", &asked.name)
            .number("repeat", u64::from(case.repeat))
            .text("path", &first.map(|flow| flow.path.to_string()).unwrap_or_default())
            .text("source", first.map(|flow| flow.source.as_str()).unwrap_or_default())
            .text("target", first.map(|flow| flow.target.as_str()).unwrap_or_default())
            .number("flows", asked.flows.len() as u64)
            .number("block_bytes", first.map(|flow| flow.block.0))
            .number("depth", first.map(|flow| u64::from(flow.depth)))
            .number("bytes", case.bytes.0)
            .number("elapsed_ns", case.elapsed_ns.0)
            .number("bytes_per_second", case.rate().map(|rate| rate.0))
            .number("p2p_bytes", case.bytes_by_route.p2p.0)
            .number("host_bytes", case.bytes_by_route.host.0)
            .number("read_p50_ns", case.latency.read.p50_ns.0)
            .number("read_p99_ns", case.latency.read.p99_ns.0)
            .number("write_p50_ns", case.latency.write.p50_ns.0)
            .number("write_p99_ns", case.latency.write.p99_ns.0)
            .number("cpu_user_ns", case.cpu.user_ns.0)
            .number("cpu_system_ns", case.cpu.system_ns.0)
            .number("cpu_workers_ns", case.cpu.workers_ns.map(|nanos| nanos.0))
            .number("host_memory_bytes", case.host_memory.bytes.map(|bytes| bytes.0))
            .number("mismatches", case.verification.map(|check| check.mismatches))
            .number(
                "lowest_limit_bytes_per_second",
                case.limits.iter().map(|limit| limit.bytes_per_second.0).min(),
            )
            .text("route_verdict", &case.verdict.to_string())
            .text("evidence", &evidence(&case.evidence));
        // Of several flows there is no one latency of blocks.
        if let [flow] = case.flows.as_slice() {
            line.number("block_p50_ns", flow.block.p50_ns.0)
                .number("block_p99_ns", flow.block.p99_ns.0);
        }
        line
    })
}

fn copy_line(name: &str, record: &CompletedCopy) -> CsvLine {
    let mut line = CsvLine::default();
    line.text("record", name)
        .text("kind", "copy")
        .text("machine", &record.machine.name)
        .text("fabric", &record.machine.fabric)
        .text("kernel", record.machine.kernel.as_deref().unwrap_or_default())
        .text("path", &record.route.to_string())
        .text("source", &record.asked.source)
        .text("target", &record.asked.target)
        .number("flows", 1)
        .number("block_bytes", record.asked.block.0)
        .number("depth", u64::from(record.asked.depth))
        .number("bytes", record.content.data.0)
        .number("elapsed_ns", record.elapsed_ns.0)
        .number("bytes_per_second", record.rate().map(|rate| rate.0))
        .number("p2p_bytes", record.bytes_by_route.p2p.0)
        .number("host_bytes", record.bytes_by_route.host.0)
        .number("read_p50_ns", record.latency.read.p50_ns.0)
        .number("read_p99_ns", record.latency.read.p99_ns.0)
        .number("write_p50_ns", record.latency.write.p50_ns.0)
        .number("write_p99_ns", record.latency.write.p99_ns.0)
        .number("cpu_user_ns", record.cpu.user_ns.0)
        .number("cpu_system_ns", record.cpu.system_ns.0)
        .number("host_memory_bytes", record.host_memory.bytes.map(|bytes| bytes.0))
        .number("mismatches", record.verification.mismatches)
        .number(
            "lowest_limit_bytes_per_second",
            record.limits.iter().map(|limit| limit.bytes_per_second.0).min(),
        )
        .text("route_verdict", &record.verdict.to_string())
        .text("evidence", &evidence(&record.evidence));
    line
}

fn compare_lines<'a>(name: &'a str, record: &'a Comparison) -> impl Iterator<Item = CsvLine> + 'a {
    record.cases.iter().map(move |case| {
        let mut line = CsvLine::default();
        let [before, after] = case.rates();
        line.text("record", name)
            .text("kind", "compare")
            .text("basis", crate::account::basis_word(record.after.basis))
            .text("machine", &record.after.machine.name)
            .text("fabric", &record.after.machine.fabric)
            .text("kernel", record.after.machine.kernel.as_deref().unwrap_or_default())
            .text("workload", &record.after.name)
            .text("case", &case.case)
            .real("bytes_per_second", after, 0)
            .real("before_bytes_per_second", before, 0)
            .real("ratio", case.ratio, 6)
            .real("ratio_low", case.interval.map(|interval| interval.0), 6)
            .real("ratio_high", case.interval.map(|interval| interval.1), 6)
            .text("change", &case.verdict.to_string());
        line
    })
}

fn verify_line(name: &str, record: &VerifyRecord) -> CsvLine {
    let content = match &record.against {
        Reference::Source(source) => &source.end.path,
        Reference::Manifest(manifest) => &manifest.path,
    };
    let mut line = CsvLine::default();
    line.text("record", name)
        .text("kind", "verify")
        .text("machine", &record.machine.name)
        .text("fabric", &record.machine.fabric)
        .text("kernel", record.machine.kernel.as_deref().unwrap_or_default())
        .text("source", content)
        .text("target", &record.target.path)
        .number("bytes", record.bytes.0)
        .number("elapsed_ns", record.elapsed_ns.0)
        .number("bytes_per_second", record.rate().map(|rate| rate.0))
        .number("mismatches", record.mismatches);
    line
}

fn evidence(all: &[RouteEvidence]) -> String {
    let line = |RouteEvidence { evidence, .. }: &RouteEvidence| {
        format!("{}: {}", evidence.looked_at, evidence.showed)
    };
    let lines: Vec<String> = all.iter().map(line).collect();
    lines.join("; ")
}

/// A text as one value (RFC 4180), no formula, in one line.
fn quoted(text: &str) -> String {
    let text = crate::plain::plain(text);
    let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    if text.contains([',', '"']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_and_are_no_formulas() {
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\\u{a}\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("plain"), "plain");
    }
}
