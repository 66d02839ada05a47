//! Two devices: the answer of `plan`, the examination of both, and the path between them in the drawing.

use peerlane_doctor::{devices_verdict, examine_devices, explain_pair, pair_record};
use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_reach::{Pair, Turn};
use peerlane_results::{DoctorRecord, JobPlan, PlanRecord, TargetPlan};
use serde::Serialize;

use crate::failure::Failure;

/// The answer to `pair`.
#[derive(Debug, Serialize)]
pub(crate) struct PairAnswer {
    plan: PlanRecord,
    doctor: DoctorRecord,
    path: DrawnPath,
}

/// A path by the positions of what is drawn.
#[derive(Debug, Serialize)]
struct DrawnPath {
    functions: Vec<usize>,
    bridges: Vec<usize>,
    /// Ports that redirect, and so decide.
    decide: Vec<usize>,
}

/// Judges two devices.
pub(crate) fn answer(
    fabric: &Fabric,
    words: &[String; 2],
    guest: bool,
) -> Result<PairAnswer, Failure> {
    let [one, other] = words;
    let ends = (end(fabric, one)?, end(fabric, other)?);
    let verdict = devices_verdict(fabric, ends, words);
    let target = TargetPlan {
        target: other.clone(),
        state: verdict.state,
        verdict: verdict.sentence,
        plan: None,
        no_plan: Some(no_plan(fabric, ends).to_owned()),
        pair: Some(pair_record(fabric, ends, guest)),
        explanation: Some(explain_pair(fabric, ends)),
        probes: None,
        proof: None,
    };
    let plan = PlanRecord::new(vec![JobPlan { source: one.clone(), targets: vec![target] }]);
    let doctor = examine_devices(fabric, ends, words.clone());
    Ok(PairAnswer { plan, doctor, path: path(fabric, ends) })
}

/// The device that a word means.
fn end(fabric: &Fabric, word: &str) -> Result<FunctionId, Failure> {
    let failure = |message: String, hint: &str| Failure::in_words(message, Some(hint.to_owned()));
    let id = fabric.find_device(word).ok_or_else(|| {
        let message = format!("machine {} has no device `{word}`", fabric.name);
        failure(message, "choose one of the list")
    })?;
    if fabric.function(id).kind.is_bridge() {
        let message = format!("cannot examine {}: it is a port or bridge", fabric.device_word(id));
        return Err(failure(message, "choose a device below it"));
    }
    Ok(id)
}

/// The reason for there being no plan of a copy.
fn no_plan(fabric: &Fabric, (one, other): (FunctionId, FunctionId)) -> &'static str {
    let kinds = [one, other].map(|id| fabric.function(id).kind);
    let is_copied = |kind: &FunctionKind| matches!(kind, FunctionKind::Nvme | FunctionKind::Gpu);
    if kinds == [FunctionKind::Gpu; 2] || !kinds.iter().all(is_copied) {
        "a copy goes from a drive or file to a drive, file or GPU"
    } else if fabric.origin == peerlane_fabric::Origin::Text {
        "pasted text shows no namespaces of drives"
    } else {
        "a page plans no copies: `peerlane plan` does"
    }
}

fn path(fabric: &Fabric, (one, other): (FunctionId, FunctionId)) -> DrawnPath {
    let pair = Pair::new(fabric, one, other);
    let sides = [one, other].map(|id| fabric.upward(id).collect::<Vec<FunctionId>>());
    let common = sides[0].iter().copied().find(|id| sides[1].contains(id));
    let reaches_root =
        common.is_none() || matches!(pair.path.turn, Some(Turn::RootComplex | Turn::SocketLink));
    let mut functions: Vec<usize> = Vec::new();
    for side in &sides {
        for id in side {
            functions.push(id.0);
            if Some(*id) == common && !reaches_root {
                break;
            }
        }
    }
    functions.sort_unstable();
    functions.dedup();
    let mut bridges: Vec<usize> = if reaches_root {
        [one, other].map(|id| fabric.bridge_of(id).0).to_vec()
    } else {
        Vec::new()
    };
    bridges.dedup();
    let mut decide: Vec<usize> = pair
        .directions()
        .flat_map(|direction| direction.kernel.redirecting.iter().map(|id| id.0))
        .collect();
    decide.sort_unstable();
    decide.dedup();
    DrawnPath { functions, bridges, decide }
}
