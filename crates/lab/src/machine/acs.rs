//! Access control services: the kernel parameter that sets each port's ACS control register.
//!
//! `pci=config_acs=BITS@PATH;...`: the text of bits is read from right to left, bit 0 Source
//! Validation (kernel-parameters.txt and `__pci_config_acs` in drivers/pci/pci.c).

use peerlane_fabric::{Acs, Fabric, FunctionKind};

use super::addresses::FunctionAddress;
use super::refuse;
use crate::{KernelImage, LabError};

/// Bits of the ACS control register that the parameter can set: SV, TB, RR, CR, UF, EC, DT.
const SETTABLE: u16 = 0x7f;
/// Request redirect, completion redirect, egress control.
const REDIRECT: u16 = 0x2c;
/// Source validation, request and completion redirect, upstream forwarding (`pci_std_enable_acs`).
const AS_THE_KERNEL_SETS_IT: u16 = 0x1d;

/// True when a kernel knows the parameter: older ones ignore it silently.
pub(super) fn can_be_set(kernel: &KernelImage) -> bool {
    kernel.is_at_least(6, 12)
}

/// The parameter, or none when reset values were requested.
pub(super) fn parameter(
    machine: &Fabric,
    addresses: &[FunctionAddress],
    kernel: &KernelImage,
    has_iommu: bool,
) -> Result<Option<String>, LabError> {
    let mut settings = Vec::new();
    for (id, function) in machine.iter() {
        let Acs::Present { control } = function.acs else { continue };
        match function.kind {
            FunctionKind::RootPort | FunctionKind::DownstreamPort => {}
            FunctionKind::Other => continue,
            _ if control & REDIRECT == 0 => continue,
            _ => return Err(refuse(machine, function, "QEMU emulates it without ACS redirection")),
        }
        if control & !SETTABLE != 0 {
            return Err(refuse(
                machine,
                function,
                "the kernel can set ACS control bits 0 to 6 only",
            ));
        }
        // With an IOMMU the kernel sets ACS by itself, so that only another value must be asked for.
        if control != if has_iommu { AS_THE_KERNEL_SETS_IT } else { 0 } {
            settings.push((function, format!("{control:07b}@{}", addresses[id.0].path)));
        }
    }
    let Some((first, _)) = settings.first() else { return Ok(None) };
    if !can_be_set(kernel) {
        let reason = format!("kernel {} cannot set ACS control registers", kernel.release);
        return Err(refuse(machine, first, &reason));
    }
    let list: Vec<_> = settings.iter().map(|(_, setting)| setting.as_str()).collect();
    Ok(Some(format!("pci=config_acs={}", list.join(";"))))
}
