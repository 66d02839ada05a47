//! A plan in words.

use peerlane_results::{Candidate, EndpointKind, Plan, Probe, ProbeAnswer, Refusal, Warning};
use peerlane_units::Bytes;

use super::LabelSheet;

/// The answer, then the plan and its candidates with their reasons, then the probes.
pub(crate) fn plan(plan: &Plan, verdict: &str, probes: &[Probe]) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(verdict);
    sheet.line("");
    let length = plan.shape.as_ref().map(|shape| shape.length).or(plan.asked.length);
    sheet.line(format_args!(
        "plan: {} {}{} to {}",
        if [&plan.source, &plan.target].iter().any(|end| end.kind == EndpointKind::Gpu) {
            "move"
        } else {
            "copy"
        },
        length.map(|length| format!("{length} from ")).unwrap_or_default(),
        plan.asked.source,
        plan.asked.target
    ));
    endpoints(&mut sheet, plan);
    sheet.row("options", options(plan));
    if let Some(shape) = &plan.shape {
        sheet.row("requests", super::shape(shape));
        if let Some(tail) = super::tail(shape.tail, plan.route) {
            sheet.row("tail", tail);
        }
        if let (false, Some(memory)) = (plan.asked.stages.is_empty(), &plan.memory) {
            let (stages, chunk) = (plan.asked.stages.join(", "), shape.request);
            sheet.row("stages", format_args!("{stages} in {}, on chunks of {chunk}", memory.name));
        }
    }
    sheet.row("verify", plan.asked.verify);
    if !plan.way.is_empty() {
        sheet.row("path", plan.way.join(" -> "));
    }
    sheet.limits(&plan.limits);
    unmeasured(&mut sheet, plan);
    candidates(&mut sheet, plan, probes);
    refusals(&mut sheet, &plan.refusals);
    // The answer says that it falls back, and nothing was copied yet.
    let is_shown = |warning: &&Warning| !warning.is_fall_back();
    if plan.warnings.iter().any(|warning| is_shown(&warning)) {
        sheet.line("");
    }
    sheet.warnings(plan.warnings.iter().filter(is_shown));
    sheet.0
}

/// A drive is mostly slower than its link: a list of links alone would promise too much.
fn unmeasured(sheet: &mut LabelSheet, plan: &Plan) {
    if plan.unmeasured.is_empty() {
        return;
    }
    let word = if plan.unmeasured.len() == 1 { "drive" } else { "drives" };
    let text = format!(
        "{word} {}: unknown, measure with `peerlane bench stream`",
        plan.unmeasured.join(", ")
    );
    if plan.limits.is_empty() { sheet.row("limits", text) } else { sheet.more(text) }
}

fn endpoints(sheet: &mut LabelSheet, plan: &Plan) {
    for (label, facts) in [("source", &plan.source), ("target", &plan.target)] {
        sheet.row(label, super::endpoint(facts));
        if let Some(refusal) = &facts.refusal {
            sheet.more(format_args!("no peer-to-peer: {refusal}"));
            if let Some(way_out) = &facts.way_out {
                sheet.more(format_args!("hint: {way_out}"));
            }
        }
    }
}

fn options(plan: &Plan) -> String {
    let asked = &plan.asked;
    let mut text = format!("route {}", asked.route);
    if let Some(via) = &asked.via {
        text.push_str(&format!(" via {via}"));
    }
    text.push_str(&format!(", blocks of {}, queue depth {}", asked.block, asked.depth));
    if asked.offset != Bytes::ZERO || asked.target_offset != Bytes::ZERO {
        text.push_str(&format!(", from offset {} to {}", asked.offset, asked.target_offset));
    }
    text
}

fn candidates(sheet: &mut LabelSheet, plan: &Plan, probes: &[Probe]) {
    let candidates = plan.candidates.as_slice();
    let is_with_gpu = [&plan.source, &plan.target].iter().any(|end| end.kind == EndpointKind::Gpu);
    sheet.line("");
    if candidates.is_empty() {
        sheet.line("memories considered: none; no device of this machine offers memory to peers");
        return;
    }
    let what = if is_with_gpu { "paths" } else { "memories" };
    sheet.line(format_args!("{what} considered, best first:"));
    for candidate in candidates {
        let distance = candidate.distance.map(|hops| format!(", {hops} hops")).unwrap_or_default();
        sheet.line(format_args!("  {}{distance}", super::memory(&candidate.memory)));
        if is_with_gpu {
            let state = state(candidate, probes);
            let source = candidate.source;
            match source.turning_point() {
                _ if source.is_open() => sheet.line(format_args!("    {state}")),
                turn => sheet.line(format_args!("    {state}; the kernel's decision: {turn}")),
            }
        } else {
            sheet.line(format_args!(
                "    source writes into it: {}",
                candidate.source.turning_point()
            ));
            sheet.line(format_args!(
                "    target reads out of it: {}",
                candidate.target.turning_point()
            ));
        }
        for fact in &candidate.facts {
            sheet.line(format_args!("    - {fact}"));
        }
        for refusal in &candidate.refusals {
            sheet.line(format_args!("    refused: {}", without(refusal, &candidate.facts)));
        }
    }
}

/// The state of a path to a GPU. A library that was not asked may refuse a path without known
/// obstacles.
fn state(candidate: &Candidate, probes: &[Probe]) -> &'static str {
    let mut own = probes.iter().filter(|probe| probe.memory == candidate.memory.name);
    if candidate.refusals.iter().any(|one| !one.is_empty()) {
        "blocked"
    } else if own.any(|probe| matches!(probe.answer, ProbeAnswer::Registered { .. })) {
        "available"
    } else if probes.is_empty() {
        "no obstacle known; the library was not asked: `--probe` asks it"
    } else {
        "no obstacle known; the library was not asked"
    }
}

fn refusals(sheet: &mut LabelSheet, refusals: &[Refusal]) {
    if refusals.is_empty() {
        return;
    }
    sheet.line("");
    sheet.line("blocked by:");
    for refusal in refusals {
        let force = if refusal.forceable { " (--force overrides)" } else { "" };
        sheet.line(format_args!("  {}{force}", refusal.reason));
        if let Some(hint) = &refusal.hint {
            sheet.line(format_args!("    hint: {hint}"));
        }
    }
}

/// A reason without the facts that are listed on lines of their own, and without the marks that
/// join them to it.
fn without<'a>(reason: &str, facts: impl IntoIterator<Item = &'a String>) -> String {
    let mut short = reason.to_owned();
    for fact in facts {
        for joined in [format!("; {fact}"), format!("{fact}; "), format!(": {fact}"), fact.clone()]
        {
            short = short.replace(&joined, "");
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_facts_are_not_repeated() {
        let facts = ["x is far".to_owned(), "y is old".to_owned()];
        assert_eq!(without("a: refused: x is far; y is old", &facts), "a: refused");
        assert_eq!(without("refused: y is old; x is far: move x", &facts), "refused: move x");
        assert_eq!(without("refused: z; y is old: move z", &facts), "refused: z: move z");
        assert_eq!(without("refused: y is old; z: move z", &facts), "refused: z: move z");
        assert_eq!(without("no memory", &facts), "no memory");
    }
}
