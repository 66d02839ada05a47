//! Memory for slots, fewer of them if there is no room for all.

use std::path::Path;

use peerlane_memory::Region;
use peerlane_results::{MemoryFacts, MemoryKind};
use peerlane_units::Bytes;

use super::LaneError;
use crate::endpoints::machine::Machine;
use crate::io::device_memory;

/// Slots of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotShape {
    pub(crate) slots: u32,
    /// Bytes from one slot to the next.
    pub(crate) stride: u64,
}

impl SlotShape {
    /// Bytes of all slots.
    pub(crate) fn memory(self) -> Bytes {
        Bytes(self.stride.saturating_mul(u64::from(self.slots)))
    }

    /// Half as many slots; `None` for one.
    fn halved(self) -> Option<Self> {
        (self.slots > 1).then_some(Self { slots: self.slots / 2, ..self })
    }
}

/// Takes something of a size. After a refusal it tries the size that `smaller` returns; `None` makes the refusal final.
pub(crate) fn fit<S, T, E>(
    mut size: S,
    mut take: impl FnMut(&S) -> Result<T, E>,
    mut smaller: impl FnMut(&S, &E) -> Option<S>,
) -> Result<(T, S), E> {
    loop {
        match take(&size) {
            Ok(taken) => return Ok((taken, size)),
            Err(refusal) => size = smaller(&size, &refusal).ok_or(refusal)?,
        }
    }
}

/// Takes slots in the memory that the facts name: in host memory all of them, in that of a device
/// as many as there is a free run for. If a kernel of an image is named, the slots lie in the
/// card's memory that it reaches.
///
/// # Errors
/// [`LaneError::Host`] or [`LaneError::Device`].
pub(crate) fn take_slots(
    machine: &dyn Machine,
    memory: &MemoryFacts,
    image: Option<(&Path, &str)>,
    shape: SlotShape,
) -> Result<(Region, SlotShape), LaneError> {
    let address = memory.address.as_ref().filter(|_| memory.kind != MemoryKind::Host);
    let Some(address) = address else {
        return Ok((machine.host_memory(shape.memory())?, shape));
    };
    let taken = fit(
        shape,
        |shape| match image {
            Some(image) => device_memory::of_kernel(address, image, shape.memory()),
            None => machine.device_memory(memory, address, shape.memory()),
        },
        |shape, refusal| refusal.is_for_want_of_room().then(|| shape.halved())?,
    );
    Ok(taken?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_halves_slots_until_taken_or_one_refused() {
        let shape = SlotShape { slots: 8, stride: 4096 };
        for (room, expected) in [(8, Ok(8)), (7, Ok(4)), (1, Ok(1)), (0, Err(1))] {
            let take = |one: &SlotShape| if one.slots <= room { Ok(()) } else { Err(one.slots) };
            let taken = fit(shape, take, |one, _| one.halved());
            assert_eq!(taken.map(|(_, one)| one.slots), expected, "{room}");
        }
    }
}
