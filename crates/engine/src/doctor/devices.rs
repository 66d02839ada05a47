//! Two devices between which no files are copied: a GPU and a network controller, two GPUs.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{NetworkDriveMemory, Pair, RouteState, Verdict};
use peerlane_results::{DoctorRecord, UseState};

use super::use_records::state_record;
use super::{
    Examination, PairVerdict, Subject, accelerator, gpu_stack, iommu, kernel, link, redirection,
    root_complex, silence, window, xrt_stack,
};

/// Examines two functions; `typed` is how a person named them.
pub fn examine_devices(
    fabric: &Fabric,
    (one, other): (FunctionId, FunctionId),
    typed: [String; 2],
) -> DoctorRecord {
    let mut examination = Examination::new(fabric, Subject::Devices(one, other));
    let on = &mut examination;
    kernel::examine(on);
    iommu::examine(on);
    redirection::examine(on);
    root_complex::examine(on);
    silence::examine_those(on, &[one, other]);
    window::examine_those(on, &[one, other]);
    link::examine(on, &[one, other]);
    accelerator::examine_those(on, &[one, other]);
    gpu_stack::examine(on);
    xrt_stack::examine(on);
    let memory = NetworkDriveMemory::new(fabric, one, other);
    let third = memory.as_ref().and_then(|memory| memory.third);
    let verdict = verdict(fabric, (one, other), third);
    let notes = memory.map(|memory| memory.advice).unwrap_or_default();
    DoctorRecord { notes, ..examination.finished(Some((typed, verdict))) }
}

/// The better of both directions in one sentence; `third` owns memory that can lie between the two.
fn verdict(
    fabric: &Fabric,
    (one, other): (FunctionId, FunctionId),
    third: Option<FunctionId>,
) -> PairVerdict {
    let pair = Pair::new(fabric, one, other);
    let judged = pair.payload_directions(fabric).map(|direction| {
        let ends = [direction.initiator, direction.provider].map(|id| fabric.device_word(id));
        (Verdict::new(fabric, direction), ends)
    });
    let Some((best, [initiator, provider])) = judged.min_by_key(|(verdict, _)| verdict.state)
    else {
        let names = [one, other].map(|id| fabric.device_word(id)).join(" nor ");
        let neither = format!("neither {names} has memory for peers");
        let sentence = match third {
            Some(third) => {
                format!("{neither}; that of {} can lie between them", fabric.device_word(third))
            }
            None => format!("payload goes through host memory: {neither}"),
        };
        return PairVerdict { state: UseState::Host, sentence };
    };
    let ends = format!("{initiator} to memory of {provider}");
    let facts = best.facts.join("; ");
    let sentence = match best.state {
        RouteState::Direct => format!("payload goes directly, {ends}: {facts}"),
        RouteState::Unknown => {
            format!("whether payload goes directly, {ends}, is not known: {facts}")
        }
        RouteState::Host => format!("payload goes through host memory, {ends}: {facts}"),
        RouteState::Impossible => format!("no payload goes, {ends}: {facts}"),
    };
    PairVerdict { state: state_record(best.state), sentence }
}
