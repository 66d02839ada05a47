//! Endpoints of a machine that is only described: its drives, by name.

use std::path::Path;

use peerlane_fabric::{
    Fabric, Function, FunctionId, FunctionKind, IommuMode, Namespace, QueueLimits,
};
use peerlane_reach::{Unserved, kernel_refusal};
use peerlane_results::{EndpointFacts, EndpointKind};
use peerlane_units::Bytes;

use super::{Endpoint, EndpointError, drive_name, request_host, request_p2p};
use crate::endpoints::suggestion::hint_of_device;

/// Limit of the DMA layer on requests if an IOMMU translates (`dma_opt_mapping_size()` of Linux
/// 7.2, which drivers/nvme/host/pci.c heeds).
const TRANSLATED_REQUEST_MAX: Bytes = Bytes::kib(128);

/// Finds a drive by `a`, `nvme0n1`, `/dev/nvme0n1`, `/dev/lab/a` or a PCI address.
pub(super) fn inspect(fabric: &Fabric, path: &Path) -> Result<Endpoint, EndpointError> {
    let typed = path.display().to_string();
    let name = strip_device_directory(&typed);
    let (id, function) = fabric
        .find(name)
        .map(|id| (id, fabric.function(id)))
        .filter(|(_, function)| function.kind == FunctionKind::Nvme)
        .ok_or_else(|| unknown(fabric, &typed))?;
    served(function)?;
    let (namespace, size) = space_called(function, name)?;
    Ok(Endpoint {
        facts: facts(fabric, id, name, namespace, size),
        initiator: Some(id),
        further: Vec::new(),
        live: None,
    })
}

/// Refuses a drive that the driver `nvme` does not serve.
pub(super) fn served(function: &Function) -> Result<(), EndpointError> {
    let Some(reason) = Unserved::from_function(function) else { return Ok(()) };
    let (name, commands) = (function.name.clone(), reason.commands(function));
    Err(EndpointError::Unserved { name, reason, commands })
}

/// The name of a device as functions and namespaces are called.
pub(crate) fn strip_device_directory(typed: &str) -> &str {
    typed.strip_prefix("/dev/lab/").or_else(|| typed.strip_prefix("/dev/")).unwrap_or(typed)
}

fn unknown(fabric: &Fabric, typed: &str) -> EndpointError {
    let (name, machine) = (typed.to_owned(), fabric.name.clone());
    EndpointError::UnknownDrive { name, machine, hint: hint_of_device(fabric, typed) }
}

/// The namespace that a name means, and the capacity of it or of the partition named.
fn space_called<'a>(
    function: &'a Function,
    name: &str,
) -> Result<(&'a Namespace, Bytes), EndpointError> {
    let namespaces = function.nvme.as_ref().map_or(&[][..], |nvme| &nvme.namespaces);
    let of_node = peerlane_fabric::block_name(name);
    let name = of_node.as_deref().unwrap_or(name);
    for namespace in namespaces {
        if namespace.name.as_deref() == Some(name) {
            return Ok((namespace, namespace.size));
        }
        if let Some(partition) = namespace.partitions.iter().find(|part| part.name == name) {
            return Ok((namespace, partition.size));
        }
    }
    match namespaces {
        [namespace] => Ok((namespace, namespace.size)),
        _ => Err(EndpointError::NotOneNamespace {
            name: name.to_owned(),
            namespaces: namespaces.iter().filter_map(|one| one.name.clone()).collect(),
        }),
    }
}

/// The limits that are given, or else those of a translating IOMMU.
fn limits(fabric: &Fabric, namespace: &Namespace) -> QueueLimits {
    let mut limits = namespace.limits;
    if fabric.iommu == IommuMode::Translating && limits.max_request.is_none() {
        limits.max_request = Some(TRANSLATED_REQUEST_MAX);
    }
    limits
}

fn facts(
    fabric: &Fabric,
    id: FunctionId,
    name: &str,
    namespace: &Namespace,
    size: Bytes,
) -> EndpointFacts {
    let function = fabric.function(id);
    let limits = limits(fabric, namespace);
    let refusal = kernel_refusal(&fabric.kernel);
    let is_node = peerlane_fabric::block_name(name).is_some();
    EndpointFacts {
        path: namespace.name.as_ref().map_or_else(|| name.to_owned(), |_| format!("/dev/{name}")),
        kind: if is_node { EndpointKind::Passthrough } else { EndpointKind::BlockDevice },
        size,
        block: limits.logical_block,
        request_host: match is_node {
            true => request_p2p(limits),
            false => request_host(limits.max_request),
        },
        request_p2p: refusal.is_none().then(|| request_p2p(limits)),
        device: namespace.name.clone().or_else(|| Some(function.name.clone())),
        address: function.address.map(|address| address.to_string()),
        drive: drive_name(fabric, id),
        file_system: None,
        refusal,
        way_out: None,
        network: None,
    }
}
