//! `peerlane.doctor`: a machine examined.

use peerlane::machines::LookDepth;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::NamedArguments;
use crate::error::ErrorDetails;
use crate::machine::json;

/// Examines a machine; the record as JSON.
#[pyfunction]
pub(crate) fn doctor(py: Python<'_>, arguments: Bound<'_, PyDict>) -> PyResult<String> {
    let machine = NamedArguments(arguments).machine()?;
    let record: Result<String, ErrorDetails> = py.detach(|| {
        let fabric = machine.read(LookDepth::Full)?;
        json(&peerlane::examine(&fabric))
    });
    Ok(record?)
}
