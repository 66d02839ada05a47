//! What stands in the way of peer-to-peer traffic on a machine or between two ends, and what to do.
//!
//! Looks only: nothing is opened for writing, allocated or changed. Each file here looks at one part of
//! the machine and adds [`Finding`]s, each with what it rests on; what cannot be seen from here is an
//! [`Unknown`], never a finding. What a plan says of a pair is not said again in other words: the
//! findings of a pair come from its plan.

mod accelerator;
mod drive;
mod iommu;
mod kernel;
mod link;
mod memory;
mod pair;
mod route;
mod stack;
mod unserved;
mod window;

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId, Kind, Origin};
use peerlane_results::{Cost, DOCTOR_SCHEMA, DoctorRecord, Evidence, Finding, Fix, Unknown};

pub use pair::examine_pair;
pub(crate) use window::ADDRESS_SPACE_FIX;

use crate::copy::machine_of;
use crate::guard::System;
use crate::pairs::Dnas;
use crate::plan::no_permission;

/// Why whoever runs this may not take the memory of the function at an address; `None` where they may.
type NoPermission<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What was found so far.
#[derive(Debug, Default)]
struct Chart {
    findings: Vec<Finding>,
    unknown: Vec<Unknown>,
}

impl Chart {
    fn unknown(&mut self, what: impl Into<String>, needs: impl Into<String>) {
        let unknown = Unknown { what: what.into(), needs: needs.into() };
        if !self.unknown.contains(&unknown) {
            self.unknown.push(unknown);
        }
    }
}

/// Examines a whole machine.
pub fn examine(fabric: &Fabric) -> DoctorRecord {
    examine_cards(fabric, &Dnas::default())
}

/// The same with what was read of FPGA cards and their drives.
pub fn examine_cards(fabric: &Fabric, dnas: &Dnas) -> DoctorRecord {
    examine_with(fabric, &asked_here(fabric), dnas)
}

/// Asks this machine, where the fabric is of it.
fn asked_here(fabric: &Fabric) -> impl Fn(&str) -> Option<String> {
    let system = fabric.is_this_machine().then(|| System::at(Path::new("/")));
    move |address| no_permission(system.as_ref()?, address)
}

/// The same with the question to this machine why somebody may not take the memory of an address.
fn examine_with(fabric: &Fabric, no_permission: NoPermission<'_>, dnas: &Dnas) -> DoctorRecord {
    let mut chart = Chart::default();
    memory::examine(fabric, no_permission, &mut chart);
    kernel::examine(fabric, &mut chart);
    iommu::examine(fabric, &mut chart);
    route::examine(fabric, &drives(fabric), &mut chart);
    unserved::examine(fabric, &mut chart);
    window::examine(fabric, &mut chart);
    drive::examine(fabric, &mut chart);
    link::examine(fabric, &link::of_the_machine(fabric), &mut chart);
    accelerator::examine(fabric, &mut chart);
    accelerator::pairs(fabric, dnas, &mut chart);
    stack::examine(fabric, &mut chart);
    memory::weigh(&mut chart.findings);
    finished(fabric, chart)
}

fn finished(fabric: &Fabric, chart: Chart) -> DoctorRecord {
    let Chart { mut findings, unknown } = chart;
    findings.sort_by_key(|finding| finding.cost);
    let place = match fabric.origin {
        Origin::Description => Some("description"),
        Origin::Text => Some("text"),
        Origin::ThisMachine | Origin::Tree(_) => None,
    };
    if let Some(place) = place {
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
    DoctorRecord {
        schema: DOCTOR_SCHEMA.to_owned(),
        machine: machine_of(fabric),
        pair: None,
        verdict: verdict(fabric, &findings, &unknown),
        findings,
        unknown,
    }
}

fn verdict(fabric: &Fabric, findings: &[Finding], unknown: &[Unknown]) -> String {
    match findings.first() {
        _ if fabric.origin == Origin::Text => {
            "pasted text does not show whether copies are possible; `peerlane plan A B` judges two devices"
                .to_owned()
        }
        None if memory::leaves_pci_out(fabric) => {
            "what is possible here is not known: no PCI function is to be seen".to_owned()
        }
        None if unknown.is_empty() => "nothing stands in the way of peer-to-peer copies".to_owned(),
        None => "nothing was found that stands in the way; not everything could be seen".to_owned(),
        Some(worst) => match worst.cost {
            Cost::Everything => "no peer-to-peer copy is possible here".to_owned(),
            Cost::Routes => "peer-to-peer copies are possible between some devices".to_owned(),
            Cost::Speed => "peer-to-peer copies are possible, slower than they could be".to_owned(),
        },
    }
}

/// The functions whose DMA engines move payload of a copy.
fn drives(fabric: &Fabric) -> Vec<FunctionId> {
    let drives = fabric.iter().filter(|(_, function)| function.kind == Kind::Nvme);
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

/// Kernel parameters added for good, in the two ways that distributions have.
fn kernel_parameters(what: &str, parameters: &str, weakens: Option<&str>) -> Fix {
    Fix {
        what: format!("{what}: add `{parameters}` to the kernel's parameters"),
        commands: parameter_commands(parameters),
        weakens: weakens.map(str::to_owned),
        needs: peerlane_results::Needs::Reboot,
    }
}

/// The commands that add parameters for good.
///
/// What GRUB reads is a script, in `grub.cfg` and in the entries of the Boot Loader Specification alike:
/// an unquoted `;` ends the command there. Quotes are taken off by GRUB, and by the kernel where another
/// boot loader leaves them (`next_arg()` in lib/cmdline.c).
fn parameter_commands(parameters: &str) -> Vec<String> {
    let quoted = match parameters.split_once('=') {
        Some((name, value)) if value.contains(';') => format!("{name}=\"{value}\""),
        _ => parameters.to_owned(),
    };
    vec![
        format!(
            "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"' | \
             sudo tee -a /etc/default/grub.d/peerlane.cfg && sudo update-grub   # Debian, Ubuntu",
            quoted.replace('"', "\\\"")
        ),
        format!("sudo grubby --update-kernel=ALL --args='{quoted}'   # Fedora, RHEL"),
    ]
}

/// The directory of a function in sysfs.
fn at(function: &Function) -> String {
    let address = function.address.map_or_else(|| function.name.clone(), |at| at.to_string());
    format!("/sys/bus/pci/devices/{address}")
}

#[cfg(test)]
mod tests;
