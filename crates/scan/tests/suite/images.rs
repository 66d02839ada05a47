//! Images of every kind, sound and broken, each searched for the mark that the sound ones hold.
//!
//! `images/make.py` made them.

use std::fs;
use std::path::{Path, PathBuf};

use peerlane_scan::formats::decode_with_opacity;
use peerlane_scan::{Crops, Picture, Pose, ScanEvent, Searcher, inputs, look, scan};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

fn searcher() -> Searcher {
    let (gray, _) =
        decode_with_opacity(fs::read(folder().join("mark.png")).expect("an image of the tests"))
            .expect("an image of the tests");
    Searcher::new(
        vec![Picture::new(&gray, None, Pose::default()).expect("an image of the tests")],
        0.9,
    )
}

fn named(prefix: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder())
        .expect("an image of the tests")
        .map(|entry| entry.expect("an image of the tests").path())
        .collect();
    paths.retain(|path| {
        path.file_name()
            .expect("an image of the tests")
            .to_str()
            .expect("an image of the tests")
            .starts_with(prefix)
    });
    paths.sort();
    assert!(paths.len() > 15, "{prefix}: {paths:?}");
    paths
}

#[test]
fn the_mark_is_found_in_every_form_of_image() {
    let searcher = searcher();
    for path in named("right-") {
        let hits = match look(fs::read(&path).unwrap(), &searcher) {
            Ok((_, hits)) => hits,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let is_empty = ["thin", "flat"].iter().any(|kind| path.to_str().unwrap().contains(kind));
        let places: Vec<_> = hits.iter().map(|hit| (hit.x, hit.y)).collect();
        let expected: &[(usize, usize)] = if is_empty { &[] } else { &[(40, 24)] };
        assert_eq!(places, expected, "{}", path.display());
    }
}

#[test]
fn broken_images_are_errors_with_words() {
    let searcher = searcher();
    for path in named("wrong-") {
        match look(fs::read(&path).unwrap(), &searcher) {
            Ok((pixels, hits)) => panic!("{}: {pixels} pixels, {hits:?}", path.display()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_broken_image_costs_no_other_its_answer() {
    let (mut right, mut wrong) = (0, 0);
    let found = inputs::walk(vec![folder().display().to_string()]);
    scan(found, &searcher(), 3, Crops::Kept, |event, _| {
        let ScanEvent::Answer(answer) = event else { return true };
        match answer.found {
            Ok((_, hits)) => {
                assert_eq!(answer.crops.len(), hits.len());
                right += 1;
            }
            Err(_) => wrong += 1,
        }
        true
    });
    // The mark itself, and the script, which is not an image.
    assert_eq!((right, wrong), (named("right-").len() + 1, named("wrong-").len() + 1));
}

#[cfg(unix)]
#[test]
fn a_pipe_among_the_images_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a.jpg");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // One that is named is an error; a folder's is passed over.
    for (named, expected) in [(pipe.as_path(), &[true][..]), (folder.path(), &[])] {
        let mut told = Vec::new();
        let found = inputs::walk(vec![named.display().to_string()]);
        scan(found, &searcher(), 1, Crops::Dropped, |event, _| {
            if let ScanEvent::Answer(answer) = event {
                told.push(answer.found.is_err());
            }
            true
        });
        assert_eq!(told, expected, "{}", named.display());
    }
}
