//! Two records of several nodes, compared node by node.

use std::path::Path;

use peerlane_bench::{compare::compare_nodes, record};
use peerlane_results::{Change, CompareRecord, Incomparable, NODES_SCHEMA, NodesRecord, WhichRun};
use serde::Deserialize;

use super::keep::RECORD_MAX;
use crate::args::CompareArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{render, small_file};

/// Compares two records of nodes; `None` where the first of them is none.
///
/// # Errors
/// When a record cannot be read or be true, or only one of them is of several nodes.
pub(super) fn run(args: &CompareArgs, printer: Printer) -> Result<Option<Exit>, Failure> {
    let Some(before) = read(&args.before)? else { return Ok(None) };
    if !args.more.is_empty() {
        let hint = "give two: `peerlane bench compare BEFORE AFTER`".to_owned();
        return Err(Failure::new("records of several nodes are not compared in turns").hint(hint));
    }
    let Some(after) = read(&args.after)? else {
        let what = format!("{} is of one machine, not of several nodes", args.after.display());
        let hint = "compare what `peerlane.ray.bench` returned both times".to_owned();
        return Err(Failure::new(what).hint(hint));
    };
    let found = compare_nodes(&before, &after, f64::from(args.threshold) / 1000.0);
    if printer.is_json() {
        printer.object(&found)?;
    } else {
        printer.text(&render::comparison(&found))?;
    }
    warn(&found, printer);
    let is_negative = found.has_regressed || !is_whole(&found);
    Ok(Some(if is_negative { Exit::Negative } else { Exit::Done }))
}

/// The record of several nodes in a file; `None` where it holds another kind, or cannot be read as any.
fn read(file: &Path) -> Result<Option<NodesRecord>, Failure> {
    #[derive(Deserialize)]
    struct NodesHead {
        schema: String,
    }
    let tried = || format!("read the record {}", file.display());
    let text = small_file::read(file, RECORD_MAX).map_err(Tried::to_read(tried(), file))?;
    match serde_json::from_str::<NodesHead>(&text) {
        Ok(head) if head.schema == NODES_SCHEMA => {}
        _ => return Ok(None),
    }
    let mut record: NodesRecord = serde_json::from_str(&text).map_err(Tried::to(tried()))?;
    record::check_nodes(&mut record).map_err(Tried::to(tried()))?;
    Ok(Some(record))
}

/// Returns whether every node was compared, and no case is missing after.
fn is_whole(found: &CompareRecord) -> bool {
    let missing = Incomparable::Missing { run: WhichRun::After };
    !found.nodes.is_empty()
        && found.nodes.iter().all(|node| {
            node.comparison.as_ref().is_some_and(|one| {
                one.cases.iter().any(|case| case.verdict != Change::NotComparable)
                    && !one.cases.iter().any(|case| case.reasons.contains(&missing))
            })
        })
}

fn warn(found: &CompareRecord, printer: Printer) {
    for node in &found.nodes {
        if node.comparison.is_none() {
            let reasons = node.reasons.join("; ");
            let name = node.node.as_deref().unwrap_or_default();
            printer.warning(&format!("node {name} was not compared: {reasons}"));
        }
    }
    if found.nodes.iter().all(|node| node.comparison.is_none()) {
        printer.warning("nothing could be compared");
    }
}
