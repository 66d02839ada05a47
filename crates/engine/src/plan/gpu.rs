//! The plan between drives and memory of a GPU, as an end or between two ends: every way in order of preference,
//! with what is against it.
//!
//! It rests on what discovery sees: modules, libraries, kernel, ports. Nothing is loaded here; whether a way
//! that nothing speaks against is really taken shows when cuFile opens with its fallback switched off.

use std::fmt;

use peerlane_fabric::{Fabric, Function, FunctionId, IommuMode, Kind, MapType, reach};
use peerlane_memory::cufile::Mode;
use peerlane_results::{
    Asked, Candidate, EndpointFacts, EndpointKind, MemoryFacts, MemoryKind, PLAN_SCHEMA, Path,
    Plan, Route, RouteChoice, Verdict, Warning,
};
use peerlane_units::Bytes;

use super::candidates::worse;
use super::shape::Ends;
use super::{PlanError, look};
use crate::endpoint::{Endpoint, GpuName, Notation, kernel_refusal};
use crate::failure::Role;
use crate::guard::{self, System};

const VENDOR_NVIDIA: u16 = 0x10de;
const VENDOR_AMD: u16 = 0x1002;
/// First open driver that lends memory by P2PDMA (NVIDIA, "GDS Support for NVMe Drives Using Linux PCI P2PDMA").
const P2PDMA_DRIVER: u32 = 565;
/// Kernel whose io_uring waits with a deadline, which ours needs.
const IO_URING: (u32, u32) = (5, 11);
const CUDA: &str = "libcuda.so.1";
const CUFILE: &str = "libcufile.so.0";
/// Most requests of a copy through memory of a GPU at a time: each is a thread of cuFile's, and two stay free for
/// what is no payload.
pub(super) const REQUESTS_MAX: u32 = 120;

/// What helps where the kernel lets neither reach the other.
const REACH_FIX: &str = "put both below one switch, or switch redirection by ACS off at the ports that \
    are named, by `pci=disable_acs_redir=ADDRESS` among the kernel's parameters";

/// The GPU of what was asked for, and which end it is; `None` where there is none.
pub(super) fn asked_for(asked: &Asked) -> Option<(GpuName, Role)> {
    let name = |typed: &str| match typed.parse() {
        Ok(Notation::Gpu(name)) => Some(name),
        _ => None,
    };
    let source = name(&asked.source).map(|name| (name, Role::Source));
    source.or_else(|| name(&asked.target).map(|name| (name, Role::Target)))
}

/// How bytes get between a drive and memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuWay {
    /// By cuFile.
    CuFile(Mode),
    /// By pieces in pinned host memory, which the GPU's copy engine takes.
    Pinned,
}

impl fmt::Display for GpuWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CuFile(mode) => mode.fmt(f),
            Self::Pinned => f.pad("pinned host memory"),
        }
    }
}

/// The way that a memory of a plan stands for; `None` where it is no GPU's.
pub(crate) fn way_of(memory: &MemoryFacts) -> Option<GpuWay> {
    let (name, words) = memory.name.split_once(" by ")?;
    let ways = [Mode::P2pdma, Mode::NvidiaFs, Mode::Compatible].map(GpuWay::CuFile);
    let mut ways = ways.into_iter().chain([GpuWay::Pinned]);
    let is_gpu = matches!(name.parse(), Ok(Notation::Gpu(_)));
    ways.find(|way| is_gpu && way.to_string() == words)
}

/// How a measurement goes the way that a plan between a drive and a GPU has chosen.
pub fn gpu_path(plan: &Plan) -> Path {
    match plan.memory.as_ref().and_then(way_of) {
        _ if plan.route == Some(Route::P2p) => Path::P2p,
        Some(GpuWay::CuFile(Mode::Compatible)) => Path::HostCufile,
        _ => Path::HostPipelined,
    }
}

/// Plans what goes between a drive and a GPU.
pub(super) fn plan(
    system: &System,
    fabric: &Fabric,
    asked: &Asked,
    (name, role): (GpuName, Role),
) -> Result<Plan, PlanError> {
    if let Some(via) = &asked.via {
        return Err(PlanError::ViaWithGpu { via: via.clone() });
    }
    let (typed, other, drive_role) = match role {
        Role::Source => (&asked.source, &asked.target, Role::Target),
        Role::Target => (&asked.target, &asked.source, Role::Source),
    };
    let gpu = find(fabric, name, typed)?;
    let drive = look(system, fabric, other, drive_role)?;
    let candidates = ways(&Scene { fabric, ends: &[&drive], gpu, typed });
    let (route, memory, reason) = choose(asked.route, &candidates);
    let fell_back = asked.route == RouteChoice::Auto && route == Some(Route::Host);
    let warnings = fell_back.then(|| Warning::FellBack { reason: why_not_direct(&candidates) });
    let facts = end(typed, fabric.function(gpu));
    let (source, target) = match role {
        Role::Source => (facts, drive.facts.clone()),
        Role::Target => (drive.facts.clone(), facts),
    };
    let length = (role == Role::Target).then(|| guard::length_of(asked, &drive.facts));
    Ok(Plan {
        schema: PLAN_SCHEMA.to_owned(),
        asked: Asked { length: asked.length.or(length), ..asked.clone() },
        source,
        target,
        route,
        memory,
        reason,
        candidates,
        shape: None,
        way: Vec::new(),
        limits: Vec::new(),
        unmeasured: drive.facts.device.iter().cloned().collect(),
        refusals: Vec::new(),
        warnings: warnings.into_iter().collect(),
    })
}

/// GPUs as they are counted: NVIDIA's by address, as `nvidia-smi` does; where there is none, AMD's.
fn gpus(fabric: &Fabric) -> Vec<FunctionId> {
    let of = |vendor: u16| {
        let is_it = |one: &Function| one.kind == Kind::Gpu && one.vendor == Some(vendor);
        let mut found: Vec<FunctionId> =
            fabric.iter().filter(|(_, one)| is_it(one)).map(|(id, _)| id).collect();
        found.sort_by_key(|&id| fabric.function(id).address);
        found
    };
    let nvidia = of(VENDOR_NVIDIA);
    if nvidia.is_empty() { of(VENDOR_AMD) } else { nvidia }
}

/// The function of a GPU, by what was typed for it.
pub(super) fn find(fabric: &Fabric, name: GpuName, typed: &str) -> Result<FunctionId, PlanError> {
    function(fabric, name).ok_or_else(|| PlanError::UnknownGpu {
        typed: typed.to_owned(),
        machine: fabric.name.clone(),
        gpus: gpus(fabric).iter().map(|&id| fabric.function(id).name.clone()).collect(),
    })
}

/// The function of a GPU.
fn function(fabric: &Fabric, name: GpuName) -> Option<FunctionId> {
    match name {
        GpuName::Index(index) => gpus(fabric).get(usize::try_from(index).ok()?).copied(),
        GpuName::Address(address) => {
            let mut all = fabric.iter().filter(|(_, one)| one.kind == Kind::Gpu);
            all.find(|(_, one)| one.address == Some(address)).map(|(id, _)| id)
        }
    }
}

/// A GPU as an end: it has no size as files have it.
fn end(typed: &str, gpu: &Function) -> EndpointFacts {
    EndpointFacts {
        path: typed.to_owned(),
        kind: EndpointKind::Gpu,
        size: Bytes::ZERO,
        block: Bytes(1),
        request_host: Bytes::ZERO,
        request_p2p: None,
        device: None,
        address: gpu.address.map(|address| address.to_string()),
        drive: None,
        file_system: None,
        refusal: None,
        way_out: None,
    }
}

/// The first way of the route that was asked for that nothing speaks against.
fn choose(
    choice: RouteChoice,
    candidates: &[Candidate],
) -> (Option<Route>, Option<MemoryFacts>, String) {
    let route_of = |one: &Candidate| match one.memory.kind {
        MemoryKind::Host => Route::Host,
        MemoryKind::Gpu | MemoryKind::P2pmem => Route::P2p,
    };
    let fits = |one: &&Candidate| match choice {
        RouteChoice::Auto => true,
        RouteChoice::P2p => route_of(one) == Route::P2p,
        RouteChoice::Host => route_of(one) == Route::Host,
    };
    let best = candidates.iter().filter(fits).find(|one| one.refusals.is_empty());
    match best {
        Some(best) if route_of(best) == Route::Host && choice == RouteChoice::Auto => {
            let reason =
                format!("{}; what is left is {}", why_not_direct(candidates), best.memory.name);
            (Some(Route::Host), Some(best.memory.clone()), reason)
        }
        Some(best) => {
            let reason = match route_of(best) {
                Route::P2p => {
                    "nothing that can be seen speaks against it, and cuFile decides when it opens"
                }
                Route::Host => "`--route host` asks for it",
            };
            (Some(route_of(best)), Some(best.memory.clone()), reason.to_owned())
        }
        None if choice == RouteChoice::P2p => (None, None, why_not_direct(candidates)),
        None => {
            let first = candidates.iter().rev().find_map(|one| one.refusals.first());
            (None, None, first.cloned().unwrap_or_default())
        }
    }
}

/// What is against the direct ways, first reasons only.
pub(super) fn why_not_direct(candidates: &[Candidate]) -> String {
    let direct = candidates.iter().filter(|one| one.memory.kind != MemoryKind::Host);
    let reasons =
        direct.filter_map(|one| Some(format!("{}: {}", one.memory.name, one.refusals.first()?)));
    reasons.collect::<Vec<_>>().join("; ")
}

/// What a machine has for one GPU.
struct Scene<'a> {
    fabric: &'a Fabric,
    /// What it is to exchange bytes with: one end, or source and target.
    ends: &'a [&'a Endpoint],
    gpu: FunctionId,
    typed: &'a str,
}

/// Every way, the best first.
fn ways(scene: &Scene<'_>) -> Vec<Candidate> {
    if scene.fabric.function(scene.gpu).vendor != Some(VENDOR_NVIDIA) {
        return vec![scene.amd()];
    }
    vec![scene.p2pdma(), scene.nvidia_fs(), scene.compatible(), scene.pinned()]
}

/// Every way of a copy through memory of a GPU, the best first. Compatibility mode is none: it is host memory,
/// which is had without cuFile.
pub(super) fn between(
    fabric: &Fabric,
    ends: Ends<'_>,
    gpu: FunctionId,
    typed: &str,
) -> Vec<Candidate> {
    let scene = Scene { fabric, ends: &[ends.source, ends.target], gpu, typed };
    let mut candidates = ways(&scene);
    candidates.retain(|one| way_of(&one.memory) != Some(GpuWay::CuFile(Mode::Compatible)));
    for candidate in &mut candidates {
        let is_direct = candidate.memory.kind != MemoryKind::Host;
        candidate.refusals.extend(scene.of_files(is_direct));
    }
    candidates
}

impl Scene<'_> {
    fn candidate(&self, way: &str, kind: MemoryKind, refusals: Vec<String>) -> Candidate {
        let address = self.fabric.function(self.gpu).address;
        let memory = MemoryFacts {
            name: format!("{} by {way}", self.typed),
            kind,
            address: address.map(|address| address.to_string()),
            size: None,
            available: None,
        };
        let unknown = Verdict::Unknown;
        let (source, target) = (unknown, unknown);
        Candidate { memory, source, target, distance: None, refusals, facts: Vec::new() }
    }

    fn by(&self, way: GpuWay, kind: MemoryKind, refusals: Vec<String>) -> Candidate {
        self.candidate(&way.to_string(), kind, refusals)
    }

    /// What the files themselves are in the way of.
    fn of_files(&self, is_direct: bool) -> Vec<String> {
        let reason = |end: &&Endpoint| {
            let (live, path) = (end.live.as_ref()?, &end.facts.path);
            if live.passthrough.is_some() {
                return Some(format!(
                    "{path} is a passthrough node, which reaches no GPU: name its block device"
                ));
            }
            let is_cached = is_direct && !live.is_direct;
            is_cached.then(|| format!("{path} takes no direct I/O, which cuFile wants"))
        };
        self.ends.iter().filter_map(reason).collect()
    }

    fn p2pdma(&self) -> Candidate {
        let kernel = &self.fabric.kernel;
        let mut refusals: Vec<String> = self.stack(CUFILE);
        refusals.extend(self.old_driver());
        refusals.extend(kernel_refusal(kernel));
        for end in self.ends {
            let refusal = end.facts.refusal.clone();
            refusals.extend(refusal.filter(|one| kernel_refusal(kernel).as_ref() != Some(one)));
        }
        refusals.dedup();
        if kernel.nvme_multipath == Some(true) && kernel.version() < Some((7, 2)) {
            refusals.push(
                "nvme_core.multipath is on, which takes no peer-to-peer pages: add \
                 `nvme_core.multipath=N` to the kernel's parameters"
                    .to_owned(),
            );
        }
        let mut candidate = self.by(GpuWay::CuFile(Mode::P2pdma), MemoryKind::Gpu, refusals);
        self.reach(&mut candidate);
        if self.fabric.function(self.gpu).p2pmem.is_none() {
            candidate.facts.push(
                "its memory is not seen to be lent: that wants a data centre GPU from Ampere on, and \
                 `options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"` \
                 on x86"
                    .to_owned(),
            );
        }
        candidate
    }

    fn nvidia_fs(&self) -> Candidate {
        let mut refusals = self.stack(CUFILE);
        if self.has_module("nvidia_fs") == Some(false) {
            refusals.push(
                "the module nvidia_fs is not loaded: `sudo modprobe nvidia_fs` (nvidia-fs-dkms)"
                    .to_owned(),
            );
        }
        if self.fabric.iommu == IommuMode::Translating {
            refusals.push(
                "the IOMMU translates addresses: `iommu=pt`, or off, among the kernel's parameters"
                    .to_owned(),
            );
        }
        let elsewhere = self.ends.iter().filter(|end| end.initiator.is_none());
        refusals.extend(elsewhere.map(|end| on_no_drive(end)));
        let mut candidate = self.by(GpuWay::CuFile(Mode::NvidiaFs), MemoryKind::Gpu, refusals);
        candidate.distance = self.distance();
        candidate
    }

    fn compatible(&self) -> Candidate {
        self.by(GpuWay::CuFile(Mode::Compatible), MemoryKind::Host, self.stack(CUFILE))
    }

    fn pinned(&self) -> Candidate {
        let mut refusals = self.stack(CUDA);
        if self.fabric.kernel.version().is_some_and(|version| version < IO_URING) {
            refusals.push("io_uring with deadlines came with Linux 5.11".to_owned());
        }
        self.by(GpuWay::Pinned, MemoryKind::Host, refusals)
    }

    /// hipFile's direct way is a call of the driver that comes with ROCm, `kfd_ais_rw_file`; the kernel's own
    /// amdgpu has none, and hipFile then goes through host memory (ROCm documentation, "hipFile").
    fn amd(&self) -> Candidate {
        let mut refusals = vec![
            "AMD's GPUs are reached by hipFile of ROCm, which this program does not drive: no machine \
             with one was there to try it on; `ais-check` and `aiscp` of ROCm do"
                .to_owned(),
        ];
        let gpu = self.fabric.function(self.gpu);
        refusals.extend(kernel_refusal(&self.fabric.kernel));
        if self.has_module("amdgpu") == Some(false) {
            refusals.push("the driver amdgpu is not loaded: `sudo modprobe amdgpu`".to_owned());
        }
        let window = gpu.bars.iter().filter(|bar| bar.is_prefetchable).map(|bar| bar.size).max();
        if let Some(window) = window.filter(|&size| size <= Bytes::mib(256)) {
            refusals.push(format!(
                "its window shows {window} of its memory: switch on \"Resizable BAR\" in the firmware's \
                 settings"
            ));
        }
        let mut candidate = self.candidate("hipFile", MemoryKind::Gpu, refusals);
        self.reach(&mut candidate);
        candidate.facts.push(
            "hipFile's direct way wants the amdgpu driver of ROCm (amdgpu-dkms) and CONFIG_PCI_P2PDMA"
                .to_owned(),
        );
        candidate
    }

    /// The kernel's decision for each drive and the GPU.
    fn reach(&self, candidate: &mut Candidate) {
        let verdicts: Vec<Verdict> =
            self.ends.iter().map(|end| self.reach_of(end, candidate)).collect();
        if let (Some(&first), Some(&last)) = (verdicts.first(), verdicts.last()) {
            (candidate.source, candidate.target) = (first, last);
        }
        candidate.distance = self.distance();
    }

    /// The same for one, the worst of its drives.
    fn reach_of(&self, end: &Endpoint, candidate: &mut Candidate) -> Verdict {
        if end.initiator.is_none() {
            candidate.refusals.push(on_no_drive(end));
            return Verdict::Unknown;
        }
        let mut worst = Verdict::BusAddress;
        for &drive in end.initiator.iter().chain(&end.further) {
            let reach = reach::decide(self.fabric, self.gpu, drive);
            let verdict = match reach.map {
                MapType::BusAddress => Verdict::BusAddress,
                MapType::ThroughHostBridge => Verdict::ThroughHostBridge,
                MapType::NotSupported => Verdict::NotSupported,
                MapType::Unknown => Verdict::Unknown,
            };
            worst = worse(worst, verdict);
            let facts = reach.facts.iter().map(ToString::to_string);
            let new: Vec<String> = facts.filter(|one| !candidate.facts.contains(one)).collect();
            candidate.facts.extend(new);
            if verdict == Verdict::NotSupported {
                let name = &self.fabric.function(drive).name;
                candidate.refusals.push(format!("{name}, {}: {REACH_FIX}", reach.summary()));
            }
        }
        worst
    }

    /// Of all ends together.
    fn distance(&self) -> Option<u32> {
        let of = |end: &&Endpoint| reach::decide(self.fabric, self.gpu, end.initiator?).distance;
        self.ends.iter().map(of).sum()
    }

    /// What of the driver and this library is missing; what cannot be seen is not missing.
    fn stack(&self, library: &str) -> Vec<String> {
        let mut missing = Vec::new();
        if self.has_module("nvidia") == Some(false) {
            missing.push("the driver nvidia is not loaded: `sudo modprobe nvidia`".to_owned());
        }
        let libraries = self.fabric.libraries.as_ref();
        if libraries.is_some_and(|all| !all.iter().any(|one| one == library)) {
            let package = if library == CUFILE { "nvidia-gds" } else { "libcuda1" };
            missing.push(format!("{library} is not installed: `sudo apt install {package}`"));
        }
        missing
    }

    fn has_module(&self, name: &str) -> Option<bool> {
        let modules = self.fabric.kernel.modules.as_ref()?;
        Some(modules.iter().any(|module| module.name == name))
    }

    fn old_driver(&self) -> Option<String> {
        let modules = self.fabric.kernel.modules.as_ref()?;
        let version = modules.iter().find(|one| one.name == "nvidia")?.version.as_deref()?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major < P2PDMA_DRIVER)
            .then(|| {
                format!(
                    "driver {version} is older than {P2PDMA_DRIVER}: `sudo apt install nvidia-open` for a later one"
                )
            })
    }
}

fn on_no_drive(end: &Endpoint) -> String {
    format!("{} lies on no NVMe drive of this machine", end.facts.path)
}

#[cfg(test)]
mod tests;
