//! `peerlane.Reader`: a file or block device into memory of Python.

use std::path::Path;
use std::sync::OnceLock;

use peerlane::load::LoadRoutes;
use peerlane::machines::{self, LookDepth, MachineSource};
use peerlane::read::{self, ReadTools, Reading};
use peerlane::{Bytes, DEADLINE, Fabric, Lent, MonotonicClock, Nanos, RouteChoice};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer::{self, BufferTarget};
use crate::error::ErrorDetails;
use crate::load;
use crate::reserve::headroom;
use crate::watch::PyWatch;

/// Bytes that the description of a large server takes while it is made.
const MACHINE_BYTES: usize = 16 << 20;

/// This machine as it was when the first file was opened. Opening a path asks the system about the path
/// itself; to look at all devices again for each of many files would take longer than reading them.
fn machine() -> Result<&'static Fabric, ErrorDetails> {
    static MACHINE: OnceLock<Fabric> = OnceLock::new();
    if let Some(machine) = MACHINE.get() {
        return Ok(machine);
    }
    headroom("look at this machine", MACHINE_BYTES)?;
    let machine = machines::read(MachineSource::Here, LookDepth::Quiet)?;
    Ok(MACHINE.get_or_init(|| machine))
}

/// A file or block device, open for reading round the page cache.
#[pyclass(frozen, module = "peerlane._peerlane")]
pub(crate) struct Reader {
    reader: read::Reader,
    /// The answers of cuFile, which is opened by the first read into memory of a GPU.
    ways: LoadRoutes,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(py: Python<'_>, path: String) -> PyResult<Self> {
        Ok(py.detach(|| {
            let reader = if Path::new(&path).exists() {
                read::Reader::open(machine()?, &path, DEADLINE)?
            } else {
                // Perhaps the address of a drive, which may have come a moment ago.
                read::Reader::open(
                    &machines::read(MachineSource::Here, LookDepth::Quiet)?,
                    &path,
                    DEADLINE,
                )?
            };
            Ok::<_, ErrorDetails>(Self { reader, ways: LoadRoutes::new(RouteChoice::Auto) })
        })?)
    }

    #[getter]
    fn path(&self) -> String {
        self.reader.path().display().to_string()
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.reader.size().map_err(ErrorDetails::from)?.0)
    }

    #[getter]
    fn block(&self) -> u64 {
        self.reader.block().0
    }

    #[getter]
    fn is_direct(&self) -> bool {
        self.reader.is_direct()
    }

    /// Fills several buffers of the host, each from an offset on; bytes by the way they came.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, Bound<'py, PyAny>)>,
        timeout: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let lent = ranges.iter().map(|(offset, target)| match buffer::lend(target)? {
            BufferTarget::Host(memory) => Ok((Bytes(*offset), memory)),
            BufferTarget::Gpu(_) => Err(buffer::bad("it is GPU memory".to_owned()).into()),
        });
        let lent = lent.collect::<PyResult<Vec<(Bytes, Lent)>>>()?;
        let mut watch = PyWatch::new(None, None);
        let result = py.detach(|| {
            let ranges: Vec<_> = lent.iter().map(|(offset, memory)| (*offset, memory)).collect();
            let clock = MonotonicClock::start();
            let deadline = Nanos::seconds(timeout);
            let mut tools = ReadTools { clock: &clock, watch: &mut watch, deadline };
            Ok(self.reader.read_ranges(&ranges, &mut tools)?)
        });
        let reading = watch.end(result)?;
        counts(py, &reading)
    }

    /// Fills a buffer; bytes by the way they came.
    fn read_into<'py>(
        &self,
        py: Python<'py>,
        target: Bound<'py, PyAny>,
        offset: u64,
        timeout: u64,
        pinned: Option<String>,
        warn: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let memory = buffer::lend(&target)?;
        let pinned = load::pinned(pinned.as_deref())?;
        let mut watch = PyWatch::new(None, warn);
        let result = py.detach(|| {
            let clock = MonotonicClock::start();
            let deadline = Nanos::seconds(timeout);
            let mut tools = ReadTools { clock: &clock, watch: &mut watch, deadline };
            self.fill(Bytes(offset), memory, pinned, &mut tools)
        });
        let reading = watch.end(result)?;
        counts(py, &reading)
    }
}

/// Bytes by the way they came, as `Reading` of Python has them.
pub(crate) fn counts<'py>(py: Python<'py>, reading: &Reading) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("bytes", reading.bytes.0)?;
    found.set_item("direct", reading.direct.0)?;
    found.set_item("shifted", reading.shifted.0)?;
    found.set_item("copied", reading.copied.0)?;
    found.set_item("page_cache", reading.page_cache.0)?;
    Ok(found)
}

impl Reader {
    fn fill(
        &self,
        offset: Bytes,
        memory: BufferTarget,
        pinned: Option<Bytes>,
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ErrorDetails> {
        match memory {
            BufferTarget::Host(memory) => Ok(self.reader.read_into(offset, &memory, tools)?),
            BufferTarget::Gpu(memory) if memory.length == 0 => Ok(Reading::default()),
            BufferTarget::Gpu(memory) => {
                let memory = memory.lend()?;
                let settings = load::settings(pinned)?;
                Ok(self.reader.read_into_gpu(offset, memory, &self.ways, settings, tools)?)
            }
        }
    }
}
