//! The kernel's verdict on each initiator and memory, one sample a pair up to a bound, and their counts without one.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{Detail, MapType, Matrix};

use super::gauge::Gauge;

/// Most pairs with samples of their own; a server with 32 memories and 100 initiators has fewer.
const MAX_PAIRS: u64 = 4096;

/// The verdicts in the order of their counts, by their names in `topo --json`.
const VERDICTS: [(MapType, &str); 5] = [
    (MapType::BusAddress, "bus-address"),
    (MapType::ThroughHostBridge, "through-host-bridge"),
    (MapType::NotSupported, "refused"),
    (MapType::Conditional, "conditional"),
    (MapType::Unknown, "unknown"),
];

/// Verdicts by pair, and the number of pairs by verdict.
pub(super) fn families(fabric: &Fabric) -> Vec<Gauge> {
    let mut permitted = Gauge::new(
        "peerlane_pair_permitted",
        "1 if the kernel lets the initiator reach the memory by peer-to-peer requests.",
    );
    let mut direct = Gauge::new(
        "peerlane_pair_direct",
        "1 if the kernel lets the initiator reach the memory below the host bridge.",
    );
    let matrix = Matrix::new(fabric, Detail::Grouped);
    let counts = VERDICTS.map(|(map, _)| count(fabric, &matrix, map));
    if counts.iter().sum::<u64>() <= MAX_PAIRS {
        for (initiator, memory, map) in pairs(fabric, &matrix) {
            let name = |id| fabric.function(id).address_or_name();
            let (initiator, memory) = (name(initiator), name(memory));
            let labels = [("initiator", initiator.as_str()), ("memory", memory.as_str())];
            permitted.add(&labels, is_permitted(map).map(u64::from));
            direct.add(&labels, is_direct(map).map(u64::from));
        }
    }
    let mut by_verdict = Gauge::new(
        "peerlane_pairs",
        "Pairs of an initiator and a memory, by the kernel's verdict.",
    );
    for ((_, name), count) in VERDICTS.into_iter().zip(counts) {
        by_verdict.add(&[("verdict", name)], Some(count));
    }
    vec![permitted, direct, by_verdict]
}

/// Every initiator and every memory of another function, with the verdict; a kernel without P2PDMA permits nothing.
fn pairs<'a>(
    fabric: &Fabric,
    matrix: &'a Matrix,
) -> impl Iterator<Item = (FunctionId, FunctionId, MapType)> + 'a {
    let refuses_all = fabric.kernel.has_p2pdma == Some(false);
    let verdict = move |map| if refuses_all { MapType::NotSupported } else { map };
    let cells = matrix.memories.iter().zip(&matrix.cells).flat_map(move |(memories, cells)| {
        let columns = matrix.initiators.iter().zip(cells);
        columns.map(move |(initiators, cell)| (initiators, memories, verdict(cell.map)))
    });
    let all = cells.flat_map(|(initiators, memories, map)| {
        memories.members.iter().flat_map(move |&memory| {
            initiators.members.iter().map(move |&initiator| (initiator, memory, map))
        })
    });
    all.filter(|(initiator, memory, _)| initiator != memory)
}

fn count(fabric: &Fabric, matrix: &Matrix, verdict: MapType) -> u64 {
    pairs(fabric, matrix).map(|(.., map)| u64::from(map == verdict)).sum()
}

fn is_permitted(map: MapType) -> Option<bool> {
    match map {
        MapType::BusAddress | MapType::ThroughHostBridge => Some(true),
        MapType::NotSupported => Some(false),
        MapType::Conditional | MapType::Unknown => None,
    }
}

/// Returns whether a pair is direct: one that depends on the CPU goes through the host bridge, or not at all.
fn is_direct(map: MapType) -> Option<bool> {
    (map != MapType::Unknown).then_some(map == MapType::BusAddress)
}
