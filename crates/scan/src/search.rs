//! Coarse to fine: every place at a coarse level, then only those that look like the picture there.
//!
//! Leaves out reading images. What is reported was scored in full resolution.

use std::sync::Arc;

use crate::correlate::{PictureLayer, Scores, scores};
use crate::effort::Effort;
use crate::follow::Trail;
use crate::picture::{Hit, Picture};
use crate::prune::scores_from;
use crate::reduce::{MEANS_LEVEL, PixelArea, Plane, reduce};
use crate::{Donard, Gray};

/// Places of one image that are looked at closer, best first; more is a picture that looks like
/// everything.
pub(crate) const MOST_CANDIDATES: usize = 256;

/// Share of the picture's own coarse score that is enough for a closer look: room for noise between
/// the pixels of the coarse level.
const COARSE_MARGIN: f32 = 0.85;

/// Looks for a picture in its poses.
#[derive(Debug, Clone)]
pub struct Searcher {
    pictures: Arc<[Picture]>,
    threshold: f32,
    /// Searches instead of the pictures.
    donard: Option<Arc<Donard>>,
}

impl Searcher {
    /// A search for any of these poses that reports scores from `threshold`, between 0 and 1.
    pub fn new(pictures: Vec<Picture>, threshold: f32) -> Self {
        Self { pictures: pictures.into(), threshold, donard: None }
    }

    /// A search by Donard's own way, which looks at every image in full.
    pub fn by_donard(donard: Arc<Donard>) -> Self {
        Self { pictures: Arc::default(), threshold: 0.0, donard: Some(donard) }
    }

    /// The level that is enough to tell whether a closer look is worth it, for all poses.
    pub fn coarsest(&self) -> u32 {
        self.pictures.iter().map(Picture::coarsest).min().unwrap_or(0)
    }

    /// Every place in the image where the picture is, best first; places that overlap by half count
    /// once.
    pub fn search(&self, image: &Gray) -> Vec<Hit> {
        self.search_until(image, &Effort::default())
    }

    /// The same; meaningless after an order to stop.
    pub(crate) fn search_until(&self, image: &Gray, effort: &Effort) -> Vec<Hit> {
        if let Some(donard) = &self.donard {
            return donard.search_until(image, effort).into_iter().collect();
        }
        let mut planes: [Option<Plane>; 5] = Default::default();
        let mut hits = Vec::new();
        for picture in self.pictures.iter() {
            let level = picture.coarsest();
            let plane = planes[level as usize]
                .get_or_insert_with(|| reduce(image, PixelArea::all(image), level));
            for place in self.candidates(plane, picture, effort) {
                if effort.is_over() {
                    return Vec::new();
                }
                hits.extend(self.closer(image, picture, place, effort));
            }
        }
        best_of_each(hits)
    }

    /// Tests by means over squares of 8 pixels a side whether an image is worth a look in full
    /// resolution. Serves poses whose search begins at that level or a coarser one.
    pub(crate) fn is_worth_a_look(&self, means: &Plane, effort: &Effort) -> bool {
        let mut planes = vec![means.clone()];
        self.pictures.iter().any(|picture| {
            let steps = (picture.coarsest() - MEANS_LEVEL) as usize;
            while planes.len() <= steps {
                planes.push(planes[planes.len() - 1].halved());
            }
            !self.candidates(&planes[steps], picture, effort).is_empty()
        })
    }

    /// Places that look like the picture in a plane of its coarsest level, best first.
    fn candidates(&self, plane: &Plane, picture: &Picture, effort: &Effort) -> Vec<(usize, usize)> {
        let layer = picture.coarse();
        let enough = self.enough(layer);
        let map = scores_from(plane, layer, enough, effort);
        let mut found: Vec<(f32, usize, usize)> = peaks(&map, enough).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(MOST_CANDIDATES);
        found.into_iter().map(|(_, x, y)| (x, y)).collect()
    }

    /// The score that a closer look at a layer needs.
    pub(crate) fn enough(&self, layer: &PictureLayer) -> f32 {
        if layer.level == 0 { self.threshold } else { self.threshold * layer.floor * COARSE_MARGIN }
    }

    /// Returns the pictures to look for, one a pose.
    pub(crate) fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// Follows a place of the coarse level down to full resolution.
    fn closer(
        &self,
        image: &Gray,
        picture: &Picture,
        place: (usize, usize),
        effort: &Effort,
    ) -> Option<Hit> {
        let mut trail = Trail::new(picture, place, (image.width(), image.height()));
        loop {
            let (layer, area) = trail.wants()?;
            let map = scores(&reduce(image, area, layer.level), layer, effort);
            if effort.is_over() {
                return None;
            }
            if let Some(end) = trail.take(area, &map, self.enough(layer)) {
                return end;
            }
        }
    }
}

/// Places whose score is at least `enough` and not below that of a neighbour.
fn peaks(map: &Scores, enough: f32) -> impl Iterator<Item = (f32, usize, usize)> + '_ {
    let is_peak = move |index: usize, score: f32| {
        let (x, y) = (index % map.width, index / map.width);
        let rows = y.saturating_sub(1)..(y + 2).min(map.height);
        let mut around = rows.flat_map(|row| {
            let left = row * map.width + x.saturating_sub(1);
            let right = row * map.width + (x + 2).min(map.width);
            (left..right).map(|at| (at, map.values[at]))
        });
        // Of equal neighbours the first one is the peak.
        around.all(|(at, other)| other < score || (other == score && at >= index))
    };
    let worth = map.values.iter().enumerate().filter(move |(_, score)| **score >= enough);
    worth
        .filter(move |(index, score)| is_peak(*index, **score))
        .map(move |(index, score)| (*score, index % map.width, index / map.width))
}

/// The best of those that overlap by half, best first.
pub(crate) fn best_of_each(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut kept: Vec<Hit> = Vec::new();
    for hit in hits {
        if kept.iter().all(|other| !overlap_by_half(&hit, other)) {
            kept.push(hit);
        }
    }
    kept
}

fn overlap_by_half(a: &Hit, b: &Hit) -> bool {
    let along = |a: usize, a_size: usize, b: usize, b_size: usize| {
        (a + a_size).min(b + b_size).saturating_sub(a.max(b))
    };
    let common = along(a.x, a.width, b.x, b.width) * along(a.y, a.height, b.y, b.height);
    2 * common > (a.width * a.height).min(b.width * b.height)
}
#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
