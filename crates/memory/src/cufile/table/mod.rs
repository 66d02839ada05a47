//! The functions of cuFile by name, and safe calls of those that take no memory and no file.
//!
//! Types and layouts are those of `cufile.h` (cuFile API reference, CUDA 13). Functions that came later than 1.0
//! are optional: version, parameters, counters, P2P flags.

#[allow(unsafe_code)]
mod ffi;

#[cfg(test)]
pub(super) use ffi::RawProperties;
pub(super) use ffi::{CuFileFunctions, CuFileStatus, DESCRIPTOR, Descriptor, Handle};

use super::CuFileError;

/// The answer of a call as a result.
pub(super) fn check(call: &'static str, status: CuFileStatus) -> Result<(), CuFileError> {
    match status.code {
        0 => Ok(()),
        code => Err(CuFileError::Call { call, code, cuda: status.cuda }),
    }
}
