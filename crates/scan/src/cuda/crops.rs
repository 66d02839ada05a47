//! Crops of images at their hits, out of memory of the GPU.

use std::sync::Arc;

use peerlane_memory::cuda::DeviceMemory;

use super::frames::Frame;
use super::staging::Staging;
use super::{GpuScanError, to_usize};
use crate::pipeline::MOST_CROPS;
use crate::{Gray, Hit};

/// Cuts out the crops at the first hits of an image.
pub(super) fn crops_of(
    staging: &mut Staging,
    memory: &Arc<DeviceMemory>,
    frame: &Frame,
    hits: &[Hit],
) -> Result<Vec<Gray>, GpuScanError> {
    hits.iter().take(MOST_CROPS).map(|hit| crop(staging, memory, frame, hit)).collect()
}

/// Rows lie as in memory until they are cut, whichever comes first there.
fn crop(
    staging: &mut Staging,
    memory: &Arc<DeviceMemory>,
    frame: &Frame,
    hit: &Hit,
) -> Result<Gray, GpuScanError> {
    const WRONG: GpuScanError = GpuScanError::Answer { what: "a hit outside its image" };
    let row_at = |y: usize| -> Option<u64> {
        let row = frame.stride.checked_mul(i64::try_from(y).ok()?)?;
        let at = frame.begin.checked_add(row)?.checked_add(i64::try_from(hit.x).ok()?)?;
        u64::try_from(at).ok()
    };
    let rows =
        (hit.y..hit.y + hit.height).map(row_at).collect::<Option<Vec<u64>>>().ok_or(WRONG)?;
    let (Some(begin), Some(last)) = (rows.iter().min(), rows.iter().max()) else {
        return Err(WRONG);
    };
    let bytes = staging.bring(memory, *begin, last - begin + hit.width as u64)?;
    let mut pixels = Vec::with_capacity(hit.width * hit.height);
    for row in &rows {
        let at = to_usize(row - begin);
        pixels.extend_from_slice(bytes.get(at..at + hit.width).ok_or(WRONG)?);
    }
    Gray::new(hit.width, hit.height, pixels).map_err(|_| WRONG)
}
