//! Functions that are not whole devices: virtual functions, and GPUs that are divided.

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, gpu};

/// Returns words for a function that is not a whole device, to follow "NAME is".
pub fn nature(fabric: &Fabric, id: FunctionId) -> Option<String> {
    let function = fabric.function(id);
    let parts: Vec<String> =
        [virtual_function(function), divided(function)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", and "))
}

fn virtual_function(function: &Function) -> Option<String> {
    let physical = function.physical_function?;
    let as_gpu = match (function.kind, function.vendor) {
        (FunctionKind::Gpu, Some(gpu::VENDOR_NVIDIA)) => " (a vGPU)",
        _ => "",
    };
    Some(format!("an SR-IOV virtual function of {physical}{as_gpu}"))
}

fn divided(function: &Function) -> Option<String> {
    match function.mig_instances? {
        0 => None,
        1 => Some(
            "divided into 1 MIG instance, which has no PCI function of its own and no peer access to \
             other GPUs"
                .to_owned(),
        ),
        count => Some(format!(
            "divided into {count} MIG instances, which have no PCI function of their own and no peer \
             access between them"
        )),
    }
}
