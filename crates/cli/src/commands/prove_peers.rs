//! `peerlane prove-peers`: a proof of stores between two GPUs, in a process of its own.
//!
//! A wrong grant of peer access may hang a GPU, and with it the asking process. So `plan --probe` and `doctor --probe`
//! start this program, and end it at the deadline.

use std::io;

use peerlane_doctor::EndsVerdict;
use peerlane_engine::{PeerProofError, ProofLimits, prove_peers};
use peerlane_fabric::{Bdf, Fabric, FunctionId, FunctionKind, gpu};
use peerlane_memory::cuda::{Cuda, CudaError, GpuFacts};
use peerlane_memory::nvrtc::Nvrtc;
use peerlane_results::{PairProof, ProofResult, RouteState};
use peerlane_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::child_answer::ChildAnswer;
use crate::args::ProvePeersArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;

/// Bytes of the longest store.
const BYTES: Bytes = Bytes::mib(64);
/// Largest window that the longest store exceeds, to show whether memory beyond it is reached.
const SMALL_WINDOW: Bytes = Bytes::mib(512);
/// Extra wait after the other process's own deadline.
const GRACE: Nanos = Nanos::seconds(5);

/// The answer of the other process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProofAnswer {
    Proof(PairProof),
    Failed { error: String, hint: Option<String>, is_missing: bool },
}

/// Proves, and answers as JSON.
///
/// # Errors
/// When standard output cannot be used.
pub(crate) fn run(args: &ProvePeersArgs, printer: Printer) -> Result<Exit, Failure> {
    let limits =
        ProofLimits { bytes: Bytes(args.bytes), deadline: Nanos::seconds(u64::from(args.seconds)) };
    let answer = match prove(&args.gpus, limits) {
        Ok(proof) => ProofAnswer::Proof(proof),
        Err(error) => ProofAnswer::Failed {
            hint: error.hint(),
            is_missing: error.is_missing(),
            error: peerlane_engine::failure::error_in_words(&error),
        },
    };
    printer.object(&answer)?;
    Ok(Exit::Done)
}

fn prove(gpus: &[Bdf], limits: ProofLimits) -> Result<PairProof, PeerProofError> {
    let cuda = Cuda::load()?;
    let shown = cuda.gpus()?;
    let find = |address: Bdf| {
        let found = shown.iter().find(|facts| facts.address == address);
        found.ok_or_else(|| CudaError::NoSuchGpu {
            asked: format!("GPU {address}"),
            shown: shown.iter().map(|facts: &GpuFacts| facts.address.to_string()).collect(),
        })
    };
    let [first, second] = [find(gpus[0])?, find(gpus[1])?];
    prove_peers(&cuda, [first, second], &Nvrtc::load(cuda.version()?)?, limits)
}

/// Proves two functions of this machine, in another process.
///
/// # Errors
/// If such a pair has no proof, or none came in time.
pub(super) fn ask(
    fabric: &Fabric,
    ends: (FunctionId, FunctionId),
    deadline: Nanos,
) -> Result<PairProof, Failure> {
    let addresses = provable(fabric, ends)?;
    let names = [fabric.device_word(ends.0), fabric.device_word(ends.1)];
    let failed =
        |why: String| Failure::new(format!("cannot probe {} and {}: {why}", names[0], names[1]));
    let answer = start(addresses, bytes(fabric, ends), deadline)
        .map_err(|error| failed(format!("no process could be started: {error}")))?;
    match answer.object() {
        Some(ProofAnswer::Proof(proof)) => Ok(proof),
        Some(ProofAnswer::Failed { error, hint, is_missing }) => {
            let exit = if is_missing { Exit::NotPossible } else { Exit::Failed };
            Err(failed(error).hint(hint).exit(exit))
        }
        None => {
            let hint = "`nvidia-smi` and `sudo dmesg | grep -i -e nvrm -e xid` say how they are";
            Err(failed(answer.fault("the driver")).hint(hint.to_owned()))
        }
    }
}

/// The addresses of two functions that can be proved.
fn provable(fabric: &Fabric, ends: (FunctionId, FunctionId)) -> Result<[Bdf; 2], Failure> {
    let refused = |why: &str, hint: &str| {
        let error = format!(
            "cannot probe {} and {}: {why}",
            fabric.device_word(ends.0),
            fabric.device_word(ends.1)
        );
        Failure::new(error).hint(hint.to_owned()).exit(Exit::NotPossible)
    };
    if !fabric.is_this_machine() {
        return Err(refused("that machine is not this one", "leave --probe out"));
    }
    let functions = [fabric.function(ends.0), fabric.function(ends.1)];
    let is_provable = |function: &&peerlane_fabric::Function| {
        function.kind == FunctionKind::Gpu && function.vendor == Some(gpu::VENDOR_NVIDIA)
    };
    if !functions.iter().all(is_provable) {
        let hint = "leave --probe out; perftest between two machines shows what a NIC does";
        return Err(refused("only two GPUs of NVIDIA can be probed as yet", hint));
    }
    if ends.0 == ends.1 {
        return Err(refused("it is one GPU", "name two"));
    }
    match functions.map(|function| function.address) {
        [Some(first), Some(second)] => Ok([first, second]),
        _ => Err(refused("their addresses are not known", "leave --probe out")),
    }
}

/// Bytes of the longest store: beyond a small window of either GPU.
fn bytes(fabric: &Fabric, ends: (FunctionId, FunctionId)) -> Bytes {
    let pair = peerlane_doctor::pair_record(fabric, ends, false);
    let windows = [pair.forward, pair.backward].map(|one| one.and_then(|one| one.memory));
    let small = windows.into_iter().flatten().filter(|window| *window <= SMALL_WINDOW).max();
    Bytes(BYTES.0 + small.map_or(0, |window| window.0))
}

fn start(gpus: [Bdf; 2], bytes: Bytes, deadline: Nanos) -> io::Result<ChildAnswer> {
    let seconds = (deadline.0 / 1_000_000_000).max(1);
    ChildAnswer::from_command(Nanos(deadline.0 + GRACE.0), |command| {
        command.arg("prove-peers").args(gpus.map(|gpu| gpu.to_string()));
        command.args(["--bytes", &bytes.0.to_string(), "--seconds", &seconds.to_string()]);
    })
}

/// The verdict on a pair, with its proof where there is one.
pub(super) fn verdict(
    (first, second): (&str, &str),
    verdict: EndsVerdict,
    proof: Option<&PairProof>,
) -> EndsVerdict {
    let Some(proof) = proof else { return verdict };
    let state = match (proof.result(), verdict.state) {
        (ProofResult::Refuted, _) => RouteState::Impossible,
        (ProofResult::Staged, _) => RouteState::Host,
        (ProofResult::Proved, RouteState::ViaCpu) => RouteState::ViaCpu,
        (ProofResult::Proved, _) => RouteState::Direct,
    };
    EndsVerdict { state, sentence: sentence([first, second], proof) }
}

/// The answer of a proof in one sentence.
fn sentence(names: [&str; 2], proof: &PairProof) -> String {
    let [first, second] = names;
    let (forward, backward) = (&proof.forward, &proof.backward);
    match proof.result() {
        ProofResult::Proved => format!(
            "{first} -> {second}: proved: every block arrived in both directions, at {} and {}",
            forward.bytes_per_second, backward.bytes_per_second
        ),
        ProofResult::Staged => {
            let one = match (forward.result, backward.result) {
                (ProofResult::Proved, _) => format!(" from {second} to {first}"),
                (_, ProofResult::Proved) => format!(" from {first} to {second}"),
                _ => String::new(),
            };
            format!(
                "{first} -> {second}: staged: the driver grants no peer access{one}, and its copies go \
                 through host memory"
            )
        }
        ProofResult::Refuted => format!(
            "{first} -> {second}: refuted: {} of {} blocks did not arrive",
            forward.missing + backward.missing,
            forward.blocks + backward.blocks
        ),
    }
}
