//! A place of the coarse level on its way down to full resolution, on a processor or a GPU.
//!
//! A [`Trail`] says which area it wants scores of, and goes on by them. So a processor and a GPU
//! look at the same places in the same order.

use crate::correlate::{PictureLayer, Scores};
use crate::picture::{Hit, Picture, margin};
use crate::reduce::PixelArea;

/// Pixels to each side of where a coarser level found it that a level looks at.
const AROUND: usize = 2;

/// Windows that are looked at in full resolution on the way to the best place.
const MOST_STEPS: usize = 16;

/// A place that is followed.
#[derive(Debug, Clone)]
pub(crate) struct Trail<'a> {
    picture: &'a Picture,
    /// Width and height of the image.
    size: (usize, usize),
    /// Corner of the picture, in pixels of the image.
    place: (usize, usize),
    step: FollowStep,
    score: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowStep {
    /// It was found in full resolution.
    Once,
    /// Down to this level.
    Down(u32),
    /// In full resolution, to the best place around, at most as often.
    Uphill(usize),
}

impl<'a> Trail<'a> {
    /// From a place of the coarsest level of a picture.
    pub(crate) fn new(picture: &'a Picture, place: (usize, usize), size: (usize, usize)) -> Self {
        let coarse = picture.coarsest();
        // Negative is moved to the edge.
        let corner = |at: usize| (at << coarse).saturating_sub(margin(coarse));
        let step = if coarse == 0 { FollowStep::Once } else { FollowStep::below(coarse) };
        Self { picture, size, place: (corner(place.0), corner(place.1)), step, score: 0.0 }
    }

    /// The layer whose scores decide the next step, and its pixels of the image; `None` if the
    /// layer does not fit, and the trail is lost.
    pub(crate) fn wants(&self) -> Option<(&'a PictureLayer, PixelArea)> {
        let (x, y) = self.place;
        match self.step {
            FollowStep::Once => {
                let (width, height) = (self.picture.width(), self.picture.height());
                Some((self.picture.layer(0), PixelArea { x, y, width, height }))
            }
            FollowStep::Down(level) => self.window(level),
            // On smooth ground a coarse level may be off by more: from there uphill.
            FollowStep::Uphill(_) => self.window(0),
        }
    }

    /// Takes the scores of the area that it wanted; an end is a hit, or that it is lost.
    pub(crate) fn take(
        &mut self,
        area: PixelArea,
        map: &Scores,
        enough: f32,
    ) -> Option<Option<Hit>> {
        let level = match self.step {
            FollowStep::Once => {
                return Some(map.values.first().map(|score| self.hit(*score)));
            }
            FollowStep::Down(level) => level,
            FollowStep::Uphill(_) => 0,
        };
        let Some((best, dx, dy)) = highest(map).filter(|(best, _, _)| *best >= enough) else {
            return Some(None);
        };
        let place = (corner_in(area.x, dx, level), corner_in(area.y, dy, level));
        match self.step {
            FollowStep::Uphill(_) if best <= self.score => return Some(Some(self.hit(self.score))),
            FollowStep::Uphill(left) => {
                (self.place, self.score) = (place, best);
                if left <= 1 {
                    return Some(Some(self.hit(best)));
                }
                self.step = FollowStep::Uphill(left - 1);
            }
            _ => (self.place, self.step) = (place, FollowStep::below(level)),
        }
        None
    }

    /// The pixels of the image around the place that a layer fits in with [`AROUND`], on the grid
    /// of its level.
    fn window(&self, level: u32) -> Option<(&'a PictureLayer, PixelArea)> {
        let layer = self.picture.layer(level);
        let span = |at: usize, inner: usize, whole: usize| {
            let side = 1_usize << level;
            let around = AROUND * side;
            let begin = (at + margin(level)).saturating_sub(around);
            let end = (at + margin(level) + inner * side + around).min(whole);
            let begin = begin.min(end.saturating_sub(inner * side));
            (end - begin >= inner * side).then_some((begin, end - begin))
        };
        let (x, width) = span(self.place.0, layer.width, self.size.0)?;
        let (y, height) = span(self.place.1, layer.height, self.size.1)?;
        Some((layer, PixelArea { x, y, width, height }))
    }

    fn hit(&self, score: f32) -> Hit {
        let ((x, y), picture) = (self.place, self.picture);
        let (width, height) = (picture.width(), picture.height());
        Hit { x, y, width, height, pose: picture.pose(), score: score.min(1.0), page: None }
    }
}

impl FollowStep {
    fn below(level: u32) -> Self {
        if level > 1 { Self::Down(level - 1) } else { Self::Uphill(MOST_STEPS) }
    }
}

fn corner_in(begin: usize, at: usize, level: u32) -> usize {
    (begin + (at << level)).saturating_sub(margin(level))
}

fn highest(map: &Scores) -> Option<(f32, usize, usize)> {
    let (index, best) = map.values.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some((*best, index % map.width, index / map.width))
}
