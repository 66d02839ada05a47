//! Checks of rates against the capacity of the objects that flows cross.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_engine::links_between;
use peerlane_fabric::{Fabric, FunctionId};
use peerlane_results::{CaseRecord, Limit};
use peerlane_units::{ByteRate, Bytes, Nanos};

use super::{Ceiling, Firmness, FlowPath, Nonsense};

/// A limit that was measured or stated is a little uncertain: drives are specified to two digits, and
/// a measured rate varies between runs.
const TOLERANCE_PERCENT: u128 = 5;

pub(super) fn check(case: &CaseRecord, ceilings: &[Ceiling]) -> Result<(), Nonsense> {
    ceilings.iter().try_for_each(|ceiling| below(case, ceiling))?;
    // With one flow, every limit of the case is a limit of that flow.
    if case.flows.len() != 1 {
        return Ok(());
    }
    let Some(limit) = case.limits.iter().min_by_key(|limit| limit.bytes_per_second) else {
        return Ok(());
    };
    let ceiling = Ceiling { limit: limit.clone(), flows: vec![0], firmness: Firmness::Stated };
    below(case, &ceiling)
}

/// Checks the payload of all flows that cross an object against its ceiling, over the time of
/// crossing.
///
/// The time is that of the whole case if several cross, and that of the flow if one does; a rate
/// over a shorter time than the payload took would not be one.
fn below(case: &CaseRecord, ceiling: &Ceiling) -> Result<(), Nonsense> {
    let crossing: Vec<_> =
        ceiling.flows.iter().filter_map(|&position| case.flows.get(position)).collect();
    let bytes = crossing.iter().map(|flow| flow.bytes.0).fold(0, u64::saturating_add);
    let time = match crossing[..] {
        [alone] => alone.elapsed_ns,
        _ => case.elapsed_ns,
    };
    let limit = ceiling.limit.bytes_per_second;
    let tolerated = match ceiling.firmness {
        Firmness::Physical => u128::from(limit.0),
        Firmness::Stated => u128::from(limit.0) * (100 + TOLERANCE_PERCENT) / 100,
    };
    // Multiplied out: a rate of few nanoseconds does not fit its type.
    if u128::from(bytes) * 1_000_000_000 <= tolerated * u128::from(time.0) {
        return Ok(());
    }
    let case_name = case.asked.name.clone();
    if time == Nanos(0) {
        return Err(Nonsense::NoTime { case: case_name, bytes: Bytes(bytes) });
    }
    let rate = ByteRate::mean(Bytes(bytes), time).unwrap_or(ByteRate(u64::MAX));
    let object = ceiling.limit.object.clone();
    Err(Nonsense::AboveLimit { case: case_name, rate, object, limit })
}

/// The raw rate of every link that flows cross, by direction.
///
/// Reading a source sends payload up its links and down those of the memory; writing a target the
/// other way round. A link that saves power while it is idle counts with the rate that it can train
/// to.
pub(super) fn on_the_ways(fabric: &Fabric, ways: &[FlowPath]) -> Vec<Ceiling> {
    let mut flows: BTreeMap<(FunctionId, LinkUse), BTreeSet<usize>> = BTreeMap::new();
    for (position, way) in ways.iter().enumerate() {
        for (end, leg) in [(way.source, LinkUse::Reading), (way.target, LinkUse::Writing)] {
            let Some(end) = end else { continue };
            for id in links_between(fabric, end, way.memory) {
                flows.entry((id, leg_of(fabric, id, end, leg))).or_default().insert(position);
            }
        }
    }
    let ceiling = |((id, leg), flows): ((FunctionId, LinkUse), BTreeSet<usize>)| {
        let function = fabric.function(id);
        let speed = match function.link?.speed() {
            _ if fabric.may_save_power(id) => fabric.trainable(id),
            speed => speed,
        };
        let direction = match leg {
            LinkUse::Reading => "upwards",
            LinkUse::Writing => "downwards",
        };
        let object = format!("the link of {}, {direction}", function.name);
        let limit = Limit { object, bytes_per_second: speed?.raw_rate() };
        let flows = flows.into_iter().collect();
        Some(Ceiling { limit, flows, firmness: Firmness::Physical })
    };
    let mut ceilings: Vec<Ceiling> = flows.into_iter().filter_map(ceiling).collect();
    ceilings.sort_by_key(|ceiling| ceiling.limit.bytes_per_second);
    ceilings
}

/// Direction of payload on a link: out of a device and upwards, or down and into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkUse {
    Reading,
    Writing,
}

/// On the side of the memory the direction is the opposite of that at the end.
fn leg_of(fabric: &Fabric, link: FunctionId, end: FunctionId, leg: LinkUse) -> LinkUse {
    let is_above_end = fabric.upward(end).any(|above| above == link);
    match (is_above_end, leg) {
        (true, leg) => leg,
        (false, LinkUse::Reading) => LinkUse::Writing,
        (false, LinkUse::Writing) => LinkUse::Reading,
    }
}
