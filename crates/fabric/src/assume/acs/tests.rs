//! Registers after parameters, as the kernel would leave them, and the parameters written for ports.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::assume::{AppliedSetting, BootConfiguration};
use crate::{DriverBinding, IommuMode};

/// A root port and a switch whose downstream ports redirect.
fn machine(release: &str, iommu: &str, parameters: &str) -> Fabric {
    let text = peerlane_testing::machine_text(&format!(
        "iommu = '{iommu}'
         kernel = {{ release = '{release}', parameters = [{parameters}] }}
         cpu.vendor = 'GenuineIntel'
         root root-port @0000:00:01.0 1b36:000c acs = {{ control = 0x1d }}
           up upstream-port @0000:01:00.0 1b36:000c acs = 'absent'
             a downstream-port @0000:02:00.0 1b36:000c acs = {{ control = 0x1d }}
             b downstream-port @0000:02:01.0 1b36:000c acs = {{ control = 0x5d }}"
    ));
    Fabric::from_toml(&text).expect("a machine")
}

const NEW: &str = "7.2.13";
const OLD: &str = "6.8.12";
const PRESENT: &str = "'pci=config_acs=0011101@pci:1b36:c'";

fn apply(fabric: &mut Fabric, text: &str) -> Vec<AppliedSetting> {
    let configuration = BootConfiguration::parse(Path::new("test"), text).expect("it is read");
    configuration.apply(fabric)
}

/// Registers of root, a and b after a text.
fn after(mut fabric: Fabric, text: &str) -> [Acs; 3] {
    apply(&mut fabric, text);
    [0, 2, 3].map(|index| fabric.functions[index].acs)
}

fn present(control: u16) -> Acs {
    Acs::Present { control }
}

#[test]
fn config_acs_decides_stated_bits() {
    let text = "pci=config_acs=0010001@pci:1b36:c";
    for (iommu, parameters) in [("translating", ""), ("passthrough", ""), ("off", PRESENT)] {
        let machine = machine(NEW, iommu, parameters);
        assert_eq!(after(machine, text), [present(0x11); 3], "{iommu} {parameters}");
    }
}

#[test]
fn firmware_bits_stay_unknown() {
    let machine = || machine(NEW, "translating", "");
    let registers = after(machine(), "pci=config_acs=x0x00xx@00:01.0/00.0/00.0");
    assert_eq!(registers, [present(0x1d), Acs::NotRedirecting, present(0x5d)]);
    // Completion redirect may be the kernel's or the firmware's.
    let registers = after(machine(), "pci=config_acs=xxxx0xx@pci:0:0");
    assert_eq!(registers, [Acs::Unknown; 3]);
    let registers = after(machine(), "pci=disable_acs_redir=02:00.0;02:01.0");
    assert_eq!(registers, [present(0x1d), Acs::NotRedirecting, Acs::NotRedirecting]);
}

#[test]
fn firmware_shows_where_nothing_hides_it() {
    // Without an IOMMU and parameters the registers are the firmware's.
    let machine = || machine(NEW, "off", "");
    let registers = after(machine(), "pci=disable_acs_redir=pci:0:0");
    assert_eq!(registers, [present(0x11), present(0x11), present(0x51)]);
    let registers = after(machine(), "pci=config_acs=xxxx0xx@02:01.0");
    assert_eq!(registers, [present(0x1d), present(0x1d), present(0x59)]);
}

#[test]
fn old_kernels_clear_redirection_alone() {
    let machine = machine(OLD, "translating", "");
    let registers = after(machine, "pci=disable_acs_redir=00:01.0;02:01.0");
    assert_eq!(registers, [present(0x11), present(0x1d), present(0x51)]);
}

#[test]
fn earlier_cleared_bits_stay_unknown() {
    let mut machine = machine(OLD, "off", "'pci=disable_acs_redir=02:00.0'");
    machine.functions[2].acs = present(0x11);
    let registers = after(machine, "pci=disable_acs_redir=02:01.0");
    assert_eq!(registers, [present(0x1d), Acs::Unknown, present(0x51)]);
}

#[test]
fn last_config_acs_wins() {
    let mut fabric = machine(NEW, "translating", "");
    let applied = apply(
        &mut fabric,
        "pci=config_acs=0@02:00.0 pci=realloc,config_acs=0011101@02:00.0 \
         pci=disable_acs_redir=02:00.0;02:01.0",
    );
    let registers = [2, 3].map(|index| fabric.functions[index].acs);
    assert_eq!(registers, [present(0x1d), Acs::NotRedirecting]);
    let [first, realloc, last, disable] = &applied[..] else { panic!("{applied:?}") };
    assert!(matches!(&first.effect, SettingEffect::NoChange(why) if why.contains("later")));
    assert_eq!(realloc.setting, "pci=realloc");
    assert!(matches!(&last.effect, SettingEffect::NoChange(why) if why == "set so already: a"));
    let SettingEffect::Changed(words) = &disable.effect else { panic!("{disable:?}") };
    assert!(words.starts_with("b: it no longer redirects"), "{words}");
    assert!(words.contains("left to the firmware"), "{words}");
}

#[test]
fn functions_missing_from_list_change() {
    let registers = after(machine(NEW, "off", PRESENT), "pci=config_acs=0010001@02:00.0");
    assert_eq!(registers, [Acs::Unknown, present(0x11), Acs::Unknown]);
    let registers = after(machine(NEW, "passthrough", PRESENT), "pci=config_acs=0010001@02:00.0");
    assert_eq!(registers, [present(0x1d), present(0x11), present(0x1d)]);
}

#[test]
fn unread_registers_become_not_redirecting() {
    let mut fabric = machine(NEW, "translating", "");
    for function in &mut fabric.functions {
        function.acs = Acs::Unknown;
    }
    let registers = after(fabric.clone(), "pci=disable_acs_redir=02:00.0");
    assert_eq!(registers, [Acs::Unknown, Acs::NotRedirecting, Acs::Unknown]);
    let registers = after(fabric.clone(), "pci=config_acs=0010001@02:00.0;1x@02:01.0");
    assert_eq!(registers, [Acs::Unknown, Acs::NotRedirecting, Acs::Unknown]);
    fabric.kernel.parameters = None;
    let registers = after(fabric, "pci=disable_acs_redir=02:00.0");
    assert_eq!(registers, [Acs::Unknown, Acs::NotRedirecting, Acs::Unknown]);
}

#[test]
fn unknown_present_parameters_hide_the_firmware() {
    let mut fabric = machine(NEW, "off", "");
    fabric.kernel.parameters = None;
    assert_eq!(after(fabric.clone(), "quiet ro=1"), [present(0x1d), present(0x1d), present(0x5d)]);
    let registers = after(fabric, "pci=config_acs=xxxx0xx@02:00.0");
    assert_eq!(registers, [present(0x1d), Acs::Unknown, present(0x5d)]);
}

#[test]
fn disabled_iommu_leaves_acs_to_firmware() {
    for text in ["iommu=off", "intel_iommu=off"] {
        let registers = after(machine(NEW, "translating", ""), text);
        assert_eq!(registers, [Acs::Unknown; 3], "{text}");
    }
    let registers = after(machine(NEW, "translating", ""), "iommu=pt");
    assert_eq!(registers, [present(0x1d), present(0x1d), present(0x5d)]);
    // The firmware has it off where an IOMMU that is on left it off.
    let mut quiet = machine(NEW, "translating", "");
    quiet.functions[2].acs = present(0x51);
    assert_eq!(after(quiet, "iommu=off")[1], Acs::NotRedirecting);
}

#[test]
fn amd_iommu_off_keeps_acs_on() {
    let mut amd = machine(NEW, "translating", "");
    amd.cpu.vendor = Some("AuthenticAMD".to_owned());
    let kept = [present(0x1d), present(0x1d), present(0x5d)];
    assert_eq!(after(amd.clone(), "amd_iommu=off"), kept);
    assert_eq!(after(amd, "amd_iommu=off iommu=off"), [Acs::Unknown; 3]);
}

#[test]
fn unhonoured_parameters_change_nothing() {
    for release in ["6.12.10", OLD] {
        let mut fabric = machine(release, "translating", "");
        let applied = apply(&mut fabric, "pci=config_acs=0010001@pci:0:0");
        assert!(matches!(applied[0].effect, SettingEffect::NotHonoured(_)), "{applied:?}");
        let expected = if release == OLD { present(0x1d) } else { Acs::Unknown };
        assert_eq!(fabric.functions[2].acs, expected, "{release}");
    }
    let mut fabric = machine("5.14.0-570.el9", "translating", "");
    let applied = apply(&mut fabric, "pci=config_acs=0010001@02:00.0");
    let SettingEffect::Changed(words) = &applied[0].effect else { panic!("{applied:?}") };
    assert!(words.contains("0x001d becomes 0x0011") && words.contains("Red Hat"), "{words}");
}

#[test]
fn faults_and_strangers_are_told() {
    for (text, part) in [
        ("pci=config_acs=0010001@02:00.0;oops", "the kernel stops reading at `oops`"),
        ("pci=disable_acs_redir=07:00.0", "names no function of this machine"),
        ("pci=disable_acs_redir=01:00.0", "no ACS capability: up"),
        ("pci=disable_acs_redir=nvme0", "the kernel stops reading at `nvme0`"),
    ] {
        let applied = apply(&mut machine(NEW, "translating", ""), text);
        let (SettingEffect::Changed(words) | SettingEffect::NoChange(words)) = &applied[0].effect
        else {
            panic!("{applied:?}")
        };
        assert!(words.contains(part), "{text}: {words}");
    }
}

/// The parameter for functions by their positions.
fn written(fabric: &Fabric, ports: &[usize]) -> Result<String, AcsParameterError> {
    let ports: BTreeSet<FunctionId> = ports.iter().map(|&port| FunctionId(port)).collect();
    acs_parameter(&fabric.kernel, fabric, &ports)
}

#[test]
fn parameters_name_port_path_or_identity() {
    let mut fabric = machine(NEW, "translating", "");
    assert_eq!(
        written(&fabric, &[0, 2, 3]).as_deref(),
        Ok("pci=config_acs=0010001@0000:00:01.0;0010001@0000:00:01.0/00.0/00.0;\
            1010001@0000:00:01.0/00.0/01.0"),
        "they keep different bits"
    );
    fabric.functions[3].acs = present(0x1d);
    assert_eq!(written(&fabric, &[0, 2, 3]).as_deref(), Ok("pci=config_acs=0010001@pci:1b36:000c"));
    let two = "pci=config_acs=0010001@0000:00:01.0/00.0/00.0;0010001@0000:00:01.0/00.0/01.0";
    assert_eq!(written(&fabric, &[2, 3]).as_deref(), Ok(two));
    // A third one of the kind does no harm if the entry leaves it as it is.
    fabric.functions[0].acs = present(0x11);
    assert_eq!(written(&fabric, &[2, 3]).as_deref(), Ok("pci=config_acs=0010001@pci:1b36:000c"));
    fabric.kernel.release = Some(OLD.to_owned());
    fabric.functions[0].acs = present(0x1d);
    let paths = "pci=disable_acs_redir=0000:00:01.0/00.0/00.0;0000:00:01.0/00.0/01.0";
    assert_eq!(written(&fabric, &[2, 3]).as_deref(), Ok(paths));
    assert_eq!(written(&fabric, &[0, 2, 3]).as_deref(), Ok("pci=disable_acs_redir=pci:1b36:000c"));
}

#[test]
fn written_parameters_do_as_meant() {
    for (release, iommu, present_parameters) in
        [(NEW, "translating", ""), (NEW, "off", PRESENT), (OLD, "passthrough", "")]
    {
        let fabric = machine(release, iommu, present_parameters);
        for ports in [&[0][..], &[2, 3], &[0, 2, 3]] {
            let text = written(&fabric, ports).expect("a parameter");
            let mut after = fabric.clone();
            apply(&mut after, &text);
            for (index, (before, after)) in
                fabric.functions.iter().zip(&after.functions).enumerate()
            {
                let expected = match before.acs {
                    Acs::Present { control } if ports.contains(&index) => {
                        present(control & !Acs::REDIRECT)
                    }
                    other => other,
                };
                assert_eq!(after.acs, expected, "{release} {text}: {}", after.name);
            }
        }
    }
}

#[test]
fn unwritable_parameters_have_reasons() {
    let fabric = machine(NEW, "translating", "");
    assert_eq!(written(&fabric, &[1]), Err(AcsParameterError::NoPorts));
    let mut hidden = fabric.clone();
    hidden.functions[2].acs = Acs::Unknown;
    assert_eq!(written(&hidden, &[2]), Err(AcsParameterError::NotRead("a".to_owned())));
    let mut nameless = fabric.clone();
    nameless.functions[1].address = None;
    assert_eq!(written(&nameless, &[2]), Err(AcsParameterError::NoAddress("a".to_owned())));
    let mut broken = fabric;
    broken.kernel.release = Some("6.12.10".to_owned());
    let Err(AcsParameterError::NotHonoured(reason)) = written(&broken, &[2]) else {
        panic!("a broken kernel")
    };
    assert!(reason.contains("6.12.23"), "{reason}");
}

/// Downstream ports with numbers for names, each of a kind of its own.
fn many(count: usize) -> Fabric {
    let mut fabric = machine(NEW, "translating", "");
    let mut port = fabric.functions[2].clone();
    port.driver = DriverBinding::Unbound;
    for index in 0..count {
        port.name = format!("port{index}");
        port.device = Some(u16::try_from(index + 100).expect("few"));
        fabric.functions.push(port.clone());
    }
    fabric
}

#[test]
fn long_lists_drop_domain_then_fail() {
    let ports = |count: usize| (4..4 + count).collect::<Vec<_>>();
    let list = |count: usize| written(&many(count), &ports(count));
    assert!(list(40).expect("it fits").contains("@0000:00:01.0/00.0/00.0;"));
    assert!(list(55).expect("it fits").contains("@00:01.0/00.0/00.0;"));
    assert!(matches!(list(80), Err(AcsParameterError::TooLong(bytes)) if bytes > 1536));
}

#[test]
fn setpci_commands_leave_other_bits() {
    let fabric = machine(NEW, "translating", "");
    let commands = acs_setpci(&fabric, &BTreeSet::from([FunctionId(2)]));
    assert_eq!(
        commands.as_deref(),
        Ok(&["setpci -s 0000:02:00.0 ECAP_ACS+6.w=0000:002c".to_owned()][..])
    );
    assert_eq!(fabric.iommu, IommuMode::Translating);
}
