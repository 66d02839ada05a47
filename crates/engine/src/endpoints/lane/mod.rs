//! A lane: memory with its slots, the ring, source and target, stages, and the trace of it.
//!
//! A copy and a benchmark open theirs here. [`take_slots`] takes memory that has addresses, and a [`Session`] attaches it.
//! Memory of a GPU comes with a [`GpuLane`], whose ring becomes that of a session; a [`GpuSide`]
//! stays next to the ring. [`fit`] is the one loop that takes less after a refusal, for the loader,
//! too; its callers differ in the size that they cut, and in the refusals that they retry. Stages
//! are opened by the caller between memory and ring: a stage that cannot work there is a reason
//! against that memory.

mod error;
mod gpu;
mod session;
mod side;
mod slots;

pub use error::LaneError;
pub(crate) use gpu::{GpuLane, GpuSlots, GpuWay, LaneRequests, OpenGpu};
pub(crate) use session::Session;
pub(crate) use side::{GpuSide, RouteFault};
pub(crate) use slots::{SlotShape, fit, take_slots};
