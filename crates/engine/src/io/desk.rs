//! Pinned host memory next to memory of a GPU: content goes in and out there by the copy engine,
//! whatever way payload takes.

use std::sync::Arc;
use std::time::Duration;

use peerlane_memory::cuda::{Copy, CopyDirection, CopyQueue, CudaError, DeviceMemory, Gpu, Pinned};
use peerlane_units::{Bytes, Nanos};

use crate::io::clock::Clock;

/// Pause between two looks at the GPU.
const NAP: Duration = Duration::from_micros(20);

/// Pinned host memory with a queue of its own.
pub(crate) struct Desk {
    pinned: Arc<Pinned>,
    queue: CopyQueue,
}

/// Reason why a copy did not end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    /// The driver's answer.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// It is still under way.
    #[error("its copy engine does not answer")]
    Deadline,
}

/// Waits until a look finds that it is over, with a deadline. The time before the look counts: a
/// program that was stopped for a while finds everything old.
pub(crate) fn wait_until(
    (clock, deadline): (&dyn Clock, Nanos),
    mut is_over: impl FnMut() -> Result<bool, CudaError>,
) -> Result<(), Stopped> {
    let start = clock.now();
    loop {
        let age = clock.now().since(start);
        if is_over()? {
            return Ok(());
        }
        if age >= deadline {
            return Err(Stopped::Deadline);
        }
        std::thread::sleep(NAP);
    }
}

impl Desk {
    pub(crate) fn new(gpu: &Arc<Gpu>, room: Bytes) -> Result<Self, CudaError> {
        Ok(Self { pinned: gpu.pin(room)?, queue: gpu.copy_queue()? })
    }

    pub(crate) fn room(&self) -> u64 {
        self.pinned.length().0
    }

    /// Copies, and waits until that is over, with a deadline.
    pub(crate) fn copy(
        &mut self,
        direction: CopyDirection,
        (memory, memory_offset): (&Arc<DeviceMemory>, u64),
        length: u64,
        time: (&dyn Clock, Nanos),
    ) -> Result<(), Stopped> {
        let pinned = &self.pinned;
        let copy =
            Copy { direction, pinned, pinned_offset: 0, memory, memory_offset, length, tag: 0 };
        self.queue.begin(&copy)?;
        wait_until(time, || Ok(self.queue.finished()?.is_some()))
    }

    /// Overwrites memory with zeroes; says how many bytes.
    pub(crate) fn clear(
        &mut self,
        memory: &Arc<DeviceMemory>,
        time: (&dyn Clock, Nanos),
    ) -> Result<Bytes, Stopped> {
        self.bytes().fill(0);
        let (length, mut done) = (memory.length().0, 0);
        while done < length {
            let part = self.room().min(length - done);
            self.copy(CopyDirection::ToDevice, (memory, done), part, time)?;
            done += part;
        }
        Ok(Bytes(length))
    }

    /// The host's bytes; empty while a copy has them.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        Pinned::bytes_mut(&mut self.pinned).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Hand(Cell<Nanos>);

    impl Clock for Hand {
        fn now(&self) -> Nanos {
            self.0.get()
        }
    }

    /// Waits with a deadline of a second in a program that stands still for two seconds after every
    /// look. The look with number `last` finds the end.
    fn wait_halting(last: Option<u32>) -> Result<(), Stopped> {
        let (clock, mut looks) = (Hand(Cell::new(Nanos(0))), 0);
        wait_until((&clock, Nanos::seconds(1)), || {
            looks += 1;
            clock.0.set(clock.now().after(Nanos::seconds(2)));
            Ok(Some(looks) == last)
        })
    }

    #[test]
    fn desk_survives_pause_beyond_deadline() {
        wait_halting(Some(1)).unwrap();
        wait_halting(Some(2)).unwrap();
        assert!(matches!(wait_halting(None), Err(Stopped::Deadline)));
    }
}
