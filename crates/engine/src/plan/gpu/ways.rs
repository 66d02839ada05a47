//! Every way between drives and a GPU of a machine, with its obstacles.

use peerlane_fabric::gpu::{self, ConsumerLine, Generation, VENDOR_AMD, VENDOR_NVIDIA};
use peerlane_fabric::{Fabric, FunctionId, IommuMode, pci_names};
use peerlane_memory::cufile::Mode;
use peerlane_reach::{
    Fact, MapType, Reach, kernel_refusal, multipath_refuses, nvidia_fs_question, nvidia_fs_refusal,
    udev_refusal,
};
use peerlane_results::{Candidate, MemoryFacts, MemoryKind};
use peerlane_units::Bytes;

use super::{GpuWay, settings, way_of};
use crate::endpoints::{Endpoint, no_function};
use crate::plan::candidates::worse;
use crate::plan::shape::PlanEnds;
use peerlane_reach::ADDRESS_SPACE_FIX;

/// First open driver that lends memory by P2PDMA (NVIDIA, "GDS Support for NVMe Drives Using Linux PCI P2PDMA").
const P2PDMA_DRIVER: u32 = 565;
/// The GPUs that lend memory by P2PDMA, and who lists them.
const P2PDMA_GPUS: &str = "A100, A40, L4, L40S, H100, H200, B100, B200 and B300 (NVIDIA, \"GPUDirect Storage \
    Installation and Troubleshooting Guide\", P2PDMA Supported GPUs)";
/// The GPUs that nvidia-fs reaches, and who lists them.
const NVIDIA_FS_GPUS: &str =
    "data-centre and workstation GPUs (NVIDIA, README of gds-nvidia-fs, Requirements)";
/// Kernel whose io_uring waits with a deadline, which ours needs.
const IO_URING: (u32, u32) = (5, 11);
const CUDA: &str = "libcuda.so.1";
const CUFILE: &str = "libcufile.so.0";
/// Grace-class processors share memory with their GPU. cuFile's keys for P2PDMA switch this way on
/// there, and multipath heads do not matter (design text of NVIDIA's gds-diag).
const C2C: &str = "its memory is reached by C2C, NVLink from the processor, where cuFile has that switched on: multipath \
    and the kernel's rules for peers do not matter then; `--probe` shows the flag from cuFile 1.16 on (not tried)";

/// Facts of a machine about one GPU.
pub(super) struct GpuScene<'a> {
    pub(super) fabric: &'a Fabric,
    /// Partners of the GPU: one end, or source and target.
    pub(super) ends: &'a [&'a Endpoint],
    pub(super) gpu: FunctionId,
    pub(super) typed: &'a str,
}

/// Every way, the best first; compatibility mode comes last, since nothing takes it unless it is asked for.
pub(super) fn ways(scene: &GpuScene<'_>) -> Vec<Candidate> {
    match scene.fabric.function(scene.gpu).vendor {
        Some(VENDOR_NVIDIA) => {
            vec![scene.p2pdma(), scene.nvidia_fs(), scene.pinned(), scene.compatible()]
        }
        Some(VENDOR_AMD) => vec![scene.amd()],
        _ => vec![scene.of_nobody()],
    }
}

/// Every way of a copy through memory of a GPU, the best first. Compatibility mode is none: it is host memory,
/// which is had without cuFile.
pub(in crate::plan) fn between(
    fabric: &Fabric,
    ends: PlanEnds<'_>,
    gpu: FunctionId,
    typed: &str,
) -> Vec<Candidate> {
    let scene = GpuScene { fabric, ends: &[ends.source, ends.target], gpu, typed };
    let mut candidates = ways(&scene);
    candidates.retain(|one| way_of(&one.memory) != Some(GpuWay::CuFile(Mode::Compatible)));
    for candidate in &mut candidates {
        let is_direct = candidate.memory.kind != MemoryKind::Host;
        candidate.refusals.extend(scene.of_files(is_direct));
    }
    candidates
}

impl GpuScene<'_> {
    fn candidate(&self, way: &str, kind: MemoryKind, refusals: Vec<String>) -> Candidate {
        let address = self.fabric.function(self.gpu).address;
        let memory = MemoryFacts {
            name: format!("{} by {way}", self.typed),
            kind,
            address: address.map(|address| address.to_string()),
            size: None,
            available: None,
        };
        let unknown = MapType::Unknown;
        let (source, target) = (unknown, unknown);
        Candidate { memory, source, target, distance: None, refusals, facts: Vec::new() }
    }

    fn by(&self, way: GpuWay, kind: MemoryKind, refusals: Vec<String>) -> Candidate {
        self.candidate(&way.to_string(), kind, refusals)
    }

    /// Returns the reasons of the files themselves.
    fn of_files(&self, is_direct: bool) -> Vec<String> {
        let reason = |end: &&Endpoint| {
            let (live, path) = (end.live.as_ref()?, &end.facts.path);
            if live.passthrough.is_some() {
                return Some(format!(
                    "{path} is a passthrough node, which reaches no GPU: name its block device"
                ));
            }
            let is_cached = is_direct && !live.is_direct;
            is_cached.then(|| format!("{path} takes no direct I/O, which cuFile needs"))
        };
        self.ends.iter().filter_map(reason).collect()
    }

    fn p2pdma(&self) -> Candidate {
        const WAY: GpuWay = GpuWay::CuFile(Mode::P2pdma);
        let excluded = self.consumer(P2PDMA_GPUS).or_else(|| {
            self.too_old(
                Generation::Ampere,
                &format!("shares no memory by P2PDMA, which needs one of {P2PDMA_GPUS}"),
            )
        });
        if let Some(excluded) = excluded {
            return self.by(WAY, MemoryKind::Gpu, vec![excluded]);
        }
        let kernel = &self.fabric.kernel;
        let mut refusals = self.stack(CUFILE);
        refusals.extend(self.without_window());
        refusals.extend(self.old_driver());
        refusals.extend(kernel_refusal(kernel));
        refusals.extend(self.ends.iter().filter_map(|end| self.refusal_of(end)));
        refusals.dedup();
        if multipath_refuses(self.fabric) && !self.has_c2c() {
            refusals.push(
                "nvme_core.multipath is on, which takes no peer-to-peer pages: add \
                 `nvme_core.multipath=N` to the kernel's parameters"
                    .to_owned(),
            );
        }
        let mut candidate = self.by(WAY, MemoryKind::Gpu, refusals);
        self.reach(&mut candidate);
        self.refuse_without_udev(&mut candidate);
        candidate.facts.extend(self.ends.iter().filter_map(|end| settings::needed(end)));
        if self.has_c2c() {
            candidate.facts.push(C2C.to_owned());
        } else if self.fabric.function(self.gpu).p2pmem.is_none() {
            candidate.facts.push(
                format!(
                    "its memory is not seen to be shared: P2PDMA needs one of {P2PDMA_GPUS}, and on x86 \
                     `options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"`"
                ),
            );
        }
        candidate
    }

    /// Returns the reason why an end itself takes no peer-to-peer pages, if cuFile has no other
    /// way.
    fn refusal_of(&self, end: &Endpoint) -> Option<String> {
        let refusal = end.facts.refusal.clone()?;
        let device = end.live.as_ref().and_then(|live| live.device.as_ref());
        let is_by_network = settings::is_rdma(end)
            && device.is_some_and(|device| refusal == no_function(&device.name));
        let is_of_kernel = kernel_refusal(&self.fabric.kernel).as_ref() == Some(&refusal);
        let is_passed_by = self.has_c2c() && refusal.contains("multipath head");
        (!is_of_kernel && !is_by_network && !is_passed_by).then_some(refusal)
    }

    fn has_c2c(&self) -> bool {
        gpu::has_c2c(self.fabric.function(self.gpu))
    }

    fn nvidia_fs(&self) -> Candidate {
        const WAY: GpuWay = GpuWay::CuFile(Mode::NvidiaFs);
        let excluded = self.consumer(NVIDIA_FS_GPUS).or_else(|| {
            self.too_old(
                Generation::Pascal,
                "is reached by cuFile in compatibility mode only: direct paths need compute capability 6.0 \
                 (Pascal) or later (NVIDIA, \"GPUDirect Storage Release Notes\", Support Matrix)",
            )
        });
        if let Some(excluded) = excluded {
            return self.by(WAY, MemoryKind::Gpu, vec![excluded]);
        }
        let mut refusals = self.stack(CUFILE);
        refusals.extend(self.without_window());
        refusals.extend(nvidia_fs_refusal(self.fabric));
        if self.fabric.iommu == IommuMode::Translating {
            refusals.push(
                "the IOMMU translates addresses: `iommu=pt`, or off, among the kernel's parameters"
                    .to_owned(),
            );
        }
        let elsewhere = self.ends.iter().filter(|end| end.initiator.is_none());
        refusals.extend(elsewhere.map(|end| on_no_drive(end)));
        let mut candidate = self.by(WAY, MemoryKind::Gpu, refusals);
        self.refuse_without_udev(&mut candidate);
        candidate.distance = self.distance();
        candidate.facts.extend(nvidia_fs_question(self.fabric));
        candidate
    }

    fn compatible(&self) -> Candidate {
        let mut candidate =
            self.by(GpuWay::CuFile(Mode::Compatible), MemoryKind::Host, self.stack(CUFILE));
        self.refuse_without_udev(&mut candidate);
        candidate.facts.push(
            "taken only where it is named: `peerlane bench stream --routes host-cufile`".to_owned(),
        );
        candidate
    }

    /// Refuses an otherwise open way of cuFile if cuFile finds no drive.
    fn refuse_without_udev(&self, candidate: &mut Candidate) {
        if candidate.refusals.is_empty() {
            candidate.refusals.extend(udev_refusal(self.fabric));
        }
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
            "AMD's GPUs are reached by hipFile of ROCm, which this program does not support: no machine \
             with one was available for tests; use `ais-check` and `aiscp` of ROCm"
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
        refusals.extend(self.without_window());
        let mut candidate = self.candidate("hipFile", MemoryKind::Gpu, refusals);
        self.reach(&mut candidate);
        candidate.facts.push(
            "hipFile's direct path needs the amdgpu driver of ROCm (amdgpu-dkms) and CONFIG_PCI_P2PDMA"
                .to_owned(),
        );
        candidate
    }

    /// A GPU of a description that says nothing of its maker, or of a maker that has no such thing.
    fn of_nobody(&self) -> Candidate {
        let gpu = self.fabric.function(self.gpu);
        let refusal = match pci_names::look_up(gpu) {
            Some(name) => format!("{name} has no path to storage that this program knows"),
            None => "the path depends on the maker, which the machine file does not give: add \
                     `vendor = \"0x10de\"` for NVIDIA"
                .to_owned(),
        };
        let mut candidate =
            self.candidate("the driver of its maker", MemoryKind::Gpu, vec![refusal]);
        self.reach(&mut candidate);
        candidate
    }

    /// Returns the reason against a GPU that is known to be older than a generation.
    fn too_old(&self, first: Generation, what: &str) -> Option<String> {
        let gpu = self.fabric.function(self.gpu);
        let generation = Generation::from_function(gpu).filter(|&generation| generation < first)?;
        Some(format!("{}, of {generation}, {what}", pci_names::look_up(gpu)?))
    }

    /// Returns the reason against a GPU for consumers; `listed` are the GPUs of a direct way.
    fn consumer(&self, listed: &str) -> Option<String> {
        let gpu = self.fabric.function(self.gpu);
        let line = ConsumerLine::from_function(gpu)?;
        Some(format!("{} is a {line}, and this path is for {listed}", pci_names::look_up(gpu)?))
    }

    /// Returns the reason against a GPU whose memory has no window with address space.
    fn without_window(&self) -> Option<String> {
        let gpu = self.fabric.function(self.gpu);
        let lost = gpu.unassigned_bars.iter().map(|bar| format!("BAR {}", bar.index));
        let lost: Vec<String> = lost.collect();
        (!lost.is_empty()).then(|| {
            format!("its window ({}) has no address space: {ADDRESS_SPACE_FIX}", lost.join(", "))
        })
    }

    /// The kernel's decision for each drive and the GPU.
    fn reach(&self, candidate: &mut Candidate) {
        let verdicts: Vec<MapType> =
            self.ends.iter().map(|end| self.reach_of(end, candidate)).collect();
        if let (Some(&first), Some(&last)) = (verdicts.first(), verdicts.last()) {
            (candidate.source, candidate.target) = (first, last);
        }
        candidate.distance = self.distance();
    }

    /// The same for one, the worst of its drives.
    fn reach_of(&self, end: &Endpoint, candidate: &mut Candidate) -> MapType {
        if end.initiator.is_none() {
            if !settings::is_rdma(end) {
                candidate.refusals.push(on_no_drive(end));
            }
            return MapType::Unknown;
        }
        let mut worst = MapType::BusAddress;
        for &drive in end.initiator.iter().chain(&end.further) {
            let reach = peerlane_reach::decide(self.fabric, self.gpu, drive);
            let verdict = match reach.map {
                MapType::NotSupported if self.has_c2c() => MapType::Unknown,
                map => map,
            };
            worst = worse(worst, verdict);
            let facts = reach.facts.iter().map(ToString::to_string);
            let new: Vec<String> = facts.filter(|one| !candidate.facts.contains(one)).collect();
            candidate.facts.extend(new);
            if verdict == MapType::NotSupported {
                let name = &self.fabric.function(drive).name;
                let way_out = self.around(&reach);
                candidate
                    .refusals
                    .push(format!("{name} cannot reach the GPU: {}: {way_out}", reach.summary()));
            }
        }
        worst
    }

    /// Gives advice if the kernel refuses the route.
    fn around(&self, reach: &Reach) -> String {
        const SWITCH: &str = "put both below one switch";
        let redirecting = reach.facts.iter().filter_map(|fact| match fact {
            Fact::AcsRedirect { function, .. } => self.fabric.find(function),
            _ => None,
        });
        let ports: Vec<String> = redirecting.filter_map(|id| self.fabric.path_of(id)).collect();
        if ports.is_empty() {
            return format!("{SWITCH}, since no setting of the kernel changes this");
        }
        format!(
            "switch redirection by ACS off by `pci=disable_acs_redir={}` among the kernel's parameters",
            ports.join(";")
        )
    }

    /// Of all ends together.
    fn distance(&self) -> Option<u32> {
        let of = |end: &&Endpoint| {
            peerlane_reach::decide(self.fabric, self.gpu, end.initiator?).distance
        };
        self.ends.iter().map(of).sum()
    }

    /// Lists the missing parts of the driver and this library. Parts that cannot be seen do not
    /// count.
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
        self.fabric.kernel.has_module(name)
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
