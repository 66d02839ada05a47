//! Other forms of the same machine, and large machines.

use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, FunctionKind, lspci, nccl};
use peerlane_reach::{MachineDifference, MapType};

use super::pairs;
use crate::lspci_tree;

fn fixtures() -> Vec<(PathBuf, Fabric)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let fabric = Fabric::discover(&path.join("tree.tar.zst")).unwrap();
        (path, fabric)
    };
    entries.filter(|path| path.is_dir()).map(read).collect()
}

#[test]
fn other_machine_forms_have_no_change() {
    for (path, fabric) in fixtures() {
        let mut forms = vec![Fabric::from_toml(&fabric.to_toml()).unwrap()];
        forms.push(nccl::read(&fabric.to_nccl_xml().unwrap().text).unwrap());
        for form in forms {
            for (one, other) in [(&fabric, &form), (&form, &fabric)] {
                let found = MachineDifference::new(one, other);
                assert_eq!(found.changes, [], "{}: {:?}", path.display(), other.origin);
                let listed = form.functions.iter().filter(|one| one.address.is_some()).count();
                assert_eq!(found.matching.both.len(), listed, "{}", path.display());
            }
        }
    }
}

#[test]
fn captures_and_lspci_have_no_change() {
    for (path, fabric) in fixtures() {
        let has_many = path.ends_with("eight-gpus");
        for options in if has_many { &["-Dvvvnn", "-Dvnn", "-tv"][..] } else { &["-Dvvvnn"] } {
            let Some(text) = lspci_tree::printed(&fabric, &[options]) else { return };
            let text = lspci::read(&text).unwrap();
            for (one, other) in [(&fabric, &text), (&text, &fabric)] {
                let found = MachineDifference::new(one, other);
                assert_eq!(found.changes, [], "{} {options}", path.display());
                assert_eq!(found.matching.both.len(), fabric.functions.len());
            }
        }
    }
}

#[test]
fn large_machines_are_compared_by_groups() {
    let mut tree =
        "cpu = { vendor = 'AuthenticAMD', family = 25 }\npci0000:00 host-bridge".to_owned();
    for switch in 0..8 {
        tree += &format!("\n r{switch} root-port\n  u{switch} upstream-port");
        for slot in 0..200 {
            tree += &format!("\n   d{switch}-{slot} downstream-port");
            tree += &format!("\n    n{switch}-{slot} nvme cmb = '64M'");
        }
    }
    let before = peerlane_testing::machine(&tree);
    let mut after = before.clone();
    for function in &mut after.functions {
        if function.kind == FunctionKind::DownstreamPort {
            function.acs = peerlane_fabric::Acs::Present { control: 0x1d };
        }
    }
    let found = MachineDifference::new(&before, &after);
    let [changed] = pairs(&found)[..] else { panic!("{:?}", found.changes) };
    assert_eq!(changed.count, 8 * 200 * 199, "pairs below one switch");
    assert_eq!(changed.after, MapType::ThroughHostBridge);
    assert!(found.uncompared.iter().all(|fact| fact.pairs == 0));
}
