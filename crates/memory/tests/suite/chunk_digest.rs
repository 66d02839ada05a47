//! Digests of chunks by the mock's GPU, which runs the kernel's own text, against another implementation of XXH3.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use crate::mock::Mock;
use peerlane_memory::cuda::{Cuda, CudaError, DeviceMemory, DigestKernel, Gpu};
use peerlane_memory::host;
use peerlane_memory::nvrtc::Nvrtc;
use peerlane_units::Bytes;
use twox_hash::XxHash3_128;

fn open(mock: &Mock) -> (Arc<Gpu>, DigestKernel) {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpu = cuda.open(&cuda.gpus().unwrap()[0]).unwrap();
    let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
    let digest = DigestKernel::compile(&gpu, &nvrtc).unwrap();
    (gpu, digest)
}

/// Bytes without a pattern, the same on the host and on the GPU.
fn content(gpu: &Arc<Gpu>, length: usize) -> (Vec<u8>, Arc<DeviceMemory>) {
    let mut state = 0x9e37_79b9_u32;
    let bytes: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let size = Bytes(length as u64);
    let (memory, mut host) = (gpu.allocate(size).unwrap(), host::allocate(size).unwrap());
    host.host_bytes_mut().unwrap().copy_from_slice(&bytes);
    memory.load(0, (&host, 0), size.0).unwrap();
    (bytes, memory)
}

fn finish(digest: &mut DigestKernel) -> (u64, Result<[u8; 16], CudaError>) {
    (0..100).find_map(|_| digest.finished()).expect("a chunk that ends")
}

#[track_caller]
fn compare(lengths: impl IntoIterator<Item = usize>, offsets: &[usize]) {
    let mock = Mock::new("delay=0");
    let (gpu, mut digest) = open(&mock);
    let (bytes, memory) = content(&gpu, (1 << 20) + 16);
    for length in lengths {
        for &offset in offsets {
            digest.start(length as u64, &memory, offset as u64, length as u64).unwrap();
            let (tag, result) = finish(&mut digest);
            let expected = XxHash3_128::oneshot(&bytes[offset..offset + length]).to_be_bytes();
            assert_eq!((tag, result), (length as u64, Ok(expected)), "{length} bytes at {offset}");
        }
    }
    drop((gpu, memory, digest));
    mock.expect_all_undone();
}

#[test]
fn short_digests_equal_xxh3() {
    compare(0..=300, &[0, 3]);
}

#[test]
fn digests_around_one_block_equal_xxh3() {
    compare(301..=1100, &[0]);
    compare((2040..=2056).chain(4095..=4097), &[0, 1]);
}

#[test]
fn digests_of_many_blocks_equal_xxh3() {
    // 32 blocks are a round of the kernel.
    let rounds = [32 << 10, 64 << 10, 96 << 10];
    let around = rounds.into_iter().flat_map(|at| [at - 1, at, at + 1, at + 64, at + 1025]);
    compare(around.chain([1 << 20, (1 << 20) + 5]), &[0, 8, 5]);
}

/// Values that `xxh128sum` prints.
#[test]
fn digest_is_in_canonical_form() {
    let mock = Mock::new("");
    let (gpu, mut digest) = open(&mock);
    let (_, memory) = content(&gpu, 8);
    digest.start(0, &memory, 8, 0).unwrap();
    let empty = 0x99aa_06d3_0147_98d8_6001_c324_468d_497f_u128;
    assert_eq!(finish(&mut digest), (0, Ok(empty.to_be_bytes())));
}

#[test]
fn digests_in_flight_keep_their_tags() {
    let mock = Mock::new("delay=2");
    let (gpu, mut digest) = open(&mock);
    let (bytes, memory) = content(&gpu, 64 << 10);
    for tag in 0..8 {
        digest.start(tag, &memory, tag * 4096, 4096 + tag).unwrap();
    }
    assert_eq!(digest.in_flight(), 8);
    for _ in 0..8 {
        let (tag, result) = finish(&mut digest);
        let at = usize::try_from(tag).unwrap();
        let (start, length) = (at * 4096, 4096 + at);
        let expected = XxHash3_128::oneshot(&bytes[start..start + length]);
        assert_eq!(result, Ok(expected.to_be_bytes()), "{tag}");
    }
    assert!(matches!(digest.start(9, &memory, 1, 64 << 10), Err(CudaError::Range { .. })));
    drop((gpu, memory, digest));
    mock.expect_all_undone();
}
