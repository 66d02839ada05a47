//! `--probe` of two GPUs: the program as it is typed, on a machine that is made up, with mocks of drivers that keep their
//! word and of such that do not. No two GPUs have run this.

use std::process::Output;

use crate::gpu_copy::machine::GpuMachine;
use crate::program::{Exited, said};
use peerlane_results::{
    DoctorRecord, PlanRecord, ProofMethod, ProofResult, RouteState, TargetPlan,
};

const SECOND_DRIVE: &str = "name = 'nvme1'\nkind = 'nvme'\naddress = '0000:05:00.0'";
const NAMESPACE: &str = "namespaces = [{ name = 'nvme1n1', size = '1G' }]\n";
/// The mock calls its second GPU so, and that comes first by address.
const SECOND_GPU: &str =
    "name = 'gpu-b'\nkind = 'gpu'\nclass = '0x030200'\nvendor = '0x10de'\naddress = '0000:81:00.0'";

/// A machine with two GPUs whose driver is as `conf` says.
fn machine(conf: &str) -> Option<GpuMachine> {
    let conf = format!("devices=2\nmemory=800000000\ndelay=0\n{conf}");
    GpuMachine::with(&conf, &[(SECOND_DRIVE, SECOND_GPU), (NAMESPACE, "")])
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn answer(output: &Output, status: i32) -> TargetPlan {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    let record: PlanRecord = output.json();
    record.only().expect("a target").clone()
}

#[test]
fn honest_driver_is_proved() {
    let Some(machine) = machine("") else { return };
    let found = answer(&machine.peerlane("plan gpu:0 gpu:1 --probe --json"), 0);
    let proof = found.proof.expect("a proof");
    for one in [&proof.forward, &proof.backward] {
        assert_eq!((one.result, one.missing), (ProofResult::Proved, 0));
        // Each method: four short stores and one of 64 MiB, in blocks of 4 KiB.
        assert_eq!(one.blocks, 2 * (1 + 1 + 17 + 513 + 16_384));
        assert!(one.bytes_per_second.0 > 0);
        let methods: Vec<ProofMethod> = one.methods.iter().map(|one| one.method).collect();
        assert_eq!(methods, [ProofMethod::KernelStores, ProofMethod::CopyEngine]);
    }
    assert!(found.verdict.contains("every block arrived in both directions"), "{}", found.verdict);
    assert!(found.state.is_peer_to_peer(), "{:?}", found.state);
    let mock = &machine.mock;
    assert_eq!((mock.calls("copied through host memory"), mock.calls("left content")), (0, 0));
    mock.expect_all_undone();
    let text = machine.peerlane("plan gpu:0 gpu:1 --probe").exited(0);
    let first = out(&text).lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("gpu:0 -> gpu:1: proved"), "{first}");
    let line = "gpu:1 -> gpu:0 by its copy engine: all 16916 blocks of 4 KiB arrived";
    assert!(out(&text).contains(line), "{}", out(&text));
}

#[test]
fn drivers_that_lie_are_caught() {
    for (conf, lost) in [
        // Nothing arrives, or in a copy that only the storing GPU sees.
        ("peer_lies=drop", 16_916),
        ("peer_lies=mirror", 16_916),
        // Only the longest store passes the window.
        ("peer_window=4194304", 16_384 - 1024),
    ] {
        let Some(machine) = machine(conf) else { return };
        let found = answer(&machine.peerlane("plan gpu:0 gpu:1 --probe --json"), 1);
        let proof = found.proof.expect("a proof");
        for one in [&proof.forward, &proof.backward] {
            assert_eq!((one.result, one.missing), (ProofResult::Refuted, 2 * lost), "{conf}");
        }
        assert_eq!(found.state, RouteState::Impossible, "{conf}");
        let says = format!("refuted: {} of 67664 blocks did not arrive", 4 * lost);
        assert!(found.verdict.contains(&says), "{}", found.verdict);
        assert_eq!(machine.mock.calls("left content"), 0, "{conf}");
        machine.mock.expect_all_undone();
    }
}

#[test]
fn refused_access_is_staged() {
    let Some(machine) = machine("peers=0") else { return };
    let found = answer(&machine.peerlane("plan gpu:0 gpu:1 --probe --json"), 1);
    let proof = found.proof.expect("a proof");
    assert_eq!((proof.result(), proof.forward.missing), (ProofResult::Staged, 0));
    assert_eq!(found.state, RouteState::Host);
    assert!(machine.mock.calls("copied through host memory") > 0);
    assert_eq!(machine.mock.calls("cuCtxEnablePeerAccess"), 0);
    machine.mock.expect_all_undone();
}

#[test]
fn doctor_tells_the_proof_first() {
    let Some(machine) = machine("peer_lies=mirror") else { return };
    let text = machine.peerlane("doctor gpu:0 gpu:1 --probe").exited(1);
    let first = out(&text).lines().next().unwrap_or_default().to_owned();
    assert!(first.contains("refuted: 67664 of 67664 blocks did not arrive"), "{first}");
    let record: DoctorRecord = machine.peerlane("doctor gpu:0 gpu:1 --probe --json").json();
    assert_eq!(record.proof.map(|proof| proof.result()), Some(ProofResult::Refuted));
    assert_eq!(record.state, Some(RouteState::Impossible));
}

#[test]
fn hung_gpu_is_named_within_the_time() {
    let Some(machine) = machine("hang=2") else { return };
    let output = machine.peerlane("plan gpu:0 gpu:1 --probe --timeout 1s").exited(2);
    output.says("0000:81:00.0 did not finish within 1");
    output.says("hint: `nvidia-smi -q -i 0000:81:00.0`");
    machine.mock.expect_no_violation();
}

#[test]
fn other_pairs_have_no_proof() {
    let Some(machine) = machine("") else { return };
    for (words, status, says) in [
        ("plan gpu:0 gpu:0 --probe", 77, "it is one GPU"),
        ("plan 0000:00:00.0 gpu:0 --probe", 77, "only two GPUs of NVIDIA"),
        ("plan gpu:0 gpu:1 --probe --machine acs", 2, ""),
        ("plan 0000:01:00.0 gpu:0 --probe", 2, "it is a port or bridge"),
    ] {
        let output = machine.peerlane(words);
        assert_eq!(output.status.code(), Some(status), "{words}: {}", said(&output));
        assert!(said(&output).contains(says), "{words}: {}", said(&output));
    }
    assert_eq!(machine.mock.log().len(), 0, "no driver is opened");
    std::fs::remove_file(machine.mock.folder().join("libnvrtc.so.12")).expect("it");
    machine.peerlane("plan gpu:0 gpu:1 --probe").exited(77).says("hint: install NVRTC");
}
