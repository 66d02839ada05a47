//! Batches of images on a GPU, by the mock: content, cost, and isolation of one image from the others.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::gpu::{Found, by_gpu, by_processor, hay, open, options, recipe, searcher};
use crate::mock::Mock;
use peerlane_scan::cuda::scan_on_gpu;
use peerlane_scan::formats::{Encoding, encode};
use peerlane_scan::haystack::Recipe;
use peerlane_scan::{Crops, Gray, ScanEvent, inputs, scan};

const FORMS: [(Encoding, &str); 4] = [
    (Encoding::Pgm, "pgm"),
    (Encoding::Bmp, "bmp"),
    (Encoding::Tiff, "tiff"),
    (Encoding::Png, "png"),
];

/// Small images of all forms and many sizes, cut out of the images of a haystack, in a folder; and
/// a picture that some of them hold in full.
fn small_images(count: usize) -> (tempfile::TempDir, Gray) {
    let recipe = Recipe { planted_per_mille: 1000, ..recipe(81, 3, 640) };
    let mark = recipe.picture();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for index in 0..count {
        let (image, answer) = recipe.image(&mark, u32::try_from(index % 3).unwrap(), String::new());
        let (width, height) = (140 + index * 7 % 90, 110 + index * 11 % 70);
        let (x, y) = (answer.x.unwrap() + index % 9, answer.y.unwrap() + index % 7);
        let (x, y) = (x.min(image.width() - width), y.min(image.height() - height));
        let (encoding, extension) = FORMS[index % FORMS.len()];
        let bytes = encode(&image.part(x, y, width, height), encoding).unwrap();
        fs::write(folder.path().join(format!("{index:03}.{extension}")), bytes).unwrap();
    }
    (folder, mark.part(12, 10, 80, 64))
}

fn hits(found: &Found) -> usize {
    found.values().flatten().map(|(_, hits)| hits.len()).sum()
}

#[test]
fn many_images_share_few_waits() {
    let (folder, picture) = small_images(70);
    for scales in [&[1.0][..], &[0.8, 1.0, 1.25][..]] {
        let searcher = searcher(&picture, scales, &[0.0], 0.8);
        let mock = Mock::new("delay=1");
        let (found, work) = by_gpu(&mock, folder.path(), &searcher, options(2));
        assert_eq!(found, by_processor(folder.path(), &searcher), "{scales:?}");
        assert!(found.len() == 70 && hits(&found) > 20, "{} hits", hits(&found));
        assert_eq!((work.through_host.0, work.decoded.0), (53, 17), "{work:?}");
        assert!((3..35).contains(&work.other.amount), "{scales:?}: {work:?}");
    }
}

#[test]
fn broken_images_leave_rest_of_batch() {
    let (folder, picture) = small_images(12);
    let cut = |name: &str, part: usize| {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / part]).unwrap();
    };
    cut("004.pgm", 2);
    cut("006.tiff", 3);
    cut("007.png", 2);
    fs::write(folder.path().join("005.bmp"), "").unwrap();
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.8);
    let mock = Mock::new("delay=1");
    let (found, work) = by_gpu(&mock, folder.path(), &searcher, options(2));
    assert_eq!(found, by_processor(folder.path(), &searcher));
    let broken = found.iter().filter(|(_, found)| found.is_none());
    let broken: Vec<&str> = broken.map(|(name, _)| name.as_str()).collect();
    assert_eq!(broken, ["004.pgm", "005.bmp", "006.tiff", "007.png"]);
    assert_eq!((work.through_host.0, work.decoded.0), (6, 2), "{work:?}");
}

#[test]
fn small_memory_makes_more_batches() {
    let recipe = recipe(82, 6, 640);
    let (_folder, images) = hay(&recipe, Encoding::Pgm);
    let searcher = searcher(&recipe.picture(), &[1.0], &[0.0], 0.9);
    let by_processor = by_processor(&images, &searcher);
    let waits = ["delay=1\nmemory=134217728", "delay=1\nmemory=8000000"].map(|conf| {
        let mock = Mock::new(conf);
        let (found, work) = by_gpu(&mock, &images, &searcher, options(2));
        assert_eq!(found, by_processor, "{conf}");
        assert_eq!(work.through_host.0, 6, "{conf}: {work:?}");
        work.other.amount
    });
    assert!(waits[1] > waits[0], "{waits:?}");
}

#[test]
fn images_after_oversized_one_are_searched() {
    let (folder, picture) = small_images(70);
    let large = Gray::filled(4000, 3600, 90);
    let bytes = encode(&large, Encoding::Pgm).unwrap();
    fs::write(folder.path().join("000-large.pgm"), bytes).unwrap();
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.8);
    let mut expected = by_processor(folder.path(), &searcher);
    assert!(expected.insert("000-large.pgm".to_owned(), None).unwrap().is_some());
    // The large one leaves its batch with less memory than the others need.
    let mock = Mock::new("delay=1\nmemory=16000000");
    let (found, _) = by_gpu(&mock, folder.path(), &searcher, options(1));
    assert_eq!(found, expected);
}

/// An image with nearly each pixel different from its neighbours.
fn noise(state: &mut u64, side: usize) -> Gray {
    let pixels = (0..side * side).map(|_| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    Gray::new(side, side, pixels.collect()).unwrap()
}

#[test]
fn too_many_peaks_are_searched_in_halves() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut state = 83_u64;
    let images: Vec<Gray> = std::iter::repeat_with(|| noise(&mut state, 300)).take(6).collect();
    for (index, image) in images.iter().enumerate() {
        let bytes = encode(image, Encoding::Pgm).unwrap();
        fs::write(folder.path().join(format!("{index}.pgm")), bytes).unwrap();
    }
    let (images, picture) = (folder.path(), images[1].part(97, 55, 14, 13));
    // Nearly every peak is worth a look.
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.05);
    let mock = Mock::new("delay=1\nmemory=536870912");
    let (found, work) = by_gpu(&mock, images, &searcher, options(2));
    assert_eq!(found, by_processor(images, &searcher));
    let pixels: u64 = found.values().flatten().map(|(pixels, _)| pixels).sum();
    assert!(work.means.amount > pixels, "means were computed again: {work:?}");
}

#[test]
fn crops_match_those_of_processor() {
    let (folder, picture) = small_images(8);
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.8);
    let walk = || inputs::walk(vec![folder.path().display().to_string()]);
    let mut sets: [Vec<(String, Vec<Gray>)>; 2] = Default::default();
    let note = |set: &mut Vec<(String, Vec<Gray>)>, event| {
        if let ScanEvent::Answer(answer) = event {
            set.push((answer.image, answer.crops));
        }
        true
    };
    let mock = Mock::new("delay=1");
    let search = open(&mock, &searcher, options(2)).unwrap();
    scan_on_gpu(walk(), &search, Crops::Kept, |event, _| note(&mut sets[0], event)).unwrap();
    scan(walk(), &searcher, 2, Crops::Kept, |event, _| note(&mut sets[1], event));
    sets.iter_mut().for_each(|set| set.sort_by(|a, b| a.0.cmp(&b.0)));
    let ended_with =
        |end: &str| sets[0].iter().any(|(image, crops)| image.ends_with(end) && !crops.is_empty());
    assert!(FORMS.iter().all(|(_, extension)| ended_with(extension)), "{:?}", sets[0]);
    assert!(sets[0] == sets[1], "{sets:?}");
}

/// Lets kernels end: a scan drops the function that stopped it after it noted the stop.
struct ReleaseOnDrop<'a>(&'a Mock);

impl ReleaseOnDrop<'_> {
    fn has_launched(&self) -> bool {
        self.0.log().iter().any(|line| line.starts_with("cuLaunchKernel"))
    }
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.configure("delay=1");
    }
}

#[test]
fn stopped_scan_leaves_batch_between_rounds() {
    let (folder, picture) = small_images(1);
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.8);
    let (found, whole) = by_gpu(&Mock::new("delay=1"), folder.path(), &searcher, options(1));
    assert!(hits(&found) == 1 && whole.other.amount > 3, "{whole:?}");
    let mock = Mock::new("delay=1\nheld=1");
    let search = open(&mock, &searcher, options(1)).unwrap();
    let release = ReleaseOnDrop(&mock);
    let all = inputs::walk(vec![folder.path().display().to_string()]);
    let work = scan_on_gpu(all, &search, Crops::Dropped, move |event, _| {
        assert!(matches!(event, ScanEvent::Underway(_)), "{event:?}");
        !release.has_launched()
    });
    let waits = work.unwrap().other.amount;
    assert!((1..whole.other.amount).contains(&waits), "{waits} of {}", whole.other.amount);
    drop(search);
    mock.expect_all_undone();
}
