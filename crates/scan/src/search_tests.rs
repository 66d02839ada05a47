use crate::haystack::Recipe;
use crate::pose::posed;
use crate::{Picture, Pose, Searcher};

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
    Searcher::new(pictures, 0.8)
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
