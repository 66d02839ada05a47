//! Ranges of several files into memory of one GPU, as one load.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;

use peerlane::cuda::{Foreign, GpuTarget};
use peerlane::load::{
    LoadError, LoadFile, LoadPart, LoadRoutes, LoadSettings, Loader, PartError, PinnedPool,
    ReadTools,
};
use peerlane::read::{ReadError, Reading};
use peerlane::{Bytes, MonotonicClock, Nanos, Phase, RouteChoice, Watch as _};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::buffer::{self, BufferTarget, bad};
use crate::cuda::GpuMemory;
use crate::error::{ErrorDetails, ExceptionKind};
use crate::reader::counts;
use crate::watch::PyWatch;

/// A file, the offset in it, and the memory that is filled from there on.
struct PyPart {
    path: PathBuf,
    offset: u64,
    memory: GpuMemory,
}

/// The bound of pinned memory that a caller says.
///
/// # Errors
/// When it is not a size.
pub(crate) fn pinned(text: Option<&str>) -> Result<Option<Bytes>, ErrorDetails> {
    let Some(text) = text else { return Ok(None) };
    let size = Bytes::from_str(text).ok().filter(|size| *size > Bytes::ZERO);
    let refused = || {
        let words = format!("pinned: a size such as 128M is needed, not {text:?}");
        ErrorDetails::new(ExceptionKind::BadInput, words)
    };
    size.map(Some).ok_or_else(refused)
}

/// Bounds of a load.
pub(crate) fn settings(pinned: Option<Bytes>) -> Result<LoadSettings, ErrorDetails> {
    LoadSettings::here(pinned).map_err(|error| {
        ErrorDetails::tried(ExceptionKind::BadInput, "load", &error).hint(error.hint())
    })
}

/// Fills memories of a GPU; bytes of each by the way they came.
#[pyfunction]
pub(crate) fn load_to_gpu<'py>(
    py: Python<'py>,
    parts: Vec<(PathBuf, u64, Bound<'py, PyAny>)>,
    timeout: u64,
    pinned: Option<String>,
    progress: Option<Py<PyAny>>,
    warn: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let settings = settings(self::pinned(pinned.as_deref())?)?;
    let parts = parts.into_iter().map(|(path, offset, target)| match buffer::lend(&target)? {
        BufferTarget::Gpu(memory) => Ok(PyPart { path, offset, memory }),
        BufferTarget::Host(_) => Err(bad("it is not GPU memory".to_owned()).into()),
    });
    let parts = parts.collect::<PyResult<Vec<PyPart>>>()?;
    let mut watch = PyWatch::new(progress, warn);
    let result = py.detach(|| load(parts, settings, Nanos::seconds(timeout), &mut watch));
    let readings = watch.end(result)?;
    let found: PyResult<Vec<Bound<'py, PyDict>>> =
        readings.iter().map(|reading| counts(py, reading)).collect();
    PyList::new(py, found?)
}

/// Peak of the host memory that all loads of this process had pinned, in bytes.
#[pyfunction]
pub(crate) fn pinned_peak() -> u64 {
    PinnedPool::of_process().peak().0
}

fn load(
    parts: Vec<PyPart>,
    settings: LoadSettings,
    deadline: Nanos,
    watch: &mut PyWatch,
) -> Result<Vec<Reading>, ErrorDetails> {
    let total = Bytes(parts.iter().map(|part| part.memory.length).sum());
    watch.phase(Phase::Move);
    watch.begin(Bytes::ZERO, total);
    let (ways, clock) = (LoadRoutes::new(RouteChoice::Auto), MonotonicClock::start());
    let mut tools = ReadTools { clock: &clock, watch, deadline };
    let paths: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
    let (mut all, mut files) = (Vec::new(), HashMap::new());
    let (mut readings, mut numbers) = (vec![Reading::default(); parts.len()], Vec::new());
    for (number, part) in parts.into_iter().enumerate() {
        if part.memory.length > 0 {
            numbers.push(number);
            all.push(open(part, &mut files)?);
        }
    }
    let Some(first) = all.first() else { return Ok(readings) };
    let gpu = Arc::clone(first.memory.gpu());
    if all.iter().any(|part| !part.memory.gpu().is_same(&gpu)) {
        return Err(bad("the memories are of several GPUs".to_owned()));
    }
    let mut loader = Loader::new(&gpu, &ways, &PinnedPool::of_process(), settings);
    let failed = |error: LoadError| match error {
        LoadError::Part(PartError { number, error }) => {
            let path = numbers.get(number).map_or_else(PathBuf::new, |&at| paths[at].clone());
            ReadError::Load { path, source: *error }.into()
        }
        LoadError::Stopped { done } => ReadError::Interrupted { done, total }.into(),
        error => {
            let kind = if matches!(&error, LoadError::Cuda(error) if error.is_missing()) {
                ExceptionKind::CudaUnavailable
            } else {
                ExceptionKind::Failed
            };
            ErrorDetails::tried(kind, "load", &error).hint(error.hint())
        }
    };
    let loaded = loader.load(&all, &mut tools).map_err(failed)?;
    for (loaded, &number) in loaded.into_iter().zip(&numbers) {
        let told = loaded.and_then(|loaded| ways.told(loaded, tools.watch));
        readings[number] = Reading::from(&told.map_err(failed)?);
    }
    Ok(readings)
}

/// A part to load; a file of several is opened once.
fn open(part: PyPart, files: &mut HashMap<PathBuf, LoadFile>) -> Result<LoadPart, ErrorDetails> {
    let PyPart { path, offset, memory } = part;
    let memory: Foreign = memory.lend()?;
    let range = offset..offset.saturating_add(memory.length().0);
    let file = match files.entry(path) {
        Entry::Occupied(entry) => entry.get().clone(),
        Entry::Vacant(entry) => {
            let opened = File::open(entry.key()).map_err(|source| ReadError::File {
                action: "open",
                path: entry.key().clone(),
                source,
            })?;
            entry.insert(LoadFile::new(opened)).clone()
        }
    };
    let memory = GpuTarget::Foreign(Arc::new(memory));
    Ok(LoadPart { file, range, memory, offset: 0 })
}
