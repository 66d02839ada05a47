//! Settings that people try for peer-to-peer routes, without an effect or with an unknown one.

use super::SettingEffect::{self, NoChange, NotHonoured};
use super::command_line;
use super::setting::BootSetting;
use crate::Fabric;

const WINDOWS: &str = "the kernel decides at boot which windows of memory find room; that cannot be \
                       known beforehand";

/// Options of `pci=` by their beginnings (`pci_setup` in drivers/pci/pci.c and `pcibios_setup` in
/// arch/x86/pci/common.c, Linux 7.2).
const PCI: [(&str, &str); 9] = [
    ("realloc", WINDOWS),
    ("hpmem", WINDOWS),
    ("hpmmio", WINDOWS),
    ("resource_alignment", WINDOWS),
    ("big_root_window", WINDOWS),
    ("assign-busses", "bus numbers change, which cannot be known beforehand"),
    ("nocrs", WINDOWS),
    ("use_crs", WINDOWS),
    ("noats", "the kernel's decision does not look at address translation services"),
];

/// Gives the reasons for settings that change nothing here.
pub(super) fn apply(setting: &BootSetting, _fabric: &mut Fabric) -> Option<SettingEffect> {
    match setting {
        BootSetting::Pci(option) if option == "noacs" => {
            Some(NotHonoured("Linux has no such option".to_owned()))
        }
        BootSetting::Pci(option) => {
            let (_, reason) = PCI.iter().find(|(start, _)| option.starts_with(start))?;
            Some(NoChange((*reason).to_owned()))
        }
        BootSetting::Kernel { name, .. }
            if command_line::is_same_name(name, "pcie_acs_override") =>
        {
            Some(NotHonoured(
                "mainline Linux has no such parameter; kernels with the patch change IOMMU groups \
                 by it, not ACS registers"
                    .to_owned(),
            ))
        }
        _ => None,
    }
}
