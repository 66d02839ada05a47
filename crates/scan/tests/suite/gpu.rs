//! The search on a GPU against that of the processor, with a mock that compiles the same kernels for the processor.
//! No GPU has run these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mock::Mock;
use peerlane_engine::endpoints::GpuName;
use peerlane_memory::LibraryError;
use peerlane_memory::cuda::{Cuda, CudaError};
use peerlane_memory::nvrtc::{ImageKind, Nvrtc, NvrtcError};
use peerlane_results::RouteChoice;
use peerlane_scan::cuda::{GpuOptions, GpuScanError, GpuSearch, GpuWork, KERNELS, scan_on_gpu};
use peerlane_scan::formats::{Encoding, decode_with_opacity};
use peerlane_scan::haystack::{Recipe, store};
use peerlane_scan::{Crops, Gray, Pose, ScanEvent, Searcher, inputs, pictures, scan};
use peerlane_units::Nanos;

/// Hits of each image by name; `None` for one that was not searched.
pub(crate) type Found = BTreeMap<String, Option<(u64, Vec<String>)>>;

pub(crate) fn options(threads: usize) -> GpuOptions {
    let deadline = Nanos::seconds(60);
    GpuOptions { gpu: GpuName::Index(0), route: RouteChoice::Host, threads, deadline }
}

pub(crate) fn open<'a>(
    mock: &Mock,
    searcher: &'a Searcher,
    options: GpuOptions,
) -> Result<GpuSearch<'a>, GpuScanError> {
    let cuda = Cuda::load_from(&mock.library())?;
    let nvrtc = Nvrtc::load_from(&mock.library())?;
    let facts = cuda.gpus()?.remove(0);
    GpuSearch::on(searcher, options, (&cuda, &facts), &nvrtc)
}

/// A hit with its score to the last bit.
fn note(found: &mut Found, event: ScanEvent) -> bool {
    let ScanEvent::Answer(answer) = event else { return true };
    let name = Path::new(&answer.image).file_name().map(|name| name.to_string_lossy().into_owned());
    let hits = answer.found.ok().map(|(pixels, hits)| {
        let words = hits.iter().map(|hit| format!("{hit:?} {:08x}", hit.score.to_bits()));
        (pixels, words.collect())
    });
    found.insert(name.unwrap_or(answer.image), hits);
    true
}

pub(crate) fn by_processor(folder: &Path, searcher: &Searcher) -> Found {
    let mut found = Found::new();
    let all = inputs::walk(vec![folder.display().to_string()]);
    scan(all, searcher, 2, Crops::Dropped, |answer, _| note(&mut found, answer));
    found
}

pub(crate) fn by_gpu(
    mock: &Mock,
    folder: &Path,
    searcher: &Searcher,
    options: GpuOptions,
) -> (Found, GpuWork) {
    let search = open(mock, searcher, options).unwrap();
    let mut found = Found::new();
    let all = inputs::walk(vec![folder.display().to_string()]);
    let work =
        scan_on_gpu(all, &search, Crops::Dropped, |answer, _| note(&mut found, answer)).unwrap();
    drop(search);
    mock.expect_all_undone();
    (found, work)
}

pub(crate) fn searcher(
    picture: &Gray,
    scales: &[f32],
    rotations: &[f32],
    threshold: f32,
) -> Searcher {
    let poses = scales.iter().flat_map(|scale| {
        rotations.iter().map(|degrees| Pose { scale: *scale, degrees: *degrees })
    });
    Searcher::new(pictures(picture, None, poses).unwrap(), threshold)
}

/// A haystack of files of one form below a folder, and the folder of its images.
pub(crate) fn hay(recipe: &Recipe, encoding: Encoding) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hay = folder.path().join("hay");
    store(recipe, &hay, encoding, || false).unwrap();
    (folder, hay.join("images"))
}

pub(crate) fn recipe(seed: u64, images: u32, side: usize) -> Recipe {
    Recipe { seed, images, side, planted_per_mille: 500, ..Recipe::default() }
}

#[test]
fn plain_images_match_processor_bit_exactly() {
    for (seed, encoding) in [(11, Encoding::Pgm), (12, Encoding::Bmp), (13, Encoding::Tiff)] {
        let recipe = recipe(seed, 6, 700);
        let (_folder, images) = hay(&recipe, encoding);
        let searcher = searcher(&recipe.picture(), &[1.0], &[0.0], 0.9);
        let mock = Mock::new("delay=1");
        let (found, work) = by_gpu(&mock, &images, &searcher, options(2));
        assert_eq!(found, by_processor(&images, &searcher), "{encoding:?}");
        let hits = found.values().flatten().map(|(_, hits)| hits.len()).sum::<usize>();
        assert_eq!((found.len(), hits, work.through_host.0), (6, 3, 6), "{encoding:?}: {work:?}");
        assert_eq!((work.direct.0, work.decoded.0), (0, 0));
        let pixels: u64 = found.values().flatten().map(|(pixels, _)| pixels).sum();
        assert!(work.means.amount <= pixels && work.means.amount > pixels * 9 / 10, "{work:?}");
        assert!(work.correlate.time.0 > 0 && work.correlate.amount > 0);
    }
}

#[test]
fn compressed_images_are_decoded_and_uploaded() {
    for (seed, encoding) in [(21, Encoding::Png), (22, Encoding::Jpeg)] {
        let recipe = recipe(seed, 6, 700);
        let (_folder, images) = hay(&recipe, encoding);
        let searcher = searcher(&recipe.picture(), &[1.0], &[0.0], 0.9);
        let mock = Mock::new("delay=1");
        let (found, work) = by_gpu(&mock, &images, &searcher, options(2));
        assert_eq!(found, by_processor(&images, &searcher), "{encoding:?}");
        assert_eq!(work.decoded.0 + work.by_means, 6, "{work:?}");
        assert_eq!(work.by_means > 0, encoding == Encoding::Jpeg, "{work:?}");
    }
}

#[test]
fn weighted_poses_match_processor_bit_exactly() {
    let (scales, rotations) = ([0.5, 1.0], [0.0, 30.0]);
    let recipe = Recipe {
        scales: scales.to_vec(),
        rotations: rotations.to_vec(),
        planted_per_mille: 1000,
        ..recipe(31, 2, 800)
    };
    let (_folder, images) = hay(&recipe, Encoding::Pgm);
    // With a low threshold there are many places to follow, in many rounds.
    for threshold in [0.9, 0.6] {
        let searcher = searcher(&recipe.picture(), &scales, &rotations, threshold);
        let mock = Mock::new("delay=1\nmemory=536870912");
        let (found, work) = by_gpu(&mock, &images, &searcher, options(1));
        assert_eq!(found, by_processor(&images, &searcher), "{threshold}");
        assert!(found.values().flatten().all(|(_, hits)| !hits.is_empty()));
        // The coarse level, a finer one, and full resolution: once each for all images and poses.
        assert!((3..12).contains(&work.other.amount), "{work:?}");
    }
}

#[test]
fn small_picture_is_searched_at_full_resolution() {
    let recipe = recipe(41, 2, 640);
    let (_folder, images) = hay(&recipe, Encoding::Pgm);
    let first = fs::read(images.join("000001.pgm")).unwrap();
    let (image, _) = decode_with_opacity(first).unwrap();
    let picture = image.part(97, 55, 14, 13);
    let searcher = searcher(&picture, &[1.0], &[0.0], 0.95);
    let mock = Mock::new("delay=1\nmemory=536870912");
    let (found, _) = by_gpu(&mock, &images, &searcher, options(1));
    assert_eq!(found, by_processor(&images, &searcher));
    let hits = &found["000001.pgm"].as_ref().unwrap().1;
    assert!(hits.iter().any(|hit| hit.contains("x: 97, y: 55")), "{hits:?}");
}

#[test]
fn all_test_images_match_processor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let (gray, _) = decode_with_opacity(fs::read(folder.join("mark.png")).unwrap()).unwrap();
    let searcher = searcher(&gray, &[1.0], &[0.0], 0.9);
    let mock = Mock::new("delay=1");
    let (found, work) = by_gpu(&mock, &folder, &searcher, options(3));
    assert_eq!(found, by_processor(&folder, &searcher));
    assert!(found.values().any(Option::is_none) && work.decoded.0 > 5 && work.through_host.0 > 2);
}

#[test]
fn oversized_image_fails_alone() {
    let (small, large) = (recipe(51, 2, 640), recipe(52, 1, 3000));
    let (folder, images) = hay(&small, Encoding::Pgm);
    let (_other, more) = hay(&large, Encoding::Pgm);
    fs::copy(more.join("000000.pgm"), images.join("large.pgm")).unwrap();
    let searcher = searcher(&small.picture(), &[1.0], &[0.0], 0.9);
    // Room for what all need, and for the small ones.
    let mock = Mock::new("delay=1\nmemory=6000000");
    let (found, _) = by_gpu(&mock, &images, &searcher, options(1));
    let searched: Vec<bool> = found.values().map(Option::is_some).collect();
    assert_eq!(searched, [true, true, false], "{found:?}");
    drop(folder);
}

#[test]
fn gpu_failure_or_hang_ends_scan() {
    let recipe = recipe(61, 3, 640);
    let (_folder, images) = hay(&recipe, Encoding::Pgm);
    let searcher = searcher(&recipe.picture(), &[1.0], &[0.0], 0.9);
    let mut hasty = options(2);
    hasty.deadline = Nanos(200_000_000);
    for (conf, options, says) in [
        ("fail_launch=9", options(2), "cuLaunchKernel failed: launch failed (719)"),
        ("fail_copy=4", options(2), "failed: launch failed (719)"),
        ("delay=100000000", hasty, "the GPU did not finish within 200"),
        ("late_code=1", options(1), "of a later CUDA than the driver (222)"),
        ("bad_kernels=1", options(1), "NVRTC refuses the kernels"),
    ] {
        let mock = Mock::new(conf);
        let failed = open(&mock, &searcher, options).and_then(|search| {
            let all = inputs::walk(vec![images.display().to_string()]);
            scan_on_gpu(all, &search, Crops::Dropped, |_, _| true)
        });
        let error = failed.map(|_| ()).expect_err(conf);
        assert!(error.to_string().contains(says), "{conf}: {error}");
        mock.expect_no_violation();
    }
}

#[test]
fn stopped_scan_frees_gpu_memory() {
    let recipe = recipe(71, 8, 640);
    let (_folder, images) = hay(&recipe, Encoding::Pgm);
    let searcher = searcher(&recipe.picture(), &[1.0], &[0.0], 0.9);
    let mock = Mock::new("delay=1");
    let search = open(&mock, &searcher, options(2)).unwrap();
    let mut told = 0;
    let all = inputs::walk(vec![images.display().to_string()]);
    scan_on_gpu(all, &search, Crops::Dropped, |_, _| {
        told += 1;
        false
    })
    .unwrap();
    drop(search);
    assert_eq!(told, 1);
    mock.expect_all_undone();
    assert!(mock.calls("cuMemsetD8Async") >= 4, "what was there is overwritten");
}

#[test]
fn unsupported_search_is_refused_without_gpu() {
    let searcher = Searcher::new(Vec::new(), 0.9);
    let error = GpuSearch::open(&searcher, options(1)).map(|_| ()).expect_err("no kernels");
    assert!(matches!(error, GpuScanError::Method) && error.hint().is_some(), "{error}");
}

#[test]
fn code_is_cubin_or_ptx() {
    for (conf, kind) in [("", ImageKind::Cubin), ("no_arch=1", ImageKind::Ptx)] {
        let mock = Mock::new(conf);
        let nvrtc = Nvrtc::load_from(&mock.library()).unwrap();
        assert_eq!(nvrtc.compile(KERNELS, "kernels.cu", (9, 0)).unwrap().kind(), kind);
        let error = nvrtc.compile(KERNELS, "kernels.cu", (3, 5)).unwrap_err();
        assert_eq!(error, NvrtcError::Gpu { major: 3, minor: 5 });
        assert!(error.is_missing() && error.hint().is_some());
        mock.expect_no_violation();
    }
}

#[test]
fn missing_compiler_error_has_hint() {
    let error = Nvrtc::load_from(Path::new("/nowhere/libnvrtc.so.12")).unwrap_err();
    assert!(error.is_missing() && error.hint().is_some_and(|hint| hint.contains("pip install")));
    let error = Nvrtc::load_from(Path::new("libc.so.6")).unwrap_err();
    let NvrtcError::Library(LibraryError::NoFunction { symbol, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(symbol, "nvrtcVersion");
    assert!(Nvrtc::load((10, 2)).is_err_and(|error| error.to_string().contains("10.2")));
    let mock = Mock::new("devices=0");
    let error = Cuda::load_from(&mock.library()).map(|_| ()).unwrap_err();
    assert!(matches!(error, CudaError::Call { code: 100, .. }));
}
