//! `peerlane.copy`: plans and moves.

use peerlane::machines::{self, LookDepth, MachineSource};
use peerlane::{
    CopyRecord, JobOutcome, MonotonicClock, Nanos, Phase, Surveyor, TargetOutcome, Tools, Watch,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{CopyArguments, NamedArguments};
use crate::error::ErrorDetails;
use crate::machine::json;
use crate::watch::PyWatch;

/// Copies on this machine; the record as JSON.
#[pyfunction]
pub(crate) fn copy(
    py: Python<'_>,
    arguments: Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
    warn: Option<Py<PyAny>>,
) -> PyResult<String> {
    let named = NamedArguments(arguments);
    let (asked, options, timeout) = (named.asked()?, named.options()?, named.timeout()?);
    let mut watch = PyWatch::new(progress, warn);
    let result = py.detach(|| carry_out(&asked, options, Nanos::seconds(timeout), &mut watch));
    watch.end(result)
}

fn carry_out(
    asked: &peerlane::Asked,
    options: CopyArguments,
    deadline: Nanos,
    watch: &mut PyWatch,
) -> Result<String, ErrorDetails> {
    // Planning reads both ends to see what they carry; those reads are not payload.
    watch.phase(Phase::Check);
    let fabric = machines::read(MachineSource::Here, LookDepth::Quiet)?;
    let clock = MonotonicClock::start();
    let options = options.of_a_copy();
    let surveyor = Surveyor::new(&clock, deadline).with_surveys(&options.surveys);
    let plan = peerlane::plan(&fabric, asked, &surveyor)?;
    let mut tools = Tools { clock: &clock, watch, seed: peerlane::seed(), deadline, options };
    let mut copied = peerlane::copy_fan_out(&fabric, &[plan], &mut tools)?;
    let target = TargetOutcome {
        target: asked.target.clone(),
        copied: Some(copied.targets.swap_remove(0)?),
        failure: None,
    };
    let job = JobOutcome { source: asked.source.clone(), read: copied.read, targets: vec![target] };
    json(&CopyRecord::new(vec![job]))
}
