//! `peerlane.doctor`: a machine examined.

use peerlane::machines::Look;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::Named;
use crate::error::Problem;
use crate::machine::json;

/// Examines a machine; the record as JSON.
#[pyfunction]
pub(crate) fn doctor(py: Python<'_>, arguments: Bound<'_, PyDict>) -> PyResult<String> {
    let machine = Named(arguments).machine()?;
    let record: Result<String, Problem> = py.detach(|| {
        let fabric = machine.read(Look::Full)?;
        json(&peerlane::examine_cards(&fabric, &peerlane::read_dna(&fabric)))
    });
    Ok(record?)
}
