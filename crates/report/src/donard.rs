//! Donard's two tables out of a record: the routes to a GPU, their rates, and page faults as a
//! ratio to the direct route.
//!
//! Leaves out the worth of a ratio: page faults are the kernel's count of pages that came into a
//! process, about one for each window that it maps at once, and no count of memory traffic. The
//! bytes that a counter of memory counted, if there is one, stand next to it.

use peerlane_fabric::ProviderKind;
use peerlane_results::{BenchRecord, CaseSpec, Flow, Path, Summary};
use peerlane_units::Bytes;

/// One of the tables: into a GPU or out of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DonardTable {
    /// Source of payload, as typed.
    pub(crate) source: String,
    /// Target of payload, as typed.
    pub(crate) target: String,
    /// Bytes of a block.
    pub(crate) block: Bytes,
    /// A row for each way.
    pub(crate) rows: Vec<DonardRow>,
}

/// One way between the ends of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DonardRow {
    /// The way.
    pub(crate) path: Path,
    /// True for the path that Donard called classical.
    pub(crate) is_classical: bool,
    /// Mean rate in bytes a second.
    pub(crate) rate: f64,
    /// Mean count of page faults of a run; `None` where they could not be read.
    pub(crate) faults: Option<f64>,
    /// The same over that of the direct way; `None` where that was not measured, or had none.
    pub(crate) ratio: Option<f64>,
    /// Bytes of host memory moved for each byte of payload; `None` without a counter.
    pub(crate) host_bytes_per_byte: Option<f64>,
}

/// The tables of a record with a GPU and a classical way; none of any other.
pub(crate) fn tables(record: &BenchRecord) -> Vec<DonardTable> {
    let mut tables: Vec<DonardTable> = Vec::new();
    for case in &record.asked.cases {
        let Some((flow, row)) = row(record, case) else { continue };
        let is_it = |table: &&mut DonardTable| {
            (&table.source, &table.target, table.block) == (&flow.source, &flow.target, flow.block)
        };
        match tables.iter_mut().find(is_it) {
            Some(table) => table.rows.push(row),
            None => tables.push(DonardTable {
                source: flow.source.clone(),
                target: flow.target.clone(),
                block: flow.block,
                rows: vec![row],
            }),
        }
    }
    tables.retain(|table| table.rows.iter().any(|row| row.is_classical));
    for table in &mut tables {
        let direct = table.rows.iter().find(|row| row.path == Path::P2p);
        let direct = direct.and_then(|row| row.faults).filter(|faults| *faults > 0.0);
        for row in &mut table.rows {
            row.ratio = row.faults.zip(direct).map(|(faults, direct)| faults / direct);
        }
    }
    tables
}

fn row<'a>(record: &BenchRecord, case: &'a CaseSpec) -> Option<(&'a Flow, DonardRow)> {
    let [flow] = case.flows.as_slice() else { return None };
    let (from_gpu, to_gpu) = (is_gpu(&flow.source), is_gpu(&flow.target));
    if from_gpu == to_gpu {
        return None;
    }
    let summary: &Summary = record.summaries.iter().find(|one| one.case == case.name)?;
    let runs = record.cases.iter().filter(|run| run.asked.name == case.name);
    let faults: Option<Vec<f64>> = runs
        .map(|run| run.page_faults)
        .map(|faults| faults.map(|faults| faults.minor as f64 + faults.major as f64))
        .collect();
    let faults = faults.filter(|all| !all.is_empty());
    let is_classical =
        matches!((flow.path, to_gpu), (Path::HostMapped, true) | (Path::HostPageCache, false));
    let row = DonardRow {
        path: flow.path,
        is_classical,
        rate: summary.rate.mean,
        faults: faults.map(|all| all.iter().sum::<f64>() / all.len() as f64),
        ratio: None,
        host_bytes_per_byte: summary.host_bytes_per_byte,
    };
    Some((flow, row))
}

fn is_gpu(typed: &str) -> bool {
    ProviderKind::split(typed).is_some_and(|(kind, _)| kind == ProviderKind::Gpu)
}

#[cfg(test)]
mod tests {
    use peerlane_results::PageFaults;

    use super::*;

    /// One run of each way: ends, path, and page faults.
    fn ran(ways: &[(&str, &str, Path, u64)]) -> BenchRecord {
        let text = include_str!("../../../fixtures/results/bench-sweep.json");
        let sample: BenchRecord = serde_json::from_str(text).unwrap();
        let mut record = sample.clone();
        (record.asked.cases, record.cases, record.summaries) = Default::default();
        for (index, (source, target, path, faults)) in ways.iter().enumerate() {
            let mut run = sample.cases[0].clone();
            run.asked.name = format!("case {index}");
            run.asked.flows.truncate(1);
            let flow = &mut run.asked.flows[0];
            (flow.source, flow.target) = ((*source).to_owned(), (*target).to_owned());
            flow.path = *path;
            run.page_faults = Some(PageFaults { minor: *faults, major: 1 });
            let case = run.asked.name.clone();
            record.asked.cases.push(run.asked.clone());
            record.cases.push(run);
            record.summaries.push(Summary { case, ..sample.summaries[0].clone() });
        }
        record
    }

    #[test]
    fn faults_are_relative_to_direct_path() {
        let record = ran(&[
            ("file", "gpu:0", Path::P2p, 1),
            ("file", "gpu:0", Path::HostMapped, 99),
            ("gpu:0", "file", Path::P2p, 0),
            ("gpu:0", "file", Path::HostPageCache, 59),
            ("file", "host", Path::HostPipelined, 7),
        ]);
        let tables = tables(&record);
        let ratios = |index: usize| -> Vec<_> {
            let rows = tables[index].rows.iter();
            rows.map(|row| (row.path, row.is_classical, row.faults, row.ratio)).collect()
        };
        assert_eq!(tables.len(), 2);
        assert_eq!(
            ratios(0),
            [
                (Path::P2p, false, Some(2.0), Some(1.0)),
                (Path::HostMapped, true, Some(100.0), Some(50.0)),
            ]
        );
        assert_eq!(
            ratios(1),
            [
                (Path::P2p, false, Some(1.0), Some(1.0)),
                (Path::HostPageCache, true, Some(60.0), Some(60.0)),
            ]
        );
    }

    #[test]
    fn missing_paths_leave_out_ratio_and_table() {
        let alone = ran(&[("file", "gpu:0", Path::HostMapped, 9)]);
        assert_eq!(tables(&alone)[0].rows[0].ratio, None);
        let others = ran(&[
            ("file", "gpu:0", Path::P2p, 9),
            ("file", "gpu:0", Path::HostPageCache, 9),
            ("file", "target", Path::HostMapped, 9),
        ]);
        assert_eq!(tables(&others), []);
    }
}
