//! The search of all images of a batch at once: the coarse levels of all of them, then all trails step by step.
//!
//! Leaves out loading. A round that is too large is asked for again in halves, and an image that is
//! too large by itself fails alone.

use std::collections::VecDeque;
use std::sync::Arc;

use peerlane_memory::cuda::{CudaError, DeviceMemory};

use super::frames::Frame;
use super::launch::{RoundRunner, TaskPlaces};
use super::round::{Round, RoundGoal};
use super::{GpuScanError, GpuSearch, is_for_want_of_room};
use crate::Hit;
use crate::correlate::Scores;
use crate::effort::Effort;
use crate::follow::Trail;
use crate::reduce::PixelArea;
use crate::search::best_of_each;

/// Tasks of one round at most: a grid has no more than 65535 in its third direction.
const MOST_TASKS: usize = 1 << 14;

/// Hits of an image, or the reason why there is no room for it.
pub(super) type ImageHits = Result<Vec<Hit>, CudaError>;

/// A place of the coarse level on its way down.
struct ImageTrail<'a> {
    trail: Trail<'a>,
    image: usize,
    pose: usize,
    hit: Option<Hit>,
}

/// Areas wanted of the GPU, by numbers.
struct Wanted<'w, 'a> {
    indices: VecDeque<usize>,
    /// Adds one of them to a round; false for a layer that does not fit its image.
    add: &'w dyn Fn(&mut Round<'a>, usize) -> bool,
    image_of: &'w dyn Fn(usize) -> usize,
}

/// The search of one batch.
pub(super) struct BatchSearch<'a, 'b> {
    search: &'a GpuSearch<'a>,
    runner: &'b mut RoundRunner<'a>,
    memory: &'b Arc<DeviceMemory>,
    images: &'b [Frame],
    effort: &'b Effort,
    /// Reasons why images could not be searched, in their places.
    failed: Vec<Option<CudaError>>,
}

impl<'a, 'b> BatchSearch<'a, 'b> {
    pub(super) fn new(
        search: &'a GpuSearch<'a>,
        runner: &'b mut RoundRunner<'a>,
        memory: &'b Arc<DeviceMemory>,
        images: &'b [Frame],
        effort: &'b Effort,
    ) -> Self {
        let failed = images.iter().map(|_| None).collect();
        Self { search, runner, memory, images, effort, failed }
    }

    /// Returns the hits of each image, unless it was told to stop.
    pub(super) fn run(mut self) -> Result<Vec<ImageHits>, GpuScanError> {
        let mut trails = self.coarse()?;
        let mut open: Vec<usize> = (0..trails.len()).collect();
        while !open.is_empty() && !self.effort.is_over() {
            open = self.step(&mut trails, open)?;
        }
        let mut hits: Vec<Vec<Hit>> = self.images.iter().map(|_| Vec::new()).collect();
        for ImageTrail { image, hit, .. } in trails {
            hits[image].extend(hit);
        }
        let found = hits.into_iter().zip(self.failed);
        let found = found.map(|(hits, failed)| failed.map_or_else(|| Ok(best_of_each(hits)), Err));
        Ok(found.collect())
    }

    /// Returns the places of the coarse levels of all images that are worth a closer look.
    fn coarse(&mut self) -> Result<Vec<ImageTrail<'a>>, GpuScanError> {
        let (search, images) = (self.search, self.images);
        let pictures = search.searcher.pictures();
        // Poses of one level share their plane.
        let mut poses: Vec<usize> = (0..pictures.len()).collect();
        poses.sort_by_key(|pose| pictures[*pose].coarsest());
        let image_and_pose = |index: usize| (index / pictures.len(), index % pictures.len());
        let wanted = (0..images.len())
            .flat_map(|image| poses.iter().map(move |pose| image * pictures.len() + pose));
        let mut places: Vec<TaskPlaces> = vec![Vec::new(); images.len() * pictures.len()];
        let add = |round: &mut Round<'a>, index: usize| {
            let (image, pose) = image_and_pose(index);
            let (frame, layer) = (images[image], pictures[pose].coarse());
            let Some(at) = search.layers.place(pose, layer.level) else { return false };
            let all = PixelArea { x: 0, y: 0, width: frame.width, height: frame.height };
            round.area(frame, all, layer.level);
            round.layer(layer, at, search.searcher.enough(layer))
        };
        let image_of = |index: usize| image_and_pose(index).0;
        self.rounds(
            RoundGoal::Peaks,
            Wanted { indices: wanted.collect(), add: &add, image_of: &image_of },
            |runner, memory, round| runner.peaks(memory, round),
            |index, found| places[index] = found,
        )?;
        let trails = places.into_iter().enumerate().flat_map(|(index, places)| {
            let (image, pose) = image_and_pose(index);
            let size = (images[image].width, images[image].height);
            places.into_iter().map(move |place| {
                let trail = Trail::new(&pictures[pose], place, size);
                ImageTrail { trail, image, pose, hit: None }
            })
        });
        Ok(trails.collect())
    }

    /// Takes every open trail one step on. Returns those that are still open.
    fn step(
        &mut self,
        trails: &mut [ImageTrail<'a>],
        open: Vec<usize>,
    ) -> Result<Vec<usize>, GpuScanError> {
        let (search, images) = (self.search, self.images);
        let mut taken: Vec<(usize, Scores)> = Vec::with_capacity(open.len());
        let add = |round: &mut Round<'a>, index: usize| {
            let ImageTrail { trail, image, pose, .. } = &trails[index];
            let Some((layer, area)) = trail.wants() else { return false };
            let Some(at) = search.layers.place(*pose, layer.level) else { return false };
            round.area(images[*image], area, layer.level);
            round.layer(layer, at, 0.0)
        };
        let image_of = |index: usize| trails[index].image;
        self.rounds(
            RoundGoal::Scores,
            Wanted { indices: open.into(), add: &add, image_of: &image_of },
            |runner, memory, round| runner.scores(memory, round).map(Some),
            |index, map| taken.push((index, map)),
        )?;
        let mut left = Vec::new();
        for (index, map) in taken {
            let own = &mut trails[index];
            let Some((layer, area)) = own.trail.wants() else { continue };
            match own.trail.take(area, &map, search.searcher.enough(layer)) {
                None => left.push(index),
                Some(end) => own.hit = end,
            }
        }
        Ok(left)
    }

    /// Asks for all wanted areas in as few rounds as have room for them. `ask` returns the answers of a round, or
    /// `None` for too many.
    fn rounds<T>(
        &mut self,
        goal: RoundGoal,
        wanted: Wanted<'_, 'a>,
        ask: impl Fn(
            &mut RoundRunner<'a>,
            &Arc<DeviceMemory>,
            &Round<'a>,
        ) -> Result<Option<Vec<T>>, GpuScanError>,
        mut take: impl FnMut(usize, T),
    ) -> Result<(), GpuScanError> {
        let Wanted { indices: mut wanted, add, image_of } = wanted;
        let mut most = MOST_TASKS;
        while !wanted.is_empty() && !self.effort.is_over() {
            let (round, members) = self.pack(goal, &mut wanted, most, add);
            if members.is_empty() {
                continue;
            }
            let error = match ask(self.runner, self.memory, &round) {
                Ok(Some(answers)) => {
                    members
                        .into_iter()
                        .zip(answers)
                        .for_each(|(index, answer)| take(index, answer));
                    continue;
                }
                Ok(None) => None,
                Err(GpuScanError::Cuda(error)) if is_for_want_of_room(&error) => Some(error),
                Err(error) => return Err(error),
            };
            match (&members[..], error) {
                (&[index], Some(error)) => self.failed[image_of(index)] = Some(error),
                (&[_], None) => {
                    return Err(GpuScanError::Answer { what: "more peaks than places" });
                }
                (members, _) => {
                    most = members.len() / 2;
                    members.iter().rev().for_each(|index| wanted.push_front(*index));
                }
            }
        }
        Ok(())
    }

    /// Returns a round of the next wanted areas, at least one.
    fn pack(
        &self,
        goal: RoundGoal,
        wanted: &mut VecDeque<usize>,
        most: usize,
        add: &dyn Fn(&mut Round<'a>, usize) -> bool,
    ) -> (Round<'a>, Vec<usize>) {
        let (mut round, mut members) = (Round::new(goal), Vec::new());
        while members.len() < most && round.cost() <= self.search.rooms.round {
            let Some(index) = wanted.pop_front() else { break };
            if add(&mut round, index) {
                members.push(index);
            }
        }
        (round, members)
    }
}
