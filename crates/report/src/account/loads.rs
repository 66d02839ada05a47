//! The machine with the loads of its links.

use std::borrow::Cow;

use peerlane_fabric::{Fabric, OUTLINE_MAX};
use peerlane_results::{Basis, BenchRecord, CaseRecord, Path, WorkloadKind};

use super::bench::mark;
use super::case::{RanCase, path_words};
use super::ways::FlowLoads;
use super::{Drawn, crowd, rate};
use crate::document::{Art, Figure};
use crate::ink::Paper;
use crate::machine::Drawing;
use crate::plain::{count, plain};

/// Most cases of a path that are looked at for one whose way is known.
const LOOKED_AT_MAX: usize = 8;

/// A drawing for each route: of a crowd its largest case, else the fastest of those whose links are known.
pub(super) fn figures(
    bench: &BenchRecord,
    cases: &[RanCase<'_>],
    drawn: &[Drawn<'_>],
) -> Vec<Figure> {
    let Some(machine) = machine(bench, drawn) else { return Vec::new() };
    let mut figures = Vec::new();
    // The two routes; slower ways through host memory load the same links.
    for path in [Some(Path::P2p), Some(Path::HostPipelined)] {
        let mut of_path: Vec<&RanCase<'_>> =
            cases.iter().filter(|case| case.path() == path).collect();
        let size = |case: &RanCase<'_>| match bench.asked.kind {
            WorkloadKind::Crowd => case.spec.flows.len(),
            _ => 0,
        };
        of_path.sort_by(|a, b| {
            let by_rate = || b.summary.rate.mean.total_cmp(&a.summary.rate.mean);
            size(b).cmp(&size(a)).then_with(by_rate)
        });
        let found = of_path.into_iter().take(LOOKED_AT_MAX).find_map(|case| {
            let run = crowd::middle(case)?;
            let ways = FlowLoads::new(&machine.fabric, run, bench.basis);
            let is_known = has_links(&machine.fabric, run) || !ways.loads.is_empty();
            is_known.then_some((case, run, ways))
        });
        if let Some((case, run, ways)) = found {
            figures.push(figure(bench, &machine, (case, run), &ways));
        }
    }
    figures
}

/// Tests whether the record itself has loads of links of this machine.
fn has_links(fabric: &Fabric, run: &CaseRecord) -> bool {
    run.links.iter().any(|load| fabric.find(&load.below).is_some())
}

/// The machine to draw for a record.
struct LoadedMachine<'a> {
    fabric: Cow<'a, Fabric>,
    /// True when it is not known to be the machine of the record.
    is_other: bool,
}

/// The machine that was named with the record's digest, or that the record holds; else one that was named
/// with its name, or alone.
fn machine<'a>(bench: &BenchRecord, drawn: &[Drawn<'a>]) -> Option<LoadedMachine<'a>> {
    let of = |fabric| LoadedMachine { fabric: Cow::Borrowed(fabric), is_other: false };
    if let Some(same) = drawn.iter().find(|one| one.digest == bench.machine.fabric) {
        return Some(of(same.fabric));
    }
    let outline = bench.outline.as_deref().filter(|text| text.len() <= OUTLINE_MAX);
    if let Some(held) = outline.and_then(|text| Fabric::from_toml(text).ok()) {
        return Some(LoadedMachine { fabric: Cow::Owned(held), is_other: false });
    }
    let named: Vec<_> = drawn.iter().filter(|one| one.is_named).collect();
    let by_name = named.iter().find(|one| one.fabric.name == bench.machine.name);
    let chosen = match (by_name, named.as_slice()) {
        (Some(one), _) | (None, [one]) => one,
        _ => return None,
    };
    Some(LoadedMachine { is_other: true, ..of(chosen.fabric) })
}

fn figure(
    bench: &BenchRecord,
    machine: &LoadedMachine<'_>,
    (case, run): (&RanCase<'_>, &CaseRecord),
    ways: &FlowLoads,
) -> Figure {
    let fabric = machine.fabric.as_ref();
    let is_told = has_links(fabric, run);
    let loads = if is_told { &run.links } else { &ways.loads };
    let what = if is_told {
        format!("Payload that each link carries in {}", case.name())
    } else {
        format!(
            "Payload that the flows of {} put on each link, computed from their rates and paths, not counted by \
             the links",
            case.name()
        )
    };
    let total =
        run.rate().map_or_else(|| "of unknown rate".to_owned(), |found| rate(found.0 as f64));
    let which = match bench.basis {
        Basis::Predicted => format!("all flows together move {total}"),
        _ => format!("the run with the median total, {total}"),
    };
    let mut caption = format!("{}{what}: {which}.", mark(bench.basis));
    if ways.unknown > 0 && !is_told {
        caption += &format!(
            " {} left out: the machine has no drive or memory of that name.",
            match ways.unknown {
                1 => "1 flow is".to_owned(),
                several => format!("{} are", count(several, "flow")),
            }
        );
    }
    if machine.is_other {
        caption += &format!(
            " The drawing is of {}, which was named for it; the record is of a machine with another digest.",
            plain(&fabric.name)
        );
    }
    let drawing = Drawing { roles: &ways.roles, ..Drawing::of_loads(fabric, loads) };
    let art = Art::Machine {
        page: Drawing { paper: Paper::Page, ..drawing }.svg(),
        alone: Drawing { paper: Paper::Alone, note: &caption, ..drawing }.svg(),
    };
    Figure { title: format!("Load of the links, {}", path_words(case.path())), caption, art }
}
