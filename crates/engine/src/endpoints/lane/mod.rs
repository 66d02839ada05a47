//! A lane: the memory that payload rests in, the ring, source and target, stages, and the trace of it.
//!
//! A copy and a benchmark open theirs here. Memory with addresses comes from [`take_slots`] and is attached to a
//! [`Session`]. Memory of a GPU comes from a [`GpuLane`], whose ring becomes that of a session. All of them, and
//! the loader, halve what they ask for by [`fit`]; what each halves, and after which refusals, is its own. Stages are
//! opened by the caller between memory and ring: a stage that cannot work there is a reason against that memory.

mod error;
mod gpu;
mod session;
mod slots;

pub use error::LaneError;
pub(crate) use gpu::{GpuLane, GpuLaneSetup, GpuSlots, GpuWay};
pub(crate) use session::Session;
pub(crate) use slots::{SlotShape, fit, take_slots};
