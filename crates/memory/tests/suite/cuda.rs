//! GPU memory, copies and kernels against a mock that demands the order of calls that the real libraries do.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use crate::mock::Mock;
use peerlane_memory::cuda::{
    Argument, Copy, CopyDirection, CopyQueue, Cuda, CudaError, CudaKernel, DeviceMemory, Foreign,
    Gpu, KernelQueue, LaunchGrid, Pinned,
};
use peerlane_memory::nvrtc::{Nvrtc, NvrtcError};
use peerlane_memory::{LibraryError, Region, RegionKind, host, mapped};
use peerlane_units::Bytes;

fn first(mock: &Mock) -> Arc<Gpu> {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpus = cuda.gpus().unwrap();
    cuda.open(&gpus[0]).unwrap()
}

fn copy<'a>(
    direction: CopyDirection,
    pinned: &'a Arc<Pinned>,
    memory: &'a Arc<DeviceMemory>,
    tag: u64,
) -> Copy<'a> {
    let length = memory.length().0;
    Copy { direction, pinned, pinned_offset: 0, memory, memory_offset: 0, length, tag }
}

/// Looks until the copy is over; the mock says so after a few looks.
fn finish(queue: &mut CopyQueue) -> u64 {
    (0..100).find_map(|_| queue.finished().unwrap()).expect("a copy that ends")
}

#[test]
fn missing_library_has_a_hint() {
    let error = Cuda::load_from(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
    assert!(
        matches!(&error, CudaError::Library(LibraryError::NotThere { reason, .. }) if !reason.is_empty()),
        "{error}"
    );
    assert!(error.is_missing() && error.hint().is_some_and(|hint| hint.contains("libcuda")));
}

#[test]
fn wrong_library_lacks_a_function() {
    let error = Cuda::load_from(Path::new("libc.so.6")).unwrap_err();
    assert!(
        matches!(&error, CudaError::Library(LibraryError::NoFunction { symbol, .. }) if symbol == "cuInit"),
        "{error}"
    );
}

#[test]
fn a_machine_without_gpus_says_so() {
    let mock = Mock::new("devices=0");
    let error = Cuda::load_from(&mock.library()).unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuInit", code: 100 });
    assert_eq!(error.to_string(), "cuInit failed: no device (100)");
    assert!(error.is_missing() && error.hint().is_some());
}

#[test]
fn gpus_are_numbered_by_their_addresses() {
    let mock = Mock::new("devices=2");
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpus = cuda.gpus().unwrap();
    let found: Vec<_> = gpus.iter().map(|one| (one.index, one.address.to_string())).collect();
    assert_eq!(found, [(0, "0000:81:00.0".to_owned()), (1, "0000:c1:00.0".to_owned())]);
    assert_eq!((gpus[0].memory, gpus[0].compute.0), (Bytes::mib(64), 9));
    assert_eq!(cuda.version().unwrap(), (12, 8));
    mock.expect_no_violation();
}

#[test]
fn copies_round_trip_and_release_in_order() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let memory = gpu.allocate(Bytes::kib(64)).unwrap();
    let (mut pinned, mut back) =
        (gpu.pin(Bytes::kib(64)).unwrap(), gpu.pin(Bytes::kib(64)).unwrap());
    Pinned::bytes_mut(&mut pinned).unwrap().fill(0x5a);
    let (mut there, mut here) = (gpu.copy_queue().unwrap(), gpu.copy_queue().unwrap());
    there.begin(&copy(CopyDirection::ToDevice, &pinned, &memory, 7)).unwrap();
    assert_eq!(there.finished().unwrap(), None, "not at once");
    assert!(Pinned::bytes_mut(&mut pinned).is_none(), "not while it is copied");
    assert_eq!(finish(&mut there), 7);
    here.begin(&copy(CopyDirection::ToHost, &back, &memory, 8)).unwrap();
    assert_eq!(finish(&mut here), 8);
    assert!(Pinned::bytes_mut(&mut back).unwrap().iter().all(|&byte| byte == 0x5a));
    // In the worst order: what is made last is needed longest.
    drop(gpu);
    drop((memory, pinned, back));
    drop((there, here));
    mock.expect_all_undone();
}

#[test]
fn dropped_memory_is_freed_after_copy() {
    let mock = Mock::new("delay=5");
    let gpu = first(&mock);
    let (memory, pinned) = (gpu.allocate(Bytes::kib(4)).unwrap(), gpu.pin(Bytes::kib(4)).unwrap());
    let mut queue = gpu.copy_queue().unwrap();
    queue.begin(&copy(CopyDirection::ToDevice, &pinned, &memory, 1)).unwrap();
    drop((memory, pinned, gpu));
    assert_eq!(mock.calls("cuMemFree"), 0);
    drop(queue);
    mock.expect_all_undone();
}

#[test]
fn pinned_memory_region_gives_no_bytes() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let mut pinned = gpu.pin(Bytes::kib(8)).unwrap();
    let mut region: Region = pinned.region();
    assert_eq!((region.length(), region.kind()), (Bytes::kib(8), RegionKind::Pinned));
    assert_eq!(region.host_bytes_mut(), None);
    assert!(Pinned::bytes_mut(&mut pinned).is_none(), "a ring may hold the region");
    drop(region);
    assert!(Pinned::bytes_mut(&mut pinned).is_some());
}

#[test]
fn driver_copies_plain_and_mapped_memory() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let memory = gpu.allocate(Bytes::kib(64)).unwrap();
    let mut content = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    content.write_all(&bytes).unwrap();
    let map = mapped::map(&content, Bytes::kib(64)).unwrap();
    memory.load(4096, (&map, 0), 60 << 10).unwrap();
    memory.load(0, (&map, 60 << 10), 4096).unwrap();
    let mut plain = host::untouched(Bytes::kib(64)).unwrap();
    memory.store(0, (&mut plain, 0), 64 << 10).unwrap();
    let back = plain.host_bytes_mut().unwrap();
    assert!(back[4096..] == bytes[..60 << 10] && back[..4096] == bytes[60 << 10..]);
    plain.host_bytes_mut().unwrap().fill(9);
    memory.load(0, (&plain, 0), 64 << 10).unwrap();

    let pinned = gpu.pin(Bytes::kib(64)).unwrap().region();
    let error = memory.load(0, (&pinned, 0), 4096).unwrap_err();
    assert_eq!(error, CudaError::NotPlain { kind: RegionKind::Pinned });
    let mut map = map;
    let error = memory.store(0, (&mut map, 0), 4096).unwrap_err();
    assert_eq!(error, CudaError::NotPlain { kind: RegionKind::MappedFile });
    for (memory_offset, host_offset) in [(61 << 10, 0), (0, 61 << 10), (u64::MAX, 0)] {
        let error = memory.load(memory_offset, (&plain, host_offset), 4096).unwrap_err();
        assert!(matches!(error, CudaError::Range { .. }), "{error}");
        let error = memory.store(memory_offset, (&mut plain, host_offset), 4096).unwrap_err();
        assert!(matches!(error, CudaError::Range { .. }), "{error}");
    }
    assert_eq!((mock.calls("cuMemcpyHtoD"), mock.calls("cuMemcpyDtoH")), (3, 1));
    drop((memory, pinned, gpu));
    mock.expect_all_undone();
}

#[test]
fn copies_beyond_ends_never_reach_driver() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let (memory, pinned) = (gpu.allocate(Bytes::kib(8)).unwrap(), gpu.pin(Bytes::kib(4)).unwrap());
    let mut queue = gpu.copy_queue().unwrap();
    for (pinned_offset, memory_offset, length) in [(0, 0, 8192), (1, 0, 4096), (0, u64::MAX, 1)] {
        let direction = CopyDirection::ToDevice;
        let (pinned, memory) = (&pinned, &memory);
        let one = Copy { direction, pinned, pinned_offset, memory, memory_offset, length, tag: 0 };
        assert!(matches!(queue.begin(&one), Err(CudaError::Range { .. })));
    }
    assert_eq!(mock.calls("cuMemcpyHtoDAsync"), 0);
}

#[test]
fn failed_allocations_and_copies_leak_nothing() {
    let mock = Mock::new("memory=65536\nfail_copy=1");
    let gpu = first(&mock);
    assert_eq!(gpu.free().unwrap(), Bytes::kib(64));
    let error = gpu.allocate(Bytes::kib(128)).unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuMemAlloc", code: 2 });
    assert!(!error.is_missing() && error.hint().is_some_and(|hint| hint.contains("--block")));
    assert!(matches!(gpu.allocate(Bytes(0)), Err(CudaError::Length { .. })));
    let (memory, pinned) = (gpu.allocate(Bytes::kib(4)).unwrap(), gpu.pin(Bytes::kib(4)).unwrap());
    let mut queue = gpu.copy_queue().unwrap();
    let error = queue.begin(&copy(CopyDirection::ToDevice, &pinned, &memory, 1)).unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuMemcpyHtoDAsync", code: 719 });
    drop((memory, pinned, queue, gpu));
    mock.expect_all_undone();
}

/// Doubles words, a thread a word.
const TWICE: &str = "
#ifdef __cplusplus
#define KERNEL extern \"C\" __global__ void
#else
#define KERNEL static void
#endif
KERNEL twice(unsigned *at, unsigned long long count) {
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) at[index] *= 2;
}
";

fn twice(mock: &Mock, gpu: &Arc<Gpu>) -> CudaKernel {
    let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
    let image = nvrtc.compile(TWICE, "twice.cu", gpu.facts().compute).unwrap();
    gpu.module(&image).unwrap().kernel(c"twice").unwrap()
}

fn double(queue: &mut KernelQueue, kernel: &CudaKernel, memory: &Arc<DeviceMemory>) {
    let words = memory.length().0 / 4;
    let grid =
        LaunchGrid { blocks: [u32::try_from(words.div_ceil(64)).unwrap(), 1, 1], threads: 64 };
    queue.launch(kernel, grid, &[Argument::Memory(memory), Argument::Whole(words)]).unwrap();
}

#[test]
fn queue_runs_in_order_with_times() {
    let mock = Mock::new("delay=3");
    let gpu = first(&mock);
    let kernel = twice(&mock, &gpu);
    let (memory, mut pinned) = (gpu.allocate(Bytes(1000)).unwrap(), gpu.pin(Bytes(1000)).unwrap());
    let mut queue = gpu.queue().unwrap();
    queue.fill(&memory, 0, 1000, 1).unwrap();
    queue.stamp().unwrap();
    double(&mut queue, &kernel, &memory);
    double(&mut queue, &kernel, &memory);
    queue.stamp().unwrap();
    queue.copy(&copy(CopyDirection::ToHost, &pinned, &memory, 0)).unwrap();
    queue.close().unwrap();
    assert!(!queue.is_over().unwrap(), "not at once");
    assert!(Pinned::bytes_mut(&mut pinned).is_none(), "not while it is copied");
    assert!((0..100).any(|_| queue.is_over().unwrap()));
    assert!(Pinned::bytes_mut(&mut pinned).unwrap().iter().all(|&byte| byte == 4));
    let times = queue.times().unwrap();
    assert!(times.len() == 1 && times[0].0 > 0, "{times:?}");
    drop((gpu, kernel, memory, pinned, queue));
    mock.expect_all_undone();
}

#[test]
fn kernel_memory_outlives_any_drop_order() {
    let mock = Mock::new("delay=4");
    let gpu = first(&mock);
    let (kernel, memory) = (twice(&mock, &gpu), gpu.allocate(Bytes(4096)).unwrap());
    let mut queue = gpu.queue().unwrap();
    queue.fill(&memory, 0, 4096, 0).unwrap();
    double(&mut queue, &kernel, &memory);
    drop((gpu, kernel, memory));
    assert_eq!((mock.calls("cuMemFree"), mock.calls("cuModuleUnload")), (0, 0));
    drop(queue);
    mock.expect_all_undone();
}

#[test]
fn wrong_kernels_and_ranges_leak_nothing() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
    let image = nvrtc.compile(TWICE, "twice.cu", (9, 0)).unwrap();
    let module = gpu.module(&image).unwrap();
    let error = module.kernel(c"thrice").unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuModuleGetFunction", code: 500 });
    let memory = gpu.allocate(Bytes(4096)).unwrap();
    let mut queue = gpu.queue().unwrap();
    assert!(matches!(queue.fill(&memory, 4000, 97, 0), Err(CudaError::Range { .. })));
    assert!(matches!(queue.fill(&memory, u64::MAX, 1, 0), Err(CudaError::Range { .. })));
    let error = nvrtc.compile("no kernel", "wrong.cu", (9, 0)).unwrap_err();
    assert!(matches!(&error, NvrtcError::Source { words } if words.contains("error")), "{error}");
    drop((queue, memory, module, nvrtc, gpu));
    mock.expect_all_undone();
}

/// Takes a range as another library would name it: from `skip` on in its own memory.
fn foreign(
    mock: &Mock,
    owner: &Arc<DeviceMemory>,
    skip: u64,
    length: u64,
) -> Result<Foreign, CudaError> {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let address = owner.address().wrapping_add(skip);
    cuda.foreign(address, Bytes(length), Arc::<DeviceMemory>::clone(owner))
}

#[test]
fn foreign_memory_is_written_in_range() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let (owner, own) = (gpu.allocate(Bytes(5000)).unwrap(), gpu.allocate(Bytes(4096)).unwrap());
    let mut host = host::allocate(Bytes(8192)).unwrap();
    host.host_bytes_mut().unwrap().fill(7);
    own.load(0, (&host, 0), 4096).unwrap();
    let part = foreign(&mock, &owner, 3, 4097).unwrap();
    part.take(1, (&own, 5), 33).unwrap();
    part.take(4097, (&own, 4096), 0).unwrap();
    assert_eq!(mock.calls("cuMemcpyDtoD"), 1, "nothing of nothing");
    for (offset, source_offset, length) in
        [(4097, 0, 1), (0, 4096, 1), (u64::MAX, 0, 2), (0, u64::MAX, 2), (0, 0, 4097)]
    {
        let refused = part.take(offset, (&own, source_offset), length);
        assert!(matches!(refused, Err(CudaError::Range { .. })), "{refused:?}");
    }
    owner.store(0, (&mut host, 0), 5000).unwrap();
    let mut expected = vec![0xee; 5000];
    expected[4..37].fill(7);
    assert!(host.host_bytes_mut().unwrap()[..5000] == expected);
    drop((gpu, owner, own));
    assert_eq!(mock.calls("cuMemFree"), 1, "its owner is kept");
    drop(part);
    mock.expect_all_undone();
}

#[test]
fn memory_unknown_to_driver_is_refused() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let owner = gpu.allocate(Bytes(8192)).unwrap();
    for (skip, length, words) in [
        (0, 8193, "beyond its allocation"),
        (8191, 2, "beyond its allocation"),
        (1, u64::MAX, "no end"),
        (8192, 1, "does not know it"),
        (u64::MAX, 1, "does not know it"),
        (owner.address().wrapping_neg(), 1, "does not know it"),
    ] {
        let error = foreign(&mock, &owner, skip, length).unwrap_err();
        assert!(matches!(error, CudaError::NotOfAGpu { .. }), "{error}");
        assert!(error.to_string().contains(words), "{skip} {length}: {error}");
    }
    let none = foreign(&mock, &owner, 0, 0).unwrap_err();
    assert_eq!(none, CudaError::Length { length: Bytes::ZERO });
    for (conf, words) in
        [("memory_type=1", "not memory of a GPU"), ("other_context=1", "another context")]
    {
        mock.configure(conf);
        let error = foreign(&mock, &owner, 0, 8192).unwrap_err();
        assert!(error.to_string().contains(words), "{conf}: {error}");
    }
    for conf in ["ordinal=7", "ordinal=-2"] {
        mock.configure(conf);
        let error = foreign(&mock, &owner, 0, 8192).unwrap_err();
        assert_eq!(error, CudaError::Call { call: "cuDeviceGet", code: 101 });
    }
    drop((gpu, owner));
    mock.expect_all_undone();
}

#[test]
fn thread_context_is_restored() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let kept = gpu.keep_context().unwrap();
    let owner = gpu.allocate(Bytes(1)).unwrap();
    assert!(gpu.free().is_ok());
    let none = || mock.calls("cuCtxSetCurrent none");
    assert_eq!((mock.calls("cuCtxGetCurrent"), none()), (1, 0));
    drop(kept);
    assert_eq!(none(), 1, "it had none");
    drop((owner, gpu));
    mock.expect_all_undone();
}
