//! Examines a machine, or two devices of it: uses, obstacles to them, and the steps that remove those.
//!
//! Looks only: nothing is opened for writing, allocated or changed. Each file here looks at one part of
//! the machine and adds [`Finding`]s, each with its evidence; a fact that cannot be read is an
//! [`Unknown`], never a finding. The findings of a pair come from its plan, in the words of the
//! plan.

mod accelerator;
mod amd_peers;
mod bearing;
mod boot_loader;
mod copy;
mod cufile;
mod devices;
mod drive;
mod drop_ins;
mod gpu_stack;
mod headline;
mod iommu;
mod kernel;
mod link;
mod memory;
mod nccl;
mod redirection;
mod root_complex;
mod silence;
mod steps;
mod unserved;
mod window;
mod xrt_stack;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, Origin};
use peerlane_reach::{
    JudgedPairs, Use, answers, judged_between, judged_of, judged_pairs, rdma_lines,
};
use peerlane_results::{
    Cost, DOCTOR_SCHEMA, DoctorRecord, Evidence, Finding, FindingKind, Fix, LibrarySetting, Needs,
    Setting, Unknown,
};

pub use copy::{PlannedCopy, examine_copy};
pub use devices::examine_devices;
pub use drop_ins::{DropIn, after_restart, drop_ins};

use crate::cards::Dnas;
use crate::verdict::EndsVerdict;
use bearing::BearsOn;

/// Facts that only the running machine tells; empty for a machine that is described.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// Functions with memory that the user may not take, each with the reason.
    pub denied: BTreeMap<FunctionId, String>,
    /// DNA of FPGA cards and their drives.
    pub dnas: Dnas,
}

/// The functions whose pairs count in an examination.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// All of the machine.
    Machine,
    /// This one with every other.
    Device(FunctionId),
    /// These two.
    Devices(FunctionId, FunctionId),
    /// None: an end is not on a PCI function.
    NoDevices,
}

impl Subject {
    fn judge(self, fabric: &Fabric) -> Vec<JudgedPairs> {
        match self {
            Self::Machine => judged_pairs(fabric),
            Self::Device(one) => judged_of(fabric, one),
            Self::Devices(one, other) => judged_between(fabric, one, other),
            Self::NoDevices => Vec::new(),
        }
    }
}

/// A fabric under examination, and its findings so far.
struct Examination<'a> {
    fabric: &'a Fabric,
    subject: Subject,
    /// The pairs of every use, judged.
    judged: Vec<JudgedPairs>,
    findings: Vec<(Finding, BearsOn)>,
    /// Settings of libraries that force no route.
    settings: Vec<LibrarySetting>,
    unknown: Vec<Unknown>,
}

impl<'a> Examination<'a> {
    fn new(fabric: &'a Fabric, subject: Subject) -> Self {
        let judged = subject.judge(fabric);
        let (findings, settings, unknown) = (Vec::new(), Vec::new(), Vec::new());
        Self { fabric, subject, judged, findings, settings, unknown }
    }

    fn add(&mut self, mut finding: Finding, bears_on: BearsOn) {
        (finding.uses, finding.pairs) = bears_on.count(&self.judged);
        self.findings.push((finding, bears_on));
    }

    fn unknown(&mut self, what: impl Into<String>, needs: impl Into<String>) {
        let unknown = Unknown { what: what.into(), needs: needs.into() };
        if !self.unknown.contains(&unknown) {
            self.unknown.push(unknown);
        }
    }

    /// Returns whether the devices allow one of these uses.
    fn has_use(&self, uses: &[Use]) -> bool {
        self.judged.iter().any(|pairs| uses.contains(&pairs.of_use))
    }

    /// Makes a record of it; `pair` is two ends as typed, with the verdict on them.
    fn finished(mut self, pair: Option<([String; 2], EndsVerdict)>) -> DoctorRecord {
        if matches!(self.subject, Subject::Device(_)) {
            self.findings.retain(|(finding, _)| finding.pairs > 0);
        }
        self.findings.sort_by_key(|(finding, _)| (finding.cost, Reverse(finding.pairs)));
        let steps = steps::steps(&self.findings, &self.judged);
        let mut findings: Vec<Finding> =
            self.findings.into_iter().map(|(finding, _)| finding).collect();
        name_the_source(self.fabric, &mut findings);
        let uses = answers(self.fabric, &self.judged);
        let (pair, verdict) = pair.unzip();
        let (state, verdict) = match verdict {
            Some(EndsVerdict { state, sentence }) => (Some(state), sentence),
            None => {
                let unknown = self.unknown.len();
                let seen = headline::Seen { findings: &findings, steps: &steps, unknown };
                (None, headline::headline(self.fabric, &uses, &seen))
            }
        };
        DoctorRecord {
            schema: DOCTOR_SCHEMA.to_owned(),
            machine: self.fabric.into(),
            pair,
            assumed: Vec::new(),
            verdict,
            state,
            proof: None,
            hidden_devices: headline::hidden_devices(self.fabric),
            uses,
            notes: Vec::new(),
            findings,
            steps,
            settings: self.settings,
            nccl: nccl::settings(self.fabric, &self.judged),
            unknown: self.unknown,
        }
    }
}

/// Examines a whole machine.
pub fn examine(fabric: &Fabric, facts: &HostFacts) -> DoctorRecord {
    examine_subject(fabric, Subject::Machine, facts)
}

/// Examines one device with every other: findings that cost none of its pairs are left out.
pub fn examine_device(fabric: &Fabric, id: FunctionId, facts: &HostFacts) -> DoctorRecord {
    let mut record = examine_subject(fabric, Subject::Device(id), facts);
    let word = fabric.device_word(id);
    record.verdict = match record.uses.is_empty() {
        true => format!("{word}: no other device here exchanges payload with it"),
        false => format!("{word}: {}", record.verdict),
    };
    record
}

fn examine_subject(fabric: &Fabric, subject: Subject, facts: &HostFacts) -> DoctorRecord {
    let mut examination = Examination::new(fabric, subject);
    let on = &mut examination;
    memory::examine(on, facts);
    kernel::examine(on);
    amd_peers::examine(on);
    iommu::examine(on);
    redirection::examine(on);
    root_complex::examine(on);
    unserved::examine(on);
    silence::examine(on);
    window::examine(on);
    drive::examine(on);
    link::examine(on, &link::of_the_machine(fabric));
    accelerator::examine(on);
    accelerator::pairs(on, &facts.dnas);
    gpu_stack::examine(on);
    xrt_stack::examine(on);
    headline::examine(on);
    let lines = rdma_lines(fabric).into_iter().filter(|_| matches!(subject, Subject::Machine));
    let notes = lines.map(|line| line.with_address()).collect();
    DoctorRecord { notes, ..examination.finished(None) }
}

/// Names the description or text instead of files that were not read.
fn name_the_source(fabric: &Fabric, findings: &mut [Finding]) {
    let place = match fabric.origin {
        Origin::Description => "description",
        Origin::Text => "text",
        Origin::ThisMachine | Origin::Tree(_) | Origin::Assumed => return,
    };
    let evidence = findings.iter_mut().flat_map(|finding| &mut finding.evidence);
    for seen in evidence.filter(|seen| seen.looked_at.starts_with('/')) {
        let device = seen.looked_at.strip_prefix("/sys/bus/pci/devices/");
        let device = device.and_then(|rest| rest.split(['/', ',']).next());
        seen.looked_at = match device.filter(|name| !name.contains('*')) {
            Some(name) => format!("{name} in the {place}"),
            None => format!("the {place}"),
        };
    }
}

/// A finding that bears on no pair so far.
fn finding(
    kind: FindingKind,
    cost: Cost,
    object: impl Into<String>,
    what: impl Into<String>,
) -> Finding {
    Finding {
        kind,
        cost,
        object: object.into(),
        what: what.into(),
        evidence: Vec::new(),
        uses: Vec::new(),
        pairs: 0,
        fix: None,
    }
}

/// A fix without commands.
fn fix(what: impl Into<String>, needs: Needs) -> Fix {
    Fix { what: what.into(), commands: Vec::new(), weakens: None, needs, settings: Vec::new() }
}

/// The functions whose DMA engines move payload of a copy.
fn drives(fabric: &Fabric) -> Vec<FunctionId> {
    let drives = fabric.iter().filter(|(_, function)| function.kind == FunctionKind::Nvme);
    drives.map(|(id, _)| id).collect()
}

/// The functions that lend memory.
fn lenders(fabric: &Fabric) -> Vec<FunctionId> {
    let lenders = fabric.iter().filter(|(_, function)| function.p2pmem.is_some());
    lenders.map(|(id, _)| id).collect()
}

fn saw(looked_at: impl Into<String>, showed: impl Into<String>) -> Evidence {
    Evidence { looked_at: looked_at.into(), showed: showed.into() }
}

/// A kernel parameter added for good, in the way of this machine or in those that distributions have.
fn kernel_parameter(fabric: &Fabric, what: &str, parameter: &str, weakens: Option<&str>) -> Fix {
    Fix {
        commands: boot_loader::commands(fabric, parameter),
        weakens: weakens.map(str::to_owned),
        settings: vec![Setting::KernelParameter(parameter.to_owned())],
        ..fix(format!("{what} (kernel parameter)"), Needs::Reboot)
    }
}

/// A number of things in words.
fn counted(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Names in one line: the first ones, and the number of the others.
fn abbreviated(names: &[String], shown: usize) -> String {
    match names.len().saturating_sub(shown) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..shown].join(", ")),
    }
}

/// The directory of a function in sysfs.
fn at(function: &Function) -> String {
    let address = function.address.map_or_else(|| function.name.clone(), |at| at.to_string());
    format!("/sys/bus/pci/devices/{address}")
}

#[cfg(test)]
mod tests;
