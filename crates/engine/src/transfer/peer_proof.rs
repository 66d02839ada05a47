//! Proof between two GPUs: one stores a pattern in memory of the other, whose owner reads it back.
//!
//! Peer access granted by the driver is no proof. GPUs of one clique have stored into a private
//! mirror instead of the other's memory (NVIDIA/nccl #2335), and read it back unchanged. So the
//! owner's copy engine reads its own memory, and the processor compares.

use std::sync::Arc;

use peerlane_memory::cuda::{
    Argument, Copy, CopyDirection, Cuda, CudaError, CudaKernel, DeviceMemory, Gpu, GpuFacts,
    KernelQueue, LaunchGrid, PeerAccess, Pinned,
};
use peerlane_memory::nvrtc::{Nvrtc, NvrtcError};
use peerlane_results::{DirectionProof, MethodProof, PairProof, ProofMethod, ProofResult};
use peerlane_units::{ByteRate, Bytes, Nanos};

use crate::io::clock::{Clock, MonotonicClock};
use crate::io::desk::{Stopped, wait_until};
use crate::io::random::Random;

const KERNEL: &str = include_str!("peer_proof.cu");
/// Unit of counted stores: a page, the smallest mapping of a BAR.
const BLOCK: usize = 4096;
/// Lengths of stores before the longest: within a page, a page, over a page of 64 KiB and one of 2 MiB of the GPU.
const LENGTHS: [u64; 4] = [4096 - 8, 4096, (64 << 10) + 4096, (2 << 20) + 4096];
/// Host memory that content is compared in.
const ROOM: Bytes = Bytes::mib(16);
/// Bytes of a word of the pattern.
const WORD: usize = 8;
const GRID: LaunchGrid = LaunchGrid { blocks: [256, 1, 1], threads: 128 };
/// Content of the owner's memory before each store.
const BEFORE: u8 = 0x5a;

/// Bounds of a proof.
#[derive(Debug, Clone, Copy)]
pub struct ProofLimits {
    /// Bytes of the longest store.
    pub bytes: Bytes,
    /// Deadline of the whole proof.
    pub deadline: Nanos,
}

/// Reason why there is no proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerProofError {
    /// A GPU, or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The compiler of the kernel that stores.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// A GPU did not finish in time.
    #[error("GPU {gpu} did not finish within {deadline}")]
    Stuck {
        /// Its address.
        gpu: String,
        /// The time that was allowed.
        deadline: Nanos,
    },
}

impl PeerProofError {
    /// Returns whether the machine lacks something.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Cuda(error) => error.is_missing(),
            Self::Nvrtc(error) => error.is_missing(),
            Self::Stuck { .. } => false,
        }
    }

    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cuda(error) => error.hint().map(str::to_owned),
            Self::Nvrtc(error) => error.hint().map(str::to_owned),
            Self::Stuck { gpu, .. } => Some(format!(
                "`nvidia-smi -q -i {gpu}` and `sudo dmesg | grep -i -e nvrm -e xid` say how it is"
            )),
        }
    }
}

/// Two GPUs, each with memory for the other's stores. [`ProofBench::clear`] overwrites the memories with zeroes.
struct ProofBench {
    deadline: Nanos,
    clock: MonotonicClock,
    /// The end of the whole proof by that clock.
    end: Nanos,
    seeds: Random,
    accesses: Vec<Arc<PeerAccess>>,
    kernels: [CudaKernel; 2],
    ends: [ProofEnd; 2],
}

/// One GPU of a proof.
struct ProofEnd {
    gpu: Arc<Gpu>,
    /// Memory for the other GPU's stores.
    memory: Arc<DeviceMemory>,
    /// Source of its own copies.
    pattern: Arc<DeviceMemory>,
    queue: KernelQueue,
    pinned: Arc<Pinned>,
}

/// Proves both directions between two GPUs.
///
/// # Errors
/// [`PeerProofError`] without a result; the content of the memories is undefined then.
pub fn prove_peers(
    cuda: &Cuda,
    gpus: [&GpuFacts; 2],
    nvrtc: &Nvrtc,
    limits: ProofLimits,
) -> Result<PairProof, PeerProofError> {
    let mut bench = ProofBench::open(cuda, gpus, nvrtc, limits)?;
    let proved = bench.prove(limits.bytes);
    if proved.is_err() {
        // To free memory would wait for a GPU that hangs; the process ends with it.
        std::mem::forget(bench);
    }
    proved
}

impl ProofBench {
    fn open(
        cuda: &Cuda,
        gpus: [&GpuFacts; 2],
        nvrtc: &Nvrtc,
        limits: ProofLimits,
    ) -> Result<Self, PeerProofError> {
        let clock = MonotonicClock::start();
        let end = |facts: &GpuFacts| {
            let gpu = cuda.open(facts)?;
            let image = nvrtc.compile(KERNEL, "peer_proof.cu", facts.compute)?;
            let kernel = gpu.module(&image)?.kernel(c"store")?;
            let (memory, pattern) = (gpu.allocate(limits.bytes)?, gpu.allocate(limits.bytes)?);
            let (queue, pinned) = (gpu.queue()?, gpu.pin(ROOM)?);
            Ok::<_, PeerProofError>((kernel, ProofEnd { gpu, memory, pattern, queue, pinned }))
        };
        let [(first_kernel, first), (second_kernel, second)] = [end(gpus[0])?, end(gpus[1])?];
        let (kernels, ends) = ([first_kernel, second_kernel], [first, second]);
        let seeds = Random::new(crate::io::request::fresh_tag() ^ u64::from(std::process::id()));
        let accesses = Vec::new();
        let deadline = limits.deadline;
        Ok(Self { deadline, clock, end: deadline, seeds, accesses, kernels, ends })
    }

    fn prove(&mut self, longest: Bytes) -> Result<PairProof, PeerProofError> {
        let forward = self.direction(0, longest)?;
        let backward = self.direction(1, longest)?;
        self.clear()?;
        Ok(PairProof { forward, backward })
    }

    /// Proves the direction that starts at a GPU.
    fn direction(&mut self, from: usize, longest: Bytes) -> Result<DirectionProof, PeerProofError> {
        let (own, other) = (&self.ends[from].gpu, &self.ends[1 - from].gpu);
        if !own.can_access(other)? {
            let method = self.method(from, longest, None, ProofMethod::CopyEngine)?;
            let result =
                if method.missing > 0 { ProofResult::Refuted } else { ProofResult::Staged };
            return Ok(direction(result, vec![method]));
        }
        let access = own.access(other)?;
        // Kept: to give it up waits for a GPU that hangs.
        self.accesses.push(Arc::clone(&access));
        let methods = [ProofMethod::KernelStores, ProofMethod::CopyEngine]
            .map(|method| self.method(from, longest, Some(&access), method));
        let methods = methods.into_iter().collect::<Result<Vec<_>, _>>()?;
        let is_missing = methods.iter().any(|method| method.missing > 0);
        let result = if is_missing { ProofResult::Refuted } else { ProofResult::Proved };
        Ok(direction(result, methods))
    }

    fn method(
        &mut self,
        from: usize,
        longest: Bytes,
        access: Option<&Arc<PeerAccess>>,
        method: ProofMethod,
    ) -> Result<MethodProof, PeerProofError> {
        let shorter = LENGTHS.into_iter().filter(|length| *length < longest.0);
        let mut proof =
            MethodProof { method, blocks: 0, missing: 0, bytes_per_second: ByteRate(0) };
        for length in shorter.chain([longest.0 / WORD as u64 * WORD as u64]) {
            let seed = self.seeds.next();
            self.fill(1 - from, BEFORE, FilledMemory::Target)?;
            let took = match (method, access) {
                (ProofMethod::KernelStores, Some(access)) => {
                    self.store(from, length, seed, access)?
                }
                _ => self.copy(from, length, seed)?,
            };
            proof.blocks += length.div_ceil(BLOCK as u64);
            proof.missing += self.missing(1 - from, length, seed)?;
            let rate = u128::from(length) * 1_000_000_000 / u128::from(took.0.max(1));
            proof.bytes_per_second = ByteRate(u64::try_from(rate).unwrap_or(u64::MAX));
        }
        Ok(proof)
    }

    /// Lets a kernel of one GPU store the pattern in memory of the other.
    fn store(
        &mut self,
        from: usize,
        length: u64,
        seed: u64,
        access: &Arc<PeerAccess>,
    ) -> Result<Nanos, PeerProofError> {
        let memory = Arc::clone(&self.ends[1 - from].memory);
        let queue = &mut self.ends[from].queue;
        let words = Argument::Whole(length / WORD as u64);
        let target = Argument::Peer { memory: &memory, access };
        queue.stamp()?;
        queue.launch(&self.kernels[from], GRID, &[target, words, Argument::Whole(seed)])?;
        queue.stamp()?;
        self.took(from)
    }

    /// Lets the copy engine of one GPU copy the pattern to memory of the other.
    fn copy(&mut self, from: usize, length: u64, seed: u64) -> Result<Nanos, PeerProofError> {
        let memory = Arc::clone(&self.ends[1 - from].memory);
        let kernel = &self.kernels[from];
        let end = &mut self.ends[from];
        let words = Argument::Whole(length / WORD as u64);
        let own = Argument::Memory(&end.pattern);
        end.queue.launch(kernel, GRID, &[own, words, Argument::Whole(seed)])?;
        end.queue.stamp()?;
        end.queue.copy_between(&end.pattern, &memory, length)?;
        end.queue.stamp()?;
        self.took(from)
    }

    /// Waits for a GPU; returns the time between its two stamps.
    fn took(&mut self, number: usize) -> Result<Nanos, PeerProofError> {
        self.wait(number)?;
        let times = self.ends[number].queue.times()?;
        Ok(times.into_iter().next().unwrap_or_default())
    }

    /// Counts blocks that the owner does not find in its memory.
    fn missing(&mut self, owner: usize, length: u64, seed: u64) -> Result<u64, PeerProofError> {
        let mut missing = 0;
        for begin in (0..length).step_by(to_usize(ROOM.0)) {
            let part = ROOM.0.min(length - begin);
            let end = &mut self.ends[owner];
            let copy = Copy {
                direction: CopyDirection::ToHost,
                pinned: &end.pinned,
                pinned_offset: 0,
                memory: &end.memory,
                memory_offset: begin,
                length: part,
                tag: 0,
            };
            end.queue.copy(&copy)?;
            self.wait(owner)?;
            let bytes = Pinned::bytes_mut(&mut self.ends[owner].pinned);
            missing += match bytes.and_then(|bytes| bytes.get(..to_usize(part))) {
                Some(bytes) => wrong_blocks(bytes, begin / WORD as u64, seed),
                None => part.div_ceil(BLOCK as u64),
            };
        }
        Ok(missing)
    }

    fn fill(&mut self, number: usize, byte: u8, which: FilledMemory) -> Result<(), PeerProofError> {
        let end = &mut self.ends[number];
        let memory = match which {
            FilledMemory::Target => &end.memory,
            FilledMemory::Pattern => &end.pattern,
        };
        end.queue.fill(memory, 0, memory.length().0, byte)?;
        self.wait(number)
    }

    fn clear(&mut self) -> Result<(), PeerProofError> {
        for number in 0..self.ends.len() {
            for which in [FilledMemory::Target, FilledMemory::Pattern] {
                self.fill(number, 0, which)?;
            }
        }
        Ok(())
    }

    /// Waits for a GPU until the deadline of the whole proof.
    fn wait(&mut self, number: usize) -> Result<(), PeerProofError> {
        let ProofEnd { gpu, queue, .. } = &mut self.ends[number];
        queue.close()?;
        let left = self.end.since(self.clock.now());
        wait_until((&self.clock, left), || queue.is_over()).map_err(|stopped| match stopped {
            Stopped::Cuda(error) => error.into(),
            Stopped::Deadline => {
                let gpu = gpu.facts().address.to_string();
                PeerProofError::Stuck { gpu, deadline: self.deadline }
            }
        })
    }
}

/// A memory of one end.
#[derive(Debug, Clone, Copy)]
enum FilledMemory {
    Target,
    Pattern,
}

fn direction(result: ProofResult, methods: Vec<MethodProof>) -> DirectionProof {
    let fastest = methods.iter().map(|method| method.bytes_per_second).max();
    DirectionProof {
        result,
        blocks: methods.iter().map(|method| method.blocks).sum(),
        missing: methods.iter().map(|method| method.missing).sum(),
        bytes_per_second: fastest.unwrap_or(ByteRate(0)),
        methods,
    }
}

/// Counts blocks that differ from the pattern; `first` is the place of the first word.
fn wrong_blocks(bytes: &[u8], first: u64, seed: u64) -> u64 {
    let words = (BLOCK / WORD) as u64;
    let is_wrong = |(block, bytes): (u64, &[u8])| {
        let mut places = (first + block * words..).zip(bytes.chunks_exact(WORD));
        places.any(|(place, word)| word != pattern(seed, place).to_ne_bytes())
    };
    (0..).zip(bytes.chunks(BLOCK)).filter(|&block| is_wrong(block)).count() as u64
}

/// The word at a place, as `peer_proof.cu` has it (splitmix64, Steele, Lea and Flood, 2014).
fn pattern(seed: u64, place: u64) -> u64 {
    let word = seed.wrapping_add((place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
