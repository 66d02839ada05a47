//! Two runs on the nodes of a cluster, compared node by node: a node is matched by its name.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_results::{CompareRecord, NodeComparison, NodeRecord, NodesRecord, WhichRun};

use super::compare;

/// Compares `after` with `before` on every node of either, as [`compare`] does for one; `threshold` as there.
///
/// A node that is in one of them only, was lost or failed is in the result with the reason.
pub fn compare_nodes(before: &NodesRecord, after: &NodesRecord, threshold: f64) -> CompareRecord {
    let (old, new) = (by_name(before), by_name(after));
    let mut seen = BTreeSet::new();
    let names = before.nodes.iter().chain(&after.nodes).map(|node| node.name.as_str());
    let nodes: Vec<NodeComparison> = names
        .filter(|name| seen.insert(*name))
        .map(|name| node(name, old.get(name).copied(), new.get(name).copied(), threshold))
        .collect();
    CompareRecord::new(nodes)
}

fn by_name(record: &NodesRecord) -> BTreeMap<&str, &NodeRecord> {
    record.nodes.iter().map(|node| (node.name.as_str(), node)).collect()
}

fn node(
    name: &str,
    before: Option<&NodeRecord>,
    after: Option<&NodeRecord>,
    threshold: f64,
) -> NodeComparison {
    let runs = [(WhichRun::Before, before), (WhichRun::After, after)];
    let reasons: Vec<String> =
        runs.into_iter().filter_map(|(run, node)| without_bench(run, node)).collect();
    let records = before.and_then(|node| node.bench.as_deref()).zip(bench(after));
    let comparison = records.map(|(before, after)| compare(before, after, threshold));
    NodeComparison { node: Some(name.to_owned()), comparison, reasons }
}

fn bench(node: Option<&NodeRecord>) -> Option<&peerlane_results::BenchRecord> {
    node.and_then(|node| node.bench.as_deref())
}

/// The reason why a run has no benchmark of a node; `None` where it has one.
fn without_bench(run: WhichRun, node: Option<&NodeRecord>) -> Option<String> {
    let Some(node) = node else { return Some(format!("not in the run {run}")) };
    if node.bench.is_some() {
        return None;
    }
    let why = match (&node.missing, &node.error) {
        (Some(missing), _) => format!("missing: {missing}"),
        (None, Some(error)) => error.causes.join(": "),
        (None, None) => "it has no benchmark".to_owned(),
    };
    Some(format!("in the run {run}: {why}"))
}

#[cfg(test)]
mod tests {
    use peerlane_results::Change;

    use super::*;
    use crate::testing::{node, nodes, record};

    fn run(rate: f64) -> peerlane_results::BenchRecord {
        let rates = (0..20).map(|turn| rate * (1.0 + 0.001 * f64::from(turn % 5))).collect();
        record(&[("1M", rates)])
    }

    #[test]
    fn slower_node_alone_regresses() {
        let before = nodes(vec![node("one", Some(run(1e9))), node("two", Some(run(1e9)))]);
        let after = nodes(vec![node("two", Some(run(0.8e9))), node("one", Some(run(1.0001e9)))]);
        let found = compare_nodes(&before, &after, 0.05);
        assert!(found.has_regressed);
        let verdicts: Vec<(Option<&str>, Change)> = found
            .nodes
            .iter()
            .map(|node| (node.node.as_deref(), node.comparison.as_ref().unwrap().cases[0].verdict))
            .collect();
        assert_eq!(verdicts, [(Some("one"), Change::Same), (Some("two"), Change::Slower)]);
    }

    #[test]
    fn absent_and_lost_nodes_are_named() {
        let lost = NodeRecord { missing: Some("gone".to_owned()), ..node("two", None) };
        let before = nodes(vec![node("one", Some(run(1e9))), node("two", Some(run(1e9)))]);
        let after = nodes(vec![lost, node("three", Some(run(1e9)))]);
        let found = compare_nodes(&before, &after, 0.05);
        assert!(!found.has_regressed);
        let reasons: Vec<(Option<&str>, &str)> =
            found.nodes.iter().map(|node| (node.node.as_deref(), &*node.reasons[0])).collect();
        assert_eq!(
            reasons,
            [
                (Some("one"), "not in the run after"),
                (Some("two"), "in the run after: missing: gone"),
                (Some("three"), "not in the run before"),
            ]
        );
        assert!(found.nodes.iter().all(|node| node.comparison.is_none()));
    }
}
