//! Memory of a GPU as a Python object describes it, by version 2 or later of the CUDA Array Interface of Numba.
//!
//! Only the form of an object's claims is checked here: the driver decides whether such memory
//! exists.

use std::sync::Arc;

use peerlane::Bytes;
use peerlane::cuda::{Cuda, CudaError, Foreign, OwnersWork};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::buffer::bad;
use crate::error::{ErrorDetails, ExceptionKind};
use crate::ffi;

/// The oldest version that defines the keys.
const VERSION: u64 = 2;
/// The first that names a stream.
const VERSION_WITH_STREAM: u64 = 3;
/// `CU_STREAM_LEGACY`.
const DEFAULT_STREAM: u64 = 1;
/// Kinds of elements that are bytes and nothing else; `O` would be addresses of Python objects.
const KINDS: &str = "biufcmMSUV";
/// More dimensions than NumPy or PyTorch have.
const DIMENSIONS: usize = 64;

/// Memory on a GPU as an object has it.
#[derive(Debug)]
pub(crate) struct GpuMemory {
    address: u64,
    pub(crate) length: u64,
    /// Work that its owner may still do on it.
    work: OwnersWork,
    /// The object.
    owner: Py<PyAny>,
}

/// The memory of an object, by its `__cuda_array_interface__`.
///
/// # Errors
/// The fault in that interface.
pub(crate) fn gpu_memory(target: &Bound<'_, PyAny>) -> PyResult<GpuMemory> {
    let interface = target.getattr("__cuda_array_interface__")?;
    let interface = interface.cast_into::<PyDict>();
    let interface = interface.map_err(|_| odd("it is not a dict"))?;
    let version = number(&interface, "version")?;
    if version < VERSION {
        return Err(odd(format!("version {version} is older than {VERSION}")).into());
    }
    if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(odd("it has a mask").into());
    }
    let shape = numbers(&get(&interface, "shape")?, "shape")?;
    let typestr = get(&interface, "typestr")?;
    let typestr = typestr.cast_into::<PyString>().map_err(|_| odd("typestr is not text"))?;
    let item = item_size(&typestr.to_cow()?)?;
    // A dimension of none makes the others mean nothing, however large they are.
    let first = if shape.contains(&0) { 0 } else { item };
    let length = shape.iter().try_fold(first, |bytes: u64, &size| bytes.checked_mul(size));
    let length = length.filter(|&length| i64::try_from(length).is_ok());
    let length = length.ok_or_else(|| odd("it is larger than any memory"))?;
    if let Some(strides) = interface.get_item("strides")?.filter(|strides| !strides.is_none()) {
        let strides = numbers(&strides, "strides")?;
        if length > 0 && !is_contiguous(&shape, &strides, item) {
            return Err(bad("it has gaps or another order than C's".to_owned()).into());
        }
    }
    let address = address(&interface)?;
    let work = work(target, &interface, version)?;
    Ok(GpuMemory { address, length, work, owner: target.clone().unbind() })
}

/// The work that may still be done on the memory: by version 3 of the interface in the stream that
/// it names, if any; by PyTorch, which shows version 2, in its current stream; by others anywhere.
fn work(
    target: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
    version: u64,
) -> PyResult<OwnersWork> {
    if version >= VERSION_WITH_STREAM {
        return match interface.get_item("stream")?.filter(|stream| !stream.is_none()) {
            None => Ok(OwnersWork::None),
            Some(stream) => match stream.extract::<u64>() {
                Ok(0) | Err(_) => Err(odd("stream is not a CUDA stream").into()),
                Ok(stream) => Ok(OwnersWork::Stream(stream)),
            },
        };
    }
    let module = target.get_type().module()?.to_string();
    if module != "torch" && !module.starts_with("torch.") {
        return Ok(OwnersWork::All);
    }
    let cuda = target.py().import("torch")?.getattr("cuda")?;
    let current = cuda.call_method1("current_stream", (target.getattr("device")?,))?;
    let stream = current.getattr("cuda_stream")?.extract::<u64>()?;
    // The default stream is that of the whole context.
    Ok(OwnersWork::Stream(stream.max(DEFAULT_STREAM)))
}

/// The address, of memory that may be written.
fn address(interface: &Bound<'_, PyDict>) -> PyResult<u64> {
    let data = get(interface, "data")?.cast_into::<PyTuple>();
    let data = data.map_err(|_| odd("data is not a tuple"))?;
    if data.len() != 2 {
        return Err(odd("data is not a pair").into());
    }
    let is_read_only = data.get_item(1)?.cast_into::<PyBool>();
    if is_read_only.map_err(|_| odd("data does not say whether it is read only"))?.is_true() {
        return Err(bad("it is read only".to_owned()).into());
    }
    let address = data.get_item(0)?.extract::<u64>();
    Ok(address.map_err(|_| odd("data has no address"))?)
}

fn odd(why: impl std::fmt::Display) -> ErrorDetails {
    bad(format!("its __cuda_array_interface__ is malformed: {why}"))
}

fn get<'py>(interface: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(interface.get_item(key)?.ok_or_else(|| odd(format!("{key} is missing")))?)
}

fn number(interface: &Bound<'_, PyDict>, key: &str) -> PyResult<u64> {
    let number = get(interface, key)?.extract::<u64>();
    Ok(number.map_err(|_| odd(format!("{key} is not a number")))?)
}

fn numbers(tuple: &Bound<'_, PyAny>, key: &str) -> PyResult<Vec<u64>> {
    let tuple = tuple.cast::<PyTuple>().map_err(|_| odd(format!("{key} is not a tuple")))?;
    if tuple.len() > DIMENSIONS {
        return Err(odd(format!("{key} has more than {DIMENSIONS} dimensions")).into());
    }
    let numbers = tuple.iter().map(|number| number.extract::<u64>());
    let numbers = numbers.collect::<PyResult<Vec<u64>>>();
    Ok(numbers.map_err(|_| odd(format!("{key} has an entry that is not a size")))?)
}

/// Bytes of an element: `<f4` has 4.
fn item_size(typestr: &str) -> Result<u64, ErrorDetails> {
    let refused = || odd("typestr is not a plain number type");
    let rest = typestr.strip_prefix(['<', '>', '|', '=']).ok_or_else(refused)?;
    let kind = rest.chars().next().filter(|kind| KINDS.contains(*kind)).ok_or_else(refused)?;
    let digits = &rest[kind.len_utf8()..];
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let size = digits.parse::<u64>().ok().filter(|&size| is_number && size > 0);
    let size = size.ok_or_else(refused)?;
    // NumPy counts characters of four bytes.
    if kind == 'U' { size.checked_mul(4).ok_or_else(refused) } else { Ok(size) }
}

/// Returns whether strides, in bytes, are in C order; for memory that is not empty.
fn is_contiguous(shape: &[u64], strides: &[u64], item: u64) -> bool {
    let mut expected = Some(item);
    let pairs = shape.iter().zip(strides).rev();
    shape.len() == strides.len()
        && pairs.into_iter().all(|(&size, &stride)| {
            let fits = size == 1 || expected == Some(stride);
            expected = expected.and_then(|bytes| bytes.checked_mul(size));
            fits
        })
}

impl GpuMemory {
    /// The same, as the driver knows it.
    ///
    /// # Errors
    /// When there is no driver or GPU, or no such memory.
    pub(crate) fn lend(self) -> Result<Foreign, ErrorDetails> {
        let cuda = Cuda::load().map_err(refused)?;
        let owner = Arc::new(self.owner);
        let memory = cuda.foreign(self.address, Bytes(self.length), owner).map_err(refused)?;
        Ok(ffi::with_work(memory, self.work))
    }
}

fn refused(error: CudaError) -> ErrorDetails {
    let what = "read into memory of a GPU";
    if matches!(error, CudaError::NotOfAGpu { .. }) {
        return ErrorDetails::tried(ExceptionKind::BadInput, what, &error);
    }
    if !error.is_missing() {
        return ErrorDetails::tried(ExceptionKind::Failed, what, &error).hint(error.hint());
    }
    let hint = "read into host memory and hand it to the device: numpy.empty, read_into, then \
                torch.from_numpy(...).cuda() or cupy.asarray(...)";
    let hint = error.hint().map_or_else(|| hint.to_owned(), |first| format!("{first}; {hint}"));
    ErrorDetails::tried(ExceptionKind::CudaUnavailable, what, &error).hint(Some(hint))
}

/// Memory of a GPU that its object tells by DLPack alone.
pub(crate) fn by_dlpack_alone(device: i64) -> ErrorDetails {
    bad(format!("its memory is on CUDA device {device}, and it has no __cuda_array_interface__"))
        .hint(Some("cupy.from_dlpack(...) or torch.from_dlpack(...) makes an object that has one"))
}
