//! The Rust side of the Python package: arguments in, the library called without the GIL, JSON out.
//!
//! It decides nothing. Words for people, records as dicts and what is convenient are in
//! `peerlane/*.py`. [`ffi`] and [`reserve`] are the only files with `unsafe` written by hand; what
//! PyO3's macros expand to is theirs.
#![deny(unsafe_code)]

mod arguments;
mod bench;
mod buffer;
mod copy;
mod cuda;
mod doctor;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod load;
mod machine;
mod reader;
#[allow(unsafe_code)]
mod reserve;
mod safetensors;
mod scan;
mod watch;

// Here for their features alone: python/Cargo.toml.
use tracing_core as _;
#[cfg(feature = "as-tests")]
use {
    either as _, lzma_rust2 as _, memchr as _, peerlane_engine as _, serde_core as _,
    serde_spanned as _, toml_datetime as _, toml_parser as _, toml_writer as _, winnow as _,
};

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: reserve::ReserveAllocator = reserve::ReserveAllocator;

/// The Rust side of the package `peerlane`; use that.
#[pymodule]
fn _peerlane(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<reader::Reader>()?;
    module.add_function(wrap_pyfunction!(load::load_to_gpu, module)?)?;
    module.add_function(wrap_pyfunction!(load::pinned_peak, module)?)?;
    module.add_function(wrap_pyfunction!(machine::topology, module)?)?;
    module.add_function(wrap_pyfunction!(machine::reach, module)?)?;
    module.add_function(wrap_pyfunction!(machine::machines, module)?)?;
    module.add_function(wrap_pyfunction!(machine::plan, module)?)?;
    module.add_function(wrap_pyfunction!(machine::route, module)?)?;
    module.add_function(wrap_pyfunction!(machine::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(machine::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(copy::copy, module)?)?;
    module.add_function(wrap_pyfunction!(bench::bench, module)?)?;
    module.add_function(wrap_pyfunction!(doctor::doctor, module)?)?;
    module.add_function(wrap_pyfunction!(safetensors::safetensors_header, module)?)?;
    module.add_function(wrap_pyfunction!(scan::scan, module)?)?;
    module.add_function(wrap_pyfunction!(scan::image_files, module)?)?;
    module.add_function(wrap_pyfunction!(scan::scan_files, module)?)?;
    module.add_function(wrap_pyfunction!(scan::make_haystack, module)?)?;
    Ok(())
}
