//! Launches of rounds on the GPU, and their results.
//!
//! A round of any number of images waits once, and once more to fetch many peaks.

use std::sync::Arc;

use peerlane_memory::cuda::{Argument, CudaError, DeviceMemory, LaunchGrid};
use peerlane_units::Nanos;

use super::round::{LIST_HEADER, LaunchSize, PEAK, Round, RoundGoal, RoundLayout, THREADS};
use super::staging::{Growing, Staging};
use super::{GpuScanError, GpuSearch, GpuWork, WorkPart, to_usize};
use crate::correlate::Scores;
use crate::search::MOST_CANDIDATES;

/// Peaks that come with their number.
const FIRST_PEAKS: u64 = 8192;

/// Places of a task, best first.
pub(super) type TaskPlaces = Vec<(usize, usize)>;

/// Arena and queue of the thread that searches.
pub(super) struct RoundRunner<'a> {
    search: &'a GpuSearch<'a>,
    pub(super) staging: Staging,
    arena: Growing,
    pub(super) work: GpuWork,
}

impl<'a> RoundRunner<'a> {
    pub(super) fn new(search: &'a GpuSearch<'a>) -> Result<Self, GpuScanError> {
        let mut staging = Staging::new(&search.gpu, search.options.deadline)?;
        let mut arena = Growing::new(&search.gpu)?;
        arena.make_room(search.rooms.round, &mut staging)?;
        Ok(Self { search, staging, arena, work: GpuWork::default() })
    }

    /// Returns the places of each task that are worth a closer look, best first. `None` means more than the list has
    /// room for, which a round of one task never has.
    pub(super) fn peaks(
        &mut self,
        frames: &Arc<DeviceMemory>,
        round: &Round<'_>,
    ) -> Result<Option<Vec<TaskPlaces>>, GpuScanError> {
        let layout = self.launch(frames, round)?;
        let first = LIST_HEADER + layout.capacity.min(FIRST_PEAKS) * PEAK;
        let mut bytes = self.bring(layout.list_at, first)?.to_vec();
        self.count(round)?;
        let count = u64::from(words(&bytes).next().unwrap_or(0));
        if count > layout.capacity {
            return Ok(None);
        }
        if count > FIRST_PEAKS {
            let left = (count - FIRST_PEAKS) * PEAK;
            bytes.extend(self.bring(layout.list_at + first, left)?);
        }
        best_places(round, bytes.get(to_usize(LIST_HEADER)..).unwrap_or_default(), count).map(Some)
    }

    /// The scores of each task of a round.
    pub(super) fn scores(
        &mut self,
        frames: &Arc<DeviceMemory>,
        round: &Round<'_>,
    ) -> Result<Vec<Scores>, GpuScanError> {
        let layout = self.launch(frames, round)?;
        let mut values = words(self.bring(layout.scores_at, layout.scores_length)?);
        let tasks = round.tasks.iter().map(|task| {
            let own = values.by_ref().take(to_usize(task.places())).map(f32::from_bits);
            let (width, height) = (to_usize(task.width), to_usize(task.height));
            Scores { width, height, values: own.collect() }
        });
        let all = tasks.collect();
        drop(values);
        self.count(round)?;
        Ok(all)
    }

    /// Waits for a part of the arena.
    fn bring(&mut self, offset: u64, length: u64) -> Result<&[u8], GpuScanError> {
        self.work.other.amount += 1;
        self.staging.bring(&self.arena.memory, offset, length)
    }

    /// Asks for all kernels of a round, and does not wait.
    fn launch(
        &mut self,
        frames: &Arc<DeviceMemory>,
        round: &Round<'_>,
    ) -> Result<RoundLayout, GpuScanError> {
        let layout = round.lay_out();
        self.arena.make_room(layout.room, &mut self.staging)?;
        self.staging.begin_upload(&layout.descriptors, &self.arena.memory)?;
        self.staging.queue.fill(&self.arena.memory, layout.list_at, LIST_HEADER, 0)?;
        self.ask(frames, round, &layout)?;
        Ok(layout)
    }

    fn ask(
        &mut self,
        frames: &Arc<DeviceMemory>,
        round: &Round<'_>,
        layout: &RoundLayout,
    ) -> Result<(), CudaError> {
        use Argument::{Memory, Whole};
        let (search, queue) = (self.search, &mut self.staging.queue);
        let (kernels, arena) = (&search.kernels, Memory(&self.arena.memory));
        let (planes, tasks) = (round.plane_count(), round.tasks.len());
        let (planes_at, tasks_at) = (Whole(0), Whole(layout.tasks_at));
        let LaunchSize { squares, rows, columns, neighbours, slices, places } = round.extent();
        queue.stamp()?;
        let pixels = [Memory(frames), arena, planes_at];
        queue.launch(&kernels.means, grid(squares, 1, planes), &pixels)?;
        queue.stamp()?;
        queue.launch(&kernels.sums_of_rows, grid(rows, 1, planes), &[arena, planes_at])?;
        queue.launch(&kernels.sums_of_columns, grid(columns, 1, planes), &[arena, planes_at])?;
        queue.stamp()?;
        let layers = [arena, planes_at, tasks_at, Memory(&search.layers.memory)];
        queue.launch(&kernels.correlate, grid(neighbours, slices, tasks), &layers)?;
        queue.stamp()?;
        let places = grid(places, 1, tasks);
        queue.launch(&kernels.scores, places, &[arena, planes_at, tasks_at])?;
        if round.wanted == RoundGoal::Peaks {
            let list = [arena, tasks_at, Whole(layout.list_at), Whole(layout.capacity)];
            queue.launch(&kernels.peaks, places, &list)?;
        }
        queue.stamp()
    }

    /// Adds the time and the work of a round's kernels.
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
        self.work.other += WorkPart { time: other, amount: 0 };
        Ok(())
    }

    /// Overwrites image data in the arena.
    pub(super) fn end(&mut self) -> Result<(), GpuScanError> {
        self.staging.clear(&self.arena.memory)
    }
}

/// The best places of each task, of a list in no order.
fn best_places(
    round: &Round<'_>,
    list: &[u8],
    count: u64,
) -> Result<Vec<TaskPlaces>, GpuScanError> {
    let mut found: Vec<Vec<(u32, f32)>> = vec![Vec::new(); round.tasks.len()];
    let mut words = words(list);
    for _ in 0..count {
        let entry = (words.next(), words.next(), words.next());
        let (Some(task), Some(index), Some(score)) = entry else { break };
        let own = usize::try_from(task).ok().and_then(|task| found.get_mut(task));
        let own = own.ok_or(GpuScanError::Answer { what: "a peak of no task" })?;
        own.push((index, f32::from_bits(score)));
    }
    let places = found.into_iter().zip(&round.tasks).map(|(mut found, task)| {
        // In the order of a CPU, which finds them from the top.
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(MOST_CANDIDATES);
        let place = |index: u32| (u64::from(index) % task.width, u64::from(index) / task.width);
        let places = found.into_iter().map(|(index, _)| place(index));
        places.map(|(x, y)| (to_usize(x), to_usize(y))).collect()
    });
    Ok(places.collect())
}

/// As many threads, times `y` and `z`.
pub(super) fn grid(threads: u64, y: u64, z: usize) -> LaunchGrid {
    let blocks = [threads.div_ceil(THREADS.into()).max(1), y.max(1), (z as u64).max(1)];
    LaunchGrid { blocks: blocks.map(to_u32), threads: THREADS }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()))
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
