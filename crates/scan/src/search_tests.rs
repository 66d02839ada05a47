use crate::haystack::Recipe;
use crate::pose::posed;
use crate::{Gray, Picture, Pose, Searcher};

fn searcher(recipe: &Recipe, scales: &[f32], rotations: &[f32]) -> Searcher {
    let gray = recipe.picture();
    let poses = scales.iter().flat_map(|scale| rotations.iter().map(|degrees| (*scale, *degrees)));
    let pictures = poses
        .map(|(scale, degrees)| {
            let pose = Pose { scale, degrees };
            let (gray, opacity) = posed(&gray, None, pose);
            Picture::new(&gray, opacity.as_ref(), pose).unwrap()
        })
        .collect();
    Searcher::new(pictures, 0.9)
}

fn check(recipe: &Recipe, scales: &[f32], rotations: &[f32]) {
    let searcher = searcher(recipe, scales, rotations);
    let picture = recipe.picture();
    for index in 0..recipe.images {
        let (image, answer) = recipe.image(&picture, index, format!("{index}"));
        let hits = searcher.search(&image);
        if answer.planted {
            assert_eq!(hits.len(), 1, "image {index} of seed {}: {answer:?} {hits:?}", recipe.seed);
            assert!(hits[0].x.abs_diff(answer.x.unwrap()) <= 1, "{answer:?} {hits:?}");
            assert!(hits[0].y.abs_diff(answer.y.unwrap()) <= 1, "{answer:?} {hits:?}");
        } else {
            assert_eq!(hits, [], "image {index} of seed {}", recipe.seed);
        }
    }
}

#[test]
fn every_planted_picture_is_found_and_nothing_else() {
    for seed in 0..8 {
        let recipe =
            Recipe { seed, images: 10, side: 700, planted_per_mille: 500, ..Recipe::default() };
        check(&recipe, &[1.0], &[0.0]);
    }
}

/// The picture of a seed, and an image with it at these places.
fn with_picture_at(seed: u64, side: usize, places: &[(usize, usize)]) -> (Gray, Gray) {
    let recipe = Recipe { seed, side, planted_per_mille: 0, ..Recipe::default() };
    let picture = recipe.picture();
    let (mut image, _) = recipe.image(&picture, 3, String::new());
    places.iter().for_each(|(x, y)| put(&mut image, &picture, *x, *y));
    (picture, image)
}

fn put(image: &mut Gray, picture: &Gray, x: usize, y: usize) {
    let stride = image.width();
    for row in 0..picture.height() {
        let begin = (y + row) * stride + x;
        image.pixels_mut()[begin..begin + picture.width()].copy_from_slice(picture.row(row));
    }
}

fn places(picture: &Gray, opacity: Option<&Gray>, image: &Gray) -> Vec<(usize, usize)> {
    let picture = Picture::new(picture, opacity, Pose::default()).unwrap();
    let mut places: Vec<_> =
        Searcher::new(vec![picture], 0.9).search(image).iter().map(|hit| (hit.x, hit.y)).collect();
    places.sort_unstable();
    places
}

#[test]
fn a_picture_is_found_at_every_edge_and_corner() {
    for seed in 20..26 {
        let (picture, image) = with_picture_at(seed, 900, &[]);
        let (right, bottom) = (image.width() - picture.width(), image.height() - picture.height());
        let (across, down) = (right / 2, bottom / 2);
        let edges = [(0, down), (right, down), (across, 0), (across, bottom)];
        for (x, y) in [(0, 0), (right, 0), (0, bottom), (right, bottom)].into_iter().chain(edges) {
            let mut image = image.clone();
            put(&mut image, &picture, x, y);
            assert_eq!(places(&picture, None, &image), [(x, y)], "seed {seed}");
        }
    }
}

#[test]
fn several_pictures_in_one_image_are_all_found() {
    for seed in 30..34 {
        let at = [(0, 0), (0, 200), (0, 361), (450, 3), (455, 290)];
        let (picture, image) = with_picture_at(seed, 1200, &at);
        assert_eq!(places(&picture, None, &image), at, "seed {seed}");
    }
}

#[test]
fn image_about_picture_size_is_searched() {
    let picture = Recipe::default().picture();
    assert_eq!(places(&picture, None, &picture), [(0, 0)]);
    for more in 1..20 {
        let mut image = Gray::filled(picture.width() + more, picture.height() + more, 90);
        put(&mut image, &picture, more, more / 2);
        assert_eq!(places(&picture, None, &image), [(more, more / 2)]);
    }
    let cut = picture.part(1, 0, picture.width() - 1, picture.height());
    assert_eq!(places(&picture, None, &cut), []);
}

#[test]
fn transparent_parts_match_anything() {
    for seed in 40..44 {
        let (mut picture, image) = with_picture_at(seed, 800, &[(211, 307)]);
        let mut opacity = Gray::filled(picture.width(), picture.height(), 255);
        let (width, rows) = (picture.width(), picture.height());
        for y in 0..rows {
            opacity.pixels_mut()[y * width..y * width + width / 4].fill(0);
            picture.pixels_mut()[y * width..y * width + width / 4].fill(77);
        }
        assert_eq!(places(&picture, Some(&opacity), &image), [(211, 307)], "seed {seed}");
        let nothing = Gray::filled(width, rows, 0);
        assert!(Picture::new(&picture, Some(&nothing), Pose::default()).is_err());
    }
}

#[test]
fn flat_images_and_pictures_never_match() {
    let picture = Recipe::default().picture();
    for shade in [0, 128, 255] {
        assert_eq!(places(&picture, None, &Gray::filled(700, 500, shade)), []);
        assert!(Picture::new(&Gray::filled(64, 64, shade), None, Pose::default()).is_err());
    }
}

#[test]
fn small_and_large_pictures_are_found() {
    let recipe = Recipe { seed: 50, side: 900, planted_per_mille: 0, ..Recipe::default() };
    let (image, _) = recipe.image(&recipe.picture(), 2, String::new());
    let around = |width, height| image.part(97, 55, width, height);
    for (width, height) in [(13, 12), (24, 24), (image.width() - 98, image.height() - 57)] {
        let picture = around(width, height);
        if let Ok(ready) = Picture::new(&picture, None, Pose::default()) {
            let hits = Searcher::new(vec![ready], 0.9).search(&image);
            let is_found = hits.iter().any(|hit| (hit.x, hit.y) == (97, 55));
            assert!(is_found, "{width} x {height}: {:?}", hits.first());
        }
    }
}

#[test]
fn sizes_and_rotations_that_are_looked_for_are_found() {
    let scales = [0.5, 0.8, 1.0, 1.5];
    let rotations = [0.0, 30.0, -90.0];
    let recipe = Recipe {
        seed: 60,
        images: 3,
        side: 1000,
        planted_per_mille: 1000,
        scales: scales.to_vec(),
        rotations: rotations.to_vec(),
    };
    check(&recipe, &scales, &rotations);
}
