//! Memory of Python objects as memory that a ring or a GPU's copy engine may be lent; nothing else.
//!
//! The owner of the memory (a `Py_buffer`, a DLPack tensor) is kept until the last request on it is over,
//! even where that is for ever. As with `readinto` of Python's own files, threads of the caller that look
//! at the bytes meanwhile see old or new ones.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use peerlane::Lent;
use peerlane::cuda::{Foreign, OwnersWork};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::buffer::bad;
use crate::error::ErrorDetails;

/// The memory of a buffer that is writable and without gaps.
pub(crate) fn lend_buffer(buffer: PyUntypedBuffer) -> Lent {
    let length = buffer.len_bytes();
    let address = NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
    // SAFETY: while a `Py_buffer` is held its exporter may not move or free the memory (PEP 3118), and it
    // is released only when the owner is dropped. The callers have checked that it is writable and
    // contiguous. It is host memory that Rust has no reference to.
    unsafe { Lent::new(address, length, Arc::new(buffer)) }
}

/// Memory of a GPU with the work that its object says may still be done on it.
pub(crate) fn with_work(memory: Foreign, work: OwnersWork) -> Foreign {
    // SAFETY: by version 3 of the CUDA Array Interface, and by PyTorch of its own streams, the handle is that of a stream
    // which the object keeps; the object is kept with the memory. As for its address, an object that lies about this can
    // end the process, as any other user of the interface finds.
    unsafe { memory.with_work(work) }
}

/// `DLDevice` of `dlpack.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    index: i32,
}

/// `DLDataType` of `dlpack.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor` of `dlpack.h`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    kind: DataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor` of `dlpack.h`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// Offsets and sizes of `dlpack.h` on machines of 64 bits.
const _: () = {
    assert!(size_of::<Tensor>() == 48 && size_of::<Managed>() == 64);
    assert!(std::mem::offset_of!(Tensor, dimensions) == 16);
    assert!(std::mem::offset_of!(Tensor, shape) == 24);
    assert!(std::mem::offset_of!(Tensor, byte_offset) == 40);
};

/// Names of a capsule before and after a consumer took the tensor (DLPack's Python specification).
const FRESH: &CStr = c"dltensor";
const TAKEN: &CStr = c"used_dltensor";

/// A tensor that was taken out of its capsule, and is deleted in the end.
struct Taken(NonNull<Managed>);

// SAFETY: DLPack lets a consumer use and delete a tensor on any thread; here only `drop` touches it after
// it was looked at.
unsafe impl Send for Taken {}

// SAFETY: as above; a shared `Taken` gives access to nothing.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // Deleters of NumPy and others drop references to Python objects.
        Python::attach(|_| {
            let managed = self.0.as_ptr();
            // SAFETY: the tensor was taken out of its capsule by name, so only this deletes it.
            let deleter = unsafe { (*managed).deleter };
            if let Some(deleter) = deleter {
                // SAFETY: it is the producer's deleter for this very tensor, and called once.
                unsafe { deleter(managed) };
            }
        });
    }
}

/// The memory of a tensor in a DLPack capsule.
///
/// # Errors
/// When the capsule holds no tensor of host memory without gaps, or was used already.
pub(crate) fn lend_tensor(capsule: &Bound<'_, PyCapsule>) -> Result<Lent, ErrorDetails> {
    let used = || bad("its DLPack capsule holds no tensor, or was used already".to_owned());
    let managed = capsule.pointer_checked(Some(FRESH)).map_err(|_| used())?.cast::<Managed>();
    // SAFETY: the capsule is alive, and the new name is a constant that outlives it. After this its own
    // destructor leaves the tensor alone.
    let renamed = unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), TAKEN.as_ptr()) };
    if renamed != 0 {
        return Err(used());
    }
    let taken = Taken(managed);
    // SAFETY: a capsule of this name holds a `DLManagedTensor`, which is there until it is deleted.
    let tensor = unsafe { &(*managed.as_ptr()).tensor };
    let length = contiguous_length(tensor)
        .ok_or_else(|| bad("its DLPack tensor has gaps, or no size in bytes".to_owned()))?;
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| used())?;
    let address = NonNull::new(tensor.data.cast::<u8>().wrapping_add(offset));
    let address = match address {
        Some(address) => address,
        None if length == 0 => NonNull::dangling(),
        None => return Err(used()),
    };
    // SAFETY: the producer keeps as many bytes from there until the tensor is deleted, which happens when
    // the owner is dropped. Its device is host memory by `__dlpack_device__`, and Rust has no reference
    // to it.
    Ok(unsafe { Lent::new(address, length, Arc::new(taken)) })
}

/// Bytes of a tensor that lies in memory as C would have it; `None` for any other.
fn contiguous_length(tensor: &Tensor) -> Option<usize> {
    let dimensions = usize::try_from(tensor.dimensions).ok()?;
    let list = |numbers: *const i64| {
        if dimensions == 0 || numbers.is_null() {
            return &[][..];
        }
        // SAFETY: shape and strides, where they are there, have a number for each dimension.
        unsafe { std::slice::from_raw_parts(numbers, dimensions) }
    };
    let (shape, strides) = (list(tensor.shape), list(tensor.strides));
    if shape.len() != dimensions {
        return None;
    }
    if shape.contains(&0) {
        return Some(0);
    }
    let bits = usize::from(tensor.kind.bits).checked_mul(usize::from(tensor.kind.lanes))?;
    let mut elements = 1_usize;
    for index in (0..dimensions).rev() {
        let size = usize::try_from(shape[index]).ok()?;
        let stride = strides.get(index).map(|&stride| usize::try_from(stride));
        if size > 1 && stride.is_some_and(|stride| stride != Ok(elements)) {
            return None;
        }
        elements = elements.checked_mul(size)?;
    }
    (bits % 8 == 0).then(|| elements.checked_mul(bits / 8))?
}
