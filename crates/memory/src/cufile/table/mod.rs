//! The functions of cuFile by name, and safe calls of those that take no memory and no file.
//!
//! Types and layouts are those of `cufile.h` (cuFile API reference, CUDA 13). Functions that came later than 1.0
//! are optional: version, parameters, counters, P2P flags.

#[allow(unsafe_code)]
mod ffi;

#[cfg(test)]
pub(super) use ffi::RawProperties;
pub(super) use ffi::{DESCRIPTOR, Descriptor, Handle, Status, Table};

use super::CuFileError;

/// The answer of a call as a result.
pub(super) fn check(call: &'static str, status: Status) -> Result<(), CuFileError> {
    match status.code {
        0 => Ok(()),
        code => Err(CuFileError::Call { call, code, cuda: status.cuda }),
    }
}
