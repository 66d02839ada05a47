//! Kernels on chunks by the real NVRTC, which needs no GPU: `tools/fetch-nvidia nvrtc` fetches it, `PEERLANE_NVRTC`
//! names it. The driver is the mock, which loads nothing that the real NVRTC made.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::mock::Mock;
use crate::real_nvrtc::nvrtc;
use peerlane_memory::cuda::{ChunkKernel, ChunkKernelError, Cuda, CudaError, DigestKernel, Gpu};
use peerlane_memory::nvrtc::ImageKind;

fn gpu(mock: &Mock) -> Arc<Gpu> {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    cuda.open(&cuda.gpus().unwrap()[0]).unwrap()
}

#[test]
fn digest_kernel_compiles_for_known_gpus() {
    let Some(nvrtc) = nvrtc() else { return };
    for architecture in [75, 80, 90] {
        let image =
            nvrtc.compile_as(DigestKernel::SOURCE, "xxh128.cu", ImageKind::Ptx, architecture);
        let image = image.unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8_lossy(image.bytes()).into_owned();
        let (_, entry) = text.split_once(".entry xxh128(").expect("the kernel");
        let (parameters, body) = entry.split_once(')').expect("parameters");
        assert_eq!(parameters.matches(".param .u64").count(), 4, "{parameters}");
        for word in ["bar.sync", ".shared", "mul.hi.u64", "ld.global.u64"] {
            assert!(body.contains(word), "{word} on {architecture}");
        }
        let cubin =
            nvrtc.compile_as(DigestKernel::SOURCE, "xxh128.cu", ImageKind::Cubin, architecture);
        assert!(cubin.unwrap().bytes().starts_with(b"\x7fELF"));
    }
}

#[test]
fn user_kernel_declaration_is_checked() {
    let Some(nvrtc) = nvrtc() else { return };
    let mock = Mock::new("");
    let gpu = gpu(&mock);
    let compile = |source: &str| ChunkKernel::compile(&gpu, &nvrtc, source, "user.cu", "k");
    let good = [
        "extern \"C\" __global__ void k(unsigned char *chunk, unsigned long long bytes, \
         unsigned long long offset) { chunk[bytes - 1] = offset; }",
        "extern \"C\" __global__ void __launch_bounds__(256) k(unsigned char *__restrict__ a, \
         const unsigned long long b, unsigned long long c) { a[b - 1] = c; } // \\",
        "typedef unsigned char u8; typedef unsigned long long u64; \
         extern \"C\" { __global__ void k(u8 *a, u64 b, u64 c) { a[b - 1] = c; } }",
        // Nothing of that name: the driver says so.
        "extern \"C\" __global__ void other(int *a) { *a = 1; }",
    ];
    for source in good {
        let error = compile(source).expect_err("code that the mock does not load");
        let not_loaded = CudaError::Call { call: "cuModuleLoadData", code: 200 };
        assert_eq!(error, ChunkKernelError::Cuda(not_loaded), "{source}");
    }
    let wrong = [
        "extern \"C\" __global__ void k(unsigned char *a, unsigned long long b) {}",
        "extern \"C\" __global__ void k(unsigned char *a, unsigned b, unsigned c) {}",
        "extern \"C\" __global__ void k(unsigned char *a, unsigned long long b, unsigned long long c, int d) {}",
        "extern \"C\" __device__ void k(unsigned char *a, unsigned long long b, unsigned long long c) {}",
        "__global__ void k(unsigned char *a, unsigned long long b, unsigned long long c) {}",
    ];
    for source in wrong {
        let error = compile(source).unwrap_err();
        assert!(matches!(&error, ChunkKernelError::Signature { .. }), "{source}: {error}");
    }
}

#[test]
fn compiler_words_name_file_and_fault() {
    let Some(nvrtc) = nvrtc() else { return };
    let mock = Mock::new("");
    let source = "extern \"C\" __global__ void k(unsigned char *a) { a[0] = nobody; }";
    let error = ChunkKernel::compile(&gpu(&mock), &nvrtc, source, "user.cu", "k").unwrap_err();
    let ChunkKernelError::Compile { source, .. } = &error else { panic!("{error}") };
    let words = source.to_string();
    assert!(words.contains("nobody") && words.contains("user.cu"), "{words}");
}
