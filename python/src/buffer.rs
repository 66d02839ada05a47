//! Memory to read into, handed over by a caller: the buffer protocol, DLPack, or CUDA memory.

use peerlane::Lent;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::cuda::{self, GpuMemory};
use crate::error::{ErrorDetails, ExceptionKind};
use crate::ffi;

/// Device types of DLPack (`DLDeviceType` of `dlpack.h`, version 1.0).
const CPU: i64 = 1;
const CUDA: i64 = 2;
const CUDA_HOST: i64 = 3;
const CUDA_MANAGED: i64 = 13;

/// Memory of an object, on the host or on a GPU.
pub(crate) enum BufferTarget {
    Host(Lent),
    Gpu(GpuMemory),
}

/// The memory of an object, for as long as the result is kept.
///
/// # Errors
/// When it is read only, has gaps, or is nothing that can be read into.
pub(crate) fn lend(target: &Bound<'_, PyAny>) -> PyResult<BufferTarget> {
    // An object with this attribute says that its memory is on a device, whatever else it has.
    if target.hasattr("__cuda_array_interface__")? {
        return cuda::gpu_memory(target).map(BufferTarget::Gpu);
    }
    lend_host(target).map(BufferTarget::Host)
}

fn lend_host(target: &Bound<'_, PyAny>) -> PyResult<Lent> {
    if target.hasattr("__dlpack_device__")? {
        let (kind, index): (i64, i64) = target.call_method0("__dlpack_device__")?.extract()?;
        match kind {
            CPU | CUDA_HOST => {}
            CUDA | CUDA_MANAGED => return Err(cuda::by_dlpack_alone(index).into()),
            kind => return Err(bad(format!("DLPack device type {kind} is not host memory")).into()),
        }
    }
    if let Ok(buffer) = PyUntypedBuffer::get(target) {
        return of_buffer(buffer);
    }
    if target.hasattr("__dlpack__")? {
        let capsule = target
            .call_method0("__dlpack__")
            .map_err(|error| bad(error.value(target.py()).to_string()))?;
        let capsule = capsule.cast_into::<PyCapsule>().map_err(PyErr::from)?;
        return Ok(ffi::lend_tensor(&capsule)?);
    }
    let kind = target.get_type().name()?.to_string();
    Err(bad(format!("a {kind} has neither the buffer protocol nor __dlpack__")).into())
}

fn of_buffer(buffer: PyUntypedBuffer) -> PyResult<Lent> {
    if buffer.readonly() {
        return Err(bad("it is read only".to_owned()).into());
    }
    if has_references(buffer.format().to_bytes()) {
        return Err(bad("its items are Python objects".to_owned()).into());
    }
    if !buffer.is_c_contiguous() {
        return Err(bad("it has gaps or another order than C's".to_owned()).into());
    }
    Ok(ffi::lend_buffer(buffer))
}

/// Tests a format of the buffer protocol for pointers to objects (PEP 3118: `O`, outside of `:names:`).
fn has_references(format: &[u8]) -> bool {
    format.split(|byte| *byte == b':').step_by(2).any(|codes| codes.contains(&b'O'))
}

/// Something that cannot be read into.
pub(crate) fn bad(why: String) -> ErrorDetails {
    ErrorDetails::new(ExceptionKind::BadInput, format!("cannot read into this object: {why}"))
}
