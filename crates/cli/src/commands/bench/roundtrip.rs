//! `peerlane bench roundtrip`: its source, and the drives that it may write.

use peerlane_bench::workload::Brief;
use peerlane_results::FlowStage;

use crate::args::RoundtripArgs;
use crate::printer::Printer;

/// Workload of the command line: one drive for both directions, or a source and, as the target of
/// the way back, something that may be written.
pub(super) fn brief(args: &RoundtripArgs, scratch: &[String], shared: Brief) -> Brief {
    let brief = Brief {
        via: args.via.clone(),
        stage: args.stage.as_ref().map(|name| FlowStage::new(name.to_string())),
        ..shared
    };
    let Some(source) = &args.source else {
        return Brief { drives: args.drive.iter().cloned().collect(), ..brief };
    };
    // A source that may be written is filled; it is what is written, too, unless something else is named.
    let others: Vec<String> = scratch.iter().filter(|one| *one != source).cloned().collect();
    let drives = if others.is_empty() { scratch.to_vec() } else { others };
    let target = args.target.iter().cloned().collect();
    Brief { source: vec![source.clone()], target, drives, ..brief }
}

/// Notes that the way out of memory is not measured.
pub(super) fn tell(brief: &Brief, printer: Printer) {
    if let ([_], [memory], []) = (&*brief.source, &*brief.target, &*brief.drives) {
        printer.note(&format!(
            "reading out of {memory} is not measured, since nothing may be written: `--scratch FILE` names \
             a new file or a drive for it"
        ));
    }
}
