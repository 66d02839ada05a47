//! `peerlane.Reader`: a file or block device into memory of Python.

use peerlane::machines::{self, Look, Place};
use peerlane::read::{self, ReadTools};
use peerlane::{Bytes, MonotonicClock, Nanos};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer;
use crate::error::Problem;
use crate::watch::PyWatch;

/// A file or block device, open for reading round the page cache.
#[pyclass(frozen, module = "peerlane._peerlane")]
pub(crate) struct Reader {
    reader: read::Reader,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(py: Python<'_>, path: String) -> PyResult<Self> {
        Ok(py.detach(|| {
            let fabric = machines::read(Place::Here, Look::Quiet)?;
            Ok::<_, Problem>(Self { reader: read::Reader::open(&fabric, &path)? })
        })?)
    }

    #[getter]
    fn path(&self) -> String {
        self.reader.path().display().to_string()
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.reader.size().map_err(Problem::from)?.0)
    }

    #[getter]
    fn block(&self) -> u64 {
        self.reader.block().0
    }

    #[getter]
    fn is_direct(&self) -> bool {
        self.reader.is_direct()
    }

    /// Fills a buffer; bytes by the way they came.
    fn read_into<'py>(
        &self,
        py: Python<'py>,
        target: Bound<'py, PyAny>,
        offset: u64,
        timeout: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let memory = buffer::lend(&target)?;
        let mut watch = PyWatch::new(None, None);
        let result = py.detach(|| {
            let clock = MonotonicClock::start();
            let deadline = Nanos::seconds(timeout);
            let mut tools = ReadTools { clock: &clock, watch: &mut watch, deadline };
            let result = self.reader.read_into(Bytes(offset), &memory, &mut tools);
            drop(memory);
            result.map_err(Problem::from)
        });
        let reading = watch.end(result)?;
        let found = PyDict::new(py);
        found.set_item("bytes", reading.bytes.0)?;
        found.set_item("direct", reading.direct.0)?;
        found.set_item("copied", reading.copied.0)?;
        found.set_item("page_cache", reading.page_cache.0)?;
        Ok(found)
    }
}
