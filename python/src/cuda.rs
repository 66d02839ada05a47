//! The seam to CUDA memory: what a read does whose target lies on a GPU.

use peerlane::Lent;

use crate::error::{Kind, Problem};

/// Memory of a CUDA device as a Python object describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceMemory {
    /// Which device, where the object says it.
    pub(crate) device: Option<i64>,
}

/// Memory of a CUDA device for requests of a ring.
///
/// # Errors
/// Always, for now: this build has no provider of CUDA memory.
pub(crate) fn lend(memory: DeviceMemory) -> Result<Lent, Problem> {
    let device = memory.device.map_or_else(String::new, |device| format!(" {device}"));
    let words =
        format!("cannot read into memory of CUDA device{device}: CUDA memory is not in this build");
    let hint = "read into host memory and hand it to the device: numpy.empty, read_into, then \
                torch.from_numpy(...).cuda() or cupy.asarray(...)";
    Err(Problem::new(Kind::CudaUnavailable, words).hint(Some(hint)))
}
