//! Links the program of debug builds to a fixed address, if the C library is GNU's.
//!
//! The tests start it thousands of times, many of them in emulated machines. There, a start that first places 190 000
//! addresses takes twice as long. Released programs keep their random place.
//!
//! `syn` is a dependency of this program for its features alone, which PyO3's macros ask for: a wheel that is built
//! after the program shares the rest.

use std::env::{var, var_os};
use std::path::Path;
use std::{fs, io};

/// Variable that names the page which `doctor --html` writes a machine into; `tools/package` sets it.
const PAGE: &str = "PEERLANE_PAGE";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PAGE}");
    let page = match var_os(PAGE) {
        Some(path) => {
            // The path is one from the workspace, where cargo is called.
            let path = Path::new("../..").join(path);
            println!("cargo::rerun-if-changed={}", path.display());
            fs::read(path)?
        }
        None => Vec::new(),
    };
    fs::write(Path::new(&var_os("OUT_DIR").unwrap_or_default()).join("page.html"), page)?;
    let of = |name: &str| var(name).unwrap_or_default();
    let features = of("CARGO_CFG_TARGET_FEATURE");
    let target = (&*of("CARGO_CFG_TARGET_OS"), &*of("CARGO_CFG_TARGET_ENV"));
    if is_fixed(&of("PROFILE"), target, &features) {
        println!("cargo::rustc-link-arg-bin=peerlane=-no-pie");
    }
    Ok(())
}

/// True when the program is linked at a fixed address. A static program, as for musl, is linked by
/// `-static-pie`, which excludes `-no-pie`.
pub(crate) fn is_fixed(profile: &str, target: (&str, &str), features: &str) -> bool {
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    profile == "debug" && target == ("linux", "gnu") && !is_static
}
