//! Scores of large layers: only where a bound says that they may be high enough.
//!
//! A Fourier transform gives the score of every place but for rounding; where that and the most
//! that single precision may lose reach the threshold, the score is made as everywhere else. So
//! hits and scores are bit for bit those without it.

use crate::correlate::{
    BoxSums, FLAT, LANES, PictureLayer, ROWS, Scores, places, scores, scores_in,
};
use crate::effort::Effort;
use crate::fourier::{self, Numbers};
use crate::reduce::Plane;

/// Products that are made without a bound: a tenth of a second.
const FEW: u64 = 1 << 31;

/// Products that take as long as one point of a transform.
const PRODUCTS_A_POINT: u64 = 400;

/// Half the distance from 1 to the next number in single precision.
const ROUNDING: f64 = 1.0 / (1_u64 << 24) as f64;

/// More than double precision loses in a score that is not flat: a thousandth of it is seen.
const TRANSFORM_ERROR: f64 = 1e-6;

/// The scores of `layer` at every place of `plane` where they reach `enough`; at other places these or lower ones.
pub(crate) fn scores_from(
    plane: &Plane,
    layer: &PictureLayer,
    enough: f32,
    effort: &Effort,
) -> Scores {
    let Some((width, height)) = places(plane, layer) else { return scores(plane, layer, effort) };
    let series = if layer.weights.is_some() { 3 } else { 1 };
    let products = (width * height * layer.centred.len()) as u64;
    let points = fourier::points(numbers(plane), taps(layer, &layer.centred));
    if products < FEW || products / PRODUCTS_A_POINT < points {
        effort.foresee(products * series);
        return scores(plane, layer, effort);
    }
    effort.foresee(points * series);
    let bounds = match &layer.weights {
        None => bounds(plane, layer, width, effort),
        Some(weights) => weighted_bounds(plane, layer, weights, effort),
    };
    let blocks = width.div_ceil(LANES);
    let mut wanted = vec![false; blocks * height];
    for (index, _) in bounds.enumerate().filter(|(_, bound)| *bound >= f64::from(enough)) {
        wanted[index / width * blocks + index % width / LANES] = true;
    }
    let many = wanted.iter().filter(|is_wanted| **is_wanted).count() as u64;
    effort.foresee(many * series * (LANES * layer.centred.len()) as u64);
    scores_in(plane, layer, Some(&wanted), effort)
}

fn numbers(plane: &Plane) -> Numbers<'_> {
    Numbers { width: plane.width, height: plane.height, values: &plane.values }
}

fn taps<'a>(layer: &PictureLayer, values: &'a [f32]) -> Numbers<'a> {
    Numbers { width: layer.width, height: layer.height, values }
}

/// The most that a sum of products in single precision loses, over the sum of their amounts (Higham, Accuracy and
/// Stability of Numerical Algorithms, 2002, section 3.1), with the rounding of its result.
fn loss(layer: &PictureLayer) -> f64 {
    let steps = (ROWS * layer.width + 4) as f64 * ROUNDING;
    steps / (1.0 - steps)
}

/// The most that the score of each place may be.
fn bounds(
    plane: &Plane,
    layer: &PictureLayer,
    width: usize,
    effort: &Effort,
) -> Box<dyn Iterator<Item = f64>> {
    let products = fourier::correlate(numbers(plane), taps(layer, &layer.centred), effort);
    let sums = BoxSums::new(plane);
    let (loss, weight, norm) = (loss(layer), layer.weight, layer.norm);
    let (layer_width, layer_height) = (layer.width, layer.height);
    let bound = move |(index, product): (usize, f64)| {
        let (first, second) = sums.sums(index % width, index / width, layer_width, layer_height);
        let energy = second - first * first / weight;
        if energy < FLAT * weight {
            return 0.0;
        }
        // Amounts of products are at most as much as the roots of both energies (Cauchy and Schwarz).
        (product / norm + loss * second.sqrt()) / energy.sqrt() + TRANSFORM_ERROR
    };
    Box::new(products.into_iter().enumerate().map(bound))
}

/// The same where pixels count differently: the energies are sums in single precision, too.
fn weighted_bounds(
    plane: &Plane,
    layer: &PictureLayer,
    weights: &[f32],
    effort: &Effort,
) -> Box<dyn Iterator<Item = f64>> {
    let squares: Vec<f32> = plane.values.iter().map(|value| value * value).collect();
    let squares = Numbers { values: &squares, ..numbers(plane) };
    let products = fourier::correlate(numbers(plane), taps(layer, &layer.centred), effort);
    let first = fourier::correlate(numbers(plane), taps(layer, weights), effort);
    let second = fourier::correlate(squares, taps(layer, weights), effort);
    let (loss, weight, norm) = (loss(layer), layer.weight, layer.norm);
    let all = products.into_iter().zip(first).zip(second);
    Box::new(all.map(move |((product, first), second)| {
        let energy = second - first * first / weight;
        // What the sum of squares loses, and the square of the sum twice.
        let lost = 3.5 * loss * second + TRANSFORM_ERROR * weight;
        if energy + lost < FLAT * weight {
            return 0.0;
        }
        let least = (energy - lost).max(FLAT * weight);
        (product / norm + loss * second.max(0.0).sqrt()).max(0.0) / least.sqrt() + TRANSFORM_ERROR
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haystack::Chance;
    use crate::picture::Picture;
    use crate::pose::{Pose, posed};
    use crate::reduce::{PixelArea, reduce};
    use crate::{Gray, Searcher};

    /// Strokes like those of a page of text, in black on white.
    fn page(width: usize, height: usize) -> Gray {
        let mut page = Gray::filled(width, height, 255);
        let mut chance = Chance::new(8, 0);
        for (x, y) in (0..height - 24)
            .step_by(30)
            .flat_map(|y| (0..width - 16).step_by(16).map(move |x| (x, y)))
        {
            for part in 0..chance.below(6) {
                let (left, top, wide, tall) =
                    [(0, 0, 2, 24), (0, 0, 12, 2), (10, 0, 2, 24), (0, 11, 12, 2), (0, 22, 12, 2)]
                        [(part + chance.below(5)) % 5];
                for row in y + top..y + top + tall {
                    page.pixels_mut()[row * width + x + left..][..wide].fill(0);
                }
            }
        }
        page
    }

    #[test]
    fn pruned_scores_are_those_of_all_places() {
        let page = page(700, 500);
        let plane = reduce(&page, PixelArea::all(&page), 0);
        for degrees in [0.0, 3.0] {
            let pose = Pose { scale: 1.0, degrees };
            let (gray, opacity) = posed(&page.part(90, 60, 300, 260), None, pose);
            let picture = Picture::new(&gray, opacity.as_ref(), pose).unwrap();
            let layer = picture.layer(0);
            let places = ((701 - layer.width) * (501 - layer.height)) as u64;
            assert!(places * layer.centred.len() as u64 > FEW, "large enough to be pruned");
            let all = scores(&plane, layer, &Effort::default());
            let highest = all.values.iter().copied().fold(0.0, f32::max);
            for enough in [highest * 0.7, highest * 0.95, highest] {
                let pruned = scores_from(&plane, layer, enough, &Effort::default());
                let mut left_out = 0;
                for (found, expected) in pruned.values.iter().zip(&all.values) {
                    if *expected >= enough {
                        assert_eq!(found.to_bits(), expected.to_bits());
                    } else {
                        assert!(*found < enough);
                        left_out += usize::from(*found == 0.0 && *expected != 0.0);
                    }
                }
                assert!(left_out > all.values.len() / 10, "{left_out} of {}", all.values.len());
            }
        }
    }

    #[test]
    fn stopped_search_ends_within_its_image() {
        let page = page(2400, 2400);
        let picture = Picture::new(&page.part(90, 60, 900, 900), None, Pose::default()).unwrap();
        let searcher = Searcher::new(vec![picture], 0.9);
        let stop = std::sync::Arc::default();
        let effort = Effort::until(&stop);
        std::thread::scope(|scope| {
            let search = scope.spawn(|| searcher.search_until(&page, &effort));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(search.join().unwrap(), []);
        });
    }
}
