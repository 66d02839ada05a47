//! Memory and a queue of a GPU for one image at a time, and rounds in them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::cuda::{
    Argument, Copy, CopyDirection, CudaError, DeviceMemory, Gpu, KernelQueue, LaunchGrid, Pinned,
};
use peerlane_units::{Bytes, Nanos};

use super::round::{COUNT, LaunchSize, Round, RoundGoal, RoundLayout, THREADS};
use super::{GpuScanError, GpuSearch, GpuWork, WorkPart};
use crate::correlate::Scores;
use crate::search::MOST_CANDIDATES;

/// Host memory that is copied through, at least.
const STAGING: u64 = 1 << 20;
/// Least memory of the GPU that is taken at a time.
const LEAST: u64 = 1 << 20;
/// Time of polling the GPU without a pause: rounds take tens of microseconds.
const SPIN: Duration = Duration::from_micros(200);
/// Pause between two looks after that.
const NAP: Duration = Duration::from_micros(50);

/// Pinned host memory with a queue.
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    queue: KernelQueue,
    pinned: Arc<Pinned>,
    deadline: Nanos,
}

impl Staging {
    pub(super) fn new(gpu: &Arc<Gpu>, deadline: Nanos) -> Result<Self, GpuScanError> {
        let (queue, pinned) = (gpu.queue()?, gpu.pin(Bytes(STAGING))?);
        Ok(Self { gpu: Arc::clone(gpu), queue, pinned, deadline })
    }

    /// Copies bytes to the beginning of memory, part by part.
    pub(super) fn copy_up(
        &mut self,
        bytes: &[u8],
        memory: &Arc<DeviceMemory>,
    ) -> Result<(), GpuScanError> {
        let part = usize::try_from(self.pinned.length().0).unwrap_or(usize::MAX);
        for (index, bytes) in bytes.chunks(part).enumerate() {
            self.put(bytes)?;
            self.begin_copy(
                CopyDirection::ToDevice,
                memory,
                (index * part) as u64,
                (0, bytes.len()),
            )?;
            self.wait()?;
        }
        Ok(())
    }

    /// Host memory for as many bytes; what it held is gone.
    fn make_room(&mut self, bytes: u64) -> Result<(), GpuScanError> {
        if self.pinned.length().0 < bytes {
            self.pinned = self.gpu.pin(Bytes(bytes.next_power_of_two()))?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), GpuScanError> {
        let pinned = Pinned::bytes_mut(&mut self.pinned).and_then(|all| all.get_mut(..bytes.len()));
        let what = "host memory is still in use";
        pinned.ok_or(GpuScanError::Answer { what })?.copy_from_slice(bytes);
        Ok(())
    }

    /// Returns the bytes that a copy brought to the beginning of the host memory.
    fn brought(&mut self, length: u64) -> Result<&[u8], GpuScanError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let pinned = Pinned::bytes_mut(&mut self.pinned).and_then(|all| all.get(..length));
        pinned.ok_or(GpuScanError::Answer { what: "host memory is still in use" })
    }

    fn begin_copy(
        &mut self,
        direction: CopyDirection,
        memory: &Arc<DeviceMemory>,
        memory_offset: u64,
        (pinned_offset, length): (u64, usize),
    ) -> Result<(), GpuScanError> {
        let (pinned, length) = (&self.pinned, length as u64);
        let copy = Copy { direction, pinned, pinned_offset, memory, memory_offset, length, tag: 0 };
        Ok(self.queue.copy(&copy)?)
    }

    /// Waits for all that was asked for, within the deadline.
    fn wait(&mut self) -> Result<(), GpuScanError> {
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
}

/// Memory of the GPU that grows as it is needed.
struct Growing {
    gpu: Arc<Gpu>,
    memory: Arc<DeviceMemory>,
}

impl Growing {
    fn new(gpu: &Arc<Gpu>) -> Result<Self, CudaError> {
        Ok(Self { gpu: Arc::clone(gpu), memory: gpu.allocate(Bytes(LEAST))? })
    }

    fn is_too_small(&self, bytes: u64) -> bool {
        self.memory.length().0 < bytes
    }
}

/// Position of the pixels of an image in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The first pixel of the top row.
    pub(super) begin: i64,
    /// From row to row, downwards.
    pub(super) stride: i64,
}

/// Resources of one image on the GPU, for one thread.
pub(super) struct ImageSlot<'a> {
    search: &'a GpuSearch<'a>,
    staging: Staging,
    frame: Growing,
    arena: Growing,
    pub(super) work: GpuWork,
}

impl<'a> ImageSlot<'a> {
    pub(super) fn new(search: &'a GpuSearch<'a>) -> Result<Self, GpuScanError> {
        let gpu = &search.gpu;
        let staging = Staging::new(gpu, search.options.deadline)?;
        let (frame, arena) = (Growing::new(gpu)?, Growing::new(gpu)?);
        Ok(Self { search, staging, frame, arena, work: GpuWork::default() })
    }

    /// Memory for an image of so many bytes, whoever fills it; `release` lets go of smaller memory before.
    pub(super) fn frame(
        &mut self,
        bytes: Bytes,
        release: impl FnOnce(),
    ) -> Result<Arc<DeviceMemory>, GpuScanError> {
        if self.frame.is_too_small(bytes.0) {
            self.staging.clear(&self.frame.memory)?;
            release();
            self.frame.grow(bytes.0)?;
        }
        Ok(Arc::clone(&self.frame.memory))
    }

    /// Copies pixels that the CPU has to the memory of the image.
    pub(super) fn copy_up(
        &mut self,
        pixels: &[u8],
        release: impl FnOnce(),
    ) -> Result<(), GpuScanError> {
        let memory = self.frame(Bytes(pixels.len() as u64), release)?;
        self.staging.copy_up(pixels, &memory)
    }

    /// For each task of a round, the places that are worth a closer look, best first.
    pub(super) fn peaks(
        &mut self,
        frame: &Frame,
        round: &Round<'a>,
    ) -> Result<Vec<Vec<(usize, usize)>>, GpuScanError> {
        let layout = self.launch(frame, round)?;
        let length = round.tasks.len() as u64 * COUNT;
        self.bring(layout.counts_at, length)?;
        let counts: Vec<u32> = whole_numbers(self.staging.brought(length)?).collect();
        self.count(round)?;
        let mut all = Vec::with_capacity(counts.len());
        for ((task, count), at) in round.tasks.iter().zip(counts).zip(&layout.peaks_at) {
            if count == 0 {
                all.push(Vec::new());
                continue;
            }
            let length = u64::from(count) * 8;
            if length > layout.room - at {
                return Err(GpuScanError::Answer { what: "more peaks than places" });
            }
            self.bring(*at, length)?;
            let mut words = whole_numbers(self.staging.brought(length)?);
            let pair = || Some((words.next()?, f32::from_bits(words.next()?)));
            let mut found: Vec<(u32, f32)> = std::iter::from_fn(pair).collect();
            // In the order of a CPU, which finds them from the top.
            found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            found.truncate(MOST_CANDIDATES);
            let place = |index: u32| (u64::from(index) % task.width, u64::from(index) / task.width);
            let places = found.into_iter().map(|(index, _)| place(index));
            all.push(places.map(|(x, y)| (to_usize(x), to_usize(y))).collect());
        }
        Ok(all)
    }

    /// The scores of each task of a round.
    pub(super) fn scores(
        &mut self,
        frame: &Frame,
        round: &Round<'a>,
    ) -> Result<Vec<Scores>, GpuScanError> {
        let layout = self.launch(frame, round)?;
        self.bring(layout.scores_at, layout.scores_length)?;
        let mut values = whole_numbers(self.staging.brought(layout.scores_length)?);
        let mut all = Vec::with_capacity(round.tasks.len());
        for task in &round.tasks {
            let own = values.by_ref().take(to_usize(task.places())).map(f32::from_bits);
            let (width, height) = (to_usize(task.width), to_usize(task.height));
            all.push(Scores { width, height, values: own.collect() });
        }
        drop(values);
        self.count(round)?;
        Ok(all)
    }

    /// Brings a part of the arena to the beginning of the host memory.
    fn bring(&mut self, offset: u64, length: u64) -> Result<(), GpuScanError> {
        self.staging.make_room(length)?;
        let part = (0, to_usize(length));
        self.staging.begin_copy(CopyDirection::ToHost, &self.arena.memory, offset, part)?;
        self.staging.wait()
    }

    /// Asks for all kernels of a round, and does not wait.
    fn launch(&mut self, frame: &Frame, round: &Round<'_>) -> Result<RoundLayout, GpuScanError> {
        let layout = round.lay_out();
        if self.arena.is_too_small(layout.room) {
            self.staging.clear(&self.arena.memory)?;
            self.arena.grow(layout.room)?;
        }
        let length = layout.descriptors.len();
        self.staging.make_room(length as u64)?;
        self.staging.put(&layout.descriptors)?;
        let arena = &self.arena.memory;
        self.staging.begin_copy(CopyDirection::ToDevice, arena, 0, (0, length))?;
        let counts = round.tasks.len() as u64 * COUNT;
        self.staging.queue.fill(arena, layout.counts_at, counts, 0)?;
        let asked = LaunchedRound {
            kernels: &self.search.kernels,
            extent: round.extent(),
            planes: round.plane_count(),
            tasks: round.tasks.len(),
            frame: &self.frame.memory,
            arena,
            layers: &self.search.layers.memory,
            tasks_at: layout.tasks_at,
            counts_at: layout.counts_at,
        };
        asked.launch(frame, round.wanted, &mut self.staging.queue)?;
        Ok(layout)
    }

    /// Adds what the kernels of a round took.
    fn count(&mut self, round: &Round<'_>) -> Result<(), GpuScanError> {
        let times = self.staging.queue.times()?;
        let [means, sums, correlate, scores] = times[..] else {
            return Err(GpuScanError::Answer { what: "times of other kernels" });
        };
        let mut other = Nanos(sums.0.saturating_add(scores.0));
        match round.wanted {
            RoundGoal::Peaks => {
                self.work.means += WorkPart { time: means, amount: round.pixels() };
                self.work.correlate += WorkPart { time: correlate, amount: round.operations() };
            }
            RoundGoal::Scores => {
                other.0 = other.0.saturating_add(means.0).saturating_add(correlate.0);
            }
        }
        self.work.other += WorkPart { time: other, amount: 1 };
        Ok(())
    }

    /// Overwrites what images left on the GPU.
    pub(super) fn end(&mut self) -> Result<(), GpuScanError> {
        self.staging.clear(&self.frame.memory)?;
        self.staging.clear(&self.arena.memory)
    }
}

impl Staging {
    fn clear(&mut self, memory: &Arc<DeviceMemory>) -> Result<(), GpuScanError> {
        self.queue.fill(memory, 0, memory.length().0, 0)?;
        self.wait()
    }
}

impl Growing {
    /// Gives what is there back and takes more; where there is no more, what was there is taken again.
    fn grow(&mut self, bytes: u64) -> Result<(), CudaError> {
        self.memory = self.gpu.allocate(Bytes(LEAST))?;
        let (most, wanted) = (Bytes(bytes.next_power_of_two()), Bytes(bytes));
        self.memory = self.gpu.allocate(most).or_else(|_| self.gpu.allocate(wanted))?;
        Ok(())
    }
}

/// The kernels of a round with what they work on.
struct LaunchedRound<'a> {
    kernels: &'a super::Kernels,
    extent: LaunchSize,
    planes: usize,
    tasks: usize,
    frame: &'a Arc<DeviceMemory>,
    arena: &'a Arc<DeviceMemory>,
    layers: &'a Arc<DeviceMemory>,
    tasks_at: u64,
    counts_at: u64,
}

impl LaunchedRound<'_> {
    fn launch(
        &self,
        frame: &Frame,
        wanted: RoundGoal,
        queue: &mut KernelQueue,
    ) -> Result<(), CudaError> {
        use Argument::{Memory, Signed, Whole};
        let (kernels, extent, arena) = (self.kernels, self.extent, Memory(self.arena));
        let (planes_at, tasks_at) = (Whole(0), Whole(self.tasks_at));
        let (planes, tasks) = (self.planes, self.tasks);
        let pixels = [Memory(self.frame), Signed(frame.begin), Signed(frame.stride)];
        queue.stamp()?;
        let means = grid(extent.squares, 1, planes);
        queue.launch(&kernels.means, means, &[&pixels[..], &[arena, planes_at]].concat())?;
        queue.stamp()?;
        let (rows, columns) = (grid(extent.rows, 1, planes), grid(extent.columns, 1, planes));
        queue.launch(&kernels.sums_of_rows, rows, &[arena, planes_at])?;
        queue.launch(&kernels.sums_of_columns, columns, &[arena, planes_at])?;
        queue.stamp()?;
        let neighbours = grid(extent.neighbours, extent.slices, tasks);
        let layers = Memory(self.layers);
        queue.launch(&kernels.correlate, neighbours, &[arena, planes_at, tasks_at, layers])?;
        queue.stamp()?;
        let places = grid(extent.places, 1, tasks);
        queue.launch(&kernels.scores, places, &[arena, planes_at, tasks_at])?;
        if wanted == RoundGoal::Peaks {
            queue.launch(&kernels.peaks, places, &[arena, tasks_at, Whole(self.counts_at)])?;
        }
        queue.stamp()
    }
}

/// As many threads, times `y` and `z`.
fn grid(threads: u64, y: u64, z: usize) -> LaunchGrid {
    let blocks = [threads.div_ceil(THREADS.into()).max(1), y.max(1), (z as u64).max(1)];
    LaunchGrid { blocks: blocks.map(to_u32), threads: THREADS }
}

fn whole_numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()))
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
