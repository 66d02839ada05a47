//! A machine examined: the record of `doctor`, the drawing, and where the facts stand in the text.

use std::collections::BTreeMap;
use std::fmt::Display;

use peerlane_doctor::{HostFacts, examine as doctor};
use peerlane_fabric::lspci::TextAccount;
use peerlane_fabric::{Fabric, FunctionKind, pci_names};
use peerlane_report::machine;
use peerlane_results::{AssumedSetting, Cost, DoctorRecord, Needs, RouteState, Use};
use serde::Serialize;
use serde_json::Value;

/// The answer to `examine`.
#[derive(Debug, Serialize)]
pub(crate) struct Examined {
    doctor: DoctorRecord,
    /// Words of uses, states, costs and moments, by their name in records.
    words: BTreeMap<String, String>,
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

/// Examines a machine; `assumed` has the settings that were put in force.
pub(crate) fn examine(fabric: &Fabric, assumed: Vec<AssumedSetting>) -> Examined {
    Examined {
        doctor: DoctorRecord { assumed, ..doctor(fabric, &HostFacts::default()) },
        words: words(),
        warnings: fabric.topology_notes(),
        account: fabric.account.as_ref().map(account),
        devices: devices(fabric),
        lines: lines(fabric),
        svg: machine::svg_for_page(fabric),
        rules: machine::rules_for_page(),
    }
}

/// The words for values of the record.
fn words() -> BTreeMap<String, String> {
    use RouteState::{Direct, Expected, Host, Impossible, Unknown, ViaCpu};

    let mut all = BTreeMap::new();
    add(&mut all, Use::ALL);
    add(&mut all, [Direct, Expected, ViaCpu, Host, Impossible, Unknown]);
    add(&mut all, [Needs::Nothing, Needs::Rebind, Needs::Reboot, Needs::Hardware]);
    add(&mut all, [Cost::Routes, Cost::Speed]);
    all
}

fn add<T: Serialize + Display>(
    words: &mut BTreeMap<String, String>,
    values: impl IntoIterator<Item = T>,
) {
    for value in values {
        if let Ok(Value::String(key)) = serde_json::to_value(&value) {
            words.insert(key, value.to_string());
        }
    }
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
        product: pci_names::look_up(function),
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
