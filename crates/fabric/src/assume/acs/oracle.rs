//! Predictions compared with a concrete kernel: one that knows the firmware's value and the
//! capabilities.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::assume::BootConfiguration;

/// The port of all tests.
const PORT: &str = "[[function]]\nname = 'port'\nkind = 'root-port'\naddress = '0000:00:01.0'\n\
                    vendor = '0x1b36'\ndevice = '0x000c'\nacs = { control = 0 }\n";

/// A port as only its kernel sees it.
#[derive(Debug, Clone, Copy)]
struct RealPort {
    capability: u16,
    firmware: u16,
}

/// One boot.
#[derive(Debug, Clone, Copy)]
struct RealBoot<'a> {
    is_old: bool,
    has_iommu: bool,
    config_acs: Option<&'a str>,
    disable: bool,
}

impl RealPort {
    /// The register that the kernel writes.
    fn control(self, boot: RealBoot<'_>) -> u16 {
        let mut control = self.firmware;
        if boot.has_iommu {
            control |= self.capability & 0x1d;
        }
        if boot.is_old {
            // `pci_disable_acs_redir` of Linux 4.19 to 6.10; `config_acs` is unknown.
            return if boot.disable { control & !0x2c } else { control };
        }
        if boot.disable {
            control = self.firmware & !0x2c;
        }
        if let Some(flags) = boot.config_acs {
            control = self.firmware;
            for (position, flag) in flags.bytes().rev().enumerate() {
                match flag {
                    b'0' => control &= !(1 << position),
                    b'1' => control |= 1 << position,
                    _ => {}
                }
            }
        }
        control & self.capability
    }
}

fn text(boot: RealBoot<'_>) -> String {
    let config = boot.config_acs.map(|flags| format!("pci=config_acs={flags}@00:01.0 "));
    let disable = if boot.disable { "pci=disable_acs_redir=00:01.0" } else { "" };
    config.unwrap_or_default() + disable
}

/// The port's register after another boot, as predicted from the first.
fn predicted(before: RealBoot<'_>, added: RealBoot<'_>, control: u16) -> Acs {
    let release = if before.is_old { "6.8.12" } else { "7.2.13" };
    let iommu = if before.has_iommu { "translating" } else { "off" };
    let parameters = text(before);
    let mut fabric = Fabric::from_toml(&format!(
        "name = 'm'\niommu = '{iommu}'\n[kernel]\nrelease = '{release}'\nparameters = ['{}']\n{PORT}",
        parameters.replace(' ', "','"),
    ))
    .expect("a machine");
    fabric.functions[0].acs = Acs::Present { control };
    let off = if before.has_iommu && !added.has_iommu { " iommu=off" } else { "" };
    let added = format!("quiet {}{off}", text(added));
    BootConfiguration::parse(Path::new("test"), &added).expect("parameters").apply(&mut fabric);
    fabric.functions[0].acs
}

proptest! {
    #[test]
    fn predictions_never_contradict_the_kernel(
        capability in 0_u16..0x80,
        firmware: u16,
        is_old: bool,
        has_iommu in any::<(bool, bool)>(),
        config_acs in any::<(bool, bool)>(),
        flags in ("[01x]{7}", "[01x]{7}"),
        disable in any::<(bool, bool)>(),
    ) {
        let port = RealPort { capability, firmware: firmware & capability };
        let boot = |has_iommu, config: Option<_>, disable| {
            RealBoot { is_old, has_iommu, config_acs: config, disable }
        };
        let before = boot(has_iommu.0, config_acs.0.then_some(flags.0.as_str()), disable.0);
        let added = boot(has_iommu.1, config_acs.1.then_some(flags.1.as_str()), disable.1);
        // A parameter stays, and a later one takes its place; an IOMMU is not found where there was none.
        let after = RealBoot {
            has_iommu: before.has_iommu && added.has_iommu,
            config_acs: added.config_acs.or(before.config_acs),
            disable: before.disable || added.disable,
            ..added
        };
        let real = port.control(after);
        match predicted(before, added, port.control(before)) {
            Acs::Unknown => {}
            Acs::NotRedirecting => prop_assert_eq!(real & Acs::REDIRECT, 0),
            Acs::Present { control } => {
                let is_part = control & Acs::REDIRECT != 0 && control & !real == 0;
                prop_assert!(control == real || is_part, "{:#x} for {:#x}", control, real);
            }
            Acs::Absent => prop_assert!(false, "it has ACS"),
        }
        // The form that is written for ports leaves no doubt.
        if !is_old && added.config_acs.is_none_or(|flags| !flags.contains('x')) {
            let all = added.config_acs.is_some_and(|flags| {
                let bits = u16::from_str_radix(flags, 2).unwrap_or(0);
                bits & !port.control(before) == 0
            });
            if all {
                let found = predicted(before, added, port.control(before));
                prop_assert_eq!(found, Acs::Present { control: real });
            }
        }
    }
}
