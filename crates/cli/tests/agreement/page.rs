//! The page `docs/agreement.md`: the answer of every voice on every pair, on every kernel.

use std::collections::BTreeSet;
use std::fmt::Write;

use peerlane_fabric::Fabric;
use peerlane_reach::MapType;
use peerlane_results::ProbeAnswer;

use super::machines::{AgreementMachine, MACHINES};
use super::notation::{AcsBy, describe};
use super::voices::{NoMemory, PairLog, PairVoices};

/// Path of the page.
pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agreement.md");

const HEAD: &str = "\
# Agreement with the kernel

What `peerlane plan` says of a pair of memory and drive, and what four voices of a running kernel say of
it. This page is written by the run that asks them (CONTRIBUTING.md, *Agreement with the kernel*).

The machines are emulated by QEMU. The page shows what the kernel decides about a fabric of this shape;
it does not show that any hardware moves data. For the machines `translating` the kernel permits what
QEMU's switch then loses: the decision is compared there, and nothing else.

| voice | the question |
|---|---|
| plan | `peerlane plan`: the verdict, and the hops between memory and drive as `topo` has them |
| probe | `peerlane plan --probe`: one block read from the drive into the memory |
| log | what the kernel logged of the pair, at the probe and at nvmet's question alike: the functions that redirect, and whether it refuses; `silent` where it logged nothing |
| nvmet | the NVMe target's `p2pmem` set to the memory and the namespace enabled, over configfs; no data moves |
| traced | what `calc_map_type_and_dist` and `pci_p2pdma_distance_many` returned for nvmet's question: map type and hops |

ACS control registers have their values from `pci=config_acs=` where the kernel knows it (Linux 7.2) and
from root's hand before the first use of the memory where it does not (6.8); with an IOMMU from the kernel
itself. For a machine without memory nvmet is told to find one.

A run fails where one voice differs from the plan. It also fails where the decision from the machine's
description differs from that from `/sys` of the guest, where a candidate's distance in the plan is not
the sum of what the kernel returned for its two ends, and where the log names other functions to
`pci=disable_acs_redir=` than those that the plan blames.

What no emulated machine here shows: a listed Intel host bridge (QEMU has none of those), a memory that is
there and not published (QEMU's controller memory buffer always is), ACS egress control and the ACS of
endpoints (QEMU's ports and drives lack them). For those rows of the decision table the plan follows the
kernel's source alone.
";

/// Answers of a machine on one kernel.
#[derive(Debug)]
pub(crate) struct Boot {
    pub(crate) machine: &'static AgreementMachine,
    /// `uname -r`.
    pub(crate) release: String,
    pub(crate) pairs: Vec<PairVoices>,
    pub(crate) without_memory: Vec<NoMemory>,
}

/// A line of the table: machine, memory, drive, and the cells of the voices.
type Row = ([String; 3], [String; 5]);

impl Boot {
    fn rows(&self) -> Vec<Row> {
        let key = |memory: &str, drive: &str| [self.machine.name, memory, drive].map(str::to_owned);
        let pairs = self.pairs.iter().map(|pair| (key(&pair.memory, &pair.drive), cells(pair)));
        let without = self.without_memory.iter().map(|told| (key("none", &told.drive), none(told)));
        pairs.chain(without).collect()
    }
}

fn cells(pair: &PairVoices) -> [String; 5] {
    let probe = match &pair.probe {
        ProbeAnswer::Permitted => "permitted".to_owned(),
        // What the kernel's errno was is in the reason, in brackets.
        ProbeAnswer::Refused { reason } => match reason.rsplit_once('(') {
            Some((_, errno)) => format!("refused ({errno}"),
            None => "refused".to_owned(),
        },
        ProbeAnswer::Registered { showed } => showed.clone(),
        ProbeAnswer::NotAsked { reason } => format!("not asked: {reason}"),
    };
    let log = if pair.probe_log == pair.nvmet_log {
        log_cell(&pair.nvmet_log)
    } else {
        format!("probe: {}; nvmet: {}", log_cell(&pair.probe_log), log_cell(&pair.nvmet_log))
    };
    let nvmet = if pair.nvmet { "permitted" } else { "refused" };
    let traced = match pair.traced {
        (MapType::BusAddress, hops) => format!("BUS_ADDR {hops}"),
        (MapType::ThroughHostBridge, hops) => format!("THRU_HOST_BRIDGE {hops}"),
        (MapType::NotSupported, hops) => format!("NOT_SUPPORTED {hops}"),
        (MapType::Conditional | MapType::Unknown, hops) => format!("another map type {hops}"),
    };
    [plan_cell(pair.decided), probe, log, nvmet.to_owned(), traced]
}

fn log_cell(log: &PairLog) -> String {
    let mut words = Vec::new();
    if !log.redirects.is_empty() {
        let short = |name: &String| name.strip_prefix("0000:").unwrap_or(name).to_owned();
        let names: Vec<String> = log.redirects.iter().map(short).collect();
        words.push(format!("redirect at {}", names.join(", ")));
    }
    if let Some(bridge) = &log.unlisted {
        words.push(format!("{bridge} not listed"));
    }
    if log.refuses {
        words.push("refused".to_owned());
    }
    if words.is_empty() { "silent".to_owned() } else { words.join("; ") }
}

fn none(told: &NoMemory) -> [String; 5] {
    let or = |is_so: bool, so: &str, otherwise: &str| {
        if is_so { so.to_owned() } else { otherwise.to_owned() }
    };
    [
        or(told.candidates == 0, "no memory", "memory"),
        or(told.probes == 0, "nothing to ask", "asked"),
        or(told.log.is_some(), "no peer-to-peer memory is available", "silent"),
        or(told.is_refused, "refused", "permitted"),
        or(told.calls == 0, "not called", "called"),
    ]
}

fn plan_cell((map, distance): (MapType, Option<u32>)) -> String {
    let hops = distance.map_or(String::new(), |hops| format!(", {hops}"));
    match map {
        MapType::BusAddress => format!("direct{hops}"),
        MapType::ThroughHostBridge => format!("through the host bridge{hops}"),
        MapType::NotSupported => "refused".to_owned(),
        MapType::Conditional | MapType::Unknown => "unknown".to_owned(),
    }
}

/// The whole page.
pub(crate) fn render(boots: &[Boot], qemu: &str) -> String {
    let mut kernels: Vec<&str> = Vec::new();
    for boot in boots {
        if !kernels.contains(&boot.release.as_str()) {
            kernels.push(&boot.release);
        }
    }
    let mut text = HEAD.to_owned();
    let pairs: usize = boots.iter().map(|boot| boot.rows().len()).sum();
    write!(
        text,
        "\n{} machines, {pairs} answers of {} kernels: Linux {}. {qemu}.\n",
        MACHINES.len(),
        kernels.len(),
        kernels.join(" and ")
    )
    .expect("a string");
    text.push_str(&machines());
    text.push_str(
        "\n## Pairs\n\nWhere the kernels' answers are not the same, each has its version before it.\n\n\
         | machine | memory | drive | plan | probe | log | nvmet | traced |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for machine in MACHINES {
        let of_machine: Vec<(&str, Vec<Row>)> = boots
            .iter()
            .filter(|boot| boot.machine.name == machine.name)
            .map(|boot| (boot.release.as_str(), boot.rows()))
            .collect();
        let keys: Vec<&[String; 3]> = of_machine
            .first()
            .map_or(Vec::new(), |(_, rows)| rows.iter().map(|row| &row.0).collect());
        for key in keys {
            let cells: Vec<(&str, &[String; 5])> = of_machine
                .iter()
                .filter_map(|(release, rows)| {
                    rows.iter().find(|row| row.0 == *key).map(|row| (*release, &row.1))
                })
                .collect();
            let merged: Vec<String> = (0..5).map(|voice| merge(&cells, voice)).collect();
            writeln!(text, "| {} | {} |", key.join(" | "), merged.join(" | ")).expect("a string");
        }
    }
    text
}

fn merge(cells: &[(&str, &[String; 5])], voice: usize) -> String {
    let said: BTreeSet<&String> = cells.iter().map(|(_, cells)| &cells[voice]).collect();
    if let (1, Some(same)) = (said.len(), said.first()) {
        return (*same).clone();
    }
    let each = cells.iter().map(|(release, cells)| {
        let version: Vec<&str> = release.split(['.', '-', '+']).take(2).collect();
        format!("{}: {}", version.join("."), cells[voice])
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The table of machines.
pub(crate) fn machines() -> String {
    let mut text = "\n## Machines\n\n\
        `R` is a root port, `U` the upstream and `D` a downstream port of a switch; small letters are\n\
        drives, with `+` where they lend memory. What hangs below a port stands in brackets after it; a\n\
        slash begins the next host bridge. After a port `!` stands for ACS redirect as the kernel sets it,\n\
        `~` for ACS with nothing switched on, `=53` for that control register, and nothing for no ACS;\n\
        `@1.1` is a place on a root bus. Machines marked *every run* are booted by `./test`.\n\n\
        | machine | fabric | CPU | IOMMU | what it shows |\n|---|---|---|---|---|\n"
        .to_owned();
    for machine in MACHINES {
        let parameter = match machine.parameter {
            "" => String::new(),
            parameter => format!(" (`{parameter}`)"),
        };
        let quick = if machine.is_quick { " *every run*" } else { "" };
        writeln!(
            text,
            "| {} | `{}` | {} | {} | {}{parameter}{quick} |",
            machine.name,
            machine.tree.replace('|', "/"),
            machine.cpu.model,
            machine.iommu,
            machine.shows
        )
        .expect("a string");
    }
    text
}

/// The first four cells of every line of pairs, by the machines' descriptions.
pub(crate) fn due_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for machine in MACHINES {
        let description = describe(machine, AcsBy::Parameter);
        let fabric = Fabric::from_toml(&description.toml).expect("a machine file");
        let id = |name: &String| {
            let found = fabric.iter().find(|(_, function)| function.name == *name);
            found.expect("a drive of the machine").0
        };
        for memory in &description.memories {
            for drive in &description.drives {
                let reach = peerlane_reach::decide(&fabric, id(memory), id(drive));
                let plan = plan_cell((reach.map, reach.distance));
                lines.push(format!("| {} | {memory} | {drive} | {plan} |", machine.name));
            }
        }
        if description.memories.is_empty() {
            for drive in &description.drives {
                lines.push(format!("| {} | none | {drive} | no memory |", machine.name));
            }
        }
    }
    lines
}
