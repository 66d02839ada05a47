//! The page about agreement with the kernel, checked without booting anything.

use std::collections::BTreeSet;
use std::fs;

use crate::agreement::machines::MACHINES;
use crate::agreement::{self, page};

#[test]
fn page_matches_machines_and_plans() {
    let text = fs::read_to_string(page::PATH).expect("the page");
    assert!(text.contains(&page::machines()), "its machines are others; write it anew");
    let pairs = text.split_once("## Pairs").expect("a table of pairs").1;
    let lines: Vec<&str> = pairs.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let due = page::due_lines();
    for (line, due) in lines.iter().zip(&due) {
        assert!(line.starts_with(due.as_str()), "the plan says {due}, the page {line}");
    }
    assert_eq!(lines.len(), due.len(), "as many pairs as the machines have");
}

#[test]
fn machines_are_many_and_uniquely_named() {
    let names: BTreeSet<&str> = MACHINES.iter().map(|machine| machine.name).collect();
    assert_eq!(names.len(), MACHINES.len());
    assert!(names.len() >= 24, "{}", names.len());
}

#[test]
fn every_machine_can_be_booted() {
    for machine in MACHINES {
        let description =
            agreement::notation::describe(machine, agreement::notation::AcsBy::Parameter);
        let fabric = peerlane_fabric::Fabric::from_toml(&description.toml)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", machine.name, description.toml));
        peerlane_lab::can_boot(&fabric)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", machine.name, description.toml));
    }
}
