//! Registers that a kernel sets by parameters, against the predicted ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use peerlane_fabric::assume::{BootConfiguration, acs_parameter, acs_setpci};
use peerlane_fabric::{Acs, Bdf, Fabric, FunctionId, IommuMode};

use crate::lab::LabRun;

/// Machine `acs` with other parameters, with or without an IOMMU.
fn described(iommu: IommuMode, parameters: &[&str]) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/acs.toml");
    let text = fs::read_to_string(path).expect("the machine");
    let mut machine = Fabric::from_toml(&text).expect("a machine");
    machine.iommu = iommu;
    let boot = machine.lab.as_mut().expect("it is booted");
    boot.kernel_args = parameters.iter().map(|&parameter| parameter.to_owned()).collect();
    machine.to_toml()
}

/// Runs a script on a booted machine and returns the machine that the program discovers afterwards.
fn discovered(lab: &LabRun, script: &str) -> Fabric {
    lab.run(&format!("{script}\npeerlane topo --format toml >$OUT/machine.toml"));
    Fabric::from_toml(&lab.text("machine.toml")).expect("a machine")
}

fn redirecting(machine: &Fabric) -> BTreeSet<FunctionId> {
    let is_on = |(_, acs): &(FunctionId, Acs)| acs.redirects() == Some(true);
    machine.iter().map(|(id, one)| (id, one.acs)).filter(is_on).map(|(id, _)| id).collect()
}

/// Registers by address: drives are numbered otherwise from boot to boot.
fn registers(machine: &Fabric) -> Vec<(Option<Bdf>, Acs)> {
    machine.functions.iter().map(|one| (one.address, one.acs)).collect()
}

fn predicted(machine: &Fabric, parameters: &str) -> Fabric {
    let mut machine = machine.clone();
    let configuration = BootConfiguration::parse(Path::new("test"), parameters);
    let applied = configuration.expect("parameters").apply(&mut machine);
    assert!(!applied.is_empty());
    machine
}

/// The parameter of machine `acs`.
const SET: &str = "pci=config_acs=0011101@pci:1b36:000c";

#[test]
fn config_acs_leaves_the_predicted_registers() {
    let boot = |parameters: &[&str]| {
        LabRun::open_described(&described(IommuMode::Off, parameters))
            .and_then(LabRun::on_newer_kernel)
    };
    let Some(lab) = boot(&[SET]) else { return };
    let before = discovered(&lab, "");
    let all = redirecting(&before);
    assert_eq!(all.len(), 4, "{before:?}");
    // All of a kind by their identity, some by their paths, with the others as they are.
    let some: BTreeSet<FunctionId> = all.iter().copied().skip(1).take(2).collect();
    for (ports, form) in [(&all, "@pci:1b36:000c"), (&some, "@0000:00:")] {
        let parameter = acs_parameter(&before.kernel, &before, ports).expect("it can be written");
        assert!(parameter.contains(form), "{parameter}");
        let expected = predicted(&before, &parameter);
        assert!(redirecting(&expected).is_disjoint(ports), "{parameter}");
        let after = discovered(&boot(&[SET, &parameter]).expect("it booted before"), "");
        assert_eq!(registers(&after), registers(&expected), "{parameter}");
    }
}

/// Boots a machine with an IOMMU again with `disable_acs_redir` and `iommu=pt`.
fn check_disabled(boot: impl Fn(&str) -> Option<LabRun>) {
    let described = |parameters: &[&str]| described(IommuMode::Translating, parameters);
    let Some(lab) = boot(&described(&[])) else { return };
    let before = discovered(&lab, "");
    let ports: BTreeSet<FunctionId> = redirecting(&before).into_iter().skip(1).collect();
    let paths: Vec<String> =
        ports.iter().map(|&id| before.path_of(id).expect("an address")).collect();
    let disable = format!("pci=disable_acs_redir={}", paths.join(";"));
    let expected = predicted(&before, &format!("{disable} iommu=pt"));
    let after = discovered(&boot(&described(&[&disable, "iommu=pt"])).expect("as before"), "");
    let modes = [before.iommu, expected.iommu, after.iommu];
    let [translating, passing] = [IommuMode::Translating, IommuMode::Passthrough];
    assert_eq!(modes, [translating, passing, passing]);
    for (id, function) in after.iter() {
        let expected = expected.function(id);
        assert_eq!(
            (function.address, &function.iommu_type),
            (expected.address, &expected.iommu_type)
        );
        if ports.contains(&id) {
            // The emulated firmware sets nothing, and that is all that is left.
            assert_eq!(function.acs, Acs::Present { control: 0 }, "{}", function.name);
            assert_eq!(expected.acs, Acs::NotRedirecting);
        } else {
            assert_eq!(function.acs, expected.acs, "{}", function.name);
        }
    }
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn disable_acs_redir_matches_prediction() {
        check_disabled(|machine| LabRun::open_described(machine).and_then(LabRun::on_newer_kernel));
    }

    #[test]
    fn disable_acs_redir_on_older_kernels() {
        check_disabled(LabRun::open_described_older);
    }

    #[test]
    fn setpci_commands_clear_redirection_alone() {
        let Some(mut lab) = LabRun::open("acs").and_then(LabRun::on_newer_kernel) else { return };
        if !lab.bring("setpci") {
            return;
        }
        let before = discovered(&lab, "");
        let commands = acs_setpci(&before, &redirecting(&before)).expect("addresses");
        let after = discovered(&lab, &commands.join("\n"));
        for (id, function) in after.iter() {
            let expected = match before.function(id).acs {
                Acs::Present { control } => Acs::Present { control: control & !Acs::REDIRECT },
                other => other,
            };
            assert_eq!(function.acs, expected, "{}", function.name);
        }
        assert_eq!(redirecting(&before).len(), 4);
    }
}
