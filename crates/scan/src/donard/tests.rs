use proptest::prelude::*;

use super::transform::padded;
use super::*;
use crate::haystack::{Chance, Recipe};
use crate::{PictureError, Searcher};

fn noise(seed: u64, width: usize, height: usize) -> Gray {
    let mut chance = Chance::new(seed, 0);
    let pixels = (0..width * height).map(|_| chance.below(256).to_le_bytes()[0]).collect();
    Gray::new(width, height, pixels).unwrap()
}

fn put(image: &mut Gray, picture: &Gray, x: usize, y: usize, change: impl Fn(u8) -> u8) {
    let stride = image.width();
    for row in 0..picture.height() {
        for column in 0..picture.width() {
            let pixel = change(picture.row(row)[column]);
            image.pixels_mut()[(y + row) * stride + x + column] = pixel;
        }
    }
}

/// The score by its definition, with the opposite edge beyond an edge of a transform of this size.
fn by_hand(image: &Gray, picture: &Gray, (x, y): (usize, usize), size: (usize, usize)) -> f64 {
    let pixel = |x: usize, y: usize| {
        let (x, y) = (x % size.0, y % size.1);
        let is_inside = x < image.width() && y < image.height();
        if is_inside { f64::from(image.row(y)[x]) / 255.0 } else { 0.0 }
    };
    let edges = edges(&on_black(picture, None), picture.width(), picture.height());
    let rows = edges.values.chunks_exact(edges.width).enumerate();
    rows.flat_map(|(down, row)| {
        row.iter().enumerate().map(move |(right, edge)| (right, down, edge))
    })
    .map(|(right, down, edge)| {
        f64::from(*edge) * pixel(x + right + size.0 - 1, y + down + size.1 - 1)
    })
    .sum()
}

fn all_places(image: &Gray, picture: &Gray) -> impl Iterator<Item = (usize, usize)> {
    let across = image.width() + 1 - picture.width();
    (0..image.height() + 1 - picture.height()).flat_map(move |y| (0..across).map(move |x| (x, y)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn score_is_sum_of_edge_products(
        seed: u64, width in 9_usize..140, height in 9_usize..140, wide in 1_usize..9, tall in 1_usize..9,
    ) {
        let (image, picture) = (noise(seed, width, height), noise(seed ^ 1, wide, tall));
        let size = (padded(width), padded(height));
        let best = all_places(&image, &picture)
            .map(|place| by_hand(&image, &picture, place, size))
            .fold(f64::NEG_INFINITY, f64::max);
        let search = Donard::new(&picture, None, -1e6).unwrap();
        let hit = search.search(&image).expect("a hit");
        prop_assert!((f64::from(hit.score) - best).abs() < 1e-3, "{hit:?}, by hand {best}");
        let there = by_hand(&image, &picture, (hit.x, hit.y), size);
        prop_assert!((there - best).abs() < 1e-3, "{hit:?} scores {there} by hand, {best} elsewhere");
    }

    #[test]
    fn every_place_is_in_one_part(side in 1_usize..40_000, picture in 1_usize..2048) {
        let Some(parts) = parts(side, picture) else {
            prop_assert!(side < picture);
            return Ok(());
        };
        let mut next = 0;
        for (pixels, places) in parts {
            prop_assert!(pixels.len() <= transform::MOST_SIDE && pixels.end <= side);
            prop_assert!(places.start == next && places.end > next, "{places:?} after {next}");
            // With a pixel around the picture, unless it lies at the edge of the image.
            prop_assert!(pixels.start <= places.start.saturating_sub(1));
            prop_assert!(places.end - 1 + picture < pixels.end || pixels.end == side);
            next = places.end;
        }
        prop_assert_eq!(next, side + 1 - picture);
    }
}

#[test]
fn transform_sizes_waste_at_most_third() {
    assert_eq!(
        [1, 128, 129, 161, 193, 2049, 2561, 4096].map(padded),
        [128, 128, 160, 192, 256, 2560, 3072, 4096]
    );
    assert!((256..=4096).all(|side| padded(side) >= side && padded(side) * 3 < side * 4 + 3));
}

/// Far from the edges: nothing but the picture counts.
fn planted(change: impl Fn(u8) -> u8) -> (Gray, Gray) {
    let picture = Recipe { seed: 5, ..Recipe::default() }.picture();
    let mut image = Gray::filled(900, 800, 0);
    put(&mut image, &picture, 200, 150, change);
    (image, picture)
}

#[test]
fn a_picture_scores_its_own_score_where_it_is() {
    let (image, picture) = planted(|pixel| pixel);
    let search = Donard::new(&picture, None, 1.0).unwrap();
    let hit = search.search(&image).expect("a hit");
    assert_eq!((hit.x, hit.y), (200, 150));
    assert!((hit.score - search.own_score()).abs() < 1e-3 * hit.score, "{hit:?}");
    assert!(search.own_score() < search.most());
    let strict = Donard::new(&picture, None, search.own_score() * 1.01).unwrap();
    assert_eq!(strict.search(&image), None);
}

#[test]
fn score_follows_contrast_not_brightness() {
    let (image, picture) = planted(|pixel| pixel / 2);
    let search = Donard::new(&picture, None, 1.0).unwrap();
    let hit = search.search(&image).expect("a hit");
    assert!((hit.score / search.own_score() - 0.5).abs() < 0.02, "{hit:?}");
    // On ground of the same brightness the offset is everywhere, and the edges sum to nothing.
    let mut ground = Gray::filled(900, 800, 100);
    put(&mut ground, &picture, 200, 150, |pixel| pixel / 2 + 100);
    let brighter = search.search(&ground).expect("a hit");
    assert!((brighter.score - hit.score).abs() < 0.02 * hit.score, "{brighter:?} {hit:?}");
}

#[test]
fn oversized_image_is_searched_in_parts() {
    let picture = noise(3, 60, 20);
    let search = Donard::new(&picture, None, 10.0).unwrap();
    // Across the seam of the first part, and at the far edge.
    for x in [4095 - 61, 4095 - 60, 4095 - 59, 4100, 9000 - 60] {
        let mut image = Gray::filled(9000, 30, 90);
        put(&mut image, &picture, x, 7, |pixel| pixel);
        let hit = search.search(&image).expect("a hit");
        assert_eq!((hit.x, hit.y), (x, 7));
    }
}

#[test]
fn what_cannot_be_found_is_refused() {
    let picture = noise(4, 20, 10);
    let most = Donard::new(&picture, None, 1.0).unwrap().most();
    let refused = |gray: &Gray, threshold| Donard::new(gray, None, threshold).unwrap_err();
    assert_eq!(refused(&picture, most), PictureError::Unreachable { threshold: most, most });
    let black = Gray::filled(9, 9, 0);
    assert_eq!(refused(&black, 0.0), PictureError::Unreachable { threshold: 0.0, most: 0.0 });
    assert!(matches!(refused(&Gray::filled(2049, 1, 9), 1.0), PictureError::Large { .. }));
    assert!(matches!(refused(&Gray::filled(0, 4, 9), 1.0), PictureError::Small { .. }));
    let search = Donard::new(&picture, None, 1.0).unwrap();
    assert_eq!(search.search(&noise(9, 19, 400)), None, "it does not fit");
}

#[test]
fn transparent_parts_count_as_black() {
    let picture = noise(6, 12, 12);
    let clear = Gray::filled(12, 12, 0);
    assert!(matches!(
        Donard::new(&picture, Some(&clear), 0.0).unwrap_err(),
        PictureError::Unreachable { most: 0.0, .. }
    ));
    let opaque = Donard::new(&picture, Some(&Gray::filled(12, 12, 255)), 0.0).unwrap();
    assert_eq!(opaque.own_score(), Donard::new(&picture, None, 0.0).unwrap().own_score());
}

#[test]
fn donard_searcher_reads_images_in_full() {
    let (image, picture) = planted(|pixel| pixel);
    let searcher = Searcher::by_donard(Donard::new(&picture, None, 1.0).unwrap());
    assert_eq!(searcher.coarsest(), 0);
    let hits = searcher.search(&image);
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].x, hits[0].y), (200, 150));
}
