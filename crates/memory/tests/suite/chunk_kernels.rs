//! Kernels on chunks, against a mock of the driver and of NVRTC that runs them on the processor.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use crate::mock::{CHUNK_KERNELS, Mock};
use peerlane_memory::cuda::{ChunkKernel, ChunkKernelError, Cuda, CudaError, DeviceMemory, Gpu};
use peerlane_memory::host;
use peerlane_memory::nvrtc::{Nvrtc, NvrtcError};
use peerlane_units::Bytes;

/// Kernels that the mock knows in addition to those of every test.
const MORE: &str = "
extern \"C\" __global__ void mark(unsigned char *chunk, unsigned long long bytes, unsigned long long offset) {
    if (blockIdx.x == 0 && threadIdx.x < 8) chunk[threadIdx.x] = (unsigned char)(offset >> (8 * threadIdx.x));
}
extern \"C\" __global__ void other(unsigned char *chunk, unsigned long long bytes) {
}
__global__ void mangled(unsigned char *chunk, unsigned long long bytes, unsigned long long offset) {
}
";

fn first(mock: &Mock) -> Arc<Gpu> {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpus = cuda.gpus().unwrap();
    cuda.open(&gpus[0]).unwrap()
}

fn compile(mock: &Mock, gpu: &Arc<Gpu>, kernel: &str) -> Result<ChunkKernel, ChunkKernelError> {
    let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
    let source = format!("{CHUNK_KERNELS}{MORE}");
    ChunkKernel::compile(gpu, &nvrtc, &source, "user.cu", kernel)
}

fn finish(kernel: &mut ChunkKernel) -> (u64, Result<(), CudaError>) {
    (0..100).find_map(|_| kernel.finished()).expect("a chunk that ends")
}

fn filled(gpu: &Arc<Gpu>, length: u64, byte: u8) -> Arc<DeviceMemory> {
    let memory = gpu.allocate(Bytes(length)).unwrap();
    let mut host = host::allocate(Bytes(length)).unwrap();
    host.host_bytes_mut().unwrap().fill(byte);
    memory.load(0, (&host, 0), length).unwrap();
    memory
}

fn bytes(memory: &Arc<DeviceMemory>) -> Vec<u8> {
    let length = memory.length();
    let mut host = host::allocate(length).unwrap();
    memory.store(0, (&mut host, 0), length.0).unwrap();
    host.host_bytes_mut().unwrap()[..usize::try_from(length.0).unwrap()].to_vec()
}

/// The calls that a kernel makes, without those on memory.
fn calls(mock: &Mock) -> Vec<String> {
    let log = mock.log();
    let is_kernels = |line: &&String| {
        ["cuModule", "cuLaunchKernel ", "cuEventRecord ", "cuEventQuery", "cuStream"]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    log.iter().filter(is_kernels).cloned().collect()
}

#[test]
fn kernel_changes_its_chunk_alone() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let memory = filled(&gpu, 100_000, 0x0f);
    let mut kernel = compile(&mock, &gpu, "invert").unwrap();
    kernel.start(9, &memory, 1001, 70_000, 0).unwrap();
    assert_eq!(kernel.in_flight(), 1);
    assert_eq!(kernel.finished(), None, "not at once");
    assert_eq!(finish(&mut kernel), (9, Ok(())));
    assert_eq!((kernel.in_flight(), kernel.finished()), (0, None));
    let content = bytes(&memory);
    assert!(content[1001..71_001].iter().all(|&byte| byte == 0xf0));
    assert!(content[..1001].iter().chain(&content[71_001..]).all(|&byte| byte == 0x0f));
    drop((memory, gpu, kernel));
    mock.expect_all_undone();
}

#[test]
fn chunks_in_flight_have_own_streams() {
    let mock = Mock::new("delay=1");
    let gpu = first(&mock);
    let memory = filled(&gpu, 64 << 10, 0);
    let mut kernel = compile(&mock, &gpu, "mark").unwrap();
    kernel.start(1, &memory, 0, 4096, 0x0102).unwrap();
    kernel.start(2, &memory, 4096, 8192, 0x0304).unwrap();
    assert_eq!(finish(&mut kernel), (1, Ok(())));
    kernel.start(3, &memory, 32 << 10, 8192, 1 << 40).unwrap();
    assert_eq!([finish(&mut kernel), finish(&mut kernel)], [(2, Ok(())), (3, Ok(()))]);
    let content = bytes(&memory);
    assert_eq!(content[..3], [2, 1, 0]);
    assert_eq!(content[4096..4099], [4, 3, 0]);
    assert_eq!(content[32 << 10..(32 << 10) + 8], [0, 0, 0, 0, 0, 1, 0, 0]);
    drop((memory, gpu, kernel));
    let expected = [
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuStreamCreate",
        "cuLaunchKernel 1 x 256 in 0",
        "cuEventRecord in 0",
        "cuStreamCreate",
        "cuLaunchKernel 2 x 256 in 1",
        "cuEventRecord in 1",
        // The first is over at the second look.
        "cuEventQuery",
        "cuEventQuery",
        "cuEventQuery",
        "cuLaunchKernel 2 x 256 in 0",
        "cuEventRecord in 0",
        "cuEventQuery",
        "cuEventQuery",
        "cuEventQuery",
    ];
    assert_eq!(calls(&mock)[..expected.len()], expected);
    mock.expect_all_undone();
}

#[test]
fn wrong_ranges_never_reach_driver() {
    let mock = Mock::new("devices=2");
    let gpu = first(&mock);
    let memory = filled(&gpu, 4096, 0);
    let mut kernel = compile(&mock, &gpu, "invert").unwrap();
    for (offset, length) in [(0, 4097), (4096, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let error = kernel.start(0, &memory, offset, length, 0).unwrap_err();
        assert!(matches!(error, CudaError::Range { .. }), "{error}");
    }
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let other = cuda.open(&cuda.gpus().unwrap()[1]).unwrap().allocate(Bytes(4096)).unwrap();
    let error = kernel.start(0, &other, 0, 1, 0).unwrap_err();
    assert!(matches!(error, CudaError::OtherGpu { .. }), "{error}");
    assert_eq!((kernel.in_flight(), mock.calls("cuLaunchKernel")), (0, 0));
    kernel.start(0, &memory, 4096, 0, 0).unwrap();
    assert_eq!(finish(&mut kernel), (0, Ok(())));
    drop((memory, other, gpu, kernel));
    mock.expect_all_undone();
}

#[test]
fn unusable_sources_are_refused_by_name() {
    let mock = Mock::new("");
    let gpu = first(&mock);
    let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
    let error = ChunkKernel::compile(&gpu, &nvrtc, "no kernel", "wrong.cu", "a").unwrap_err();
    let ChunkKernelError::Compile { file, source: NvrtcError::Source { words } } = &error else {
        panic!("{error}")
    };
    assert!(file == "wrong.cu" && words.contains("error"), "{words}");
    let error = ChunkKernel::compile(&gpu, &nvrtc, "\0", "zero.cu", "a").unwrap_err();
    assert!(matches!(error, ChunkKernelError::Compile { source: NvrtcError::ZeroByte, .. }));
    for kernel in ["missing", "mangled", "a b", "", "invert\0"] {
        let error = compile(&mock, &gpu, kernel).unwrap_err();
        assert_eq!(error.to_string(), format!("user.cu has no kernel {kernel}"));
        assert!(error.hint().is_some_and(|hint| hint.contains("extern \"C\" __global__")));
    }
    let error = compile(&mock, &gpu, "other").unwrap_err();
    assert!(matches!(error, ChunkKernelError::Signature { .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("other(unsigned char *chunk")));
    drop((nvrtc, gpu));
    mock.expect_all_undone();
}

#[test]
fn failed_kernel_ends_every_chunk_once() {
    let mock = Mock::new("delay=1");
    let gpu = first(&mock);
    let memory = filled(&gpu, 4096, 0);
    let mut kernel = compile(&mock, &gpu, "fails").unwrap();
    for tag in 0..3 {
        kernel.start(tag, &memory, 0, 1, 0).unwrap();
    }
    let error = CudaError::Call { call: "cuEventQuery", code: 719 };
    for tag in 0..3 {
        assert_eq!(finish(&mut kernel), (tag, Err(error.clone())));
    }
    assert_eq!((kernel.finished(), kernel.in_flight()), (None, 0));
    assert_eq!(kernel.start(3, &memory, 0, 1, 0), Err(error));
    drop((memory, gpu, kernel));
    assert_eq!((mock.calls("cuMemFree"), mock.calls("cuStreamDestroy")), (0, 0), "still in use");
    mock.expect_no_violation();
}

#[test]
fn refused_launch_leaves_others_in_flight() {
    let mock = Mock::new("fail_launch=2");
    let gpu = first(&mock);
    let memory = filled(&gpu, 4096, 0);
    let mut kernel = compile(&mock, &gpu, "invert").unwrap();
    kernel.start(1, &memory, 0, 8, 0).unwrap();
    let error = kernel.start(2, &memory, 8, 8, 0).unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuLaunchKernel", code: 719 });
    assert_eq!(kernel.in_flight(), 1);
    assert_eq!(finish(&mut kernel), (1, Ok(())));
    drop((memory, gpu, kernel));
    mock.expect_all_undone();
}

#[test]
fn dropped_kernel_keeps_memory_in_use() {
    let mock = Mock::new("delay=3");
    let gpu = first(&mock);
    let (ends, never) = (filled(&gpu, 4096, 0), filled(&gpu, 4096, 0));
    let mut invert = compile(&mock, &gpu, "invert").unwrap();
    invert.start(0, &ends, 0, 4096, 0).unwrap();
    drop((ends, invert));
    assert_eq!(mock.calls("cuMemFree"), 1, "it ends within the wait");
    let mut kernel = compile(&mock, &gpu, "never").unwrap();
    for tag in 0..8 {
        kernel.start(tag, &never, 0, 4096, 0).unwrap();
    }
    drop((never, gpu));
    let begin = std::time::Instant::now();
    drop(kernel);
    assert!(begin.elapsed().as_secs() < 4, "one wait for all of them");
    assert_eq!((mock.calls("cuMemFree"), mock.calls("cuModuleUnload")), (1, 1));
    mock.expect_no_violation();
}
