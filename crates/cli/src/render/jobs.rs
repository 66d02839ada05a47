//! Copies and plans of all jobs and targets in words.

use peerlane_results::{
    CompletedCopy, CopyRecord, EndpointKind, JobOutcome, JobPlan, PairRecord, PlanRecord,
    TargetOutcome, TargetPlan, Warning,
};

use super::LabelSheet;

/// Copies in words: those of one source in full, with the outcome of several targets in short; of several
/// sources one line each.
pub(crate) fn copies(record: &CopyRecord, is_verbose: bool) -> String {
    let mut sheet = LabelSheet::default();
    let [job] = record.jobs.as_slice() else {
        for (number, job) in record.jobs.iter().enumerate() {
            sheet.line(format_args!("{}: {}", number + 1, line(job)));
        }
        return sheet.0;
    };
    if let Some(only) = record.only() {
        return super::copy(only, is_verbose);
    }
    let complete: Vec<&CompletedCopy> =
        job.targets.iter().filter_map(|target| target.copied.as_ref()).collect();
    for one in &complete {
        sheet.block(&super::copy(one, is_verbose));
    }
    sheet.line(format_args!(
        "{} of {} targets complete, {} bytes of payload read once",
        complete.len(),
        job.targets.len(),
        job.read.0
    ));
    for target in &job.targets {
        sheet.line(format_args!("  {}: {}", target.target, short(target)));
    }
    sheet.0
}

/// Plans in words, one after the other, with what several targets have in common.
pub(crate) fn plans(record: &PlanRecord) -> String {
    let [job] = record.jobs.as_slice() else {
        let mut sheet = LabelSheet::default();
        for (number, job) in record.jobs.iter().enumerate() {
            sheet.line(format_args!("copy {}", number + 1));
            sheet.block(&planned_job(job));
        }
        sheet.line(format_args!("{} copies planned", record.jobs.len()));
        return sheet.0;
    };
    planned_job(job)
}

fn planned_job(job: &JobPlan) -> String {
    if let [one] = job.targets.as_slice() {
        return planned_target(one);
    }
    let mut sheet = LabelSheet::default();
    for one in &job.targets {
        sheet.block(&planned_target(one));
    }
    let count = job.targets.len();
    let common = job.targets.iter().find_map(|one| one.plan.as_ref());
    sheet.line(match common.map(|plan| (plan.route, plan)) {
        Some((Some(route), plan)) => {
            let memory = plan.memory.as_ref().map_or("host", |memory| memory.name.as_str());
            format!("{count} targets: route {route} through {memory} for all, read once")
        }
        Some((None, plan)) => format!("{count} targets: not possible: {}", plan.reason),
        None => format!("{count} targets: no copy"),
    });
    sheet.0
}

/// The plan of a copy, the pair, the steps of the decision and the answers to probes, as far as they are there.
fn planned_target(target: &TargetPlan) -> String {
    let probes = target.probes.as_deref().unwrap_or_default();
    let mut text = String::new();
    if let Some(plan) = &target.plan {
        text += &super::plan(plan, &target.verdict, probes);
    }
    if let Some(pair) = target.pair.as_ref().filter(|pair| is_pair_shown(target, pair)) {
        if target.plan.is_some() {
            text.push('\n');
        }
        let headline = target.plan.is_none().then_some(target.verdict.as_str());
        text += &super::pair(pair, headline, target.no_plan.as_deref());
    }
    if let Some((proof, pair)) = target.proof.as_ref().zip(target.pair.as_ref()) {
        text += &super::proof(proof, [&pair.first.name, &pair.second.name]);
    }
    text += &super::explanation(target.explanation.as_deref().unwrap_or_default());
    text + &super::probes(probes)
}

/// The plan of a copy between drives says all of its pair that matters; other pairs are shown.
fn is_pair_shown(target: &TargetPlan, pair: &PairRecord) -> bool {
    let has_gpu = target.plan.as_ref().is_some_and(|plan| {
        [&plan.source, &plan.target].iter().any(|end| end.kind == EndpointKind::Gpu)
    });
    target.plan.is_none() || has_gpu || pair.guest.is_some()
}

fn line(job: &JobOutcome) -> String {
    let targets: Vec<String> =
        job.targets.iter().map(|one| format!("{}: {}", one.target, short(one))).collect();
    format!("{} to {}", job.source, targets.join("; "))
}

fn short(target: &TargetOutcome) -> String {
    let Some(copied) = &target.copied else {
        let errors = target.failure.as_ref().map(|failure| failure.errors.as_slice());
        // The first says that this target was not copied to, which the line says already.
        let why = errors.unwrap_or_default().iter().skip(1).cloned().collect::<Vec<_>>().join(": ");
        return format!("not complete: {why}");
    };
    let falls_back = copied.warnings.iter().any(Warning::is_fall_back);
    let sign = if falls_back { " (fell back)" } else { "" };
    format!("{}{sign}", super::copy::short(copied))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_its_lines() {
        let text = include_str!("../../../../fixtures/results/fan-out.json");
        let record: CopyRecord = serde_json::from_str(text).expect("a record");
        let shown = copies(&record, true);
        let complete = record.outcomes().filter(|(_, target)| target.copied.is_some()).count();
        let sources = shown.lines().filter(|line| line.starts_with("  source  ")).count();
        assert!(complete > 0 && sources == complete, "{shown}");
        assert!(!shown.contains("\\n"), "{shown}");
    }
}
