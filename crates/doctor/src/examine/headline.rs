//! The answer for a whole machine in one line, about the devices that are there.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Origin};
use peerlane_reach::{PeerMemory, kernel_refusal};
use peerlane_results::{Finding, FindingKind, PlanStep, RouteState, UseAnswer};

use super::{Examination, abbreviated, counted};

/// Kinds of devices that move payload.
const KINDS: [(FunctionKind, &str); 4] = [
    (FunctionKind::Gpu, "GPU"),
    (FunctionKind::Nic, "NIC"),
    (FunctionKind::Nvme, "drive"),
    (FunctionKind::Fpga, "FPGA card"),
];
/// Functions named before they are only counted.
const MAX_NAMES: usize = 3;

/// Functions without a class in the input, which may be devices of uses.
struct HiddenDevices {
    reason: String,
    command: &'static str,
}

impl HiddenDevices {
    fn new(fabric: &Fabric) -> Option<Self> {
        let hidden = fabric.unclassified();
        let first = fabric.function(*hidden.first()?);
        let (place, command) = match first.lines {
            Some(_) => ("text", "sudo lspci -Dvvvnn"),
            None => ("tree", "sudo peerlane capture -o machine.tar.zst"),
        };
        let names: Vec<String> = hidden.iter().map(|&id| fabric.device_word(id)).collect();
        let reason = if fabric.functions.iter().all(|one| one.class.is_none()) {
            format!("the {place} shows no classes")
        } else {
            format!("the {place} shows no class of {}", abbreviated(&names, MAX_NAMES))
        };
        Some(Self { reason, command })
    }
}

/// Notes that devices of uses may be missing.
pub(super) fn examine(on: &mut Examination<'_>) {
    if let Some(HiddenDevices { reason, command }) = HiddenDevices::new(on.fabric) {
        on.unknown(
            format!("which functions are GPUs, drives or NICs: {reason}"),
            format!("`{command}`"),
        );
    }
}

/// Returns the reason why the known devices may not be all; `None` if they are.
pub(super) fn hidden_devices(fabric: &Fabric) -> Option<String> {
    if super::memory::leaves_pci_out(fabric) {
        return Some("no PCI function is shown".to_owned());
    }
    let HiddenDevices { reason, command } = HiddenDevices::new(fabric)?;
    Some(format!("{reason}; run `{command}`"))
}

/// Results of an examination, besides the states of uses.
pub(super) struct Seen<'a> {
    /// The findings, the worst first.
    pub(super) findings: &'a [Finding],
    /// The steps of the plan.
    pub(super) steps: &'a [PlanStep],
    /// Number of facts that could not be read.
    pub(super) unknown: usize,
}

/// The headline: the worst finding and its fixes, then the states of uses, the best first.
pub(super) fn headline(fabric: &Fabric, uses: &[UseAnswer], seen: &Seen<'_>) -> String {
    let devices = devices(fabric);
    if uses.is_empty() {
        return match hidden_devices(fabric) {
            Some(reason) if devices.is_empty() => {
                format!("what is possible here is unknown: {reason}")
            }
            Some(reason) => format!("{devices}; what else is possible is unknown: {reason}"),
            None => without_uses(fabric, &devices),
        };
    }
    let states = states(uses, seen.unknown);
    match worst(seen) {
        Some(worst) => format!("{worst}. {}", capitalised(&states)),
        None => {
            let is_open = uses.iter().any(|one| one.state == RouteState::Unknown);
            let fix = if is_open { "no fix known yet" } else { "nothing to fix" };
            format!("{devices}: {states}; {fix}")
        }
    }
}

/// The worst finding, and the number of fixes and reboots; `None` if nothing impairs any pair.
fn worst(seen: &Seen<'_>) -> Option<String> {
    let finding = seen.findings.iter().find(|finding| finding.pairs > 0)?;
    let what = in_short(finding);
    let others = match seen.findings.len() - 1 {
        0 => String::new(),
        others => format!(" (and {})", counted(others, "more finding")),
    };
    let reboots = usize::from(seen.steps.iter().any(|step| step.reboot));
    let fixes = match (seen.steps.len(), reboots) {
        (0, _) => "no known fix".to_owned(),
        (fixes, 0) => counted_fixes(fixes),
        (fixes, reboots) => format!("{}, {}", counted_fixes(fixes), counted(reboots, "reboot")),
    };
    Some(format!("{what}{others}; {fixes}"))
}

/// A finding in one clause, without its example.
fn in_short(finding: &Finding) -> String {
    let what = finding.what.split_once(": ").map_or(finding.what.as_str(), |(what, _)| what);
    match finding.kind {
        FindingKind::AcsRedirect => what.to_owned(),
        _ if what.contains(&finding.object) => what.to_owned(),
        _ => format!("{}: {what}", finding.object),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn counted_fixes(number: usize) -> String {
    format!("{number} {}", if number == 1 { "fix" } else { "fixes" })
}

/// The uses by their states, the best first and unknown ones last, with the number of missing facts.
fn states(uses: &[UseAnswer], unknown: usize) -> String {
    use RouteState::{Direct, Expected, Host, Impossible, Unknown, ViaCpu};
    let of_state = |state: RouteState| {
        let names: Vec<String> =
            uses.iter().filter(|one| one.state == state).map(in_words).collect();
        (!names.is_empty()).then(|| format!("{state}: {}", names.join(", ")))
    };
    let mut parts: Vec<String> = [Direct, Expected, ViaCpu, Host, Impossible, Unknown]
        .into_iter()
        .filter_map(of_state)
        .collect();
    let has_unknown = uses.iter().any(|one| one.state == Unknown);
    if let (Some(last), true, true) = (parts.last_mut(), has_unknown, unknown > 0) {
        *last += &format!(" ({} missing)", counted(unknown, "fact"));
    }
    parts.join("; ")
}

/// A use; how many pairs, where others of the use have another state.
fn in_words(one: &UseAnswer) -> String {
    if one.pairs == one.of {
        one.of_use.to_string()
    } else {
        format!("{} ({} of {} pairs)", one.of_use, one.pairs, one.of)
    }
}

/// The negative answer, with the missing parts.
fn without_uses(fabric: &Fabric, devices: &str) -> String {
    let all = fabric.iter().map(|(id, _)| id);
    let movers: Vec<FunctionId> = all.filter(|&id| fabric.moves_payload(id)).collect();
    let (answer, missing_too) = match movers[..] {
        [] => return "no GPUs, NVMe drives, RDMA NICs or FPGA cards found".to_owned(),
        [only] => {
            let (kind, name) = (kind_word(fabric.function(only).kind), fabric.device_word(only));
            let nothing = "and no second device: nothing to exchange payload with";
            (format!("one {kind} ({name}) {nothing}"), "also missing")
        }
        _ => (format!("{devices}: none can exchange data directly"), "missing"),
    };
    match missing(fabric, &movers) {
        list if list.is_empty() => answer,
        list => format!("{answer}; {missing_too}: {}", list.join(", ")),
    }
}

/// Requirements for payload between devices, besides two of them, that are known to be missing.
fn missing(fabric: &Fabric, movers: &[FunctionId]) -> Vec<&'static str> {
    let may_lend = movers.iter().any(|&id| PeerMemory::new(fabric, id) != PeerMemory::Absent);
    let has_nic = movers.iter().any(|&id| fabric.function(id).kind == FunctionKind::Nic);
    let is_refused = kernel_refusal(&fabric.kernel).is_some();
    let memory = "shareable memory (a GPU, an FPGA card, or a drive with a CMB)";
    [
        (!may_lend).then_some(memory),
        (may_lend && has_nic && movers.len() > 1).then_some("RDMA of the NIC"),
        (is_refused && fabric.kernel.has_p2pdma == Some(false))
            .then_some("CONFIG_PCI_P2PDMA in the kernel"),
        (is_refused && fabric.kernel.has_p2pdma != Some(false)).then_some("Linux 6.2 or later"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn kind_word(kind: FunctionKind) -> &'static str {
    match KINDS.into_iter().find(|(one, _)| *one == kind) {
        Some((FunctionKind::Nvme, _)) => "NVMe drive",
        Some((_, word)) => word,
        None => "device",
    }
}

/// The devices that move payload, counted by kind.
fn devices(fabric: &Fabric) -> String {
    let counted = KINDS.into_iter().filter_map(|(kind, word)| {
        let of_kind =
            fabric.iter().filter(|(id, one)| one.kind == kind && fabric.moves_payload(*id));
        match of_kind.count() {
            0 => None,
            1 => Some(format!("1 {word}")),
            count => Some(format!("{count} {word}s")),
        }
    });
    let words = counted.collect::<Vec<_>>().join(", ");
    match fabric.origin {
        Origin::Text if !words.is_empty() => format!("{words} in the text"),
        _ => words,
    }
}
