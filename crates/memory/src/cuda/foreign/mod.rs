//! Memory of another library on a GPU: one in the same process that has the primary context, too.
//!
//! An address is believed only after the driver said that the whole range lies in one allocation of
//! that GPU. It can still be freed by its owner, whom [`Foreign`] keeps for that reason.

#[allow(unsafe_code)]
mod ffi;

pub use ffi::{Foreign, KeptContext};

use peerlane_units::Bytes;

use super::CudaError;

/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u64 = 2;

/// Work on a memory that its owner has asked of the GPU, and that may not be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnersWork {
    /// None.
    None,
    /// Work of one stream, by the driver's handle; 1 and 2 are its two default streams.
    Stream(u64),
    /// Any, since the owner does not say.
    All,
}

/// The driver's attributes of an address.
#[derive(Debug, Clone, Copy)]
struct Told {
    kind: u64,
    ordinal: i32,
    context: u64,
    start: u64,
    size: u64,
}

/// Refuses a range that does not lie within one allocation of a GPU, by the driver's attributes.
fn judge(address: u64, length: Bytes, told: Told) -> Result<(), CudaError> {
    let refused = |why| CudaError::NotOfAGpu { address, length, why };
    if told.kind != DEVICE {
        return Err(refused("it is not memory of a GPU"));
    }
    let end = address.checked_add(length.0).ok_or(refused("it has no end"))?;
    let allocation_end = told.start.checked_add(told.size);
    let is_within = address >= told.start && allocation_end.is_some_and(|last| end <= last);
    if is_within { Ok(()) } else { Err(refused("it reaches beyond its allocation")) }
}
