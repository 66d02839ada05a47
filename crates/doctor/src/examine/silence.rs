//! Devices that do not answer: all their registers read as ones.

use peerlane_fabric::{Function, FunctionId, Origin};
use peerlane_results::{Cost, Finding, FindingKind, Fix, Needs};

use super::{BearsOn, Examination, at, finding, fix, saw};

/// Examines every function.
pub(super) fn examine(on: &mut Examination<'_>) {
    let all: Vec<FunctionId> = on.fabric.iter().map(|(id, _)| id).collect();
    examine_those(on, &all);
}

/// Examines these functions.
pub(super) fn examine_those(on: &mut Examination<'_>, functions: &[FunctionId]) {
    for &id in functions {
        let function = on.fabric.function(id);
        if function.is_silent {
            let found = silent(function, &on.fabric.device_word(id), &on.fabric.origin);
            on.add(found, BearsOn::functions([id]));
        }
    }
}

/// The kernel's words are those of `pci_dev_wait` and of NVIDIA's Xid 79.
fn silent(function: &Function, word: &str, origin: &Origin) -> Finding {
    let place = at(function);
    let (looked_at, showed) = match origin {
        Origin::Text => (place.clone(), "(rev ff), header type 7f"),
        _ => (format!("{place}/config"), "ones alone"),
    };
    Finding {
        evidence: vec![saw(looked_at, showed)],
        fix: Some(Fix {
            commands: vec![
                "sudo dmesg | grep -iE 'fallen off|inaccessible|AER|D3cold|Xid'".to_owned(),
                format!("echo on | sudo tee {place}/power/control   # keeps it awake"),
            ],
            ..fix(
                "see whether it sleeps or is lost: the kernel's log says so; one that is lost needs the machine \
                 switched off and on, and its seat, cable and power checked",
                Needs::Hardware,
            )
        }),
        ..finding(
            FindingKind::DeviceSilent,
            Cost::Routes,
            function.name.clone(),
            format!(
                "{word} does not answer: its registers read as ones, so it has fallen off the bus or sleeps (D3cold)"
            ),
        )
    }
}
