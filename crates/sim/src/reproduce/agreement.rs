//! That the two evaluators, figures of documents and `predict`, say the same where they know the same.

use peerlane_fabric::Fabric;
use peerlane_results::{Flow, Path, Workload};
use peerlane_units::Bytes;

use super::metric::Answer;
use super::quoted::together;
use super::{MACHINES, Study};
use crate::parameters::View;
use crate::predict::{Engine, parameters, run};

/// Bytes a second of one flow alone, as `peerlane sim` predicts it with these parameters.
fn predicted(machine: &str, flow: Flow, numbers: &[(&str, f64, &str)]) -> f64 {
    let text = MACHINES.iter().find(|(name, _)| *name == machine).expect("a machine").1;
    predicted_of(text, vec![flow], numbers)
}

/// The same of several flows, together, on the machine of a text.
fn predicted_of(text: &str, flows: Vec<Flow>, numbers: &[(&str, f64, &str)]) -> f64 {
    let fabric = Fabric::from_toml(text).expect("a machine");
    let said = |(name, value, unit): &(&str, f64, &str)| {
        format!(
            "[parameter.\"{name}\"]\nvalue = {value:e}\nunit = \"{unit}\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    let text: String = numbers.iter().map(said).collect();
    let workload = Workload { seed: 7, ..together(flows) };
    let parameters = parameters(Some(&text)).expect("parameters");
    let record = run(&fabric, &parameters, &workload, Engine::Flow).expect("a prediction");
    record.summaries[0].rate.median
}

/// Bytes a second of a figure that is a rate, with the files' numbers and the fits.
fn reproduced(study: &Study, numbers: &[f64], figure: &str) -> f64 {
    let index = study.position(figure).expect("a figure");
    match study.answer(index, numbers, View::Model).expect("an answer").0 {
        Some(Answer::Number(number)) => number,
        other => panic!("{figure}: {other:?}"),
    }
}

fn flow(source: &str, target: &str, path: Path, block: Bytes) -> Flow {
    Flow { block, depth: 1, bytes: Bytes(block.0 * 8), ..Flow::new(source, target, path) }
}

/// A drive of document 000 as a table: a start and a rate.
const SMARTSSD: [(&str, f64, &str); 5] = [
    ("drive0.read.rate", 3171.1, "MiB/s"),
    ("drive0.read.time-4096", 85e-6 + 4096.0 / 3_325_139_354.0, "s"),
    ("drive0.read.time-131072", 85e-6 + 131_072.0 / 3_325_139_354.0, "s"),
    ("drive0.read.commands", 1e6, "count"),
    ("host.completion", 256.0, "B"),
];
/// What is not in the machine file of document 004.
const DONARD: [(&str, f64, &str); 2] = [("pcie.mps", 128.0, "B"), ("host.completion", 128.0, "B")];

#[track_caller]
fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found:e} is not {expected:e}");
}

#[test]
fn both_evaluators_say_the_same_of_peer_to_peer() {
    let study = Study::built_in().expect("a study");
    let numbers = study.fitted().expect("fits");
    let of = |figure| reproduced(&study, &numbers, figure);
    let smartssd = predicted(
        "r7515-10-smartssd",
        flow("drive0", "fpga1", Path::P2p, Bytes::mib(128)),
        &SMARTSSD,
    );
    assert_near(smartssd, of("000/slots"), 0.002);
    let of_donard = |source, target, path| {
        predicted("donard", flow(source, target, path, Bytes::mib(32)), &DONARD)
    };
    // The machine file says what the drive reads and what the root complex forwards of reads.
    assert_near(of_donard("drive", "gpu", Path::P2p), of("004/p2p-read"), 0.01);
    assert_near(of_donard("gpu", "drive", Path::P2p), of("004/p2p-write"), 0.01);
}

/// In series alone: what the processor copies takes no time in the figures of documents.
#[test]
fn both_evaluators_say_the_same_of_a_copy_by_the_host() {
    let study = Study::built_in().expect("a study");
    let numbers = study.fitted().expect("fits");
    let of = |figure| reproduced(&study, &numbers, figure);
    let staged = flow("drive", "gpu:gpu", Path::HostSerial, Bytes::mib(32));
    assert_near(predicted("donard", staged, &DONARD), of("004/host-read"), 0.01);
    let [p2p, host] = [Path::P2p, Path::HostSerial].map(|path| {
        let flow = flow("drive0", "fpga:fpga1", path, Bytes::mib(128));
        predicted("r7515-10-smartssd", flow, &SMARTSSD)
    });
    // The card's own engine, as its guide has it, is a little slower than its link.
    assert_near(p2p / host, of("000/large-block-ratio"), 0.03);
}

/// What the page of predictions says that `sim` has to be told for four Gen5 drives, and what it says untold.
#[test]
fn four_gen5_drives_are_as_on_the_page_once_sim_is_told_the_numbers() {
    let text = MACHINES.iter().find(|(name, _)| *name == "donard-gen5").expect("a machine").1;
    let root = "[[host_bridge]]\nname = \"pci0000:00\"\np2p_write = \"45.2G\"\n\n[[function]]";
    let told = text
        .replacen("[[function]]", root, 1)
        .replace("link_below", "under = \"pci0000:00\"\nlink_below");
    let flows = || {
        let to_gpu = |drive: u32| Flow {
            block: Bytes::mib(1),
            depth: 32,
            ..Flow::new(format!("drive{drive}"), "gpu", Path::P2p)
        };
        (0..4).map(to_gpu).collect::<Vec<_>>()
    };
    let of = |text: &str, numbers| predicted_of(text, flows(), numbers);
    assert_near(of(&told, &[("drive.read.rate", 14.5, "GB/s")]), 45.2e9, 0.005);
    assert_near(of(text, &[]), 26.0e9, 0.005);
}
