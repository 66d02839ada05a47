//! One request to the GPU: areas of images as planes, and layers against them.
//!
//! Leaves out the images and what becomes of the scores. Descriptors, planes, sums, scores and
//! peaks of a round lie in one memory of the GPU, the arena, at offsets that are decided here;
//! `kernels.cu` has the same structures.

use super::frames::Frame;
use super::layers::{LayerPlace, SINGLE};
use crate::correlate::PictureLayer;
use crate::reduce::PixelArea;

/// Threads of a block of every kernel.
pub(super) const THREADS: u32 = 128;
/// Neighbouring places of one thread of `correlate`: `PLACES` of the kernels.
const PLACES: u64 = 4;
/// Rows of a slice: `ROWS` of the kernels.
const ROWS: usize = 16;
/// With as many places, a GPU is busy without cutting layers into slices.
const MANY_PLACES: u64 = 1 << 16;
/// Parts of the arena begin at multiples of this.
const ALIGNMENT: u64 = 256;
/// Bytes of the structures `Plane` and `Task`.
const PLANE_SIZE: u64 = 56;
const TASK_SIZE: u64 = 80;
/// Bytes of two sums in double precision.
const SUMS: u64 = 16;
/// Bytes of a `Peak`, and of the header before the first one: `LIST_HEADER` of the kernels.
pub(super) const PEAK: u64 = 12;
pub(super) const LIST_HEADER: u64 = 16;
/// Room of the list in peaks a task, on average over all tasks.
const USUAL_PEAKS: u64 = 1024;

/// Results wanted of the tasks of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundGoal {
    /// Places that are worth a closer look.
    Peaks,
    /// The score of every place.
    Scores,
}

/// An area of an image at a level.
#[derive(Debug, Clone, Copy)]
struct LevelArea {
    frame: Frame,
    area: PixelArea,
    level: u32,
    has_sums: bool,
}

impl LevelArea {
    fn width(&self) -> u64 {
        (self.area.width >> self.level) as u64
    }

    fn height(&self) -> u64 {
        (self.area.height >> self.level) as u64
    }

    fn squares(&self) -> u64 {
        self.width() * self.height()
    }
}

/// A layer against a plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerTask<'a> {
    plane: usize,
    layer: &'a PictureLayer,
    at: LayerPlace,
    enough: f32,
    /// Places in a row.
    pub(super) width: u64,
    /// Rows of places.
    pub(super) height: u64,
}

impl LayerTask<'_> {
    pub(super) fn places(&self) -> u64 {
        self.width * self.height
    }

    fn slices(&self) -> u64 {
        let slices = self.layer.height.div_ceil(ROWS) as u64;
        if self.places() >= MANY_PLACES { 1 } else { slices }
    }

    fn series(&self) -> u64 {
        if self.at.weights.is_some() { 3 } else { 1 }
    }

    /// No two peaks are neighbours.
    fn most_peaks(&self) -> u64 {
        self.width.div_ceil(2) * self.height.div_ceil(2)
    }

    /// Multiplications and additions.
    fn operations(&self) -> u64 {
        2 * self.series() * self.places() * (self.layer.width * self.layer.height) as u64
    }
}

/// Areas and layers that the GPU looks at together.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) wanted: RoundGoal,
    planes: Vec<LevelArea>,
    pub(super) tasks: Vec<LayerTask<'a>>,
    cost: u64,
}

/// A round with a place for everything.
#[derive(Debug, Default)]
pub(super) struct RoundLayout {
    /// First bytes of the arena: planes, then tasks.
    pub(super) descriptors: Vec<u8>,
    pub(super) tasks_at: u64,
    /// Peaks of all tasks, behind their number.
    pub(super) list_at: u64,
    /// Room of the list, in peaks.
    pub(super) capacity: u64,
    /// Scores of all tasks, one after the other without a gap.
    pub(super) scores_at: u64,
    pub(super) scores_length: u64,
    /// Bytes of the arena.
    pub(super) room: u64,
}

/// Threads that each kernel needs for the largest plane or task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LaunchSize {
    pub(super) squares: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) neighbours: u64,
    pub(super) slices: u64,
    pub(super) places: u64,
}

impl<'a> Round<'a> {
    pub(super) fn new(wanted: RoundGoal) -> Self {
        Self { wanted, planes: Vec::new(), tasks: Vec::new(), cost: 0 }
    }

    pub(super) fn plane_count(&self) -> usize {
        self.planes.len()
    }

    /// Adds an area of an image unless it is the last one already.
    pub(super) fn area(&mut self, frame: Frame, area: PixelArea, level: u32) {
        let is_last =
            |last: &LevelArea| (last.frame, last.area, last.level) == (frame, area, level);
        if !self.planes.last().is_some_and(is_last) {
            let plane = LevelArea { frame, area, level, has_sums: false };
            self.cost += plane.squares() * (SINGLE + SUMS);
            self.planes.push(plane);
        }
    }

    /// Adds a layer against the area that was added last; false where it does not fit.
    pub(super) fn layer(&mut self, layer: &'a PictureLayer, at: LayerPlace, enough: f32) -> bool {
        let Some(plane) = self.planes.last_mut() else { return false };
        let places = |all: u64, own: usize| (all + 1).checked_sub(own as u64).filter(|&n| n > 0);
        let sizes = (places(plane.width(), layer.width), places(plane.height(), layer.height));
        let (Some(width), Some(height)) = sizes else { return false };
        plane.has_sums |= at.weights.is_none();
        let plane = self.planes.len() - 1;
        let task = LayerTask { plane, layer, at, enough, width, height };
        self.cost +=
            task.places() * SINGLE * (1 + task.slices() * task.series()) + self.list_cost();
        self.tasks.push(task);
        true
    }

    /// Bytes of the arena that it takes, about.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// The part of a task in the list of peaks.
    fn list_cost(&self) -> u64 {
        if self.wanted == RoundGoal::Peaks { USUAL_PEAKS * PEAK } else { 0 }
    }

    /// Room of the list, in peaks: the most of the largest task, or the usual number of all tasks.
    /// A round of one task always has room.
    fn capacity(&self) -> u64 {
        let largest = self.tasks.iter().map(LayerTask::most_peaks).max().unwrap_or(0);
        match self.wanted {
            RoundGoal::Peaks => largest.max(USUAL_PEAKS * self.tasks.len() as u64),
            RoundGoal::Scores => 0,
        }
    }

    /// Pixels of its areas.
    pub(super) fn pixels(&self) -> u64 {
        self.planes.iter().map(|plane| plane.squares() << (2 * plane.level)).sum()
    }

    /// Multiplications and additions of its layers.
    pub(super) fn operations(&self) -> u64 {
        self.tasks.iter().map(LayerTask::operations).sum()
    }

    pub(super) fn extent(&self) -> LaunchSize {
        let mut extent = LaunchSize::default();
        for plane in &self.planes {
            extent.squares = extent.squares.max(plane.squares());
            extent.rows = extent.rows.max(plane.height() + 1);
            extent.columns = extent.columns.max(plane.width() + 1);
        }
        for task in &self.tasks {
            extent.neighbours = extent.neighbours.max(task.width.div_ceil(PLACES) * task.height);
            extent.slices = extent.slices.max(task.slices() * task.series());
            extent.places = extent.places.max(task.places());
        }
        extent
    }

    /// Gives everything its place.
    pub(super) fn lay_out(&self) -> RoundLayout {
        let mut end = 0;
        let mut take = |bytes: u64| {
            let begin = end;
            end = (end + bytes).next_multiple_of(ALIGNMENT);
            begin
        };
        take(self.planes.len() as u64 * PLANE_SIZE);
        let tasks_at = take(self.tasks.len() as u64 * TASK_SIZE);
        let capacity = self.capacity();
        let list_at = take(LIST_HEADER + capacity * PEAK);
        let scores_length = self.tasks.iter().map(LayerTask::places).sum::<u64>() * SINGLE;
        let scores_at = take(scores_length);
        let mut descriptors = Writer::default();
        for plane in &self.planes {
            // Neighbours beyond the last place of a row are read, and thrown away.
            let values = take((plane.squares() + PLACES) * SINGLE);
            let sums = (plane.width() + 1) * (plane.height() + 1) * SUMS;
            let sums = take(if plane.has_sums { sums } else { 0 });
            descriptors.plane(plane, values, sums);
        }
        descriptors.pad(tasks_at);
        let mut scores = scores_at;
        for task in &self.tasks {
            let partials = take(task.places() * task.slices() * task.series() * SINGLE);
            descriptors.task(task, [partials, scores]);
            scores += task.places() * SINGLE;
        }
        let (descriptors, room) = (descriptors.bytes, end);
        RoundLayout { descriptors, tasks_at, list_at, capacity, scores_at, scores_length, room }
    }
}

/// The structures of the kernels, byte by byte.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn plane(&mut self, plane: &LevelArea, values: u64, sums: u64) {
        self.whole(values);
        self.whole(sums);
        self.bytes.extend(plane.frame.begin.to_ne_bytes());
        self.bytes.extend(plane.frame.stride.to_ne_bytes());
        let PixelArea { x, y, .. } = plane.area;
        let sizes = [x as u64, y as u64, plane.width(), plane.height()];
        sizes.into_iter().for_each(|size| self.half(size));
        self.half(plane.level.into());
        self.half(plane.has_sums.into());
    }

    fn task(&mut self, task: &LayerTask<'_>, [partials, scores]: [u64; 2]) {
        self.whole(task.at.taps);
        self.whole(task.at.weights.unwrap_or(0));
        self.whole(partials);
        self.whole(scores);
        self.bytes.extend(task.layer.weight.to_ne_bytes());
        self.bytes.extend(task.layer.norm.to_ne_bytes());
        let (width, height) = (task.layer.width as u64, task.layer.height as u64);
        let sizes = [task.plane as u64, task.width, task.height, width, height];
        sizes.into_iter().for_each(|size| self.half(size));
        self.half(task.slices());
        self.half(task.series());
        self.bytes.extend(task.enough.to_ne_bytes());
    }

    fn whole(&mut self, value: u64) {
        self.bytes.extend(value.to_ne_bytes());
    }

    /// Sizes are of images, which have less than 2^32 pixels.
    fn half(&mut self, value: u64) {
        self.bytes.extend(u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes());
    }

    fn pad(&mut self, to: u64) {
        self.bytes.resize(usize::try_from(to).unwrap_or(self.bytes.len()), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haystack::Recipe;
    use crate::picture::Picture;
    use crate::pose::Pose;

    const FRAME: Frame = Frame { width: 1000, height: 900, begin: 4096, stride: 1000 };

    #[test]
    fn descriptors_match_kernel_structures() {
        let picture = Picture::new(&Recipe::default().picture(), None, Pose::default()).unwrap();
        let (layer, at) = (picture.layer(1), LayerPlace { taps: 0, weights: Some(9) });
        let mut round = Round::new(RoundGoal::Peaks);
        for x in 0..3 {
            round.area(FRAME, PixelArea { x, y: 0, width: 1000, height: 900 }, 1);
            assert!(round.layer(layer, at, 0.5));
        }
        round.area(FRAME, PixelArea { x: 0, y: 0, width: 8, height: 8 }, 1);
        assert!(!round.layer(layer, at, 0.5), "it does not fit");
        let layout = round.lay_out();
        assert_eq!(layout.tasks_at, (4 * PLANE_SIZE).next_multiple_of(ALIGNMENT));
        assert_eq!(layout.descriptors.len() as u64, layout.tasks_at + 3 * TASK_SIZE);
        assert_eq!(layout.capacity, round.tasks[0].most_peaks().max(3 * USUAL_PEAKS));
        assert!(layout.room > layout.scores_at + layout.scores_length);
    }

    #[test]
    fn shared_area_is_one_plane() {
        let picture = Picture::new(&Recipe::default().picture(), None, Pose::default()).unwrap();
        let at = LayerPlace { taps: 0, weights: None };
        let area = PixelArea { x: 0, y: 0, width: 1000, height: 900 };
        let mut round = Round::new(RoundGoal::Scores);
        for _ in 0..2 {
            round.area(FRAME, area, 2);
            round.layer(picture.layer(2), at, 0.5);
        }
        let sizes = |round: &Round<'_>| (round.plane_count(), round.tasks.len(), round.pixels());
        assert_eq!(sizes(&round), (1, 2, 250 * 225 * 16));
        // The same area of another image.
        round.area(Frame { begin: 904_096, ..FRAME }, area, 2);
        round.layer(picture.layer(2), at, 0.5);
        assert_eq!(sizes(&round), (2, 3, 2 * 250 * 225 * 16));
    }
}
