//! Pinned host memory with a queue of a GPU, and memory of the GPU that grows.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::cuda::{
    Copy, CopyDirection, CudaError, DeviceMemory, Gpu, KernelQueue, Pinned,
};
use peerlane_units::{Bytes, Nanos};

use super::{GpuScanError, to_usize};

/// Host memory that is copied through, at least.
const STAGING: u64 = 4 << 20;
/// Least memory of the GPU that is taken at a time.
pub(super) const LEAST: u64 = 1 << 20;
/// Time of polling the GPU without a pause: rounds take tens of microseconds.
const SPIN: Duration = Duration::from_micros(200);
/// Pause between two looks after that.
const NAP: Duration = Duration::from_micros(50);

/// Pinned host memory with a queue.
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    pub(super) queue: KernelQueue,
    pinned: Arc<Pinned>,
    deadline: Nanos,
}

impl Staging {
    pub(super) fn new(gpu: &Arc<Gpu>, deadline: Nanos) -> Result<Self, GpuScanError> {
        let (queue, pinned) = (gpu.queue()?, gpu.pin(Bytes(STAGING))?);
        Ok(Self { gpu: Arc::clone(gpu), queue, pinned, deadline })
    }

    /// Copies bytes to an offset in memory, part by part.
    pub(super) fn copy_up(
        &mut self,
        bytes: &[u8],
        memory: &Arc<DeviceMemory>,
        offset: u64,
    ) -> Result<(), GpuScanError> {
        let part = to_usize(self.pinned.length().0);
        for (index, bytes) in bytes.chunks(part).enumerate() {
            self.put(bytes)?;
            self.begin_copy(
                CopyDirection::ToDevice,
                memory,
                offset + (index * part) as u64,
                bytes.len() as u64,
            )?;
            self.wait()?;
        }
        Ok(())
    }

    /// Begins to copy bytes to the beginning of memory, and does not wait.
    pub(super) fn begin_upload(
        &mut self,
        bytes: &[u8],
        memory: &Arc<DeviceMemory>,
    ) -> Result<(), GpuScanError> {
        let length = bytes.len() as u64;
        self.make_room(length)?;
        self.put(bytes)?;
        self.begin_copy(CopyDirection::ToDevice, memory, 0, length)
    }

    /// Waits for all that was asked for and for a part of memory, whose bytes it returns.
    pub(super) fn bring(
        &mut self,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
    ) -> Result<&[u8], GpuScanError> {
        self.make_room(length)?;
        self.begin_copy(CopyDirection::ToHost, memory, offset, length)?;
        self.wait()?;
        let pinned = Pinned::bytes_mut(&mut self.pinned);
        pinned.and_then(|all| all.get(..to_usize(length))).ok_or(GpuScanError::IN_USE)
    }

    /// Makes room for this many bytes of host memory; its old content is lost.
    fn make_room(&mut self, bytes: u64) -> Result<(), GpuScanError> {
        if self.pinned.length().0 < bytes {
            self.pinned = self.gpu.pin(Bytes(bytes.next_power_of_two()))?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), GpuScanError> {
        let pinned = Pinned::bytes_mut(&mut self.pinned).and_then(|all| all.get_mut(..bytes.len()));
        pinned.ok_or(GpuScanError::IN_USE)?.copy_from_slice(bytes);
        Ok(())
    }

    fn begin_copy(
        &mut self,
        direction: CopyDirection,
        memory: &Arc<DeviceMemory>,
        memory_offset: u64,
        length: u64,
    ) -> Result<(), GpuScanError> {
        let (pinned, pinned_offset) = (&self.pinned, 0);
        let copy = Copy { direction, pinned, pinned_offset, memory, memory_offset, length, tag: 0 };
        Ok(self.queue.copy(&copy)?)
    }

    /// Waits for all that was asked for, within the deadline.
    pub(super) fn wait(&mut self) -> Result<(), GpuScanError> {
        self.queue.close()?;
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            if self.queue.is_over()? {
                return Ok(());
            }
            if Nanos::from(waited) >= self.deadline {
                return Err(GpuScanError::Stuck { deadline: self.deadline });
            }
            if waited > SPIN { thread::sleep(NAP) } else { thread::yield_now() }
        }
    }

    /// Overwrites memory with zeroes.
    pub(super) fn clear(&mut self, memory: &Arc<DeviceMemory>) -> Result<(), GpuScanError> {
        self.queue.fill(memory, 0, memory.length().0, 0)?;
        self.wait()
    }
}

/// Memory of the GPU that grows as it is needed.
pub(super) struct Growing {
    gpu: Arc<Gpu>,
    pub(super) memory: Arc<DeviceMemory>,
}

impl Growing {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        Ok(Self { gpu: Arc::clone(gpu), memory: gpu.allocate(Bytes(LEAST))? })
    }

    /// Grows to at least as many bytes. Smaller memory is cleared and given back before more is taken; after an error
    /// [`LEAST`] is left.
    pub(super) fn make_room(
        &mut self,
        bytes: u64,
        staging: &mut Staging,
    ) -> Result<(), GpuScanError> {
        if self.memory.length().0 >= bytes {
            return Ok(());
        }
        staging.clear(&self.memory)?;
        self.memory = self.gpu.allocate(Bytes(LEAST))?;
        let (most, wanted) = (Bytes(bytes.next_power_of_two()), Bytes(bytes));
        self.memory = self.gpu.allocate(most).or_else(|_| self.gpu.allocate(wanted))?;
        Ok(())
    }
}
