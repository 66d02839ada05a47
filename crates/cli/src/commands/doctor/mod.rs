//! `peerlane doctor`: the uses of a machine's devices, obstacles to them, and the plan that removes those.

pub(crate) mod check;
mod write_fix;

use peerlane_doctor::{EndsVerdict, assumed_setting, examine_devices};
use peerlane_engine::{after_probes, examine_copy, examine_device, is_no_copy, pair_ends};
use peerlane_fabric::Fabric;
use peerlane_fabric::assume::BootConfiguration;
use peerlane_results::{Asked, AssumedSetting, DoctorRecord, PairProof, RouteState};
use peerlane_units::Nanos;

use super::{page, plan, prove_peers};
use crate::args::DoctorArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::{machines, render};

/// The longest wait for one block: a mapping that cannot be made hangs in the kernel.
const PROBE_DEADLINE: Nanos = Nanos::seconds(10);
/// The longest wait for two GPUs.
const PROOF_DEADLINE: Nanos = Nanos::seconds(60);

/// Examines the machine and prints the findings.
///
/// # Errors
/// When the machine or a boot configuration cannot be read, or the drop-ins or the page cannot be written.
pub(crate) fn run(args: &DoctorArgs, printer: Printer) -> Result<Exit, Failure> {
    let mut fabric = machines::fabric(&args.fabric, printer)?;
    let assumed = assume(args, &mut fabric)?;
    let record = DoctorRecord { assumed, ..examine(args, &fabric)? };
    let page = args.html.as_deref().map(page::file).transpose()?;
    if args.check || !args.expect.is_empty() {
        return check::run(&record, &args.expect);
    }
    if printer.is_json() {
        printer.object(&record)?;
    } else {
        printer.text(&render::doctor(&record))?;
    }
    if let Some(folder) = &args.write_fix {
        write_fix::run(&record, folder, printer)?;
    }
    if let Some(file) = page {
        page::write(file, args.fabric.machine.as_deref(), &fabric, printer)?;
    }
    Ok(if record.is_positive() { Exit::Done } else { Exit::Negative })
}

/// Puts a boot configuration in force on the fabric.
fn assume(args: &DoctorArgs, fabric: &mut Fabric) -> Result<Vec<AssumedSetting>, Failure> {
    let Some(path) = &args.assume else { return Ok(Vec::new()) };
    let configuration = BootConfiguration::read(path).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let applied = configuration.apply(fabric);
    Ok(applied.into_iter().map(assumed_setting).collect())
}

fn examine(args: &DoctorArgs, fabric: &Fabric) -> Result<DoctorRecord, Failure> {
    let (source, target) = match (&args.source, &args.target) {
        (Some(source), Some(target)) => (source, target),
        (Some(device), None) => return examine_one(fabric, device),
        (None, _) => return Ok(peerlane_engine::examine(fabric)),
    };
    let words = (source.as_str(), target.as_str());
    let ends = pair_ends(fabric, None, words);
    let devices = |ends| examine_devices(fabric, ends, [source.clone(), target.clone()]);
    if let Some(ends) = ends.filter(|_| is_no_copy(fabric, words)) {
        plan::refuse_ports(fabric, ends)?;
        if !args.probe {
            return Ok(devices(ends));
        }
        let proof = prove_peers::ask(fabric, ends, PROOF_DEADLINE)?;
        return Ok(with_proof(devices(ends), words, proof));
    }
    let plan = match (plan::make(fabric, &asked(source, target), PROBE_DEADLINE), ends) {
        (Ok(plan), _) => plan,
        (Err(failure), Some(ends)) if !args.probe && plan::is_pair_alone(fabric, ends) => {
            // Two functions by their addresses, or drives of a text, which shows no namespaces.
            drop(failure);
            return Ok(devices(ends));
        }
        (Err(failure), _) => return Err(plan::answer(failure)),
    };
    let probes = if args.probe { plan::probe(fabric, &plan, PROBE_DEADLINE)? } else { Vec::new() };
    let plan = after_probes(fabric, plan, &probes);
    Ok(examine_copy(fabric, &plan, &probes))
}

/// The examination of two GPUs, with the proof of stores between them.
fn with_proof(record: DoctorRecord, words: (&str, &str), proof: PairProof) -> DoctorRecord {
    let state = record.state.unwrap_or(RouteState::Unknown);
    let verdict = EndsVerdict { state, sentence: record.verdict.clone() };
    let EndsVerdict { state, sentence } = prove_peers::verdict(words, verdict, Some(&proof));
    DoctorRecord { state: Some(state), verdict: sentence, proof: Some(proof), ..record }
}

/// All pairs of one device.
fn examine_one(fabric: &Fabric, device: &str) -> Result<DoctorRecord, Failure> {
    let id = machines::device(fabric, device)?;
    plan::refuse_ports(fabric, (id, id))?;
    Ok(examine_device(fabric, id))
}

/// A copy as `peerlane copy` would make it; content of the target is not a fault of the machine.
fn asked(source: &str, target: &str) -> Asked {
    Asked { force: true, ..Asked::between(source, target) }
}
