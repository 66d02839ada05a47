//! A machine examined: the record of `doctor`, the drawing, and where the facts stand in the text.

use std::collections::BTreeMap;
use std::path::Path;

use peerlane_doctor::{HostFacts, assumed_setting, drop_ins, examine as doctor};
use peerlane_fabric::assume::{BootConfiguration, BootConfigurationError};
use peerlane_fabric::lspci::TextAccount;
use peerlane_fabric::{Fabric, FunctionKind, names};
use peerlane_report::machine;
use peerlane_results::{AssumedSetting, DoctorRecord, PlanStep};
use serde::Serialize;

use crate::failure::Failure;
use crate::request::Assumption;

/// Name of the folder of drop-ins in errors.
const PLAN: &str = "the plan";
/// Name of typed settings in errors.
const SETTINGS: &str = "the settings";

/// The answer to `examine`.
#[derive(Debug, Serialize)]
pub(crate) struct Examined {
    doctor: DoctorRecord,
    /// Notes on a topology file.
    warnings: Vec<String>,
    account: Option<Account>,
    devices: Vec<Device>,
    /// Lines of the text by the address of the function: heading, ACS control register, link; 0 where there is none.
    lines: BTreeMap<String, [u32; 3]>,
    svg: String,
    rules: String,
}

/// A function that a person asks about.
#[derive(Debug, Serialize)]
struct Device {
    /// Position in the fabric, as in `data-f` of the drawing.
    id: usize,
    /// Its word in commands.
    word: String,
    kind: &'static str,
    address: Option<String>,
    product: Option<String>,
}

/// An account of a text.
#[derive(Debug, Serialize)]
struct Account {
    summary: String,
    is_complete: bool,
    /// Key, occurrences in the text, occurrences that a function has.
    keys: Vec<(&'static str, usize, usize)>,
    set_aside: Vec<SetAsideLine>,
}

#[derive(Debug, Serialize)]
struct SetAsideLine {
    line: u32,
    key: &'static str,
    reason: String,
    is_loss: bool,
}

/// Examines a machine, as it is or with a boot configuration.
pub(crate) fn examine(fabric: &Fabric, assume: Option<&Assumption>) -> Result<Examined, Failure> {
    let Some(assumption) = assume else { return Ok(examined(fabric, Vec::new())) };
    let (changed, assumed) = apply(fabric, assumption)?;
    Ok(examined(&changed, assumed))
}

fn examined(fabric: &Fabric, assumed: Vec<AssumedSetting>) -> Examined {
    Examined {
        doctor: DoctorRecord { assumed, ..doctor(fabric, &HostFacts::default()) },
        warnings: fabric.topology_notes(),
        account: fabric.account.as_ref().map(account),
        devices: devices(fabric),
        lines: lines(fabric),
        svg: machine::svg_for_page(fabric),
        rules: machine::rules_for_page(),
    }
}

/// The machine with steps of its plan, and with settings that were typed.
fn apply(
    fabric: &Fabric,
    assumption: &Assumption,
) -> Result<(Fabric, Vec<AssumedSetting>), Failure> {
    let record = doctor(fabric, &HostFacts::default());
    let is_chosen = |step: &PlanStep| assumption.steps.contains(&step.order);
    let steps = record.steps.iter().filter(|step| is_chosen(step)).cloned().collect();
    let files = drop_ins(&DoctorRecord { steps, ..record });
    let files = files.iter().map(|file| (Path::new(file.path), file.content.as_str()));
    let mut configuration =
        BootConfiguration::of_files(Path::new(PLAN), files).map_err(|error| refused(&error))?;
    if !assumption.settings.trim().is_empty() {
        let typed = BootConfiguration::parse(Path::new(SETTINGS), &assumption.settings)
            .map_err(|error| refused(&error))?;
        configuration.parameters.extend(typed.parameters);
        configuration.options.extend(typed.options);
        configuration.modules.extend(typed.modules);
    }
    let mut changed = fabric.clone();
    let assumed = configuration.apply(&mut changed).into_iter().map(assumed_setting).collect();
    Ok((changed, assumed))
}

fn refused(error: &BootConfigurationError) -> Failure {
    Failure::new(error, Some(error.hint()))
}

fn account(account: &TextAccount) -> Account {
    Account {
        summary: account.summary(),
        is_complete: account.is_complete(),
        keys: account
            .keys
            .iter()
            .map(|count| (count.key.name(), count.in_text, count.attached))
            .collect(),
        set_aside: account
            .set_aside
            .iter()
            .map(|one| SetAsideLine {
                line: one.line,
                key: one.key.name(),
                reason: one.reason.to_string(),
                is_loss: one.reason.is_loss(),
            })
            .collect(),
    }
}

fn devices(fabric: &Fabric) -> Vec<Device> {
    let shown = fabric
        .iter()
        .filter(|(id, function)| fabric.moves_payload(*id) || function.p2pmem.is_some());
    let device = |(id, function): (_, &peerlane_fabric::Function)| Device {
        word: fabric.device_word(id),
        id: id.0,
        kind: match function.kind {
            FunctionKind::Nvme => "drive",
            FunctionKind::Gpu => "GPU",
            FunctionKind::Fpga => "FPGA card",
            FunctionKind::Nic => "NIC",
            _ => "other",
        },
        address: function.address.map(|address| address.to_string()),
        product: names::look_up(function),
    };
    shown.map(device).collect()
}

fn lines(fabric: &Fabric) -> BTreeMap<String, [u32; 3]> {
    let of = |function: &peerlane_fabric::Function| {
        let lines = function.lines?;
        let found = [lines.heading, lines.acs.unwrap_or(0), lines.link.unwrap_or(0)];
        Some((function.address?.to_string(), found))
    };
    fabric.functions.iter().filter_map(of).collect()
}
