use super::means;
use crate::formats::{Encoding, decode, encode};
use crate::haystack::{Chance, Recipe};
use crate::reduce::{PixelArea, reduce};

fn jpeg(seed: u64) -> Vec<u8> {
    let recipe = Recipe { seed, side: 300, ..Recipe::default() };
    let (image, _) = recipe.image(&recipe.picture(), 0, String::new());
    encode(&image, Encoding::Jpeg).unwrap()
}

#[test]
fn means_of_blocks_are_those_of_the_decoded_image() {
    for seed in 0..12 {
        let bytes = jpeg(seed);
        let means = means(&bytes).unwrap();
        let image = decode(bytes).unwrap();
        assert_eq!((means.width, means.height), (image.width(), image.height()));
        let expected = reduce(&image, PixelArea::all(&image), 3);
        assert_eq!((means.plane.width, means.plane.height), (expected.width, expected.height));
        let worst = means.plane.values.iter().zip(&expected.values).map(|(a, b)| (a - b).abs());
        // What is clamped to black or white after the transform moves a mean.
        let far = worst.filter(|far| *far > 1.5).count();
        assert!(
            far * 50 < expected.values.len(),
            "seed {seed}: {far} of {}",
            expected.values.len()
        );
    }
}

#[test]
fn damaged_jpegs_never_panic() {
    let whole = jpeg(1);
    let mut chance = Chance::new(5, 0);
    for length in [0, 1, 2, 3, 20, 100, whole.len() / 2, whole.len() - 3] {
        assert!(means(&whole[..length]).is_none(), "{length} bytes");
    }
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=chance.below(6) {
            let at = chance.below(bytes.len());
            bytes[at] = chance.bits().to_be_bytes()[0];
        }
        let _ = means(&bytes);
    }
}
