//! Two ends of a copy: obstacles of their plan, and the answers of a probe.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::kernel_refusal;
use peerlane_results::{
    Candidate, Cost, DoctorRecord, EndpointFacts, EndpointKind, Finding, FindingKind, Fix,
    MemoryKind, Needs, Plan, Probe, ProbeAnswer,
};

use super::{
    BearsOn, Examination, HostFacts, Subject, accelerator, at, drive, finding, fix, gpu_stack,
    iommu, kernel, kernel_parameter, link, memory, redirection, root_complex, saw, silence,
};
use crate::verdict::EndsVerdict;

/// A planned copy, its verdict, and the answers of its probes, if any were asked.
#[derive(Debug, Clone)]
pub struct PlannedCopy<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The verdict on its ends.
    pub verdict: EndsVerdict,
    /// The answers of its probes.
    pub probes: &'a [Probe],
}

/// Examines the obstacles between the ends of a copy.
pub fn examine_copy(fabric: &Fabric, copy: PlannedCopy<'_>, facts: &HostFacts) -> DoctorRecord {
    let PlannedCopy { plan, verdict, probes } = copy;
    let ends = [&plan.source, &plan.target];
    let initiators: Vec<FunctionId> = ends.iter().filter_map(|end| end.function(fabric)).collect();
    let subject = match initiators[..] {
        [one, other] => Subject::Devices(one, other),
        _ => Subject::NoDevices,
    };
    let mut examination = Examination::new(fabric, subject);
    let on = &mut examination;
    if ends.iter().any(|end| end.kind == EndpointKind::Gpu) {
        examine_with_gpu(on, plan, &initiators);
    } else {
        examine_drives(on, DrivesCopy { plan, probes, initiators: &initiators }, facts);
    }
    let pair = [plan.asked.source.clone(), plan.asked.target.clone()];
    examination.finished(Some((pair, verdict)))
}

/// A copy between drives, and the functions of those.
struct DrivesCopy<'a> {
    plan: &'a Plan,
    probes: &'a [Probe],
    initiators: &'a [FunctionId],
}

fn examine_drives(on: &mut Examination<'_>, copy: DrivesCopy<'_>, facts: &HostFacts) {
    let DrivesCopy { plan, probes, initiators } = copy;
    let fabric = on.fabric;
    memory::examine(on, facts);
    kernel::examine(on);
    iommu::examine(on);
    for end in [&plan.source, &plan.target] {
        if let Some(found) = refuses(fabric, end) {
            on.add(found, BearsOn::everything());
        }
    }
    redirection::examine(on);
    root_complex::examine(on);
    let mut distinct = initiators.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    drive::speed(on, &distinct);
    let lenders = super::lenders(fabric);
    let ways: Vec<FunctionId> = initiators.iter().chain(&lenders).copied().collect();
    silence::examine_those(on, &ways);
    link::examine(on, &ways);
    for refusal in plan.refusals.iter().filter(|refusal| !refusal.forceable) {
        let object = format!("{} to {}", plan.asked.source, plan.asked.target);
        let found = Finding {
            fix: refusal.hint.as_ref().map(|hint| fix(hint.clone(), Needs::Nothing)),
            ..finding(FindingKind::CopyRefused, Cost::Routes, object, refusal.reason.clone())
        };
        on.add(found, BearsOn::everything());
    }
    for found in probes.iter().filter_map(|probe| stale(fabric, probe)) {
        on.add(found, BearsOn::everything());
    }
}

/// A drive and a GPU: each obstacle to a direct way is a finding, with its fix.
fn examine_with_gpu(on: &mut Examination<'_>, plan: &Plan, functions: &[FunctionId]) {
    kernel::examine(on);
    iommu::examine(on);
    accelerator::examine_those(on, functions);
    gpu_stack::examine(on);
    link::examine(on, functions);
    let is_direct = |one: &&Candidate| one.memory.kind != MemoryKind::Host;
    // One direct way is enough.
    if plan.candidates.iter().filter(is_direct).any(|one| one.refusals.is_empty()) {
        return;
    }
    // Faults of the kernel have a finding of their own.
    let of_the_kernel = kernel_refusal(&on.fabric.kernel);
    for candidate in plan.candidates.iter().filter(is_direct) {
        let refusals = candidate.refusals.iter().filter(|one| Some(*one) != of_the_kernel.as_ref());
        for refusal in refusals {
            let (what, fix) = with_fix(on.fabric, refusal);
            if on.findings.iter().any(|(found, _)| found.what == what) {
                continue;
            }
            let found = Finding {
                evidence: candidate.facts.iter().map(|fact| saw("the plan", fact)).collect(),
                fix,
                ..finding(
                    FindingKind::CopyRefused,
                    Cost::Routes,
                    candidate.memory.name.clone(),
                    what,
                )
            };
            on.add(found, BearsOn::everything());
        }
    }
}

/// A refusal of a path to a GPU in its two parts: the fault, and behind a colon the fix.
pub(super) fn with_fix(fabric: &Fabric, refusal: &str) -> (String, Option<Fix>) {
    let parts = refusal.rsplit_once(": ").filter(|(_, way_out)| way_out.contains('`'));
    let Some((what, way_out)) = parts else { return (refusal.to_owned(), None) };
    let quoted = || way_out.split('`').skip(1).step_by(2);
    let weakens = way_out
        .contains("disable_acs_redir")
        .then_some("devices below those ports are no longer isolated from each other");
    let fix = match quoted().next() {
        Some(parameter) if way_out.contains("kernel's parameters") => {
            kernel_parameter(fabric, &format!("Boot with {parameter}"), parameter, weakens)
        }
        _ => Fix {
            commands: quoted().filter(|one| one.starts_with("sudo ")).map(str::to_owned).collect(),
            weakens: weakens.map(str::to_owned),
            ..fix(way_out.to_owned(), Needs::Rebind)
        },
    };
    (what.to_owned(), Some(fix))
}

/// Returns the endpoint's own refusal of peer-to-peer requests; the kernel's is a finding of its
/// own.
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
        evidence: vec![match &end.file_system {
            Some(file_system) => saw("/proc/self/mountinfo", format!("{file_system} on {below}")),
            None => saw("/sys/class/block", below),
        }],
        fix: end.way_out.as_ref().map(|way_out| fix(way_out.clone(), Needs::Nothing)),
        ..finding(kind, Cost::Routes, end.path.clone(), what)
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
        ProbeAnswer::Registered { .. } | ProbeAnswer::NotAsked { .. } => return None,
    };
    let owner = fabric.find(probe.memory.split_once(':')?.1)?;
    let function = fabric.function(owner);
    let address = function.address?;
    let driver = function.driver.name().unwrap_or("nvme");
    Some(Finding {
        evidence: vec![
            saw("one block read into the memory", answer),
            saw(
                format!("{}/config of every port on the path", at(function)),
                probe.predicted.to_string(),
            ),
        ],
        fix: Some(Fix {
            commands: vec![
                format!("echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/unbind"),
                format!("echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/bind"),
            ],
            weakens: Some(format!("{} and what is on it are away meanwhile", function.name)),
            ..fix("rebind the driver of the memory's owner", Needs::Rebind)
        }),
        ..finding(
            FindingKind::StaleDecision,
            Cost::Routes,
            format!("{} and {}", probe.endpoint, probe.memory),
            format!(
                "the kernel answers otherwise than its rules make of the machine as it is now ({}): it \
             decides once, when the pair is first used, and keeps that",
                probe.predicted
            ),
        )
    })
}
