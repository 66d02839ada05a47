//! Copies of files with holes.

use peerlane_results::{RouteEvidence, RouteVerdict, VerifyMode};

use super::*;

const HOLE: u64 = 1 << 20;

/// A source of 4 MiB and a bit with data at its start, in the middle, and at its end.
fn sparse_source(path: &Path) -> Vec<u8> {
    let length = 4 * HOLE + 777;
    let file = File::create(path).unwrap();
    file.set_len(length).unwrap();
    for (offset, bytes) in [(0, 65_536), (2 * HOLE, 131_072), (4 * HOLE, 777)] {
        file.write_all_at(&content(bytes), offset).unwrap();
    }
    file.sync_all().unwrap();
    fs::read(path).unwrap()
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_file_with_holes_is_copied_with_its_holes() {
    let bench = bench();
    let expected = sparse_source(&bench.source);
    if allocated(&bench.source) >= expected.len() as u64 {
        eprintln!("skipped: this file system keeps no holes");
        return;
    }
    let record = bench.run(&bench.asked(), &mut ()).unwrap();
    assert!(fs::read(&bench.target).unwrap() == expected);
    assert_eq!(fs::metadata(&bench.target).unwrap().len(), expected.len() as u64);
    assert!(allocated(&bench.target) <= allocated(&bench.source) + (128 << 10));
    let content = record.content;
    assert_eq!(content.data.0 + content.holes.0, expected.len() as u64);
    assert!(content.holes.0 >= 3 * HOLE && content.zeroed_by_device == Bytes::ZERO);
    assert_eq!(record.verification.bytes.0, expected.len() as u64, "holes count as content");
}

/// Makes a file of data at some offsets, in holes.
fn file_with_holes(path: &Path, length: u64, data: &[u64]) {
    let file = File::create(path).unwrap();
    file.set_len(length).unwrap();
    data.iter().for_each(|&offset| file.write_all_at(b"hello", offset).unwrap());
    file.sync_all().unwrap();
}

#[test]
fn short_holes_around_data_stay_holes() {
    let bench = bench();
    for (length, at) in [(10 << 10, 0), (10 << 10, 8 << 10), (1 << 30, 300 << 20)] {
        file_with_holes(&bench.source, length, &[at]);
        if allocated(&bench.source) > 4096 {
            eprintln!("skipped: this file system has larger blocks");
            return;
        }
        let record = bench.run(&bench.asked(), &mut ()).unwrap();
        assert!(record.content.data <= Bytes(4096), "{:?}", record.content);
        assert!(allocated(&bench.target) <= 4096, "{length}: {}", allocated(&bench.target));
        assert_eq!(fs::metadata(&bench.target).unwrap().len(), length);
        fs::remove_file(&bench.target).unwrap();
    }
}

#[test]
fn reads_of_holes_are_no_contradiction() {
    let mut bench = bench();
    // Holes between data, too short to be left out.
    file_with_holes(&bench.source, 80 << 10, &[0, 16 << 10, 50 << 10]);
    for sparse in [Sparse::Auto, Sparse::Never] {
        for verify in [VerifyMode::Sample, VerifyMode::Full, VerifyMode::None] {
            bench.options.sparse = sparse;
            let record = bench.run(&Asked { verify, ..bench.asked() }, &mut ()).unwrap();
            fs::remove_file(&bench.target).unwrap();
            let counters = |one: &&RouteEvidence| one.evidence.looked_at.starts_with("block layer");
            let Some(source) = record.evidence.iter().find(counters) else {
                eprintln!("skipped: no device is below the files of this build");
                return;
            };
            let showed = &source.evidence.showed;
            assert_ne!(record.verdict, RouteVerdict::Contradicted, "{showed}");
            if source.says == RouteVerdict::Consistent {
                assert!(showed.ends_with(" bytes of holes were not read"), "{showed}");
            }
        }
    }
}

#[test]
fn sparse_never_moves_holes_as_data() {
    let mut bench = bench();
    let expected = sparse_source(&bench.source);
    bench.options.sparse = Sparse::Never;
    let record = bench.run(&bench.asked(), &mut ()).unwrap();
    assert!(fs::read(&bench.target).unwrap() == expected);
    assert_eq!((record.content.data.0, record.content.holes.0), (expected.len() as u64, 0));
    assert!(allocated(&bench.target) >= expected.len() as u64);
}

#[test]
fn a_copy_with_holes_goes_on_after_every_stop() {
    let mut bench = bench();
    let expected = sparse_source(&bench.source);
    let asked = Asked { block: Bytes(16384), depth: 1, ..bench.asked() };
    let mut stops = 0;
    let record = loop {
        match bench.run(&asked, &mut Stopper(false)) {
            Ok(record) => break record,
            Err(CopyError::Interrupted { journal: Some(_), .. }) => stops += 1,
            Err(error) => panic!("{error:?}"),
        }
        bench.options.start = Start::Resume;
        assert!(stops < 1000);
    };
    assert!(stops > 5 && record.content.before > Bytes::ZERO);
    assert!(fs::read(&bench.target).unwrap() == expected);
    assert!(allocated(&bench.target) <= allocated(&bench.source) + (256 << 10));
    assert_eq!(names(bench.folder.path()), ["target"]);
}

#[test]
fn holes_make_a_device_zero_that_held_something() {
    let mut bench = bench();
    let expected = sparse_source(&bench.source);
    let backing = bench.folder.path().join("backing");
    fs::write(&backing, vec![0xa5; 6 << 20]).unwrap();
    let Some(device) = Loop::over(&backing) else { return };
    bench.target = device.0.clone();
    let asked = Asked { target_offset: Bytes(8192), force: true, ..bench.asked() };
    let record = bench.run(&asked, &mut ()).unwrap();
    drop(device);
    let found = fs::read(&backing).unwrap();
    let end = 8192 + expected.len();
    assert!(found[8192..end] == expected, "content differs");
    assert!(found[..8192].iter().chain(&found[end..]).all(|&byte| byte == 0xa5));
    let content = record.content;
    assert!(content.zeroed_by_device.0 >= 3 * HOLE, "{content:?}");
    assert_eq!(content.data.0 + content.holes.0, expected.len() as u64);
    let is_told = |warning: &peerlane_results::Warning| {
        matches!(warning, peerlane_results::Warning::NotResumable { .. })
    };
    assert!(record.warnings.iter().any(is_told), "a loop device has no serial");
}
