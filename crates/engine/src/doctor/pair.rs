//! Two ends: what their plan says stands in the way, and what a probe answered.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::kernel_refusal;
use peerlane_results::{
    Candidate, Cost, DoctorRecord, EndpointFacts, EndpointKind, Finding, FindingKind, Fix,
    MemoryKind, Needs, Plan, Probe, ProbeAnswer, Route,
};

use super::{
    Chart, accelerator, asked_here, at, drive, finished, iommu, kernel, link, memory, route, saw,
};
use crate::endpoint::lender;
use crate::plan::initiator;

/// Examines what lies between the ends of a plan; `probes` may be empty.
pub fn examine_pair(fabric: &Fabric, plan: &Plan, probes: &[Probe]) -> DoctorRecord {
    let ends = [&plan.source, &plan.target];
    if ends.iter().any(|end| end.kind == EndpointKind::Gpu) {
        return with_gpu(fabric, plan);
    }
    let initiators: Vec<FunctionId> =
        ends.iter().filter_map(|end| initiator(fabric, end)).collect();
    let mut chart = Chart::default();
    memory::examine(fabric, &asked_here(fabric), &mut chart);
    kernel::examine(fabric, &mut chart);
    iommu::examine(fabric, &mut chart);
    for end in ends {
        chart.findings.extend(refuses(fabric, end));
    }
    route::examine(fabric, &initiators, &mut chart);
    let mut distinct = initiators.clone();
    distinct.sort_unstable();
    distinct.dedup();
    drive::speed(fabric, &distinct, &mut chart);
    let lenders = super::lenders(fabric);
    let ways: Vec<FunctionId> = initiators.iter().chain(&lenders).copied().collect();
    link::examine(fabric, &ways, &mut chart);
    let final_refusals = plan.refusals.iter().filter(|refusal| !refusal.forceable);
    chart.findings.extend(final_refusals.map(|refusal| Finding {
        kind: FindingKind::CopyRefused,
        cost: Cost::Routes,
        object: format!("{} to {}", plan.asked.source, plan.asked.target),
        what: refusal.reason.clone(),
        evidence: Vec::new(),
        fix: refusal.hint.as_ref().map(|hint| Fix {
            what: hint.clone(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Nothing,
        }),
    }));
    chart.findings.extend(probes.iter().filter_map(|probe| stale(fabric, probe)));
    let pair = [plan.asked.source.clone(), plan.asked.target.clone()];
    DoctorRecord { pair: Some(pair), verdict: verdict(plan), ..finished(fabric, chart) }
}

/// A drive and a GPU: what stands against each direct way is a finding, with what to do in its words.
fn with_gpu(fabric: &Fabric, plan: &Plan) -> DoctorRecord {
    let ends = [&plan.source, &plan.target];
    let functions: Vec<FunctionId> = ends.iter().filter_map(|end| initiator(fabric, end)).collect();
    let mut chart = Chart::default();
    kernel::examine(fabric, &mut chart);
    iommu::examine(fabric, &mut chart);
    accelerator::examine(fabric, &mut chart);
    link::examine(fabric, &functions, &mut chart);
    let is_direct = |one: &&Candidate| one.memory.kind != MemoryKind::Host;
    let works = plan.candidates.iter().filter(is_direct).any(|one| one.refusals.is_empty());
    for candidate in plan.candidates.iter().filter(is_direct) {
        // What is wrong with the kernel is said with its own fix.
        let of_the_kernel = kernel_refusal(&fabric.kernel);
        let refusals = candidate.refusals.iter().filter(|one| Some(*one) != of_the_kernel.as_ref());
        chart.findings.extend(refusals.map(|refusal| {
            let (what, fix) = with_fix(refusal);
            Finding {
                kind: FindingKind::CopyRefused,
                // One direct way is enough.
                cost: if works { Cost::Speed } else { Cost::Routes },
                object: candidate.memory.name.clone(),
                what,
                evidence: candidate.facts.iter().map(|fact| saw("the plan", fact)).collect(),
                fix,
            }
        }));
    }
    let pair = [plan.asked.source.clone(), plan.asked.target.clone()];
    let verdict = match (plan.route, &plan.memory) {
        (Some(Route::P2p), Some(memory)) => {
            format!("payload may go between them directly: {}", memory.name)
        }
        (Some(Route::Host), Some(memory)) => {
            format!("payload goes between them only through host memory: {}", memory.name)
        }
        _ => format!("no payload goes between them: {}", plan.reason),
    };
    DoctorRecord { pair: Some(pair), verdict, ..finished(fabric, chart) }
}

/// A refusal of a way to a GPU in its two parts: what is wrong, and behind a colon what to do.
fn with_fix(refusal: &str) -> (String, Option<Fix>) {
    let parts = refusal.rsplit_once(": ").filter(|(_, way_out)| way_out.contains('`'));
    let Some((what, way_out)) = parts else { return (refusal.to_owned(), None) };
    let quoted = way_out.split('`').skip(1).step_by(2);
    let commands = quoted.filter(|one| one.starts_with("sudo ")).map(str::to_owned);
    let needs = if way_out.contains("kernel's parameters") { Needs::Reboot } else { Needs::Rebind };
    let fix = Fix {
        what: way_out.to_owned(),
        commands: commands.collect(),
        weakens: way_out
            .contains("disable_acs_redir")
            .then(|| "devices below those ports are no longer isolated from each other".to_owned()),
        needs,
    };
    (what.to_owned(), Some(fix))
}

fn verdict(plan: &Plan) -> String {
    match (plan.route, &plan.memory) {
        (Some(Route::P2p), Some(memory)) => {
            format!("a peer-to-peer copy is possible through {}: {}", memory.name, plan.reason)
        }
        _ => "a copy is possible only through host memory".to_owned(),
    }
}

/// What the endpoint itself has against peer-to-peer requests; the kernel's own is said elsewhere.
fn refuses(fabric: &Fabric, end: &EndpointFacts) -> Option<Finding> {
    let what = end.refusal.clone()?;
    if kernel_refusal(&fabric.kernel).as_ref() == Some(&what) {
        return None;
    }
    let is_of_the_file =
        end.file_system.as_ref().is_some_and(|kind| what.starts_with(kind.as_str()));
    let kind = match end.kind {
        EndpointKind::File if is_of_the_file => FindingKind::FileRefuses,
        _ if what.contains("multipath head") => FindingKind::MultipathHead,
        _ => FindingKind::QueueRefuses,
    };
    let below = end.device.clone().unwrap_or_else(|| end.path.clone());
    Some(Finding {
        kind,
        cost: Cost::Routes,
        object: end.path.clone(),
        what,
        evidence: vec![match &end.file_system {
            Some(file_system) => saw("/proc/self/mountinfo", format!("{file_system} on {below}")),
            None => saw("/sys/class/block", below),
        }],
        fix: end.way_out.as_ref().map(|way_out| Fix {
            what: way_out.clone(),
            commands: Vec::new(),
            weakens: None,
            needs: Needs::Nothing,
        }),
    })
}

/// The kernel answers otherwise than the machine as it is now would make it.
fn stale(fabric: &Fabric, probe: &Probe) -> Option<Finding> {
    if probe.agrees != Some(false) {
        return None;
    }
    let answer = match &probe.answer {
        ProbeAnswer::Permitted => "permitted".to_owned(),
        ProbeAnswer::Refused { reason } => reason.clone(),
        ProbeAnswer::NotAsked { .. } => return None,
    };
    let owner = fabric.find(lender(&probe.memory)?)?;
    let function = fabric.function(owner);
    let address = function.address?;
    let driver = function.driver.name().unwrap_or("nvme");
    Some(Finding {
        kind: FindingKind::StaleDecision,
        cost: Cost::Routes,
        object: format!("{} and {}", probe.endpoint, probe.memory),
        what: format!(
            "the kernel answers otherwise than its rules make of the machine as it is now ({}): it \
             decides once, when the pair is first used, and keeps that",
            probe.predicted
        ),
        evidence: vec![
            saw("one block read into the memory", answer),
            saw(
                format!("{}/config of every port on the way", at(function)),
                probe.predicted.to_string(),
            ),
        ],
        fix: Some(Fix {
            what: "bind the driver of the memory's owner anew".to_owned(),
            commands: vec![
                format!("echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/unbind"),
                format!("echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/bind"),
            ],
            weakens: Some(format!("{} and what is on it are away meanwhile", function.name)),
            needs: Needs::Rebind,
        }),
    })
}
