//! Machines with the capabilities of real devices, printed by each `lspci` that can be had: verdicts and facts of the
//! text against those of the tree that it was printed from.

use std::collections::HashMap;
use std::fmt;

use peerlane_fabric::lspci::Key;
use peerlane_fabric::{Acs, Bdf, Fabric, Function, FunctionId, FunctionKind, Parent, lspci};
use peerlane_reach::{Decisions, MapType, Pair, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner, contextualize_config};

use crate::generated::{Lspci, Machine, Reader, machine, programs};
use crate::lspci_verdicts::{compare, damage};

/// Runs a property on random machines and something else: on a third of the cases unless all of `./test full` runs;
/// `PROPTEST_CASES` says how many, and `PROPTEST_RNG_SEED` which.
fn for_machines<T: fmt::Debug>(
    cases: u32,
    other: impl Strategy<Value = T>,
    property: impl Fn(Machine, T) -> Result<(), TestCaseError>,
) {
    let is_full = std::env::var_os("PEERLANE_FULL").is_some();
    let config = contextualize_config(ProptestConfig {
        cases: if is_full { cases } else { cases / 3 },
        max_shrink_iters: 300,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    TestRunner::new(config)
        .run(&(machine(), other), |(machine, other)| property(machine, other))
        .unwrap_or_else(|error| panic!("{error}"));
}

/// A machine on disk, and as discovery finds it.
struct WrittenMachine {
    folder: tempfile::TempDir,
    found: Fabric,
}

impl WrittenMachine {
    fn new(machine: &Machine, reader: Reader) -> Self {
        let folder = tempfile::tempdir().unwrap();
        machine.write(folder.path(), reader);
        let found = Fabric::discover(folder.path()).unwrap();
        Self { folder, found }
    }

    /// Its text, and the machine without facts that this version does not print.
    fn print(&self, lspci: &Lspci, options: &str) -> (String, Fabric) {
        let mut known = self.found.clone();
        lspci.forget(&mut known);
        (lspci.print(self.folder.path(), options), known)
    }
}

/// Those of the programs that print a machine.
fn printers(machine: &Machine) -> Vec<&'static Lspci> {
    programs().iter().filter(|lspci| lspci.reads(machine)).collect()
}

/// The most that a text may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowance {
    /// Nothing.
    Nothing,
    /// It may leave verdicts open.
    Verdicts,
}

fn read(text: &str) -> Result<Fabric, TestCaseError> {
    lspci::read(text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))
}

/// Functions of both by address; a function that only one has is a failure.
fn same_functions(
    tree: &Fabric,
    read: &Fabric,
    text: &str,
) -> Result<Vec<(FunctionId, FunctionId)>, TestCaseError> {
    let of = |fabric: &Fabric| -> HashMap<Option<Bdf>, FunctionId> {
        fabric.iter().map(|(id, one)| (one.address, id)).collect()
    };
    let (mut left, found) = (of(tree), of(read));
    let mut both = Vec::new();
    for (address, id) in found {
        let Some(own) = left.remove(&address) else {
            return Err(TestCaseError::fail(format!("{address:?} is invented\n{text}")));
        };
        both.push((own, id));
    }
    prop_assert!(left.is_empty(), "lost: {left:?}\n{text}");
    both.sort();
    Ok(both)
}

fn is_open(map: MapType) -> bool {
    matches!(map, MapType::Conditional | MapType::Unknown)
}

/// Compares the verdicts of all pairs; returns the number of those that the text decides.
fn verdicts(
    tree: &Fabric,
    read: &Fabric,
    text: &str,
    allowance: Allowance,
) -> Result<usize, TestCaseError> {
    let both = same_functions(tree, read, text)?;
    let (expected_by, found_by) = (Decisions::new(tree), Decisions::new(read));
    let mut known = 0;
    for &(one, found_one) in &both {
        for &(other, found_other) in &both {
            let expected = expected_by.decide(one, other);
            let found = found_by.decide(found_one, found_other);
            known += usize::from(!is_open(found.map));
            if allowance == Allowance::Verdicts && (is_open(found.map) || is_open(expected.map)) {
                continue;
            }
            prop_assert_eq!(
                (found.map, found.distance),
                (expected.map, expected.distance),
                "{}\nnot {}\n{}",
                found.summary(),
                expected.summary(),
                text
            );
            if allowance == Allowance::Nothing {
                routes(tree, (one, other), read, (found_one, found_other), text)?;
            }
        }
    }
    Ok(known)
}

/// Compares the judgement with the rules of drivers. A text shows no CMB of a drive, so it leaves
/// open a direction that the tree refuses.
fn routes(
    tree: &Fabric,
    (one, other): (FunctionId, FunctionId),
    read: &Fabric,
    (found_one, found_other): (FunctionId, FunctionId),
    text: &str,
) -> Result<(), TestCaseError> {
    let kind = tree.function(other).kind;
    if one == other || kind == FunctionKind::Nvme || kind.is_bridge() {
        return Ok(());
    }
    let state = |fabric: &Fabric, one, other| {
        let direction = Pair::new(fabric, one, other).forward?;
        Some(Verdict::new(fabric, &direction).state)
    };
    let (expected, found) = (state(tree, one, other), state(read, found_one, found_other));
    let names = (&tree.function(one).name, &tree.function(other).name);
    prop_assert_eq!(found, expected, "{:?}\n{}", names, text);
    Ok(())
}

/// Compares the facts of all functions and host bridges.
fn facts(tree: &Fabric, read: &Fabric, text: &str) -> Result<(), TestCaseError> {
    for (own, found) in same_functions(tree, read, text)? {
        let (expected, found) = (tree.function(own), read.function(found));
        let what = expected.address.unwrap();
        macro_rules! same {
            ($($field:ident),*) => {
                $(prop_assert_eq!(&found.$field, &expected.$field, "{}: {}\n{}", what, stringify!($field), text);)*
            };
        }
        same!(kind, vendor, device, acs, numa_node, driver, physical_function);
        // The interface is in a register that may not answer.
        let unread = if expected.acs == Acs::Unknown { 8 } else { 0 };
        let class = |one: &Function| one.class.map(|class| class >> unread);
        prop_assert_eq!(class(found), class(expected), "{}: class\n{}", what, text);
        same!(link, link_below, bars, unassigned_bars, iommu_group);
        let above = |fabric: &Fabric, one: &Function| match one.parent {
            Parent::Function(id) => fabric.function(id).name.clone(),
            Parent::Bridge(id) => fabric.bridges[id.0].name.clone(),
        };
        prop_assert_eq!(above(read, found), above(tree, expected), "{}: above\n{}", what, text);
    }
    let bridges = |fabric: &Fabric| {
        let one = |bridge: &peerlane_fabric::HostBridge| {
            (bridge.name.clone(), bridge.numa_node, format!("{:?}", bridge.root_bus))
        };
        // Trees have them in the order of their names, texts in that of their numbers.
        let mut all: Vec<_> = fabric.bridges.iter().map(one).collect();
        all.sort();
        all
    };
    prop_assert_eq!(bridges(read), bridges(tree), "{}", text);
    prop_assert_eq!(&read.cpu, &tree.cpu, "{}", text);
    prop_assert_eq!(&read.kernel.release, &tree.kernel.release);
    prop_assert_eq!(read.iommu, tree.iommu, "{}", text);
    accounts(read, text)
}

/// Checks that every part of a text is attached to functions and counted.
fn accounts(read: &Fabric, text: &str) -> Result<(), TestCaseError> {
    let account = read.account.clone().unwrap_or_default();
    prop_assert!(account.is_complete(), "{:?}\n{}", account.set_aside, text);
    for (key, front) in [
        (Key::Express, "] Express ("),
        (Key::LinkState, "LnkSta:"),
        (Key::AcsControl, "ACSCtl:"),
        (Key::Driver, "Kernel driver in use:"),
    ] {
        let counted = account.count(key);
        let in_text = text.matches(front).count();
        prop_assert_eq!(
            (counted.in_text, counted.attached),
            (in_text, in_text),
            "{:?}\n{}",
            key,
            text
        );
    }
    Ok(())
}

/// A name, and a change of a text.
type Form = (&'static str, fn(&str) -> String);

/// Forms of a text that say the same.
const FORMS: [Form; 9] = [
    ("mail quotes", |text| each(text, |line| format!("> {line}"))),
    ("deep mail quotes", |text| each(text, |line| format!("> > > {line}"))),
    ("line ends", |text| text.replace('\n', "\r\n")),
    ("no indentation", |text| each(text, |line| line.trim_start().to_owned())),
    ("spaces for tabs", |text| text.replace('\t', "        ")),
    ("four spaces for tabs", |text| text.replace('\t', "    ")),
    ("indentation", |text| each(text, |line| format!("    {line}"))),
    ("escapes", |text| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")),
    ("kernel modules", with_modules),
];

fn each(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

/// Adds the last line that a block has where the modules of the running kernel can be looked up.
fn with_modules(text: &str) -> String {
    each(text, |line| {
        let is_driver = line.starts_with("\tKernel driver in use:");
        let modules = if is_driver { "\n\tKernel modules: one, other" } else { "" };
        format!("{line}{modules}")
    })
}

#[test]
fn texts_of_every_lspci_agree() {
    for_machines(30, Just(()), |machine, ()| {
        let written = WrittenMachine::new(&machine, Reader::Root);
        for lspci in printers(&machine) {
            let (text, known) = written.print(lspci, "-Dvvvnn");
            let text = text + &machine.surroundings();
            let found = read(&text)?;
            verdicts(&known, &found, &text, Allowance::Nothing)?;
            facts(&known, &found, &text)?;
        }
        Ok(())
    });
}

#[test]
fn dirty_texts_say_the_same() {
    for_machines(18, any::<Index>(), |machine, lspci| {
        let written = WrittenMachine::new(&machine, Reader::Root);
        let printers = printers(&machine);
        if printers.is_empty() {
            return Ok(());
        }
        let (text, known) = written.print(printers[lspci.index(printers.len())], "-Dvvvnn");
        for (form, change) in FORMS {
            let text = format!("{form}\n\n{}{}", change(&text), change(&machine.surroundings()));
            let found = read(&text)?;
            verdicts(&known, &found, &text, Allowance::Nothing)?;
            facts(&known, &found, &text)?;
        }
        Ok(())
    });
}

#[test]
fn texts_without_root_say_less() {
    for_machines(18, Just(()), |machine, ()| {
        let whole = WrittenMachine::new(&machine, Reader::Root);
        let seen = WrittenMachine::new(&machine, Reader::User);
        for lspci in printers(&machine) {
            let (text, _) = seen.print(lspci, "-Dvvvnn");
            let text = text + &machine.surroundings();
            let found = read(&text)?;
            let known = verdicts(&whole.found, &found, &text, Allowance::Verdicts)?;
            let all = verdicts(&seen.found, &seen.found, "", Allowance::Nothing)?;
            prop_assert!(known <= all, "{} of {} are known\n{}", known, all, text);
        }
        Ok(())
    });
}

#[test]
fn shorter_texts_say_less() {
    for_machines(18, any::<Index>(), |machine, lspci| {
        let written = WrittenMachine::new(&machine, Reader::Root);
        let printers = printers(&machine);
        if printers.is_empty() {
            return Ok(());
        }
        let lspci = printers[lspci.index(printers.len())];
        for options in ["-vvvnn", "-vv", "-Dvnn", "-nn", "-Dnvv", "-D", "-t", "-tv"] {
            if options.starts_with("-t") && !machine.can_be_drawn() {
                continue;
            }
            let (text, known) = written.print(lspci, options);
            compare(&known, &(text + &machine.surroundings()), true);
        }
        Ok(())
    });
}

#[test]
fn damaged_generated_texts_lose_facts_only() {
    let other = (any::<Index>(), vec(vec(damage(), 1..4), 6));
    for_machines(18, other, |machine, (lspci, damages)| {
        let written = WrittenMachine::new(&machine, Reader::Root);
        let printers = printers(&machine);
        if printers.is_empty() {
            return Ok(());
        }
        let (text, known) = written.print(printers[lspci.index(printers.len())], "-Dvvvnn");
        for damages in damages {
            let mut text = damages.iter().fold(text.clone(), |text, damage| damage.apply(&text));
            if !text.ends_with('\n') {
                text.push('\n');
            }
            compare(&known, &(text + &machine.surroundings()), true);
        }
        Ok(())
    });
}
