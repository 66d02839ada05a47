//! Reasons why a pair is slow although nothing is wrong with it.

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_reach::{Pair, RouteState, Verdict};

/// Notes on narrow slots, and on a link that payload crosses twice.
pub(super) fn notes(fabric: &Fabric, pair: &Pair) -> Vec<String> {
    let mut ends: Vec<FunctionId> =
        pair.directions().flat_map(|one| [one.initiator, one.provider]).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut notes: Vec<String> =
        ends.into_iter().filter_map(|end| narrow_slot(fabric, end)).collect();
    notes.extend(crossed_twice(fabric, pair));
    notes
}

/// A card with more lanes than its slot, e.g. a GPU in an x4 slot of the chipset (tinygrad/open-gpu-kernel-modules #6).
fn narrow_slot(fabric: &Fabric, end: FunctionId) -> Option<String> {
    let own = fabric.function(end).link?.maximum?.width;
    let most = fabric.trainable(end)?;
    (most.width < own).then(|| {
        format!(
            "the slot of {} has {} of the {own} lanes that the card supports: at most {} in each direction",
            fabric.device_word(end),
            most.width,
            most.raw_rate()
        )
    })
}

/// Two devices below one switch whose payload goes to host memory and back (NVIDIA/nccl-tests #117 and #307).
fn crossed_twice(fabric: &Fabric, pair: &Pair) -> Option<String> {
    let one = pair.directions().next()?;
    let verdict = Verdict::best(fabric, pair)?;
    let above: Vec<FunctionId> = fabric.upward(one.provider).skip(1).collect();
    let is_switch = |id: &FunctionId| {
        above.contains(id) && fabric.function(*id).kind == FunctionKind::UpstreamPort
    };
    let switch = fabric.upward(one.initiator).skip(1).find(is_switch)?;
    (verdict.state == RouteState::Host).then(|| {
        format!(
            "through host memory payload crosses the link above {} twice, up and down, so the pair may be slower \
             than one without a common switch",
            fabric.function(switch).address_or_name()
        )
    })
}
