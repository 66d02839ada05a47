use std::fs;
use std::path::Path;

use super::*;
use crate::io::ranges::RangeSet;

const CHUNK: u64 = 4096;
const LENGTH: u64 = 3 * CHUNK + 7;

fn wanted() -> ManifestHeader {
    ManifestHeader {
        schema: MANIFEST_SCHEMA.to_owned(),
        copy: "00000000000000c0".to_owned(),
        source: "/data/set".to_owned(),
        whole: true,
        after: Vec::new(),
        length: LENGTH,
        chunk: CHUNK,
        algorithm: ALGORITHM.to_owned(),
    }
}

fn content() -> Vec<u8> {
    (0..LENGTH).map(|byte| byte.to_le_bytes()[0] ^ byte.to_le_bytes()[1]).collect()
}

fn take(digests: &mut ChunkDigests, number: u64) {
    let content = content();
    let offset = number * CHUNK;
    let end = (offset + CHUNK).min(LENGTH);
    let range = usize::try_from(offset).unwrap()..usize::try_from(end).unwrap();
    digests.take(offset, end - offset, chunk_digest(&content[range])).unwrap();
}

fn written(path: &Path, order: &[u64]) -> u128 {
    let mut digests = ChunkDigests::begin(wanted(), path).unwrap();
    order.iter().for_each(|&number| take(&mut digests, number));
    digests.finish().unwrap()
}

#[test]
fn root_is_independent_of_order() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    assert_eq!(written(&one, &[0, 1, 2, 3]), written(&other, &[3, 1, 1, 0, 2]));
    let [one, other] = [one, other].map(|path| Manifest::read(&path).unwrap());
    assert_eq!(one, other);
    assert_eq!(one.chunks.len(), 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no part is left");
}

#[test]
fn cut_manifest_resumes_from_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    let whole = written(&folder.path().join("whole"), &[0, 1, 2, 3]);
    let mut digests = ChunkDigests::begin(wanted(), &path).unwrap();
    [2, 0, 1].iter().for_each(|&number| take(&mut digests, number));
    digests.flush().unwrap();
    drop(digests);
    let part = folder.path().join("manifest.part");
    let length = fs::metadata(&part).unwrap().len();
    fs::File::options().write(true).open(&part).unwrap().set_len(length - 9).unwrap();
    let mut digests = ChunkDigests::resume(wanted(), &path).unwrap();
    assert!(digests.known().contains_range(0..CHUNK) && !digests.known().contains(CHUNK));
    [1, 3].iter().for_each(|&number| take(&mut digests, number));
    assert_eq!(digests.finish().unwrap(), whole);
    assert_eq!(Manifest::read(&path).unwrap().root, whole);
}

#[test]
fn zeroes_get_the_digest_of_zeroes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    let mut digests = ChunkDigests::begin(wanted(), &path).unwrap();
    take(&mut digests, 0);
    assert!(matches!(digests.finish(), Err(ManifestError::Gap { offset: CHUNK })));
    digests.take_zeroes(CHUNK..LENGTH);
    digests.finish().unwrap();
    let chunks = Manifest::read(&path).unwrap().chunks;
    assert_eq!(chunks[1].digest, chunk_digest(&[0; 4096]));
    assert_eq!(chunks[3].digest, chunk_digest(&[0; 7]));
}

#[test]
fn manifest_of_another_copy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    drop(ChunkDigests::begin(wanted(), &path).unwrap());
    assert!(matches!(ChunkDigests::begin(wanted(), &path), Err(ManifestError::Exists { .. })));
    let others = [
        ManifestHeader { chunk: 512, ..wanted() },
        ManifestHeader { length: 5, ..wanted() },
        ManifestHeader { source: "/data/other".to_owned(), ..wanted() },
        ManifestHeader { after: vec!["cuda:a.cu:k".to_owned()], ..wanted() },
    ];
    for other in others {
        let error = ChunkDigests::resume(other, &path).unwrap_err();
        assert!(matches!(error, ManifestError::Other { .. }), "{error}");
    }
}

#[test]
fn altered_manifests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    written(&path, &[0, 1, 2, 3]);
    let text = fs::read_to_string(&path).unwrap();
    assert!(parse(&text).is_ok());
    let lines: Vec<&str> = text.lines().collect();
    let without = |left: usize| {
        let kept = lines.iter().enumerate().filter(|(number, _)| *number != left);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    assert!(matches!(parse(&without(0)), Err(ManifestError::Line { line: 1, .. })));
    assert!(matches!(parse(&without(2)), Err(ManifestError::Gap { .. })));
    assert!(matches!(parse(&without(5)), Err(ManifestError::NoEnd)));
    assert!(matches!(parse(&format!("{text}{}\n", lines[1])), Err(ManifestError::Line { .. })));
    let digit = text.rfind("\"xxh128\":\"").unwrap() + 10;
    let flipped = if &text[digit..=digit] == "0" { "1" } else { "0" };
    let mut altered = text.clone();
    altered.replace_range(digit..=digit, flipped);
    assert!(matches!(parse(&altered), Err(ManifestError::Root { .. })));
    assert!(parse("").is_err());
}

#[test]
fn other_copys_digests_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    let mut digests = ChunkDigests::begin(wanted(), &path).unwrap();
    [0, 1, 2].iter().for_each(|&number| take(&mut digests, number));
    digests.flush().unwrap();
    drop(digests);
    let mut done = RangeSet::new();
    done.insert(0..2 * CHUNK);
    let resumed = || ChunkDigests::resume(wanted(), &path).unwrap();
    let mut digests = resumed();
    digests.keep_only(Some("00000000000000c0"), &done).unwrap();
    assert!(digests.known().contains_range(0..2 * CHUNK) && !digests.known().contains(2 * CHUNK));
    drop(digests);
    let mut digests = resumed();
    digests.keep_only(Some("another"), &done).unwrap();
    assert!(digests.known().is_empty());
    assert_eq!(digests.copy(), "another");
    [3, 2, 1, 0].iter().for_each(|&number| take(&mut digests, number));
    digests.finish().unwrap();
    assert_eq!(Manifest::read(&path).unwrap().header.copy, "another");
    let mut finished = resumed();
    assert!(matches!(finished.keep_only(None, &done), Err(ManifestError::Exists { .. })));
    assert!(finished.keep_only(Some("another"), &done).is_ok());
}

#[test]
fn non_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest");
    assert!(matches!(Manifest::read(Path::new("/dev/zero")), Err(ManifestError::NoFile { .. })));
    let part = folder.path().join("manifest.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    assert!(matches!(ChunkDigests::begin(wanted(), &path), Err(ManifestError::Exists { .. })));
    assert!(matches!(ChunkDigests::resume(wanted(), &path), Err(ManifestError::NoFile { .. })));
    fs::remove_file(&part).unwrap();
    let mut digests = ChunkDigests::begin(wanted(), &path).unwrap();
    assert!(matches!(ChunkDigests::resume(wanted(), &path), Err(ManifestError::Busy { .. })));
    digests.take_zeroes(0..LENGTH);
    fs::remove_file(&part).unwrap();
    fs::write(&part, "mine").unwrap();
    assert!(matches!(digests.finish(), Err(ManifestError::Replaced { .. })));
    assert_eq!(fs::read(&part).unwrap(), b"mine");
}
