//! Machines, plans of copies on them, and predictions of workloads.

use std::path::PathBuf;

use peerlane::machines::LookDepth;
use peerlane::predict;
use peerlane::reproduce::Study;
use peerlane::topology::Topology;
use peerlane::{DEADLINE, MonotonicClock, Surveyor, machines as known, small_file};
use peerlane_bench::workload;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::arguments::NamedArguments;
use crate::error::{ErrorDetails, ExceptionKind};

/// The longest workload that is read: a full one of ten thousand transfers has a few MiB.
const WORKLOAD_MAX: u64 = 16 << 20;
/// The longest file of parameters that is read.
const PARAMETERS_MAX: u64 = 1 << 20;

/// Serialises a result for Python.
pub(crate) fn json(value: &impl Serialize) -> Result<String, ErrorDetails> {
    serde_json::to_string(value).map_err(|error| {
        ErrorDetails::tried(ExceptionKind::Failed, "write the result as JSON", &error)
    })
}

/// A machine as `peerlane topo --json` prints it.
#[pyfunction]
pub(crate) fn topology(py: Python<'_>, arguments: Bound<'_, PyDict>) -> PyResult<String> {
    let machine = NamedArguments(arguments).machine()?;
    Ok(py.detach(|| {
        let fabric = machine.read(LookDepth::Full)?;
        json(
            &Topology::new(&fabric)
                .map_err(|error| ErrorDetails::from_error(ExceptionKind::Failed, &error))?,
        )
    })?)
}

/// The kernel's decision on one pair of a topology, which comes as JSON.
#[pyfunction]
pub(crate) fn reach(
    py: Python<'_>,
    topology: String,
    memory: String,
    initiator: String,
) -> PyResult<String> {
    Ok(py.detach(|| {
        let topology: Topology = serde_json::from_str(&topology).map_err(|error| {
            ErrorDetails::tried(ExceptionKind::BadInput, "read the topology", &error)
        })?;
        let found = topology.pair(&memory, &initiator).ok_or_else(|| {
            let words = format!("the topology has no memory {memory}, or no initiator {initiator}");
            ErrorDetails::new(ExceptionKind::BadInput, words).hint(Some("`groups` has their names"))
        })?;
        json(&found)
    })?)
}

/// Names of the machines that can be named here.
#[pyfunction]
pub(crate) fn machines() -> PyResult<Vec<String>> {
    let found = known::list(None).map_err(ErrorDetails::from)?;
    Ok(found.into_iter().map(|description| description.name).collect())
}

/// Plans a copy, as JSON.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, arguments: Bound<'_, PyDict>) -> PyResult<String> {
    let named = NamedArguments(arguments);
    let (asked, machine) = (named.asked()?, named.machine()?);
    Ok(py.detach(|| {
        let fabric = machine.read(LookDepth::Quiet)?;
        let clock = MonotonicClock::start();
        let plan = peerlane::plan(&fabric, &asked, &Surveyor::new(&clock, DEADLINE))?;
        json(&peerlane::plan_record(&fabric, vec![vec![plan]]))
    })?)
}

/// The route between a path or device and a device: the word, and the reason.
#[pyfunction]
pub(crate) fn route(
    py: Python<'_>,
    path_or_device: String,
    device: String,
    arguments: Bound<'_, PyDict>,
) -> PyResult<(String, String)> {
    let machine = NamedArguments(arguments).machine()?;
    Ok(py.detach(|| {
        let fabric = machine.read(LookDepth::Quiet)?;
        let answer = peerlane::route_answer(&fabric, &path_or_device, &device)?;
        Ok::<_, ErrorDetails>((answer.word.to_string(), answer.reason))
    })?)
}

/// Predicts a workload, which comes as the path of a TOML file or as JSON.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    arguments: Bound<'_, PyDict>,
    workload_json: Option<String>,
) -> PyResult<String> {
    let arguments = NamedArguments(arguments);
    let machine = arguments.machine()?;
    let engine = arguments.choice("engine")?.unwrap_or_default();
    let workload = arguments.text("workload")?.map(PathBuf::from);
    let parameters = arguments.text("parameters")?.map(PathBuf::from);
    Ok(py.detach(|| {
        let fabric = machine.read(LookDepth::Full)?;
        let text = workload_text(workload_json, workload.as_deref())?;
        let workload = workload::parse(&text).map_err(|error| {
            ErrorDetails::tried(ExceptionKind::BadInput, "read the workload", &error)
        })?;
        let text = parameters.map(|path| read("the parameters", &path, PARAMETERS_MAX));
        let parameters = predict::parameters(text.transpose()?.as_deref()).map_err(|error| {
            ErrorDetails::tried(ExceptionKind::BadInput, "read the parameters", &error)
        })?;
        let what = format!("predict {} on {}", workload.name, fabric.name);
        let record = predict::run(&fabric, &parameters, &workload, engine)
            .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))?;
        json(&record)
    })?)
}

fn read(what: &str, path: &std::path::Path, most: u64) -> Result<String, ErrorDetails> {
    let what = format!("read {what} {}", path.display());
    small_file::read(path, most)
        .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))
}

/// A workload as TOML, which comes as JSON or as the path of a file.
pub(crate) fn workload_text(
    json: Option<String>,
    file: Option<&std::path::Path>,
) -> Result<String, ErrorDetails> {
    match (json, file) {
        (Some(text), _) => toml_of(&text),
        (None, Some(path)) => read("the workload", path, WORKLOAD_MAX),
        (None, None) => Err(ErrorDetails::new(ExceptionKind::BadInput, "no workload is given")),
    }
}

/// A workload that came as JSON, in the form that is parsed and checked.
fn toml_of(text: &str) -> Result<String, ErrorDetails> {
    let tried = |error: &(dyn std::error::Error + 'static)| {
        ErrorDetails::tried(ExceptionKind::BadInput, "read the workload", error)
    };
    let value: toml::Value = serde_json::from_str(text).map_err(|error| tried(&error))?;
    toml::to_string(&value).map_err(|error| tried(&error))
}

/// Figures of documents next to the model, as JSON; all of them where no document is named.
#[pyfunction]
pub(crate) fn reproduce(py: Python<'_>, sources: Vec<String>) -> PyResult<String> {
    Ok(py.detach(|| {
        let tried = |error: &(dyn std::error::Error + 'static)| {
            ErrorDetails::tried(ExceptionKind::BadInput, "compare figures with the model", error)
        };
        let study = Study::built_in().map_err(|error| tried(&error))?;
        json(&study.report(&sources).map_err(|error| tried(&error))?)
    })?)
}
