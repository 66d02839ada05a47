//! Drives of a machine file.

use peerlane_units::Bytes;

use super::Fault;
use crate::machine_file::{Problem, shape};
use crate::{FunctionKind, Namespace, NvmeController, QueueLimits};

/// In thousandths.
pub(super) fn mixed(function: &shape::FunctionTable) -> Result<Option<u32>, Fault> {
    let Some(mixed) = function.mixed else { return Ok(None) };
    if !(0.1..=2.0).contains(&mixed) {
        return Err(("mixed", Problem::Mixed));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0.1 to 2")]
    Ok(Some((mixed * 1000.0).round() as u32))
}

pub(super) fn nvme(function: &shape::FunctionTable) -> Result<Option<NvmeController>, Fault> {
    let of_a_drive = [
        ("bound", function.bound.is_some()),
        ("cmb", function.cmb.is_some()),
        ("read", function.read.is_some()),
        ("write", function.write.is_some()),
        ("mixed", function.mixed.is_some()),
        ("throttle", function.throttle.is_some()),
        ("mdts", function.mdts.is_some()),
        ("protection", function.protection.is_some()),
        ("multipath", function.multipath),
        ("errors", function.errors.is_some()),
    ];
    let of_a_controller = [
        ("controller", function.controller.is_some()),
        ("serial", function.serial.is_some()),
        ("model", function.model.is_some()),
        ("firmware", function.firmware.is_some()),
        ("state", function.state.is_some()),
        ("cmb_registers", function.cmb_registers.is_some()),
        ("temperature", function.temperature.is_some()),
        ("size", function.size.is_some()),
        ("block_size", function.block_size.is_some()),
        ("namespaces", function.namespaces.is_some()),
    ];
    let first = |keys: &[(&'static str, bool)]| keys.iter().find(|key| key.1).map(|key| key.0);
    if function.kind != FunctionKind::Nvme {
        return match first(&of_a_drive).or_else(|| first(&of_a_controller)) {
            None => Ok(None),
            Some(key) => Err((key, Problem::NotADrive)),
        };
    }
    if function.bound == Some(false) {
        return match first(&of_a_controller) {
            None => Ok(None),
            Some(key) => Err((key, Problem::NotBound)),
        };
    }
    Ok(Some(NvmeController {
        name: function.controller.clone(),
        serial: function.serial.clone(),
        model: function.model.clone(),
        firmware: function.firmware.clone(),
        state: function.state.clone(),
        cmb: function.cmb_registers,
        temperature: function.temperature,
        namespaces: namespaces(function)?,
    }))
}

fn namespaces(function: &shape::FunctionTable) -> Result<Vec<Namespace>, Fault> {
    match (&function.namespaces, function.size, function.block_size) {
        (Some(_), Some(_), _) => Err(("size", Problem::SaidTwice("namespaces"))),
        (Some(_), None, Some(_)) => Err(("block_size", Problem::SaidTwice("namespaces"))),
        (None, None, Some(_)) => Err(("block_size", Problem::Needs("size"))),
        (None, None, None) => Ok(Vec::new()),
        (None, Some(size), block) => {
            let block = block_size(block.unwrap_or(Bytes(512)), "block_size")?;
            Ok(vec![Namespace {
                name: None,
                nsid: Some(1),
                size,
                limits: QueueLimits {
                    logical_block: block,
                    physical_block: block,
                    ..QueueLimits::default()
                },
                is_multipath_head: false,
                stable_writes: None,
                integrity: None,
                partitions: Vec::new(),
            }])
        }
        (Some(list), None, None) => list.iter().map(namespace).collect(),
    }
}

fn namespace(namespace: &shape::NamespaceTable) -> Result<Namespace, Fault> {
    let logical_block = block_size(namespace.block_size.0, "block_size")?;
    let physical_block = namespace
        .physical_block_size
        .map_or(Ok(logical_block), |size| block_size(size.0, "physical_block_size"))?;
    Ok(Namespace {
        name: namespace.name.clone(),
        nsid: namespace.nsid,
        size: namespace.size.0,
        limits: QueueLimits {
            logical_block,
            physical_block,
            max_request: namespace.max_request.map(|size| size.0),
            max_hw_request: namespace.max_hw_request.map(|size| size.0),
            max_segments: namespace.max_segments,
        },
        is_multipath_head: namespace.multipath_head,
        stable_writes: namespace.stable_writes,
        integrity: namespace.integrity,
        partitions: namespace.partitions.clone(),
    })
}

fn block_size(size: Bytes, key: &'static str) -> Result<Bytes, Fault> {
    if size.0 >= 512 && size.0.is_power_of_two() {
        Ok(size)
    } else {
        Err((key, Problem::BlockSize))
    }
}
