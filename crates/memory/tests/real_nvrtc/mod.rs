//! The real NVRTC, if it was fetched.

use std::path::PathBuf;

use peerlane_memory::nvrtc::Nvrtc;

/// The library, or `None` with a loud skip where there is none; a failure where `PEERLANE_REQUIRE` has `nvrtc`.
pub(crate) fn nvrtc() -> Option<Nvrtc> {
    let path = std::env::var_os("PEERLANE_NVRTC").filter(|path| !path.is_empty());
    if let Some(path) = path.map(PathBuf::from) {
        return Some(Nvrtc::load_from(&path).expect("the library that PEERLANE_NVRTC names"));
    }
    let reason =
        "there is no NVRTC: PEERLANE_NVRTC names none, tools/fetch-nvidia nvrtc fetches it";
    peerlane_testing::skip("nvrtc", reason);
    None
}
