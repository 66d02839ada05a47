//! Several targets, and several copies, in words.

use peerlane_results::{
    BatchPlan, BatchRecord, CopyRecord, FanOutPlan, FanOutRecord, JobOutcome, Plan, TargetOutcome,
    Warning,
};

use super::LabelSheet;

/// Each complete target of a copy, then the outcome of all targets in short.
pub(crate) fn fan_out(record: &FanOutRecord, is_verbose: bool) -> String {
    let mut sheet = LabelSheet::default();
    let complete: Vec<&CopyRecord> =
        record.targets.iter().filter_map(|target| target.record.as_ref()).collect();
    for one in &complete {
        sheet.block(&super::copy(one, is_verbose));
    }
    sheet.line(format_args!(
        "{} of {} targets complete, {} bytes of payload read once",
        complete.len(),
        record.targets.len(),
        record.read.0
    ));
    for target in &record.targets {
        sheet.line(format_args!("  {}: {}", target.target, short(target)));
    }
    sheet.0
}

/// The plan for each target with its verdict, and the parts common to several.
pub(crate) fn fan_out_plan(plan: &FanOutPlan, verdict: &dyn Fn(&Plan) -> String) -> String {
    if let [one] = plan.targets.as_slice() {
        return super::plan(one, &verdict(one), &[]);
    }
    let mut sheet = LabelSheet::default();
    for one in &plan.targets {
        sheet.block(&super::plan(one, &verdict(one), &[]));
    }
    let count = plan.targets.len();
    sheet.line(match plan.route {
        None => format!("{count} targets: not possible: {}", plan.reason),
        Some(route) => {
            let memory = plan.memory.as_ref().map_or("host", |memory| memory.name.as_str());
            format!("{count} targets: route {route} through {memory} for all, read once")
        }
    });
    sheet.0
}

/// The plans of several copies, one after the other.
pub(crate) fn batch_plan(batch: &BatchPlan, verdict: &dyn Fn(&Plan) -> String) -> String {
    let mut sheet = LabelSheet::default();
    for (number, plan) in batch.jobs.iter().enumerate() {
        sheet.line(format_args!("copy {}", number + 1));
        sheet.block(&fan_out_plan(plan, verdict));
    }
    sheet.line(format_args!("{} copies planned", batch.jobs.len()));
    sheet.0
}

/// One line a copy.
pub(crate) fn batch(record: &BatchRecord) -> String {
    let mut sheet = LabelSheet::default();
    for (number, job) in record.jobs.iter().enumerate() {
        sheet.line(format_args!("{}: {}", number + 1, line(job)));
    }
    sheet.0
}

fn line(job: &JobOutcome) -> String {
    let targets: Vec<String> =
        job.targets.iter().map(|one| format!("{}: {}", one.target, short(one))).collect();
    format!("{} to {}", job.source, targets.join("; "))
}

fn short(target: &TargetOutcome) -> String {
    let Some(record) = &target.record else {
        let errors = target.failure.as_ref().map(|failure| failure.errors.as_slice());
        // The first says that this target was not copied to, which the line says already.
        let why = errors.unwrap_or_default().iter().skip(1).cloned().collect::<Vec<_>>().join(": ");
        return format!("not complete: {why}");
    };
    let falls_back = record.warnings.iter().any(Warning::is_fall_back);
    let sign = if falls_back { " (fell back)" } else { "" };
    format!("{}{sign}", super::copy::short(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_its_lines() {
        let text = include_str!("../../../../fixtures/results/samples/fan-out.json");
        let record: FanOutRecord = serde_json::from_str(text).expect("a record");
        let shown = fan_out(&record, true);
        let complete = record.targets.iter().filter(|target| target.record.is_some()).count();
        let sources = shown.lines().filter(|line| line.starts_with("  source  ")).count();
        assert!(complete > 0 && sources == complete, "{shown}");
        assert!(!shown.contains("\\n"), "{shown}");
    }
}
