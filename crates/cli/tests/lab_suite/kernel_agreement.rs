//! Plans for machines that span the kernel's decision table, against the answers of kernels there.
//!
//! Every run boots a few of them; with `PEERLANE_AGREEMENT=all` every machine is booted on both kernels
//! and `docs/agreement.md` is written.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;

use crate::agreement;
use crate::agreement::guest;
use crate::agreement::machines::{AgreementMachine, MACHINES};
use crate::agreement::notation::{AcsBy, describe};
use crate::agreement::page::{self, Boot};
use crate::agreement::voices::Answers;
use crate::lab::LabRun;
use peerlane_fabric::Fabric;

/// Machines booted at a time.
const AT_A_TIME: usize = 2;

/// Kernel of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelChoice {
    Usual,
    Older,
}

/// Boots a machine and asks; `None`, with the reason in the skip log, if there is no such kernel.
/// The second part lists the disagreements.
fn ask(machine: &'static AgreementMachine, kernel: KernelChoice) -> Option<(Boot, Vec<String>)> {
    let (mut lab, description) = match kernel {
        KernelChoice::Usual => {
            let description = describe(machine, AcsBy::Parameter);
            (LabRun::open_described(&description.toml)?, description)
        }
        KernelChoice::Older => {
            let description = describe(machine, AcsBy::Hand);
            (LabRun::open_described_older(&description.toml)?, description)
        }
    };
    lab.load(&["nvmet"]);
    lab.run(&guest::script(&description));
    let read = |name: &str| lab.text(name);
    let answers = Answers { description: &description, text: &read };
    // The description with ACS as it is once root has written it.
    let described =
        Fabric::from_toml(&describe(machine, AcsBy::Parameter).toml).expect("a machine");
    let (pairs, mut problems) = answers.pairs(&described);
    problems.extend(pairs.iter().flat_map(agreement::voices::PairVoices::disagreements));
    let without_memory = match description.memories.is_empty() {
        true => answers.without_memory(),
        false => Vec::new(),
    };
    for told in &without_memory {
        if !told.is_in_agreement() {
            problems.push(format!("{told:?}"));
        }
    }
    let release = answers.live().kernel.release.expect("a release");
    let named = |problem| format!("{} on {release}: {problem}", machine.name);
    let problems = problems.into_iter().map(named).collect();
    Some((Boot { machine, release, pairs, without_memory }, problems))
}

/// Asks machines, some at a time; the answers come back in the order of the machines.
fn ask_all(asked: Vec<(&'static AgreementMachine, KernelChoice)>) -> (Vec<Boot>, Vec<String>) {
    let next = Mutex::new(asked.into_iter().enumerate());
    let answers = Mutex::new(Vec::new());
    let work = || {
        while let Some((index, (machine, kernel))) =
            { next.lock().expect("no panic while it is held").next() }
        {
            if let Some(answer) = ask(machine, kernel) {
                let (boot, problems) = &answer;
                writeln!(std::io::stderr(), "{} on {}: {problems:#?}", machine.name, boot.release)
                    .expect("standard error");
                answers.lock().expect("no panic while it is held").push((index, answer));
            }
        }
    };
    std::thread::scope(|scope| {
        // Skips are noted by the name of the thread, which is that of the test.
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        for _ in 0..AT_A_TIME {
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let mut answers = answers.into_inner().expect("no panic while it is held");
    answers.sort_by_key(|(index, _)| *index);
    let (mut boots, mut problems) = (Vec::new(), Vec::new());
    for (_, (boot, found)) in answers {
        boots.push(boot);
        problems.extend(found);
    }
    (boots, problems)
}

/// The machines that every run boots.
fn quick() -> impl Iterator<Item = &'static AgreementMachine> {
    MACHINES.iter().filter(|machine| machine.is_quick)
}

fn write_page(boots: &[Boot]) {
    assert_eq!(boots.len(), 2 * MACHINES.len(), "both kernels answer for every machine");
    let qemu = peerlane_lab::find_qemu().expect("QEMU");
    let version = Command::new(qemu).arg("--version").output().expect("QEMU starts").stdout;
    let version = String::from_utf8_lossy(&version).lines().next().unwrap_or_default().to_owned();
    fs::write(page::PATH, page::render(boots, &version)).expect("the page");
}

#[test]
fn plan_probe_log_and_nvmet_agree() {
    if !crate::lab::usual_kernel_is_newer() {
        return;
    }
    let is_all = std::env::var("PEERLANE_AGREEMENT").is_ok_and(|value| value == "all");
    let asked: Vec<(&'static AgreementMachine, KernelChoice)> = if is_all {
        let both = |machine| [(machine, KernelChoice::Usual), (machine, KernelChoice::Older)];
        MACHINES.iter().flat_map(both).collect()
    } else {
        quick().map(|machine| (machine, KernelChoice::Usual)).collect()
    };
    let (boots, problems) = ask_all(asked);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    if is_all {
        write_page(&boots);
    }
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn plan_and_older_kernel_agree() {
        let asked = quick().take(2).map(|machine| (machine, KernelChoice::Older));
        let (_, problems) = ask_all(asked.collect());
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
