//! The kernels by the real NVRTC, which needs no GPU: `tools/fetch-nvidia nvrtc` fetches it, `PEERLANE_NVRTC` names it.

use crate::real_nvrtc::nvrtc;
use peerlane_memory::nvrtc::ImageKind;
use peerlane_scan::cuda::KERNELS;

/// Names of the kernels as the source has them.
fn names() -> Vec<&'static str> {
    let lines = KERNELS.lines().filter_map(|line| line.strip_prefix("KERNEL "));
    lines.filter_map(|line| line.split('(').next()).collect()
}

#[test]
fn ptx_has_every_kernel_and_no_fusing() {
    let Some(nvrtc) = nvrtc() else { return };
    assert_eq!(names().len(), 6, "{:?}", names());
    for architecture in [80, 90] {
        let image =
            nvrtc.compile_as(KERNELS, "kernels.cu", ImageKind::Ptx, architecture).expect("code");
        let text = String::from_utf8_lossy(image.bytes()).into_owned();
        assert!(text.contains(&format!(".target sm_{architecture}")), "{text}");
        for name in names() {
            assert!(text.contains(&format!(".entry {name}(")), "{name} on {architecture}");
        }
        assert!(!text.contains("fma."), "sums are to be those of the processor");
        assert!(!text.contains(".ftz") && !text.contains(".approx"), "and as exact");
    }
}

#[test]
fn cubin_is_compiled_for_known_gpus() {
    let Some(nvrtc) = nvrtc() else { return };
    for compute in [(8, 0), (9, 0)] {
        let image = nvrtc.compile(KERNELS, "kernels.cu", compute).expect("code");
        assert_eq!(image.kind(), ImageKind::Cubin);
        // An ELF file with the names of all kernels.
        assert!(image.bytes().starts_with(b"\x7fELF"));
        let text = String::from_utf8_lossy(image.bytes()).into_owned();
        assert!(names().iter().all(|name| text.contains(&format!(".text.{name}"))));
    }
}

#[test]
fn compiler_messages_reach_the_error() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = "extern \"C\" __global__ void wrong(int *a) { a[0] = nobody; }";
    let error = nvrtc.compile(source, "wrong.cu", (8, 0)).expect_err("a wrong source");
    let words = error.to_string();
    assert!(words.contains("nobody") && words.contains("wrong.cu"), "{words}");
}
