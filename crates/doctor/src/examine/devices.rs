//! Two devices that exchange no files: a GPU and a network controller, or two GPUs.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::NetworkDriveMemory;
use peerlane_results::DoctorRecord;

use super::{
    Examination, Subject, accelerator, amd_peers, gpu_stack, iommu, kernel, link, redirection,
    root_complex, silence, window, xrt_stack,
};
use crate::pair::slow_notes;
use crate::verdict::devices_verdict;

/// Examines two functions; `typed` is how a person named them.
pub fn examine_devices(
    fabric: &Fabric,
    (one, other): (FunctionId, FunctionId),
    typed: [String; 2],
) -> DoctorRecord {
    let mut examination = Examination::new(fabric, Subject::Devices(one, other));
    let on = &mut examination;
    kernel::examine(on);
    amd_peers::examine(on);
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
    let verdict = devices_verdict(fabric, (one, other), &typed);
    let mut notes = memory.map(|memory| memory.advice).unwrap_or_default();
    notes.extend(slow_notes(fabric, (one, other)));
    DoctorRecord { notes, ..examination.finished(Some((typed, verdict))) }
}
