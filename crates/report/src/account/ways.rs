//! Links that the flows of a run crossed, with the payload on each.
//!
//! No link counts payload where a run is measured: the figures here follow from the bytes of each
//! flow, the time of the run and the paths between functions. A flow whose ends or memory the
//! machine does not have by name is left out and counted, never guessed.

use std::collections::BTreeMap;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind, Parent, ProviderKind};
use peerlane_reach::MapType;
use peerlane_results::{Basis, CaseRecord, Direction, Flow, FlowRecord, LinkLoad};
use peerlane_units::{ByteRate, Bytes};

/// Folders that devices are in.
const FOLDERS: [&str; 2] = ["/dev/lab/", "/dev/"];

/// Payload of the flows of a run on links.
#[derive(Debug, Default)]
pub(super) struct FlowLoads {
    pub(super) loads: Vec<LinkLoad>,
    /// Roles of functions, in words, by function.
    pub(super) roles: Vec<(FunctionId, String)>,
    /// Flows whose way is unknown.
    pub(super) unknown: usize,
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnEnd {
    /// A drive, which reads or writes by DMA.
    Drive(FunctionId),
    /// Memory: nothing else is crossed.
    Memory,
    Unknown,
}

/// Number of times that a function was source, target and memory.
type Tally = BTreeMap<FunctionId, [usize; 3]>;

impl FlowLoads {
    /// Of a run on a machine.
    pub(super) fn new(fabric: &Fabric, run: &CaseRecord, basis: Basis) -> Self {
        let mut carried: BTreeMap<FunctionId, [u128; 2]> = BTreeMap::new();
        let (mut tally, mut unknown) = (Tally::new(), 0);
        for (asked, done) in run.asked.flows.iter().zip(&run.flows) {
            let Some(legs) = legs(fabric, asked, done, &mut tally) else {
                unknown += 1;
                continue;
            };
            for (from, to, bytes) in legs {
                for (link, direction) in crossed(fabric, from, to) {
                    carried.entry(link).or_default()[direction] += u128::from(bytes.0);
                }
            }
        }
        let rate = |bytes: u128| {
            let bytes = Bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
            ByteRate::mean(bytes, run.elapsed_ns).unwrap_or_default()
        };
        let loads = carried.into_iter().flat_map(|(id, [up, down])| {
            [(Direction::Up, up), (Direction::Down, down)]
                .into_iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(move |(direction, bytes)| LinkLoad {
                    below: fabric.function(id).name.clone(),
                    other_end: None,
                    direction,
                    payload: rate(bytes),
                    ceiling: ceiling(fabric, id, basis),
                    busy: None,
                })
        });
        Self { loads: loads.collect(), roles: words(tally), unknown }
    }
}

/// The raw rate of a link; zero on an emulator, whose links have no speed.
fn ceiling(fabric: &Fabric, id: FunctionId, basis: Basis) -> ByteRate {
    let trained = || match fabric.function(id).link?.speed() {
        _ if fabric.may_save_power(id) => fabric.trainable(id),
        speed => speed,
    };
    let speed = if basis == Basis::Emulated { None } else { trained() };
    speed.map_or(ByteRate(0), peerlane_fabric::LinkSpeed::raw_rate)
}

/// From where to where a flow's payload goes by DMA, `None` for host memory, and how much.
type Leg = (Option<FunctionId>, Option<FunctionId>, Bytes);

/// The legs of a flow, or `None` where one of its places is unknown.
fn legs(fabric: &Fabric, asked: &Flow, done: &FlowRecord, tally: &mut Tally) -> Option<Vec<Leg>> {
    let places = done.places.as_ref();
    let source = end(fabric, places.map(|one| one.source.as_deref()), &asked.source);
    let target = end(fabric, places.map(|one| one.target.as_deref()), &asked.target);
    let between = done.bytes_by_route.p2p > Bytes::ZERO;
    let memory = if between { Some(memory(fabric, asked, done)?) } else { None };
    let mut legs = Vec::new();
    let routes = [(memory, done.bytes_by_route.p2p), (None, done.bytes_by_route.host)];
    for (rests, bytes) in routes.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO) {
        match source {
            DrawnEnd::Drive(source) => legs.push((Some(source), rests, bytes)),
            DrawnEnd::Memory => {}
            DrawnEnd::Unknown => return None,
        }
        match target {
            DrawnEnd::Drive(target) => legs.push((rests, Some(target), bytes)),
            DrawnEnd::Memory => {}
            DrawnEnd::Unknown => return None,
        }
    }
    for (index, end) in
        [source, target, memory.map_or(DrawnEnd::Memory, DrawnEnd::Drive)].iter().enumerate()
    {
        if let DrawnEnd::Drive(id) = end {
            tally.entry(*id).or_default()[index] += 1;
        }
    }
    Some(legs)
}

/// An end by its name in the record, else by the typed one.
fn end(fabric: &Fabric, named: Option<Option<&str>>, typed: &str) -> DrawnEnd {
    if typed == "null" || ProviderKind::split(typed).is_some() {
        return DrawnEnd::Memory;
    }
    let found = match named {
        Some(name) => name.and_then(|name| fabric.find(name)),
        None => fabric.find(bare(typed)),
    };
    found.map_or(DrawnEnd::Unknown, DrawnEnd::Drive)
}

/// The memory of a device that payload rested in, by the same.
fn memory(fabric: &Fabric, asked: &Flow, done: &FlowRecord) -> Option<FunctionId> {
    if let Some(places) = &done.places {
        return fabric.find(places.memory.as_deref()?);
    }
    let typed =
        [asked.via.as_deref(), Some(&asked.source), Some(&asked.target), Some(&done.memory)];
    let is_memory = |id: &FunctionId| fabric.memory(*id).is_some();
    typed.into_iter().flatten().find_map(|text| {
        let name = ProviderKind::split(text).map_or(text, |(_, name)| name);
        fabric.find(name).filter(is_memory)
    })
}

fn bare(typed: &str) -> &str {
    FOLDERS.iter().find_map(|folder| typed.strip_prefix(folder)).unwrap_or(typed)
}

/// The links that payload crosses, by the function below each, with 0 for upwards and 1 for downwards.
fn crossed(
    fabric: &Fabric,
    from: Option<FunctionId>,
    to: Option<FunctionId>,
) -> Vec<(FunctionId, usize)> {
    let above = |id: Option<FunctionId>| -> Vec<FunctionId> {
        id.map_or_else(Vec::new, |id| fabric.upward(id).collect())
    };
    let (mut up, mut down) = (above(from), above(to));
    if let Some((from, to)) = from.zip(to) {
        // Without the host bridge it turns round at the nearest port above both.
        if peerlane_reach::decide(fabric, to, from).map != MapType::ThroughHostBridge {
            let both = up.iter().rev().zip(down.iter().rev()).take_while(|(a, b)| a == b).count();
            up.truncate(up.len() - both);
            down.truncate(down.len() - both);
        }
    }
    let up = up.into_iter().map(|id| (id, 0));
    let down = down.into_iter().map(|id| (id, 1));
    up.chain(down).filter(|(id, _)| has_link(fabric, *id)).collect()
}

/// Tests whether there is a link above a function: not inside a switch or the processor.
fn has_link(fabric: &Fabric, id: FunctionId) -> bool {
    let function = fabric.function(id);
    match function.parent {
        _ if function.link.is_some() => true,
        Parent::Bridge(_) => false,
        Parent::Function(port) => {
            matches!(
                fabric.function(port).kind,
                FunctionKind::RootPort | FunctionKind::DownstreamPort
            )
        }
    }
}

/// Roles of functions: `source`, `source of 3`, `target, memory`.
fn words(tally: Tally) -> Vec<(FunctionId, String)> {
    let one = |(name, times): (&str, usize)| match times {
        0 => None,
        1 => Some(name.to_owned()),
        times => Some(format!("{name} of {times}")),
    };
    let all = |times: [usize; 3]| -> Vec<String> {
        ["source", "target", "memory"].into_iter().zip(times).filter_map(one).collect()
    };
    tally.into_iter().map(|(id, times)| (id, all(times).join(", "))).collect()
}

#[cfg(test)]
mod tests;
