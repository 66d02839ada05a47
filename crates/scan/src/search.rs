//! Coarse to fine: every place at a coarse level, then only what looks like the picture there.
//!
//! Leaves out reading images. The one thing to know: what is reported was scored in full resolution.

use std::sync::Arc;

use peerlane_results::{HIT_SCHEMA, HitRecord, ScanMethod};

use crate::correlate::{Scores, scores};
use crate::picture::{Layer, Picture, Pose, margin};
use crate::reduce::{Area, MEANS_LEVEL, Plane, reduce};
use crate::{Donard, Gray};

/// Places of one image that are looked at closer, best first; more is a picture that looks like
/// everything.
const MOST_CANDIDATES: usize = 256;

/// Of what a picture would score at a coarse level, as much is enough for a closer look: room for noise
/// that lies between its pixels.
const COARSE_MARGIN: f32 = 0.85;

/// Pixels to each side of where a coarser level found it that a level looks at.
const AROUND: usize = 2;

/// Windows that are looked at in full resolution on the way to the best place.
const MOST_STEPS: usize = 16;

/// A place where the picture is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Left edge of the picture, in pixels of the image.
    pub x: usize,
    /// Top edge.
    pub y: usize,
    /// Pixels in a row of the picture as it was found.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// What it was turned into.
    pub pose: Pose,
    /// Normalised cross-correlation in full resolution: at most 1. Of [`Donard`], its own score.
    pub score: f32,
}

impl Hit {
    /// The hit as a record, in an image of this name; by normalised cross-correlation.
    pub fn record(&self, image: &str) -> HitRecord {
        let Self { x, y, width, height, pose: Pose { scale, degrees }, score } = *self;
        HitRecord {
            schema: HIT_SCHEMA.to_owned(),
            image: image.to_owned(),
            x,
            y,
            width,
            height,
            scale,
            degrees,
            score,
            method: ScanMethod::Ncc,
        }
    }
}

/// Looks for a picture in its poses.
#[derive(Debug, Clone)]
pub struct Searcher {
    pictures: Vec<Picture>,
    threshold: f32,
    /// Looks in place of all the others.
    donard: Option<Arc<Donard>>,
}

impl Searcher {
    /// A search for any of these poses that reports scores from `threshold`, between 0 and 1.
    pub fn new(pictures: Vec<Picture>, threshold: f32) -> Self {
        Self { pictures, threshold, donard: None }
    }

    /// A search by Donard's own way, which looks at every image in full.
    pub fn by_donard(donard: Arc<Donard>) -> Self {
        Self { pictures: Vec::new(), threshold: 0.0, donard: Some(donard) }
    }

    /// The level that is enough to tell whether a closer look is worth it, for all poses.
    pub fn coarsest(&self) -> u32 {
        self.pictures.iter().map(Picture::coarsest).min().unwrap_or(0)
    }

    /// Every place in the image where the picture is, best first; places that overlap by half count
    /// once.
    pub fn search(&self, image: &Gray) -> Vec<Hit> {
        if let Some(donard) = &self.donard {
            return donard.search(image).into_iter().collect();
        }
        let mut planes: [Option<Plane>; 5] = Default::default();
        let mut hits = Vec::new();
        for picture in &self.pictures {
            let level = picture.coarsest();
            let plane = planes[level as usize]
                .get_or_insert_with(|| reduce(image, Area::all(image), level));
            for place in self.candidates(plane, picture) {
                hits.extend(self.closer(image, picture, place));
            }
        }
        best_of_each(hits)
    }

    /// Whether an image is worth a look in full resolution, by its means over squares of 8 pixels a
    /// side: for poses whose search begins there or at a coarser level.
    pub(crate) fn is_worth_a_look(&self, means: &Plane) -> bool {
        let mut planes = vec![means.clone()];
        self.pictures.iter().any(|picture| {
            let steps = (picture.coarsest() - MEANS_LEVEL) as usize;
            while planes.len() <= steps {
                planes.push(planes[planes.len() - 1].halved());
            }
            !self.candidates(&planes[steps], picture).is_empty()
        })
    }

    /// Places that look like the picture in a plane of its coarsest level, best first.
    fn candidates(&self, plane: &Plane, picture: &Picture) -> Vec<(usize, usize)> {
        let layer = picture.coarse();
        let map = scores(plane, layer);
        let enough = self.enough(layer);
        let mut found: Vec<(f32, usize, usize)> = peaks(&map, enough).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(MOST_CANDIDATES);
        found.into_iter().map(|(_, x, y)| (x, y)).collect()
    }

    fn enough(&self, layer: &Layer) -> f32 {
        if layer.level == 0 { self.threshold } else { self.threshold * layer.floor * COARSE_MARGIN }
    }

    /// Follows a place of the coarse level down to full resolution.
    fn closer(&self, image: &Gray, picture: &Picture, (x, y): (usize, usize)) -> Option<Hit> {
        let coarse = picture.coarsest();
        // Corner of the picture, in pixels of the image; negative is moved to the edge.
        let corner = |at: usize, level: u32| (at << level).saturating_sub(margin(level));
        let (mut x, mut y) = (corner(x, coarse), corner(y, coarse));
        if coarse == 0 {
            let around = Area { x, y, width: picture.width(), height: picture.height() };
            let map = scores(&reduce(image, around, 0), picture.layer(0));
            return Some(self.hit(picture, x, y, *map.values.first()?));
        }
        for level in (1..coarse).rev() {
            (_, x, y) = self.best_around(image, picture, level, (x, y))?;
        }
        // On smooth ground a coarse level may be off by more: from there uphill.
        let mut score = 0.0;
        for _ in 0..MOST_STEPS {
            let (better, to_x, to_y) = self.best_around(image, picture, 0, (x, y))?;
            if better <= score {
                break;
            }
            (score, x, y) = (better, to_x, to_y);
        }
        Some(self.hit(picture, x, y, score))
    }

    /// The best place within [`AROUND`] squares of a level, where it is enough.
    fn best_around(
        &self,
        image: &Gray,
        picture: &Picture,
        level: u32,
        (x, y): (usize, usize),
    ) -> Option<(f32, usize, usize)> {
        let layer = picture.layer(level);
        let area = window(image, layer, x, y)?;
        let map = scores(&reduce(image, area, level), layer);
        let (best, dx, dy) = highest(&map)?;
        let is_enough = best >= self.enough(layer);
        is_enough.then(|| (best, corner_in(area.x, dx, level), corner_in(area.y, dy, level)))
    }

    fn hit(&self, picture: &Picture, x: usize, y: usize, score: f32) -> Hit {
        let (width, height) = (picture.width(), picture.height());
        Hit { x, y, width, height, pose: picture.pose(), score: score.min(1.0) }
    }
}

/// The pixels of the image in which a layer fits at the place and [`AROUND`] it, on the grid of its
/// level.
fn window(image: &Gray, layer: &Layer, x: usize, y: usize) -> Option<Area> {
    let span = |at: usize, inner: usize, whole: usize| {
        let side = 1_usize << layer.level;
        let around = AROUND * side;
        let begin = (at + margin(layer.level)).saturating_sub(around);
        let end = (at + margin(layer.level) + inner * side + around).min(whole);
        let begin = begin.min(end.saturating_sub(inner * side));
        (end - begin >= inner * side).then_some((begin, end - begin))
    };
    let (left, width) = span(x, layer.width, image.width())?;
    let (top, height) = span(y, layer.height, image.height())?;
    Some(Area { x: left, y: top, width, height })
}

fn corner_in(begin: usize, at: usize, level: u32) -> usize {
    (begin + (at << level)).saturating_sub(margin(level))
}

fn highest(map: &Scores) -> Option<(f32, usize, usize)> {
    let (index, best) = map.values.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some((*best, index % map.width, index / map.width))
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

fn best_of_each(mut hits: Vec<Hit>) -> Vec<Hit> {
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
